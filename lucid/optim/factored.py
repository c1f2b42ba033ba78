"""Adafactor: second moments of matrices kept as the product of a column and a row."""

from typing import Any

import numpy as np

import lucid.api.reductions as reductions
from lucid.api.creation import zeros_like
from lucid.arguments.promotion import finfo
from lucid.autograd.modes import no_grad
from lucid.core.levels import capturing
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.optim.layout import kept
from lucid.optim.optimizer import Closure, Group, Optimizer, Params, check_range, options


class Adafactor(Optimizer):
    """Steps scaled by the root of second moments, of which matrices keep the means of rows and columns alone.

    With 1 - β = t^beta2_decay, R and C average the mean squares of rows and columns, and V = R C / mean(R); vectors
    keep V itself. u = g / √V is cut to a root mean square of at most `d`, and the step is
    max(eps₂, rms(p)) · min(lr, 1/√t) · u. Weight decay is decoupled. `eps` is (eps₁, eps₂): eps₁, the least that
    is divided by, is that of the parameter's type if None.

    >>> import lucid
    >>> x = lucid.ones(2, 2).requires_grad_()
    >>> optimizer = lucid.optim.Adafactor([x], lr=0.1)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([[0.9, 0.9],
            [0.9, 0.9]], requires_grad=True)
    >>> {name: value.shape for name, value in optimizer.state[x].items()}
    {'step': (), 'row_var': (2, 1), 'col_var': (1, 2)}
    """

    reads_rates = True

    needs_whole_parameters = True

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(self, group, name)
        check_range(self, group, "d", low=1.0)
        check_range(self, group, "eps", at=1)
        if group["eps"][0] is not None:
            check_range(self, group, "eps", at=0)
        if not group["beta2_decay"] <= 0:
            raise ValueError(f"Adafactor: beta2_decay must be at most 0, not {group['beta2_decay']}")
        for p in group["params"]:
            if p.is_complex():
                raise ValueError(f"Adafactor takes real parameters, not one of type {p.dtype}")

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient; returns the loss if a closure that computes it is given."""
        loss = self._loss(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if (gradient := p.grad) is not None:
                        self._step_tensor(group, p, -gradient if group["maximize"] else gradient)
        return loss

    def _step_tensor(self, group: Group, p: Tensor, g: Tensor) -> None:
        entry = self.state[p]
        if not entry:
            entry["step"] = kept(p, np.zeros((), np.float32))
            if g.ndim > 1:
                entry["row_var"], entry["col_var"] = zeros_like(g[..., :1]), zeros_like(g[..., :1, :])
            else:
                entry["variance"] = zeros_like(g)
        if capturing():
            count, rate, keep, weight = self._numbers_in_program(
                p, lambda entry: self._numbers(group, _count(entry) + 1)
            )
            entry["step"].copy_(count)
        else:
            entry["step"].add_(1)  # the same for all examples of a batch
            _, rate, keep, weight = self._numbers(group, entry["step"].item())
        least, least_size = group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        size = _rms(p).clamp(min=least_size) * rate
        if group["weight_decay"]:
            p.mul_(keep)
        second = self._second_moment(entry, g, weight, least)
        update = g * second.clamp(min=least * least).rsqrt()
        p.sub_(update * (size / (_rms(update) / group["d"]).clamp(min=1.0)))
        self._note_writes([storage_of(p)])

    def _numbers(self, group: Group, t: float) -> tuple[float, float, float, float]:
        """The count, the largest rate, what weight decay leaves, and the weight of new squares."""
        lr = float(group["lr"])
        return t, min(lr, t**-0.5), 1 - lr * group["weight_decay"], t ** group["beta2_decay"]

    def _second_moment(self, entry: Group, g: Tensor, weight: float, least: float) -> Tensor:
        """The estimate of the mean of g², brought up to date."""
        if g.ndim < 2:
            return entry["variance"].lerp_(g * g, weight)
        squares = g * g
        rows = entry["row_var"].lerp_(reductions.mean(squares, -1, keepdim=True), weight)
        columns = entry["col_var"].lerp_(reductions.mean(squares, -2, keepdim=True), weight)
        return (rows @ columns) / reductions.mean(rows, -2, keepdim=True).clamp(min=least)


def _count(entry: Group) -> float:
    return float(entry["step"]._array) if entry else 0.0


def _rms(x: Tensor) -> Tensor:
    """The root of the mean of the squares, 0 of nothing."""
    return reductions.norm(x) / max(x.numel(), 1) ** 0.5


__all__ = ["Adafactor"]
