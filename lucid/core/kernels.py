"""The table from primitives to what computes them on arrays.

Backends fill it; above them only the names are known. A module of kernels that few programs need is loaded when one of
its primitives first runs.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

from lucid.native import framed

table: dict[str, Any] = {}
on_demand: list[str] = []  # modules that fill in more, in the order in which they are looked through
derive: list[Callable[[Any], Any]] = []  # functions that make the kernel of a primitive from its declaration, or None
derived: set[str] = set()  # the names of those that were made so
scalar: Any = None  # makes a kernel of a function of single elements (`ops.expressions.Source`)
_waiting: dict[str, list[Any]] = {}  # primitives that were declared before there was a kernel for them


class WithBackward:
    """The kernels of a fused primitive, which gives all of its first derivatives at once.

    `forward(*arrays, **params)` gives the result (a tuple if there are several) and a tuple of residuals, never empty,
    among which may be results. `backward(cts, arrays, residuals, needs, **params)` turns cotangents of the results, None
    for those that were not used, into cotangents of the operands that need one.
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
        _waiting.setdefault(primitive.name, []).append(primitive)

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return self._found()(*arrays, **params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def _found(self) -> Any:
        name = self.primitive.name
        for make in derive:
            if name not in table and (made := make(self.primitive)) is not None:
                fill({name: made})
                derived.add(name)
        for module in on_demand:
            if name in table:
                break
            import_module(module)
        if name not in table:
            raise NotImplementedError(f"`{name}` has no kernel: fill() the table with one in lucid.backends.numpy")
        return table[name]


def has_own(primitive: Any) -> bool:
    """Whether a primitive has a kernel that was written, and not made of its body."""
    return primitive.name in table and primitive.name not in derived


def resolved(primitive: Any) -> Any:
    """The kernel of a primitive, found now if it was not yet."""
    kernel = primitive.kernel
    return kernel._found() if isinstance(kernel, Waiting) else kernel


def load_all() -> None:
    """Load the modules that would be loaded on demand."""
    for module in on_demand:
        import_module(module)


def kernel_of(primitive: Any) -> Any:
    """The kernel of a primitive that is being declared."""
    found = table.get(primitive.name)
    return Waiting(primitive) if found is None else found


def fill(kernels: Mapping[str, Any], has_frames: bool = False) -> None:
    """Give primitives their kernels; for those that were declared before, what comes later takes the place of it.

    NumPy's functions and compiled ones have no frame, by which warnings are filtered; here they get one.
    """
    for name, kernel in kernels.items():
        if not isinstance(kernel, FunctionType | WithBackward) and not has_frames:
            kernel = framed(kernel, getattr(kernel, "nin", None))
        table[name] = kernel
        derived.discard(name)
        for primitive in _waiting.get(name, ()):
            primitive.kernel = kernel
