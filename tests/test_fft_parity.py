"""PyTorch beside us: values, types, gradients, second derivatives and tangents of Fourier transforms and spectra."""

import inspect
import itertools
import warnings

import numpy as np
import pytest

import lucid
from lucid import func

torch = pytest.importorskip("torch")
# PyTorch's own deprecations are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NORMS = (None, "backward", "ortho", "forward")
TOLERANCE = {"float64": 1e-10, "complex128": 1e-10, "float32": 2e-5, "complex64": 2e-5}


def close(ours, theirs, what):
    theirs = theirs.detach().resolve_conj().numpy()
    ours = ours.detach().numpy()
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, what
    limit = TOLERANCE[ours.dtype.name]
    np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit * 10, err_msg=str(what))


def random(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def loss(out):
    """A real function with a second derivative; its gradient takes different values everywhere."""
    z = out.real**2 + 3 * out.imag**2 if out.is_complex() else out**2
    return (z * z).sum()


def compare(ours, theirs, arrays, what):
    """The same function of the same arrays: values, gradients, gradients of gradients, tangents."""
    a = [lucid.tensor(x, requires_grad=True) for x in arrays]
    b = [torch.tensor(x, requires_grad=True) for x in arrays]
    out, expected = ours(*a), theirs(*b)
    close(out, expected, what)
    first = lucid.autograd.grad(loss(out), a, create_graph=True)
    first_expected = torch.autograd.grad(loss(expected), b, create_graph=True)
    for g, e in zip(first, first_expected, strict=True):
        close(g, e, f"gradient of {what}")
    second = lucid.autograd.grad(sum(loss(g) for g in first), a)
    second_expected = torch.autograd.grad(sum(loss(g) for g in first_expected), b)
    for g, e in zip(second, second_expected, strict=True):
        scale = float(e.abs().max()) or 1.0
        close(g / scale, e / scale, f"second gradient of {what}")
    rng = np.random.default_rng(1)
    tangents = [random(rng, x.shape, x.dtype) for x in arrays]
    _, pushed = func.jvp(ours, tuple(map(lucid.tensor, arrays)), tuple(map(lucid.tensor, tangents)))
    _, pushed_expected = torch.func.jvp(theirs, tuple(map(torch.tensor, arrays)), tuple(map(torch.tensor, tangents)))
    close(pushed, pushed_expected, f"tangent of {what}")


def types_for(kind):
    return ("float32", "float64") + (() if kind in ("rfft", "ihfft") else ("complex64", "complex128"))


def by_name(library, name, **how):
    return lambda x: getattr(library.fft, name)(x, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_along_one_dimension(kind):
    rng = np.random.default_rng(0)
    sizes = itertools.product(((5,), (2, 6), (3, 2, 7)), (None, 1, 4, 5, 9), NORMS)
    for k, (shape, n, norm) in enumerate(sizes):
        how = {"n": n, "dim": k % len(shape) - len(shape), "norm": norm}
        if n is None and kind in ("irfft", "hfft") and shape[how["dim"]] < 2:
            continue
        dtype = types_for(kind)[k % len(types_for(kind))]
        compare(
            by_name(lucid, kind, **how), by_name(torch, kind, **how), [random(rng, shape, dtype)], (kind, shape, how)
        )


@pytest.mark.parametrize("suffix", ["2", "n"])
@pytest.mark.parametrize("kind", KINDS)
def test_along_several_dimensions(kind, suffix):
    rng = np.random.default_rng(0)
    settings = (
        {},
        {"s": (2, 5)},
        {"s": (4, -1)},
        {"dim": (0, 2)},
        {"dim": (2, 0), "s": (3, 4)},
        {"dim": 1},
        {"dim": (-2, 0), "s": (-1, 7)},
    )
    for k, (how, norm) in enumerate(itertools.product(settings, NORMS)):
        dtype = types_for(kind)[k % len(types_for(kind))]
        array = random(rng, (3, 2, 5), dtype)
        how = {**how, "norm": norm}
        compare(
            by_name(lucid, kind + suffix, **how), by_name(torch, kind + suffix, **how), [array], (kind + suffix, how)
        )


def outcome(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return type(error)


REFUSED = [
    ("fft", {"n": 0}), ("fft", {"n": -1}), ("rfft", {"n": -3}), ("irfft", {"n": 0}), ("fft", {"norm": "other"}),
    ("fft", {"dim": 5}), ("fftn", {"dim": (0, 0)}), ("fftn", {"dim": (0, -2)}), ("fftn", {"s": (1, 2, 3)}),
    ("fftn", {"s": (1,), "dim": (0, 1)}), ("fft2", {"s": (1,)}), ("rfftn", {"dim": ()}), ("fftn", {"s": (0, 1)}),
    ("fft2", {"dim": (0, 7)}), ("fft", {"n": 2.5}), ("hfft2", {"s": (2, -2)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), REFUSED, ids=str)
def test_errors_are_of_the_same_class(name, how):
    theirs = outcome(lambda: getattr(torch.fft, name)(torch.ones(3, 4), **how))
    assert isinstance(theirs, type)
    assert issubclass(outcome(lambda: getattr(lucid.fft, name)(lucid.ones(3, 4), **how)), theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int32", "bool"])
@pytest.mark.parametrize("kind", KINDS)
def test_types(kind, dtype):
    theirs = outcome(lambda: getattr(torch.fft, kind)(torch.ones(3, 4, dtype=getattr(torch, dtype))))
    ours = outcome(lambda: getattr(lucid.fft, kind)(lucid.ones(3, 4, dtype=getattr(lucid, dtype))))
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        close(ours, theirs, (kind, dtype))


def test_signatures():
    """The same names for the same arguments; theirs are in the first line of the documentation."""
    for name in (k + s for s in ("", "2", "n") for k in KINDS):
        line = getattr(torch.fft, name).__doc__.strip().splitlines()[0]
        for parameter in inspect.signature(getattr(lucid.fft, name)).parameters:
            assert parameter in line, (name, parameter)


def test_frequencies_and_shifts():
    for n, d in itertools.product((1, 2, 5, 6), (1.0, 0.3)):
        for name in ("fftfreq", "rfftfreq"):
            close(getattr(lucid.fft, name)(n, d), getattr(torch.fft, name)(n, d), (name, n, d))
    x = np.arange(30.0).reshape(2, 3, 5)
    for name, dim in itertools.product(("fftshift", "ifftshift"), (None, 0, -1, (1, 2))):
        close(getattr(lucid.fft, name)(lucid.tensor(x), dim), getattr(torch.fft, name)(torch.tensor(x), dim), name)


WINDOWS = {
    "exponential": [{"tau": 2.0}, {"center": 1.5, "sym": False}],
    "gaussian": [{"std": 2.5}],
    "general_cosine": [{"a": [0.4, 0.3, 0.3]}, {"a": (1.0,)}],
    "general_hamming": [{"alpha": 0.6}],
    "kaiser": [{"beta": 3.0}],
}


def test_every_window_is_there():
    assert set(lucid.signal.windows.__all__) == {*torch.signal.windows.__all__, "general_gaussian"}


@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_windows(name):
    cases = WINDOWS.get(name, []) + ([] if name == "general_cosine" else [{}])
    for m, how, dtype in itertools.product((0, 1, 2, 7, 8), cases, ("float32", "float64")):
        for sym in (True, False):
            settings = {"sym": sym, **how}
            ours = getattr(lucid.signal.windows, name)(m, **settings, dtype=getattr(lucid, dtype))
            theirs = getattr(torch.signal.windows, name)(m, **settings, dtype=getattr(torch, dtype))
            close(ours, theirs, (name, m, settings))


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows_at_the_top_level(name):
    for m, periodic in itertools.product((0, 1, 2, 7, 8), (True, False)):
        close(getattr(lucid, f"{name}_window")(m, periodic), getattr(torch, f"{name}_window")(m, periodic), (name, m))


STFT = [
    {"n_fft": 8},
    {"n_fft": 7, "hop_length": 3, "normalized": True},
    {"n_fft": 8, "hop_length": 3, "win_length": 5, "onesided": False},
    {"n_fft": 8, "hop_length": 5, "win_length": 6, "center": False},
    {"n_fft": 8, "hop_length": 2, "win_length": 6, "center": False, "align_to_window": True},
    {"n_fft": 6, "hop_length": 9, "pad_mode": "constant"},
    {"n_fft": 6, "hop_length": 4, "pad_mode": "replicate"},
    {"n_fft": 6, "hop_length": 4, "pad_mode": "circular"},
]


@pytest.mark.parametrize("how", STFT, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_stft(how, dtype):
    rng = np.random.default_rng(0)
    window = rng.uniform(0.5, 1.5, how.get("win_length", how["n_fft"]))
    for shape in ((20,), (2, 17)):
        compare(
            lambda x, w: lucid.stft(x, window=w, return_complex=True, **how),
            lambda x, w: torch.stft(x, window=w, return_complex=True, **how),
            [random(rng, shape, dtype), window],
            (how, shape, dtype),
        )


@pytest.mark.parametrize(
    "how",
    [
        {"n_fft": 8},
        {"n_fft": 7, "hop_length": 3, "normalized": True},
        {"n_fft": 8, "hop_length": 3, "win_length": 5, "length": 9},
        {"n_fft": 8, "hop_length": 4, "center": False},
        {"n_fft": 8, "hop_length": 4, "onesided": False},
        {"n_fft": 8, "hop_length": 4, "onesided": False, "return_complex": True},
    ],
    ids=str,
)
def test_istft(how):
    rng = np.random.default_rng(0)
    n = how["n_fft"]
    window = rng.uniform(0.5, 1.5, how.get("win_length", n))
    for lead in ((), (2,)):
        spectra = random(rng, (*lead, n if how.get("onesided") is False else n // 2 + 1, 5), "complex128")
        compare(
            lambda z, w: lucid.istft(z, window=w, **how),
            lambda z, w: torch.istft(z, window=w, **how),
            [spectra, window],
            (how, lead),
        )
