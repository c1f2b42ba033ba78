"""What computes primitives on arrays: a table of kernels for each backend, from the names of primitives.

Above backends only names are known. A primitive has the kernel of the first backend in use that has one, or else one that
is derived from its declaration for the reference. Modules that few programs need are loaded when a primitive first runs.
"""

import os
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from lucid.native import framed

REFERENCE = "numpy"
BACKENDS = ("cpu", REFERENCE)  # each has the kernels that those before it lack
_chosen = os.environ.get("LUCID_BACKEND") or BACKENDS[0]
if _chosen not in BACKENDS:
    raise ValueError(f"LUCID_BACKEND must be one of {', '.join(BACKENDS)}, not {_chosen!r}")
in_use = BACKENDS[BACKENDS.index(_chosen) :]
tables: dict[str, dict[str, Any]] = {name: {} for name in BACKENDS}
table: dict[str, Any] = {}  # the kernels in use
on_demand: list[Callable[[], object]] = []  # what fills in more, in the order in which it is called
derive: list[Callable[[Any], Any]] = []  # functions that make the kernel of a primitive from its declaration, or None
last_resort: list[Callable[[Any], Any]] = []  # the same, for what no module that is loaded on demand has either
derived: dict[str, Any] = {}  # those that were made so
generators: dict[str, Callable[[Any], Any]] = {}  # for a backend, what makes the kernel of a primitive, or None
_tried: set[tuple[str, str]] = set()  # backends and primitives of which they have a kernel, or cannot make one
switched: list[Callable[[], object]] = []  # what is called when another backend is used
scalar: Any = None  # makes a kernel of a function of single elements (`ops.expressions.Source`)
declared: dict[str, list[Any]] = {}


class WithBackward:
    """The kernels of a fused primitive, which gives all of its first derivatives at once.

    `forward(*arrays, **params)` gives the result (a tuple if there are several) and a tuple of residuals, among which may
    be results. `backward(cts, arrays, residuals, needs, **params)` turns cotangents of the results, None for those that
    were not used, into cotangents of the operands that need one. Without residuals, the derivative is the composite's.
    """

    def __init__(self, forward: Callable[..., tuple[Any, tuple[Any, ...]]], backward: Callable[..., Any]) -> None:
        self.forward, self.backward = [f if isinstance(f, FunctionType) else framed(f) for f in (forward, backward)]

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return self.forward(*arrays, **params)[0]


class Waiting:
    """Stands for a kernel that is not there yet, and finds it when it is called."""

    def __init__(self, primitive: Any) -> None:
        self.primitive = primitive

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return self._found()(*arrays, **params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def _found(self) -> Any:
        name = self.primitive.name
        _generate(self.primitive)
        if name not in table:
            _derive(self.primitive, derive, table)
            _load_until(table, name)
        return table[name] if name in table else reference(self.primitive)


def has_own(primitive: Any, among: tuple[str, ...] = BACKENDS) -> bool:
    """Whether a backend has a kernel of a primitive that was written, and not made of its declaration."""
    name = primitive.name
    known = [tables[b][name] for b in among if name in tables[b] and (b, name) not in _tried]
    return any(kernel is not derived.get(name) for kernel in known)


def resolved(primitive: Any) -> Any:
    """The kernel of a primitive, found now if it was not yet."""
    kernel = primitive.kernel
    return kernel._found() if isinstance(kernel, Waiting) else kernel


def load_all() -> None:
    """Load the modules that would be loaded on demand."""
    for load in on_demand:
        load()


def kernel_of(primitive: Any) -> Any:
    """The kernel of a primitive that is being declared."""
    declared.setdefault(primitive.name, []).append(primitive)
    return _in_use(primitive.name) or Waiting(primitive)


def generate(backend: str, rule: Callable[[Any], Any]) -> None:
    """Let a backend make kernels of declarations, each when it is first needed, where it has none of its own."""
    generators[backend] = rule
    for name in list(declared):
        _bind(name)


def _generate(primitive: Any) -> None:
    """Let backends make a kernel of the declaration, where they have none of their own."""
    name = primitive.name
    for backend in in_use:
        if name in tables[backend]:
            break
        if backend in generators and (backend, name) not in _tried:
            _tried.add((backend, name))
            made = generators[backend](primitive)
            if made is not None:
                tables[backend][name] = made
                break
    _bind(name)


def reference(primitive: Any) -> Any:
    """The kernel of a primitive that obviously computes what is declared."""
    name = primitive.name
    known = tables[REFERENCE]
    _derive(primitive, derive, known)
    _load_until(known, name)
    _derive(primitive, last_resort, known)
    if name not in known:
        raise NotImplementedError(f"`{name}` has no kernel: fill() the table with one in lucid.backends.numpy")
    return known[name]


def _load_until(known: dict[str, Any], name: str) -> None:
    for load in on_demand:
        if name in known:
            break
        load()


def _derive(primitive: Any, rules: list[Callable[[Any], Any]], known: dict[str, Any]) -> None:
    name = primitive.name
    if primitive.checks is not None:  # a declaration does not say how: where there is a kernel that checks, it is taken
        _load_until(known, name)
    for rule in rules:
        if name not in tables[REFERENCE] and (made := rule(primitive)) is not None:
            fill({name: made})
            derived[name] = tables[REFERENCE][name]


def fill(kernels: Mapping[str, Any], backend: str = REFERENCE, has_frames: bool = False) -> None:
    """Give a backend kernels. Primitives of these names get the first that is in use, also those declared before.

    Where the backend had a kernel of the name, primitives that were declared before keep theirs.
    NumPy's functions and compiled ones have no frame, by which warnings are filtered; here they get one.
    """
    for name, kernel in kernels.items():
        if not isinstance(kernel, (FunctionType, WithBackward)) and not has_frames:
            kernel = framed(kernel, getattr(kernel, "nin", None))
        if name in tables[backend]:
            for primitive in declared.pop(name, ()):
                primitive.kernel = resolved(primitive)
        _tried.discard((backend, name))
        tables[backend][name] = kernel
        _bind(name)


def _in_use(name: str) -> Any:
    """The kernel of the first backend in use that has one; None if a backend before it may still make one."""
    for backend in in_use:
        if name in tables[backend]:
            return tables[backend][name]
        if backend in generators and name in declared and (backend, name) not in _tried:
            return None
    return None


def _bind(name: str) -> None:
    """Give primitives of this name the kernel that is in use."""
    found = _in_use(name)
    table.pop(name, None)
    if found is not None:
        table[name] = found
    for primitive in declared.get(name, ()):
        primitive.kernel = found or Waiting(primitive)


def use(backend: str) -> None:
    """Compute with the kernels of a backend and, where it has none, with those of the backends after it."""
    global in_use
    in_use = BACKENDS[BACKENDS.index(backend) :]
    for name in {name for kernels in tables.values() for name in kernels}:
        _bind(name)
    for call in switched:
        call()
