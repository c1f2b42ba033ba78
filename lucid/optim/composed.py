"""Schedules of schedules, and the one that watches a metric."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Literal

from lucid.optim.optimizer import Optimizer
from lucid.optim.scheduler import LRScheduler, checked_optimizer, for_each_group, set_rate


class _Composed(LRScheduler):
    """What schedules of schedules share."""

    def _take(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} needs at least one schedule")
        for number, schedule in enumerate(schedulers):
            if isinstance(schedule, ReduceLROnPlateau) or not isinstance(schedule, LRScheduler):
                raise ValueError(
                    f"{name}: schedule {number} is a {type(schedule).__name__}; each must be one whose step needs no metric"
                )
        self.optimizer = checked_optimizer(optimizer or schedulers[0].optimizer)
        if any(schedule.optimizer is not self.optimizer for schedule in schedulers):
            raise ValueError(f"{name}: all schedules must belong to one optimizer")
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows except its optimizer, with the states of its parts."""
        return {**super().state_dict(), "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)


class SequentialLR(_Composed):
    """Follows one schedule after another; the next one begins at each of the epochs in `milestones`.

    >>> import lucid
    >>> from lucid.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> warm, cool = ConstantLR(optimizer, factor=0.1, total_iters=10), ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = SequentialLR(optimizer, [warm, cool], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [0.1, 0.1, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones, not {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # Each schedule took its first step when it was made; only the one that is to begin takes it again.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        for schedule in self._schedulers:
            _undo_first_step(schedule)
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        number = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[number]
        begin = self._milestones[number - 1] if number else 0
        if epoch is not None or (number and begin == self.last_epoch):
            schedule._update_lr(self.last_epoch - begin)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        self.step(epoch)

    def _initial_step(self) -> None:
        self._schedulers[bisect_right(self._milestones, 0)]._initial_step()
        self._note_rates()


def _undo_first_step(schedule: LRScheduler) -> None:
    if isinstance(schedule, _Composed):
        for part in schedule._schedulers:
            _undo_first_step(part)
    else:
        schedule.last_epoch -= 1


class ChainedScheduler(_Composed):
    """Takes a step of all schedules at once: their factors multiply.

    >>> import lucid
    >>> from lucid.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.5, total_iters=2), ExponentialLR(optimizer, gamma=0.5)]
    >>> schedule = ChainedScheduler(parts)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(optimizer, schedulers)
        self._note_rates()

    @property
    def last_epoch(self) -> int:  # type: ignore[override]
        """The epoch that all parts are at."""
        return self._schedulers[0].last_epoch

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one, in all schedules."""
        if epoch is not None:
            self._update_lr(epoch)
            return
        for schedule in self._schedulers:
            schedule.step()
        self._note_rates()

    def _initial_step(self) -> None:
        for schedule in self._schedulers:
            schedule._initial_step()
        self._note_rates()

    def _update_lr(self, epoch: int | None = None) -> None:
        """Jump to an epoch: what the parts make of the initial rates, multiplied."""
        first = [float(group["initial_lr"]) for group in self.optimizer.param_groups]
        rates = first
        for schedule in self._schedulers:
            schedule._update_lr(epoch)
            found = schedule.get_last_lr()
            rates = [
                rate * float(new) / base if base else 0.0 for rate, new, base in zip(rates, found, first, strict=True)
            ]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._note_rates()


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a metric has not improved for more than `patience` epochs.

    An improvement must exceed `threshold`, as part of the best value ("rel") or as it is ("abs"). After a reduction
    `cooldown` epochs are not counted. Rates do not go below `min_lr`, and do not change by less than `eps`.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if not factor < 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be less than 1, not {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max', not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', not {threshold_mode!r}")
        self.optimizer = checked_optimizer(optimizer)
        self.factor = factor
        self.min_lrs = for_each_group("min_lr", optimizer, min_lr)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._note_rates()
        self._reset()

    def _reset(self) -> None:
        """Forget all metrics."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # as in PyTorch
        """Note the metric of an epoch, and lower the rates if it has not improved for long."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._note_rates()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: the optimizer has {len(groups)} parameter groups now, but min_lrs has "
                    f"{len(self.min_lrs)} entries; add those of the new groups"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted at the moment."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        margin = self.threshold * best if self.threshold_mode == "rel" else self.threshold
        if math.isinf(best):
            margin = 0.0
        return value < best - margin if self.mode == "min" else value > best + margin


__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]
