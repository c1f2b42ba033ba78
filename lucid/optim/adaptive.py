"""Steps scaled by the size of past gradients: Adagrad, Adadelta, RMSprop."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.optim.elementwise import (
    Elementwise,
    Operand,
    accumulate_square,
    add,
    divide,
    follow,
    multiply,
    scale_by_root,
    subtract,
)
from lucid.optim.optimizer import Group, Params, check_range, options


class Adagrad(Elementwise):
    """Steps divided by the root of the sum of all squared gradients.

    s ← s + g², p ← p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps).

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Adagrad([x], lr=0.5)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.5], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            check_range(self, group, name)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own; their state is there from the start."""
        super().add_param_group(param_group)
        self._settle_now(self.param_groups[-1])

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _by_rows(self, group: Group) -> bool:
        return not group["weight_decay"]

    def _initial(self, group: Group, name: str) -> Any:
        return group["initial_accumulator_value"]

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        (step,) = counts
        return group["eps"], group["lr"] / (1 + (step - 1) * group["lr_decay"])

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        eps, rate = c
        (total,) = slots
        multiply(g, g, u)
        add(total, u, total)
        scale_by_root(g, total, eps, rate, u)


class Adadelta(Elementwise):
    """Steps in the proportion of past steps to past gradients, which needs no learning rate of its own.

    v ← ρ v + (1 - ρ) g², d = g · √(a + eps) / √(v + eps), a ← ρ a + (1 - ρ) d², p ← p - lr · d.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Adadelta([x])
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.9968], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(self, group, name)
        check_range(self, group, "rho", high=1.0)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        return group["rho"], 1 - group["rho"], group["eps"], group["lr"]

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        keep, weight, eps, lr = c
        squares, steps = slots
        accumulate_square(squares, g, keep, weight, u)
        add(squares, eps, w)
        np.sqrt(w, w)
        add(steps, eps, u)
        np.sqrt(u, u)
        divide(u, w, u)
        multiply(u, g, u)
        accumulate_square(steps, u, keep, weight, w)
        multiply(u, lr, u)


_PLAIN = ("square_avg",)
_WITH_AVERAGE = (*_PLAIN, "grad_avg")
_WITH_MOMENTUM = (*_PLAIN, "momentum_buffer")
_WITH_BOTH = (*_WITH_MOMENTUM, "grad_avg")


class RMSprop(Elementwise):
    """Steps divided by the root of a running average of squared gradients.

    v ← α v + (1 - α) g², p ← p - lr · g / (√v + eps). With `centered`, the square of the average gradient is taken off
    v; with `momentum`, b ← momentum · b + g / (√v + eps) and p ← p - lr · b.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.RMSprop([x], lr=0.1)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "alpha", "eps", "weight_decay", "momentum"):
            check_range(self, group, name)

    def _slots(self, group: Group) -> tuple[str, ...]:
        if group["momentum"] > 0:
            return _WITH_BOTH if group["centered"] else _WITH_MOMENTUM
        return _WITH_AVERAGE if group["centered"] else _PLAIN

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        return group["alpha"], 1 - group["alpha"], group["eps"], group["lr"], group["momentum"]

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        keep, weight, eps, lr, momentum = c
        squares = slots[0]
        accumulate_square(squares, g, keep, weight, u)
        if group["centered"]:
            average = slots[-1]
            follow(average, g, weight, u)
            multiply(average, average, u)
            # Where the gradient hardly changes, the difference is rounded to below 0.
            squares = np.maximum(subtract(squares, u, u), 0.0, out=u)
        np.sqrt(squares, u)
        add(u, eps, u)
        divide(g, u, u)
        if group["momentum"] > 0:
            buffer = slots[1]
            multiply(buffer, momentum, buffer)
            add(buffer, u, buffer)
            multiply(buffer, lr, u)
        else:
            multiply(u, lr, u)


__all__ = ["Adadelta", "Adagrad", "RMSprop"]
