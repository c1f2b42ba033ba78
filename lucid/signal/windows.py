"""Windows: functions that rise to 1 in the middle, by which a piece of a signal is multiplied before it is transformed.

A window of M points is a function on 0 … 1, sampled at k/(M - 1) if it is symmetric, and at k/M if it is one period of
a periodic signal, as spectra need it. Two families hold most of them: sums of cosines, and functions of the distance
from the middle.
"""
# ruff: noqa: N803  (M is the name that users know)

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lucid.api.creation import tensor
from lucid.core import dtypes
from lucid.core.tensor import Tensor

# The functions of torch.signal.windows; the others are known as lucid.<name>.
__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_gaussian",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

Array = Any
_BLACKMAN = (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
_WIDE = (dtypes.float32.numpy, dtypes.float64.numpy)


def _length(name: str, argument: str, count: Any, refusal: type[Exception]) -> int:
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"{name}: {argument} must be an integer, not {count!r}")
    if count.__index__() < 0:
        raise refusal(f"{name} requires non-negative window length, got {argument}={count}; it must be >= 0")
    return int(count.__index__())


def _sampled(points: int, sym: bool, shape: Callable[[Array, float], Array], alone: float = 1.0) -> Array:
    """`shape(k, last)` at the points, or `alone` at a single one; `last` is the place of the window's end."""
    if points <= 1:
        return np.full(points, alone)
    return shape(np.arange(points, dtype=np.float64), points - 1 if sym else points)


def _window(
    name: str,
    M: Any,
    sym: bool,
    shape: Callable[[Array, float], Array],
    dtype: Any,
    device: Any,
    requires_grad: bool,
    alone: float = 1.0,
) -> Tensor:
    points = _length(name, "M", M, ValueError)
    kind = dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)
    if kind not in _WIDE:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtypes.of_numpy(kind)}")
    return tensor(_sampled(points, sym, shape, alone), dtype=kind, device=device, requires_grad=requires_grad)


# --- shapes ------------------------------------------------------------------------------------


def _cosines(coefficients: Iterable[float]) -> Callable[[Array, float], Array]:
    """a₀ - a₁ cos(2πk/last) + a₂ cos(4πk/last) - …"""
    terms = [(-1) ** i * a for i, a in enumerate(coefficients)]
    return lambda k, last: sum(a * np.cos(2 * np.pi * i / last * k) for i, a in enumerate(terms))


def _triangle(k: Array, last: float) -> Array:
    return 1 - np.abs(2 * k / last - 1)


def _bessel(beta: float) -> Callable[[Array, float], Array]:
    """I₀(β √(1 - u²)) / I₀(β), with u from -1 to 1."""
    return lambda k, last: np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / last - 1) ** 2, 0))) / np.i0(beta)


# --- torch.signal.windows ----------------------------------------------------------------------


def general_cosine(
    M: int,
    a: Iterable[float],
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with alternating signs: Σ (-1)ⁱ aᵢ cos(2πi·k/(M - 1)).

    With `sym=False` the window is one period of a signal: M stands for M - 1. All windows here take these arguments.

    >>> import lucid
    >>> lucid.signal.windows.general_cosine(5, a=[0.5, 0.3, 0.2])
    Tensor([0.4, 0.3, 1. , 0.3, 0.4])
    """
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: a must be a sequence of coefficients, not {a!r}")
    coefficients = [float(c) for c in a]
    if not coefficients:
        raise ValueError("general_cosine: a is empty; give at least one coefficient")
    return _window("general_cosine", M, sym, _cosines(coefficients), dtype, device, requires_grad)


def general_hamming(
    M: int,
    alpha: float = 0.54,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """α - (1 - α) cos(2πk/(M - 1)).

    >>> import lucid
    >>> lucid.signal.windows.general_hamming(5, alpha=0.75)
    Tensor([0.5 , 0.75, 1.  , 0.75, 0.5 ])
    """
    return _window("general_hamming", M, sym, _cosines((alpha, 1 - alpha)), dtype, device, requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """0.54 - 0.46 cos(2πk/(M - 1)): the nearest lobe beside the main one is small.

    >>> import lucid
    >>> lucid.signal.windows.hamming(5)
    Tensor([0.08, 0.54, 1.  , 0.54, 0.08])
    """
    return _window("hamming", M, sym, _cosines((0.54, 0.46)), dtype, device, requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """sin²(πk/(M - 1)): falls to 0 smoothly, and shifted copies of it add up to a constant.

    >>> import lucid
    >>> lucid.signal.windows.hann(4, sym=False)
    Tensor([0. , 0.5, 1. , 0.5])
    """
    return _window("hann", M, sym, _cosines((0.5, 0.5)), dtype, device, requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """0.42 - 0.5 cos(2πk/(M - 1)) + 0.08 cos(4πk/(M - 1)).

    >>> import lucid
    >>> lucid.signal.windows.blackman(5)[1:4]
    Tensor([0.34, 1.  , 0.34])
    """
    return _window("blackman", M, sym, _cosines(_BLACKMAN), dtype, device, requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Four cosines with Nuttall's coefficients for the least leakage.

    >>> import lucid
    >>> lucid.signal.windows.nuttall(5)
    Tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])
    """
    return _window("nuttall", M, sym, _cosines(_NUTTALL), dtype, device, requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A triangle: 1 - |2k/(M - 1) - 1|.

    >>> import lucid
    >>> lucid.signal.windows.bartlett(5)
    Tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _window("bartlett", M, sym, _triangle, dtype, device, requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Half a wave: sin(π (k + 1/2) / M).

    >>> import lucid
    >>> lucid.signal.windows.cosine(3)
    Tensor([0.5, 1. , 0.5])
    """

    def half_wave(k: Array, last: float) -> Array:
        return np.sin(np.pi * (k + 0.5) / (last + 1))

    return _window("cosine", M, sym, half_wave, dtype, device, requires_grad)


def exponential(
    M: int,
    center: float | None = None,
    tau: float = 1.0,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau); the centre is the middle, and may be elsewhere in a window that is not symmetric.

    >>> import lucid
    >>> lucid.signal.windows.exponential(3)
    Tensor([0.3679, 1.    , 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got: {tau} instead")
    if sym and center is not None:
        raise ValueError(f"exponential: center must be None for symmetric windows, not {center}; give sym=False")

    def decay(k: Array, last: float) -> Array:
        return np.exp(-np.abs(k - (last / 2 if center is None else center)) / tau)

    return _window("exponential", M, sym, decay, dtype, device, requires_grad, alone=float(decay(0, 0)))


def gaussian(
    M: int,
    std: float = 1.0,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(k - middle)² / (2 std²)).

    >>> import lucid
    >>> lucid.signal.windows.gaussian(3)
    Tensor([0.6065, 1.    , 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: the standard deviation must be positive, got: {std} instead")

    def bell(k: Array, last: float) -> Array:
        return np.exp(-0.5 * ((k - last / 2) / std) ** 2)

    return _window("gaussian", M, sym, bell, dtype, device, requires_grad)


def general_gaussian(
    M: int,
    p: float = 1.0,
    sig: float = 7.0,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-½ |(k - middle) / sig|^(2p)); with p = 1 it is `gaussian`.

    >>> import lucid
    >>> lucid.signal.windows.general_gaussian(3, p=2.0, sig=1.0)
    Tensor([0.6065, 1.    , 0.6065])
    """
    if sig <= 0:
        raise ValueError(f"general_gaussian: sig must be positive, got: {sig} instead")

    def bell(k: Array, last: float) -> Array:
        return np.exp(-0.5 * np.abs((k - last / 2) / sig) ** (2 * p))

    return _window("general_gaussian", M, sym, bell, dtype, device, requires_grad)


def kaiser(
    M: int,
    beta: float = 12.0,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(β √(1 - u²)) / I₀(β) with u from -1 to 1, where I₀ is a Bessel function; larger β give narrower windows.

    >>> import lucid
    >>> lucid.signal.windows.kaiser(3, beta=3.0)
    Tensor([0.2049, 1.    , 0.2049])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead")
    return _window("kaiser", M, sym, _bessel(beta), dtype, device, requires_grad)


# --- the names with _window --------------------------------------------------------------------


def _of_length(
    name: str,
    window_length: Any,
    periodic: bool,
    shape: Callable[[Array, float], Array],
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    points = _length(name, "window_length", window_length, RuntimeError)
    kind = dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)
    if kind not in dtypes.FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtypes.of_numpy(kind)}")
    return tensor(_sampled(points, not periodic, shape), dtype=kind, device=device, requires_grad=requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """sin²(πk/n): one period for spectra, or with `periodic=False` a symmetric window, with n = window_length - 1.

    >>> import lucid
    >>> lucid.hann_window(4)
    Tensor([0. , 0.5, 1. , 0.5])
    """
    return _of_length("hann_window", window_length, periodic, _cosines((0.5, 0.5)), dtype, device, requires_grad)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """α - β cos(2πk/n): one period, or with `periodic=False` a symmetric window, with n = window_length - 1.

    >>> import lucid
    >>> lucid.hamming_window(4)
    Tensor([0.08, 0.54, 1.  , 0.54])
    """
    return _of_length("hamming_window", window_length, periodic, _cosines((alpha, beta)), dtype, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """0.42 - 0.5 cos(2πk/n) + 0.08 cos(4πk/n): one period, or with `periodic=False` a symmetric window.

    >>> import lucid
    >>> lucid.blackman_window(4)[1:]
    Tensor([0.34, 1.  , 0.34])
    """
    return _of_length("blackman_window", window_length, periodic, _cosines(_BLACKMAN), dtype, device, requires_grad)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A triangle, 1 - |2k/n - 1|: one period, or with `periodic=False` a symmetric window.

    >>> import lucid
    >>> lucid.bartlett_window(4)
    Tensor([0. , 0.5, 1. , 0.5])
    """
    return _of_length("bartlett_window", window_length, periodic, _triangle, dtype, device, requires_grad)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(β √(1 - u²)) / I₀(β) with u from -1 to 1: one period, or with `periodic=False` a symmetric window.

    >>> import lucid
    >>> lucid.kaiser_window(4, beta=3.0)
    Tensor([0.2049, 0.7269, 1.    , 0.7269])
    """
    return _of_length("kaiser_window", window_length, periodic, _bessel(beta), dtype, device, requires_grad)
