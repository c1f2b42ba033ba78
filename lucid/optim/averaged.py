"""Stochastic gradient descent that also averages its iterates."""

from typing import Any

import numpy as np

from lucid.api.creation import full_like
from lucid.autograd.modes import set_grad_enabled
from lucid.core.dtypes import float32
from lucid.core.levels import capturing
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.optim.layout import kept
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

    reads_rates = True

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
        entry = self.state[p]
        if not entry:
            entry["step"], entry["eta"], entry["mu"] = (_number(p, n) for n in (0.0, float(group["lr"]), 1.0))
            entry["ax"] = full_like(p, 0.0)
        averages = entry["mu"]._array.item() != 1  # before, the average is where it is
        now: Any = self._numbers(group, entry)
        if capturing():
            now = self._numbers_in_program(p, lambda entry: self._numbers(group, entry, averages))
        count, eta, keep, mu, next_eta, next_mu = now
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        new = keep * p - eta * g
        if group["differentiable"]:
            entry["ax"] = entry["ax"] + mu * (new - entry["ax"])
        else:
            entry["ax"].add_((new - entry["ax"]).mul_(mu)) if averages else entry["ax"].copy_(new)
        p.copy_(new)
        self._note_writes([storage_of(p)])
        if capturing():
            entry["step"].copy_(count)
            entry["eta"], entry["mu"] = next_eta.to(float32).clone(), next_mu.to(float32).clone()
        else:
            entry["step"].fill_(count)
            entry["eta"], entry["mu"] = _number(p, next_eta), _number(p, next_mu)

    def _numbers(self, group: Group, entry: dict[str, Any], averages: bool | None = None) -> tuple[float, ...] | None:
        """Count, eta, what it leaves of a parameter, and mu; the next eta and mu. None if `averages` is not so any more."""
        lr, lambd = float(group["lr"]), group["lambd"]
        count, eta, mu = (float(entry[k]._array) for k in ("step", "eta", "mu")) if entry else (0.0, lr, 1.0)
        if averages is not None and averages != (mu != 1):
            return None
        count += 1
        next_eta = lr / (1 + lambd * lr * count) ** group["alpha"]
        return count, eta, 1 - lambd * eta, mu, next_eta, 1 / max(1.0, count - group["t0"])


def _number(p: Tensor, value: float) -> Any:
    return kept(p, np.array(value, np.float32))


__all__ = ["ASGD"]
