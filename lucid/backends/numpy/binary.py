"""Elementwise functions of two and three operands, comparisons and logic."""

from typing import Any

import numpy as np

from lucid.backends.cpu import arithmetic
from lucid.backends.numpy import elementwise as arrays
from lucid.backends.numpy.checks import real_only
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.ops.promotion import NUMBERS


def _raise_on_zero(x: Any, y: Any) -> None:
    kind = np.result_type(x, y).kind
    if kind == "b":
        raise TypeError("booleans cannot be divided; convert them to numbers first, as with .int()")
    if kind in "iu" and not np.all(y):
        raise ZeroDivisionError("integer division by zero")


def _checked(function: Any) -> Any:
    def impl(x: Any, y: Any) -> Any:
        _raise_on_zero(x, y)
        return function(x, y)

    return impl


def _trunc_divide(x: Any, y: Any) -> Any:
    if np.result_type(x, y).kind in "iub":
        quotient = np.floor_divide(x, y)
        return quotient + ((quotient < 0) & (quotient * y != x))
    return np.trunc(x / y)


def _floor_divide_array(x: Any, y: Any) -> Any:
    """NumPy's, but an infinite number divided by a finite one is infinite: the array API standard's, not Python's nan."""
    out = np.floor_divide(x, y)
    lost = np.isnan(out)
    if not lost.any():
        return out
    lost &= np.isinf(x) & np.isfinite(y)
    return np.where(lost, np.divide(x, y), out).astype(out.dtype, copy=False)


def _log_of_sum(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), counted from the operand with the larger real part."""
    if np.result_type(x, y).kind != "c":
        return np.logaddexp(x, y)
    kind = x.dtype if isinstance(x, np.ndarray) else y.dtype
    x, y = np.broadcast_arrays(np.asarray(x, kind), np.asarray(y, kind))
    first = x.real >= y.real
    high, low = np.where(first, x, y), np.where(first, y, x)
    same = np.isinf(high.real) & (x == y)  # their difference is not a number
    return np.where(same, high, high + np.log1p(np.exp(np.where(same, 0, low - high))))


def _xlogy_array(x: Any, y: Any) -> Any:
    kind = x.dtype if isinstance(x, np.ndarray) else y.dtype
    x, y = np.asarray(x, kind), np.asarray(y, kind)
    zero = (x == 0) & ~np.isnan(y)
    return np.where(zero, 0, x * np.log(np.where(zero, 1, y)))


def _where_array(condition: Any, x: Any, y: Any) -> Any:
    out = np.where(condition, x, y)
    if out.dtype.char == "d" and (isinstance(x, NUMBERS) or isinstance(y, NUMBERS)):
        # NumPy does not know that numbers beside bfloat16 have no say in the type.
        kind = getattr(y if isinstance(x, NUMBERS) else x, "dtype", None)
        return out.astype(kind) if kind == dtypes.bfloat16.numpy else out
    return out


def _overwrite(x: Any, y: Any) -> Any:
    shape = x.shape if y.shape == x.shape or not y.ndim else np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, x.dtype)
    np.copyto(out, y, casting="unsafe")
    return out


fill(
    {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "chain": arithmetic.chain,
        "chain_both": arithmetic.chain_both,
        "div": np.true_divide,
        "floor_divide": _checked(_floor_divide_array),
        "truncated_divide": _checked(_trunc_divide),
        "remainder": _checked(np.remainder),
        "fmod": _checked(np.fmod),
        "pow": np.power,
        "pow_scalar": arrays.power,
        "atan2": lambda x, y: arrays.in_single(np.arctan2, x, y),
        "hypot": np.hypot,
        "maximum": real_only("maximum", np.maximum),
        "minimum": real_only("minimum", np.minimum),
        "fmax": real_only("fmax", np.fmax),
        "fmin": real_only("fmin", np.fmin),
        "logaddexp": _log_of_sum,
        "logaddexp2": real_only("logaddexp2", np.logaddexp2),
        "copysign": np.copysign,
        "xlogy": real_only("xlogy", lambda x, y: _xlogy_array(x, y)),
        "heaviside": real_only("heaviside", lambda x, y: np.where(x == 0, y, x > 0).astype(y.dtype)),
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": real_only("lt", np.less),
        "le": real_only("le", np.less_equal),
        "gt": real_only("gt", np.greater),
        "ge": real_only("ge", np.greater_equal),
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
        "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
        "where": _where_array,
        "overwrite": _overwrite,
    }
)
