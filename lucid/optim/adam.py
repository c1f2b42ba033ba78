"""Adam and its relatives: steps scaled by running averages of the gradient and of its size."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lucid.ops.sparse.tensor import Sparse
from lucid.optim.elementwise import (
    Elementwise,
    Operand,
    accumulate_square,
    add,
    divide,
    follow,
    multiply,
    scale_by_root,
)
from lucid.optim.optimizer import Group, Params, check_range, options


class _Averaging(Elementwise):
    """What the family shares: m, an average of the gradient, and v, one of its square."""

    def _check(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(self, group, name)
        for at in (0, 1):
            check_range(self, group, "betas", high=1.0, at=at)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")


class Adam(_Averaging):
    """Adam, "adaptive moment estimation".

    m ← β₁ m + (1 - β₁) g and v ← β₂ v + (1 - β₂) g², both corrected for their start at 0:
    p ← p - lr · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps). With `amsgrad`, v is the largest one so far. Weight decay
    adds weight_decay · p to the gradient, or with `decoupled_weight_decay` shrinks p by 1 - lr · weight_decay.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Adam([x], lr=0.5)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.5], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        (step,) = counts
        beta1, beta2 = group["betas"]
        # Numerator and denominator are both multiplied by √(1 - β₂ᵗ), which saves a pass over v.
        unbias = (1 - beta2**step) ** 0.5
        return 1 - beta1, beta2, 1 - beta2, group["eps"] * unbias, group["lr"] * unbias / (1 - beta1**step)

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, keep2, weight2, eps, rate = c
        m, v = slots[:2]
        follow(m, g, weight1, u)
        accumulate_square(v, g, keep2, weight2, u)
        if group["amsgrad"]:
            v = np.maximum(slots[2], v, out=slots[2])
        scale_by_root(m, v, eps, rate, u)


class AdamW(Adam):
    """Adam with decoupled weight decay: p ← p · (1 - lr · weight_decay) before each step.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.AdamW([x], lr=0.5, weight_decay=0.1)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.4], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)


class SparseAdam(_Averaging):
    """Adam for sparse gradients: averages and parameters change only in rows that have a gradient.

    m ← β₁ m + (1 - β₁) g and v ← β₂ v + (1 - β₂) g² there, p ← p - lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + eps).

    >>> import lucid
    >>> table = lucid.nn.Embedding(3, 2, sparse=True)
    >>> optimizer = lucid.optim.SparseAdam(table.parameters(), lr=0.5)
    >>> before = table.weight.detach().clone()
    >>> table(lucid.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> before - table.weight.detach()
    Tensor([[0. , 0. ],
            [0.5, 0.5],
            [0. , 0. ]])
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        super()._check({**group, "weight_decay": 0})

    def _by_rows(self, group: Group) -> bool:
        return True

    def _make_plan(self) -> None:
        for group in self.param_groups:
            if any(p._grad is not None and not isinstance(p._grad, Sparse) for p in group["params"]):
                raise RuntimeError("SparseAdam takes sparse gradients only; use Adam for dense ones")
        super()._make_plan()

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        (step,) = counts
        beta1, beta2 = group["betas"]
        rate = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        return 1 - beta1, beta2, 1 - beta2, group["eps"], rate

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, keep2, weight2, eps, rate = c
        m, v = slots
        follow(m, g, weight1, u)
        accumulate_square(v, g, keep2, weight2, u)
        scale_by_root(m, v, eps, rate, u)


class NAdam(_Averaging):
    """Adam with Nesterov momentum, whose weight μₜ = β₁ (1 - ½ · 0.96^(t · momentum_decay)) grows with time.

    p ← p - lr · (g (1 - μₜ) / (1 - Πμ) + m μₜ₊₁ / (1 - Πμ μₜ₊₁)) / (√(v / (1 - β₂ᵗ)) + eps), where Πμ = μ₁ ⋯ μₜ.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.NAdam([x], lr=0.5)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.4718], requires_grad=True)
    """

    _counters: ClassVar[dict[str, float]] = {"step": 0.0, "mu_product": 1.0}

    def __init__(
        self,
        params: Params,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "momentum_decay")

    def _momentum(self, group: Group, step: Any) -> Any:
        return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))

    def _tick(self, group: Group, *counts: Any) -> tuple[Any, ...]:
        step, product = counts
        return step + 1, product * self._momentum(group, step + 1)

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        step, product = counts
        beta1, beta2 = group["betas"]
        now, later = self._momentum(group, step), self._momentum(group, step + 1)
        unbias = (1 - beta2**step) ** 0.5
        rate = group["lr"] * unbias
        of_gradient, of_average = rate * (1 - now) / (1 - product), rate * later / (1 - product * later)
        return 1 - beta1, beta2, 1 - beta2, group["eps"] * unbias, of_gradient, of_average

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, keep2, weight2, eps, of_gradient, of_average = c
        m, v = slots
        follow(m, g, weight1, u)
        accumulate_square(v, g, keep2, weight2, u)
        multiply(g, of_gradient, u)
        multiply(m, of_average, w)
        add(u, w, u)
        np.sqrt(v, w)
        add(w, eps, w)
        divide(u, w, u)


class RAdam(_Averaging):
    """Adam whose first steps are plain momentum, until the average of squares can be trusted.

    With ρ∞ = 2 / (1 - β₂) - 1 and ρ = ρ∞ - 2t β₂ᵗ / (1 - β₂ᵗ), the step is lr · m̂ as long as ρ ≤ 5, and
    lr · r · m̂ · √(1 - β₂ᵗ) / (√v + eps) after that, r² = (ρ - 4)(ρ - 2)ρ∞ / ((ρ∞ - 4)(ρ∞ - 2)ρ).

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.RAdam([x], lr=0.1)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.6], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        (step,) = counts
        beta1, beta2 = group["betas"]
        power = beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * power / (1 - power)
        trusted = length > 5
        safe = np.where(trusted, length, 5.0)
        rectified = ((safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe) * (1 - power)) ** 0.5
        rate = group["lr"] / (1 - beta1**step)
        adaptive, plain = np.where(trusted, rectified, 0.0) * rate, np.where(trusted, 0.0, 1.0) * rate
        return 1 - beta1, beta2, 1 - beta2, group["eps"], adaptive, plain

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, keep2, weight2, eps, adaptive, plain = c
        m, v = slots
        follow(m, g, weight1, u)
        accumulate_square(v, g, keep2, weight2, u)
        # One of the two coefficients is 0.
        np.sqrt(v, u)
        add(u, eps, u)
        divide(adaptive, u, u)
        add(u, plain, u)
        multiply(u, m, u)


class Adamax(_Averaging):
    """Adam with the largest recent gradient in place of the average of squares.

    m ← β₁ m + (1 - β₁) g, n ← max(β₂ n, |g| + eps), p ← p - lr / (1 - β₁ᵗ) · m / n.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.Adamax([x], lr=0.5)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([1.5], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        (step,) = counts
        beta1, beta2 = group["betas"]
        return 1 - beta1, beta2, group["eps"], group["lr"] / (1 - beta1**step)

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        weight1, keep2, eps, rate = c
        m, largest = slots
        follow(m, g, weight1, u)
        multiply(largest, keep2, largest)
        np.absolute(g, u)
        add(u, eps, u)
        np.maximum(largest, u, out=largest)
        divide(m, largest, u)
        multiply(u, rate, u)


__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam"]
