"""Kernels made of bodies: an expression as a Python function that calls NumPy's, step by step.

Large arrays are computed block by block, so that what lies between two steps stays in the cache, and steps write into
memory that nobody reads any more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.backends.numpy.scalars import NARROW, UFUNCS
from lucid.core import kernels
from lucid.ops.expressions import Body, Constant, Operand, Parameter, Result, Source, Step, types_of

_SMALL = 1 << 12  # elements, below which blocks and memory for steps cost more than they save
_BLOCK = 1 << 15
_MOST = 256  # functions of one kernel
_F32 = np.dtype(np.float32)
# Steps that round nothing.
_EXACT = frozenset("where eq ne lt le gt ge maximum minimum neg abs logical_not bitwise_or bitwise_and".split())


def kernel_of(source: Source) -> Callable[..., Any]:
    """A kernel of any operands and parameters."""
    known: dict[Any, Any] = {}

    def kernel(*arrays: Any, **params: Any) -> Any:
        types = [getattr(a, "dtype", type(a)) for a in arrays]
        found = known.get(source.key(types, params))
        if found is None:
            found = _made(source, arrays, params)
            if len(known) > _MOST:
                known.clear()
            known[source.key(types, params)] = found
        return found(*arrays, **params)

    return kernel


def of_two(source: Source) -> Callable[..., Any]:
    """The same for two operands and no parameters."""
    known: dict[Any, Any] = {}

    def kernel(x: Any, y: Any) -> Any:
        key = (getattr(x, "dtype", type), getattr(y, "dtype", type))
        found = known.get(key)
        if found is None:
            found = known[key] = _made(source, (x, y), {})
        return found(x, y)

    return kernel


def of_one(source: Source) -> Callable[..., Any]:
    """The same for one operand and no parameters."""
    known: dict[Any, Any] = {}

    def kernel(x: Any) -> Any:
        found = known.get(x.dtype)
        if found is None:
            found = known[x.dtype] = _made(source, (x,), {})
        return found(x)

    return kernel


def derived(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of an elementwise primitive that has a body."""
    body = getattr(primitive, "body", None)
    if body is None:
        return None
    count = len(primitive.operands)
    has_params = body.__code__.co_argcount > count
    return scalar_kernel(primitive.source, count, has_params)


def scalar_kernel(source: Source, count: int, has_params: bool) -> Callable[..., Any]:
    """The kernel of a function of so many operands."""
    if has_params or count > 2:
        return kernel_of(source)
    return of_one(source) if count == 1 else of_two(source)


def _made(source: Source, arrays: Sequence[Any], params: dict[str, Any]) -> Callable[..., Any]:
    """The function for operands like these. Half precision is computed in single, and rounded once."""
    types = types_of(arrays)
    first = next(k for k, a in enumerate(arrays) if hasattr(a, "dtype"))
    body = source.read(types, params, _is_base)
    narrow = next((t for t in types if t in NARROW), None)
    if narrow is None or len(body.steps) < 2 or all(step.primitive.name in _EXACT for step in body.steps):
        return _compiled(body, params, first)
    wide = _compiled(source.read([_F32 if t in NARROW else t for t in types], params, _is_base), params, first)
    result = body.dtype

    def rounded(*arrays: Any, **params: Any) -> Any:
        given = [a.astype(_F32) if getattr(a, "dtype", None) in NARROW else a for a in arrays]
        return wide(*given, **params).astype(result, copy=False)

    return rounded


def _is_base(primitive: Any) -> bool:
    """Whether a step is left as it is: a base function, or one that has a kernel which is better than its body."""
    return primitive.body is None or kernels.has_own(primitive, (kernels.REFERENCE,))


def _compiled(body: Body, params: dict[str, Any], first: int) -> Callable[..., Any]:
    """Print the function and let Python compile it; operand `first` is an array."""
    printer = _Printer(body, params, first)
    source = printer.source()
    names: dict[str, Any] = {"__name__": __name__, "_in_blocks": _in_blocks, "_filled": _filled, **printer.names}
    names["_memory"] = _memory
    exec(compile(source, f"<body of {len(body.steps)} steps>", "exec"), names)
    made: Callable[..., Any] = names["kernel"]
    return made


class _Printer:
    """Prints three functions: all steps into new memory, with memory used again, and with the result put in its place."""

    def __init__(self, body: Body, params: dict[str, Any], first: int) -> None:
        self.body = body
        self.first = f"a{first}"
        self.operands = [f"a{k}" for k in range(len(body.types))]
        self.params = list(params)
        self.names: dict[str, Any] = {}
        self.reads = [_places(step.operands) for step in body.steps]  # of which operands each step depends
        for k, step in enumerate(body.steps):
            for o in step.operands:
                if isinstance(o, Result):
                    self.reads[k] |= self.reads[o.place]
        self.last = {o.place: k for k, step in enumerate(body.steps) for o in step.operands if isinstance(o, Result)}

    def source(self) -> str:
        open_params = sorted({o.name for step in self.body.steps for o in step.operands if isinstance(o, Parameter)})
        typed = []
        working = next((t for t in self.body.types if t.kind in "fcV"), self.body.types[0])
        for name in open_params:
            self.names["_type"] = working.type
            typed.append(f"    {name} = _type({name})")
        head = ", ".join([*self.operands, *self.params])
        whole = self._is_whole()
        lines = [
            f"def kernel({', '.join(self.operands)}{', ' if self.params else ''}{', '.join(self.params)}):",
            *typed,
        ]
        if whole and len(self.body.steps) > 1:
            lines += [
                f"    if {self.first}.size >= {_SMALL}:",
                f"        return _in_blocks(again, into, ({''.join(o + ', ' for o in self.operands)}), "
                f"({''.join(p + ', ' for p in self.params)}), result)",
            ]
            self.names["result"] = self.body.dtype
        lines += self._steps(reuse=False)
        if whole:
            lines.append(f"    return {self._ref(self.body.result, self.body.dtype)}")
        else:
            lines.append(
                f"    return _filled({self._ref(self.body.result, self.body.dtype)}, result, {', '.join(self.operands)})"
            )
            self.names["result"] = self.body.dtype
        if whole and len(self.body.steps) > 1:
            lines += [
                f"def again({head}):",
                *self._steps(reuse=True),
                f"    return {self._ref(self.body.result, self.body.dtype)}",
            ]
            lines += [f"def into({head}, out):", *self._steps(reuse=True, into=True)]
        return "\n".join(lines)

    def _is_whole(self) -> bool:
        """Whether the result is computed, and has the shape of all operands broadcast together."""
        result = self.body.result
        return (
            isinstance(result, Result)
            and len(self.reads[result.place]) == len(self.operands)
            and not self.body.steps[result.place].primitive.is_view
        )

    def _steps(self, reuse: bool, into: bool = False) -> list[str]:
        lines = []
        free: list[tuple[frozenset[int], Any, str]] = []  # memory that nobody reads any more
        count = len(self.body.steps)
        for k, step in enumerate(self.body.steps):
            operands = ", ".join([self._ref(o, _type_beside(step, self.body)) for o in step.operands])
            own = self.names[f"p{k}"] = step.params
            arguments = operands + (f", **p{k}" if own else "")
            ufunc = UFUNCS.get(step.primitive.name) if reuse and not own else None
            name = f"r{k}"
            dying = [o.place for o in dict.fromkeys(step.operands) if isinstance(o, Result) and self.last[o.place] == k]
            room = free + [
                (frozenset(self.reads[p]), self.body.steps[p].dtype, f"r{p}") for p in dying if self._is_new(p)
            ]
            if ufunc is None:
                self.names[f"f{k}"] = _kernel_of(step.primitive)
                call = f"f{k}({arguments})"
                lines.append(f"    out[...] = {call}" if into and k == count - 1 else f"    {name} = {call}")
                free = room
                continue
            self.names[f"u{k}"] = ufunc
            if into and k == count - 1:
                lines.append(f"    u{k}({arguments}, out=out)")
                continue
            place = next((m for m in room if m[0] == frozenset(self.reads[k]) and m[1] == step.dtype), None)
            if place is None:
                lines.append(f"    {name} = u{k}({arguments})")
                free = room
            else:
                lines.append(f"    {name} = u{k}({arguments}, out=_memory({place[2]}))")
                free = [m for m in room if m is not place]
        return lines

    def _is_new(self, place: int) -> bool:
        """Whether a step surely has memory of its own."""
        step = self.body.steps[place]
        return step.primitive.name in UFUNCS and not step.params and len(self.reads[place]) > 0

    def _ref(self, what: Any, dtype: Any) -> str:
        """How an operand of a step is called."""
        if isinstance(what, Result):
            return f"r{what.place}"
        if isinstance(what, Operand):
            return self.operands[what.place]
        if isinstance(what, Parameter):
            return what.name
        value, kind = (what.value, what.dtype) if isinstance(what, Constant) else (what, dtype)
        is_float = kind is not None and kind.kind in "fcV" and not (isinstance(value, complex) and kind.kind == "f")
        name = f"c{len(self.names)}"
        self.names[name] = np.asarray(value, kind) if is_float else value
        return name


def _kernel_of(primitive: Any) -> Callable[..., Any]:
    """The reference; for what calls a library, the kernel of the backend in use where that has one of its own."""
    if getattr(primitive, "calls", "") and kernels.has_own(
        primitive, tuple(b for b in kernels.BACKENDS if b != kernels.REFERENCE)
    ):
        return lambda *arrays, **params: kernels.resolved(primitive)(*arrays, **params)
    return kernels.reference(primitive)


def _places(operands: Sequence[Any]) -> set[int]:
    return {o.place for o in operands if isinstance(o, Operand)}


def _type_beside(step: Step, body: Body) -> Any:
    """The type that Python numbers take among the operands of a step."""
    if step.primitive.name == "where":
        return step.dtype
    types = [
        body.types[o.place]
        if isinstance(o, Operand)
        else body.steps[o.place].dtype
        if isinstance(o, Result)
        else o.dtype
        if isinstance(o, Constant)
        else None
        for o in step.operands
    ]
    known = [t for t in types if t is not None]
    return known[0] if known else None


def _filled(value: Any, dtype: Any, *operands: Any) -> Any:
    """A result that does not depend on all of the operands, in memory of its own and in their common shape."""
    shape = np.broadcast_shapes(*[getattr(a, "shape", ()) for a in operands])
    out = np.empty(shape, dtype)
    np.copyto(out, value, casting="unsafe")
    return out


def _memory(x: Any) -> Any:
    """What a step gave as memory for another, if it is an array: NumPy makes single numbers of those without dimensions."""
    return x if isinstance(x, np.ndarray) else None


def _in_blocks(whole: Any, into: Any, arrays: tuple[Any, ...], params: tuple[Any, ...], dtype: Any) -> Any:
    """A function of large arrays, run on some of their elements at a time where they lie side by side."""
    x = next(a for a in arrays if hasattr(a, "dtype"))
    for a in arrays:
        if getattr(a, "ndim", 0) and (a.shape != x.shape or not a.flags.c_contiguous):
            return whole(*arrays, *params)
    if not x.ndim or x.size <= _BLOCK:
        return whole(*arrays, *params)
    out = np.empty(x.shape, dtype)
    flat = [a.reshape(-1) if getattr(a, "ndim", 0) else a for a in arrays]
    result = out.reshape(-1)
    for start in range(0, result.size, _BLOCK):
        stop = start + _BLOCK
        into(*[a[start:stop] if getattr(a, "ndim", 0) else a for a in flat], *params, result[start:stop])
    return out


kernels.derive.append(derived)
kernels.scalar = scalar_kernel
