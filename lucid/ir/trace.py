"""Tracing: a function runs on stand-ins for its arguments, which write down what is done with them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy as shallow_copy
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lucid.core import dtypes, levels, modes, tree
from lucid.core.arrays import ARRAY, copy
from lucid.core.fields import new_tensor
from lucid.core.levels import Inside
from lucid.core.primitive import P, Primitive, lift, put_on_tape
from lucid.core.source_lines import here
from lucid.core.storage import DETACHED, Storage, View, new_storage, new_view, storage_of
from lucid.core.tensor import Tensor
from lucid.ir import placeholders, rehearsal
from lucid.ir.effects import (
    DROPPED,
    KEPT,
    TAKEN,
    Memories,
    Write,
    lasts,
    moved_streams,
    of_instruction,
    owners,
    share_memory,
)
from lucid.ir.primitives import DETACH, OTHER_VALUE, UNRECORDED_VALUE, WRITE_VIEW
from lucid.ir.printing import typed
from lucid.ir.program import INPUT, Program, renumbered
from lucid.ir.values import Instruction, Name, reachable, run
from lucid.kinds.kind import Kind, NeedsValueError
from lucid.tape.inplace import raise_if_leaf


class Trace:
    """One application of make_graph: the instructions so far, and what they use from outside."""

    title = "make_graph"  # what messages call it
    kind: Any  # the class of its tensors, `Traced`
    captures = False  # whether gradients of tensors from outside are part of the program: see `compiler.capture`

    def __init__(self) -> None:
        self.level = levels.new_level()
        self.around = levels.trace.get()  # the next trace further out
        # The one around this code for which tensors from outside stand for other values too.
        self.capture: Any = self if self.captures else None if self.around is None else self.around.capture
        self.records = modes.recording.get() is not False
        self.instructions: list[Instruction] = []
        # Tensors from outside of the function are read anew at each run; what was made inside stays as it was.
        self.captured: dict[int, tuple[Name, Tensor]] = {}
        self.constants: dict[int, tuple[Name, Any]] = {}
        # Tensors from outside, by identity, with the traced ones that stand for them; and the other way round.
        self._stand_ins: dict[int, tuple[Tensor, Traced]] = {}
        self._originals: dict[int, Tensor] = {}
        # The memory of stand-ins, by that of their originals, which may be several pieces that do not overlap.
        self._memories: dict[int, list[tuple[Tensor, Storage]]] = {}
        self._roots: dict[int, list[Traced]] = {}  # the stand-ins that are no views, by their memory
        self._overwritten: dict[int, int] = {}  # those of them that were written, and what becomes of their history
        self._user_code = 0  # how many functions of the user are running
        self._makers: dict[int, Instruction] = {}  # the instruction that gives a value, by the value's number
        self.values: dict[int, Any] = {}  # what is known of this run, by number
        self.open: set[int] = set()  # the numbers of what depends on the arguments
        self._made = 0

    def name(self, shape: tuple[int, ...], dtype: Any) -> Name:
        self._made += 1
        return Name(self._made - 1, shape, dtypes.as_dtype(dtype))

    def new_input(self, value: Tensor) -> "Traced":
        name = self.name(value.shape, value.dtype)
        self.values[name.number] = value
        self.open.add(name.number)
        return Traced.make(placeholders.like(value), self, name)

    def settled(self, gradient: Tensor) -> Tensor:
        """A gradient that does not depend on what is traced, for a leaf from outside."""
        return gradient

    def lifted(self, tensor: Tensor) -> "Traced":
        if self._is_outside(tensor) and self._is_overwritten(tensor):
            raise RuntimeError(
                f"{self.title}: a gradient needs a tensor of shape {tensor.shape} from outside as it was before it was written "
                f"in the traced function (at {here()}); clone() it before"
            )
        return Traced.make(placeholders.like(tensor), self, self.refer(tensor))

    def captured_operands(self, operands: tuple[Any, ...]) -> Any:
        """Operands of which some come from outside, those as traced tensors: what is made of them is read anew too."""
        outside = [self._is_outside(t) for t in operands]
        if not any(outside):
            return None
        return tuple([self._stand_in(t) if o else t for t, o in zip(operands, outside, strict=True)])

    def _is_outside(self, tensor: Any) -> bool:
        if not isinstance(tensor, Tensor) or getattr(tensor, "_born", 0) >= self.level:
            return False
        return getattr(tensor, "_level", 0) < self.level

    def is_symbolic(self, tensor: Tensor) -> bool:
        """Whether a plain tensor stands for other values too."""
        return self.capture is not None and self.capture._is_outside(tensor)

    def _is_overwritten(self, tensor: Tensor) -> bool:
        """Whether the program has written to the memory of a tensor from outside."""
        if not self._overwritten:
            return False
        known = self._memory_of(tensor)
        return known is not None and any(id(root) in self._overwritten for root in self._roots.get(id(known), ()))

    def _memory_of(self, tensor: Tensor) -> Storage | None:
        """The memory of the stand-ins that show what a tensor from outside shows."""
        pieces = self._memories.get(id(storage_of(tensor)), ())
        return next((inside for other, inside in pieces if other is tensor or share_memory(other, tensor)), None)

    def _stand_in(self, tensor: Tensor) -> "Traced":
        """The traced tensor for one from outside, with its place on the tape; that of a view is a view."""
        known = self._stand_ins.get(id(tensor))
        if known is None:
            out = Traced.make(placeholders.like(tensor), self, self._capture(tensor))
            out._born = getattr(tensor, "_born", 0)
            self._stand_ins[id(tensor)], self._originals[id(out)] = (tensor, out), tensor
            self._place(out, tensor)
        else:
            out = known[1]
        if self._user_code and self._is_overwritten(tensor):
            raise RuntimeError(
                f"{self.title}: at {here()} a custom Function reads a tensor of shape {tensor.shape} that was "
                "written before in the traced function; pass it as an argument"
            )
        if tensor.requires_grad and not out._requires_grad and not self._is_overwritten(tensor):
            recording = modes.recording.set(modes.recording_state(True))
            try:
                put_on_tape(P.alias, (tensor,), None, 1, out, {})
            finally:
                modes.recording.reset(recording)
        return out

    def _place(self, out: "Traced", tensor: Tensor) -> None:
        """Give a stand-in its memory: that of its base if it is a view."""
        how = tensor._meta
        if isinstance(how, View) and how.base is not None and self._is_outside(how.base) and not how.others:
            base = self._stand_in(how.base)
            out._meta = new_view(base, how.primitive, how.params, storage_of(base), how.status)
            if self._is_overwritten(tensor):
                out._meta.version = -1  # what it is now is read from its base
            out._aux = out._aux._replace(version=out._meta.version)
            return
        memory = self._memory_of(tensor)
        if memory is None:
            memory = new_storage()
            self._memories.setdefault(id(storage_of(tensor)), []).append((tensor, memory))
        out._meta = memory
        roots = self._roots.setdefault(id(out._meta), [])
        roots.append(out)
        if len(roots) > 1 and self._is_overwritten(tensor):
            self._raise_for_aliases(tensor)

    def _raise_for_aliases(self, tensor: Tensor) -> NoReturn:
        raise RuntimeError(
            f"{self.title}: a tensor of shape {tensor.shape} from outside of the function is written, and another one "
            f"that shares its memory in a way that a program cannot follow is used too (at {here()}); use one of them, "
            "and views of it, or clone() the other one"
        )

    def written(self, target: Tensor, name: str) -> Tensor:
        """What to write to for a tensor: a write to one from outside is an effect of the program."""
        inside: Any = self._stand_in(target) if self._is_outside(target) else target
        below, detached = inside, False
        while True:
            original = self._originals.get(id(below))
            if original is not None and not detached and modes.recording.get():
                raise_if_leaf(original, name, "" if below is inside else "a view of ")
            how = below._meta
            if not isinstance(how, View) or how.base is None:
                break
            detached = detached or how.status == DETACHED
            below = how.base
        if self._is_outside(below):
            self._refuse(target, name, "in memory that is not followed")
        if id(below) not in self._originals:
            return inside
        if self._user_code:
            self._refuse(target, name, "inside a custom Function")
        self._originals[id(below)]._raise_if_read_only(name)
        if len(self._roots[id(below._meta)]) > 1:
            self._raise_for_aliases(target)
        if detached and any(t.level > self.level for t in levels.active.get()):
            self._refuse(target, name, "without its history, inside a transform")
        history = DROPPED if detached else TAKEN if modes.recording.get() else KEPT
        self._overwritten[id(below)] = max(self._overwritten.get(id(below), DROPPED), history)
        return inside

    def raise_if_outside(self, tensors: Iterable[Tensor], name: str, how: str = "by an optimizer") -> None:
        """Refuse what writes to tensors by other means than operations."""
        for tensor in tensors:
            if self._is_outside(tensor):
                self._refuse(tensor, name, how)

    def raise_without_value(self, wanted_by: str) -> NoReturn:
        """Say that a value is not known while a program is traced, and what to do."""
        raise NeedsValueError(
            f"{wanted_by} needs a concrete value, but at {here()} {self.title} traces a program that is to serve for other "
            "values too. Instead of `if`, use lucid.where or lucid.cond; instead of `while`, lucid.while_loop; instead "
            "of Python numbers, tensor operations."
        )

    def gradient(self, tensor: Tensor) -> Tensor | None:
        """The gradient that a tensor has at this point of the program."""
        return tensor._grad

    def set_gradient(self, tensor: Tensor, value: Tensor | None) -> None:
        """Give a tensor another gradient, at this point of the program."""
        if value is not None and value._level:
            self.raise_if_outside((tensor,), ".grad = ", "as a gradient")
        tensor._grad = value

    def note_inlined(self, made: Sequence["Traced"], outs: Sequence[Any]) -> None:
        """What a user's function gave as one instruction, and the same as the instructions that it was made of."""

    def raise_if_overwritten(self, tensor: Tensor, wanted_by: str) -> None:
        """Refuse to read a value that is there only when the program has run."""
        if self.is_symbolic(tensor):
            self.capture.raise_without_value(wanted_by)
        if self._overwritten and self._is_outside(tensor) and self._is_overwritten(tensor):
            raise NeedsValueError(
                f"{wanted_by} needs a concrete value, but at {here()} a tensor of shape {tensor.shape} from outside of the "
                "traced function has been written, and only a run of the program gives it that value"
            )

    def _refuse(self, target: Tensor, name: str, where: str) -> NoReturn:
        raise RuntimeError(
            f"{name}: at {here()} a tensor of shape {target.shape} that was made outside of the traced function is "
            f"written {where}, which cannot be part of a program. Write into a tensor made inside the "
            "function (as from x.clone()), or return the value."
        )

    def _tensors_read(self) -> list[Tensor]:
        """Tensors from outside that the program reads."""
        return [t for _, t in self.captured.values()]

    def finish_writes(self, inputs: Sequence[Tensor]) -> None:
        """Write what has been written to tensors from outside, at the end, when nothing can fail any more."""
        written = [root for roots in self._roots.values() for root in roots if id(root) in self._overwritten]
        read = self._tensors_read()
        memories = Memories((*read, *inputs))
        for root in written:
            original = self._originals[id(root)]
            memory = storage_of(original)
            if any(k >= len(read) or storage_of(read[k]) is not memory for k in memories.beside(original)):
                self._raise_for_aliases(original)
        owned = owners([*read, *[self._originals[id(root)] for root in written]])
        for root in written:
            original = self._originals[id(root)]
            what = Write(original, self._overwritten[id(root)], owned.get(id(original)))
            (name,) = self.emit(what, [self._capture(original), root.current()], {}, [root])
            root._aux = root._aux._replace(name=name)

    def refer(self, operand: Any) -> Any:
        """How the program calls an operand: by a name, or a Python number as it is."""
        if isinstance(operand, Traced) and operand._level == self.level:
            return operand.current()
        if not isinstance(operand, Tensor):
            return self._constant(operand) if isinstance(operand, (np.ndarray, ARRAY)) else operand
        outside = getattr(operand, "_born", 0) < self.level
        if outside and self._overwritten and self._is_overwritten(operand):
            return self._stand_in(operand).current()
        how = operand._meta
        if not outside and isinstance(how, View) and how.base is not None and _born_outside(operand, self.level):
            return self.emit(how.primitive, [self.refer(how.base)], how.params, [operand])[0]
        if outside or operand.requires_grad or isinstance(operand, Kind):
            if not outside and operand._meta is not None:
                operand = operand.clone()  # made inside, and may be written to before the end
            return self._capture(operand)
        return self._constant(operand)

    def _capture(self, tensor: Tensor) -> Name:
        if id(tensor) not in self.captured:
            name = self.name(tensor.shape, tensor.dtype)
            self.captured[id(tensor)] = (name, tensor)
            self.values[name.number] = tensor
            if self.is_symbolic(tensor) or (isinstance(tensor, Traced) and not tensor.is_known):
                self.open.add(name.number)
        return self.captured[id(tensor)][0]

    def raise_if_large(self, elements: int) -> None:
        """Refuse to hold a constant of so many elements, before it is made; here any may be held."""

    def _constant(self, value: Any) -> Name:
        # Held under its own number: an array's identity may come back for another array once it is gone.
        own = Tensor._wrap(copy(value)) if isinstance(value, (np.ndarray, ARRAY)) else value.clone()
        name = self.name(own.shape, own.dtype)
        self.constants[name.number] = (name, own)
        self.values[name.number] = own
        return name

    def write(self, what: Any, operands: Sequence[Any], results: Sequence[Any]) -> list["Traced"]:
        """Write down an instruction whose results are like those given, names or tensors."""
        outs = [placeholders.empty(r.shape, dtypes.as_numpy(r.dtype)) for r in results]
        return [Traced.make(o, self, n) for o, n in zip(outs, self.emit(what, operands, {}, outs), strict=True)]

    def emit(self, prim: Any, operands: Sequence[Any], params: Any, outs: Any, place: Any = None) -> list[Name]:
        names = [self.name(o.shape, o.dtype) for o in outs]
        if any(isinstance(o, Name) and o.number in self.open for o in operands):
            self.open.update([n.number for n in names])
        instruction = Instruction(prim, tuple(operands), params, tuple(names), place or here())
        self.instructions.append(instruction)
        self._makers.update((n.number, instruction) for n in names)
        return names

    def perform(
        self, what: Any, operands: Sequence[Any], params: dict[str, Any], results: Sequence[tuple[Any, Any]]
    ) -> list["Traced"]:
        """Write down an instruction that is not the same in each run: shapes and types of its results are given."""
        outs = [placeholders.empty(shape, dtype) for shape, dtype in results]
        names = self.emit(what, [self.refer(o) for o in operands], params, outs)
        self.open.update([n.number for n in names])
        return [Traced.make(o, self, n) for o, n in zip(outs, names, strict=True)]

    def run(self, what: Any, compute: Any, operands: Sequence[Any]) -> list["Traced"]:
        """Write down an instruction of which only a run can tell what it gives; so it is run on the values of now."""
        values = [self.value(o) for o in operands]
        with self._outside() as moved:
            outs = compute(*[v.shell() if isinstance(v, Tensor) and v.requires_grad else v for v in values])
        what.streams = [generator.stream(self) for generator in moved]
        made = self.write(what, operands, outs)
        self.values.update((m._aux.name.number, o) for m, o in zip(made, outs, strict=True))
        return made

    def rewind(self, start: int) -> list[Any]:
        """Let what comes next draw again what the instructions from `start` on have drawn; gives the streams."""
        effects = [e for i in self.instructions[start:] for e in of_instruction(i)]
        streams = moved_streams(effects)
        for stream in streams:
            state = stream.generator.get_state()
            self.instructions.insert(start, self.instructions.pop())
            stream.generator.set_state(state)
        return streams

    def value(self, operand: Any) -> Any:
        """What an operand of an instruction is in the run that is traced: what it depends on is computed here."""
        if not isinstance(operand, Name):
            return operand
        waiting = [operand.number]
        while waiting:
            if waiting[-1] in self.values:
                waiting.pop()
                continue
            instruction = self._makers[waiting[-1]]
            missing = [o.number for o in instruction.operands if isinstance(o, Name) and o.number not in self.values]
            waiting += missing
            if not missing:
                with self._outside():
                    run(instruction, self.values)
        return self.values[operand.number]

    @contextmanager
    def _outside(self) -> Iterator[dict[Any, Any]]:
        """A context in which nothing is recorded or traced. Generators that move in it are known, and moved back."""
        recording = modes.recording.set(modes.SILENT)
        trace = levels.trace.set(self.around)
        active = levels.active.set(tuple(t for t in levels.active.get() if t.level < self.level))
        moved: dict[Any, Any] = {}
        token = rehearsal.moved.set(moved)
        try:
            yield moved
        finally:
            rehearsal.moved.reset(token)
            for generator, state in moved.items():
                generator.set_state(state)
            levels.active.reset(active)
            levels.trace.reset(trace)
            modes.recording.reset(recording)


def _born_outside(view: Tensor, level: int) -> bool:
    """Whether a view shows a tensor from outside."""
    base = view._base
    return base is not None and getattr(base, "_born", 0) < level and not view._meta.others


class Symbol(NamedTuple):
    """What a traced tensor is called in which trace, as of which version of its memory."""

    trace: Trace
    name: Name
    version: int


class Traced(Kind):
    """A placeholder, and its name in the program."""

    __slots__ = ()
    transform_name = "make_graph"
    writes_down = True  # what is done with it becomes instructions

    @staticmethod
    def make(value: Tensor, trace: Trace, name: Name) -> "Traced":
        out: Traced = new_tensor(trace.kind, value, Symbol(trace, name, 0), trace.level)
        return out

    def shell(self) -> "Traced":
        return Traced.make(self._array, self._aux.trace, self.current())

    def _detached_contents(self) -> "Traced":
        value = self._array.detach()
        trace = self._aux.trace
        (name,) = trace.emit(DETACH, [self.current()], {}, [value])
        out = Traced.make(value, trace, name)
        # Unlike elsewhere, it knows what it was detached from: the program says how writes to one reach the other.
        out._meta = new_view(self, DETACH, {}, storage_of(self), DETACHED)
        out._aux = out._aux._replace(version=out._meta.version)
        return out

    def seeded(self, seed: Any) -> Any:
        # The whole pass is traced: it reads tensors from outside, also where it depends on no argument.
        return seed if isinstance(seed, Kind) else self._aux.trace.lifted(lift(seed))

    def sever(self) -> None:
        trace = self._aux.trace
        self._array = self._array.detach()
        (name,) = trace.emit(DETACH, [self.current()], {}, [self])
        self._aux = self._aux._replace(name=name)

    def show_again(self, fresh: Tensor) -> None:
        """Nothing to do: `current` reads a view by positions anew."""

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._array.shape
        return shape

    def current(self) -> Name:
        """The tensor's name now: a view of memory that was written is read anew from what it shows."""
        symbol: Symbol = self._aux
        view = self._meta
        # Nothing else writes to the memory of a view whose base is no more.
        if not isinstance(view, View) or symbol.version == view.storage.version or view.base is None:
            return symbol.name
        trace = symbol.trace
        operands = [trace.refer(t) for t in (view.base, *view.others)]
        if view.status == DETACHED:  # what was written into it may have given it a history of its own
            (name,) = trace.emit(OTHER_VALUE, [symbol.name, *operands], {"pushed": False}, [self])
        else:
            (name,) = trace.emit(view.primitive, operands, view.params, [self])
        self._aux = Symbol(trace, name, view.storage.version)
        return name

    @property
    def is_known(self) -> bool:
        """Whether it depends on no argument, so that its value is known, and fixed for what asks for it."""
        return self.current().number not in self._aux.trace.open

    def _held_array(self, wanted_by: str) -> Any:
        if not self.is_known:
            self._aux.trace.raise_without_value(wanted_by)
        return self._aux.trace.value(self._aux.name)._held_array(wanted_by)

    def settled(self) -> NoReturn:
        raise RuntimeError(
            f"{self._aux.trace.title}: backward() would write into the .grad of a tensor from outside of the traced function; pass the "
            "tensor as an argument, or take its gradient with lucid.autograd.grad"
        )

    def _copy_contents(self) -> None:
        self._array = placeholders.empty(self.shape, self.np_dtype)

    def absorb(self, target: Tensor) -> None:
        trace = self._aux.trace
        inner = target.shell()
        inner._copy_contents()
        name = trace.refer(inner)
        inner = placeholders.like(inner)
        target.__class__ = trace.kind
        target._array, target._level, target._aux = inner, trace.level, Symbol(trace, name, 0)

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is."""
        return getattr(new, "_level", 0) <= self._level

    def _write(self, new: Tensor, name: str) -> None:
        """In the program nothing is overwritten: the tensor, and whatever it is a view of, get new names."""
        trace = self._aux.trace
        written = trace.refer(new)
        if trace.records and modes.recording.get() is False:
            # Under no_grad: other values, and the history stays.
            (written,) = trace.emit(OTHER_VALUE, [self.current(), written], {"pushed": True}, [self])
        target: Any = self
        version = storage_of(self).version + 1
        while True:
            view = target._meta
            base = view.base if isinstance(view, View) else None
            if base is not None:
                before = trace.refer(base)
            target._aux = Symbol(trace, written, version)
            if base is None:
                break
            if view.status == DETACHED:
                (written,) = trace.emit(OTHER_VALUE, [before, written], {"pushed": False}, [base])
            else:
                through = {"through": view.primitive, "settings": view.params}
                (written,) = trace.emit(WRITE_VIEW, [before, written], through, [base])
            target = base

    def _call(self, call: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A user's function is one instruction, so that a program has the derivative that the user gave it.

        What happens inside is traced as well, for a backward in the same program that asks for values from there;
        instructions that nobody asks for are dropped in the end.
        """
        trace = self._aux.trace
        names = [trace.refer(a) for a in args]
        start = len(trace.instructions)
        what = Opaque(call)
        inside = 0 if call.is_transparent else 1
        try:
            trace._user_code += inside
            outs = call.run(args, params)
        except NeedsValueError:
            trace.rewind(start)
            what.with_saved = True  # which depends on values too
            made = trace.run(what, lambda *values: (*call(*values), *call.saved_values()), names)
            count = len(made) - len(call.saved_values())
            call.replace_saved(made[count:])
            return tuple(made[:count])
        finally:
            trace._user_code -= inside
        if call.dirty or call.is_transparent:
            return outs
        what.streams = trace.rewind(start)
        made = trace.write(what, names, outs)
        if not what.streams:
            trace.note_inlined(made, outs)
        return tuple(made)

    def write_down(self, what: Any, operands: Sequence[Any]) -> list[Any]:
        """Make something that is no primitive an instruction: it has a name, and gives several tensors when called."""
        trace = self._aux.trace
        names = [trace.refer(t) for t in operands]
        return trace.run(what, what, names) if what.results is None else trace.write(what, names, what.results)

    def __repr__(self) -> str:
        return f"Traced({typed(self._aux.name)}{', requires_grad=True' * self.requires_grad})"

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        raise RuntimeError(".data = cannot be part of a program; use copy_")

    def interpret(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write a primitive down; its abstract rule says what it gives."""
        trace = self._aux.trace
        if prim.is_call:
            return self._call(prim, args, params)
        names = [trace.refer(a) for a in args]
        given = [_inside(a, self._level) for a in args]
        outs = placeholders.results(prim, given, params)
        folds = trace.captures and prim.fold is not None and len(given) == 1
        order = placeholders.fold_order(prim, given[0], params) if folds else None
        if order is None:
            written = trace.emit(prim, names, params, outs)
        else:
            written = _emit_in_order(trace, prim, names[0], params, outs, *order)
        made = [Traced.make(o, trace, n) for o, n in zip(outs, written, strict=True)]
        if trace.records and modes.recording.get() is False and prim.differentiable and not prim.is_view:
            # Under no_grad: that nothing is recorded here holds for the program's runs too.
            quiet = [trace.emit(UNRECORDED_VALUE, [m._aux.name], {}, [m])[0] for m in made]
            made = [Traced.make(o, trace, n) for o, n in zip(outs, quiet, strict=True)]
        if prim.is_view and isinstance(outs[0]._meta, View):
            base = args[0]
            made[0]._aux = made[0]._aux._replace(version=storage_of(base).version)
        return tuple(made) if prim.multi else made[0]


Trace.kind = Traced


def _emit_in_order(
    trace: Trace, prim: Primitive, x: Name, params: dict[str, Any], outs: Sequence[Tensor], order: list[int], apart: int
) -> list[Name]:
    """Write down a reduction of a tensor with its dimensions in another order; those that are kept stay in theirs."""
    prim = _folding_apart(prim, apart) if apart else prim
    folded = {d % len(x.shape) for d in params["dims"]}
    shape = tuple([x.shape[d] for d in order])
    (moved,) = trace.emit(P.permute, [x], {"dims": tuple(order)}, [placeholders.empty(shape, x.dtype.numpy)])
    own = {**params, "dims": tuple([k for k, d in enumerate(order) if d in folded]), "keepdim": False}
    if not params["keepdim"]:
        return trace.emit(prim, [moved], own, outs)
    kept = placeholders.empty([n for d, n in enumerate(x.shape) if d not in folded], outs[0].np_dtype)
    (out,) = trace.emit(prim, [moved], own, [kept])
    return trace.emit(P.reshape, [out], {"shape": outs[0].shape}, outs)


@cache
def _folding_apart(prim: Primitive, apart: int) -> Primitive:
    """A reduction whose first so many dimensions are apart (`placeholders.fold_order`), which changes its rounding alone."""
    found: Any = shallow_copy(prim)
    found.apart = apart
    return found


class UserCode:
    """An instruction that is not made of primitives."""

    multi = True
    name: str
    streams: Sequence[Any] = ()  # from which it drew when it was traced
    lasting = False  # whether it runs even if nobody asks for its results

    def effects(self, **params: Any) -> list[tuple[str, Any]]:
        return [("check", "whatever the function raises"), *[("draw", (stream, None)) for stream in self.streams]]


class Opaque(UserCode):
    """A user's function as one instruction."""

    def __init__(self, call: Any) -> None:
        self.name = call.name
        self.call = call
        self.with_saved = False  # whether what it saves for its derivative is among the results

    def __call__(self, *tensors: Any, **params: Any) -> Any:
        return self.call.again(tensors, self.with_saved)


class Computed(UserCode):
    """An instruction of which only a run can tell what it gives."""

    results = None

    def __init__(self, name: str, compute: Callable[..., Sequence[Any]]) -> None:
        self.name = name
        self.compute = compute

    def __call__(self, *tensors: Any, **params: Any) -> Any:
        return self.compute(*tensors)


def _inside(operand: Any, level: int) -> Any:
    """The placeholder of an operand."""
    return operand._array if isinstance(operand, Traced) and operand._level == level else operand


class Capturing(Inside):
    """A context in which what is made of tensors from outside alone is part of the program too."""

    __slots__ = ("before",)

    def __enter__(self) -> Any:
        levels.count_traces(1)
        self.before = levels.trace.set(self.transform)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        levels.trace.reset(self.before)
        levels.count_traces(-1)


def traced(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], context: type[Inside] = Capturing
) -> Program:
    """The program of one call. In the context `Inside`, what is made of tensors from outside alone is fixed."""
    trace = Trace()
    leaves, structure = tree.flatten((args, kwargs))
    static, inputs, given = [], [], []
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, np.ndarray)):
            static.append(leaf)
            given.append(leaf)
            continue
        x = lift(leaf)
        stand_in = trace.new_input(x.detach())
        stand_in._requires_grad = x.requires_grad
        static.append(INPUT)
        inputs.append(stand_in._aux.name)
        given.append(stand_in)
    new_args, new_kwargs = structure.unflatten(given)
    with context(trace):
        result = func(*new_args, **new_kwargs)
    trace.finish_writes([leaf for leaf in leaves if isinstance(leaf, Tensor)])
    outs, results = tree.flatten(result)
    outputs = [trace.refer(o) if isinstance(o, Tensor) else o for o in outs]
    instructions = reachable(trace.instructions, outputs, lasts)
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
    trace.values.clear()
    return renumbered(program)
