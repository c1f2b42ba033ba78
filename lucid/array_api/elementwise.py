"""Elementwise functions: lucid's own, with the standard's names, signatures and type promotion."""

from collections.abc import Callable
from typing import Any

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.core.tensor import Tensor

Function = Callable[..., Tensor]


def _described(function: Function, name: str, source: str) -> Function:
    """Name and describe a function by lucid's, whose example is its own."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (getattr(lucid, source).__doc__ or "").replace(f"lucid.{source}(", f"lucid.array_api.{name}(")
    return function


def _unary(name: str, source: str | None = None) -> Function:
    source = source or name
    compute = getattr(lucid, source)

    def function(x: Any, /) -> Tensor:
        return compute(array(x, name))

    return _described(function, name, source)


def _binary(name: str, source: str | None = None) -> Function:
    source = source or name
    compute = getattr(lucid, source)

    def function(x1: Any, x2: Any, /) -> Tensor:
        return compute(*same_type(name, x1, x2))

    return _described(function, name, source)


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_invert = _unary("bitwise_invert", "bitwise_not")
ceil = _unary("ceil")
conj = _unary("conj")
cos = _unary("cos")
cosh = _unary("cosh")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
imag = _unary("imag")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logical_not = _unary("logical_not")
negative = _unary("negative", "neg")
real = _unary("real")
reciprocal = _unary("reciprocal")
sign = _unary("sign", "sgn")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")

atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide", "true_divide")
equal = _binary("equal", "eq")
floor_divide = _binary("floor_divide")
greater = _binary("greater", "gt")
greater_equal = _binary("greater_equal", "ge")
hypot = _binary("hypot")
less = _binary("less", "lt")
less_equal = _binary("less_equal", "le")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply", "mul")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal", "ne")
pow = _binary("pow")
remainder = _binary("remainder")
subtract = _binary("subtract", "sub")


def add(x1: Any, x2: Any, /) -> Tensor:
    """The sum of two arrays, element by element.

    >>> import lucid
    >>> lucid.array_api.add(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([4., 6.])
    """
    return lucid.add(*same_type("add", x1, x2))


def round(x: Any, /) -> Tensor:
    """The nearest whole number, of two the even one.

    >>> import lucid
    >>> lucid.array_api.round(lucid.tensor([0.5, 1.2, 1.5]))
    Tensor([0., 1., 2.])
    """
    return lucid.round(array(x, "round"))


def positive(x: Any, /) -> Tensor:
    """A copy of each element.

    >>> import lucid
    >>> lucid.array_api.positive(lucid.tensor([1.0, -2.0]))
    Tensor([ 1., -2.])
    """
    return array(x, "positive").clone()


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements held between `min` and `max`, in the type of `x`.

    >>> import lucid
    >>> lucid.array_api.clip(lucid.tensor([1.0, 5.0, 9.0]), 2, lucid.tensor(6.0))
    Tensor([2., 5., 6.])
    """
    found = array(x, "clip")
    low, high = (b.to(found.dtype) if isinstance(b, Tensor) else b for b in (min, max))
    return found.clone() if low is None and high is None else lucid.clamp(found, low, high)
