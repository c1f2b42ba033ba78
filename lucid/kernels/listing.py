"""Which generated kernels a function runs, and what is in them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lucid
from lucid.core import kernels
from lucid.core.kernels import WithBackward
from lucid.core.primitive import registry
from lucid.core.tensor import Tensor
from lucid.kernels.outline import outline

PARTS = ("expression", "loops", "ir", "assembly")


class Kernel:
    """A generated kernel that is in memory."""

    def __init__(self, code: Any) -> None:
        self._code = code
        self.kind: str = code.recipe.kind
        self.name: str = code.recipe.name
        self.origin: str = code.origin  # the pack, the cache or LLVM

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @property
    def title(self) -> str:
        return f"{self.name}: {self.kind}, from {self.origin}"

    @property
    def expression(self) -> str:
        """What it computes, step by step."""
        return "" if self._code.recipe.text == self.ir else self._code.recipe.text

    @property
    def loops(self) -> str:
        """Its loops, with what is done in each."""
        return outline(self.ir)

    @property
    def ir(self) -> str:
        """What LLVM is given."""
        text: str = self._code.text()
        return text

    @property
    def assembly(self) -> str:
        """The machine code that LLVM makes of it for this processor."""
        from lucid.codegen import compiled

        text: str = compiled.compiler().assembly(self.ir)
        return text

    def show(self, *parts: str) -> str:
        """The parts that are named, each under its heading; all without names."""
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise ValueError(f"a kernel has the parts {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
        shown = [(part, getattr(self, part).strip()) for part in PARTS if part in (parts or PARTS)]
        return "\n\n".join([f"=== {self.title}", *[f"--- {part}\n{text}" for part, text in shown if text]])


def made() -> list[Kernel]:
    """The generated kernels of this process, in the order in which they were made or loaded."""
    from lucid.codegen import compiled

    return [Kernel(code) for code in compiled.made.values()]


def source(function: Callable[..., Any], *operands: Any, gradient: bool = False, parts: Any = (), **params: Any) -> str:
    """Run a function and give the generated kernels that ran: expression, loops, what LLVM is given, and assembly.

    With `gradient`, those of the backward pass. `parts` chooses some of them by name. What computes the operations that
    have no generated kernel is named at the end.

    >>> x = lucid.linspace(0, 1, 5)
    >>> print(lucid.kernels.source(lucid.linalg.det, lucid.eye(2)))  # doctest: +ELLIPSIS
    no generated kernel ran
    ...
    """
    with _listening() as (addresses, callers, others):
        result = function(*_tracked(operands, gradient), **params)
        if gradient:
            for noted in (addresses, callers, others):
                noted.clear()
            _pull(result)
    ran = dict.fromkeys(_codes(addresses, callers))
    chosen = (parts,) if isinstance(parts, str) else tuple(parts)
    shown = [Kernel(code).show(*chosen) for code in ran] or ["no generated kernel ran"]
    if others:
        shown.append("\n".join(["computed by other code:", *[f"  {n}: {what}" for n, what in others.items()]]))
    return "\n\n".join(shown)


def _codes(addresses: list[int], callers: dict[int, str]) -> Iterator[Any]:
    """The code at each address. Recipes of one text share it: whoever called is meant, and outside of kernels a pull."""
    from lucid.codegen import compiled

    sharing: dict[int, dict[str, Any]] = {}
    for code in compiled.made.values():
        for address in code.addresses:
            sharing.setdefault(address, {})[code.recipe.name] = code
    for number, address in enumerate(addresses):
        codes = sharing.get(address, {})
        pulls = [name for name in codes if name not in registry]
        for name in (callers.get(number), *pulls, *codes):
            if name in codes:
                yield codes[name]
                break


def _tracked(operands: Any, gradient: bool) -> list[Any]:
    if not gradient:
        return list(operands)
    is_float = [isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()) for x in operands]
    return [x.detach().clone().requires_grad_() if it else x for x, it in zip(operands, is_float)]


def _pull(result: Any) -> None:
    """The backward pass of all results that have one."""
    outs = [r for r in (result if isinstance(result, (list, tuple)) else (result,)) if isinstance(r, Tensor)]
    outs = [r for r in outs if r.requires_grad]
    if not outs:
        raise ValueError("the result has no gradient: no operand is a tensor of floating-point numbers")
    lucid.autograd.backward(outs, [lucid.ones_like(r) for r in outs])


@contextmanager
def _listening() -> Iterator[tuple[list[int], dict[int, str], dict[str, str]]]:
    """Note the addresses of generated functions as they run, by their number the operations whose kernels call them,
    and the operations that run without one.
    """
    from lucid.backends.cpu.launch import elementwise as launch

    addresses: list[int] = []
    callers: dict[int, str] = {}
    others: dict[str, str] = {}

    def heard(primitive: Any, kernel: Any) -> Any:
        def call(*arrays: Any, **params: Any) -> Any:
            before = len(addresses)
            out = kernel(*arrays, **params)
            for number in range(before, len(addresses)):
                callers.setdefault(number, primitive.name)
            if len(addresses) == before:
                others.setdefault(primitive.name, _described(primitive, kernel))
            return out

        if isinstance(kernel, WithBackward):
            return WithBackward(heard(primitive, kernel.forward), heard(primitive, kernel.backward))
        return call

    changed = [(p, p.kernel, heard(p, p.kernel)) for p in registry.values() if p.kernel is not None]
    for primitive, _, spy in changed:
        primitive.kernel = spy
    launch.listen(addresses)
    try:
        yield addresses, callers, others
    finally:
        launch.listen(None)
        for primitive, kernel, spy in changed:
            if primitive.kernel is spy:  # otherwise the kernel was found meanwhile
                primitive.kernel = kernel


def _described(primitive: Any, kernel: Any) -> str:
    """Which function of which backend a kernel is."""
    if isinstance(kernel, kernels.Waiting):
        kernel = kernels.resolved(primitive)
    kernel = getattr(kernel, "forward", kernel)
    home = next((b for b in kernels.in_use if kernels.tables[b].get(primitive.name) is not None), kernels.REFERENCE)
    within = {c.cell_contents for c in getattr(kernel, "__closure__", None) or () if callable(c.cell_contents)}
    inner = within.pop() if len(within) == 1 else kernel
    name = getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', None) or type(inner).__module__}.{name}, of the backend {home!r}"
