"""Steps that take only the sign of a gradient: Rprop and Lion."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lucid.optim.elementwise import Elementwise, Operand, add, follow, multiply, subtract
from lucid.optim.optimizer import Group, Params, check_range, options


class Rprop(Elementwise):
    """A step size for each element, which grows while the gradient keeps its sign and shrinks when it changes.

    The sign of g · g_before chooses a factor from `etas` (or 1) for the step size, which stays within `step_sizes`;
    p ← p - sign(g) · step size, except that an element whose gradient has changed its sign rests once.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Rprop([x], lr=0.1)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x**2).sum().backward()
    ...     optimizer.step()
    >>> x
    Tensor([1.78], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        check_range(self, group, "lr")
        low, high = group["etas"]
        if not 0.0 < low < 1.0 < high:
            raise ValueError(f"Rprop: etas must be a factor between 0 and 1 and one above 1, not {low} and {high}")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _initial(self, group: Group, name: str) -> Any:
        return group["lr"] if name == "step_size" else 0.0

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        low, high = group["etas"]
        return low - 1, high - 1, *group["step_sizes"]

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        shrink, grow, smallest, largest = c
        before, size = slots
        multiply(g, before, u)
        np.sign(u, u)
        turned = np.less(u, 0.0)
        # The factor: 1 + grow where the sign is 1, 1 - shrink · -1 where it is -1.
        np.maximum(u, 0.0, out=w)
        np.minimum(u, 0.0, out=u)
        multiply(w, grow, w)
        multiply(u, shrink, u)
        subtract(w, u, w)
        add(w, 1.0, w)
        multiply(size, w, size)
        np.maximum(size, smallest, out=size)
        np.minimum(size, largest, out=size)
        np.positive(np.where(turned, 0.0, g), before)
        np.sign(before, u)
        multiply(u, size, u)


class Lion(Elementwise):
    """Steps of one size in the direction that momentum points to, with decoupled weight decay.

    p ← p · (1 - lr · weight_decay) - lr · sign(β₁ m + (1 - β₁) g), then m ← β₂ m + (1 - β₂) g.

    >>> import lucid
    >>> x = lucid.tensor([2.0, -2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Lion([x], lr=0.25)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([ 1.75, -1.75], requires_grad=True)
    """

    _counters: ClassVar[dict[str, float]] = {}

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(self, group, name)
        for at in (0, 1):
            check_range(self, group, "betas", high=1.0, at=at)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg",)

    def _decoupled(self, group: Group) -> bool:
        return True

    def _coefficients(self, group: Group, fresh: bool, *none: Any) -> Sequence[Any]:
        beta1, beta2 = group["betas"]
        return 1 - beta1, 1 - beta2, group["lr"]

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, weight2, lr = c
        (m,) = slots
        subtract(g, m, u)
        multiply(u, weight1, u)
        add(m, u, u)
        np.sign(u, u)
        multiply(u, lr, u)
        follow(m, g, weight2, w)


__all__ = ["Lion", "Rprop"]
