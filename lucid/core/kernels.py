"""What computes primitives on arrays: a table of kernels for each backend, from the names of primitives.

Backends fill their tables; above them only the names are known. A primitive has the kernel of the first backend in use
that has one. Without any, the kernel is derived from its declaration, and that is a kernel of the reference. Modules of
kernels that few programs need are loaded when one of their primitives first runs.
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
scalar: Any = None  # makes a kernel of a function of single elements (`ops.expressions.Source`)
_declared: dict[str, list[Any]] = {}


class WithBackward:
    """The kernels of a fused primitive, which gives all of its first derivatives at once.

    `forward(*arrays, **params)` gives the result (a tuple if there are several) and a tuple of residuals, among which may
    be results. `backward(cts, arrays, residuals, needs, **params)` turns cotangents of the results, None for those that
    were not used, into cotangents of the operands that need one. Without residuals, the derivative is the composite's.
    """

    def __init__(self, forward: Callable[..., tuple[Any, tuple[Any, ...]]], backward: Callable[..., Any]) -> None:
        self.forward = forward
        self.backward = backward

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
        _derive(self.primitive, derive)
        for load in on_demand:
            if name in table:
                break
            load()
        _derive(self.primitive, last_resort)
        if name not in table:
            raise NotImplementedError(f"`{name}` has no kernel: fill() the table with one in lucid.backends.numpy")
        return table[name]


def has_own(primitive: Any) -> bool:
    """Whether a primitive has a kernel that was written, and not made of its declaration."""
    return primitive.name in table and table[primitive.name] is not derived.get(primitive.name)


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
    _declared.setdefault(primitive.name, []).append(primitive)
    return table.get(primitive.name) or Waiting(primitive)


def _derive(primitive: Any, rules: list[Callable[[Any], Any]]) -> None:
    name = primitive.name
    for rule in rules:
        if name not in table and (made := rule(primitive)) is not None:
            fill({name: made})
            derived[name] = tables[REFERENCE][name]


def fill(kernels: Mapping[str, Any], backend: str = REFERENCE, has_frames: bool = False) -> None:
    """Give a backend kernels. Primitives of these names get the first that is in use, also those declared before.

    Where the backend had a kernel of the name, primitives that were declared before keep theirs.
    NumPy's functions and compiled ones have no frame, by which warnings are filtered; here they get one.
    """
    for name, kernel in kernels.items():
        if not isinstance(kernel, FunctionType | WithBackward) and not has_frames:
            kernel = framed(kernel, getattr(kernel, "nin", None))
        if name in tables[backend]:
            _declared.pop(name, None)
        tables[backend][name] = kernel
        _bind(name)


def _bind(name: str) -> None:
    """Give primitives of this name the kernel that is in use."""
    found = next((tables[backend][name] for backend in in_use if name in tables[backend]), None)
    table.pop(name, None)
    if found is not None:
        table[name] = found
    for primitive in _declared.get(name, ()):
        primitive.kernel = found or Waiting(primitive)


def use(backend: str) -> None:
    """Compute with the kernels of a backend and, where it has none, with those of the backends after it."""
    global in_use
    in_use = BACKENDS[BACKENDS.index(backend) :]
    for name in {name for kernels in tables.values() for name in kernels}:
        _bind(name)
