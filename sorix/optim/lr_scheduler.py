"""Schedules of learning rates, in closed forms of the first rates and the epoch."""

import math
from typing import Any

import lucid.optim.lr_scheduler as _lucid


class LRScheduler(_lucid.LRScheduler):
    """The base: a first step is made at construction, and each step writes what `get_lr` gives.

    >>> import sorix
    >>> optimizer = sorix.optim.SGD([sorix.zeros(1)], lr=1.0)
    >>> schedule = sorix.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    >>> schedule.last_epoch, [schedule.step() or schedule.get_last_lr()[0] for _ in range(3)]
    (0, [1.0, 0.1, 0.1])
    """

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]  # the present one, wherever the schedule begins
        super().__init__(optimizer, last_epoch)

    def get_last_lr(self) -> list[Any]:
        """The present rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer."""
        state = {name: value for name, value in vars(self).items() if name != "optimizer"}
        return state | {"base_lrs": list(self.base_lrs)} if "base_lrs" in state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state, and write its rates into the optimizer."""
        vars(self).update(state_dict)
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate


class StepLR(LRScheduler):
    """base · gamma^⌊t / step_size⌋."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"step_size must be >= 1, not {step_size}")
        self.step_size, self.gamma = step_size, _positive(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """base · gamma^t."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = _positive(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (base - eta_min)(1 + cos(πt / T_max)) / 2, which rises again beyond T_max."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        if T_max < 1:
            raise ValueError(f"T_max must be >= 1, not {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class ReduceLROnPlateau(_lucid.ReduceLROnPlateau):
    """Multiplies the rate by `factor` as soon as `patience` metrics in a row were no better than the best.

    Better means by more than `threshold`, as it is.

    >>> import sorix
    >>> optimizer = sorix.optim.SGD([sorix.zeros(1)], lr=1.0)
    >>> schedule = sorix.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    >>> for loss in (3.0, 3.0, 3.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Any,
        mode: Any = "min",
        factor: float = 0.1,
        patience: int = 10,
        min_lr: float = 0.0,
        threshold: float = 1e-4,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {mode!r}")
        if factor >= 1.0:
            raise ValueError(f"factor must be < 1.0, not {factor}")
        super().__init__(optimizer, mode, factor, patience, threshold, "abs", 0, min_lr, 0.0)

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Note the metric of an epoch, and lower the rates if it was the last of too many bad ones."""
        patience, self.patience = self.patience, self.patience - 1  # Lucid's waits for one more
        try:
            super().step(metrics.item() if hasattr(metrics, "item") else metrics, epoch)
        finally:
            self.patience = patience

    def get_last_lr(self) -> list[Any]:
        """The present rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state; rates stay as they are."""
        vars(self).update(state_dict)


def _positive(gamma: float) -> float:
    if gamma <= 0:
        raise ValueError(f"gamma must be > 0, not {gamma}")
    return gamma


__all__ = ["CosineAnnealingLR", "ExponentialLR", "LRScheduler", "ReduceLROnPlateau", "StepLR"]
