"""One traced program of a compiled function: reading what it needs, running it, and what follows a run."""

from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any

import numpy as np

from lucid.compiler.capture import Assignment, Captured, OutputNumber, guards_of, is_below, place_of
from lucid.compiler.executable import Executable
from lucid.compiler.places import MISSING, VARIABLES, Found, Variable, Walk, assign, fill
from lucid.compiler.readers import Guard, Reader
from lucid.core import modes
from lucid.core.node import (
    Node,
    accumulators,
    array_of,
    attach,
    output_edge,
    raise_if_freed,
    save_input,
    split_edges,
    tensor_of,
)
from lucid.core.primitive import P, edge_of, synced
from lucid.core.storage import DETACHED, View, new_view, saved_of, storage_of
from lucid.core.tensor import Tensor
from lucid.ir.effects import Memories, Write, generators_of, share_memory
from lucid.ir.program import Program
from lucid.ir.values import Name
from lucid.kinds.kind import Kind
from lucid.tape import engine


class AliasedError(Exception):
    """Arguments share memory in a way in which those of the traced call did not."""


class Specialization:
    """A program for one signature, with the guards under which it serves."""

    def __init__(self, found: Captured, walk: Walk) -> None:
        self.found = found
        trace, program = found.trace, found.inlined
        held = [t for _, t in program.captured]
        wanted = {id(t) for t in held}
        self.numbers = [
            (n.read, n.kind, [i for i, t in enumerate(n.tensors) if id(t) in wanted]) for n in trace.number_readers
        ]
        own = {id(t) for n in trace.number_readers for t in n.tensors}
        tensors = [t for t in held if id(t) not in own]
        places = [place_of(t, trace, walk) for t in tensors]
        self.targets = [a.place for a in found.assignments]
        self.targets += [a.key for a in found.assignments if isinstance(a.key, Found)]
        watched = [t for t, _ in trace.differentiable()]  # hooks on them would be part of the program
        self._watched = len(self.targets)
        self.targets += [place_of(t, trace, walk) for t in watched]
        self.reader = Reader(places, self.targets, [*guards_of(trace, walk, tensors), *_absent(found.assignments)])
        gradients = [i for i, a in enumerate(found.assignments) if a.how == "grad"]
        self._gradients = [(i, _output(found.assignments[i].value)) for i in gradients]
        self._others = [i for i, a in enumerate(found.assignments) if a.how != "grad"]
        self.pull = None if found.pulled is None else Pull(found)
        self.draws = generators_of(found.program)
        self.hooks = _hooks(watched)
        self._executable: Executable | None = None
        self._runs_once = self.reader.runs_once = runs_once(found)
        # Results are of the class of what they are made of, if that is handed on.
        self._class = next((type(t) for t in (*trace.tensors, *tensors) if type(t).passed_on), None)
        self._set_writes(program)
        self._set_passed(program)
        trace.release()
        self.reader.release()

    def with_programs(self, found: Captured) -> "Specialization":
        """The same for programs that differ in sizes alone."""
        made = copy(self)
        made.found, made._executable = found, None
        made.pull = None if found.pulled is None else Pull(found)
        return made

    @property
    def executable(self) -> Executable:
        """The program in the form that runs, made when it is first needed."""
        if self._executable is None:
            self._executable = Executable(self.found.inlined)
        return self._executable

    def calls_back(self) -> Sequence[str]:
        """The kernels and functions that the program calls."""
        code = None if self._executable is None else getattr(self._executable, "code", None)
        return () if code is None else code.calls

    def _set_passed(self, program: Program) -> None:
        """Find the outputs that are tensors from outside themselves, also after a write."""
        given = {n.number: ("captured", i) for i, (n, _) in enumerate(program.captured)}
        given.update((n.number, ("inputs", i)) for i, n in reversed(list(enumerate(program.inputs))))
        for i in program.instructions:
            if isinstance(i.primitive, Write):
                given[i.results[0].number] = given[i.operands[0].number]
        self._passed = [
            (i, *given[o.number])
            for i, o in enumerate(program.outputs[: len(self.found.program.outputs)])
            if isinstance(o, Name) and o.number in given
        ]

    def _set_writes(self, program: Program) -> None:
        inputs = {n.number: i for i, n in enumerate(program.inputs)}
        captured = {n.number: i for i, (n, _) in enumerate(program.captured)}
        numbers = [i.operands[0].number for i in program.instructions if isinstance(i.primitive, Write)]
        self._written_inputs = [inputs[n] for n in numbers if n in inputs]
        self._written = [captured[n] for n in numbers if n in captured]
        self._donated = [inputs[n.number] for n in program.donated]
        self._owners: set[int] = set()
        self._version = -1
        arrays = [t for _, t in program.captured]
        memories = Memories(arrays)
        self._shared = {(i, j) for i in self._written for j in memories.beside(arrays[i]) if i != j}

    def __call__(self, inputs: Sequence[Tensor]) -> Any:
        """The results, in a list; or what `why` explains, if the program does not serve."""
        read = self.reader(inputs)
        if type(read) is not tuple:
            return read
        captured, targets = read
        if (accumulators or self.hooks) and _hooks(targets[self._watched :]) != self.hooks:
            return None
        for numbers, kind, used in self.numbers:
            values = numbers()
            if values is None:
                return None
            captured += [Tensor._wrap(np.array(values[i], kind)) for i in used]
        if (self._written or self._written_inputs or self._donated) and self._overlap(inputs, captured):
            raise AliasedError
        return [self._run(inputs, captured, targets)]

    def why(self, failed: int | None) -> str:
        """What has changed, in words."""
        if failed is None and any(read() is None for read, _, _ in self.numbers):
            return "an option of an optimizer was switched on or off, or the step counts of its parameters differ"
        if failed is None and accumulators:
            return "hooks on tensors are others"
        return self.reader.why(failed)

    def _run(self, inputs: Sequence[Tensor], captured: list[Tensor], targets: list[Any]) -> Any:
        found = self.found
        states = [(g, g.get_state()) for g in self.draws]
        try:
            outs = (
                run_once(found.inlined, inputs, captured) if self._runs_once else self.executable.run(inputs, captured)
            )
        except BaseException:
            for generator, state in states:
                generator.set_state(state)
            raise
        if self._class is not None:
            for out in outs:
                if type(out) is Tensor:
                    out.__class__ = self._class
        for i, kind, j in self._passed:
            outs[i] = inputs[j] if kind == "inputs" else captured[j]
        if self.pull is not None:
            outs = self.pull.recorded(outs, inputs, captured, states)
        for i in found.spent:
            outs[i] = _spent(outs[i], targets[self._watched :], found)
        for place, output in self._gradients:
            targets[place]._grad = None if output is None else outs[output]
        if self._others or found.afterwards:
            self._assign(outs, targets)
        return found.results.unflatten(outs[: found.size])

    def _assign(self, outs: Sequence[Any], targets: list[Any]) -> None:
        keys = iter(targets[len(self.found.assignments) :])
        for place in self._others:
            _, how, key, value, skipped = self.found.assignments[place]
            target = targets[place]
            name = next(keys) if isinstance(key, Found) else key
            if skipped is not None and outs[skipped].item():
                continue
            structure, parts = value
            new = structure.unflatten([outs[p.place] if type(p) is OutputNumber else p for p in parts])
            if how == "item":
                target[name] = new
            elif how == "entries":
                fill(target, new)
            elif how == "removed":
                del target[name]
            elif how.startswith("removed "):
                assign(target, how.removeprefix("removed "), name, MISSING)
            else:
                assign(target, how, name, new)
        for call, places in self.found.afterwards:
            call(*[outs[i] for i in places])

    def _overlap(self, inputs: Sequence[Tensor], captured: Sequence[Tensor]) -> bool:
        """Whether a tensor that is written shares memory with another one, other than in the traced call."""
        if self.reader.version != self._version:
            owners: dict[int, list[int]] = {}
            for i, t in enumerate(captured):
                owners.setdefault(_owner(t), []).append(i)
            for i in self._written:
                for j in owners[_owner(captured[i])]:
                    if i != j and (i, j) not in self._shared and share_memory(captured[i], captured[j]):
                        return True
            self._owners = {_owner(captured[i]) for i in self._written}
            self._version = self.reader.version
        found = [_owner(t) for t in inputs]
        if any(owner in self._owners for owner in found):
            return any(share_memory(t, captured[i]) for t in inputs for i in self._written)
        for i in self._written_inputs:
            others = [t for j, t in enumerate(inputs) if j != i and t is not inputs[i] and found[j] == found[i]]
            if any(share_memory(t, inputs[i]) for t in (*others, *captured)):
                return True
        for i in self._donated:
            others = [t for j, t in enumerate(inputs) if j != i and found[j] == found[i]]
            if any(share_memory(t, inputs[i]) for t in (*others, *captured)):
                return True
        return False


def runs_once(found: Captured) -> bool:
    """Whether a program makes the state of an optimizer: with the state, another one is needed."""
    made = [a for a in found.assignments if a.how == "item" and _is_new(a)]
    return any(is_below(a.place, optimizer) for a in made for optimizer in found.trace.optimizers.values())


def _absent(assignments: Sequence[Assignment]) -> list[Guard]:
    """Guards for variables that were not there before the function assigned them: it may have looked."""
    variables = [(a, Variable(a.place, a.how, a.key, None)) for a in assignments if a.how in VARIABLES]
    return [Guard("absent", a.place, (a.how, a.key)) for a, variable in variables if variable.now() is MISSING]


def _is_new(assignment: Assignment) -> bool:
    """Whether there was no such entry before."""
    key = assignment.key.value if isinstance(assignment.key, Found) else assignment.key
    container = assignment.place.value
    return isinstance(container, dict) and key not in container


def _output(value: Any) -> int | None:
    """The output that is assigned to a gradient; None if it is removed."""
    parts = value[1]
    return parts[0].place if parts else None


def run_once(program: Program, inputs: Sequence[Tensor], captured: Sequence[Tensor]) -> list[Any]:
    """The outputs of a program, instruction by instruction, without machine code."""
    recording = modes.recording.set(modes.SILENT)
    try:
        return program.run(inputs, captured)
    finally:
        modes.recording.reset(recording)


def _hooks(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """The hooks on leaves, by the numbers of their handles: a trace runs those that are there."""
    if not accumulators:
        return ()
    found = [(i, accumulators[id(t)].hooks) for i, t in enumerate(tensors) if id(t) in accumulators]
    kinds = [
        (i, tuple(h.tensor), tuple(h.pre), tuple(h.post_accumulate), tuple(h.post)) for i, h in found if h is not None
    ]
    return tuple([k for k in kinds if any(k[1:])])


def _owner(tensor: Tensor) -> int:
    """Whose memory a tensor shows."""
    array = tensor._array
    return id(array) if array.base is None else id(array.base)


class Pull:
    """The node of a run: it pulls cotangents back by the second half of the program.

    Where the derivative is to be differentiated itself, or something else than values is pulled back, the first half
    runs again as ordinary operations.
    """

    multi = True

    def __init__(self, found: Captured) -> None:
        assert found.pulled is not None
        self.name = found.trace.function
        self.half = found.pulled
        self._executable: Executable | None = None
        program = found.program
        outputs = [program.outputs[i] for i in self.half.outputs]
        instructions = [i for i in program.instructions if not isinstance(i.primitive, Write)]
        self.program = Program(
            program.name, program.inputs, program.captured, program.constants, instructions, outputs, (None, None, [])
        )
        self.size = len(found.program.outputs)

    def recorded(self, outs: list[Any], inputs: Sequence[Tensor], captured: Sequence[Tensor], states: Any) -> list[Any]:
        """The outputs of a run with their history."""
        given = {"inputs": inputs, "captured": captured, "outputs": outs}
        wanted = [given[kind][i] for kind, i in self.half.wanted]
        edges = tuple([edge_of(synced(t)) if t.requires_grad else None for t in wanted])
        saved = tuple([
            _kept(given[kind][i]) if kind == "outputs" else save_input(given[kind][i]) for kind, i in self.half.residuals
        ])  # fmt: skip
        again = tuple([save_input(t) for t in (*inputs, *captured)])
        places = self.half.outputs
        outs = outs[: self.size]
        shapes = [(outs[i].shape, outs[i].np_dtype) for i in places]
        node = attach(
            None, self, *split_edges(edges), (*saved, *again), -1, shapes, {"states": states, "inputs": len(inputs)}, ()
        )
        for number, i in enumerate(places):
            if isinstance(outs[i]._meta, View) or any(outs[i] is t for t in (*inputs, *captured)):
                outs[i] = _result(outs[i])
            outs[i]._node = output_edge(node, number)
            outs[i]._requires_grad = True
        return outs

    def vjp(self, node: Node, cts: dict[int, Any]) -> list[Any]:
        raise_if_freed(node)
        as_arrays = not any(isinstance(ct, Tensor) for ct in cts.values())
        seeds = [_seed(cts.get(i), *shape) for i, shape in enumerate(node.shapes)]
        if modes.recording.get():
            return self._again(node, seeds)
        count = len(self.half.residuals)
        values = [_as_tensor(array_of(node, s)) for s in node.saved[:count]]
        given = [*values, *seeds]
        if any(isinstance(t, Kind) for t in given):
            return self.half.program.run(given, [])
        if self._executable is None:
            self._executable = Executable(self.half.program)
        found = self._executable.run(given, [])
        return [g._array for g in found] if as_arrays else found

    def _again(self, node: Node, seeds: Sequence[Tensor]) -> list[Any]:
        """The first half again, recorded, and its derivative as one that has derivatives."""
        count, split = len(self.half.residuals), node.params["inputs"]
        tensors = [P.alias(tensor_of(node, s)) for s in node.saved[count:]]
        given = {"inputs": tensors[:split], "captured": tensors[split:]}
        with ExitStack() as stack:
            for generator, state in node.params["states"]:
                stack.enter_context(_at(generator, state))
            outs = self.program.run(given["inputs"], given["captured"])
        wanted = [given[kind][i] for kind, i in self.half.wanted]
        asked = [t for t in wanted if t.requires_grad]
        pairs = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.requires_grad]
        found = iter(
            engine.run(
                [o for o, _ in pairs],
                [s for _, s in pairs],
                asked,
                retain_graph=True,
                create_graph=True,
                accumulate=False,
            )
        )
        return [next(found) if t.requires_grad else None for t in wanted]


@contextmanager
def _at(generator: Any, state: Any) -> Any:
    """A context in which a generator draws from a state on."""
    now = generator.get_state()
    generator.set_state(state)
    yield
    generator.set_state(now)


def _seed(ct: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    return Tensor._wrap(np.zeros(shape, dtype)) if ct is None else _as_tensor(ct)


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor._wrap(np.asarray(value))


def _kept(out: Tensor) -> Any:
    """What to keep of a residual, which may be an output that the user sees."""
    return saved_of(out._array, out, None, False)


def _result(out: Tensor) -> Tensor:
    """A result that shows the memory of another tensor, as one of its own."""
    fresh = out.shell()
    fresh._meta = new_view(None, None, {}, storage_of(out), DETACHED)
    return fresh


class _Spent:
    """The node of an output whose history was used up inside of the compiled function."""

    multi = False

    def __init__(self, name: str) -> None:
        self.name = name

    def vjp(self, node: Node, ct: Any) -> Any:
        raise RuntimeError(
            f"backward a second time through a result of `{self.name}` (called at {node.place}): what it needs was freed by "
            "the backward pass inside of the compiled function. Pass retain_graph=True to that first pass to keep it."
        )


def _spent(out: Tensor, sources: Sequence[Tensor], found: Captured) -> Tensor:
    out = _result(out) if isinstance(out._meta, View) else out
    source = next((t for t in sources if t.requires_grad), None)
    if source is not None:
        edges = (edge_of(synced(source)),)
        attach(out, _Spent(found.trace.function), *split_edges(edges), None, -1, None, {}, out.shape)
    return out
