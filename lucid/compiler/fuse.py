"""The second stage: which instructions become one loop.

Elementwise instructions over one shape go together where that makes no circle: whoever joins must not need something
that waits for the others. A reduction takes along the loop that makes its operand. Views are no work at all: they are
other ways to read what they show.
"""

from collections.abc import Iterator
from typing import Any

from lucid.codegen import folds
from lucid.codegen.bodies import WRITTEN, NotGeneratedError, Plan
from lucid.codegen.folds import FoldPlan
from lucid.codegen.functions.remainders import REMAINDERS
from lucid.codegen.fused import rehearse
from lucid.compiler.rewrites import parts_of
from lucid.compiler.rows import Check, RowFunction, RowKernel, applied, fits, is_worth_joining, row_plan
from lucid.compiler.simplify import Simplified, Uniform, operand_types
from lucid.core import kernels
from lucid.core.primitive import Primitive
from lucid.ir.effects import lasts
from lucid.ir.values import Instruction, Name
from lucid.kinds.kind import NeedsValueError
from lucid.ops.abstract import Abstract
from lucid.ops.expressions import NotScalarError, Source
from lucid.ops.fused import Fused as FusedPrimitive
from lucid.ops.fused import Gradient

ELEMENTS, ROWS, FOLD, PRODUCT, ASSEMBLY, CHECK, CALL = (
    "elements", "rows", "fold", "product", "assembly", "check", "call",
)  # fmt: skip
_ASSEMBLED = frozenset(
    ["cat", "stack", "slice_back", "pad", "parts_back", "write_view", "reshape", "flip", "roll", "diagonal_back"]
)
_FOLDS = frozenset(["sum", "prod", "amax", "amin", "all", "any", "count_nonzero", "argmax", "argmin"])
_MOST = 48  # instructions of a loop
_MOST_FOLDS = 4
_plans: dict[Any, Any] = {}
_MOST_PLANS = 4096


class Group:
    """Instructions that are one step: a loop over elements, or anything else by itself."""

    def __init__(self, kind: str, instruction: Instruction, number: int) -> None:
        self.kind = kind
        self.instructions = [instruction]
        self.number = number
        # With those of the groups that have become part of it: whoever needs it has all of them.
        self.bits = 1 << number
        self.before = 0  # the groups that it needs, directly or not, as bits
        self.users: list[Group] = []  # those that need it directly
        self.waits: list[Group] = []  # those that it needs although it reads nothing of them
        self.shown = 0  # those that it reads by views, which show what is in memory
        self.shape = instruction.results[0].shape if kind in (ELEMENTS, ROWS) else None
        self.folds: list[Instruction] = []  # reductions of its results that are made with it


def plan_of(instruction: Instruction) -> Plan | None:
    """How an elementwise instruction is written; None where there is no code for it."""
    primitive = instruction.primitive
    if not isinstance(primitive, Primitive) or not primitive.is_scalar or primitive.is_view or primitive.multi:
        return None
    types = operand_types(instruction.operands)
    if types is None:
        return None
    try:
        key = (primitive, tuple(types), tuple((k, type(v), v) for k, v in instruction.params.items()))
        if key not in _plans:
            if len(_plans) > _MOST_PLANS:
                _plans.clear()
            _plans[key] = new_plan(primitive, types, instruction.params)
        found = _plans[key]
    except TypeError:  # parameters that are no keys
        found = new_plan(primitive, types, instruction.params)
    return found if found is not None and found.dtype == instruction.results[0].dtype.numpy else None


def new_plan(primitive: Any, types: Any, params: dict[str, Any]) -> Any:
    """How a primitive of elements of these types is written; None where there is no code for it."""
    name = primitive.name
    if name not in WRITTEN:
        checks = primitive.checks is not None
        if getattr(primitive, "calls", None) or primitive.body is None or checks:
            return None
        if kernels.has_own(primitive, (kernels.REFERENCE,)):
            return None
    if name in REMAINDERS and any(t.kind in "iu" for t in types):
        return None  # they raise where a divisor is 0
    try:
        plan = Plan(Source(primitive) if name in WRITTEN else primitive.source, types, params)
        plan.given = {n: float(params[n]) for n in plan.numbers}
        rehearse(plan)
    except (NotGeneratedError, NotScalarError, NeedsValueError):
        return None
    return plan


def fold_plan(instruction: Instruction) -> FoldPlan | None:
    """How a reduction is written; None where there is no code for it."""
    primitive = instruction.primitive
    if not isinstance(primitive, Primitive) or primitive.fold is None or primitive.name not in _FOLDS:
        return None
    (x,), (result,) = instruction.operands, instruction.results
    if not isinstance(x, Name) or 0 in x.shape or not fold_dims(instruction):
        return None
    assert primitive.abstract is not None
    dtype = primitive.abstract(Abstract(x.shape, x.dtype.numpy), **instruction.params).dtype
    try:
        return folds.fold_plan(primitive.fold, x.dtype.numpy, dtype) if dtype == result.dtype.numpy else None
    except NotGeneratedError:
        return None


class Fused:
    """The groups of a program in an order in which they can run."""

    def __init__(self, simplified: Simplified, shows: Any) -> None:
        self.constants = simplified.constants
        self.groups: list[Group] = []
        self.group_of: dict[int, Group] = {}  # by the numbers of results
        self.plans: dict[int, Any] = {}  # by the number of an instruction's first result
        self.views: dict[int, Instruction] = {}  # instructions that are views, by their results
        self.root: dict[int, Name] = {}  # what a view shows, in the end
        self.forwards: dict[Any, Group] = {}  # fused primitives, by what they are given
        self._last_effect: Group | None = None
        self._made = 0
        self.order = {id(i): k for k, i in enumerate(simplified.instructions)}
        self._only_folded = _only_folded(simplified)
        for instruction in simplified.instructions:
            self._add(instruction, shows)
        self._join_folds(simplified)

    def _add(self, instruction: Instruction, shows: Any) -> None:
        primitive = instruction.primitive
        is_rows = isinstance(primitive, (RowFunction, RowKernel))
        has_effect = not is_rows and (lasts(instruction) or not isinstance(primitive, Primitive))
        is_view = not has_effect and not is_rows and primitive.is_view and isinstance(instruction.operands[0], Name)
        if is_view and shows(instruction):
            (name,) = instruction.results
            self.views[name.number] = instruction
            self.root[name.number] = self.base(instruction.operands[0])
            return
        kind = self._kind(instruction)
        if kind in (ELEMENTS, ROWS) and self._join(instruction, kind):
            return
        group = Group(kind, instruction, self._made)
        self._made += 1
        self.groups.append(group)
        for operand in self._needs(instruction):
            _need(group, operand)
        group.shown = self._shown(instruction)
        forward = self.forward_of(instruction)
        if forward is not None:
            group.waits.append(forward)
        elif isinstance(primitive, FusedPrimitive):
            self.forwards[applied(primitive, instruction.operands, instruction.params)] = group
        checks = isinstance(primitive, Primitive) and primitive.checks is not None
        if has_effect or checks:
            if self._last_effect is not None:
                group.waits.append(self._last_effect)
            self._last_effect = group
        for other in group.waits:
            _need(group, other)
        for name in instruction.results:
            self.group_of[name.number] = group

    def forward_of(self, instruction: Instruction) -> Group | None:
        """For the derivative of a fused primitive, the group that applies it, and may keep what the derivative needs."""
        gradient = instruction.primitive
        if not isinstance(gradient, Gradient):
            return None
        operands = instruction.operands[len(gradient.of.results) :]
        return self.forwards.get(applied(gradient.of, operands, instruction.params))

    def _kind(self, instruction: Instruction) -> str:
        primitive = instruction.primitive
        name = instruction.results[0].number if instruction.results else -1
        if isinstance(primitive, Check):
            return CHECK
        if isinstance(primitive, RowFunction):
            self.plans[name] = row_plan(instruction)
            return ROWS
        if isinstance(primitive, Primitive) and not primitive.is_call:
            if primitive.name in _ASSEMBLED:
                return ASSEMBLY
            if primitive.name == "contract":
                return PRODUCT
            plan = plan_of(instruction)
            if plan is not None:
                self.plans[name] = plan
                return ELEMENTS
            fold = fold_plan(instruction)
            if fold is not None:
                self.plans[name] = fold
                return FOLD
        return CALL

    def base(self, name: Name) -> Name:
        return self.root.get(name.number, name)

    def _needs(self, instruction: Instruction) -> Iterator[Group]:
        for operand in instruction.operands:
            if isinstance(operand, Name):
                group = self.group_of.get(self.base(operand).number)
                if group is not None:
                    yield group

    def _shown(self, instruction: Instruction) -> int:
        """The groups that an instruction reads by views, as bits."""
        found = 0
        for o in instruction.operands:
            if isinstance(o, Name) and o.number in self.views:
                group = self.group_of.get(self.base(o).number)
                found |= 0 if group is None else group.bits
        return found

    def _join(self, instruction: Instruction, kind: str) -> bool:
        """Let an instruction join those that make its operands."""
        result = instruction.results[0]
        beside = {
            g.number: g
            for o in instruction.operands
            if isinstance(o, Name)
            and o.number not in self.views
            and (g := self.group_of.get(o.number)) is not None
            and g.kind in (ELEMENTS, ROWS)
            and g.shape == result.shape
            and self._go_together(g, [instruction], kind)
        }
        needs = list(self._needs(instruction))
        shown = self._shown(instruction)
        joined: Group | None = None
        for number in sorted(beside, reverse=True):
            group = beside[number]
            if shown & group.bits or any(n is not group and n.before & group.bits for n in needs if n is not joined):
                continue
            if joined is None:
                joined = group if len(group.instructions) < _MOST else None
            elif self._can_merge(joined, group):
                self._merge(joined, group)
                needs = [joined if n is group else n for n in needs]
        if joined is None:
            return False
        joined.instructions.append(instruction)
        joined.kind = ROWS if ROWS in (joined.kind, kind) else joined.kind
        joined.shown |= shown
        for n in needs:
            if n is not joined:
                _need(joined, n)
        for name in instruction.results:
            self.group_of[name.number] = joined
        return True

    def _go_together(self, group: Group, instructions: list[Instruction], kind: str) -> bool:
        """Whether instructions can be part of one loop: over elements always, by rows if all are of one type."""
        if ROWS not in (group.kind, kind):
            return True
        assert group.shape is not None
        if not is_worth_joining(group.shape) or any(i.results[0].number in self._only_folded for i in instructions):
            return False
        both = [*group.instructions, *instructions]
        dtype = next(i.results[0].dtype for i in both if isinstance(i.primitive, RowFunction))
        return all(fits(i, self.plans[i.results[0].number], dtype) for i in both)

    def _can_merge(self, one: Group, other: Group) -> bool:
        if len(one.instructions) + len(other.instructions) > _MOST:
            return False
        if not self._go_together(one, other.instructions, other.kind):
            return False
        if one.shown & other.bits or other.shown & one.bits:
            return False
        return not (self._needs_indirectly(one, other) or self._needs_indirectly(other, one))

    def _needs_indirectly(self, group: Group, first: Group) -> bool:
        """Whether a group needs another one by way of a third."""
        needed = {g.number: g for i in group.instructions for g in self._needs(i)} | {g.number: g for g in group.waits}
        return any(g.before & first.bits for g in needed.values() if g is not first and g is not group)

    def _merge(self, one: Group, other: Group) -> None:
        one.kind = ROWS if ROWS in (one.kind, other.kind) else one.kind
        one.instructions = sorted([*one.instructions, *other.instructions], key=lambda i: self.order[id(i)])
        for i in other.instructions:
            for name in i.results:
                self.group_of[name.number] = one
        one.waits += other.waits
        one.shown |= other.shown
        self._take_in(one, other)

    def _take_in(self, one: Group, other: Group) -> None:
        """Let a group be part of another one: whoever needs one of them waits for both."""
        self.groups.remove(other)
        one.bits |= other.bits
        one.before = (one.before | other.before) & ~one.bits
        one.users = [u for u in (*one.users, *other.users) if u is not one and u is not other]
        other.users = [one]  # what it is still told to wait for
        for user in one.users:
            _grow(user, one.before | one.bits)

    def _join_folds(self, simplified: Simplified) -> None:
        """Let reductions be made by the loop that makes what they reduce, or by one that reads it for others."""
        for group in [g for g in self.groups if g.kind == FOLD]:
            (instruction,) = group.instructions
            operand = instruction.operands[0]
            maker = self.group_of.get(operand.number) if operand.number not in self.views else None
            if maker is None or maker.kind != ELEMENTS or len(maker.folds) >= _MOST_FOLDS:
                continue
            if any(operand in fold.results for fold in maker.folds):
                continue  # a reduction of a reduction
            dims = _dims(instruction)
            if group.before & ~(maker.before | maker.bits) or any(_dims(f) != dims for f in maker.folds):
                continue
            self._fold_with(maker, group)
        for group in [g for g in self.groups if g.kind == FOLD]:
            (instruction,) = group.instructions
            operand, dims = instruction.operands[0], _dims(instruction)
            for maker in self.groups:
                if (
                    0 < len(maker.folds) < _MOST_FOLDS
                    and maker.shape == operand.shape
                    and all(_dims(f) == dims for f in maker.folds)
                    and any(o is operand or o == operand for i in maker.instructions for o in i.operands)
                    and not (maker.before & group.bits or group.before & ~maker.before)
                ):
                    self._fold_with(maker, group)
                    break

    def _fold_with(self, maker: Group, group: Group) -> None:
        """Let a reduction be part of a loop."""
        (instruction,) = group.instructions
        maker.folds.append(instruction)
        self._take_in(maker, group)
        self.group_of[instruction.results[0].number] = maker

    def schedule(self) -> list[Group]:
        """The groups, each after those that it needs, otherwise as they were."""
        done, waiting, out = 0, list(self.groups), []
        here = sum(g.bits for g in waiting)
        while waiting:
            for k, group in enumerate(waiting):
                if not group.before & here & ~done:
                    out.append(waiting.pop(k))
                    done |= group.bits
                    break
            else:
                raise AssertionError("groups wait for each other")
        return out


def _need(group: Group, other: Group) -> None:
    """Let a group wait for another one, and for what that waits for."""
    if other.bits & ~group.before:
        other.users.append(group)
    _grow(group, other.before | other.bits)


def _grow(group: Group, before: int) -> None:
    """Let a group wait for more; so do those that wait for it."""
    frontier = [(group, before)]
    while frontier:
        group, before = frontier.pop()
        new = before & ~group.before & ~group.bits
        if new:
            group.before |= new
            frontier += [(user, new) for user in group.users]


def fold_dims(fold: Instruction) -> tuple[int, ...]:
    """The dimensions of a reduction; those that find places have one."""
    params = fold.params
    found: tuple[int, ...] = (params["dim"],) if "dim" in params else params.get("dims") or ()
    return found


def _dims(fold: Instruction) -> Any:
    n = len(fold.operands[0].shape)
    return {d % n for d in fold_dims(fold)}, parts_of(fold)


def _only_folded(simplified: Simplified) -> set[int]:
    """The values that are read for nothing but one reduction: they are computed where that is made."""
    readers: dict[int, list[Instruction]] = {}
    for i in simplified.instructions:
        for o in i.operands:
            if isinstance(o, Name):
                readers.setdefault(o.number, []).append(i)
    kept = {o.number for o in (*simplified.outputs, *[w.operands[1] for w in simplified.writes]) if isinstance(o, Name)}
    found: set[int] = set()
    for instruction in reversed(simplified.instructions):
        for name in instruction.results:
            by = readers.get(name.number, [])
            if name.number in kept or len(by) != 1:
                continue
            (reader,) = by
            is_scalar = isinstance(reader.primitive, Primitive) and reader.primitive.is_scalar
            if reader.primitive.name in _FOLDS or (is_scalar and reader.results[0].number in found):
                found.add(name.number)
    return found


def is_number(what: Any, constants: dict[int, Any]) -> bool:
    """Whether an operand is a number that stands in the code."""
    return not isinstance(what, Name) or isinstance(constants.get(what.number), Uniform)
