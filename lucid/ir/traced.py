"""The kind of tensor inside `make_graph`: a value together with the name that it has in a program of primitives."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lucid.core import levels, modes
from lucid.core.fields import TensorFields
from lucid.core.kind import Kind, NeedsValueError
from lucid.core.levels import newest
from lucid.core.place import Place, here
from lucid.core.primitive import P, Primitive, apply, lift, registry
from lucid.core.storage import DETACHED, View, new_view, storage_of
from lucid.core.tensor import Tensor
from lucid.ops.abstract import same

_new = TensorFields.__new__


class Name(NamedTuple):
    """A value of a program: its number, shape and type."""

    number: int
    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        letters, n = "", self.number
        while True:
            letters = chr(ord("a") + n % 26) + letters
            n = n // 26 - 1
            if n < 0:
                return letters


class Instruction(NamedTuple):
    """One application of a primitive: to names and numbers, with parameters, giving one or more names."""

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[Name, ...]
    place: Place


class Trace:
    """One application of make_graph: the instructions so far, and what they use from outside."""

    def __init__(self) -> None:
        self.level = levels.new_level()
        self.records = modes.recording.get() is not False
        self.instructions: list[Instruction] = []
        # Tensors from outside of the function are read anew at each run; what was made inside stays as it was.
        self.captured: dict[int, tuple[Name, Tensor]] = {}
        self.constants: dict[int, tuple[Name, Any]] = {}
        self._made = 0

    def name(self, shape: tuple[int, ...], dtype: Any) -> Name:
        self._made += 1
        return Name(self._made - 1, shape, dtype)

    def new_input(self, value: Tensor) -> "Traced":
        return Traced.make(value, self, self.name(value.shape, value.dtype))

    def settled(self, gradient: Tensor) -> Tensor:
        """A gradient that does not depend on what is traced, for a leaf from outside."""
        return gradient

    def lifted(self, tensor: Tensor) -> "Traced":
        return Traced.make(tensor, self, self.refer(tensor))

    def refer(self, operand: Any) -> Any:
        """How the program calls an operand: by a name, or a Python number as it is."""
        if isinstance(operand, Traced) and operand._level == self.level:
            return operand.current()
        if not isinstance(operand, Tensor):
            return self._constant(operand) if isinstance(operand, np.ndarray) else operand
        outside = getattr(operand, "_born", 0) < self.level
        how = operand._meta
        if not outside and isinstance(how, View) and how.base is not None and _born_outside(operand, self.level):
            return self.emit(how.primitive, [self.refer(how.base)], how.params, [operand])[0]
        if outside or operand.requires_grad or isinstance(operand, Kind):
            if not outside and operand._meta is not None:
                operand = operand.clone()  # made inside, and may be written to before the end
            if id(operand) not in self.captured:
                self.captured[id(operand)] = (self.name(operand.shape, operand.dtype), operand)
            return self.captured[id(operand)][0]
        return self._constant(operand)

    def _constant(self, value: Any) -> Name:
        # Held under its own number: an array's identity may come back for another array once it is gone.
        copy = Tensor._wrap(np.array(value)) if isinstance(value, np.ndarray) else value.clone()
        name = self.name(copy.shape, copy.dtype)
        self.constants[name.number] = (name, copy)
        return name

    def emit(self, prim: Any, operands: Sequence[Any], params: dict[str, Any], outs: Sequence[Tensor]) -> list[Name]:
        names = [self.name(o.shape, o.dtype) for o in outs]
        self.instructions.append(Instruction(prim, tuple(operands), params, tuple(names), here()))
        return names


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
    """Holds the value that it has in the run that is traced, and its name in the program."""

    __slots__ = ()
    transform_name = "make_graph"

    @staticmethod
    def make(value: Tensor, trace: Trace, name: Name) -> "Traced":
        out = _new(Traced)
        out._array = value
        out._aux = Symbol(trace, name, 0)
        out._level = trace.level
        out._born = newest()
        out._requires_grad = False
        out._grad = out._node = out._meta = None
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
        self._array.copy_(_value_at(fresh, self._level))

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._array.shape
        return shape

    def current(self) -> Name:
        """The tensor's name now: a view of memory that was written is read anew from what it shows."""
        symbol: Symbol = self._aux
        view = self._meta
        if not isinstance(view, View) or symbol.version == view.storage.version:
            return symbol.name
        if view.base is None:  # what it was detached from is no more, and nothing else writes to this memory
            return symbol.name
        trace = symbol.trace
        operands = [trace.refer(t) for t in (view.base, *view.others)]
        if view.status == DETACHED:  # what was written into it may have given it a history of its own
            (name,) = trace.emit(OTHER_VALUE, [symbol.name, *operands], {"pushed": False}, [self])
        else:
            (name,) = trace.emit(view.primitive, operands, view.params, [self])
        self._aux = Symbol(trace, name, view.storage.version)
        return name

    def _concrete(self, wanted_by: str) -> NoReturn:
        raise NeedsValueError(
            f"{wanted_by} needs a concrete value, but at {here()} make_graph traces a program that is to serve for other "
            "values too. Instead of `if`, use lucid.where or lucid.cond; instead of `while`, lucid.while_loop; instead "
            "of Python numbers, tensor operations."
        )

    def settled(self) -> NoReturn:
        raise RuntimeError(
            "make_graph: backward() would write into the .grad of a tensor from outside of the traced function; pass the "
            "tensor as an argument, or take its gradient with lucid.autograd.grad"
        )

    def _copy_contents(self) -> None:
        self._array = self._array.clone()

    def absorb(self, target: Tensor) -> None:
        trace = self._aux.trace
        inner = target.shell()
        inner._copy_contents()
        name = trace.refer(inner)
        target.__class__ = Traced
        target._array, target._level, target._aux = inner, trace.level, Symbol(trace, name, 0)

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is."""
        return getattr(new, "_level", 0) <= self._level

    def _write(self, new: Tensor, name: str) -> None:
        """In the program nothing is overwritten: the tensor, and whatever it is a view of, get new names."""
        trace = self._aux.trace
        written = trace.refer(new)
        own = isinstance(new, Traced) and new._level == self._level
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
        self._array.copy_(new._array if own else new)

    def _call(self, call: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A user's function is one instruction, so that a program has the derivative that the user gave it.

        What happens inside is traced as well, for a backward in the same program that asks for values from there;
        instructions that nobody asks for are dropped in the end.
        """
        trace = self._aux.trace
        names = [trace.refer(a) for a in args]
        try:
            inside = call.run(args, params)
            if call.dirty or call.is_transparent:
                return inside
            outs = [_value_at(o, self._level) for o in inside]
        except NeedsValueError:
            token = modes.recording.set(modes.SILENT)
            try:
                outs = apply(call, [_value_at(a, self._level) for a in args], params)
            finally:
                modes.recording.reset(token)
        made = trace.emit(Opaque(call), names, {}, outs)
        return tuple([Traced.make(o, trace, n) for o, n in zip(outs, made, strict=True)])

    def write_down(self, what: Any, operands: Sequence[Any]) -> list[Any]:
        """Make something that is no primitive an instruction: it has a name, and gives several tensors when called."""
        trace = self._aux.trace
        names = [trace.refer(t) for t in operands]
        outs = what(*[_value_at(t, self._level) for t in operands])
        return [Traced.make(o, trace, n) for o, n in zip(outs, trace.emit(what, names, {}, outs), strict=True)]

    def describe_contents(self, prefix: str) -> str:
        return f"{self._aux.name}, now {self._array!r}"

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        raise RuntimeError(".data = cannot be part of a program; use copy_")

    def interpret(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on the values, and write it down."""
        level, trace = self._level, self._aux.trace
        if prim.is_call:
            return self._call(prim, args, params)
        names = [trace.refer(a) for a in args]
        out = prim(*[_value_at(a, level) for a in args], **params)
        outs = out if prim.multi else (out,)
        made = [Traced.make(o, trace, n) for o, n in zip(outs, trace.emit(prim, names, params, outs), strict=True)]
        if trace.records and modes.recording.get() is False and prim.differentiable and not prim.is_view:
            # Under no_grad: that nothing is recorded here holds for the program's runs too.
            quiet = [trace.emit(UNRECORDED_VALUE, [m._aux.name], {}, [m])[0] for m in made]
            made = [Traced.make(o, trace, n) for o, n in zip(outs, quiet, strict=True)]
        if prim.is_view and isinstance(outs[0]._meta, View):
            base = args[0]
            made[0]._aux = made[0]._aux._replace(version=storage_of(base).version)
        return tuple(made) if prim.multi else made[0]


class Opaque:
    """A user's function as one instruction."""

    multi = True

    def __init__(self, call: Any) -> None:
        self.name = call.name
        self.call = call

    def __call__(self, *tensors: Any, **params: Any) -> Any:
        return self.call.again(tensors)


class Computed:
    """An instruction that is not made of primitives."""

    multi = True

    def __init__(self, name: str, compute: Callable[..., Sequence[Any]]) -> None:
        self.name = name
        self.compute = compute

    def __call__(self, *tensors: Any, **params: Any) -> Any:
        return self.compute(*tensors)


def _value_at(operand: Any, level: int) -> Any:
    """What an operand is in the run that is traced, without history: the program's runs have their own."""
    if isinstance(operand, Traced) and operand._level == level:
        operand = operand._array
    return operand.shell() if isinstance(operand, Tensor) and operand.requires_grad else operand


def _write_view_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: dict[str, Any]) -> Any:
    parts = [_zeros(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    return prim(*parts, **params)


def _zeros(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor._wrap(np.zeros(value.shape, value.np_dtype))
    return np.zeros(value.shape, value.dtype)


# What a write through a view is in a program: the base, with other elements where the view shows it.
WRITE_VIEW: Primitive = Primitive(
    "write_view",
    operands=("base", "new"),
    rules=(
        lambda ct, new_shape, through, settings: WRITE_VIEW(
            ct, _zeros(through(ct, **settings)), through=through, settings=settings
        ),
        lambda ct, through, settings: through(ct, **settings),
    ),
    jvp=_write_view_jvp,
    abstract=same,
)


# The same values; derivatives do not pass, or only forward ones.
DETACH = Primitive("detach", abstract=same)
UNRECORDED_VALUE = Primitive(
    "no_grad",
    rules=(lambda ct: None,),
    jvp=lambda prim, primals, tangents, out, params: tangents[0],
    batch=lambda prim, values, batched, size, params: prim(values[0]),
    abstract=same,
)


# Other values with the history of the first operand: in forward mode too, unless the change was `pushed` along.
OTHER_VALUE = Primitive(
    "other_value",
    operands=("old", "new"),
    rules=(lambda ct: ct, None),
    jvp=lambda prim, primals, tangents, out, params: tangents[1] if params["pushed"] else tangents[0],
    batch=lambda prim, values, batched, size, params: prim(
        *[v if b else P.broadcast_to(v, shape=(size, *v.shape)) for v, b in zip(values, batched, strict=True)], **params
    ),
    abstract=lambda old, new, pushed: same(new),
)


for _name in ("detach", "no_grad", "other_value"):
    registry.pop(_name)  # they belong to programs, and are not operations that anybody calls by name


def reachable(instructions: Sequence[Instruction], wanted: Iterator[Any]) -> list[Instruction]:
    """The instructions on which the wanted names depend, in order."""
    needed = {n.number for n in wanted if isinstance(n, Name)}
    kept = []
    for instruction in reversed(instructions):
        if any(r.number in needed for r in instruction.results):
            kept.append(instruction)
            needed.update(o.number for o in instruction.operands if isinstance(o, Name))
    return kept[::-1]
