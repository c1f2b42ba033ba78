"""Activation functions as elementwise primitives.

Each is one kernel that writes to memory it is given, run on blocks that stay in the cache, instead of several passes
over memory. NumPy's `where` takes ten times as long as a multiplication on random conditions, so kernels choose by
`maximum`, `minimum` or bit masks.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu import activations as kernels
from lucid.backends.cpu.activation_constants import A, B
from lucid.core import dtypes
from lucid.core.primitive import apply_to_one
from lucid.core.tensor import Tensor
from lucid.ops.elementwise import binary_door, unary_door
from lucid.ops.promotion import FLOAT, general
from lucid.ops.rules import Elementwise, P, Pair, Partial
from lucid.ops.unary import real_only

_BLOCK = 1 << 16
_NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})
_FLOATING = dtypes.FLOATING
_BITS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def blockwise(name: str, kernel: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays of one shape from `kernel(*arrays, out, **params)`; half precision is computed in single."""

    def impl(*arrays: Any, **params: Any) -> Any:
        x = arrays[0]
        kind = x.dtype
        if kind in _NARROW:
            return impl(*[a.astype(np.float32) for a in arrays], **params).astype(kind)
        if kind.kind == "c":
            raise TypeError(f"{name} takes real tensors, not complex ones; take abs(), real or imag first")
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


def activation(name: str, kernel: Callable[..., None], d: Partial, doc: str = "") -> Callable[..., Any]:
    """Declare an activation without parameters and give its function."""
    return unary_door(Elementwise(name, blockwise(name, kernel), (d,), ("x",)), FLOAT, doc)


def with_parameters(name: str, kernel: Callable[..., None], d: Partial) -> Callable[..., Tensor]:
    """Declare an activation whose parameters are keywords, and give its function."""
    prim = Elementwise(name, blockwise(name, kernel), (d,), ("x",))

    def call(input: Any, **params: Any) -> Tensor:
        if type(input) is Tensor and input._array.dtype in _FLOATING:
            return apply_to_one(prim, input, params)
        return general(prim, (input,), FLOAT, params)

    call.__name__ = call.__qualname__ = name
    return call


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


# --- piecewise ---------------------------------------------------------------------------------


def _within_kernel(g: Any, x: Any, out: Any, lo: float, hi: float, inside: bool) -> None:
    zero = (x <= lo) | (x >= hi) if inside else (x >= lo) & (x <= hi)
    _keep_unless(zero, g, out)


# g where x lies between two bounds (or, with inside=False, outside them), and 0 elsewhere, bounds included.
within = Elementwise(
    "within",
    blockwise("within", _within_kernel),
    (Pair(lambda ct, x, lo, hi, inside: P.within(ct, x, lo=lo, hi=hi, inside=inside)), 0),
    ("g", "x"),
)
# One number above 0, and another at 0 and below.
step = Elementwise(
    "step",
    blockwise("step", lambda x, out, above, below: _choose(x > 0, above, below, out)),
    (0,),
    ("x",),
)


def _hardtanh_kernel(x: Any, out: Any, lo: float, hi: float) -> None:
    np.maximum(x, x.dtype.type(lo), out=out)
    np.minimum(out, x.dtype.type(hi), out=out)


hardtanh = with_parameters(
    "hardtanh", _hardtanh_kernel, Pair(lambda ct, x, lo, hi: P.within(ct, x, lo=lo, hi=hi, inside=True))
)


def _leaky_relu_kernel(x: Any, out: Any, slope: float) -> None:
    if slope == 0:
        np.maximum(x, 0, out=out)
        return
    np.multiply(x, x.dtype.type(slope), out=out)
    (np.maximum if slope <= 1 else np.minimum)(x, out, out=out)


leaky_relu = with_parameters("leaky_relu", _leaky_relu_kernel, lambda x, slope: P.step(x, above=1.0, below=slope))


def _prelu_slope(x: Any, weight: Any) -> Any:
    return P.step(x, above=1.0, below=0.0) + weight * P.step(x, above=0.0, below=1.0)


# x above 0, weight · x below; the weight broadcasts.
prelu = binary_door(
    Elementwise(
        "prelu",
        real_only("prelu", lambda x, weight: np.where(x > 0, x, np.multiply(x, weight))),
        (_prelu_slope, lambda x: P.clamp(x, lo=None, hi=0)),
        ("x", "weight"),
    ),
    FLOAT,
    "",
)


def _softshrink_kernel(x: Any, out: Any, lambd: float) -> None:
    _hardtanh_kernel(x, out, -lambd, lambd)
    np.subtract(x, out, out=out)


softshrink = with_parameters(
    "softshrink", _softshrink_kernel, Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False))
)
hardshrink = with_parameters(
    "hardshrink",
    lambda x, out, lambd: _within_kernel(x, x, out, -lambd, lambd, False),
    Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False)),
)


def _threshold_kernel(x: Any, out: Any, threshold: float, value: float) -> None:
    below = x <= threshold
    _keep_unless(below, x, out)
    np.add(out, np.multiply(below, x.dtype.type(value)), out=out)


threshold = with_parameters(
    "threshold",
    _threshold_kernel,
    Pair(lambda ct, x, threshold: P.within(ct, x, lo=-math.inf, hi=threshold, inside=False)),
)


def _hardsigmoid_kernel(x: Any, out: Any) -> None:
    np.multiply(x, x.dtype.type(1 / 6), out=out)
    np.add(out, x.dtype.type(0.5), out=out)
    _hardtanh_kernel(out, out, 0, 1)


def _within_3(g: Any, x: Any) -> Any:
    return P.within(g, x, lo=-3.0, hi=3.0, inside=True)


hardsigmoid = activation("hardsigmoid", _hardsigmoid_kernel, Pair(lambda ct, x: _within_3(ct * (1 / 6), x)))


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


hardswish_slope = activation("hardswish_slope", _hardswish_slope_kernel, Pair(lambda ct, x: _within_3(ct * (1 / 3), x)))
hardswish = activation("hardswish", _hardswish_kernel, lambda x: P.hardswish_slope(x))

# --- smooth ------------------------------------------------------------------------------------


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


def _elu_curvature(x: Any, alpha: float, scale: float, rate: float) -> Any:
    exponential = P.exp(rate * P.clamp(x, lo=None, hi=0))
    return P.where(x > 0, 0, alpha * scale * rate * rate * exponential)


elu_slope = with_parameters("elu_slope", _elu_slope_kernel, _elu_curvature)
# scale · x above 0, and scale · alpha · (exp(rate · x) - 1) below.
elu = with_parameters(
    "elu",
    _elu_kernel,
    lambda x, alpha, scale, rate: P.elu_slope(x, alpha=alpha, scale=scale, rate=rate),
)


def gated(name: str, curvature: Callable[..., Any]) -> Callable[..., Any]:
    """Declare an activation of `gates`, whose second derivative is given, and give its function."""
    back = f"{name}_back"
    Elementwise(
        back,
        blockwise(back, getattr(kernels, back)),
        (Pair(lambda ct, x: getattr(P, back)(ct, x)), lambda g, x: g * curvature(x)),
        ("g", "x"),
    )
    return activation(name, getattr(kernels, name), Pair(lambda ct, x: getattr(P, back)(ct, x)))


def _silu_curvature(x: Any) -> Any:
    s = P.sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _gelu_tanh_curvature(x: Any) -> Any:
    square = x * x
    s = P.sigmoid(x * (A + B * square))
    growth = A + 3 * B * square
    return s * (1 - s) * (2 * growth + x * (growth * growth * (1 - 2 * s) + 6 * B * x))


silu = gated("silu", _silu_curvature)
gelu = gated("gelu", lambda x: P.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)) * (2 - x * x))
gelu_tanh = gated("gelu_tanh", _gelu_tanh_curvature)

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


def _mish_curvature(x: Any) -> Any:
    t = P.tanh(P.softplus(x, beta=1.0, threshold=20.0))
    s = P.sigmoid(x)
    slope = (1 - t * t) * s
    return slope * (2 + x * (1 - s - 2 * t * s))


mish_slope = activation("mish_slope", _mish_slope_kernel, lambda x: _mish_curvature(x))
mish = activation("mish", _mish_kernel, lambda x: P.mish_slope(x))


def _softsign_kernel(x: Any, out: Any) -> None:
    np.abs(x, out=out)
    np.add(out, 1, out=out)
    np.divide(x, out, out=out)


def _softsign_slope(x: Any) -> Any:
    inverse = P.reciprocal(1 + P.abs(x))
    return inverse * inverse


softsign = activation("softsign", _softsign_kernel, lambda x: _softsign_slope(x))


def _tanhshrink_kernel(x: Any, out: Any) -> None:
    np.tanh(x, out=out)
    np.subtract(x, out, out=out)


def _tanhshrink_slope(x: Any) -> Any:
    t = P.tanh(x)
    return t * t


tanhshrink = activation("tanhshrink", _tanhshrink_kernel, lambda x: _tanhshrink_slope(x))
