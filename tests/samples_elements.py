"""Rows for complex parts, floating-point numbers as they are stored, in-place forms, and other names of operations."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from samples import (
    ALIASES,
    ANY_TYPE,
    BOOLS,
    INTS,
    METHODS,
    PAIRS,
    SPECIAL,
    Array,
    Make,
    Row,
    Sample,
    Samples,
    b,
    calls,
    clamped,
    in_place,
    keeps,
    kink,
    on_vectors,
    one_operand,
    s,
    squeezed,
    truth,
    two_operands,
    u,
    whole_numbers,
    with_alpha,
)
from samples import ROWS as OTHERS
from samples_nn_softmax import ROWS as ACTIVATIONS

import lucid
from lucid.core.primitive import P

IN_DOUBLE = {"refused": "the row converts its operands first, so that all types can be tried"}
HAS_NO_VALUE = "it gives what belongs to one value, or runs Python code on it"


def pairs(make: Make) -> Iterator[Sample]:
    for x, y in PAIRS:
        yield s(make(*x), make(*y))
    yield s(make(3, 2).T, make(2, 6)[:, ::2])
    if make.floats:
        yield kink(make.at(*SPECIAL)[:, None], make.at(*SPECIAL))


def pairs_behind(make: Make) -> Iterator[Sample]:
    """Real numbers of which two lie beside each other."""
    for shape in ((2,), (3, 2), (0, 2), (2, 3, 2)):
        yield s(make(*shape))
    yield s(make(3, 4)[:, 1:3])
    yield s(make(2, 3, 2).swapaxes(0, 1))


def limits(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 1)
    yield s(make(), 1)
    if make.floats:
        yield s(make(3, 2).T, -0.5)
        yield s(make(2, 3), make(3))
        yield s(make(3), make(2, 1))
        yield kink(make.at(*SPECIAL), 0.5)


def neighbours(make: Make) -> Iterator[Sample]:
    """The neighbour of an infinity is the largest number of the type, which for others is not that of the reference."""
    return (x for x in two_operands(make) if x.smooth or make.name == "float64")


def signs(make: Make) -> Iterator[Sample]:
    yield from one_operand(make)
    if make.floats:
        yield kink(make.at(-0.0, 0.0, -math.nan))


def joined(x: Array, y: Array) -> Array:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), complex)
    out.real, out.imag = x, y
    return out


def step(x: Array, values: Array) -> Array:
    return np.where(x == 0, values, x > 0).astype(x.dtype)


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: function(*[x.double() for x in tensors])


def constant(name: str, answer: bool) -> Row:
    return truth(name, lambda x: np.asarray(answer), complex=True, without={"vmap": HAS_NO_VALUE},
                 samples=calls(((2,),), ((),)))  # fmt: skip


NEW = [
    u("deg2rad", np.deg2rad),
    u("rad2deg", np.rad2deg),
    truth("signbit", lambda x: np.signbit(x.astype(float)), samples=signs),
    truth("isposinf", lambda x: x == math.inf),
    truth("isneginf", lambda x: x == -math.inf),
    truth("isreal", np.isreal, complex=True),
    keeps("positive", lambda x: x.copy(), complex=True),
    keeps("clamp_min", lambda x, low: clamped(x, low), samples=limits, pins=((([-1.0, 1.0, 2.0], 1.0), ([0, 1, 1],)),)),
    keeps("clamp_max", lambda x, high: clamped(x, None, high), samples=limits,
          pins=((([-1.0, 1.0, 2.0], 1.0), ([1, 1, 0],)),)),
    b("logaddexp2", np.logaddexp2, result="float"),
    b("heaviside", step, -2, 2, 0.1, samples=pairs, ints=BOOLS, pins=((([-1.0, 0.0, 2.0], [3.0, 4.0, 5.0]),
      ([0, 0, 0], [0, 1, 0])),)),
    b("nextafter", np.nextafter, ints=(), samples=neighbours, pins=((([1.0], [2.0]), ([1], [0])),)),
    b("ldexp", lambda x, y: x * np.exp2(y), result="float", complex=True),
    b("gcd", np.gcd, -9, 9, samples=whole_numbers, floats=False, differentiable=False),
    b("lcm", np.lcm, -9, 9, samples=whole_numbers, floats=False, differentiable=False),
    b("rsub", lambda x, y, alpha=1: y - alpha * x, samples=with_alpha, complex=True),
    u("frexp", np.frexp, -3, 3, 0.1, result=("keep", "int32"), ints=()),
    b("complex", joined, samples=pairs, op=in_double(lucid.complex), result="complex128", without=IN_DOUBLE),
    b("polar", lambda x, y: joined(x * np.cos(1.0 * y), x * np.sin(1.0 * y)), samples=lambda make: (x for x in pairs(make)
      if x.smooth), op=in_double(lucid.polar), result="complex128", without=IN_DOUBLE),
    keeps("view_as_real", lambda x: np.stack([x.real, x.imag], -1), floats=False, complex=True, ints=(), result="real"),
    keeps("view_as_complex", lambda x: x[..., 0] + 1j * x[..., 1], op=in_double(lucid.view_as_complex),
          samples=pairs_behind, result="complex128", without=IN_DOUBLE),
    keeps("complex_parts", lambda x: joined(0 * np.nan_to_num(x), x), op=in_double(lambda x: P.complex_parts(x, part=1)), result="complex128",
          without=IN_DOUBLE),
    # Each of the elements as two of half the width.
    Row("bits", lambda x: P.bits(x, dtype=np.dtype(np.int32)), lambda x: x.view(np.int32), calls(((3,),), ((2, 3),), ((0,),)),
        result="int32", floats=False, ints=("int64",), differentiable=False, without={"refused": "every type has bits"}),
    constant("is_conj", False),
    constant("is_neg", False),
    keeps("resolve_conj", lambda x: x.copy(), complex=True, ints=BOOLS),
    keeps("resolve_neg", lambda x: x.copy(), complex=True, ints=BOOLS),
    truth("is_nonzero", lambda x: np.asarray(bool(x)), complex=True, samples=calls(((1,),), ((),), ((1, 1),)),
          without={"vmap": HAS_NO_VALUE}),
]  # fmt: skip


# --- in place ------------------------------------------------------------------------------------


def keeps_shape(row: Row) -> Samples:
    """The samples whose result fits into the first operand."""

    def fitting(make: Make) -> Iterator[Sample]:
        for sample in row.samples(make):
            first = sample.args[0]
            if isinstance(first, Array) and "dtype" not in sample.kwargs and fits(sample, first.shape):
                yield sample

    def fits(sample: Sample, shape: tuple[int, ...]) -> bool:
        try:
            with np.errstate(all="ignore"):
                return np.shape(row.ref(*sample.args, **sample.kwargs)) == shape
        except TypeError:  # a type that is refused
            return True

    return fitting


def written(name: str, of: str = "") -> Row:
    """The in-place form of a row of this name, here or in the other tables."""
    row = next(r for r in [*NEW, *OTHERS] if r.name == (of or name))
    ints = row.ints if row.result == "keep" else INTS  # what truth values add up to does not fit into them
    return in_place(replace(row, name=name, samples=keeps_shape(row), ints=ints))


def diagonals(make: Make) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 3), (5, 2), (3, 3, 3), (0, 2)):
        yield s(make(*shape), 1)
    yield s(make(7, 2), 1, True)
    yield s(make(3, 2).T, 1)


def filled_diagonal(x: Array, value: Any, wrap: bool = False) -> Array:
    out = x.copy()
    for i in range(min(out.shape)):
        out[(i,) * out.ndim] = value
    for i in range(out.shape[1] + 1, len(out)) if wrap else ():
        if (i - out.shape[1] - 1) % (out.shape[1] + 1) < out.shape[1]:
            out[i, (i - out.shape[1] - 1) % (out.shape[1] + 1)] = value
    return out


def reshaping(name: str, ref: Callable[..., Any], *shapes: Any, **flags: Any) -> Row:
    method = METHODS[name]
    samples = calls(*shapes)
    return Row(name, lambda x, *args: method(x.clone(), *args), ref, samples, **{**ANY_TYPE, **flags})


def resized(x: Array, *shape: int) -> Array:
    out = np.zeros(math.prod(shape), x.dtype)
    count = min(out.size, x.size)
    out[:count] = x.reshape(-1)[:count]
    return out.reshape(shape)


def of_elements(name: str, op: Callable[..., Any], ref: Callable[..., Any], count: int) -> Row:
    """A row for a Python function of elements, of which no derivative is known."""

    def samples(make: Make) -> Iterator[Sample]:
        yield s(*[make(2, 3) for _ in range(count)])
        yield s(*[make(3, 2).T for _ in range(count)])
        yield s(*[make() for _ in range(count)])

    return Row(name, lambda *tensors: op(*[x.detach().clone() for x in tensors]), ref, samples, ints=INTS, complex=True,
               differentiable=False, without={"vmap": HAS_NO_VALUE})  # fmt: skip


NEITHER = {"undifferentiable": "a tensor that requires grad cannot be given other memory"}
IN_PLACE = [
    *[written(name) for name in (
        "deg2rad", "rad2deg", "clamp_min", "clamp_max", "heaviside", "nextafter", "ldexp", "gcd", "lcm", "cumsum",
        "cumprod", "tril", "triu", "addmm", "baddbmm",
    )],
    written("conj_physical", of="conj"),
    Row("fill_diagonal_", lambda x, *how: x.clone().fill_diagonal_(*how), filled_diagonal, diagonals, inplace=True,
        **{**ANY_TYPE, "ints": INTS}),
    reshaping("t_", lambda x: x.T, ((2, 3),), ((3,),), ((),)),
    reshaping("transpose_", on_vectors(np.swapaxes), ((2, 3, 1), 0, -1), ((2, 3), 1, 1)),
    reshaping("squeeze_", squeezed, ((2, 1, 3),), ((1, 2), 0), ((1, 1),)),
    reshaping("unsqueeze_", lambda x, d: np.expand_dims(x, d), ((2, 3), 1), ((2, 3), -1), ((), 0)),
    reshaping("as_strided_", lambda x, size, stride: np.lib.stride_tricks.as_strided(
        x.copy(), size, [n * x.itemsize for n in stride]), ((2, 3), (3, 2), (1, 3)), ((6,), (2, 2), (3, 1))),
    reshaping("resize_", resized, ((2, 3), 2, 2), ((3,), 2, 3), ((2, 3), 6), ((2, 3), 2, 3), ((2, 3), 0),
              differentiable=False, without=NEITHER),
    Row("resize_as_", lambda x, y: x.clone().resize_as_(y), lambda x, y: resized(x, *y.shape),
        lambda make: [s(make(2, 3), make(2, 2)), s(make(3), make(2, 3))], differentiable=False, without=NEITHER,
        inplace=True, **ANY_TYPE),
    Row("set_", lambda x: lucid.empty(0, dtype=x.dtype).set_(x.detach()), lambda x: x.copy(), one_operand,
        differentiable=False, without={"vmap": "memory of a transform cannot be that of a tensor from outside"},
        **ANY_TYPE),
    of_elements("apply_", lambda x: x.apply_(lambda a: a + a), lambda x: x + x, 1),
    of_elements("map_", lambda x, y: x.map_(y, lambda a, c: a * c), lambda x, y: x * y, 2),
    of_elements("map2_", lambda x, y, z: x.map2_(y, z, lambda a, c, d: a + c + d), lambda x, y, z: x + y + z, 3),
]  # fmt: skip


# --- other names ---------------------------------------------------------------------------------

KNOWN = {row.name: row for row in [*OTHERS, *ACTIVATIONS, *NEW, *IN_PLACE]}


def under_other_name(alias: str, name: str) -> Row:
    """The values alone: all else is checked under the name that the operation is declared by."""
    row = KNOWN[name]
    same = f"{alias} is {name} by another name"
    others = ("refused", "reverse", "forward", "second", "undifferentiable", "vmap", "types", "pins")
    method = METHODS[alias]
    op = (lambda x, *args, **kwargs: method(x.clone(), *args, **kwargs)) if alias.endswith("_") else method
    return replace(row, name=alias, op=op, without=dict.fromkeys(others, same))


ALIAS_ROWS = [
    under_other_name(alias + suffix, name + suffix)
    for alias, name in ALIASES.items()
    for suffix in ("", "_")
    if alias + suffix in METHODS and alias + suffix not in KNOWN
]

ROWS = NEW + IN_PLACE + ALIAS_ROWS
