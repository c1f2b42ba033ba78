"""Stochastic gradient descent that also averages its iterates."""

from typing import Any

from lucid.api.creation import full_like, tensor
from lucid.autograd.modes import set_grad_enabled
from lucid.core.dtypes import float32
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.optim.optimizer import Closure, Group, Optimizer, Params, check_range, options


class ASGD(Optimizer):
    """Descent with steps that shrink, and in the state `ax` the average of where it has been.

    p ← (1 - lambd · η) p - η g with η = lr / (1 + lambd · lr · t)^alpha; ax ← ax + μ (p - ax) with
    μ = 1 / max(1, t - t0), so until `t0` steps are done, ax is p.

    >>> import lucid
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> optimizer = lucid.optim.ASGD([x], lr=0.1, lambd=0.0)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x, optimizer.state[x]["ax"]
    (Tensor([1.6], requires_grad=True), Tensor([1.6]))
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(self, group, name)

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient; returns the loss if a closure that computes it is given."""
        loss = self._loss(closure)
        for group in self.param_groups:
            with set_grad_enabled(bool(group["differentiable"])):
                for p in group["params"]:
                    if (gradient := p.grad) is not None:
                        self._step_tensor(group, p, gradient)
        return loss

    def _step_tensor(self, group: Group, p: Tensor, g: Tensor) -> None:
        entry, lr, lambd = self.state[p], float(group["lr"]), group["lambd"]
        if not entry:
            entry["step"], entry["eta"], entry["mu"] = _number(0.0), _number(lr), _number(1.0)
            entry["ax"] = full_like(p, 0.0)
        count = entry["step"].item() + 1
        eta, mu = entry["eta"].item(), entry["mu"].item()
        entry["step"].fill_(count)
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        new = (1 - lambd * eta) * p - eta * g
        if group["differentiable"]:
            entry["ax"] = entry["ax"] + mu * (new - entry["ax"])
        else:
            entry["ax"].add_((new - entry["ax"]).mul_(mu)) if mu != 1 else entry["ax"].copy_(new)
        p.copy_(new)
        self._note_writes([storage_of(p)])
        entry["eta"] = _number(lr / (1 + lambd * lr * count) ** group["alpha"])
        entry["mu"] = _number(1 / max(1.0, count - group["t0"]))


def _number(value: float) -> Tensor:
    return tensor(value, dtype=float32)


__all__ = ["ASGD"]
