"""Reductions and scans: what becomes of all elements along some dimensions."""

from typing import Any

import numpy as np

from lucid.backends.numpy.scalars import complex_of_parts
from lucid.core.kernels import fill
from lucid.ops.reductions import LEAST_PRODUCT


def _either_way(scan: Any) -> Any:
    """A scan that may also run from the other end."""

    def kernel(*arrays: Any, dim: int, reverse: bool) -> Any:
        if not reverse:
            return scan(*arrays, dim)
        return np.flip(scan(*[np.flip(x, dim) for x in arrays], dim), dim)

    return kernel


def _recurrence_array(a: Any, b: Any, dim: int) -> Any:
    a, b = [np.moveaxis(x, dim, 0) for x in np.broadcast_arrays(a, b)]
    out = np.empty(a.shape, np.result_type(a, b))
    if len(out):
        out[0] = b[0]
    for i in range(1, len(out)):
        np.multiply(a[i], out[i - 1], out=out[i, ...])
        out[i] += b[i]
    return np.moveaxis(out, 0, dim)


def _product(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Numbers of single precision are multiplied in double, as their fold has it."""
    reduce: Any = np.multiply.reduce
    if x.dtype != np.float32:
        return reduce(x, axis=dims, keepdims=keepdim)
    return reduce(x, axis=dims, keepdims=keepdim, dtype=np.float64).astype(x.dtype)


def _running_product(x: Any, dim: int) -> Any:
    """The same, with zeros behind products that are too small."""
    if x.dtype != np.float32:
        return np.multiply.accumulate(x, axis=dim, dtype=x.dtype)
    found = np.moveaxis(np.multiply.accumulate(x, axis=dim, dtype=np.float64), dim, 0)
    is_small = np.logical_or.accumulate(np.abs(found[:-1]) < LEAST_PRODUCT, axis=0)
    np.multiply(found[1:], 0, out=found[1:], where=is_small)
    return np.moveaxis(found.astype(x.dtype), 0, dim)


def _products_before(x: Any, dim: int) -> Any:
    found = np.moveaxis(np.ones_like(x), dim, 0)
    found[1:] = np.moveaxis(_running_product(x, dim), dim, 0)[:-1]
    return np.moveaxis(found, 0, dim)


def _logsumexp_array(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    peak = np.amax(x.real, axis=dims, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0).astype(peak.dtype)
    total = np.log(np.add.reduce(np.exp(x - peak), axis=dims, keepdims=True)) + peak
    return total if keepdim else total.reshape(tuple(n for i, n in enumerate(x.shape) if i not in dims))


def _running_positions(x: Any, dim: int, largest: bool) -> Any:
    """Where the running extreme stands: the last position at which a new one (or an equal one) appeared."""
    best = (np.maximum if largest else np.minimum).accumulate(x, axis=dim)
    new = (x == best) | np.isnan(x)
    steps = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    return np.maximum.accumulate(np.where(new, steps, 0), axis=dim)


def sum_array(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    reduce: Any = np.add.reduce
    return reduce(x, axis=dims, keepdims=keepdim) if dims else x + 0


def variance_array(x: Any, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    count = x.dtype.type(np.prod([x.shape[d] for d in dims]))
    squares = np.square(x - sum_array(x, dims, True) / count)
    return sum_array(squares, dims, keepdim) / x.dtype.type(divisor)


def _principal(x: Any) -> Any:
    """log(exp(x)): x with its imaginary part from -π to π, and without one where exp(x) is 0."""
    phase = np.where(np.abs(x.imag) <= np.pi, x.imag, np.arctan2(np.sin(x.imag), np.cos(x.imag)))
    return complex_of_parts(x.real, np.where(x.real == -np.inf, 0, phase))


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


fill(
    {
        "amax": lambda x, dims, keepdim: np.maximum.reduce(x, axis=dims, keepdims=keepdim),
        "amin": lambda x, dims, keepdim: np.minimum.reduce(x, axis=dims, keepdims=keepdim),
        "prod": _product,
        "cumsum": _either_way(lambda x, dim: x.cumsum(axis=dim, dtype=x.dtype)),
        "recurrence": _either_way(_recurrence_array),
        "cumprod": _either_way(_running_product),
        "products_before": _either_way(_products_before),
        "logcumsumexp": running_logsumexp,
        "logsumexp": lambda x, dims, keepdim: _logsumexp_array(x, dims, keepdim),
        "all": lambda x, dims, keepdim: np.all(x, axis=dims, keepdims=keepdim),
        "any": lambda x, dims, keepdim: np.any(x, axis=dims, keepdims=keepdim),
        "count_nonzero": lambda x, dims, keepdim: np.count_nonzero(x, axis=dims, keepdims=keepdim),
        "argmax": lambda x, dim: np.argmax(x, axis=dim),
        "argmin": lambda x, dim: np.argmin(x, axis=dim),
        "running_positions": _running_positions,
        "sum": sum_array,
        "var": variance_array,
    }
)
