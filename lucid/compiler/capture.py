"""Tracing for `lucid.compile`: whatever a function reads from outside is an input, what it changes there an effect.

Tensors from outside, arguments included, are handed to the function as they are; the operations on them are written
down. What it assigns is undone after the trace, and is assigned anew after each run: gradients, attributes, entries of
containers. Values that a run needs as Python numbers (learning rates, step counts) are read by functions before it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lucid.compiler.places import Found, Walk, changed, is_own, restore, writes_arrays
from lucid.compiler.readers import Guard
from lucid.core import modes, tree
from lucid.core.arrays import ARRAY
from lucid.core.fields import users_attributes
from lucid.core.node import Freed
from lucid.core.primitive import P, edge_of
from lucid.core.source_lines import here
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.ir import placeholders
from lucid.ir.effects import TAKEN, Write, lasts
from lucid.ir.program import INPUT, Program, renumbered
from lucid.ir.trace import Capturing, Opaque, Trace, Traced
from lucid.ir.values import Instruction, Name, reachable
from lucid.kinds.kind import NeedsValueError
from lucid.tape import engine

# What has a result whose shape depends on values, and what to use instead.
_MASKED = (
    "Use lucid.where, masked_fill or a product with the mask, which keep the shape, or "
    "masked_select(x, mask, size=..., fill_value=...), whose size is given."
)
_APART = "Compute it outside of the compiled function, or in one with lucid.compiler.disable."
SIZES = {
    "nonzero": "Say how many: nonzero(x, size=..., fill_value=...).",
    "indexing with a mask": _MASKED,
    "masked_select": _MASKED,
    "unique": f"Say how many: unique(x, size=..., fill_value=...). {_APART}",
    "bincount": _APART,
    "repeat_interleave": _APART,
    "unique_consecutive": _APART,
}
NUMBERS = (np.dtype(np.float64), np.dtype(np.float32))

LEAST_COMPACT = 1024  # elements of constants that are kept as one number, if they are all the same


class Numbers(NamedTuple):
    """A function that gives numbers before each run, their type, and the tensors that stand for them in the trace."""

    read: Callable[[], Sequence[float] | None]
    kind: Any
    tensors: list[Tensor]


class Assignment(NamedTuple):
    """What is assigned after each run: to the gradient, an attribute, an entry or all entries of what is at `place`.

    `value` has numbers of outputs where tensors go; `skipped` is the number of the output that says not to do it.
    """

    place: Found
    how: str
    key: Any
    value: Any
    skipped: int | None


class OutputNumber(NamedTuple):
    """Stands for an output of the program in the value of an assignment."""

    place: int


class BeginError(BaseException):
    """Gives a trace up that takes the first step of an optimizer: with the state for it, one program serves all steps.

    It is no error of the function, and not for it to catch.
    """

    def __init__(self, make: Callable[[], None], remove: Callable[[], None]) -> None:
        super().__init__("the state of an optimizer is to be made first")
        self.make, self.remove = make, remove


class Capture(Trace):
    """One trace of a compiled function."""

    title = "lucid.compile"
    captures = True

    def __init__(self, arguments: Sequence[Tensor], name: str, can_begin: bool = False) -> None:
        super().__init__()
        self.function = name
        self._can_begin = can_begin
        self.arguments: dict[int, Name] = {}
        self.inputs: list[Name] = []
        self.tensors = list(arguments)
        self.number_readers: list[Numbers] = []
        self.inlined: dict[int, Name] = {}
        self.afterwards: list[tuple[Callable[..., Any], Sequence[Tensor]]] = []
        self.optimizers: dict[int, Any] = {}
        self.skips: list[tuple[Any, Traced]] = []  # optimizers, and what says that their step is left out
        self.options: dict[tuple[int, str], Any] = {}  # the groups of optimizers whose options the function has read
        self.schedules: list[Any] = []  # that take a step after each run
        self.eager = ""  # why the function is to run as it is
        self.read_gradients: dict[int, Tensor] = {}  # whose gradients the function has looked at
        self._gradients: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._aliases: dict[int, Any] = {}  # the nodes by which gradients leave the program, by stand-in
        self.ticks: dict[Any, Any] = {}  # steps of optimizers before, by optimizer and parameter
        for tensor in arguments:
            if id(tensor) not in self.arguments:
                made = self.name(tensor.shape, tensor.dtype)
                self.values[made.number] = tensor
                self.open.add(made.number)
                self.arguments[id(tensor)] = made
            else:
                made = self.name(tensor.shape, tensor.dtype)  # given twice: one name is enough
            self.inputs.append(made)

    # What the function sees.

    def _capture(self, tensor: Tensor) -> Name:
        known = self.arguments.get(id(tensor))
        if known is not None:
            return known
        return super()._capture(tensor)

    def _is_outside(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor) and (id(tensor) in self.arguments or super()._is_outside(tensor))

    def raise_without_value(self, wanted_by: str) -> NoReturn:
        if wanted_by in SIZES:
            raise NeedsValueError(
                f"{wanted_by}: at {here()} lucid.compile traces `{self.function}` into a program that is to serve for other "
                f"values too, and the shape of the result depends on values. {SIZES[wanted_by]}"
            )
        raise NeedsValueError(
            f"{wanted_by} needs a concrete value, but at {here()} lucid.compile traces `{self.function}` into a program "
            "that is to serve for other values too. Instead of `if`, use lucid.where or lucid.cond; instead of `while`, "
            "lucid.while_loop; instead of Python numbers, tensor operations. Or put the line into a function of its own "
            "outside of the compiled one."
        )

    def gradient(self, tensor: Tensor) -> Tensor | None:
        if not self._is_outside(tensor):
            return tensor._grad
        if id(tensor) in self._gradients:
            return self._gradients[id(tensor)][1]
        self.read_gradients[id(tensor)] = tensor
        held: Tensor | None = tensor._grad
        return held

    def set_gradient(self, tensor: Tensor, value: Tensor | None) -> None:
        if self._is_outside(tensor):
            self._gradients[id(tensor)] = tensor, value
        else:
            tensor._grad = value

    def accumulate(self, tensor: Tensor, gradient: Tensor, create_graph: bool) -> None:
        """Add to the gradient of a tensor, as a backward pass does: in place, if there is one without history."""
        held = tensor.grad
        if held is None:
            tensor.grad = gradient
        elif create_graph or held._requires_grad:
            tensor.grad = held + gradient
        else:
            held.add_(gradient)

    def numbers(self, read: Callable[[], Sequence[float] | None], kind: Any) -> list[Traced]:
        """Numbers of Python as inputs of the program: `read` gives them before each run, None if it serves no longer."""
        with self._outside():
            values = read()
        assert values is not None
        tensors = [Tensor._wrap(np.array(v, kind)) for v in values]
        for tensor in tensors:
            tensor._born = 0  # as if it had been there before
        self.number_readers.append(Numbers(read, kind, tensors))
        return [self._stand_in(t) for t in tensors]

    def after(self, call: Callable[..., Any], *tensors: Tensor) -> None:
        """Call a function with the values of tensors after each run."""
        self.afterwards.append((call, tensors))

    def step_schedule(self, schedule: Any, step: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Let a schedule take its step after each run: what it changes are numbers, which runs read."""
        leaves, structure = tree.flatten((args, kwargs))
        tensors = {i: leaf.detach() for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
        places = list(tensors)
        others = [None if i in tensors else leaf for i, leaf in enumerate(leaves)]

        def after(*values: Tensor) -> None:
            given = dict(zip(places, values, strict=True))
            own_args, own_kwargs = structure.unflatten([given.get(i, other) for i, other in enumerate(others)])
            step(schedule, *own_args, **own_kwargs)

        self.schedules.append(schedule)
        self.after(after, *tensors.values())

    def begin(self, make: Callable[[], None], remove: Callable[[], None]) -> None:
        """Let the state of an optimizer be made before the trace, which starts again, if it can be."""
        if self._can_begin:
            raise BeginError(make, remove)

    def raise_if_scheduled(self, optimizer: Any, what: str) -> None:
        """Refuse to use numbers of an optimizer that a schedule changes after the run, and should have changed by now."""
        if any(s.optimizer is optimizer for s in self.schedules):
            raise NotImplementedError(
                f"lucid.compile: at {here()} `{self.function}` {what} after the step of its schedule, which is taken at the end "
                "of each run. Call the schedule's step last, or outside of the compiled function."
            )

    def note_option(self, group: Any, name: str, reader: Any) -> None:
        """Note that code reads an option of an optimizer as a Python value; the optimizer itself knows what it does."""
        if name == "params" or is_own(reader) or isinstance(dict.get(group, name), Tensor):
            return
        for schedule in self.schedules:
            if any(g is group for g in schedule.optimizer.param_groups):
                self.raise_if_scheduled(schedule.optimizer, f"reads the option {name!r} of an optimizer")
        self.options[id(group), name] = group

    @contextmanager
    def stepping(self, optimizer: Any) -> Iterator[None]:
        """A step of an optimizer: its learning rates are inputs."""
        self.raise_if_scheduled(optimizer, "takes a step of an optimizer")
        self.optimizers[id(optimizer)] = optimizer
        if optimizer.reads_numbers or optimizer.reads_rates:
            yield
            return
        groups = [g for g in optimizer.param_groups if type(g.get("lr")) in (int, float)]
        rates = [g["lr"] for g in groups]
        for group in groups:
            (group["lr"],) = self.numbers(_Option(group, "lr"), NUMBERS[0])
        try:
            yield
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate

    @contextmanager
    def left_out_if(self, condition: Any, optimizer: Any) -> Iterator[None]:
        """What is written to tensors from outside inside of this context is not, in runs in which the condition holds."""
        before = {id(root): root.current() for roots in self._roots.values() for root in roots}
        can_begin, self._can_begin = self._can_begin, False  # a step that is left out makes no state
        yield
        self._can_begin = can_begin
        self.skips.append((optimizer, condition))
        for root in [r for roots in self._roots.values() for r in roots if id(r) in self._overwritten]:
            new, old = root.current(), before.get(id(root)) or self._capture(self._originals[id(root)])
            if new.number == old.number:
                continue
            merged = P.where(condition, self._named(root, old), self._named(root, new))
            storage = storage_of(root)
            storage.version += 1
            root._aux = root._aux._replace(name=merged.current(), version=storage.version)

    def _named(self, like: Traced, name: Name) -> Traced:
        return Traced.make(placeholders.like(like._array), self, name)

    def note_inlined(self, made: Sequence[Traced], outs: Sequence[Any]) -> None:
        self.inlined.update((m._aux.name.number, self.refer(o)) for m, o in zip(made, outs, strict=True))

    def _stand_in(self, tensor: Tensor) -> Traced:
        out = super()._stand_in(tensor)
        if out._node is not None and id(out) not in self._aliases:
            self._aliases[id(out)] = out._node
        return out

    def _tensors_read(self) -> list[Tensor]:
        return [*self.tensors, *super()._tensors_read()]

    # What is left when the function has run.

    def release(self) -> None:
        """Forget everything that served to trace."""
        for store in (
            self.instructions, self.captured, self.constants, self.values, self._stand_ins, self._originals, self._memories,
            self._roots, self._makers, self._aliases, self._gradients, self.read_gradients, self.afterwards, self.skips,
            self.ticks, self.optimizers, self.arguments, self.tensors, self.number_readers, self.inlined, self.options,
            self.schedules,
        ):  # fmt: skip
            store.clear()  # lists and dicts

    def changed_gradients(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """The tensors from outside that have another gradient now."""
        for tensor, value in self._gradients.values():
            if value is not tensor._grad:
                yield tensor, value

    def leaves_history(self) -> bool:
        """Whether a tensor from outside got the history of what was written to it."""
        roots = [r for roots in self._roots.values() for r in roots]
        return any(self._overwritten.get(id(r)) == TAKEN and r._requires_grad for r in roots)

    def differentiable(self) -> list[tuple[Tensor, Any]]:
        """The tensors from outside that require grad, each with a tensor for the engine that stands for its place."""
        found = []
        for tensor, stand_in in self._stand_ins.values():
            node = self._aliases.get(id(stand_in))
            if node is not None:
                shell = stand_in.shell()
                shell._node, shell._requires_grad = node, True
                found.append((tensor, shell))
        return found


class _Option:
    """Reads one option of a group as a number."""

    def __init__(self, group: dict[str, Any], name: str) -> None:
        self.group, self.name = group, name

    def __call__(self) -> list[float] | None:
        value = self.group[self.name]
        return [float(value)] if type(value) in (int, float) else None


class Pulled(NamedTuple):
    """The second half of a program: cotangents of outputs become those of what requires grad.

    `outputs` are places of outputs, `wanted` tensors from outside. The program's inputs are the residuals, each named
    by a list and a place in it ("inputs", "captured" or "outputs" of the first half), and the cotangents.
    """

    outputs: list[int]
    wanted: list[tuple[str, int]]
    residuals: list[tuple[str, int]]
    program: Program


class Captured(NamedTuple):
    """A traced function: the program, and all that happens around its runs."""

    program: Program  # as it is shown, and run where something else than values is asked for
    inlined: Program  # the same with users' functions as what they are made of, and residuals behind the outputs
    size: int  # the number of outputs of the function
    results: Any  # their structure
    pulled: Pulled | None
    spent: list[int]  # outputs whose history a backward pass inside has used up
    assignments: list[Assignment]
    afterwards: list[tuple[Callable[..., Any], list[int]]]
    trace: Capture
    eager: str  # why the function runs as it is, if it does


def captured(
    function: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any], structure: Any, walk: Walk, trace: Capture
) -> Captured:  # fmt: skip
    """Trace one call. `leaves` and `structure` are the arguments, tensors as they are."""
    casting = modes.autocast.get()
    with Capturing(trace), _watched(walk.groups):
        # What autocast keeps of parameters belongs to the trace.
        token = modes.autocast.set(None if casting is None else casting.anew())
        try:
            result = function(*args, **kwargs)
            changes = [*changed(walk), *_first_attributes(trace, walk)]
            if writes_arrays(walk):
                trace.eager = "it writes to an array of NumPy"
        finally:
            modes.autocast.reset(token)
            restore(walk)
            for place, *_ in _first_attributes(trace, walk):
                vars(place.value).clear()
        found = _Assembly(trace, result, changes, walk).finish(leaves, structure)
    trace.values.clear()
    return found


@contextmanager
def _watched(groups: Sequence[Any]) -> Iterator[None]:
    """A context in which groups of optimizers tell the trace which options are read."""
    classes = [type(group) for group in groups]
    for group in groups:
        group.__class__ = type(group).watched
    try:
        yield
    finally:
        for group, cls in zip(groups, classes, strict=True):
            group.__class__ = cls


class _Assembly:
    """What is made of a trace when the function has run."""

    def __init__(self, trace: Capture, result: Any, changes: list[Any], walk: Walk) -> None:
        self.trace = trace
        self.walk = walk
        self.outs, results = tree.flatten(result)
        self.results = _bare(results)
        self.count = len(self.outs)
        self.assignments = [self._assignment(*change) for change in [*changes, *self._gradients()]]
        self.afterwards = [(call, [self._add(t) for t in tensors]) for call, tensors in trace.afterwards]

    def _add(self, tensor: Tensor) -> int:
        self.outs.append(tensor)
        return len(self.outs) - 1

    def _gradients(self) -> Iterator[tuple[Found, str, Any, Any]]:
        for tensor, value in self.trace.changed_gradients():
            yield place_of(tensor, self.trace, self.walk), "grad", None, value

    def _assignment(self, place: Found, how: str, key: Any, value: Any) -> Assignment:
        leaves, structure = tree.flatten(value)
        parts = [OutputNumber(self._add(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        skips = [condition for optimizer, condition in self.trace.skips if is_below(place, optimizer)]
        if len(skips) > 1:
            raise NotImplementedError(
                "lucid.compile: a function takes two steps of one optimizer that a GradScaler may leave out; compile a function "
                "that takes one, and call it twice"
            )
        key = self.walk.tensors[id(key)][0] if isinstance(key, Tensor) and id(key) in self.walk.tensors else key
        return Assignment(place, how, key, (_bare(structure), parts), self._add(skips[0]) if skips else None)

    def finish(self, leaves: Sequence[Any], structure: Any) -> Captured:
        trace = self.trace
        for out in self.outs:  # views of what was written to are made anew now, and not in the derivative
            if isinstance(out, Traced) and out._level == trace.level:
                out.current()
        start = len(trace.instructions)
        half, spent = self._pull()
        middle = len(trace.instructions)
        eager = trace.eager
        if trace.leaves_history():
            eager = "it gives a tensor from outside the history of what is written to it"
        trace.finish_writes([])
        outputs = [trace.refer(o) if isinstance(o, (Tensor, ARRAY)) else o for o in self.outs]
        first = [*trace.instructions[:start], *trace.instructions[middle:]]
        inner = [self._inline(i) for i in first if not self._is_inlined(i)]
        inner_outputs = [self._inlined(o) for o in outputs]
        residuals: list[Name] = []
        if half is not None:
            seeds, _, gradients, places = half
            names = [self._inlined(trace.refer(g)) for g in gradients]
            back = [self._inline(i) for i in trace.instructions[start:middle] if not self._is_inlined(i)]
            back = reachable(back, names, lasts)
            made = {r.number for i in back for r in i.results} | {s._aux.name.number for s in seeds}
            used = [*[o for i in back for o in i.operands], *names]
            residuals = [*{
                n.number: n
                for n in used
                if isinstance(n, Name) and n.number not in made and n.number not in trace.constants
            }.values()]  # fmt: skip
        given = {n.number for n in (*trace.inputs, *[n for n, _ in trace.captured.values()])}
        given |= {n.number for n in inner_outputs if isinstance(n, Name)}
        kept = [r for r in residuals if r.number not in given]
        first = reachable(first, outputs, lasts)
        is_shown = not trace.inlined and not kept  # what runs is what users see
        inner = first if is_shown else reachable(inner, [*inner_outputs, *kept], lasts)
        wanted_names = [] if half is None else [trace._capture(t) for t in half[1]]
        operands = [o for i in (*first, *inner) for o in i.operands]
        used_here = [*outputs, *inner_outputs, *residuals, *wanted_names, *operands]
        numbers = {n.number for n in used_here if isinstance(n, Name)}
        held = [c for c in trace.captured.values() if c[0].number in numbers]
        own = {id(t) for n in trace.number_readers for t in n.tensors}
        held.sort(key=lambda c: id(c[1]) in own)  # numbers come last, in the order in which they are read
        static = [INPUT if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        structures = (_bare(structure), self.results, static)
        common = (trace.function, trace.inputs, held)
        shown = self._program(*common, first, outputs, structures)
        inlined = shown if is_shown else self._program(*common, inner, [*inner_outputs, *kept], structures)
        second = None
        if half is not None:
            sources: dict[int, tuple[str, int]] = {}
            sources.update((n.number, ("outputs", len(inner_outputs) + i)) for i, n in enumerate(kept))
            sources.update((n.number, ("outputs", i)) for i, n in enumerate(inner_outputs) if isinstance(n, Name))
            sources.update((n.number, ("captured", i)) for i, (n, _) in enumerate(held))
            sources.update((n.number, ("inputs", i)) for i, n in reversed(list(enumerate(trace.inputs))))
            program = self._program(
                f"{trace.function}.backward",
                [*residuals, *[s._aux.name for s in seeds]],
                [],
                back,
                names,
                (None, None, []),
            )
            second = Pulled(
                places, [sources[n.number] for n in wanted_names], [sources[r.number] for r in residuals], program
            )
            written = {i.operands[0].number for i in first if isinstance(i.primitive, Write)}
            if any(r.number in written for r in residuals):
                eager = "its derivative needs a tensor from outside as it was before it is written"
        return Captured(
            shown, inlined, self.count, self.results, second, spent, self.assignments, self.afterwards, trace, eager
        )

    def _pull(self) -> tuple[Any, list[int]]:
        """Go on with the derivative of the outputs, if it can be asked for."""
        trace, outs = self.trace, self.outs
        if not modes.recording.get():
            return None, []
        places = [
            i for i, o in enumerate(outs) if isinstance(o, Traced) and o._level == trace.level and o.requires_grad
        ]
        spent = [i for i in places if self._is_spent(outs[i])]
        places = [i for i in places if i not in spent]
        pairs = trace.differentiable()
        if not places or not pairs:
            return None, spent
        seeds = [trace.new_input(placeholders.empty(outs[i].shape, outs[i].np_dtype)) for i in places]
        shells = [shell for _, shell in pairs]
        found = engine.run(
            [outs[i] for i in places], seeds, shells, retain_graph=True, create_graph=False, accumulate=False
        )
        wanted = [tensor for (tensor, _), g in zip(pairs, found, strict=True) if g is not None]
        return (seeds, wanted, [g for g in found if g is not None], places), spent

    def _is_spent(self, out: Tensor) -> bool:
        """Whether a backward pass inside of the function has freed what the derivative of an output needs."""
        ends = {id(node) for node in self.trace._aliases.values()}
        seen: set[int] = set()
        frontier = [edge_of(out)]
        while frontier:
            node = frontier.pop()
            if not node._seq or id(node) in seen or id(node) in ends:
                continue
            seen.add(id(node))
            if type(node.saved) is Freed:
                return True
            frontier.extend(e for e in node.edges if e is not None)
        return False

    # Users' functions as what they are made of.

    def _inlined(self, item: Any) -> Any:
        while isinstance(item, Name) and item.number in self.trace.inlined:
            item = self.trace.inlined[item.number]
        return item

    def _inline(self, instruction: Instruction) -> Instruction:
        if not self.trace.inlined:
            return instruction
        return instruction._replace(operands=tuple([self._inlined(o) for o in instruction.operands]))

    def _is_inlined(self, instruction: Instruction) -> bool:
        return isinstance(instruction.primitive, Opaque) and all(
            r.number in self.trace.inlined for r in instruction.results
        )

    def _program(
        self, name: str, inputs: Sequence[Name], held: Any, instructions: Sequence[Instruction], outputs: Sequence[Any],
        structures: Any,
    ) -> Program:  # fmt: skip
        used = {n.number for n in (*outputs, *[o for i in instructions for o in i.operands]) if isinstance(n, Name)}
        constants = [(n, _compact(t)) for n, t in self.trace.constants.values() if n.number in used]
        return renumbered(Program(name, inputs, held, constants, instructions, outputs, structures))


def _compact(tensor: Tensor) -> Tensor:
    """A constant, as one number that is repeated if all of its elements are the same."""
    array = tensor._array
    if array.size < LEAST_COMPACT or not isinstance(array, np.ndarray):
        return tensor
    first = array.reshape(-1)[:1]
    if array.tobytes() != first.tobytes() * array.size:
        return tensor
    return Tensor._wrap(np.broadcast_to(first.copy().reshape(()), array.shape))


def _bare(structure: Any) -> Any:
    """A structure that does not hold on to the nest that it was read from, if one of numbers can be built."""
    try:
        return tree.flatten(structure.unflatten([0] * structure.count))[1]
    except Exception:  # a class that checks what it is made of
        return structure


def place_of(tensor: Tensor, trace: Capture, walk: Walk) -> Found:
    """How to find a tensor again before each run."""
    for i, argument in enumerate(trace.tensors):
        if argument is tensor:
            return Found(None, "argument", i, tensor)
    if id(tensor) in walk.tensors:
        return walk.tensors[id(tensor)][0]
    for i, argument in enumerate(trace.tensors):
        below = _beneath(Found(None, "argument", i, argument), tensor)
        if below is not None:
            return below
    users = [i.place for i in trace.instructions if any(_names_tensor(o, tensor, trace) for o in i.operands)]
    raise RuntimeError(
        f"lucid.compile: {f'at {users[0]} ' if users else ''}`{trace.function}` uses a tensor of shape {tensor.shape} that it "
        "cannot find again before the next call. Tensors are found in arguments, closures, globals, attributes, lists, "
        "tuples and dicts that the function names; pass it as an argument, or keep it in one of these."
    )


def _beneath(argument: Found, tensor: Tensor) -> Found | None:
    """A tensor as the gradient of an argument, or as what one is a view of."""
    given = argument.value
    if given._grad is tensor:
        return Found(argument, "grad", None, tensor)
    place, below = argument, given
    while below.is_view():
        below = below._meta.base
        place = Found(place, "base", None, below)
        if below is tensor:
            return place
    return None


def _names_tensor(operand: Any, tensor: Tensor, trace: Capture) -> bool:
    known = trace.captured.get(id(tensor))
    return known is not None and isinstance(operand, Name) and operand.number == known[0].number


def is_below(place: Found | None, owner: Any) -> bool:
    while place is not None:
        if place.value is owner:
            return True
        place = place.parent
    return False


def _first_attributes(trace: Capture, walk: Walk) -> list[tuple[Found, str, Any, Any]]:
    """What has been assigned to tensors that had no attributes."""
    known = {id(found.value) for found, _ in walk.contents}
    arguments = [Found(None, "argument", i, t) for i, t in enumerate(trace.tensors)]
    places = [
        *arguments,
        *[found[0] for key, found in walk.tensors.items() if key not in {id(t) for t in trace.tensors}],
    ]
    return [
        (place, "attribute", name, value)
        for place in places
        if id(place.value) not in known
        for name, value in (users_attributes(place.value) or {}).items()
    ]


def _check_schedules(trace: Capture, walk: Walk) -> None:
    """Refuse to look at a schedule that takes its step after the run."""
    for f in (*walk.plain, *walk.kinds):
        if f.parent is not None and any(f.parent.value is s for s in trace.schedules):
            raise NotImplementedError(
                f"lucid.compile: `{trace.function}` takes a step of a schedule, which is taken at the end of each run, and code "
                f"that it can reach reads {f}. Call the schedule's step outside of the compiled function."
            )


def guards_of(trace: Capture, walk: Walk, held: Sequence[Tensor]) -> list[Guard]:
    """What must be as it was for a program to serve again."""
    guards = [Guard("type", f, type(f.value)) for f in walk.kinds if f.parent is not None]
    guards += [
        Guard("length", f, len(f.value)) for f in walk.kinds if isinstance(f.value, (dict, list, tuple, deque, set))
    ]
    guards += [Guard("same", f, f.value) for f in walk.same if f.parent is not None]
    guards += [Guard("alias", f, None, other) for f, other in walk.twice]
    guards += [Guard("plain", f, f.value) for f in walk.plain]
    guards += [Guard("entries", f, copy(f.value)) for f in walk.compared]
    guards += [Guard("elements", f, before) for f, before in walk.arrays]
    for (key, name), group in trace.options.items():
        value = group.get(name)
        guards.append(Guard("plain", Found(walk.containers[key], "item", name, value), value))
    _check_schedules(trace, walk)
    for tensor in (*trace.tensors, *held):
        places = walk.tensors.get(id(tensor), [])
        first = place_of(tensor, trace, walk)
        guards += [Guard("alias", f, None, first) for f in places if f is not first]
    for tensor in trace.read_gradients.values():
        place = Found(place_of(tensor, trace, walk), "grad", None, tensor._grad)
        if tensor._grad is None:
            guards.append(Guard("none", place, None))
        else:
            guards.append(Guard("type", place, type(tensor._grad)))
    for optimizer in trace.optimizers.values():
        if id(optimizer) not in walk.containers:
            raise RuntimeError(
                f"lucid.compile: `{trace.function}` steps an optimizer ({type(optimizer).__name__}) that it cannot find again "
                "before the next call; refer to it by a global, a closure, an attribute or an argument"
            )
    return guards
