"""Schedules that go up and down: warm restarts, cyclic rates, and the one-cycle policy."""

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal

from lucid.optim.optimizer import Group, Optimizer
from lucid.optim.scheduler import LRScheduler, checked_optimizer, for_each_group, set_rate, whole_number


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the rate to `eta_min` along half a cosine, then starts again; each run is `T_mult` times longer.

    rate = eta_min + (initial - eta_min) · (1 + cos(π · T_cur / T_i)) / 2, T_cur epochs into a run of T_i. `step` takes
    fractions of an epoch too.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += [round(rate, 3) for rate in schedule.get_last_lr()]
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1  # noqa: N803
    ) -> None:  # fmt: skip
        self.T_0 = whole_number(self, "T_0", T_0, 1)
        self.T_mult = whole_number(self, "T_mult", T_mult, 1)
        self.T_i = T_0
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group, `T_cur` epochs into a run."""
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def _update_lr(self, epoch: float | None = None) -> None:
        if epoch is None:
            epoch = self.last_epoch + 1
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: an epoch cannot be negative, as {epoch} is")
        self.T_i = self.T_0
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            self.T_cur = epoch
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        super()._update_lr(math.floor(epoch))


class _MomentumCycle(LRScheduler):
    """Schedules that may move momentum too, against the learning rate."""

    cycle_momentum: bool

    def _begin_momentum(self, largest: Any, smallest: Any, fresh: bool) -> tuple[list[float], list[float]]:
        """Note the limits of momentum in each group, and begin at the upper one; gives both limits of all groups."""
        optimizer = self.optimizer
        if not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError(
                f"{type(self).__name__}: {type(optimizer).__name__} has no momentum and no betas to cycle; "
                "give cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        highest = for_each_group("max_momentum", optimizer, largest)
        lowest = for_each_group("base_momentum", optimizer, smallest)
        for group, high, low in zip(optimizer.param_groups, highest, lowest, strict=True) if fresh else ():
            self._set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low
        return highest, lowest

    def _set_momentum(self, group: Group, value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


_SCALES: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "triangular": ("cycle", lambda gamma, x: 1.0),
    "triangular2": ("cycle", lambda gamma, x: 0.5 ** (x - 1)),
    "exp_range": ("iterations", lambda gamma, x: gamma**x),
}


class CyclicLR(_MomentumCycle):
    """Moves the rate from `base_lr` up to `max_lr` and back, again and again.

    In mode "triangular2" the height is halved at each cycle, in mode "exp_range" it shrinks by `gamma` at each step;
    `scale_fn` gives any other height, by number of cycle or of step (`scale_mode`). Momentum goes the other way.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2, cycle_momentum=False)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += [round(rate, 3) for rate in schedule.get_last_lr()]
    ...     schedule.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        if mode not in _SCALES and scale_fn is None:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(_SCALES)}, not {mode!r}, or give a scale_fn")
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            limits = self._begin_momentum(max_momentum, base_momentum, last_epoch == -1)
            self.max_momentums, self.base_momentums = limits
        for group, rate in zip(optimizer.param_groups, base_lrs, strict=True) if last_epoch == -1 else ():
            set_rate(group, rate)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or of a step, as part of the full one."""
        return self._scale_fn_custom(x) if self._scale_fn_custom is not None else _SCALES[self.mode][1](self.gamma, x)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`; sets momentum as well."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            limits = zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums, strict=True)
            for group, high, low in limits:
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows except its optimizer and a `scale_fn`: of a callable object, its attributes."""
        function = self._scale_fn_custom
        saved = None if function is None or isinstance(function, FunctionType) else dict(vars(function))
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; a plain function stays as it is."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict.get("_scale_fn_custom") is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


def cosine_anneal(start: Any, end: Any, part: float) -> Any:
    """From start to end along half a cosine."""
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def linear_anneal(start: Any, end: Any, part: float) -> Any:
    """From start to end along a line."""
    return (end - start) * part + start


ANNEALING = {"cos": cosine_anneal, "linear": linear_anneal}


class OneCycleLR(_MomentumCycle):
    """Raises the rate from max_lr / div_factor to `max_lr` in the first `pct_start` of all steps, then lowers it far below.

    The last rate is the first one divided by `final_div_factor`. With `three_phase` the rate comes down to the first one
    as fast as it went up, and is lowered further after that. Call `step` after every batch; the number of them is
    `total_steps`, or epochs · steps_per_epoch. Momentum goes the other way.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0, momentum=0.9)
    >>> schedule = lucid.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> rates = []
    >>> for _ in range(10):
    ...     rates += [round(rate, 3) for rate in schedule.get_last_lr()]
    ...     schedule.step()
    >>> rates
    [0.04, 0.52, 1.0, 0.95, 0.812, 0.611, 0.389, 0.188, 0.05, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        self.total_steps = self._total(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be between 0 and 1, not {pct_start}")
        if anneal_strategy not in ANNEALING:
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(pct_start * self.total_steps, three_phase)
        max_lrs = for_each_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(max_momentum, base_momentum, last_epoch == -1)
        for group, rate in zip(optimizer.param_groups, max_lrs, strict=True) if last_epoch == -1 else ():
            group["initial_lr"] = rate / div_factor
            group["max_lr"] = rate
            group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _total(self, total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        if total_steps is not None:
            return whole_number(self, "total_steps", total_steps, 1)
        if epochs is None or steps_per_epoch is None:
            raise ValueError("OneCycleLR needs total_steps, or both epochs and steps_per_epoch")
        return whole_number(self, "epochs", epochs, 1) * whole_number(self, "steps_per_epoch", steps_per_epoch, 1)

    def _phases(self, rise: float, three_phase: bool) -> list[dict[str, Any]]:
        """What leads where, and up to which step."""
        path = [(float(rise) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            path.append((float(2 * rise) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            path.append((self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            path.append((self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        names = "end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"
        return [dict(zip(names, phase, strict=True)) for phase in path]

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`; sets momentum as well."""
        number = self.last_epoch
        if number > self.total_steps:
            raise ValueError(f"OneCycleLR: step {number} is beyond the {self.total_steps} steps of the schedule")
        start = 0.0
        for phase in self._schedule_phases:
            if number <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (number - start) / (phase["end_step"] - start) if phase["end_step"] != start else 1.0
        anneal = ANNEALING[self._anneal_func_type]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                low_to_high = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, anneal(*low_to_high, part))
        return [anneal(group[phase["start_lr"]], group[phase["end_lr"]], part) for group in groups]


__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]
