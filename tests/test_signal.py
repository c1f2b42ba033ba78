"""Windows, and spectra over time beyond the table: round trips, arguments, errors."""

import doctest
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import windows as scipy_windows

import lucid
from lucid import func
from lucid.signal import windows

quick = settings(max_examples=60, deadline=None)

# --- windows -------------------------------------------------------------------------------------

SETTINGS = {
    "exponential": {"tau": 2.5},
    "gaussian": {"std": 1.7},
    "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_gaussian": {"p": 1.5, "sig": 2.0},
    "general_hamming": {"alpha": 0.7},
    "kaiser": {"beta": 5.0},
}
# SciPy's names and order for the same arguments.
IN_SCIPY = {
    "exponential": lambda m, sym, tau, center=None: scipy_windows.exponential(m, center, tau, sym),
    "gaussian": lambda m, sym, std: scipy_windows.gaussian(m, std, sym),
    "general_gaussian": lambda m, sym, p, sig: scipy_windows.general_gaussian(m, p, sig, sym),
    "general_cosine": lambda m, sym, a: scipy_windows.general_cosine(m, a, sym),
    "general_hamming": lambda m, sym, alpha: scipy_windows.general_hamming(m, alpha, sym),
    "kaiser": lambda m, sym, beta: scipy_windows.kaiser(m, beta, sym),
}


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", windows.__all__)
def test_windows(name, sym):
    how = SETTINGS.get(name, {})
    for points in (0, 1, 2, 5, 8):
        got = getattr(windows, name)(points, sym=sym, dtype=lucid.float64, **how)
        want = IN_SCIPY.get(name, getattr(scipy_windows, name))(points, sym=sym, **how)
        assert got.shape == (points,)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    single = getattr(windows, name)(5, sym=sym, requires_grad=True, **how)
    assert single.dtype is lucid.float32 and single.requires_grad and single.is_leaf


def test_exponential_about_another_centre():
    got = windows.exponential(5, center=1.0, tau=2.0, sym=False, dtype=lucid.float64)
    np.testing.assert_allclose(got.numpy(), np.exp(-abs(np.arange(5) - 1.0) / 2))


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows_at_the_top_level(name):
    function, plain = getattr(lucid, f"{name}_window"), getattr(windows, name)
    for n in (0, 1, 6):
        assert lucid.equal(function(n), plain(n, sym=False))
        assert lucid.equal(function(n, periodic=False, dtype=lucid.float64), plain(n, dtype=lucid.float64))
    assert function(3, dtype=lucid.bfloat16, requires_grad=True).dtype is lucid.bfloat16


def test_settings_of_windows_at_the_top_level():
    np.testing.assert_allclose(lucid.hamming_window(4, True, 0.6, 0.4).numpy(), [0.2, 0.6, 1, 0.6], rtol=1e-6)
    assert lucid.equal(lucid.kaiser_window(6, True, 3.0), windows.kaiser(6, beta=3.0, sym=False))


def test_hann_windows_add_up():
    """Copies of a periodic window, half its length apart, add up to 1: the condition for `istft`."""
    w = lucid.hann_window(8).numpy()
    np.testing.assert_allclose(w[:4] + w[4:], 1, rtol=1e-6)


WRONG_WINDOWS = [
    (lambda: windows.hann(-1), ValueError, "hann requires non-negative window length, got M=-1"),
    (lambda: windows.hann(4.5), TypeError, "M must be an integer, not 4.5"),
    (lambda: windows.hann(4, dtype=lucid.float16), ValueError, "expects float32 or float64 dtypes, got: lucid.float16"),
    (lambda: windows.bartlett(4, dtype=lucid.int64), ValueError, "expects float32 or float64 dtypes"),
    (lambda: windows.gaussian(4, std=0), ValueError, "must be positive, got: 0"),
    (lambda: windows.exponential(4, tau=-1.0), ValueError, "tau must be positive, got: -1.0"),
    (lambda: windows.exponential(4, center=1.0), ValueError, "center must be None for symmetric windows"),
    (lambda: windows.kaiser(4, beta=-1), ValueError, "beta must be non-negative, got: -1"),
    (lambda: windows.general_cosine(4, a=[]), ValueError, "give at least one coefficient"),
    (lambda: windows.general_cosine(4, a=3), TypeError, "must be a sequence of coefficients, not 3"),
    (lambda: lucid.hann_window(-1), RuntimeError, "requires non-negative window length, got window_length=-1"),
    (lambda: lucid.hann_window(2.0), TypeError, "window_length must be an integer"),
    (lambda: lucid.kaiser_window(3, dtype=lucid.int32), RuntimeError, "expects floating point dtypes"),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG_WINDOWS)
def test_errors_of_windows(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_examples_of_windows_run():
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(windows):
        runner.run(test, out=report.append)
    assert runner.tries > 2 * len(windows.__all__) and not runner.failures, "".join(report)


# --- spectra over time ---------------------------------------------------------------------------


def signal(seed, *shape, is_complex=False):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return lucid.tensor(x + 1j * rng.standard_normal(shape) if is_complex else x)


@quick
@given(st.integers(1, 9), st.data(), st.booleans(), st.booleans(), st.sampled_from([None, False]), st.booleans())
def test_round_trip(n_fft, data, is_batch, normalized, onesided, is_complex):
    win_length = data.draw(st.integers(1, n_fft))
    hop = data.draw(st.integers(1, win_length))
    length = data.draw(st.integers(n_fft, 30))
    x = signal(data.draw(st.integers(0, 99)), *((3, length) if is_batch else (length,)), is_complex=is_complex)
    window = lucid.tensor(np.random.default_rng(0).uniform(0.5, 1.5, win_length))
    how = {"hop_length": hop, "win_length": win_length, "window": window, "normalized": normalized}
    spectra = lucid.stft(x, n_fft, **how, onesided=onesided, return_complex=True)
    count = spectra.shape[-1]
    weight = np.zeros((count - 1) * hop + n_fft)
    for first in np.arange(count) * hop + (n_fft - win_length) // 2:
        weight[first : first + win_length] += 1
    kept = weight[n_fft // 2 : n_fft // 2 + length]

    def back():
        half = False if is_complex else onesided
        return lucid.istft(spectra, n_fft, **how, onesided=half, length=len(kept), return_complex=is_complex)

    if kept.min() == 0:
        with pytest.raises(RuntimeError, match="window overlap add"):
            back()
    else:
        np.testing.assert_allclose(back().numpy(), x.numpy()[..., : len(kept)], rtol=1e-9, atol=1e-9)


def test_the_usual_round_trip_is_exact():
    x, window = signal(0, 2, 500), lucid.hann_window(64, dtype=lucid.float64)
    spectra = x.stft(64, window=window, return_complex=True)
    assert spectra.shape == (2, 33, 32)
    np.testing.assert_allclose(spectra.istft(64, window=window, length=500).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(spectra.istft(64, window=window).numpy(), x.numpy()[:, :496], atol=1e-12)


def test_types():
    x, z = lucid.randn(16), lucid.randn(16) + 1j * lucid.randn(16)
    assert lucid.stft(x, 4, return_complex=True).dtype is lucid.complex64
    assert lucid.stft(x, 4, window=lucid.ones(4, dtype=lucid.float64), return_complex=True).dtype is lucid.complex128
    assert lucid.stft(z, 4).shape == (4, 17)
    assert lucid.stft(x, 4, window=lucid.ones(4, dtype=lucid.complex64)).shape == (4, 17)
    assert lucid.istft(lucid.stft(x, 4, return_complex=True), 4).dtype is lucid.float32


def test_real_and_imaginary_parts_apart():
    x = signal(0, 16)
    apart, together = (lucid.stft(x, 6, return_complex=c) for c in (False, True))
    assert lucid.equal(apart[..., 0], together.real) and lucid.equal(apart[..., 1], together.imag)


def test_a_pure_tone_stands_at_its_frequency():
    wave = lucid.sin(2 * lucid.pi * 0.25 * lucid.arange(64, dtype=lucid.float64))
    power = lucid.stft(wave, 16, window=lucid.hann_window(16), center=False, return_complex=True).abs()
    assert (power.argmax(0).numpy() == 4).all()


def test_gradients_through_the_round_trip():
    """d/dx istft(stft(x)) is the identity, and no window changes the result."""
    x, window = signal(0, 20), lucid.hann_window(8, dtype=lucid.float64)

    def round_trip(x, window):
        spectra = lucid.stft(x, 8, window=window, return_complex=True)
        return lucid.istft(spectra, 8, window=window, length=20)

    by_x, by_window = func.jacrev(round_trip, argnums=(0, 1))(x, window)
    np.testing.assert_allclose(by_x.numpy(), np.eye(20), atol=1e-12)
    np.testing.assert_allclose(by_window.numpy(), 0, atol=1e-10)


def test_windows_that_leave_gaps_are_noticed_in_every_transform():
    spectra = lucid.stft(signal(0, 20), 8, return_complex=True)
    words = "window overlap add min: 0; .* Use a smaller hop_length"
    with pytest.raises(RuntimeError, match=words):
        lucid.istft(spectra, 8, window=lucid.zeros(8))
    with pytest.raises(RuntimeError, match=words):
        func.vmap(lambda w: lucid.istft(spectra, 8, window=w))(lucid.zeros(2, 8))
    with pytest.raises(RuntimeError, match="window overlap add"):
        lucid.istft(spectra, 8, window=lucid.hann_window(8), center=False)


def test_a_length_beyond_the_spectra_is_filled_up():
    spectra = lucid.stft(signal(0, 16), 4, return_complex=True)
    with pytest.warns(UserWarning, match="zeros follow"):
        found = lucid.istft(spectra, 4, length=30)
    assert found.shape == (30,) and (found.numpy()[18:] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lucid.istft(spectra, 4, length=18).shape == (18,)


X = lucid.ones(20)
S = lucid.ones(5, 6, dtype=lucid.complex64)
WRONG = [
    (lambda: lucid.stft(X, 8), RuntimeError, "stft requires return_complex to be given for real inputs"),
    (lambda: lucid.stft(lucid.ones(2, 3, 20), 8, return_complex=True), RuntimeError, "expected a 1D or 2D tensor"),
    (lambda: lucid.stft(lucid.arange(20), 8, return_complex=True), RuntimeError, "floating point or complex values"),
    (lambda: lucid.stft(X.to(lucid.float16), 8, return_complex=True), RuntimeError, "no transform in float16"),
    (lambda: lucid.stft(X, 0, return_complex=True), RuntimeError, "expected n_fft > 0, but got n_fft=0"),
    (lambda: lucid.stft(X, 3, return_complex=True), RuntimeError, "expected hop_length > 0, but got hop_length=0"),
    (lambda: lucid.stft(X, 8.5, return_complex=True), TypeError, "n_fft must be an integer, not 8.5"),
    (lambda: lucid.stft(X, 21, center=False, return_complex=True), RuntimeError, "n_fft=21 is longer than the signal"),
    (lambda: lucid.stft(X, 50, return_complex=True), RuntimeError, "'reflect' can add at most 19 elements"),
    (lambda: lucid.stft(X, 8, win_length=9, return_complex=True), RuntimeError, "0 < win_length <= n_fft"),
    (lambda: lucid.stft(X, 8, window=lucid.ones(6), return_complex=True), RuntimeError, "size equal to win_length=8"),
    (lambda: lucid.stft(X, 8, pad_mode="mirror", return_complex=True), ValueError, "pad_mode must be 'constant'"),
    (lambda: lucid.stft(X + 0j, 8, onesided=True), RuntimeError, "cannot have onesided output"),
    (
        lambda: lucid.stft(X, 8, return_complex=True, align_to_window=True),
        RuntimeError,
        "only be set when center=False",
    ),
    (lambda: lucid.istft(S.real, 8), RuntimeError, "istft requires complex spectra"),
    (lambda: lucid.istft(S[0], 8), RuntimeError, r"expected shape \(frequencies, times\)"),
    (lambda: lucid.istft(S[:, :0], 8), RuntimeError, r"expected shape \(frequencies, times\)"),
    (lambda: lucid.istft(S, 10), RuntimeError, r"n_fft // 2 \+ 1 = 6 when onesided, but it has 5"),
    (lambda: lucid.istft(S, 8, onesided=False), RuntimeError, "n_fft = 8 when not onesided, but it has 5"),
    (lambda: lucid.istft(S, 8, hop_length=9), RuntimeError, "expected 0 < hop_length <= win_length"),
    (lambda: lucid.istft(S, 8, window=lucid.ones(4)), RuntimeError, "size equal to win_length=8"),
    (lambda: lucid.istft(S, 8, return_complex=True), RuntimeError, "a complex result needs the whole spectrum"),
    (lambda: lucid.istft(S, 8, window=lucid.ones(8) + 0j), RuntimeError, "needs return_complex=True"),
    (lambda: lucid.istft(S, 8, length=0), RuntimeError, "expected length > 0"),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
