"""Activation functions: to be replaced by generated code.

Each is a function that writes to memory it is given, run on blocks that stay in the cache, instead of several passes
over memory. NumPy's `where` takes ten times as long as a multiplication on random conditions, so these choose by
`maximum`, `minimum` or bit masks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu import activations as loops
from lucid.backends.numpy.scalars import NARROW
from lucid.core.kernels import fill

_BLOCK = 1 << 16


_BITS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def blockwise(kernel: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays of one shape from `kernel(*arrays, out, **params)`; half precision is computed in single."""

    def impl(*arrays: Any, **params: Any) -> Any:
        x = arrays[0]
        kind = x.dtype
        if kind in NARROW:
            return impl(*[a.astype(np.float32) for a in arrays], **params).astype(kind)
        if len(arrays) > 1:
            arrays = np.broadcast_arrays(*arrays) if arrays[1].shape != x.shape else arrays
        flat = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]
        out = np.empty(arrays[0].shape, kind)
        if out.ndim and out.size <= _BLOCK:
            kernel(*flat, out, **params)
            return out
        flat = [a.reshape(-1) for a in (*flat, out)]
        for start in range(0, out.size, _BLOCK):
            kernel(*[a[start : start + _BLOCK] for a in flat], **params)
        return out

    return impl


def _keep_unless(zero: Any, values: Any, out: Any) -> None:
    """`values`, and exactly 0 where the condition holds, whatever the value was."""
    kind = _BITS[out.itemsize]
    bits = out.view(kind)
    np.subtract(zero.view(np.int8), np.int8(1), out=bits)
    np.bitwise_and(bits, values.view(kind), out=bits)


def _choose(condition: Any, yes: float, no: float, out: Any) -> None:
    """One of two numbers."""
    bits = out.view(_BITS[out.itemsize])
    first, second = np.array([yes, no], out.dtype).view(bits.dtype)
    np.negative(condition.view(np.int8), out=bits)
    np.bitwise_and(bits, first ^ second, out=bits)
    np.bitwise_xor(bits, second, out=bits)


def _within_kernel(g: Any, x: Any, out: Any, lo: float, hi: float, inside: bool) -> None:
    zero = (x <= lo) | (x >= hi) if inside else (x >= lo) & (x <= hi)
    _keep_unless(zero, g, out)


def _hardtanh_kernel(x: Any, out: Any, lo: float, hi: float) -> None:
    np.maximum(x, x.dtype.type(lo), out=out)
    np.minimum(out, x.dtype.type(hi), out=out)


def _leaky_relu_kernel(x: Any, out: Any, slope: float) -> None:
    if slope == 0:
        np.maximum(x, 0, out=out)
        return
    np.multiply(x, x.dtype.type(slope), out=out)
    (np.maximum if slope <= 1 else np.minimum)(x, out, out=out)


def _softshrink_kernel(x: Any, out: Any, lambd: float) -> None:
    _hardtanh_kernel(x, out, -lambd, lambd)
    np.subtract(x, out, out=out)


def _threshold_kernel(x: Any, out: Any, threshold: float, value: float) -> None:
    below = x <= threshold
    _keep_unless(below, x, out)
    np.add(out, np.multiply(below, x.dtype.type(value)), out=out)


def _hardsigmoid_kernel(x: Any, out: Any) -> None:
    np.multiply(x, x.dtype.type(1 / 6), out=out)
    np.add(out, x.dtype.type(0.5), out=out)
    _hardtanh_kernel(out, out, 0, 1)


def _hardswish_kernel(x: Any, out: Any) -> None:
    factor = np.empty_like(out)
    _hardsigmoid_kernel(x, factor)
    np.multiply(x, factor, out=out)


def _hardswish_slope_kernel(x: Any, out: Any) -> None:
    line = x * x.dtype.type(1 / 3)
    line += x.dtype.type(0.5)
    beyond = x >= 3
    _keep_unless((x <= -3) | beyond, line, out)
    np.add(out, beyond, out=out)


def _elu_kernel(x: Any, out: Any, alpha: float, scale: float, rate: float) -> None:
    np.minimum(x, 0, out=out)
    if rate != 1:
        np.multiply(out, x.dtype.type(rate), out=out)
    np.expm1(out, out=out)
    if alpha * scale != 1:
        np.multiply(out, x.dtype.type(alpha * scale), out=out)
    positive = np.maximum(x, 0)
    if scale != 1:
        positive *= x.dtype.type(scale)
    np.add(out, positive, out=out)


def _elu_slope_kernel(x: Any, out: Any, alpha: float, scale: float, rate: float) -> None:
    np.minimum(x, 0, out=out)
    if rate != 1:
        np.multiply(out, x.dtype.type(rate), out=out)
    np.exp(out, out=out)
    at_zero = alpha * scale * rate
    if at_zero != 1:
        np.multiply(out, x.dtype.type(at_zero), out=out)
    if at_zero != scale:
        np.add(out, np.multiply(x > 0, x.dtype.type(scale - at_zero)), out=out)


# tanh(log(1 + e)) = w / (w + 2) with e = exp(x) and w = e (e + 2). It is 1 to all digits from x = 20 on.
_MISH_LIMIT = 20


def _mish_kernel(x: Any, out: Any) -> None:
    np.minimum(x, _MISH_LIMIT, out=out)
    np.exp(out, out=out)
    w = out + 2
    w *= out
    np.add(w, 2, out=out)
    np.divide(w, out, out=out)
    np.multiply(out, x, out=out)


def _mish_slope_kernel(x: Any, out: Any) -> None:
    """t + x (1 - t²) sigmoid(x), where 1 - t² = 4 (w + 1) / (w + 2)² and w + 1 = (e + 1)²."""
    limited = np.minimum(x, _MISH_LIMIT)
    e = np.exp(limited)
    w = e + 2
    w *= e
    np.add(w, 2, out=out)
    np.divide(w, out, out=w)
    # The product of 1 - t² and sigmoid = e / (e + 1) is 4 e (e + 1) / (w + 2)².
    limited *= e
    e += 1
    limited *= e
    limited /= out
    limited /= out
    limited *= 4
    np.add(w, limited, out=out)


def _softsign_kernel(x: Any, out: Any) -> None:
    np.abs(x, out=out)
    np.add(out, 1, out=out)
    np.divide(x, out, out=out)


def _tanhshrink_kernel(x: Any, out: Any) -> None:
    np.tanh(x, out=out)
    np.subtract(x, out, out=out)


fill(
    {
        "within": blockwise(_within_kernel),
        "step": blockwise(lambda x, out, above, below: _choose(x > 0, above, below, out)),
        "hardtanh": blockwise(_hardtanh_kernel),
        "leaky_relu": blockwise(_leaky_relu_kernel),
        "softshrink": blockwise(_softshrink_kernel),
        "hardshrink": blockwise(lambda x, out, lambd: _within_kernel(x, x, out, -lambd, lambd, False)),
        "threshold": blockwise(_threshold_kernel),
        "hardsigmoid": blockwise(_hardsigmoid_kernel),
        "hardswish_slope": blockwise(_hardswish_slope_kernel),
        "hardswish": blockwise(_hardswish_kernel),
        "elu_slope": blockwise(_elu_slope_kernel),
        "elu": blockwise(_elu_kernel),
        **{
            name: blockwise(getattr(loops, name))
            for name in ("silu", "silu_back", "gelu", "gelu_back", "gelu_tanh", "gelu_tanh_back")
        },
        "mish_slope": blockwise(_mish_slope_kernel),
        "mish": blockwise(_mish_kernel),
        "softsign": blockwise(_softsign_kernel),
        "tanhshrink": blockwise(_tanhshrink_kernel),
    },
    "cpu",
)
