"""make_graph: a function as a program of primitives, which can be printed and run again on other values."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from lucid.core import engine, modes, tree
from lucid.core.levels import Inside
from lucid.core.node import Node, split_edges
from lucid.core.primitive import attach, edge_of, lift
from lucid.core.tensor import Tensor
from lucid.ir.traced import Instruction, Name, Trace, reachable


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
        self._last_use = self._find_last_uses()

    def __len__(self) -> int:
        return len(self.instructions)

    def __repr__(self) -> str:
        return f"<Program {self.name}: {len(self)} instructions>"

    def __str__(self) -> str:
        lines = [f"{self.name}({', '.join(_typed(n) for n in self.inputs)}):"]
        lines += [f"  {_typed(n)} = captured" for n, _ in self.captured]
        lines += [f"  {_typed(n)} = constant {_brief(t)}" for n, t in self.constants]
        lines += [f"  {_line(i)}" for i in self.instructions]
        lines.append(f"  return {', '.join(map(str, self.outputs))}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self._arguments:
            raise ValueError(f"{self.name}: traced for arguments {self._arguments}, but called with {structure}")
        values = self._checked(leaves)
        return self._results.unflatten(self.run(values))

    def run(self, inputs: Sequence[Tensor], captured: Sequence[Tensor] | None = None) -> list[Any]:
        """The results for values of `inputs`, and of what was captured if that is to be other values too."""
        values: dict[int, Any] = {n.number: x for n, x in zip(self.inputs, inputs, strict=True)}
        held = [_held(t) for _, t in self.captured] if captured is None else captured
        values.update((n.number, t) for (n, _), t in zip(self.captured, held, strict=True))
        values.update((n.number, t) for n, t in self.constants)
        kept = {n.number for n, _ in self.constants}
        for place, (primitive, operands, params, results, _) in enumerate(self.instructions):
            out = primitive(*[values[o.number] if isinstance(o, Name) else o for o in operands], **params)
            for name, value in zip(results, out if primitive.multi else (out,), strict=True):
                values[name.number] = value
            for number in self._last_use[place]:
                del values[number]
        return [
            o if not isinstance(o, Name) else values[o.number].clone() if o.number in kept else values[o.number]
            for o in self.outputs
        ]

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
                    f"{self.name}: input {name} was traced with {_type(name)}, but is now {x.dtype.name}{list(x.shape)}"
                )
            tensors.append(x)
        return tensors

    def _find_last_uses(self) -> list[list[int]]:
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


INPUT = object()  # marks the arguments that are tensors


def make_graph(func: Callable[..., Any]) -> Callable[..., Program]:
    """A function that runs `func` once on its arguments and gives the `Program` of primitives that this was.

    Everything that `func` does with tensors is in the program, also what `backward` and transforms inside it do; what
    it writes in place appears as new values, and its arguments stay as they are. Tensors that `func` finds outside are
    held and not copied: gradients reach them. Whatever does not depend on the arguments is computed once, while
    tracing; so Python numbers, shapes, random draws and what `func` makes of outside tensors alone are fixed, also where
    an operation converts one to the type of its other operands.

    >>> import lucid
    >>> def f(x):
    ...     y = x.exp()
    ...     y[0] = 0.0
    ...     return (x * y).sum()
    >>> program = lucid.func.make_graph(f)(lucid.tensor([1.0, 2.0]))
    >>> print(program)
    f(a: float32[2]):
      b: float32[] = constant 0.0
      c: float32[2] = exp a
      d: float32[] = slice c [index=(0)]
      e: float32[] = overwrite d b
      f: float32[2] = write_view c e [through=slice settings={index: (0)}]
      g: float32[2] = mul a f
      h: float32[] = sum g [dims=(0) keepdim=False]
      return h
    >>> lucid.func.grad(program)(lucid.tensor([1.0, 0.0]))
    Tensor([0., 1.])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Program:
        return traced(func, args, kwargs)

    return call


def traced(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """The program of one call."""
    trace = Trace()
    leaves, structure = tree.flatten((args, kwargs))
    static, inputs, given = [], [], []
    for leaf in leaves:
        if not isinstance(leaf, Tensor | np.ndarray):
            static.append(leaf)
            given.append(leaf)
            continue
        x = lift(leaf)
        stand_in = trace.new_input(_copied(x.detach()))
        stand_in._requires_grad = x.requires_grad
        static.append(INPUT)
        inputs.append(stand_in._aux.name)
        given.append(stand_in)
    new_args, new_kwargs = structure.unflatten(given)
    with Inside(trace):
        result = func(*new_args, **new_kwargs)
    outs, results = tree.flatten(result)
    outputs = [trace.refer(o) if isinstance(o, Tensor) else o for o in outs]
    instructions = reachable(trace.instructions, iter(outputs))
    used = {n.number for n in outputs if isinstance(n, Name)}
    used.update(o.number for i in instructions for o in i.operands if isinstance(o, Name))
    program = Program(
        getattr(func, "__name__", type(func).__name__),
        inputs,
        [c for c in trace.captured.values() if c[0].number in used],
        [c for c in trace.constants.values() if c[0].number in used],
        instructions,
        outputs,
        (structure, results, static),
    )
    return renumbered(program)


def _copied(x: Tensor) -> Tensor:
    """A copy that is laid out alike, so that `reshape` and `contiguous` are views of it where they are of `x`."""
    if type(x) is not Tensor or x.is_contiguous():
        return x.clone()
    array = x._array
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = np.empty(high - low, np.uint8)
    out: Any = np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - low, array.strides)
    out[...] = array
    return Tensor._wrap(out)


def renumbered(program: Program) -> Program:
    """The same program with its names in the order in which they are read."""
    order: dict[int, int] = {}

    def new(item: Any) -> Any:
        if not isinstance(item, Name):
            return item
        return item._replace(number=order.setdefault(item.number, len(order)))

    inputs = [new(n) for n in program.inputs]
    captured = [(new(n), t) for n, t in program.captured]
    constants = [(new(n), t) for n, t in program.constants]
    instructions = [
        i._replace(operands=tuple(map(new, i.operands)), results=tuple(map(new, i.results)))
        for i in program.instructions
    ]
    outputs = [new(o) for o in program.outputs]
    structures = (program._arguments, program._results, program._static)
    return Program(program.name, inputs, captured, constants, instructions, outputs, structures)


def _type(name: Name) -> str:
    return f"{name.dtype.name}{list(name.shape)}"


def _typed(name: Name) -> str:
    return f"{name}: {_type(name)}"


def _line(instruction: Instruction) -> str:
    operands = " ".join(str(o) if isinstance(o, Name) else repr(o) for o in instruction.operands)
    params = " ".join(f"{k}={_value(v)}" for k, v in instruction.params.items())
    results = ", ".join(_typed(n) for n in instruction.results)
    return f"{results} = {instruction.primitive.name} {operands}" + (f" [{params}]" if params else "")


def _value(value: Any) -> str:
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, slice):
        return ":".join("" if v is None else str(v) for v in (value.start, value.stop))
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_value(v) for v in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_value(v)}" for k, v in value.items()) + "}"
    return str(getattr(value, "name", value))


def _brief(tensor: Tensor) -> str:
    return str(tensor.tolist()) if type(tensor) is Tensor and tensor.numel() <= 4 else "..."
