"""Gradient descent with momentum."""

from collections.abc import Sequence
from typing import Any, ClassVar

from lucid.optim.elementwise import Elementwise, Operand, add, multiply
from lucid.optim.optimizer import Group, Params, check_range, options


class SGD(Elementwise):
    """Gradient descent, with momentum if wanted.

    b ← momentum · b + (1 - dampening) · g, where the first b is g itself; p ← p - lr · b, or with `nesterov`
    p ← p - lr · (g + momentum · b). Weight decay adds weight_decay · p to the gradient.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x**2).sum().backward()
    ...     optimizer.step()
    >>> x
    Tensor([0.92], requires_grad=True)
    """

    _counters: ClassVar[dict[str, float]] = {}

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            check_range(self, group, name)
        if group["nesterov"] and (not group["momentum"] > 0 or group["dampening"] != 0):
            raise ValueError(
                "SGD: nesterov needs a momentum above 0 and no dampening, not "
                f"momentum={group['momentum']} and dampening={group['dampening']}"
            )

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _by_rows(self, group: Group) -> bool:
        return not group["momentum"] and not group["weight_decay"]

    def _coefficients(self, group: Group, fresh: bool, *none: Any) -> Sequence[Any]:
        return group["lr"], group["momentum"], 1 if fresh else 1 - group["dampening"]

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        lr, momentum, weight = c
        if not slots:
            multiply(g, lr, u)
            return
        (buffer,) = slots
        multiply(buffer, momentum, buffer)
        add(buffer, multiply(g, weight, u) if group["dampening"] else g, buffer)
        if group["nesterov"]:
            multiply(buffer, momentum, u)
            add(u, g, u)
            multiply(u, lr, u)
        else:
            multiply(buffer, lr, u)


__all__ = ["SGD"]
