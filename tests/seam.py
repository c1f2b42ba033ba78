"""A backend that proves the seam: its arrays refuse everything that no kernel asks for.

Kernels and the answers to the questions of `lucid.core.arrays` are wrapped: what they get is taken out of its `Opaque`,
what they give is put into one. Outside of them an array has a shape, a type and strides. NumPy, as the modules above
the seam see it, has types and rules for shapes, and refuses to compute. Public functions, and the families built on
them, may hand arrays in and out.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lucid.autograd import differentiate
from lucid.core import kernels, primitive
from lucid.core.kernels import Waiting, WithBackward
from lucid.ops import expressions
from lucid.ops.categories import Reduction

PACKAGE = Path(kernels.__file__).resolve().parent.parent
ABOVE = ("core", "kinds", "tape", "arguments", "ops", "autograd", "func", "ir")
# What does not follow the rule, and why. Entries may only be taken out.
EXCEPTIONS = {
    "autograd/checking.py": "gradcheck compares with differences, in NumPy",
    "ops/abstract.py": "shapes by NumPy's rules, on an array without memory",
    "func/sparse": "patterns and colourings are computed by SciPy",
    "ops/nn/resampling.py": "positions and weights that are parameters of primitives are computed once, on the host",
    "ops/nn/pooling.py": "the same",
    "ops/nn/padding.py": "the same",
}
METADATA = ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides")
# What NumPy has to say about types and shapes, without an array.
OF_TYPES = {
    "dtype", "generic", "ndarray", "number", "inexact", "floating", "complexfloating", "integer", "bool_", "ufunc",
    "result_type", "promote_types", "can_cast", "issubdtype", "iinfo", "finfo", "broadcast_shapes", "errstate", "inf",
    "nan", "pi", "e", "newaxis", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "intp", "random", "ndindex", "isscalar",
}  # fmt: skip


class RefusedError(AssertionError):
    """An array was used above the seam otherwise than by a kernel."""


def is_above(file: str) -> bool:
    """Whether the rule holds in this file."""
    path = Path(file).resolve()
    if not path.is_relative_to(PACKAGE):
        return False
    name = path.relative_to(PACKAGE).as_posix()
    return name.startswith(tuple(f"{a}/" for a in ABOVE)) and not name.startswith(tuple(EXCEPTIONS))


# Functions that only hand on what they are given.
HANDING_ON = {("core/arrays.py", "ask"), ("core/tensor.py", "wrapped"), ("core/tensor.py", "wrapped_as")}


def caller() -> tuple[str, int]:
    """The line that asks: the nearest one outside of this file and of NumPy."""
    frame: Any = sys._getframe(1)
    while True:
        path = Path(frame.f_code.co_filename)
        inside = path.is_relative_to(PACKAGE)
        name = path.relative_to(PACKAGE).as_posix() if inside else ""
        passed = (
            (name, frame.f_code.co_name) in HANDING_ON if inside else path.name == "seam.py" or "numpy" in path.parts
        )
        if not passed:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


class Watch:
    """Notes, or refuses, what is done with arrays above the seam."""

    def __init__(self) -> None:
        self.inside = 0  # kernels that are running
        self.refuses = True
        self.seen: dict[str, set[str]] = {}

    def check(self, what: str) -> None:
        if self.inside:
            return
        file, line = caller()
        if not is_above(file):
            return
        place = f"{Path(file).resolve().relative_to(PACKAGE)}:{line}"
        if self.refuses:
            raise RefusedError(f"{place} asks an array for {what}: that is a question to the backend, or a kernel")
        self.seen.setdefault(place, set()).add(what)


watch = Watch()


class Opaque:
    """An array that only kernels can look into."""

    __slots__ = ("__weakref__", "held")

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        if name in METADATA:
            return getattr(object.__getattribute__(self, "held"), name)
        if name in ("__array_interface__", "__array_struct__"):  # NumPy looks for them; it finds `__array__`
            raise AttributeError(name)
        held = object.__getattribute__(self, "held")
        found = getattr(held, name)
        watch.check(name)
        return found

    def __len__(self) -> int:
        return len(self.held)

    def __repr__(self) -> str:
        return f"Opaque({self.held.dtype.name}{list(self.held.shape)})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        watch.check("a NumPy array")
        return np.asarray(self.held, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        watch.check(f"np.{ufunc.__name__}")
        return getattr(ufunc, method)(*taken_out(inputs), **taken_out(options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        watch.check(f"np.{function.__name__}")
        return function(*taken_out(args), **taken_out(options))


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Any, *others: Any) -> Any:
        watch.check(name)
        found = getattr(self.held, name)(*taken_out(others))
        return self if found is self.held else found

    return operate


for _name in (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv mod pow rpow matmul neg pos abs invert "
    "and or xor iand ior ixor lt le gt ge eq ne getitem setitem iter contains bool int float complex index lshift rshift"
).split():
    setattr(Opaque, f"__{_name}__", _operator(f"__{_name}__"))
Opaque.__hash__ = object.__hash__  # type: ignore[method-assign]  # arrays that differ are different keys


def taken_out(nest: Any) -> Any:
    """Arguments with arrays in the place of opaque ones."""
    if type(nest) is Opaque:
        return nest.held
    if type(nest) in (list, tuple):
        return type(nest)([taken_out(n) for n in nest])
    return {k: taken_out(v) for k, v in nest.items()} if type(nest) is dict else nest


def put_in(nest: Any) -> Any:
    """Results with opaque arrays."""
    if isinstance(nest, np.ndarray):
        return Opaque(nest)
    return type(nest)([put_in(n) for n in nest]) if type(nest) in (list, tuple) else nest


def running(kernel: Callable[..., Any], gives: Callable[[Any], Any] = put_in) -> Callable[..., Any]:
    """A kernel between opaque arrays."""

    def run(*args: Any, **params: Any) -> Any:
        given: dict[int, Any] = {}
        _remember((args, tuple(params.values())), given)
        if any(isinstance(a, np.ndarray) for a in args):
            watch.check("room for what NumPy made")
        watch.inside += 1
        try:
            found = kernel(*taken_out(args), **taken_out(params))
        finally:
            watch.inside -= 1
        if gives is put_in and isinstance(found, np.ndarray) and id(found) in given:
            return given[id(found)]  # what is handed on is the same array
        return gives(found)

    return run


def _remember(nest: Any, given: dict[int, Any]) -> None:
    if type(nest) is Opaque:
        given[id(nest.held)] = nest
    elif type(nest) in (list, tuple):
        for n in nest:
            _remember(n, given)


def wrapped(kernel: Any) -> Any:
    if isinstance(kernel, WithBackward):
        return WithBackward(running(kernel.forward), running(kernel.backward))
    return running(kernel)


def as_array(value: Any, dtype: Any = None) -> Any:
    """Numbers become arrays; an array that NumPy made above the seam does not."""
    if type(value) is Opaque and (dtype is None or dtype == value.dtype):
        return value
    if isinstance(value, np.ndarray):
        watch.check("room for what NumPy made")
    return Opaque(np.asarray(taken_out(value), dtype))


def from_numpy(value: Any, dtype: Any = None) -> Any:
    """What users give."""
    return Opaque(np.asarray(taken_out(value), dtype))


class Limited(ModuleType):
    """NumPy as it is above the seam."""

    def __getattr__(self, name: str) -> Any:
        if name not in OF_TYPES:
            watch.check(f"np.{name}")
        return getattr(np, name)


def modules_above() -> list[ModuleType]:
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("lucid.") and file and is_above(file):
            found.append(module)
    return found


@contextmanager
def installed(refuses: bool = True) -> Iterator[Watch]:
    """The test backend in the place of the one in use."""
    kernels.load_all()
    undo: list[Callable[[], None]] = []

    def put(holder: Any, name: str, value: Any) -> None:
        before = getattr(holder, name)
        setattr(holder, name, value)
        undo.append(lambda: setattr(holder, name, before))

    before = dict(kernels.table)
    to_numpy = running(kernels.table["to_numpy"], lambda found: found)
    own = {"as_array": as_array, "from_numpy": from_numpy, "to_numpy": to_numpy}
    kernels.table.update({name: own.get(name) or wrapped(kernel) for name, kernel in before.items()})
    for prim in primitive.registry.values():
        kernel = prim.kernel
        if isinstance(kernel, Waiting):
            kernel = kernel._found()
        if kernel is not None:
            put(prim, "kernel", kernels.table.get(prim.name) if before.get(prim.name) is kernel else wrapped(kernel))
        for way in getattr(prim, "ways", ()):
            if way is not None:
                put(way, "back", None)  # a kernel made of the rule
        if isinstance(prim, Reduction):
            put(prim, "back", None)
    scalar = kernels.scalar
    put(kernels, "scalar", lambda *declared: running(scalar(*declared)))
    for module in modules_above():
        if getattr(module, "ARRAY", None) is np.ndarray:
            put(module, "ARRAY", Opaque)
        if getattr(module, "np", None) is np:
            put(module, "np", Limited("numpy"))
    put(differentiate, "_ones", {})
    put(expressions, "_types", {})
    put(primitive, "_constants", {kind: {} for kind in primitive._constants})
    watch.refuses, watch.seen = refuses, {}
    try:
        yield watch
    finally:
        for step in reversed(undo):
            step()
        kernels.table.clear()
        kernels.table.update(before)
