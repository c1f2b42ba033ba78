"""Instructions in place of one that loops can compute, and that has a kernel of its own for eager calls."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lucid.arguments.promotion import cast
from lucid.backends.cpu.nn.losses import LONGEST_ROW, squared_distance
from lucid.backends.numpy.norms import safe_sums
from lucid.compiler.rows import TYPES, Check, RowFunction, row_plan
from lucid.core import dtypes
from lucid.core.primitive import P
from lucid.core.tensor import Tensor
from lucid.ir.values import Instruction, Name
from lucid.ops.nn.cross_entropy import MEAN, NONE, SUM
from lucid.ops.nn.rows import Row


class Making(NamedTuple):
    """What rules make instructions with."""

    new: Callable[..., Name]  # a name of a shape and type
    traced: Callable[..., list[Instruction]]  # the instructions of a function of names, with the names of its results
    can_check: bool  # whether a run may be given up


Rule = Callable[[Instruction, Making], list[Instruction] | None]


def parts_of(fold: Instruction) -> int:
    """How many of the folded dimensions begin blocks of their own (`ir.placeholders.fold_order`)."""
    return getattr(fold.primitive, "apart", 0)


def rewritten(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """The instructions in place of one; None if it is left as it is."""
    rule = _RULES.get(instruction.primitive.name)
    found = rule is not None and all(isinstance(o, Name) and 0 not in o.shape for o in instruction.operands)
    return rule(instruction, making) if rule is not None and found else None


def _in_range(instruction: Instruction, making: Making) -> list[Instruction] | None:
    (positions,), (result,), params = instruction.operands, instruction.results, instruction.params
    if not making.can_check:
        return None
    size, negative = params["size"], params["negative"]
    bad = making.new((), dtypes.bool_)

    def read(t: Any) -> Any:
        wrong = P.logical_or(P.lt(t, -size if negative else 0), P.ge(t, size))
        return P.any(wrong, dims=tuple(range(t.ndim)), keepdim=False) if t.ndim else wrong

    made: list[Instruction] = []
    if positions.dtype != dtypes.int64:
        whole = result if not negative else making.new(result.shape, dtypes.int64)
        made += making.traced(lambda t: cast(t, dtypes.int64.numpy), [positions], [whole], instruction.place)
        positions = whole
    made += making.traced(read, [positions], [bad], instruction.place)
    made.append(Instruction(Check(), (bad,), {}, (), instruction.place))
    if negative:
        made += making.traced(
            lambda t: P.where(P.lt(t, 0), P.add(t, size), t), [positions], [result], instruction.place
        )
    elif positions is not result:
        made.append(Instruction(P.alias, (positions,), {}, (result,), instruction.place))
    return made


def _difference_and_squares(row: Row, x: Any, y: Any) -> tuple[Any, Any]:
    return x - y, squared_distance(row, x, y)


def _square_of_difference(x: Any, y: Any) -> Any:
    difference = P.sub(x, y)
    return P.mul(difference, difference)


_SQUARES = RowFunction("sum_of_squares", _difference_and_squares)


def _sum_of_squares(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """As the kernel sums up: by rows of one length, and what is left of them."""
    (x, y), (result,), params = instruction.operands, instruction.results, instruction.params
    if x.shape != y.shape or len(params["dims"]) != len(x.shape) or x.dtype != y.dtype or x.dtype.numpy not in TYPES:
        return None
    size = math.prod(x.shape)
    whole = size - size % LONGEST_ROW
    parts = [(slice(0, whole), LONGEST_ROW)] if whole else []
    parts += [(slice(whole, size), size - whole)] if whole < size else []
    made: list[Instruction] = []
    sums = []
    for part, length in parts:
        count = (part.stop - part.start) // length

        def rows(v: Any, part: slice = part, shape: Any = (count, length)) -> Any:
            flat = P.reshape(v, shape=(size,))
            return P.reshape(P.slice(flat, index=(part,)) if len(parts) > 1 else flat, shape=shape)

        given = [making.new((count, length), x.dtype) for _ in range(2)]
        for v, row in zip((x, y), given, strict=True):
            made += making.traced(rows, [v], [row], instruction.place)
        sums.append(making.new((count, 1), x.dtype))
        if length == 1:
            made += making.traced(_square_of_difference, given, [sums[-1]], instruction.place)
            continue
        results = (making.new((count, length), x.dtype), sums[-1])
        made.append(Instruction(_SQUARES, tuple(given), {}, results, instruction.place))
        if row_plan(made[-1]) is None:
            return None

    def total(*sums: Any) -> Any:
        found = [P.sum(s, dims=(0, 1), keepdim=False) if s.shape[0] > 1 else P.reshape(s, shape=()) for s in sums]
        return P.mul(found[0] if len(found) == 1 else P.add(*found), params["scale"])

    return made + making.traced(total, sums, [result], instruction.place)


def _resample(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """Sums over whole dimensions, or their transposes."""
    (x,), maps = instruction.operands, instruction.params["maps"]
    known = [m for m in maps if m is not None]
    if x.dtype.numpy not in TYPES or not known:
        return None
    if all(m.is_spread for m in known):
        shape = instruction.results[0].shape
        function = partial(P.broadcast_to, shape=shape)
    elif all(m.is_sum for m in known):
        first = len(x.shape) - len(maps)
        dims = tuple([first + k for k, m in enumerate(maps) if m is not None])
        function = partial(P.sum, dims=dims, keepdim=True)
    else:
        return None
    return making.traced(function, [x], instruction.results, instruction.place)


def _triangle(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """A choice between elements and 0, by a mask of the last two dimensions, which is a constant."""
    (x,), diagonal = instruction.operands, instruction.params["diagonal"]
    is_lower = instruction.primitive.name == "tril"
    rows, columns = x.shape[-2:]
    mask = np.tri(rows, columns, diagonal if is_lower else diagonal - 1, dtype=np.bool_)

    def chosen(t: Any) -> Any:
        inside = Tensor._wrap(mask if is_lower else ~mask)  # made here, where it is a constant
        return P.logical_and(inside, t) if x.dtype == dtypes.bool_ else P.where(inside, t, 0)

    return making.traced(chosen, [x], instruction.results, instruction.place)


def _norm(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """As the kernel: the root of a sum of powers, where no addend can have lost digits. Others are left to it."""
    (x,), (result,), params = instruction.operands, instruction.results, instruction.params
    p, dims, keepdim = params["p"], params["dims"], params["keepdim"]
    is_apart = parts_of(instruction) or not dims
    if p not in (1, 2) or x.dtype.numpy not in TYPES or not making.can_check or is_apart:
        return None
    low, high = safe_sums(x.dtype.numpy)
    bad = making.new((), dtypes.bool_)

    def root(t: Any) -> tuple[Any, Any]:
        fold = {"dims": dims, "keepdim": keepdim}
        total = P.sum(P.mul(t, t) if p == 2 else P.abs(t), **fold)
        inside = P.logical_and(P.ge(total, float(low)), P.le(total, float(high)))
        lost = P.logical_and(P.any(P.ne(t, 0), **fold), P.logical_not(inside))
        if lost.ndim:
            lost = P.any(lost, dims=tuple(range(lost.ndim)), keepdim=False)
        total = P.div(total, float(params["divisor"]))
        return P.sqrt(total) if p == 2 else total, lost

    made = making.traced(root, [x], [result, bad], instruction.place)
    return [*made, Instruction(Check(), (bad,), {}, (), instruction.place)]


def _fold_rows(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """The sum or mean of the rows that count, in which others are 0; a mean is divided in double precision."""
    (x, target), reduction = instruction.operands, instruction.params["reduction"]
    if not _are_rows(instruction):
        return None

    def folded(x: Any, t: Any) -> Any:
        keep = P.ne(t, instruction.params["ignore_index"])
        rows, fold = P.where(keep, x, 0.0), {"dims": tuple(range(x.ndim)), "keepdim": False}
        if reduction == NONE:
            return rows
        total = P.sum(rows, **fold)
        if reduction == SUM:
            return total
        wide = dtypes.float64.numpy
        return cast(P.div(cast(total, wide), cast(P.count_nonzero(keep, **fold), wide)), x.np_dtype)

    return making.traced(folded, [x, target], instruction.results, instruction.place)


def _spread_rows(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """What a sum or mean is of each row that counts."""
    (x, target), reduction = instruction.operands, instruction.params["reduction"]
    if not _are_rows(instruction):
        return None

    def spread(x: Any, t: Any) -> Any:
        keep = P.ne(t, instruction.params["ignore_index"])
        if reduction == MEAN:
            x = P.div(x, cast(P.count_nonzero(keep, dims=tuple(range(t.ndim)), keepdim=False), x.np_dtype))
        return P.where(keep, x, 0.0)

    return making.traced(spread, [x, target], instruction.results, instruction.place)


def _are_rows(instruction: Instruction) -> bool:
    x, target = instruction.operands
    is_one = not instruction.params["lead"] and bool(target.shape)
    return is_one and x.dtype.numpy in TYPES and target.dtype == dtypes.int64


def _by_composite(instruction: Instruction, making: Making) -> list[Instruction] | None:
    """By others, which join what stands around them."""
    function = partial(instruction.primitive.composite, **instruction.params)
    return making.traced(function, instruction.operands, instruction.results, instruction.place)


_RULES: dict[str, Rule] = {
    "in_range": _in_range,
    "sum_of_squares": _sum_of_squares,
    "resample": _resample,
    "tril": _triangle,
    "triu": _triangle,
    "norm": _norm,
    "fold_rows": _fold_rows,
    "spread_rows": _spread_rows,
    "products_before": _by_composite,
    "var": _by_composite,
}
