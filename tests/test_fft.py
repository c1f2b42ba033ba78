"""Fourier transforms beyond the table: properties, both engines, arguments, errors, and NumPy's names for them."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid
from lucid import func
from lucid.backends.numpy import fft as kernels

KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NAMES = [kind + suffix for suffix in ("", "2", "n") for kind in KINDS]
NORMS = (None, "backward", "ortho", "forward")
TAKES_REAL = {"rfft", "ihfft"}


def random(rng, shape, is_complex, dtype=float):
    x = rng.standard_normal(shape)
    if is_complex:
        return (x + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))
    return x.astype(dtype)


def inner(a, b):
    """Re<a, b>: the inner product in which gradients are gradients."""
    return float(np.sum(np.conj(a) * b).real)


def operand(rng, name, shape, dtype=float):
    return random(rng, shape, name.rstrip("2n") not in TAKES_REAL, dtype)


# --- properties ----------------------------------------------------------------------------------

quick = settings(max_examples=100, deadline=None)
seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 12)
norms = st.sampled_from(NORMS)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


@quick
@given(st.sampled_from(NAMES), st.lists(st.integers(2, 5), min_size=2, max_size=3).map(tuple), norms, seeds, st.data())
def test_the_reverse_is_the_adjoint(name, shape, norm, seed, data):
    """<y, F x> = <Fᴴ y, x> for every transform, of any sizes."""
    rng = np.random.default_rng(seed)
    x = operand(rng, name, shape)
    sizes = data.draw(st.none() | st.integers(1, 7))
    how = {"norm": norm} if sizes is None else {"norm": norm, "n": sizes}
    if name[-1] in "2n":
        how = {"norm": norm} if sizes is None else {"norm": norm, "s": (data.draw(st.integers(1, 7)), sizes)}
    out, pull = func.vjp(lambda t: getattr(lucid.fft, name)(t, **how), lucid.tensor(x))
    y = random(rng, out.shape, out.is_complex())
    (back,) = pull(lucid.tensor(y))
    assert back.dtype == lucid.tensor(x).dtype
    np.testing.assert_allclose(inner(y, np.asarray(out)), inner(np.asarray(back), x), rtol=1e-9, atol=1e-9)


@quick
@given(shapes, seeds)
def test_parseval(shape, seed):
    """The energy of a signal is that of its spectrum."""
    x = random(np.random.default_rng(seed), shape, True)
    spectrum = np.asarray(lucid.fft.fftn(lucid.tensor(x), norm="ortho"))
    np.testing.assert_allclose(inner(spectrum, spectrum), inner(x, x), rtol=1e-10)
    half = np.asarray(lucid.fft.rfft(lucid.tensor(x.real), norm="ortho"))
    count = np.full(half.shape[-1], 2.0)
    count[0] = 1
    if shape[-1] % 2 == 0:
        count[-1] = 1
    np.testing.assert_allclose((count * abs(half) ** 2).sum(), (x.real**2).sum(), rtol=1e-10)


INVERSES = [("fft", "ifft", True), ("rfft", "irfft", False), ("ihfft", "hfft", False)]


@quick
@given(st.sampled_from(INVERSES), st.sampled_from(["", "2", "n"]), norms, seeds, st.data())
def test_inverses(pair, suffix, norm, seed, data):
    there, back, is_complex = pair
    shape = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=3).map(tuple))
    x = random(np.random.default_rng(seed), shape, is_complex)
    spectrum = getattr(lucid.fft, there + suffix)(lucid.tensor(x), norm=norm)
    sizes = {"": {"n": shape[-1]}, "2": {"s": shape[-2:]}, "n": {"s": shape}}[suffix]
    found = getattr(lucid.fft, back + suffix)(spectrum, **sizes, norm=norm)
    np.testing.assert_allclose(np.asarray(found), x, rtol=1e-10, atol=1e-10)


@quick
@given(lengths, st.integers(-20, 20), seeds)
def test_shift_theorem(n, shift, seed):
    """A shift of the signal turns the spectrum: F[roll(x, m)](k) = F[x](k) exp(-2πi·km/n)."""
    x = lucid.tensor(random(np.random.default_rng(seed), n, True))
    turned = lucid.fft.fft(x) * lucid.exp(-2j * lucid.pi * shift * lucid.fft.fftfreq(n, dtype=lucid.float64))
    np.testing.assert_allclose(lucid.fft.fft(x.roll(shift)).numpy(), turned.numpy(), rtol=1e-9, atol=1e-9)


@quick
@given(lengths, seeds)
def test_convolution_theorem(n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, n))
    product = lucid.fft.irfft(lucid.fft.rfft(lucid.tensor(x)) * lucid.fft.rfft(lucid.tensor(y)), n=n)
    direct = [sum(x[j] * y[(k - j) % n] for j in range(n)) for k in range(n)]
    np.testing.assert_allclose(product.numpy(), direct, rtol=1e-9, atol=1e-9)


@quick
@given(shapes, seeds)
def test_half_spectra_are_halves(shape, seed):
    x = lucid.tensor(np.random.default_rng(seed).standard_normal(shape))
    whole, half = lucid.fft.fftn(x), lucid.fft.rfftn(x)
    np.testing.assert_allclose(half.numpy(), whole.numpy()[..., : shape[-1] // 2 + 1], atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_parts_that_have_no_influence_get_no_gradient(n):
    z = lucid.ones(n // 2 + 1, dtype=lucid.complex128, requires_grad=True)
    (lucid.fft.irfft(z, n=n) * lucid.arange(1.0, n + 1)).sum().backward()
    assert z.grad is not None
    assert z.grad.imag[0] == 0 and (n % 2 or z.grad.imag[-1] == 0)
    assert np.all(z.grad.imag.numpy()[1 : (n + 1) // 2] != 0)


# --- engines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_both_engines_agree(name, dtype, monkeypatch):
    """Transforms run in what SciPy's functions call, and in these functions where there is no such module."""
    x = lucid.tensor(operand(np.random.default_rng(0), name, (3, 5, 6), dtype))
    small = {norm: getattr(lucid.fft, name)(x, norm=norm) for norm in NORMS}
    monkeypatch.setattr(kernels, "_pocketfft", lambda: None)
    for norm, result in small.items():
        large = getattr(lucid.fft, name)(x, norm=norm)
        assert large.dtype == result.dtype
        assert large.dtype.to_real().numpy == dtype
        close = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(large.numpy(), result.numpy(), rtol=close, atol=close)


def test_large_transforms():
    x = lucid.tensor(np.random.default_rng(0).standard_normal((16, 1 << 14)), requires_grad=True)
    back = lucid.fft.irfft(lucid.fft.rfft(x))
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)
    back.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1, atol=1e-12)


@pytest.mark.parametrize("function", ["_pocketfft", "_by_itself"])
def test_the_module_is_there(function):
    """If SciPy gives it up, transforms are right all the same, but a small one takes five times as long."""
    assert getattr(kernels, function)() is not None


@pytest.mark.parametrize("wrong", [None, object(), SimpleNamespace(r2c=lambda x: x)])
def test_another_module_is_not_used(wrong, monkeypatch):
    monkeypatch.delitem(sys.modules, kernels._MODULE, raising=False)
    monkeypatch.setattr(kernels, "_by_itself", lambda: wrong)
    assert kernels._pocketfft.__wrapped__() is None


def test_threads_are_those_that_users_ask_for(monkeypatch):
    x = np.broadcast_to(np.float32(1), (1000, 1000))
    monkeypatch.setattr(kernels, "threads", lambda: 3)
    assert [kernels._threads(v) for v in (x, x[:300], x[:100])] == [3, 2, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 2, 31, 32])
def test_spectra_of_real_numbers_that_are_mirrored(n, dim, dtype):
    shape = [40, 40, 40]
    shape[dim] = n
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for name in ("fft", "ifft"):
        got = getattr(lucid.fft, name)(lucid.tensor(a), dim=dim)
        want = getattr(np.fft, name)(a.astype(np.float64), axis=dim)
        np.testing.assert_allclose(got.numpy(), want, atol=np.finfo(dtype).eps * 100)
        assert got.dtype.to_real().numpy == dtype


def test_operands_that_are_not_aligned():
    a = np.frombuffer(b"x" + np.arange(8.0).tobytes(), np.uint8)[1:].view(np.float64)
    np.testing.assert_allclose(lucid.fft.rfft(lucid.from_numpy(a)).numpy(), np.fft.rfft(a), atol=1e-12)


def test_imports_are_light():
    code = (
        "import sys, lucid; assert 'lucid.fft' not in sys.modules; lucid.fft.fft(lucid.ones(4)); "
        "lucid.hann_window(4); assert 'scipy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- types and arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_refused(name):
    for dtype in (lucid.float16, lucid.bfloat16):
        with pytest.raises(RuntimeError, match=rf"{name}: .*{dtype.name}; convert to float32"):
            getattr(lucid.fft, name)(lucid.ones(2, 3, dtype=dtype))


def test_integers_take_the_default_type():
    assert lucid.fft.fft(lucid.arange(4)).dtype is lucid.complex64
    assert lucid.fft.irfft([1, 2, 3]).dtype is lucid.float32
    lucid.set_default_dtype(lucid.float64)
    try:
        assert lucid.fft.rfft(lucid.arange(4)).dtype is lucid.complex128
        assert lucid.fft.fftfreq(4).dtype is lucid.float64
    finally:
        lucid.set_default_dtype(lucid.float32)


def test_gradients_of_promoted_operands_are_real():
    x = lucid.ones(4, requires_grad=True)
    lucid.fft.fft(x).abs().sum().backward()
    assert x.grad.dtype is lucid.float32


X = lucid.ones(3, 5)
Z = lucid.ones(3, 5, dtype=lucid.complex64)
WRONG = [
    (lambda: lucid.fft.fft(X, n=0), RuntimeError, r"fft: Invalid number of data points \(0\)"),
    (lambda: lucid.fft.fft(X, n=-1), RuntimeError, r"Invalid number of data points \(-1\)"),
    (lambda: lucid.fft.rfft(X, n=-3), RuntimeError, r"rfft: Invalid number of data points \(-3\)"),
    (lambda: lucid.fft.irfft(lucid.ones(2, 1)), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: lucid.fft.fft(lucid.ones(3, 0)), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: lucid.fft.fftn(X, s=(0, 3)), RuntimeError, r"fftn: Invalid number of data points \(0\)"),
    (lambda: lucid.fft.fft(X, n=2.5), TypeError, "n must be an integer, not 2.5"),
    (lambda: lucid.fft.fft(X, n=True), TypeError, "n must be an integer, not True"),
    (lambda: lucid.fft.fftn(X, s=(2.5, 1)), TypeError, "must be an integer, not 2.5"),
    (lambda: lucid.fft.fft(X, norm="unitary"), RuntimeError, 'Invalid normalization mode: "unitary"; use "backward"'),
    (lambda: lucid.fft.fft(X, dim=2), IndexError, "fft: dim 2 is out of range"),
    (lambda: lucid.fft.fft(X, dim=(0,)), TypeError, "dim must be an integer"),
    (lambda: lucid.fft.fft(lucid.tensor(1.0)), IndexError, "a 0-d tensor has no dimension -1"),
    (lambda: lucid.fft.fft2(lucid.tensor(1.0)), IndexError, "a 0-d tensor has no dimension"),
    (lambda: lucid.fft.fft2(lucid.ones(3)), IndexError, "fft2: dim -2 is out of range"),
    (lambda: lucid.fft.fftn(X, dim=(0, -2)), RuntimeError, r"FFT dims must be unique, but \(0, -2\)"),
    (lambda: lucid.fft.fftn(X, s=(1, 2, 3)), RuntimeError, "s has 3 sizes but the tensor only 2 dimensions"),
    (lambda: lucid.fft.fftn(X, s=(1,), dim=(0, 1)), RuntimeError, "must have the same length, not 1 and 2"),
    (lambda: lucid.fft.fft2(X, s=(1,)), RuntimeError, "must have the same length, not 1 and 2"),
    (lambda: lucid.fft.rfft(Z), RuntimeError, "rfft expects a real input tensor, not lucid.complex64; .* fft$"),
    (lambda: lucid.fft.ihfft(Z), RuntimeError, "ihfft expects a real input tensor, not lucid.complex64; .* ifft$"),
    (lambda: lucid.fft.rfftn(Z), RuntimeError, "rfftn expects a real input tensor"),
    (lambda: lucid.fft.rfftn(X, dim=()), RuntimeError, "rfftn must transform at least one axis"),
    (lambda: lucid.fft.hfftn(lucid.tensor(1.0)), RuntimeError, "hfftn must transform at least one axis"),
    (lambda: lucid.fft.fft(X, dim=0, axis=0), TypeError, "fft: give dim or axis, not both"),
    (lambda: lucid.fft.fftn(X, dim=0, axes=(0,)), TypeError, "fftn: give dim or axes, not both"),
    (lambda: lucid.fft.fft(X, out=lucid.empty(0)), RuntimeError, "complex64 cannot be written into out"),
    (lambda: lucid.fft.fft(X, out=lucid.empty(2, dtype=lucid.complex64)), RuntimeError, "out has shape"),
    (lambda: lucid.fft.fftfreq(-1), RuntimeError, "must not be negative, but n is -1"),
    (lambda: lucid.fft.fftfreq(2.5), TypeError, "n must be an integer"),
    (lambda: lucid.fft.fftfreq(4, dtype=lucid.int64), RuntimeError, "fftfreq requires a floating point dtype"),
    (lambda: lucid.fft.rfftfreq(4, dtype=lucid.complex64), RuntimeError, "rfftfreq requires a floating point dtype"),
    (lambda: lucid.fft.fftshift(X, dim=3), IndexError, "fftshift: dim 3 is out of range"),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_no_dimensions_and_no_signals():
    assert lucid.fft.fftn(lucid.tensor(2.0)) == 2 + 0j
    x = lucid.ones(2, dtype=lucid.complex64)
    same = lucid.fft.ifftn(x, dim=())
    same[0] = 5
    assert same[1] == 1 and x[0] == 1
    for name in KINDS:
        assert getattr(lucid.fft, name)(lucid.ones(0, 3)).shape[0] == 0


def test_out():
    x = lucid.randn(3, 5)
    for empty in (lucid.empty(0, dtype=lucid.complex64), lucid.zeros(3, 3, dtype=lucid.complex128)):
        assert lucid.fft.rfft(x, out=empty) is empty
        np.testing.assert_allclose(empty.numpy(), lucid.fft.rfft(x).numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        lucid.fft.rfft(x.requires_grad_(), out=lucid.empty(0, dtype=lucid.complex64))
    freqs = lucid.empty(0, dtype=lucid.float64)
    assert lucid.fft.fftfreq(4, out=freqs) is freqs and freqs.shape == (4,)


def test_names_that_numpy_uses():
    x = lucid.randn(3, 5)
    assert lucid.equal(lucid.fft.fft(x, axis=0), lucid.fft.fft(x, dim=0))
    assert lucid.equal(lucid.fft.rfftn(x, s=(2, 2), axes=(1, 0)), lucid.fft.rfftn(x, s=(2, 2), dim=(1, 0)))
    assert lucid.equal(lucid.fft.fftshift(x, axes=1), lucid.fft.fftshift(x, dim=1))


# --- frequencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.1, 3])
def test_frequencies(n, d):
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(lucid.fft, name)(n, d, dtype=lucid.float64)
        np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(n, d), rtol=1e-14)


def test_frequencies_at_the_edges():
    assert lucid.fft.fftfreq(0).shape == (0,)
    assert np.isnan(lucid.fft.rfftfreq(0).numpy()).all()
    assert lucid.fft.fftfreq(4, 0.5, dtype=lucid.float16).dtype is lucid.float16
    assert lucid.fft.rfftfreq(4, requires_grad=True).requires_grad


def test_fftshift_of_the_frequencies_rises():
    for n in (5, 6):
        freqs = lucid.fft.fftfreq(n)
        middle = lucid.fft.fftshift(freqs)
        assert (np.diff(middle.numpy()) > 0).all()
        assert lucid.equal(lucid.fft.ifftshift(middle), freqs)


# --- NumPy's own functions -----------------------------------------------------------------------

IN_NUMPY = [name for name in NAMES if hasattr(np.fft, name)] + ["fftshift", "ifftshift"]


@pytest.mark.parametrize("name", IN_NUMPY)
def test_numpy_functions_take_tensors(name):
    array = operand(np.random.default_rng(0), name, (3, 5))
    x = lucid.tensor(array, requires_grad=True)
    function = getattr(np.fft, name)
    got = function(x)
    assert isinstance(got, lucid.Tensor) and got.requires_grad
    np.testing.assert_allclose(got.numpy(), function(array), rtol=1e-12, atol=1e-12)


def test_numpy_functions_take_their_arguments():
    array = np.random.default_rng(0).standard_normal((3, 5))
    x = lucid.tensor(array)
    close = {"rtol": 1e-12, "atol": 1e-12}
    how = {"n": 4, "axis": 0, "norm": "ortho"}
    np.testing.assert_allclose(np.fft.fft(x, **how).numpy(), np.fft.fft(array, **how), **close)
    several = {"s": (2, 6), "axes": (1, 0)}
    np.testing.assert_allclose(np.fft.rfftn(x, **several).numpy(), np.fft.rfftn(array, **several), **close)
    np.testing.assert_allclose(np.fft.fftshift(x, axes=(0,)).numpy(), np.fft.fftshift(array, axes=(0,)))
    out = np.empty((3, 3), complex)
    assert np.fft.rfft(x, out=out) is out
    np.testing.assert_allclose(out, np.fft.rfft(array), **close)
    assert np.fft.fft(x.to(lucid.float16)).dtype is lucid.complex64
