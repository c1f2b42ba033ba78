"""How special functions are declared: of real numbers, with derivatives of every order by every operand."""

from collections.abc import Callable
from typing import Any

from lucid.ops.categories import Elementwise, Partial


def declare(
    name: str,
    partials: tuple[Partial, ...],
    operands: str = "x",
    *,
    body: Callable[..., Any] | None = None,
    **facts: Any,
) -> Elementwise:
    """An elementwise primitive of real numbers by its partial derivatives, and its body or what computes it."""
    return Elementwise(name, partials, operands.split(), body=body, real=True, **facts)
