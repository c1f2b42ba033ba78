"""The program: instructions over abstract values, which can be printed, and run on any values of their types."""

import functools
from collections.abc import Sequence
from typing import Any

from lucid.core import modes, tree
from lucid.core.node import Node, attach, split_edges
from lucid.core.primitive import edge_of, lift
from lucid.core.tensor import Tensor
from lucid.ir import placeholders
from lucid.ir.effects import Effect, Memories, Write, gradient_of, is_part, of_program, owners, share_memory
from lucid.ir.printing import text_of, type_of
from lucid.ir.values import Instruction, Name, run
from lucid.tape import engine

INPUT = object()  # marks the arguments that are tensors


class Program:
    """A straight line of instructions, each a primitive applied to values made before it.

    Calling it with arguments of the same structure, shapes and types runs it on their values. That is an ordinary
    computation with tensors: it can be recorded on the tape and transformed like any other.

    >>> import lucid
    >>> program = lucid.func.make_graph(lambda x: (x * 2).sum())(lucid.tensor([1.0, 2.0]))
    >>> len(program), program(lucid.tensor([3.0, 4.0]))
    (2, Tensor(14.))
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Name],
        captured: Sequence[tuple[Name, Tensor]],
        constants: Sequence[tuple[Name, Tensor]],
        instructions: Sequence[Instruction],
        outputs: Sequence[Any],
        structures: tuple[Any, Any, list[Any]],
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.captured = tuple(captured)
        self.constants = tuple(constants)
        self.instructions = tuple(instructions)
        self.outputs = tuple(outputs)
        self._arguments, self._results, self._static = structures
        self.fast = False  # whether a compiler may change rounding
        self.donated: tuple[Name, ...] = ()  # inputs whose memory a compiler may use for results
        # Gradients are read from their tensors: each backward pass may put another one there.
        self._owners = owners([t for _, t in self.captured])
        self._writes = [i for i in self.instructions if isinstance(i.primitive, Write)]
        targets = Memories(write.primitive.found for write in self._writes)
        self._written = {n.number for n, t in self.captured if any(True for _ in targets.beside(t))}

    def __len__(self) -> int:
        return len(self.instructions)

    def __repr__(self) -> str:
        return f"<Program {self.name}: {len(self)} instructions>"

    def __str__(self) -> str:
        return text_of(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self._arguments:
            raise ValueError(f"{self.name}: traced for arguments {self._arguments}, but called with {structure}")
        values = self._checked(leaves)
        return self._results.unflatten(self.run(values))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What a run does beside giving results, in order."""
        return tuple(of_program(self))

    def release_captured(self) -> list[Tensor]:
        """The captured tensors, which the program holds no longer: from now on each run gets them."""
        held = [t for _, t in self.captured]
        self.captured = tuple([(n, placeholders.empty(n.shape, n.dtype.numpy)) for n, _ in self.captured])
        return held

    def run(self, inputs: Sequence[Tensor], captured: Sequence[Tensor] | None = None) -> list[Any]:
        """The results for values of `inputs`, and of what was captured if that is to be other values too."""
        values: dict[int, Any] = {n.number: x for n, x in zip(self.inputs, inputs, strict=True)}
        held = [self._read(n, t) for n, t in self.captured] if captured is None else captured
        values.update((n.number, t) for (n, _), t in zip(self.captured, held, strict=True))
        values.update((n.number, t) for n, t in self.constants)
        kept = {n.number for n, _ in self.constants}
        if self._writes and captured is None:
            self._raise_if_written(inputs)
        targets = self._targets(inputs, captured) if self._writes else {}
        for place, instruction in enumerate(self.instructions):
            if self._writes and instruction is self._writes[0]:
                self._set_apart(values, targets)
            run(instruction, values)
            for number in self._last_use[place]:
                del values[number]
        return [
            o if not isinstance(o, Name) else values[o.number].clone() if o.number in kept else values[o.number]
            for o in self.outputs
        ]

    def _read(self, name: Name, tensor: Tensor) -> Tensor:
        """A captured tensor; one that is written in the end has to be a copy for what is recorded before."""
        if id(tensor) in self._owners:
            tensor = gradient_of(self._owners[id(tensor)])
            if tensor.shape != name.shape or tensor.dtype != name.dtype:
                raise ValueError(
                    f"{self.name}: {name} was traced with a gradient of {type_of(name)}, not of {tensor.shape}"
                )
        held = _held(tensor)
        return held.clone() if name.number in self._written and modes.recording.get() else held

    def _raise_if_written(self, inputs: Sequence[Tensor]) -> None:
        """Arguments must not lie in memory that the program writes: it would not see them change."""
        for name, x in zip(self.inputs, inputs, strict=True):
            if any(share_memory(x, write.primitive.target) for write in self._writes):
                raise ValueError(f"{self.name}: input {name} lies in the memory of a tensor that the program writes")

    def _targets(self, inputs: Sequence[Tensor], captured: Sequence[Tensor] | None) -> dict[int, Tensor]:
        """The tensors to write to, by the numbers of their names: those that a run is given, or else those found."""
        if captured is None:
            return {write.operands[0].number: write.primitive.target for write in self._writes}
        given = dict(zip([n.number for n in self.inputs], inputs, strict=True))
        given.update(zip([n.number for n, _ in self.captured], captured, strict=True))
        return {write.operands[0].number: given[write.operands[0].number] for write in self._writes}

    def _set_apart(self, values: dict[int, Any], targets: dict[int, Tensor]) -> None:
        """What is written must not lie in memory that another write changes before."""
        for write in self._writes:
            number = write.operands[1].number
            value = values[number]
            others = [t for n, t in targets.items() if n != write.operands[0].number or t is not value]
            if (is_part(value) or any(value is t for t in others)) and any(share_memory(value, t) for t in others):
                values[number] = value.clone()
        values.update(targets)

    def _checked(self, leaves: list[Any]) -> list[Tensor]:
        """The tensors among the arguments, which must be like those the program was traced for."""
        tensors = []
        names = iter(self.inputs)
        for static, leaf in zip(self._static, leaves, strict=True):
            if static is not INPUT:
                if static != leaf:
                    raise ValueError(f"{self.name}: traced for the argument {static!r}, but called with {leaf!r}")
                continue
            x, name = lift(leaf), next(names)
            if x.shape != name.shape or x.dtype != name.dtype:
                raise ValueError(
                    f"{self.name}: input {name} was traced with {type_of(name)}, but is now {x.dtype.name}{list(x.shape)}"
                )
            tensors.append(x)
        return tensors

    @functools.cached_property
    def _last_use(self) -> list[list[int]]:
        """For each instruction the values that nothing reads after it."""
        last: dict[int, int] = {}
        for place, instruction in enumerate(self.instructions):
            for name in (*instruction.operands, *instruction.results):
                if isinstance(name, Name):
                    last[name.number] = place
        for name in self.outputs:
            if isinstance(name, Name):
                last.pop(name.number, None)
        out: list[list[int]] = [[] for _ in self.instructions]
        for number, place in last.items():
            out[place].append(number)
        return out


class _Held:
    """The node of a tensor computed from outside tensors while tracing: its history serves every run of the program."""

    name = "held"
    multi = False

    def __init__(self, tensor: Tensor, leaves: list[Tensor]) -> None:
        self.tensor = tensor
        self.leaves = leaves

    def vjp(self, node: Node, ct: Any) -> list[Any]:
        create = bool(modes.recording.get())
        found = engine.run([self.tensor], [ct], self.leaves, retain_graph=True, create_graph=create, accumulate=False)
        return [g if g is None or isinstance(ct, Tensor) else g._array for g in found]


def _held(tensor: Tensor) -> Tensor:
    """The same tensor, with a history that no backward pass uses up."""
    if not tensor.requires_grad or tensor.is_leaf or not modes.recording.get():
        return tensor
    leaves: dict[int, Tensor] = {}
    seen: set[int] = set()
    frontier = [edge_of(tensor)]
    while frontier:
        edge = frontier.pop()
        if not edge._seq:
            leaves[id(edge)] = edge
        elif id(edge) not in seen:
            seen.add(id(edge))
            frontier.extend(e for e in edge.edges if e is not None)
    out = tensor.shell()
    edges = split_edges(tuple(leaves.values()))
    attach(out, _Held(tensor, list(leaves.values())), *edges, None, -1, None, {}, out.shape)
    return out


def renumbered(program: Program) -> Program:
    """The same program with its names in the order in which they are read."""
    names: dict[int, Name] = {}

    def new(item: Any) -> Any:
        if type(item) is not Name:
            return item
        found = names.get(item.number)
        if found is None:
            found = names[item.number] = Name(len(names), item.shape, item.dtype)
        return found

    inputs = [new(n) for n in program.inputs]
    captured = [(new(n), t) for n, t in program.captured]
    constants = [(new(n), t) for n, t in program.constants]
    instructions = [
        Instruction(primitive, tuple([new(o) for o in operands]), params, tuple([new(r) for r in results]), place)
        for primitive, operands, params, results, place in program.instructions
    ]
    outputs = [new(o) for o in program.outputs]
    structures = (program._arguments, program._results, program._static)
    return Program(program.name, inputs, captured, constants, instructions, outputs, structures)
