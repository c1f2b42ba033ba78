"""The base functions: NumPy's and SciPy's functions of single elements, of which bodies consist."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.precision import whole
from lucid.core import dtypes
from lucid.core.kernels import fill

NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})

# Those that NumPy has for every type that it gets.
UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "abs": np.absolute,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "hypot": np.hypot,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "copysign": np.copysign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}


def in_single(function: Callable[..., Any], *arrays: Any) -> Any:
    """Run a function that knows no half precision on half-precision arrays."""
    narrow = next((a.dtype for a in arrays if getattr(a, "dtype", None) in NARROW), None)
    if narrow is None:
        return function(*arrays)
    wide = [a.astype(np.float32) if getattr(a, "dtype", None) in NARROW else a for a in arrays]
    return function(*wide).astype(narrow)


def scipy_special(name: str) -> Callable[..., Any]:
    """`scipy.special.<name>`, imported when first called; half precision is computed in single."""
    found: Callable[..., Any] | None = None

    def impl(*arrays: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(importlib.import_module("scipy.special"), name)
        return in_single(found, *arrays)

    return impl


def _polygamma(x: Any, order: int) -> Any:
    special = scipy_special("polygamma")
    return np.asarray(in_single(lambda a: special(order, a), x)).astype(x.dtype, copy=False)


def _expm1(x: Any) -> Any:
    """NumPy's, with the limits of complex exponentials at infinities, which it misses, and at a negative 0."""
    out = np.expm1(x)
    if x.dtype.kind != "c":
        return out
    out = np.asarray(out)
    out.real += 0  # -0 becomes 0: the array API standard wants no sign there
    if np.isfinite(out).all():
        return out
    return np.where(np.isfinite(out), out, np.exp(x) - 1).astype(x.dtype, copy=False)


def _astype(x: Any, dtype: np.dtype[Any], source: np.dtype[Any]) -> Any:
    if source.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if dtype.kind in "iu" and source.kind not in "biu":
        return whole(x, dtype, "; mask it first, as with nan_to_num()")
    return x.astype(dtype)


# --- integers ----------------------------------------------------------------------------------


def _unless_whole(function: np.ufunc) -> Callable[..., Any]:
    """A function that leaves integers and truth values as they are."""
    return lambda x: x.copy() if x.dtype.kind in "iub" else function(x)


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


def _floor_divide(x: Any, y: Any) -> Any:
    """NumPy's, but an infinite number divided by a finite one is infinite: the array API standard's, not Python's nan."""
    out = np.floor_divide(x, y)
    lost = np.isnan(out)
    if not lost.any():
        return out
    lost &= np.isinf(x) & np.isfinite(y)
    return np.where(lost, np.divide(x, y), out).astype(out.dtype, copy=False)


def _of_integers(function: np.ufunc) -> Any:
    def impl(x: Any, y: Any) -> Any:
        if np.result_type(x, y).kind == "b":
            raise TypeError(f"{function.__name__} takes integers, not booleans; convert them first, as with .int()")
        return function(x, y)

    return impl


# --- selection, complex numbers, and how floats are stored --------------------------------------


def _where(condition: Any, x: Any, y: Any) -> Any:
    out = np.where(condition, x, y)
    if out.dtype.char == "d":
        # NumPy does not know that numbers beside bfloat16 have no say in the type.
        kinds = {getattr(v, "dtype", None) for v in (x, y)} - {None}
        return out.astype(kinds.pop()) if kinds == {dtypes.bfloat16.numpy} else out
    return out


def complex_of_parts(x: Any, y: Any) -> Any:
    """Both parts as they are: x + 1j·y would make nan of infinities."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), dtypes.complex_of(x.dtype))
    out.real, out.imag = x, y
    return out


def _complex_parts(x: Any, part: int) -> Any:
    out = np.zeros(x.shape, dtypes.complex_of(x.dtype))
    if part:
        out.imag = x
    else:
        out.real = x
    return out


def _conj(x: Any) -> Any:
    if not hasattr(x, "dtype"):
        return x.conjugate()  # a Python number, which decides about no type
    return x.copy() if x.dtype.kind == "b" else np.conjugate(x)


def _nextafter(x: Any, y: Any) -> Any:
    kind = x.dtype if isinstance(x, np.ndarray) else y.dtype
    return np.nextafter(np.asarray(x, kind), np.asarray(y, kind))


fill(
    {
        **UFUNCS,
        "expm1": _expm1,
        "sign": lambda x: x.copy() if x.dtype.kind == "b" else np.sign(x),
        "floor": _unless_whole(np.floor),
        "ceil": _unless_whole(np.ceil),
        "trunc": _unless_whole(np.trunc),
        "round": lambda x, decimals: np.round(x, decimals).astype(x.dtype, copy=False),
        "atan2": lambda x, y: in_single(np.arctan2, x, y),
        "floor_divide": _checked(_floor_divide),
        "truncated_divide": _checked(_trunc_divide),
        "remainder": _checked(np.remainder),
        "fmod": _checked(np.fmod),
        "gcd": _of_integers(np.gcd),
        "lcm": _of_integers(np.lcm),
        "where": _where,
        "cast": _astype,
        "conj": _conj,
        "real": lambda x: x.real,
        "imag": lambda x: x.imag,
        "complex": complex_of_parts,
        "complex_parts": _complex_parts,
        "signbit": lambda x: x < 0 if x.dtype.kind in "iub" else np.signbit(x),
        "nextafter": _nextafter,
        "exponent": lambda x: np.frexp(x)[1],
        "mantissa": lambda x: np.frexp(x)[0],
        "erf": scipy_special("erf"),
        "erfc": scipy_special("erfc"),
        "ndtr": scipy_special("ndtr"),
        "erfinv": scipy_special("erfinv"),
        "lgamma": scipy_special("gammaln"),
        "digamma": scipy_special("psi"),
        "polygamma": _polygamma,
    }
)
