"""Muon: momentum whose matrices are made orthogonal before they are taken as steps."""

import math
from typing import Any

import numpy as np

from lucid.api.creation import zeros_like
from lucid.autograd.modes import no_grad
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor, is_plain
from lucid.optim.elementwise import Operand
from lucid.optim.optimizer import Closure, Group, Optimizer, Params, check_range, options

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """Momentum, orthogonalized by Newton–Schulz iterations; for the matrices of hidden layers.

    b ← b + (1 - momentum)(g - b); the step is O(b), or with `nesterov` O(g + momentum (b - g)), where O(x) comes near
    UVᵀ for x = UΣVᵀ. Weight decay is decoupled: p ← p · (1 - lr · weight_decay) - adjusted lr · O. `adjust_lr_fn`
    "original" multiplies lr by √max(1, rows / columns), "match_rms_adamw" by 0.2 √max(rows, columns).
    The iterations run in the parameter's type, in single precision at least, and agree with the same polynomial of exact
    singular values; PyTorch runs them in bfloat16, so that its steps differ from these by up to 2⁻⁸ of their size.

    >>> import lucid
    >>> x = lucid.eye(2).mul(3.0).requires_grad_()
    >>> optimizer = lucid.optim.Muon([x], lr=0.5, weight_decay=0.0)
    >>> (x**2).sum().backward()
    >>> optimizer.step()
    >>> bool((x.diagonal() < 2.8).all()), bool(x[0, 1] == 0)
    (True, True)
    """

    needs_whole_parameters = True

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay", "eps"):
            check_range(self, group, name)
        check_range(self, group, "ns_steps", high=100)
        if len(group["ns_coefficients"]) != 3:
            raise ValueError(f"Muon: ns_coefficients must be three numbers, not {group['ns_coefficients']}")
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ValueError(f"Muon: adjust_lr_fn must be one of {_ADJUSTMENTS}, not {group['adjust_lr_fn']!r}")
        for p in group["params"]:
            if p.ndim != 2 or p.is_complex():
                raise ValueError(
                    f"Muon takes real matrices, not a parameter of shape {p.shape} and type {p.dtype}; give the others "
                    "to another optimizer, such as AdamW"
                )

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient; returns the loss if a closure that computes it is given."""
        loss = self._loss(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if (gradient := p.grad) is not None:
                        self._step_matrix(group, p, gradient)
        return loss

    def _step_matrix(self, group: Group, p: Tensor, g: Tensor) -> None:
        entry = self.state[p]
        if "momentum_buffer" not in entry:
            entry["momentum_buffer"] = zeros_like(p)
        tensors = p, g, entry["momentum_buffer"]
        if p.itemsize < 4 or not all(is_plain(t) for t in tensors):
            wide = [t.float() if t.itemsize < 4 else t for t in tensors]
            _advance(group, *wide)
            for narrow, new in zip(tensors, wide, strict=True):
                if narrow is not new and narrow is not g:
                    narrow.copy_(new)
        else:
            p._raise_if_read_only("Muon.step")
            _advance(group, *[t._array for t in tensors])
            self._note_writes([storage_of(p), storage_of(entry["momentum_buffer"])])


def _advance(group: Group, p: Operand, g: Operand, buffer: Operand) -> None:
    """One step for a matrix; arrays and tensors alike are written in place."""
    lr, momentum = group["lr"], group["momentum"]
    if not isinstance(p, Tensor) and isinstance(lr, Tensor):
        lr = lr.item()
    if group["maximize"]:
        g = -g
    buffer += (1 - momentum) * (g - buffer)
    direction = g + momentum * (buffer - g) if group["nesterov"] else buffer
    step = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
    p *= 1 - lr * group["weight_decay"]
    p -= lr * _adjustment(group["adjust_lr_fn"], *p.shape) * step


def _adjustment(kind: str | None, rows: int, columns: int) -> float:
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def orthogonalized(x: Operand, coefficients: tuple[float, float, float], steps: int, eps: float) -> Operand:
    """Newton–Schulz: x ← ax + (bG + cG²)x with G = xxᵀ pushes all singular values of x towards 1."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / np.maximum((x * x).sum() ** 0.5, eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x


__all__ = ["Muon"]
