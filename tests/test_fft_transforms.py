"""Fourier transforms under nested transforms, for every size, layout and batch dimension."""

import numpy as np
import pytest
import scipy.fft
from nestings import MAIN, OTHERS, X, nestings, tensor

import lucid
from lucid import autograd, fft, func
from lucid.backends.numpy import fft as kernels

rng = np.random.default_rng(3)
REAL_PART, IMAGINARY_PART = rng.normal(size=(2, 3, 20))
KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TAKES_REAL = ("rfft", "ihfft")
SETTINGS = ({}, {"n": 7}, {"n": 3, "dim": 0}, {"n": 6, "dim": -2, "norm": "ortho"}, {"norm": "forward"})
WINDOW = np.hanning(8)[1:-1]


def numbers(kind, *shape):
    real = rng.normal(size=shape)
    return real if kind in TAKES_REAL else real + 1j * rng.normal(size=shape)


def as_matrices(f):
    """A function of 5 by 4 complex numbers, linear over the real ones, as matrices on real and imaginary parts."""
    units = np.eye(20).reshape(20, 5, 4)
    parts = [np.stack([np.asarray(f(unit * e)) for e in units]) for unit in (1.0 + 0j, 1j)]
    return [p.reshape(20, -1) for p in parts]


SHORT_TIME = {
    "stft": ("rfft", lambda z: lucid.stft(z.reshape(20), 6, 2, window=tensor(WINDOW), return_complex=True)),
    "stft-plain": (
        "rfft",
        lambda z: lucid.stft(z.reshape(20), 6, 2, center=False, onesided=False, normalized=True, return_complex=False),
    ),
    "stft-narrow": (
        "rfft",
        lambda z: lucid.stft(
            z.reshape(20), 6, 2, 4, tensor(WINDOW[:4]), False, return_complex=True, align_to_window=True
        ),
    ),
    "istft": ("fft", lambda z: lucid.istft(z.reshape(4, 5), 6, 2, window=tensor(WINDOW))),
    "istft-whole": ("fft", lambda z: lucid.istft(z.reshape(4, 5), 4, 1, onesided=False, return_complex=True, length=5)),
}
FUNCTIONS = {
    **{
        f"{kind} {setting}": (kind, lambda z, kind=kind, setting=setting: getattr(fft, kind)(z, **setting))
        for kind in KINDS
        for setting in SETTINGS
    },
    **{f"{kind}n": (kind, lambda z, kind=kind: getattr(fft, kind + "n")(z, s=(3, 5), dim=(1, 0))) for kind in KINDS},
    **SHORT_TIME,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nestings(name):
    """A quadratic function of a transform of a signal that depends on x in other ways than linearly."""
    kind, f = FUNCTIONS[name]
    is_real = kind in TAKES_REAL
    by_real, by_imaginary = as_matrices(lambda z: f(tensor(z.real) if is_real else lucid.tensor(z)))
    weights = np.random.default_rng(5).normal(size=(2, by_real.shape[1]))

    def loss(x):
        signal = (x.sin() @ tensor(REAL_PART)).reshape(5, 4)
        if not is_real:
            signal = lucid.complex(signal, (x.cos() @ tensor(IMAGINARY_PART)).reshape(5, 4))
        found = f(signal).reshape(-1)
        if not found.is_complex():
            return (found * found * tensor(weights[0])).sum()
        return (found.real**2 * tensor(weights[0])).sum() + (found.real * found.imag * tensor(weights[1])).sum()

    def ref(points):
        x = points[0]
        real, imaginary = np.sin(x) @ REAL_PART, np.cos(x) @ IMAGINARY_PART * (not is_real)
        up, across = (real @ p + imaginary @ q for p, q in ((by_real.real, by_imaginary.real), (by_real.imag, by_imaginary.imag)))  # fmt: skip
        return (up * up * weights[0]).sum(-1) + (up * across * weights[1]).sum(-1)

    for nesting in (*nestings(MAIN[:3], 2), *nestings(MAIN[:3], 3)[::7], *nestings(OTHERS, 1)):
        got = nesting.of_tensors(loss)(tensor(X)).item()
        np.testing.assert_allclose(got, nesting.expected(ref), rtol=1e-8, atol=1e-8, err_msg=str(nesting))


def layouts(a):
    yield np.asfortranarray(a)
    yield np.repeat(a, 2, -1)[..., ::2]
    yield np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
    fixed = a.copy()
    fixed.flags.writeable = False
    yield fixed
    yield np.broadcast_to(a[:1], a.shape)


@pytest.mark.parametrize("own", [False, True], ids=["functions", "module"])
@pytest.mark.parametrize("kind", KINDS)
def test_layouts_and_sizes(kind, own, monkeypatch):
    """SciPy's functions or what they call, any strides: the right values in new memory, and the operand as it was."""
    if not own:
        monkeypatch.setattr(kernels, "_pocketfft", lambda: None)
    for x in layouts(numbers(kind, 5, 4)):
        before = x.copy()
        t = lucid.from_numpy(x) if x.flags.writeable else lucid.tensor(x)
        for dim, n in ((0, None), (1, 1), (-1, 3), (-2, 9)):
            got = getattr(fft, kind)(t, n, dim, "ortho")
            np.testing.assert_allclose(got, getattr(np.fft, kind)(x, n, dim, "ortho"), rtol=1e-10, atol=1e-10)
            assert not np.shares_memory(np.asarray(got), np.asarray(t)) and got.numpy().flags.writeable
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("n", [None, 3, 4, 7, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_adjoints_batches_and_second_order(kind, n):
    a, direction = numbers(kind, 4, 5), numbers(kind, 4, 5)

    def f(x):
        return getattr(fft, kind)(x, n, -2)

    def loss(x):
        return (f(x).abs() ** 4).sum()

    x = lucid.tensor(a).requires_grad_()
    out = f(x)
    weights = lucid.tensor(numbers("fft" if out.is_complex() else "rfft", *out.shape))
    slope = np.asarray(autograd.grad(out, x, grad_outputs=weights))
    along = np.asarray(f(lucid.tensor(direction)))
    np.testing.assert_allclose(np.vdot(slope, direction).real, np.vdot(np.asarray(weights), along).real)
    stack = np.stack([a, 2 * a, a * a], -1)
    got = func.vmap(f, in_dims=-1, out_dims=1)(lucid.tensor(stack))
    np.testing.assert_allclose(got, np.stack([f(lucid.tensor(stack[..., k])) for k in range(3)], 1))
    pushed = func.jvp(func.grad(loss), (lucid.tensor(a),), (lucid.tensor(direction),))[1]
    step = 1e-5
    ahead, behind = (np.asarray(func.grad(loss)(lucid.tensor(a + s * direction))) for s in (step, -step))
    np.testing.assert_allclose(pushed, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-5)


def test_sizes_over_several_dimensions_are_those_of_scipy():
    for kind in KINDS:
        a = numbers(kind, 3, 4, 6)
        for s, dim in ((None, None), ((3, 4), None), ((3, 7), (0, 2)), (None, (-1, -3)), ((4, 3, 2), None)):
            got = getattr(fft, kind + "n")(lucid.tensor(a), s, dim)
            np.testing.assert_allclose(got, getattr(scipy.fft, kind + "n")(a, s, dim), rtol=1e-10, atol=1e-10)
