"""Elementwise functions that NumPy lacks, on bare arrays: SciPy's (imported on first use) and a few of our own."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu import activations
from lucid.core import dtypes
from lucid.native import in_use

_NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})


def scipy_special(name: str) -> Callable[..., Any]:
    """`scipy.special.<name>`, imported when first called; half precision is computed in single."""
    found: Callable[..., Any] | None = None

    def impl(*arrays: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(importlib.import_module("scipy.special"), name)
        return in_single(found, *arrays)

    return impl


def in_single(function: Callable[..., Any], *arrays: Any) -> Any:
    """Run a function that knows no half precision on half-precision arrays."""
    narrow = next((a.dtype for a in arrays if getattr(a, "dtype", None) in _NARROW), None)
    if narrow is None:
        return function(*arrays)
    wide = [a.astype(np.float32) if getattr(a, "dtype", None) in _NARROW else a for a in arrays]
    return function(*wide).astype(narrow)


_SINGLE_AND_DOUBLE = dtypes.SINGLE_AND_DOUBLE


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow: the exponent is never positive."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    if x.dtype in _SINGLE_AND_DOUBLE and x.ndim:
        # exp overflows to inf where the result is 0: right at both ends, and an eighth of the time of a selection.
        e = np.negative(x)
        with np.errstate(over="ignore"):
            np.exp(e, out=e)
        e += 1
        return np.reciprocal(e, out=e)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


_ZEROS = {kind: np.zeros((), kind) for kind in _SINGLE_AND_DOUBLE}


def relu(x: Any) -> Any:
    if in_use and x.dtype in _SINGLE_AND_DOUBLE and x.flags.c_contiguous:
        out = np.empty(x.shape, x.dtype)
        activations.relu(x, out)
        return out
    return np.maximum(x, _ZEROS.get(x.dtype, 0))  # an array of the same type saves NumPy a search for the common type


def log_sigmoid(x: Any) -> Any:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


_BLOCK = 1 << 18
_BITS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}


def gate(ct: Any, x: Any) -> Any:
    """`ct` where x > 0 and exactly 0 elsewhere; large arrays in blocks, so that no mask of their size is made."""
    bits = _BITS.get(ct.dtype)
    if ct.shape != x.shape or not ct.ndim or not x.flags.c_contiguous or bits is None:
        return np.where(x > 0, ct, 0)
    if not ct.flags.c_contiguous:
        return _gate_by_rows(ct, x)
    out = np.empty(x.shape, ct.dtype)
    if in_use and x.dtype is ct.dtype:
        activations.relu_back(ct, x, out)
        return out
    if x.size <= _BLOCK:
        _keep_bits(x, ct.view(bits), out.view(bits))
        return out
    wanted, given, values = out.reshape(-1).view(bits), ct.reshape(-1).view(bits), x.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _keep_bits(values[block], given[block], wanted[block])
    return out


def _keep_bits(x: Any, given: Any, out: Any) -> None:
    """True is -1 as a number, all bits of which are set: a selection costs six times as much as these two steps."""
    np.negative((x > 0).view(np.int8), out)
    np.bitwise_and(out, given, out)


def _gate_by_rows(ct: Any, x: Any) -> Any:
    """The same for a cotangent whose memory cannot be read in one go, as that of a sum, which is one number spread."""
    out = np.zeros(x.shape, ct.dtype)
    rows = max(1, _BLOCK * len(x) // max(x.size, 1)) if x.ndim > 1 else _BLOCK
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        np.copyto(out[block], ct[block], where=x[block] > 0)
    return out


def sinc(x: Any) -> Any:
    y = np.pi * np.where(x == 0, 1, x)
    return np.where(x == 0, 1, np.sin(y) / y).astype(x.dtype, copy=False)


def sinc_derivative(x: Any) -> Any:
    """d/dx sin(πx)/(πx); a power series near 0, where the closed form cancels."""
    y = np.pi * np.asarray(x)
    near = np.abs(y) < 0.1
    safe = np.where(near, 1, y)
    closed = np.pi * (np.cos(safe) - np.sin(safe) / safe) / safe
    y2 = y * y
    series = -np.pi * y / 3 * (1 - y2 / 10 * (1 - y2 / 28 * (1 - y2 / 54)))
    return np.where(near, series, closed).astype(x.dtype, copy=False)


def sgn(x: Any) -> Any:
    """x / |x|, and 0 at 0."""
    if x.dtype.kind != "c":
        return np.sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype, copy=False)


def power(x: Any, exponent: Any) -> Any:
    """Powers by a Python number; small whole ones by multiplication, which is exact and faster."""
    if exponent == 3:
        return x * x * x
    if exponent == 4:
        y = x * x
        return y * y
    if exponent == -1 and x.dtype.kind in "fcV":
        return 1 / x
    if exponent == 0.5:
        return np.sqrt(x)
    return in_single(lambda a: np.power(a, exponent), x)


def _principal(x: Any) -> Any:
    """log(exp(x)): x with its imaginary part from -π to π, and without one where exp(x) is 0."""
    phase = np.where(np.abs(x.imag) <= np.pi, x.imag, np.arctan2(np.sin(x.imag), np.cos(x.imag)))
    return _complex(x.real, np.where(x.real == -np.inf, 0, phase))


def _complex(real: Any, imag: Any) -> Any:
    """Both parts as they are: real + 1j·imag would make nan of infinities."""
    out = np.empty(np.shape(real), np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


def running_logsumexp(x: Any, dim: int) -> Any:
    """log of the running sum of exp(x); of complex numbers the imaginary parts are those of the principal logarithm."""
    if not x.shape[dim]:
        return x.copy()
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, axis=dim)
    out = np.moveaxis(x.copy(), dim, 0)
    out[0] = _principal(out[0])
    for i in range(1, len(out)):
        peak = np.maximum(out[i - 1].real, out[i].real)
        peak = np.where(np.isfinite(peak), peak, 0)
        out[i] = np.log(np.exp(out[i - 1] - peak) + np.exp(out[i] - peak)) + peak
    return np.moveaxis(out, 0, dim)
