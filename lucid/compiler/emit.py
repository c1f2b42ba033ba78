"""The fourth stage: groups become steps, with the machine code of their loops."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.backends.cpu.entry_points import Entry, Lowering, lowerings
from lucid.backends.cpu.generated import steps as steps  # what generated kernels are lowered to
from lucid.codegen import fused
from lucid.codegen.bodies import NARROW, NotGeneratedError
from lucid.codegen.compiled import packed_fold
from lucid.codegen.folds import FoldPlan, fold_plan
from lucid.codegen.fused import Access, Chain, Fold, Operation, Part, collapsed
from lucid.codegen.recipes import of_chain, of_folds, of_rows
from lucid.compiler.assemblies import assembly_steps
from lucid.compiler.draws import Draws
from lucid.compiler.fuse import (
    ASSEMBLY,
    CHECK,
    ELEMENTS,
    FOLD,
    PRODUCT,
    ROWS,
    Fused,
    Group,
    fold_dims,
    is_number,
    new_plan,
)
from lucid.compiler.layout import ARENA, HELD, RESULT, Layout, Place
from lucid.compiler.products import can_multiply, matrices_step, product_step
from lucid.compiler.rewrites import parts_of
from lucid.compiler.rows import Joined, RowFunction, RowKernel, room_of
from lucid.compiler.rows import Part as RowPart
from lucid.compiler.scans import scan_steps
from lucid.compiler.simplify import operand_types, simplified
from lucid.core.primitive import P, Primitive
from lucid.ir import effects
from lucid.ir.effects import Memories
from lucid.ir.program import Program
from lucid.ir.values import Instruction, Name
from lucid.ops.expressions import Constant, Operand
from lucid.ops.fused import Gradient

_GRAIN = 1024  # elements that a thread takes at least


class Emitter:
    """The steps of a program, with the places that they read and write."""

    def __init__(
        self, program: Program, functions: dict[str, tuple[str, Any]] | None = None, can_repeat: bool | None = None
    ) -> None:
        self.program = program
        self.can_repeat = effects.can_repeat(program) if can_repeat is None else can_repeat
        self.simple = simplified(program, self.can_repeat)
        given = [*program.inputs, *[n for n, _ in program.captured]]
        self.layout = Layout(given, self.simple.constants)
        # In the body of a loop, where a draw begins depends on the round.
        self.draws = Draws(program, self.layout) if functions is None else None
        self.fused = Fused(self.simple, self.layout.shows)
        self.order = self.fused.schedule()
        self.steps: list[dict[str, Any]] = []
        self.calls: list[Any] = []
        self.kept: set[int] = set()  # applications of fused primitives of which a derivative uses residuals
        self.residuals: dict[int, Any] = {}  # the places of those of lowered ones
        self.can_check = self.can_repeat
        # Names of functions by what they compute, with what writes them; those of a loop's body are among the others.
        self.functions = {} if functions is None else functions
        self.readers = self._readers()
        self.notes: list[str] = []
        self.in_place: set[int] = set()  # values that loops write to memory from outside
        self._when = {id(group): k for k, group in enumerate(self.order)}
        self._last_read = self._last_reads()
        # Nothing from outside is written before all that can fail has been done.
        loops = (ELEMENTS, ROWS, FOLD, ASSEMBLY)
        self._last_call = max([k for k, g in enumerate(self.order) if g.kind not in loops], default=-1)

    # --- what has to be stored ---------------------------------------------------------------------

    def _readers(self) -> set[int]:
        """The values that must be in memory: all but those that only their own loop reads."""
        found: set[int] = set()
        for group in self.order:
            is_loop = group.kind in (ELEMENTS, ROWS)
            own = {n.number for i in group.instructions for n in i.results} if is_loop else set()
            for i in (*group.instructions, *group.folds):
                for o in i.operands:
                    if isinstance(o, Name) and (o.number in self.fused.views or o.number not in own):
                        found.add(self.fused.base(o).number)
        wanted = [*self.simple.outputs, *[w.operands[1] for w in self.simple.writes]]
        found.update(self.fused.base(o).number for o in wanted if isinstance(o, Name))
        return found

    def _last_reads(self) -> dict[int, int]:
        """The last group that reads each value; outputs, and what is written, are copied when all groups have run."""
        found: dict[int, int] = {}
        for k, group in enumerate(self.order):
            for i in (*group.instructions, *group.folds):
                found.update((self.fused.base(o).number, k) for o in i.operands if isinstance(o, Name))
        for o in (*self.simple.outputs, *[w.operands[1] for w in self.simple.writes]):
            if isinstance(o, Name):
                found[self.fused.base(o).number] = len(self.order)
        return found

    def _give_results(self) -> None:
        """Let outputs lie in new arrays, where they are values of their own."""
        self.outputs: list[Any] = []
        taken: set[int] = set()
        for output in self.simple.outputs:
            if not isinstance(output, Name):
                self.outputs.append(output)
                continue
            number = output.number
            group = self.fused.group_of.get(number)
            if group is not None and number not in taken and number not in self.layout.places:
                self.layout.places[number] = self.layout.new(RESULT, output.shape, output.dtype.numpy)
                taken.add(number)
                self.outputs.append(self.layout.places[number])
            else:
                target = self.layout.new(RESULT, output.shape, output.dtype.numpy)
                self.outputs.append((target, output))

    def _copy_writes(self) -> None:
        """Write what no loop has written; a value that another write would change before is copied first."""
        rest = [w.operands for w in self.simple.writes if w.operands[1].number not in self.in_place]
        targets = {id(self.layout.places[target.number].buffer) for target, _ in rest}
        places = [self.layout.place(value) for _, value in rest]
        for k, place in enumerate(places):
            if id(place.buffer) in targets:
                places[k] = self.layout.new(ARENA, place.array.shape, place.array.dtype)
                self.copy(place, places[k])
        for (target, _), place in zip(rest, places, strict=True):
            self.copy(place, self.layout.places[target.number])

    def _write_in_place(self) -> None:
        """Let loops write to memory from outside themselves, where nobody reads what was there any more."""
        captured = {n.number: t for n, t in self.program.captured}
        memories = Memories(captured.values())
        values = [w.operands[1] for w in self.simple.writes]
        for write in self.simple.writes:
            target, value = write.operands
            maker = self.fused.group_of.get(value.number) if isinstance(value, Name) else None
            if maker is None or value.number in self.layout.places or values.count(value) > 1:
                continue
            if target.number not in captured or not self._replaces(maker, target):
                continue
            if len([*memories.beside(captured[target.number])]) > 1:
                continue
            self.layout.places[value.number] = self.layout.places[target.number]
            self.in_place.add(value.number)

    def _take_donated(self) -> None:
        """Let outputs lie in memory of inputs that the caller has no more use for, where nobody reads these any more."""
        written = {w.operands[0].number for w in self.simple.writes}
        numbers = {n.number: k for k, n in enumerate(self.program.inputs)}
        free = [n for n in self.program.donated if n.number not in written]
        for output, place in zip(self.simple.outputs, self.outputs, strict=True):
            if not isinstance(place, Place):
                continue
            maker = self.fused.group_of[output.number]
            for name in free:
                if (name.shape, name.dtype) == (output.shape, output.dtype) and self._replaces(maker, name):
                    place.buffer.donor = numbers[name.number]
                    free.remove(name)
                    break

    def _replaces(self, maker: Group, target: Name) -> bool:
        """Whether a loop may write over a tensor from outside: all that can fail is over, and nobody reads that any more."""
        at = self._when[id(maker)]
        if maker.kind != ELEMENTS or at < self._last_call or self._last_read.get(target.number, -1) > at:
            return False
        return self._reads_in_step(maker, target)

    def _reads_in_step(self, group: Group, target: Name) -> bool:
        """Whether a loop reads each element of a tensor only where it writes it."""
        for i in (*group.instructions, *group.folds):
            for o in i.operands:
                is_read = isinstance(o, Name) and self.fused.base(o).number == target.number
                if is_read and (o.number != target.number or o.shape != group.shape):
                    return False
        return target.shape == group.shape

    # --- steps -------------------------------------------------------------------------------------

    def make_steps(self) -> None:
        self._give_results()
        self._write_in_place()
        self._take_donated()
        for group in self.order:
            self._group(group)
        for output in self.outputs:
            if isinstance(output, tuple):
                self.copy(self.layout.place(output[1]), output[0])
        self._copy_writes()

    def _group(self, group: Group) -> None:
        if group.kind == ELEMENTS:
            self._elements(group)
        elif group.kind == ROWS:
            self._rows(group)
        elif group.kind == CHECK:
            self.check(self.layout.place(group.instructions[0].operands[0]))
        elif group.kind == FOLD:
            self._fold_alone(group)
        elif group.kind == ASSEMBLY:
            assembly_steps(self, group.instructions[0])
        elif (group.kind == PRODUCT and self._product(group.instructions[0])) or (
            group.instructions[0].primitive.name == "scan" and scan_steps(self, group.instructions[0])
        ):
            pass
        else:
            self._lower_or_call(group.instructions[0])

    def _elements(self, group: Group) -> None:
        shape = group.shape
        assert shape is not None
        places: list[Place] = []
        seen: dict[Any, int] = {}
        results = {i.results[0].number: k for k, i in enumerate(group.instructions)}
        operations = []

        def chosen(o: Any, type: Any) -> tuple[str, Any]:
            if isinstance(o, Name) and o.number in results and o.number not in self.fused.views:
                return "result", results[o.number]
            if is_number(o, self.simple.constants):
                number = self.simple.constants[o.number].value if isinstance(o, Name) else o
                return "number", _as_number(number, type)
            place = self.layout.place(o)
            key = (id(place.buffer), place.offset, place.strides_in(shape), place.array.dtype)
            if key not in seen:
                seen[key] = len(places)
                places.append(place)
            return "read", seen[key]

        for instruction in group.instructions:
            plan = self.fused.plans[instruction.results[0].number]
            types = operand_types(instruction.operands)
            assert types is not None
            operands = tuple([chosen(o, t) for o, t in zip(instruction.operands, types, strict=True)])
            operations.append(Operation(plan, operands))
        stored = [i.results[0] for i in group.instructions if i.results[0].number in self.readers]
        targets = [self.layout.place(name) for name in stored]
        whats: list[tuple[str, Any]] = [("result", results[n.number]) for n in stored]
        if group.folds:
            folded = [chosen(fold.operands[0], None) for fold in group.folds]
            if self._fold(group.folds, shape, places, tuple(operations), whats, targets, folded):
                return
            for fold, what in zip(group.folds, folded):
                name = fold.operands[0]
                if name not in stored and what[0] == "result":
                    stored.append(name)
                    targets.append(self.layout.place(name))
                    whats.append(what)
        self.loop(shape, places, tuple(operations), whats, targets)
        for fold in group.folds:
            self._reduce(fold)

    def _rows(self, group: Group) -> None:
        """Functions of rows, with elementwise instructions around them, as one loop over rows."""
        shape = group.shape
        assert shape is not None
        joined = Joined()
        places: list[Place] = []
        seen: dict[Any, int] = {}
        known: dict[int, Any] = {}  # what a value is in the joined body

        def chosen(o: Any, type: Any) -> Any:
            if isinstance(o, Name) and o.number in known and o.number not in self.fused.views:
                return known[o.number]
            if is_number(o, self.simple.constants):
                number = self.simple.constants[o.number].value if isinstance(o, Name) else o
                return Constant(_as_number(number, type), type)
            place = self.layout.place(o)
            key = (id(place.buffer), place.offset, place.strides_in(shape), place.array.dtype)
            if key not in seen:
                seen[key] = len(places)
                places.append(place)
            return Operand(seen[key])

        for instruction in group.instructions:
            plan = self.fused.plans[instruction.results[0].number]
            is_rows = isinstance(instruction.primitive, RowFunction)
            types = plan.body.types if is_rows else operand_types(instruction.operands)
            assert types is not None
            given = [chosen(o, t) for o, t in zip(instruction.operands, types, strict=True)]
            found = joined.add(RowPart(plan, given, shape[-1]))
            known.update({name.number: what for name, what in zip(instruction.results, found, strict=True)})
        stored = [n for i in group.instructions for n in i.results if n.number in self.readers]
        results = [known[n.number] for n in stored]
        types = [p.array.dtype for p in places]
        whole = joined.plan(types, results, [n.dtype.numpy for n in stored], shape[-1])
        are_joined = whole is not None and all(
            whole.is_of_row(r) == (n.shape != shape) or shape[-1] == 1 for r, n in zip(results, stored, strict=True)
        )  # numbers for rows of one element are numbers for elements too
        if whole is None or not are_joined:
            self._rows_apart(group)
            return
        targets = [self.layout.place(name) for name in stored]
        self._stack(shape, whole, [*places, *targets])
        self.notes.append(f"rows {list(shape)}: {', '.join(i.primitive.name for i in group.instructions)}")

    def _rows_apart(self, group: Group) -> None:
        """The same, each instruction by itself."""
        for instruction in group.instructions:
            self.readers.update(n.number for n in instruction.results)
        for instruction in group.instructions:
            kind = ROWS if isinstance(instruction.primitive, RowFunction) else ELEMENTS
            self._group(Group(kind, instruction, group.number))

    def _stack(self, shape: tuple[int, ...], plan: Any, places: list[Place]) -> None:
        steps = [p.strides_in(shape) for p in places]
        sizes, strides = collapsed(shape[:-1], [s[:-1] for s in steps])
        whole = tuple([(*own, s[-1]) for own, s in zip(strides, steps, strict=True)])
        rows = fused.Stack(plan, sizes, whole, shape[-1], room_of(plan, shape[-1]))
        text = f"{len(sizes)}: {list(sizes[1:])} of {rows.length} {[list(s) for s in whole]}\n{of_rows(plan, ())}"
        name = self.function("loop of rows", text, lambda name: fused.stack(rows, name))
        total = math.prod(shape)
        grain = max(1, _GRAIN // shape[-1])
        self.step("loop", places, name=name, units=math.prod(sizes), grain=grain, work=plan.cost * total)

    def loop(self, shape: tuple[int, ...], reads: Any, operations: Any, whats: Any, targets: Any) -> None:
        if 0 in shape:
            return
        all_places = [*reads, *targets]
        sizes, strides = collapsed(shape, [p.strides_in(shape) for p in all_places])
        accesses = [Access(p.array.dtype, s) for p, s in zip(all_places, strides)]
        n = len(reads)
        chain = Chain(sizes, tuple(accesses[:n]), operations, tuple(zip(whats, accesses[n:], strict=True)))
        name = self.function("loop", of_chain(chain), lambda name: [fused.loop(chain, name)])
        inner = len(sizes) == 1
        total = math.prod(sizes)
        self.step(
            "loop",
            all_places,
            name=name,
            units=sizes[0] if inner else math.prod(sizes[:-1]),
            grain=_GRAIN if inner else max(1, _GRAIN // sizes[-1]),
            work=chain.cost * total,
        )
        self.notes.append(f"loop {list(shape)}: {', '.join(o.plan.name for o in operations) or 'copy'}")

    def copy(self, source: Place, target: Place) -> None:
        """The elements of one place to another of the same shape."""
        self.loop(target.array.shape, [source], (), [("read", 0)], [target])

    def add_into(self, source: Place, target: Place) -> None:
        kind = target.array.dtype
        plan = new_plan(P.add, [kind, kind], {})
        operation = Operation(plan, (("read", 0), ("read", 1)))
        self.loop(target.array.shape, [target, source], (operation,), [("result", 0)], [target])

    def clear(self, place: Place) -> None:
        self.step("fill", [place], units=place.buffer.size, work=0.0)

    def fill(self, place: Place, value: Any) -> None:
        number = _as_number(value, place.array.dtype)
        self.loop(place.array.shape, [], (), [("number", number)], [place])

    # --- folds -------------------------------------------------------------------------------------

    def _fold(
        self,
        folds: list[Instruction],
        shape: tuple[int, ...],
        reads: Any,
        operations: Any,
        whats: Any,
        targets: Any,
        folded: Any,
    ) -> bool:
        """Reductions with the loop before them; False if they do not fit together."""
        parts = [
            (
                self.fused.plans[f.results[0].number],
                f.operands[0].dtype.numpy,
                self.layout.place(f.results[0]),
                f.primitive.name,
            )
            for f in folds
        ]
        apart = parts_of(folds[0])
        return self._folded(parts, fold_dims(folds[0]), shape, reads, operations, whats, targets, folded, apart)

    def _folded(
        self,
        folds: list[tuple[FoldPlan, Any, Place, str]],
        dims: Any,
        shape: tuple[int, ...],
        reads: Any,
        operations: Any,
        whats: Any,
        targets: Any,
        folded: Any,
        apart: int = 0,
    ) -> bool:
        parts = _arranged(shape, dims)
        if parts is None:
            return False
        parts[1:2] = [parts[1][:apart], parts[1][apart:]] if apart else [parts[1]]
        all_places = [*reads, *targets]
        steps = [p.strides_in(shape) for p in all_places]
        sizes: tuple[int, ...] = ()
        strides: list[tuple[int, ...]] = [() for _ in all_places]
        counts = []
        for part in parts:
            own, joined = collapsed([shape[d] for d in part], [[s[d] for d in part] for s in steps])
            sizes, strides = sizes + own, [s + j for s, j in zip(strides, joined)]
            counts.append(len(own))
        before = sum(counts[: 2 + bool(apart)])
        if len(sizes) - before > 1:
            return False
        n = len(reads)
        accesses = [Access(p.array.dtype, s) for p, s in zip(all_places, strides)]
        chain = Chain(sizes, tuple(accesses[:n]), operations, tuple(zip(whats, accesses[n:], strict=True)))
        made = tuple(
            [
                Part(what, plan, kind, packed_fold(plan) is not None)
                for (plan, kind, _, _), what in zip(folds, folded, strict=True)
            ]
        )
        fold = Fold(chain, made, counts[0], before - counts[0], counts[1] if apart else 0)
        self._fold_steps(fold, all_places, [out for _, _, out, _ in folds])
        names = [o.plan.name for o in operations] + [name for *_, name in folds]
        self.notes.append(f"fold {list(shape)}: {', '.join(names)}")
        return True

    def _fold_steps(self, fold: Fold, places: list[Place], outs: list[Place]) -> None:
        results, blocks = fold.results, fold.leads * fold.blocks
        room = results * blocks
        if fold.has_columns:
            many, apart = fold.pieces
            results, room = results * many, results * many * blocks * apart
        units = results * blocks
        states = [
            self.layout.new(ARENA, (room + 64,), np.dtype(f"V{t.bytes}")) for p in fold.parts for t in p.plan.states
        ]
        name = self.function("fold", of_folds(fold), lambda name: fused.functions(fold, name))
        numbers: list[Any] = [fold.length] if fold.is_open else []
        numbers += [packed_fold(p.plan) for p in fold.parts if p.is_packed]
        known = [self.layout.constant(np.array(n)) for n in numbers]
        total = math.prod(fold.chain.shape)
        work = (fold.chain.cost + sum(p.plan.cost for p in fold.parts)) * total
        grain = max(1, _GRAIN * units // total)
        self.step("loop", [*places, *states, *known], name=name, units=units, grain=grain, work=work)
        work = 2.0 * results * blocks
        self.step("loop", [*outs, *states, *known], name=f"{name}_merged", units=results, grain=256, work=work)

    def _fold_alone(self, group: Group) -> None:
        (instruction,) = group.instructions
        self._reduce(instruction)

    def _reduce(self, instruction: Instruction) -> None:
        """A reduction of what lies in memory."""
        (x,) = instruction.operands
        place = self.layout.place(x)
        if not self._fold([instruction], x.shape, [place], (), [], [], [("read", 0)]):
            self.call(instruction)

    # --- products ----------------------------------------------------------------------------------

    def _product(self, instruction: Instruction) -> bool:
        labels = instruction.params["labels"]
        x, y = [self.layout.place(o) for o in instruction.operands]
        out = self.layout.place(instruction.results[0])
        if labels.conj_left or labels.conj_right:
            return False
        if not out.array.size:
            return True
        found = product_step(x, y, out, labels)
        left, right = set(labels.left), set(labels.right)
        is_matrices = bool(left - right) and bool(right - left) and bool((left & right) - set(labels.out))
        if found is None and is_matrices:
            first, second = [self.in_order(o) for o in instruction.operands]
            found = product_step(first, second, out, labels)
        if found is None:
            return not is_matrices and self._loop_of_products(x, y, out, labels)
        facts, places = found
        self.step("product", places, **facts)
        self.notes.append(f"product {labels}: {list(x.array.shape)} {list(y.array.shape)}")
        return True

    def _loop_of_products(self, x: Place, y: Place, out: Place, labels: Any) -> bool:
        """Factors multiplied element by element, and summed over the labels that the product does not have."""
        inner = [c for c in labels.left if c not in labels.out]
        kind = out.array.dtype
        if kind in NARROW or x.array.dtype != kind or y.array.dtype != kind:
            return False  # products of half precision are not rounded before they are summed
        plan = new_plan(P.mul, [kind, kind], {})
        if plan is None:
            return False
        order = [*labels.out, *inner]
        sizes = labels.sizes(x.array.shape, y.array.shape)
        shape = tuple([sizes[c] for c in order])
        reads = [p.shown(_by_labels(p.array, own, order, shape)) for p, own in ((x, labels.left), (y, labels.right))]
        operations = (Operation(plan, (("read", 0), ("read", 1))),)
        if 0 in shape:
            self.clear(out)
            return True
        if not inner:
            self.loop(shape, reads, operations, [("result", 0)], [out])
            return True
        try:
            fold = fold_plan(P.sum.fold, kind, kind)
        except NotGeneratedError:
            return False
        dims = tuple(range(len(labels.out), len(shape)))
        return self._folded([(fold, kind, out, "sum")], dims, shape, reads, operations, [], [], [("result", 0)])

    def insert_copy(self, source: Place, target: Place) -> None:
        """Copy something before anything else is done."""
        rest, self.steps = self.steps, []
        self.copy(source, target)
        self.steps += rest

    def in_order(self, operand: Any) -> Place:
        """An operand as it lies in row-major order, in a place of its own if it does not."""
        return self.ordered(self.layout.place(operand))

    # --- kernels that are compiled C: the steps of `entry_points.Steps` -------------------------------

    def _lower_or_call(self, instruction: Instruction) -> None:
        before = set(self.layout.places)
        is_drawn = self.draws is not None and self.draws.lower(self, instruction)
        if is_drawn or self._lower(instruction):
            self.notes.append(f"native {instruction.primitive.name}")
            return
        for name in instruction.results:  # it lies where the call puts it
            if name.number not in before:
                self.layout.places.pop(name.number, None)
        self.call(instruction)

    def _lower(self, instruction: Instruction) -> bool:
        """The steps of a kernel in place of its call; False if there are none for these operands."""
        primitive: Any = instruction.primitive
        if isinstance(primitive, RowKernel):
            self._row_kernel(primitive, instruction)
            return True
        is_gradient = isinstance(primitive, Gradient)
        lowering = lowerings.get(primitive.of.name if is_gradient else primitive.name)
        if lowering is None or not isinstance(primitive, Primitive):
            return False
        given = [self.layout.place(o) if isinstance(o, Name) else o for o in instruction.operands]
        outs = [self.layout.place(name) for name in instruction.results]
        if isinstance(primitive, Gradient):
            return self._lower_gradient(instruction, lowering, given, outs)
        residuals = lowering.forward(self, outs, *given, **instruction.params)
        self.residuals[id(instruction)] = residuals
        return residuals is not None

    def _row_kernel(self, kernel: RowKernel, instruction: Instruction) -> None:
        given = [self.in_order(o) for o in instruction.operands]
        outs = [self.layout.place(name) for name in instruction.results]
        found = kernel.entry([p.array for p in given], [p.array for p in outs], **instruction.params)
        self.enter(Entry(*found[:2]), [*given, *outs, self.new((found[2],), np.uint8)])

    def _lower_gradient(
        self, instruction: Instruction, lowering: Lowering, given: list[Any], outs: list[Place]
    ) -> bool:
        primitive, forward = instruction.primitive, self.fused.forward_of(instruction)
        known = None if forward is None else self.residuals.get(id(forward.instructions[0]))
        if known is None or lowering.backward is None:
            return False
        count, found = len(primitive.of.results), iter(outs)
        needed = [next(found) if need else None for need in primitive.needs]
        return lowering.backward(self, needed, given[:count], given[count:], known, **instruction.params)

    def new(self, shape: tuple[int, ...], dtype: Any) -> Place:
        return self.layout.new(ARENA, shape, np.dtype(dtype))

    def constant(self, array: Any) -> Place:
        return self.layout.constant(array)

    def ordered(self, place: Place) -> Place:
        if place.array.flags.c_contiguous:
            return place
        own = self.layout.new(ARENA, place.array.shape, place.array.dtype)
        self.copy(place, own)
        return own

    def sum(self, place: Place, dims: tuple[int, ...], out: Place) -> None:
        kind = place.array.dtype
        folds = [(fold_plan(P.sum.fold, kind, kind), kind, out, "sum")]
        if not self._folded(folds, dims, place.array.shape, [place], (), [], [], [("read", 0)]):
            raise ValueError(f"sums are over dimensions that follow each other, not {dims}")

    def can_multiply(self, dtype: Any) -> bool:
        return can_multiply(dtype)

    def multiply(self, x: Place, y: Place, out: Place) -> None:
        found = matrices_step(x, y, out)
        if found is None:
            found = matrices_step(self.ordered(x), self.ordered(y), out)
        if found is None:  # there is nothing to sum up
            self.clear(out)
            return
        facts, places = found
        self.step("product", places, **facts)

    def enter(self, entry: Entry, places: Sequence[Place | None]) -> None:
        self.step("entry", list(places), entry=entry, work=0.0)

    def check(self, place: Place) -> None:
        self.step("check", [place], work=0.0)

    # --- calls -------------------------------------------------------------------------------------

    def call(self, instruction: Instruction) -> None:
        takes_tensors = not isinstance(instruction.primitive, Primitive) or instruction.primitive.is_call
        operands = [self.layout.place(o) if isinstance(o, Name) else None for o in instruction.operands]
        results = [self.layout.new(HELD, name.shape, name.dtype.numpy) for name in instruction.results]
        self.step("call", [o for o in operands if o is not None] + results, work=0.0)
        forward = self.fused.forward_of(instruction)
        uses = None if forward is None else id(forward.instructions[0])
        if uses is not None and self.residuals.get(uses) is not None:
            uses = None  # steps have kept nothing for a call
        if uses is not None:
            self.kept.add(uses)
        self.calls.append((len(self.steps) - 1, instruction, operands, results, takes_tensors, uses))
        self.notes.append(f"call {instruction.primitive.name}")
        for name, place in zip(instruction.results, results, strict=True):
            target = self.layout.places.setdefault(name.number, place)
            if target is not place:  # it is to be somewhere else
                self.copy(place, target)

    # --- code --------------------------------------------------------------------------------------

    def function(self, kind: str, text: str, write: Any) -> str:
        """The name of a function that computes this, which stands once in the code however often it is used."""
        key = f"{kind}\n{text}"
        if key not in self.functions:
            self.functions[key] = (f"{kind.partition(' ')[0]}{len(self.functions)}", write)
        return self.functions[key][0]

    def step(self, kind: str, places: Sequence[Place | None], **facts: Any) -> None:
        for place in places:
            if place is not None:
                place.buffer.used(len(self.steps))
        self.steps.append({"kind": kind, "places": places, **facts})


def _by_labels(array: Any, own: str, order: list[str], shape: tuple[int, ...]) -> Any:
    """An array with its labelled dimensions in an order, expanded along those that it does not have."""
    seen = array.transpose([own.index(c) for c in order if c in own])
    return np.broadcast_to(seen[tuple([slice(None) if c in own else None for c in order])], shape)


def _as_number(number: Any, type: Any) -> Any:
    """A number as one of a type, for the code."""
    with np.errstate(all="ignore"):
        one = np.asarray(number).astype(type)
    if type.kind in "biu":
        return one.item()
    return complex(one) if type.kind == "c" else float(one)


def _arranged(shape: tuple[int, ...], dims: Any) -> list[list[int]] | None:
    """The dimensions that are kept and folded, and those of columns, if there are some; None if they are in another order."""
    n = len(shape)
    reduced = {d % n for d in dims}
    live = [d for d in range(n) if shape[d] != 1]
    folded = [d for d in live if d in reduced]
    if not folded:
        return [live, []]
    if folded != [d for d in live if folded[0] <= d <= folded[-1]]:
        return None
    before, after = [d for d in live if d < folded[0]], [d for d in live if d > folded[-1]]
    return [before, folded, after] if after else [before, folded]
