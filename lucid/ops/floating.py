"""Floating-point numbers as they are stored: signs, exponents, neighbours, infinities."""

import math
from typing import Any, NamedTuple

import numpy as np

from lucid.arguments.promotion import BOOL, FLOAT, lift_all
from lucid.core import dtypes
from lucid.core.primitive import apply, lift
from lucid.core.tensor import Tensor
from lucid.ops.abstract import of_type
from lucid.ops.binary import mul, pow
from lucid.ops.categories import Elementwise
from lucid.ops.elementwise import binary, unary
from lucid.ops.rules import P, np_dtype

signbit = unary(
    "signbit",
    None,
    "Where elements have a minus sign; 0 may have one too. | [-1.0, -0.0, 2.0] -> Tensor([ True,  True, False])",
    BOOL,
    real=True,
)
isposinf = unary(
    "isposinf",
    None,
    'Where elements are +∞. | [1.0, float("inf"), float("-inf")] -> Tensor([False,  True, False])',
    BOOL,
    body=lambda x: x == math.inf,
    real=True,
)
isneginf = unary(
    "isneginf",
    None,
    'Where elements are -∞. | [1.0, float("inf"), float("-inf")] -> Tensor([False, False,  True])',
    BOOL,
    body=lambda x: x == -math.inf,
    real=True,
)


# A step to the neighbour is smaller than any change that a derivative speaks of.
_nextafter = binary(
    "nextafter",
    (1, 0),
    "The neighbour of input on the way to other.",
    FLOAT,
    real=True,
)


def _raise_unless_floating(name: str, *operands: Any) -> None:
    for x in operands:
        if isinstance(x, Tensor) and x.np_dtype not in dtypes.FLOATING:
            raise TypeError(f"{name} takes floating-point tensors, not {x.dtype}; convert it first, as with float()")


def nextafter(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """The neighbour of each element of `input`, among the numbers of its type, on the way to `other`.

    >>> import lucid
    >>> x = lucid.nextafter(lucid.tensor(1.0), lucid.tensor(2.0))
    >>> x.item() - 1 == lucid.finfo(lucid.float32).eps
    True
    """
    _raise_unless_floating("nextafter", input, other)
    result: Tensor = _nextafter(input, other, out=out)
    return result


class Frexp(NamedTuple):
    """What `frexp` gives."""

    mantissa: Tensor
    exponent: Tensor


exponent_primitive = Elementwise("exponent", (None,), ("x",), abstract=of_type(dtypes.int32.numpy))
mantissa_primitive = Elementwise("mantissa", (lambda x: _scale(x),), ("x",))


def _scale(x: Any) -> Any:
    """2 to the power of minus the exponent of x, which is constant between powers of 2."""
    exponent = P.exponent(x)
    return P.exp2(-P.cast(exponent, dtype=np_dtype(x), source=np_dtype(exponent)))


def frexp(input: Any) -> Frexp:
    """Each element as mantissa · 2^exponent, with mantissas from 1/2 up to 1 (not included) in size.

    >>> import lucid
    >>> lucid.frexp(lucid.tensor([1.0, -6.0, 0.0]))
    Frexp(mantissa=Tensor([ 0.5 , -0.75,  0.  ]), exponent=Tensor([1, 3, 0], dtype=lucid.int32))
    """
    x = lift(input)
    _raise_unless_floating("frexp", x)
    return Frexp(apply(mantissa_primitive, (x,), {}), apply(exponent_primitive, (x,), {}))


def ldexp(input: Any, other: Any) -> Tensor:
    """input · 2^other.

    >>> import lucid
    >>> lucid.ldexp(lucid.tensor([1.0, 3.0]), lucid.tensor([4, -1]))
    Tensor([16. ,  1.5])
    """
    x = lift_all(input, other)[0]
    if isinstance(other, (bool, int, float, complex)):
        return mul(x, np.exp2(other).item())
    y = lift(other)
    if y.np_dtype not in dtypes.DIFFERENTIABLE:
        kind = x.np_dtype if x.np_dtype in dtypes.DIFFERENTIABLE else dtypes.default_float()
        y = y.to(dtypes.real_of(kind))
    return mul(x, pow(2.0, y))
