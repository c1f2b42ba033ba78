"""Functions of rows in programs: softmax, norms of rows and their derivatives, joined with what stands around them.

A body says what they compute (`ops.nn.rows`). Those of instructions that follow each other become one, with the bodies of
elementwise instructions between them, and the code generator divides that into passes over a row (`codegen.rows`).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from lucid.arguments.promotion import cast
from lucid.backends.cpu.entry_points import most_threads
from lucid.backends.cpu.generated.reductions import LONGEST_PART
from lucid.backends.cpu.nn.cross_entropy import back_kernel, loss_kernel
from lucid.backends.cpu.nn.normalization import LEAST_BESIDE, affine_kernel, backward_kernel, batch_kernel, scales
from lucid.backends.numpy.norms import moderate_sizes
from lucid.codegen.bodies import NotGeneratedError, Plan
from lucid.codegen.rows import RowPlan
from lucid.core import dtypes
from lucid.core.primitive import P, Primitive
from lucid.ir.values import Instruction, Name
from lucid.kinds.kind import NeedsValueError
from lucid.ops.expressions import Constant, NotScalarError, Operand, Parameter, Result, Step
from lucid.ops.fused import Gradient
from lucid.ops.nn.cross_entropy import (
    MEAN,
    NONE,
    cross_entropy_back,
    cross_entropy_primitive,
    loss_of_row,
    loss_of_row_back,
)
from lucid.ops.nn.normalization import affine_back, batch_norm, group_norm, normalized, normalized_back, row_norm
from lucid.ops.nn.rows import LENGTH, Row, RowBody

TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_TRUTH = np.dtype(np.bool_)
_PLACES = dtypes.int32  # of elements in rows
_MOST_ROOM = 1 << 18  # bytes that a row may need beside its memory
_LEAST_LENGTH = 32  # of rows with which elementwise instructions are computed
_LEAST_ROWS = 16  # so that threads find work


class RowFunction:
    """A function of rows along the last dimension, as what an instruction applies."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.multi = True


class RowKernel:
    """A kernel of rows along any dimension, as what an instruction applies: programs enter the loops of eager calls."""

    def __init__(self, name: str, kernel: Any) -> None:
        self.name = name
        self.kernel = kernel  # of `generated.rows`
        self.multi = True

    def entry(self, arrays: Sequence[Any], outs: Sequence[Any], dim: int, **params: Any) -> Any:
        """The entry point for stand-ins, with the bytes of its workspace; None where there are no loops."""
        return self.kernel.entry(tuple(arrays), list(outs), dim, params, most_threads())

    def has_code(self, instruction: Instruction) -> bool:
        names = (*instruction.operands, *instruction.results)
        if any(not isinstance(n, Name) or 0 in n.shape for n in names):
            return False
        arrays = [np.empty(n.shape, n.dtype.numpy) for n in names]
        count = len(instruction.operands)
        return self.entry(arrays[:count], arrays[count:], **instruction.params) is not None


class Check:
    """An instruction that ends the run of machine code if its operand is true. The program is then run as it is."""

    name = "check"
    multi = False
    lasting = True


@cache
def _of_primitive(primitive: Primitive) -> RowFunction:
    return RowFunction(primitive.name, primitive.row_body)


@cache
def _of_reduction(primitive: Primitive) -> RowFunction:
    """With the elements of the row, by whose shape loops go."""
    return RowFunction(primitive.name, lambda row, x: (P.neg(x), primitive.row_body(row, x)))


@cache
def _normalized(eps: float, centred: bool, weighted: bool) -> RowFunction:
    return RowFunction("row_norm", partial(normalized, eps=eps, centred=centred, weighted=weighted))


@cache
def _normalized_back(weighted: bool) -> RowFunction:
    return RowFunction("row_norm_back", partial(normalized_back, weighted=weighted))


def row_plan(instruction: Instruction) -> RowPlan | None:
    """How a function of rows is computed; None where there is no code for it."""
    types = [o.dtype.numpy for o in instruction.operands if isinstance(o, Name)]
    shape = instruction.results[0].shape
    if len(types) < len(instruction.operands) or types[0] not in TYPES or 0 in shape:
        return None
    if any(t not in (types[0], _PLACES.numpy) for t in types):
        return None
    plan = _plan_of(instruction.primitive, tuple(types))
    return plan if plan is not None and room_of(plan, shape[-1]) <= _MOST_ROOM else None


@lru_cache(maxsize=1024)
def _plan_of(primitive: RowFunction, types: tuple[Any, ...]) -> RowPlan | None:
    try:
        return RowPlan.of(primitive.function, types, {})
    except (NotGeneratedError, NotScalarError, NeedsValueError):
        return None


def room_of(plan: RowPlan, length: int) -> int:
    """The bytes that a row needs beside its memory."""
    apart, kept, noted = plan.row_room
    return (apart + kept) * (-(-length // plan.lanes) * plan.lanes) + plan.lanes * noted


class Rewriter:
    """Writes instructions as functions of rows; `new` makes names, and `traced` instructions of a function of names."""

    def __init__(self, new: Callable[..., Name], traced: Callable[..., list[Instruction]], can_check: bool) -> None:
        self.new, self.traced, self.can_check = new, traced, can_check
        self.targets: dict[Any, _Targets] = {}
        self.known: dict[Any, list[Name]] = {}  # what the derivatives of norms need, by what these are applied to

    def written(self, instruction: Instruction) -> list[Instruction] | None:
        """The instructions in place of one; None if it is left as it is."""
        primitive = instruction.primitive
        if primitive.row_body is not None and "dim" in instruction.params:  # reductions have several
            x, dim = instruction.operands[0], instruction.params["dim"]
            if (
                not isinstance(x, Name)
                or dim != len(x.shape) - 1
                or any(not isinstance(o, Name) or o.shape != x.shape for o in instruction.operands)
            ):
                return None
            return self._if_coded([instruction._replace(primitive=_of_primitive(primitive), params={})])
        if primitive.row_body is not None and "dims" in instruction.params:
            return self._reduced(instruction)
        if primitive in (cross_entropy_primitive, cross_entropy_back):
            return self._cross_entropy(instruction)
        of = primitive.of if isinstance(primitive, Gradient) else primitive
        if of is group_norm and self.can_check:
            return self._groups(instruction)
        if of is batch_norm and self.can_check:
            return self._columns(instruction)
        if of is not row_norm or not self.can_check or instruction.params["ndim"] != 1:
            return None
        g, (x, weight, bias) = instruction.operands[:-3], instruction.operands[-3:]
        if len(x.shape) < 2 or x.shape[-1] < 2 or any(v is not None and v.dtype != x.dtype for v in (*g, weight, bias)):
            return None
        if primitive is row_norm:
            return self._forward(instruction, instruction.results[0], scales(x.dtype.numpy))
        return self._backward(instruction)

    def _if_coded(self, found: list[Instruction]) -> list[Instruction] | None:
        for i in found:
            if isinstance(i.primitive, RowFunction) and row_plan(i) is None:
                return None
            if isinstance(i.primitive, RowKernel) and not i.primitive.has_code(i):
                return None
        return found

    def _reduced(self, instruction: Instruction) -> list[Instruction] | None:
        """A reduction along the last dimension that is declared as a function of a row, as its kernel computes it."""
        (x,), (result,) = instruction.operands, instruction.results
        n = len(x.shape) if isinstance(x, Name) else 0
        if not n or instruction.params["dims"] != (n - 1,) or x.shape[-1] >= 2 * LONGEST_PART:
            return None
        each = self.new((*x.shape[:-1], 1), x.dtype)
        function = _of_reduction(instruction.primitive)
        rows = Instruction(function, (x,), {}, (self.new(x.shape, x.dtype), each), instruction.place)
        found = self._if_coded([rows])
        if found is None:
            return None
        return found + self.traced(lambda t: P.reshape(t, shape=result.shape), [each], [result], instruction.place)

    def _forward(self, instruction: Instruction, out: Name, safe: tuple[float, float]) -> list[Instruction] | None:
        operands, params = instruction.operands[-3:], instruction.params
        x, weight, _ = operands
        each = (*x.shape[:-1], 1)
        known = [self.new(each, x.dtype) for _ in range(3 if params["centred"] else 1)]
        function = _normalized(params["eps"], params["centred"], weight is not None)
        given = tuple([o for o in operands if o is not None])
        found = self._if_coded([Instruction(function, given, {}, (out, *known), instruction.place)])
        if found is None:
            return None
        self.known[applied(row_norm, operands, params)] = known
        return found + self._unless_lost(known[-1], safe, instruction.place)

    def _unless_lost(self, scale: Name, safe: tuple[float, float], place: Any) -> list[Instruction]:
        """Rows whose mean squares leave the range of their type are computed by the kernel."""
        least, largest = safe
        bad = self.new((), dtypes.bool_)

        def is_lost(scale: Any) -> Any:
            inside = P.logical_and(P.ge(scale, least), P.le(scale, largest))
            return P.any(P.logical_not(inside), dims=tuple(range(scale.ndim)), keepdim=False)

        return [*self.traced(is_lost, [scale], [bad], place), Instruction(Check(), (bad,), {}, (), place)]

    def _backward(self, instruction: Instruction) -> list[Instruction] | None:
        g, *operands = instruction.operands
        x, weight, _ = operands
        found: list[Instruction] = []
        key = applied(row_norm, operands, instruction.params)
        if key not in self.known:
            forward = self._forward(instruction, self.new(x.shape, x.dtype), scales(x.dtype.numpy))
            if forward is None:
                return None
            found += forward
        known = self.known[key]
        results = iter(instruction.results)
        needs = instruction.primitive.needs
        if needs[0]:
            given = (g, x, *known) if weight is None else (g, x, *known, weight)
            function = _normalized_back(weight is not None)
            rows = self._if_coded([Instruction(function, given, {}, (next(results),), instruction.place)])
            if rows is None:
                return None
            found += rows
        if any(needs[1:]) and x.shape[-1] < LEAST_BESIDE:
            sums = self._affine([g, x, *known], x.shape[-1:], needs[1:], list(results), instruction.place)
            return None if sums is None else found + sums
        for of_bias in (False, True):  # by columns, as folds do
            if needs[1 + of_bias]:
                out = next(results)

                def affine(*given: Any, k: int = int(of_bias), shape: Any = out.shape) -> Any:
                    row = Row(tuple(range(len(x.shape) - 1)), 1)
                    return P.reshape(affine_back(row, *given)[k], shape=shape)

                found += self.traced(affine, [g, x, *known], [out], instruction.place)
        return found

    def _affine(
        self, given: Sequence[Name], last: tuple[int, ...], needs: Sequence[bool], results: Sequence[Name], place: Any
    ) -> list[Instruction] | None:
        """The cotangents of the weights and biases of rows, along all of these, by the kernel."""
        found: list[Instruction] = []
        flat = []
        for v in given:
            shape = (math.prod(v.shape[:-1]), v.shape[-1])
            flat.append(self._shown(v, shape, found, place))
        sums = [self.new((1, *last), given[0].dtype) for _ in range(2)]
        made = self._if_coded([Instruction(_AFFINE_KERNEL, tuple(flat), {"dim": 0}, tuple(sums), place)])
        if made is None:
            return None
        found += made
        wanted = [total for total, need in zip(sums, needs, strict=True) if need]
        for total, result in zip(wanted, results, strict=True):
            found += self.traced(partial(P.reshape, shape=result.shape), [total], [result], place)
        return found

    def _shown(self, v: Name, shape: tuple[int, ...], found: list[Instruction], place: Any) -> Name:
        """A value in another shape."""
        if v.shape == shape:
            return v
        name = self.new(shape, v.dtype)
        found += self.traced(partial(P.reshape, shape=shape), [v], [name], place)
        return name

    # --- norms of columns -----------------------------------------------------------------------------

    def _columns(self, instruction: Instruction) -> list[Instruction] | None:
        """Batch norm of channels that are the columns of a matrix."""
        primitive, place = instruction.primitive, instruction.place
        is_gradient = isinstance(primitive, Gradient)
        cts, operands = instruction.operands[:-3], instruction.operands[-3:]
        x, weight, bias = operands
        given = [v for v in (*cts, *operands) if v is not None]
        if not all(isinstance(v, Name) and v.dtype == x.dtype and 0 not in v.shape for v in given):
            return None
        if math.prod(x.shape[2:]) != 1 or (is_gradient and (cts[0] is None or any(c is not None for c in cts[1:]))):
            return None
        shape, each = x.shape[:2], (1, x.shape[1])
        found: list[Instruction] = []
        base, key = self._shown(x, shape, found, place), applied(batch_norm, operands, instruction.params)
        if key not in self.known or not is_gradient:
            known, y = [self.new(each, x.dtype) for _ in range(4)], self.new(shape, x.dtype)
            affine = tuple([v for v in (weight, bias) if v is not None])
            params = {"dim": 0, "eps": instruction.params["eps"], "weighted": weight is not None}
            made = self._if_coded([Instruction(_COLUMNS_KERNEL, (base, *affine), params, (y, *known), place)])
            if made is None:
                return None
            found += made + self._unless_lost(known[2], moderate_sizes(x.dtype.numpy), place)
            self.known[key] = known[:3]
            if not is_gradient:
                out, mean, variance = instruction.results
                found += self.traced(partial(P.reshape, shape=out.shape), [y], [out], place)
                found += self.traced(lambda a, b: P.reshape(a + b, shape=mean.shape), known[:2], [mean], place)
                found += self.traced(partial(P.reshape, shape=variance.shape), known[3:], [variance], place)
                return found
        known, results = self.known[key], list(instruction.results)
        g = self._shown(cts[0], shape, found, place)
        if primitive.needs[0]:
            dx, scaled = self.new(shape, x.dtype), () if weight is None else (weight,)
            params = {"dim": 0, "weighted": weight is not None}
            made = self._if_coded([Instruction(_COLUMNS_BACK_KERNEL, (g, base, *known, *scaled), params, (dx,), place)])
            if made is None:
                return None
            result = results.pop(0)
            found += made + self.traced(partial(P.reshape, shape=result.shape), [dx], [result], place)
        if not any(primitive.needs[1:]):
            return found
        sums = self._affine([g, base, *known], each[1:], primitive.needs[1:], results, place)
        return None if sums is None else found + sums

    # --- norms of groups of channels ------------------------------------------------------------------

    def _groups(self, instruction: Instruction) -> list[Instruction] | None:
        """Rows of the elements of a group; weights and biases are there for each of these."""
        cts, (x, weight, bias) = instruction.operands[:-3], instruction.operands[-3:]
        needs: Sequence[bool] = instruction.primitive.needs if cts else ()
        n, channels = x.shape[:2]
        places = math.prod(x.shape[2:])
        groups, place = instruction.params["groups"], instruction.place
        given = [v for v in (*cts, x, weight, bias) if v is not None]
        if not all(isinstance(v, Name) and v.dtype == x.dtype and 0 not in v.shape for v in given):
            return None
        rows = (n, groups, channels // groups * places)
        if (weight is None) != (bias is None) or rows[-1] < 2:
            return None
        found: list[Instruction] = []

        def of(v: Name, shape: tuple[int, ...], *spread: tuple[int, ...]) -> Name:
            """A value in another shape, perhaps by way of others to which it is broadcast."""
            name = self.new(shape, v.dtype)

            def shown(t: Any) -> Any:
                for before, after in zip(spread[::2], spread[1::2], strict=True):
                    t = P.broadcast_to(P.reshape(t, shape=before), shape=after)
                return P.reshape(t, shape=shape)

            found.extend(self.traced(shown, [v], [name], place))
            return name

        base, y = of(x, rows), self.new(rows, x.dtype)
        affine = [v and of(v, rows[1:], (channels, 1), (channels, places)) for v in (weight, bias)]
        norm = Instruction(
            row_norm, (base, *affine), {"ndim": 1, "eps": instruction.params["eps"], "centred": True}, (y,), place
        )
        made = self._forward(norm, y, moderate_sizes(x.dtype.numpy))
        if made is None:
            return None
        found += made
        results = iter(instruction.results)

        def give(v: Name) -> None:
            result = next(results)
            found.extend(self.traced(lambda t: P.reshape(t, shape=result.shape), [v], [result], place))

        if not cts:
            give(y)
            return found
        known = self.known[applied(row_norm, norm.operands, norm.params)]
        if needs[0]:
            dx = self.new(rows, x.dtype)
            operands = (of(cts[0], rows), base, *known, *[w for w in affine[:1] if w is not None])
            back = self._if_coded([Instruction(_normalized_back(weight is not None), operands, {}, (dx,), place)])
            if back is None:
                return None
            found += back
            give(dx)
        if any(needs[1:]):
            planes, each = (n, channels, places), (n, channels, 1)
            spread = [of(v, each, (n, groups, 1, 1), (n, groups, channels // groups, 1)) for v in known]
            sums = [self.new(each, x.dtype) for _ in range(2)]
            operands = (of(cts[0], planes), of(x, planes), *spread)
            affine_rows = Instruction(_AFFINE_BACK, operands, {}, (self.new(planes, x.dtype), *sums), place)
            if places == 1:
                affine_rows = Instruction(_AFFINE_KERNEL, operands, {"dim": 2}, tuple(sums), place)
            if self._if_coded([affine_rows]) is None:
                return None
            found.append(affine_rows)
            for total, need in zip(sums, needs[1:], strict=True):
                if need:
                    name = self.new(each[1:], x.dtype)
                    found += self.traced(lambda t: P.sum(t, dims=(0,), keepdim=False), [total], [name], place)
                    give(name)
        return found

    # --- cross entropy --------------------------------------------------------------------------------

    def _cross_entropy(self, instruction: Instruction) -> list[Instruction] | None:
        """Of scores of shape (N, C) as rows, of (N, C, ...) as rows side by side; and back to them."""
        scores, target = instruction.operands[0], instruction.operands[-1]
        if not self.can_check or target.dtype != dtypes.int64 or 0 in scores.shape:
            return None
        targets = self._targets(target, scores.shape[1], instruction)
        of_rows = self._loss if instruction.primitive is cross_entropy_primitive else self._loss_back
        found = of_rows(instruction, *targets.names)
        return None if found is None else [*targets.first(), *found]

    def _targets(self, target: Name, classes: int, instruction: Instruction) -> "_Targets":
        ignored = instruction.params["ignore_index"]
        key = (target.number, classes, ignored)
        if key not in self.targets:
            shape = (target.shape[0], 1, *_behind(target.shape[1:]))
            places, bad = self.new(shape, _PLACES), self.new((), dtypes.bool_)
            kept = self.new((), dtypes.int64)

            def read(t: Any) -> tuple[Any, Any, Any]:
                t = P.reshape(t, shape=shape)
                counts = P.ne(t, ignored)
                is_wrong = P.logical_and(counts, P.logical_or(P.lt(t, 0), P.ge(t, classes)))
                places = cast(P.where(counts, t, -1), _PLACES.numpy)
                fold = {"dims": tuple(range(t.ndim)), "keepdim": False}
                return places, P.any(is_wrong, **fold), P.count_nonzero(counts, **fold)

            made = self.traced(read, [target], [places, bad, kept], instruction.place)
            made.append(Instruction(Check(), (bad,), {}, (), instruction.place))
            self.targets[key] = _Targets((places, kept), made)
        return self.targets[key]

    def _loss(self, instruction: Instruction, places: Name, kept: Name) -> list[Instruction] | None:
        (x, _), (loss, e) = instruction.operands, instruction.results
        losses, place = self.new(places.shape, x.dtype), instruction.place
        found: list[Instruction] = []
        if len(x.shape) == 2:
            rows = self._if_coded([Instruction(_LOSS, (x, places), {}, (e, losses), place)])
        else:
            flat = (*x.shape[:2], *places.shape[2:])
            whole = e if e.shape == flat else self.new(flat, x.dtype)
            given = (self._shown(x, flat, found, place), places)
            rows = self._if_coded([Instruction(_LOSS_KERNEL, given, {"dim": 1}, (losses, whole), place)])
            if rows is not None and whole is not e:
                rows += self.traced(partial(P.reshape, shape=e.shape), [whole], [e], place)
        if rows is None:
            return None
        reduction = instruction.params["reduction"]

        def reduced(losses: Any, places: Any, kept: Any) -> Any:
            losses = P.where(P.lt(places, 0), 0.0, losses)
            if reduction == NONE:
                return P.reshape(losses, shape=loss.shape)
            total = P.sum(losses, dims=tuple(range(losses.ndim)), keepdim=False)
            return P.div(total, cast(kept, x.dtype.numpy)) if reduction == MEAN else total

        return found + rows + self.traced(reduced, [losses, places, kept], [loss], place)

    def _loss_back(self, instruction: Instruction, places: Name, kept: Name) -> list[Instruction] | None:
        (e, g, _), reduction = instruction.operands, instruction.params["reduction"]
        if not isinstance(g, Name):
            return None
        weights, place = self.new(places.shape, e.dtype), instruction.place
        is_whole = reduction == NONE

        def weighted(g: Any, places: Any, kept: Any) -> Any:
            g = P.reshape(g, shape=places.shape if is_whole else (1,) * places.ndim)
            each = P.div(g, cast(kept, e.dtype.numpy)) if reduction == MEAN else g
            return P.where(P.ge(places, 0), each, 0.0)

        found = self.traced(weighted, [g, places, kept], [weights], place)
        (result,) = instruction.results
        if len(e.shape) == 2:
            rows = self._if_coded([Instruction(_LOSS_BACK, (e, weights, places), {}, (result,), place)])
            return None if rows is None else found + rows
        flat = (*e.shape[:2], *places.shape[2:])
        back = self.new(flat, e.dtype)
        given = (self._shown(e, flat, found, place), weights, places)
        rows = self._if_coded([Instruction(_LOSS_BACK_KERNEL, given, {"dim": 1}, (back,), place)])
        if rows is None:
            return None
        return found + rows + self.traced(partial(P.reshape, shape=result.shape), [back], [result], place)


def _behind(shape: tuple[int, ...]) -> tuple[int, ...]:
    """What is behind the classes, as one dimension at most."""
    return shape if len(shape) < 2 else (math.prod(shape),)


class _Targets:
    """The places of targets in rows, how many count, and the instructions that find that out, which stand there once."""

    def __init__(self, names: tuple[Name, Name], made: list[Instruction]) -> None:
        self.names, self._made = names, made

    def first(self) -> list[Instruction]:
        made, self._made = self._made, []
        return made


def _exponentials_and_loss(row: Row, x: Any, target: Any) -> tuple[Any, Any]:
    loss, e = loss_of_row(row, x, target)
    return e, loss


def _row_and_affine_back(row: Row, g: Any, *given: Any) -> tuple[Any, ...]:
    return P.neg(g), *affine_back(row, g, *given)


_AFFINE_BACK = RowFunction("affine_back", _row_and_affine_back)
_LOSS = RowFunction("cross_entropy", _exponentials_and_loss)
_LOSS_BACK = RowFunction("cross_entropy_back", loss_of_row_back)
_AFFINE_KERNEL = RowKernel("affine_back", affine_kernel)
_COLUMNS_KERNEL = RowKernel("batch_norm", batch_kernel)
_COLUMNS_BACK_KERNEL = RowKernel("batch_norm_back", backward_kernel)
_LOSS_KERNEL = RowKernel("cross_entropy", loss_kernel)
_LOSS_BACK_KERNEL = RowKernel("cross_entropy_back", back_kernel)


def applied(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a primitive is applied to, as a key."""
    given = tuple([o.number if isinstance(o, Name) else repr(o) for o in operands])
    return primitive.name, given, repr(sorted(params.items()))


# --- joining ---------------------------------------------------------------------------------------


def fits(instruction: Instruction, plan: Any, dtype: Any) -> bool:
    """Whether an instruction can be part of a function of rows of a type."""
    if isinstance(instruction.primitive, RowFunction):
        return all(o.dtype in (dtype, _PLACES) for o in instruction.operands)
    if not isinstance(plan, Plan) or not isinstance(plan.body.result, Result):
        return False
    kinds = [*plan.body.types, plan.dtype, *[s.dtype for s in plan.body.steps]]
    return all(k in (dtype.numpy, _TRUTH) for k in kinds)


def is_worth_joining(shape: tuple[int, ...]) -> bool:
    """Whether rows are long enough, and so many that threads find work, for elementwise instructions to be done by row."""
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    return shape[-1] >= _LEAST_LENGTH and (rows >= _LEAST_ROWS or rows * shape[-1] < 1 << 14)


class Part(NamedTuple):
    """One of the bodies that become one: its plan, what it is given, and how long rows are."""

    plan: Any
    operands: Sequence[Any]  # `Operand`, `Result` or `Constant` of the whole
    length: int


class Joined:
    """The body of instructions that follow each other."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, part: Part) -> tuple[Any, ...]:
        """What the results of a part are in the whole."""
        plan, before = part.plan, len(self.steps)
        body = plan.body
        working = next((t for t in body.types if t.kind == "f"), body.types[0])
        numbers = {**getattr(plan, "given", {}), LENGTH: float(part.length)}

        def seen(what: Any) -> Any:
            if isinstance(what, Operand):
                return part.operands[what.place]
            if isinstance(what, Result):
                return Result(before + what.place)
            return Constant(numbers[what.name], working) if isinstance(what, Parameter) else what

        for step in body.steps:
            self.steps.append(step._replace(operands=tuple(map(seen, step.operands))))
        return tuple(map(seen, body.results if isinstance(body, RowBody) else (body.result,)))

    def plan(self, types: Sequence[Any], results: Sequence[Any], dtypes: Sequence[Any], length: int) -> RowPlan | None:
        """The plan of the whole, of operands of these types; None if it is too much for a row."""
        plan = RowPlan(RowBody(tuple(types), tuple(self.steps), tuple(results), tuple(dtypes)))
        return plan if room_of(plan, length) <= _MOST_ROOM else None
