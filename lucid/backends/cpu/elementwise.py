"""Elementwise functions in fewer passes over memory than their bodies take: to be replaced by generated code."""

from typing import Any

import numpy as np

from lucid.backends.cpu import activations, arithmetic, derivatives
from lucid.backends.numpy.scalars import in_single
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.native import in_use

_SINGLE_AND_DOUBLE = dtypes.SINGLE_AND_DOUBLE


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow."""
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


def clamp(x: Any, lo: Any, hi: Any) -> Any:
    if x.dtype.char not in "fd":
        return np.clip(x, lo, hi).astype(x.dtype, copy=False)
    if lo is not None:  # the same in half the time of `np.clip`
        x = np.maximum(x, lo)
    return x if hi is None else np.minimum(x, hi)


def overwrite(x: Any, y: Any) -> Any:
    shape = x.shape if y.shape == x.shape or not y.ndim else np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, x.dtype)
    np.copyto(out, y, casting="unsafe")
    return out


fill(
    {
        "sigmoid": sigmoid,
        "relu": relu,
        "gate": gate,
        "pow_scalar": power,
        "clamp": clamp,
        "overwrite": overwrite,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "reciprocal": lambda x: 1 / x,
        **derivatives.KERNELS,
    },
    "cpu",
)
# Small arrays of one floating-point type do without the set-up of a NumPy function.
fill(
    {
        "add": arithmetic.add,
        "add_into": arithmetic.add_into,  # not a primitive: gradients that add up
        "sub": arithmetic.subtract,
        "mul": arithmetic.multiply,
        "div": arithmetic.divide,
        "neg": arithmetic.negative,
        "square": arithmetic.square,
        "chain": arithmetic.chain,
        "chain_both": arithmetic.chain_both,
    },
    "cpu",
    has_frames=True,
)
