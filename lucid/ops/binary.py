"""Elementwise functions of two and three operands, comparisons and logic."""

import math
from typing import Any

import numpy as np

from lucid.arguments import promotion
from lucid.arguments.out import one_primitive
from lucid.arguments.promotion import BOOL as TRUTH
from lucid.arguments.promotion import FLOAT, INTEGRAL, KEEP, NUMBERS, answer, exact, lift_all, promote
from lucid.core import dtypes
from lucid.core.arrays import as_array, has_negative
from lucid.core.errors import ArgumentError
from lucid.core.levels import tracing
from lucid.core.primitive import constant, element_type, lift
from lucid.core.tensor import Tensor, is_plain, shape_of, wrapped
from lucid.ops.abstract import Abstract, broadcast, common, counting_truth
from lucid.ops.categories import Change, Check, Elementwise, Linear, Pair, Selects, of_integers
from lucid.ops.elementwise import binary, called
from lucid.ops.rules import P, chained, is_complex, np_dtype, ones_like, typed_as
from lucid.ops.unary import LOG2, square

_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy
_NO_PARAMS: dict[str, Any] = {}
_LARGE = 1e38  # numbers below it are finite in both

plus = binary("add", (1, 1), "Sum of two tensors, element by element.", linear_in=(0, 1))
minus = binary("sub", (1, -1), "Difference of two tensors, element by element.", linear_in=(0, 1))
mul = binary(
    "mul",
    ("y", "x"),
    "Product of two tensors, element by element. | [1.0, 2.0]; [3.0, 4.0] -> Tensor([3., 8.])",
)


# The product of the chain rule, which derivatives consist of, and its derivative by the second factor: see
# `rules.chained`.
binary(
    "chain",
    ("y", Change(lambda x: x)),
    "x · y, and exactly 0 where x is 0, whatever y is.",
    body=lambda x, y: _unless_nan(x * y, x == 0),
)
binary(
    "chain_both",
    (Change(lambda y: y), Change(lambda x: x)),
    "x · y, and exactly 0 where either is 0, whatever the other is.",
    body=lambda x, y: _unless_nan(x * y, (x == 0) | (y == 0)),
)


def _unless_nan(product: Any, vanishes: Any) -> Any:
    return P.where(vanishes & (product != product), 0, product)


def _inverse(y: Any) -> Any:
    # Python raises where arrays give an infinity.
    return math.copysign(math.inf, y.real) if isinstance(y, NUMBERS) and y == 0 else 1 / y


true_divide = binary(
    "div",
    (lambda y: _inverse(y), lambda x, y: -(x / y) / y),
    "Quotient of two tensors, element by element; integers give floats. | [1.0, 3.0]; [2.0, 4.0] -> Tensor([0.5 , 0.75])",
    FLOAT,
    linear_in=(0,),
)


# Numbers beside tensors are operands like these, so that one loop serves for all of them.
add_scaled = Elementwise(
    "add_scaled",
    (1, lambda alpha: alpha, lambda y: y),
    ("x", "y", "alpha"),
    body=lambda x, y, alpha: x + y * alpha,
)
sub_scaled = Elementwise(
    "sub_scaled",
    (1, Linear(lambda ct, alpha: -chained(ct, alpha)), lambda y: -y),
    ("x", "y", "alpha"),
    body=lambda x, y, alpha: x - y * alpha,
)


@one_primitive(P.add, policy=KEEP, alpha=P.add_scaled)
def add(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other.

    >>> import lucid
    >>> lucid.add(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]), alpha=10)
    Tensor([31., 42.])
    """
    return plus(input, other) if alpha == 1 else called(add_scaled, (input, other, alpha), KEEP, {})


@one_primitive(P.sub, policy=KEEP, alpha=P.sub_scaled)
def sub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other.

    >>> import lucid
    >>> lucid.sub(lucid.tensor([1.0, 2.0]), 1)
    Tensor([0., 1.])
    """
    return minus(input, other) if alpha == 1 else called(sub_scaled, (input, other, alpha), KEEP, {})


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input.

    >>> import lucid
    >>> lucid.rsub(lucid.tensor([1.0, 2.0]), 10, alpha=2)
    Tensor([8., 6.])
    """
    return sub(other, input, alpha=alpha)


@one_primitive(P.div, policy=FLOAT)
def div(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Quotient of two tensors; `rounding_mode` "floor" rounds it down, "trunc" towards 0.

    >>> import lucid
    >>> x = lucid.tensor([-3, 3])
    >>> lucid.div(x, 2)
    Tensor([-1.5,  1.5])
    >>> lucid.div(x, 2, rounding_mode="trunc")
    Tensor([-1,  1])
    """
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return truncated_divide(input, other)
    raise ValueError(f"rounding_mode must be None, 'floor' or 'trunc', not {rounding_mode!r}")


_DIVISORS = Check("that no divisor is 0", of_integers)

floor_divide = binary(
    "floor_divide",
    (0, 0),
    "Quotient rounded down. | [7.0, -7.0]; [2.0, 2.0] -> Tensor([ 3., -4.])",
    checks=_DIVISORS,
)
truncated_divide = binary("truncated_divide", (0, 0), "Quotient rounded towards 0.", checks=_DIVISORS)
remainder = binary(
    "remainder",
    (1, lambda x, y: -P.floor_divide(x, y)),
    "Remainder of the division rounded down; it has the sign of the divisor. | [7.0, -7.0]; [3.0, 3.0] -> Tensor([1., 2.])",
    checks=_DIVISORS,
)
fmod = binary(
    "fmod",
    (1, lambda x, y: -P.truncated_divide(x, y)),
    "Remainder of the division rounded towards 0; it has the sign of the dividend. | [7.0, -7.0]; [3.0, 3.0] -> Tensor([ 1., -1.])",
    checks=_DIVISORS,
)


def _d_base(x: Any, y: Any) -> Any:
    # At y = 0 it is 0, but its own derivative by y is not; at 0**0 there is none.
    none = (x == 0) & (y == 0)
    return P.where(none, 0, chained(y, P.where(none, 1, x) ** (y - 1)))


def _d_exponent(x: Any, y: Any, out: Any) -> Any:
    if isinstance(x, NUMBERS):
        x = x * ones_like(y)
    zero = (x == 0) if out.dtype.kind == "c" else (x == 0) & (y >= 0)
    return P.where(zero, 0, out * P.log(P.where(zero, 1, x)))


_IN_BYTES = counting_truth(dtypes.int8.numpy)

tensor_power = binary(
    "pow",
    (_d_base, _d_exponent),
    "Each base to its exponent.",
    abstract=_IN_BYTES,
    checks=Check("that no exponent is negative", of_integers),
)


def _power(x: Any, exponent: Any) -> Any:
    """Small whole powers by multiplication, which is exact and faster."""
    if exponent == 3:
        return x * x * x
    if exponent == 4:
        return (x * x) * (x * x)
    if exponent == -1 and np_dtype(x).kind in "fcV":
        return 1 / x
    return P.sqrt(x) if exponent == 0.5 else P.pow(x, exponent)


_SHORT_POWERS = (-1, 0, 0.5, 1, 2, 3, 4)  # which are simpler than others, or their derivatives are

scalar_power = Elementwise(
    "pow_scalar",
    (lambda x, exponent: x * 0 if exponent == 0 else P.pow_scalar(x, exponent=exponent - 1) * exponent,),
    ("x",),
    body=_power,
)


@one_primitive()
def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent, element by element.

    >>> import lucid
    >>> lucid.pow(lucid.tensor([1.0, 2.0, 3.0]), 2)
    Tensor([1., 4., 9.])
    >>> lucid.pow(2, lucid.tensor([1.0, 2.0, 3.0]))
    Tensor([2., 4., 8.])
    """
    if type(exponent) is int and exponent == 2 and is_plain(input):
        kind = input._array.dtype
        if kind is _F32 or kind is _F64:
            return square(input)
    if isinstance(exponent, np.generic):
        exponent = exponent.item() if promotion.lattice_of((input,)) is None else lift(exponent)
    if not isinstance(exponent, NUMBERS):
        return _checked_power(input, exponent)
    if not isinstance(input, (Tensor, np.ndarray, np.generic)):
        input = lift(input)
    if exponent == 2 and (not is_plain(input) or input._array.dtype in dtypes.DIFFERENTIABLE):
        return square(input)
    if isinstance(input, Tensor):
        x = input
        if x.np_dtype not in dtypes.DIFFERENTIABLE:
            if isinstance(exponent, (float, complex)) or x.np_dtype == dtypes.BOOL:
                lattice = promotion.lattice_of((x,))
                kind = None if lattice is None else lattice.result_type([x.np_dtype], [exponent])
                x = x.to(kind or promotion.scalar_type(exponent))
            elif exponent < 0:
                raise ArgumentError("integers to negative integer powers are not allowed; convert to float first")
        elif isinstance(exponent, complex) and not x.is_complex():
            x = x.to(dtypes.complex_of(x.np_dtype))
        input = x
    if type(exponent) is float and exponent not in _SHORT_POWERS and input.np_dtype in dtypes.SINGLE_AND_DOUBLE:
        return tensor_power(input, exponent)  # as an operand: one loop for all exponents
    return called(scalar_power, (input,), KEEP, {"exponent": exponent})


def _checked_power(input: Any, exponent: Any) -> Tensor:
    if (found := answer("pow", (input, exponent))) is not NotImplemented:
        return found
    x, y = promote("pow", (input, exponent), KEEP)
    if not isinstance(x, Tensor):
        # The derivative by the exponent needs the logarithm of the base as a tensor.
        x = Tensor._wrap(as_array(x, y.np_dtype))
    if is_plain(y) and y.np_dtype.kind in "iu" and has_negative(y._array):
        raise ArgumentError("integers to negative integer powers are not allowed; convert to float first")
    return tensor_power(x, y)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in double precision.

    >>> import lucid
    >>> lucid.float_power(lucid.tensor([1.0, 2.0, 4.0]), -1)
    Tensor([1.  , 0.5 , 0.25], dtype=lucid.float64)
    """

    def double(value: Any) -> Any:
        if isinstance(value, NUMBERS):
            return value
        x = exact(value)
        return x.to(dtypes.complex128.numpy if x.is_complex() else dtypes.float64.numpy)

    x, y = double(input), double(exponent)
    if not isinstance(x, Tensor):
        x = exact(x).to(dtypes.complex128.numpy if isinstance(x, complex) else dtypes.float64.numpy)
    return pow(x, y)


def _over_square(x: Any, y: Any) -> Any:
    """x / (x² + y²), and 0 at 0, without squares, which may overflow or vanish."""
    length = P.hypot(x, y)
    return P.where(length == 0, 0, x / P.where(length == 0, 1, length) / P.where(length == 0, 1, length))


atan2 = binary(
    "atan2",
    (lambda x, y: _over_square(y, x), lambda x, y: -_over_square(x, y)),
    "The angle of the point (other, input). | [1.0, 1.0]; [1.0, -1.0] -> Tensor([0.7854, 2.3562])",
    FLOAT,
)


def _share_of_length(x: Any, length: Any) -> Any:
    """x / length, and 0 with a derivative of 0 where that is 0."""
    return P.where(length == 0, 0, x / P.where(length == 0, 1, length))


hypot = binary(
    "hypot",
    (lambda x, out: _share_of_length(x, out), lambda y, out: _share_of_length(y, out)),
    "sqrt(input² + other²) without overflow. | [3.0, 5.0]; [4.0, 12.0] -> Tensor([ 5., 13.])",
    FLOAT,
)


def _choice(first: bool, larger: bool, nan_wins: bool = True) -> Pair:
    """Passes to the operand from which the value came; equal operands share, and so do two that are nan."""

    def pass_on(ct: Any, x: Any, y: Any) -> Any:
        mine, other = (x, y) if first else (y, x)
        my_nan, other_nan = mine != mine, other != other
        ahead = mine > other if larger else mine < other
        chosen = ahead | (my_nan if nan_wins else other_nan)
        return P.where((mine == other) | (my_nan & other_nan), ct * 0.5, P.where(chosen, ct, 0))

    return Pair(pass_on)


maximum = binary(
    "maximum",
    (_choice(True, True), _choice(False, True)),
    "The larger of two; nan wins, ties share. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([2., 3.])",
    real=True,
)
minimum = binary(
    "minimum",
    (_choice(True, False), _choice(False, False)),
    "The smaller of two; nan wins, ties share. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([1., 2.])",
    real=True,
)
fmax = binary(
    "fmax",
    (_choice(True, True, False), _choice(False, True, False)),
    'The larger of two, ignoring nan. | [1.0, float("nan")]; [2.0, 3.0] -> Tensor([2., 3.])',
    real=True,
)
fmin = binary(
    "fmin",
    (_choice(True, False, False), _choice(False, False, False)),
    'The smaller of two, ignoring nan. | [1.0, float("nan")]; [2.0, 3.0] -> Tensor([1., 3.])',
    real=True,
)


def _log_of_sum(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), counted from the operand with the larger real part."""
    if not is_complex(x):
        far = P.maximum(x, y) + P.log1p(P.exp(-P.abs(x - y)))
        return P.where(x == y, x + LOG2, far)  # also where both are infinite
    first = P.real(x) >= P.real(y)
    high, low = P.where(first, x, y), P.where(first, y, x)
    same = P.isinf(P.real(high)) & (x == y)  # their difference is not a number
    return P.where(same, high, high + P.log1p(P.exp(P.where(same, 0, low - high))))


def _log2_of_sum(x: Any, y: Any) -> Any:
    far = P.maximum(x, y) + P.log1p(P.exp2(-P.abs(x - y))) * (1 / LOG2)
    return P.where(x == y, x + 1, far)


def _share(x: Any, y: Any) -> Any:
    """What part of exp(x) + exp(y) is exp(x), also where their logarithm is too large to tell; 1/2 of equal infinities."""
    if not is_complex(x):
        return P.sigmoid(P.where((x == y) & P.isinf(x), 0, x - y))
    out = _log_of_sum(x, y)
    same = (x == out) & ~P.isfinite(x)
    return P.where(same, 0.5, P.exp(x - P.where(same, 0, out)))


logaddexp = binary(
    "logaddexp",
    (_share, lambda x, y: _share(y, x)),
    "log(exp(input) + exp(other)) without overflow. | [0.0, 1.0]; [0.0, 2.0] -> Tensor([0.6931, 2.3133])",
    FLOAT,
    body=_log_of_sum,
)
logaddexp2 = binary(
    "logaddexp2",
    (lambda x, y: _share(x * LOG2, y * LOG2), lambda x, y: _share(y * LOG2, x * LOG2)),
    "log2(2^input + 2^other) without overflow. | [0.0, 1.0]; [0.0, 2.0] -> Tensor([1.   , 2.585])",
    FLOAT,
    body=lambda x, y: _log2_of_sum(x, y),
    real=True,
)
copysign = binary(
    "copysign",
    (lambda x, y: P.sign(x) * P.copysign(x * 0 + 1, y), 0),
    "The size of input with the sign of other. | [1.0, 2.0]; [-1.0, 1.0] -> Tensor([-1.,  2.])",
    FLOAT,
)


def _log_unless_both_vanish(x: Any, y: Any) -> Any:
    y = typed_as(x, y)
    vanish = (x == 0) & (y <= 0)
    return P.where(vanish, 0, P.log(P.where(vanish, 1, y)))


def _xlogy(x: Any, y: Any) -> Any:
    zero = (x == 0) & (y == y)
    return P.where(zero, 0, x * P.log(P.where(zero, 1, y)))


xlogy = binary(
    "xlogy",
    (_log_unless_both_vanish, lambda x, y: x / y),
    "input * log(other), and 0 where input is 0. | [0.0, 2.0]; [0.0, 3.0] -> Tensor([0.    , 2.1972])",
    FLOAT,
    body=_xlogy,
    real=True,
)

_heaviside = binary(
    "heaviside",
    (0, Selects(lambda x: x == 0)),
    "0 where input is negative, 1 where it is positive, other where it is 0.",
    body=lambda x, y: P.where(x == 0, y, P.cast(x > 0, dtype=np_dtype(y), source=dtypes.BOOL)),
    real=True,
)


def heaviside(input: Any, values: Any, *, out: Any = None) -> Tensor:
    """The step function: 0 below 0, 1 above 0, and `values` at 0.

    >>> import lucid
    >>> lucid.heaviside(lucid.tensor([-1.5, 0.0, 2.0]), lucid.tensor([0.5]))
    Tensor([0. , 0.5, 1. ])
    """
    x, y = lift_all(input, values)
    if x.np_dtype != y.np_dtype:
        raise RuntimeError(f"heaviside needs two tensors of one type, not {x.dtype} and {y.dtype}")
    result: Tensor = _heaviside(x, y, out=out)
    return result


eq = binary(
    "eq",
    (None, None),
    "Where two tensors are equal. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([False, False])",
    TRUTH,
)
ne = binary(
    "ne",
    (None, None),
    "Where two tensors differ. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([ True,  True])",
    TRUTH,
)
lt = binary(
    "lt",
    (None, None),
    "Where input < other. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([ True, False])",
    TRUTH,
    real=True,
)
le = binary(
    "le",
    (None, None),
    "Where input <= other. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([ True, False])",
    TRUTH,
    real=True,
)
gt = binary(
    "gt",
    (None, None),
    "Where input > other. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([False,  True])",
    TRUTH,
    real=True,
)
ge = binary(
    "ge",
    (None, None),
    "Where input >= other. | [1.0, 3.0]; [2.0, 2.0] -> Tensor([False,  True])",
    TRUTH,
    real=True,
)
logical_and = binary(
    "logical_and",
    (None, None),
    "Where both are true (not zero). | [True, True]; [True, False] -> Tensor([ True, False])",
    TRUTH,
)
logical_or = binary(
    "logical_or",
    (None, None),
    "Where at least one is true (not zero). | [True, False]; [False, False] -> Tensor([ True, False])",
    TRUTH,
)
logical_xor = binary(
    "logical_xor",
    (None, None),
    "Where exactly one is true (not zero). | [True, True]; [True, False] -> Tensor([False,  True])",
    TRUTH,
)
bitwise_and = binary("bitwise_and", (None, None), "Bits set in both. | [6, 5]; [3, 4] -> Tensor([2, 4])", INTEGRAL)
bitwise_or = binary("bitwise_or", (None, None), "Bits set in either. | [6, 5]; [3, 4] -> Tensor([7, 5])", INTEGRAL)
bitwise_xor = binary(
    "bitwise_xor", (None, None), "Bits set in exactly one. | [6, 5]; [3, 4] -> Tensor([5, 1])", INTEGRAL
)
bitwise_left_shift = binary(
    "bitwise_left_shift", (None, None), "input * 2**other. | [1, 3]; [2, 1] -> Tensor([4, 6])", INTEGRAL, _IN_BYTES
)
bitwise_right_shift = binary(
    "bitwise_right_shift",
    (None, None),
    "input // 2**other. | [8, 3]; [2, 1] -> Tensor([2, 1])",
    INTEGRAL,
    _IN_BYTES,
)


def _where_abstract(cond: Abstract, x: Any, y: Any) -> Abstract:
    """Of the type of the alternatives; two numbers decide it themselves."""
    alone = not isinstance(x, Abstract) and not isinstance(y, Abstract)
    return Abstract(broadcast(cond, x, y), np.result_type(x, y) if alone else common(x, y))


# The branch that is not taken gets exactly 0, whatever its local derivative was.
where_primitive = Elementwise(
    "where",
    (
        None,
        Pair(lambda ct, cond: P.where(cond, ct, 0)),
        Pair(lambda ct, cond: P.where(cond, 0, ct)),
    ),
    ("cond", "x", "y"),
    abstract=_where_abstract,
    linear_in=(1, 2),
)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where `condition` holds, of `other` elsewhere.

    With the condition alone: the indices where it holds, one tensor for each dimension.

    >>> import lucid
    >>> x = lucid.tensor([1.0, -2.0, 3.0])
    >>> lucid.where(x > 0, x, 0)
    Tensor([1., 0., 3.])
    >>> lucid.where(x > 0)
    (Tensor([0, 2]),)
    """
    if input is None and other is None:
        return lift(condition).nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where takes a condition alone, or a condition and both alternatives")
    test = lift(condition)
    if element_type(test) is not dtypes.BOOL:
        test = test.to(dtypes.BOOL)
    if type(input) is float and type(other) is float and is_plain(test) and not tracing():
        kind = dtypes.default_float()  # need not be found among the types of numbers
        if (kind is _F32 or kind is _F64) and abs(input) < _LARGE:
            input = wrapped(constant(input, kind))
    return called(where_primitive, (test, input, other), KEEP, _NO_PARAMS)


def _lerp(x: Any, y: Any, weight: Any) -> Any:
    """Counted from the nearer end, so that weight 1 gives `y` exactly."""
    change = y - x
    from_start, from_end = x + change * weight, y - change * (1 - weight)
    is_near = abs(weight) < 0.5
    if isinstance(weight, NUMBERS):
        return from_start if is_near else from_end
    return P.where(is_near, from_start, from_end)


lerp_primitive = Elementwise(
    "lerp",
    (lambda weight: 1 - weight, lambda weight: weight, lambda x, y: y - x),
    ("x", "y", "weight"),
    body=_lerp,
)


@one_primitive(P.lerp, policy=KEEP)
def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """input + weight * (end - input): from `input` at weight 0 to `end` at weight 1.

    >>> import lucid
    >>> lucid.lerp(lucid.tensor([0.0, 10.0]), lucid.tensor([1.0, 20.0]), 0.5)
    Tensor([ 0.5, 15. ])
    """
    return called(lerp_primitive, (input, end, weight), KEEP, {})


addcmul_primitive = Elementwise(
    "addcmul",
    (1, lambda z, value: z * value, lambda y, value: y * value, lambda y, z: y * z),
    ("x", "y", "z", "value"),
    body=lambda x, y, z, value: x + y * z * value,
)
addcdiv_primitive = Elementwise(
    "addcdiv",
    (1, lambda z, value: value / z, lambda y, z, value: -(y / z) / z * value, lambda y, z: y / z),
    ("x", "y", "z", "value"),
    body=lambda x, y, z, value: x + y / z * value,
)


@one_primitive(policy=KEEP, value=P.addcmul)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2.

    >>> import lucid
    >>> lucid.addcmul(lucid.tensor([1.0, 1.0]), lucid.tensor([2.0, 3.0]), lucid.tensor([4.0, 5.0]), value=0.5)
    Tensor([5. , 8.5])
    """
    return called(addcmul_primitive, (input, tensor1, tensor2, value), KEEP, {})


@one_primitive(policy=FLOAT, value=P.addcdiv)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2.

    >>> import lucid
    >>> lucid.addcdiv(lucid.tensor([1.0, 1.0]), lucid.tensor([2.0, 3.0]), lucid.tensor([4.0, 6.0]), value=2)
    Tensor([2., 2.])
    """
    return called(addcdiv_primitive, (input, tensor1, tensor2, value), FLOAT, {})


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|.

    An infinity is close to itself only, and nan to nothing unless `equal_nan` is set.

    >>> import lucid
    >>> lucid.isclose(lucid.tensor([1.0, 2.0]), lucid.tensor([1.000001, 2.1]))
    Tensor([ True, False])
    """
    x, y = promote("isclose", (input, other), KEEP)
    x, y = (t.detach() for t in lift_all(x, y))
    near = (x - y).abs() <= atol + rtol * y.abs() if x.np_dtype != dtypes.BOOL else x == y
    result = (x == y) | near & y.isfinite()
    return result | (x.isnan() & y.isnan()) if equal_nan else result


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere.

    >>> import lucid
    >>> lucid.allclose(lucid.tensor([1.0, 2.0]), lucid.tensor([1.1, 2.1]), rtol=0.2)
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


_FIRST = 4096  # elements that `equal` looks at before the others


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements.

    >>> import lucid
    >>> lucid.equal(lucid.tensor([1, 2]), lucid.tensor([1, 2]))
    True
    >>> lucid.equal(lucid.tensor([1, 2]), lucid.tensor([1, 2, 3]))
    False
    """
    x, y = lift_all(input, other)
    if shape_of(x) != shape_of(y):
        return False
    if is_plain(x) and is_plain(y) and x._array.size > _FIRST and x._array.ndim:
        some = max(1, _FIRST * x._array.shape[0] // x._array.size)  # mostly they tell different tensors apart
        if some < x._array.shape[0] and not equal(wrapped(x._array[:some]), wrapped(y._array[:some])):
            return False
    same = eq(x, y)
    return bool(P.all.kernel(same._array, tuple(range(same._array.ndim)), False) if is_plain(same) else same.all())


# Functions of whole numbers.
gcd = binary(
    "gcd",
    (None, None),
    "The greatest number that divides both. | [12, 5]; [18, 0] -> Tensor([6, 5])",
    INTEGRAL,
)
lcm = binary(
    "lcm",
    (None, None),
    "The least positive number that both divide. | [4, 5]; [6, 0] -> Tensor([12,  0])",
    INTEGRAL,
)

# What a write leaves of the old elements x and the new ones y.
overwrite = Elementwise(
    "overwrite",
    (0, 1),
    ("x", "y"),
    body=lambda x, y: P.cast(y, dtype=np_dtype(x), source=np_dtype(y)),
    linear_in=(0, 1),
)
