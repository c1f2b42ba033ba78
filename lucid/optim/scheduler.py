"""The base of schedules for learning rates, and schedules that multiply the rate by a factor for each epoch."""

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from lucid.core.levels import capturing, trace
from lucid.core.tensor import Tensor
from lucid.optim.optimizer import Group, Optimizer

EpochFunction = Callable[[int], float]


def after_runs(step: Callable[..., None]) -> Callable[..., None]:
    """The step method of a schedule: a compiled function takes it after each run, and reads the rates before the next."""

    @wraps(step)
    def call(self: "LRScheduler", *args: Any, **kwargs: Any) -> None:
        if capturing():
            trace.get().step_schedule(self, step, args, kwargs)
        else:
            step(self, *args, **kwargs)

    return call


def not_verbose(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that takes `verbose` too, as older programs give it."""

    @wraps(init)
    def call(self: "LRScheduler", *args: Any, verbose: bool = False, **kwargs: Any) -> None:
        if verbose:
            warnings.warn("schedules print nothing; get_last_lr() tells the rates", stacklevel=2)
        init(self, *args, **kwargs)

    return call


class LRScheduler:
    """The base of schedules: each `step` sets the learning rate of every parameter group to what `get_lr` gives.

    A schedule takes its first step when it is made, to epoch `last_epoch + 1`. To resume one, give the last epoch; the
    groups must have an entry "initial_lr" then, as they have in a state of the optimizer that was saved.

    >>> import lucid
    >>> class Halving(lucid.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _is_initial = False
    compiled_attributes = ("optimizer",)  # what `lucid.compile` looks at; the rest is read and changed after runs
    runs_apart = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = after_runs(vars(cls)["step"])  # type: ignore[method-assign]
        if "__init__" in vars(cls):
            cls.__init__ = not_verbose(vars(cls)["__init__"])  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"to resume a schedule at epoch {last_epoch}, parameter group {number} needs an entry 'initial_lr'; "
                    "load the optimizer's state before, or begin with last_epoch=-1"
                )
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            del self._is_initial

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr method; define get_lr(self)")

    def _get_closed_form_lr(self) -> list[Any]:
        """The same without looking at the present rates, for a jump to an epoch."""
        return self.get_lr()

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each group as the last step set it."""
        if capturing():
            return _rates_in_program(self)
        return self._last_lr

    @after_runs
    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one, and set the learning rates."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            rates = self._get_closed_form_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._note_rates()

    def _note_rates(self) -> None:
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows except its optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        vars(self).update(state_dict)


def _rates_in_program(schedule: LRScheduler) -> list[Any]:
    """The learning rates as numbers that a program which is traced reads for each run."""
    program, rates = trace.get(), schedule._last_lr
    program.raise_if_scheduled(schedule.optimizer, "reads learning rates")
    if any(isinstance(rate, Tensor) for rate in rates):
        return rates
    found: list[Any] = program.numbers(lambda: schedule._last_lr, np.dtype(np.float64))
    return found


def checked_optimizer(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"a schedule is made for an Optimizer, not for a {type(optimizer).__name__}")
    return optimizer


def _copied(rate: Any) -> Any:
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def set_rate(group: Group, rate: Any) -> None:
    """Set the learning rate of a group: in place if it is a tensor, which others may hold."""
    if isinstance(group["lr"], Tensor):
        group["lr"].detach().fill_(float(rate))
    else:
        group["lr"] = float(rate) if isinstance(rate, Tensor) else rate


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each parameter group, from a list of them or a single one."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{name} has {len(value)} entries for {groups} parameter groups")
    return list(value)


def whole_number(owner: object, name: str, value: Any, least: int) -> int:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{type(owner).__name__}: {name} must be a whole number of at least {least}, not {value!r}")
    return value


class FactorLR(LRScheduler):
    """Schedules of the form rate = floor + (initial rate - floor) · factor_at(epoch).

    A step multiplies what the rate has above the floor by factor_at(epoch) / factor_at(epoch - 1), so that schedules can be
    combined, and a rate that somebody else has changed stays changed in proportion.
    """

    def _floors(self) -> list[Any]:
        """The floor of each group."""
        return [0.0] * len(self.base_lrs)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        raise NotImplementedError(f"{type(self).__name__} has no factor_at method; define factor_at(self, epoch)")

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`, from the present one."""
        epoch, rates = self.last_epoch, self._rates()
        if self._is_initial and epoch:
            return rates
        before, now = self.factor_at(epoch - 1) if epoch else 1.0, self.factor_at(epoch)
        if before == 0:
            values = zip(rates, self.base_lrs, self._floors(), strict=True)
            return [rate + (base - floor) * now for rate, base, floor in values]
        return [floor + (rate - floor) * (now / before) for rate, floor in zip(rates, self._floors(), strict=True)]

    def _get_closed_form_lr(self) -> list[Any]:
        now = self.factor_at(self.last_epoch)
        return [floor + (base - floor) * now for base, floor in zip(self.base_lrs, self._floors(), strict=True)]


class StepLR(FactorLR):
    """Multiplies the rate by `gamma` every `step_size` epochs.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = whole_number(self, "step_size", step_size, 1)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(FactorLR):
    """Multiplies the rate by `gamma` at each of the epochs in `milestones`.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(3):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        return float(self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch))


class ExponentialLR(FactorLR):
    """Multiplies the rate by `gamma` at every epoch.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        return float(self.gamma**epoch)


class ConstantLR(FactorLR):
    """Multiplies the rate by `factor` during the first `total_iters` epochs.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
    >>> schedule.get_last_lr()
    [0.5]
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1, not {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        return self.factor if epoch < self.total_iters else 1.0


class LinearLR(FactorLR):
    """Multiplies the rate by a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1, not {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1, not {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        if epoch >= self.total_iters:
            return self.end_factor
        return self.start_factor + (self.end_factor - self.start_factor) * epoch / self.total_iters


class PolynomialLR(FactorLR):
    """Lowers the rate to `eta_min` in `total_iters` epochs, what is above it by (1 - epoch / total_iters)^power.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5625]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
        *,
        eta_min: float = 0.0,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _floors(self) -> list[Any]:
        return [self.eta_min] * len(self.base_lrs)

    def factor_at(self, epoch: int) -> float:
        """What is left of the initial rate at an epoch."""
        return float((1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(FactorLR):
    """Lowers the rate to `eta_min` along half a cosine of `T_max` epochs, then raises it again, and so on.

    rate = eta_min + (initial - eta_min) · (1 + cos(π · epoch / T_max)) / 2.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(schedule.get_last_lr()[0], 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _floors(self) -> list[Any]:
        return [self.eta_min] * len(self.base_lrs)

    def factor_at(self, epoch: int) -> float:
        """What is left of the rate above `eta_min` at an epoch."""
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class _FunctionLR(LRScheduler):
    """Schedules by functions of the epoch, one for each parameter group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: EpochFunction | Sequence[EpochFunction], last_epoch: int = -1
    ) -> None:
        self.lr_lambdas = for_each_group("lr_lambda", checked_optimizer(optimizer), lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows except its optimizer, and functions: of callable objects, their attributes."""
        saved = [None if isinstance(f, FunctionType) else dict(vars(f)) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; plain functions stay as they are, and so do all where it has none."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        kept = state_dict.get("lr_lambdas", [None] * len(self.lr_lambdas))
        for function, saved in zip(self.lr_lambdas, kept, strict=True):
            if saved is not None:
                vars(function).update(saved)


class LambdaLR(_FunctionLR):
    """Sets the rate to the initial one times a function of the epoch.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`."""
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_FunctionLR):
    """Multiplies the rate by a function of the epoch at every epoch.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`, from the present one."""
        if self._is_initial:
            return self._rates()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._rates(), strict=True)]


class NoamLR(LRScheduler):
    """Warms up in proportion to the step s, then falls with its root: d_model^-½ · min(s^-½, s · warmup_steps^-3/2).

    The rates of the optimizer do not matter. The first step is 1.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.lr_scheduler.NoamLR(optimizer, d_model=4, warmup_steps=4)
    >>> for _ in range(4):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, d_model: int, warmup_steps: int, last_epoch: int = -1) -> None:
        if d_model < 1 or warmup_steps < 1:
            raise ValueError(f"NoamLR: d_model and warmup_steps must be positive, not {d_model} and {warmup_steps}")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at `last_epoch`."""
        step = max(1, self.last_epoch)
        rate = self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5)
        return [rate] * len(self.base_lrs)


NoamScheduler = NoamLR


__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "NoamLR",
    "NoamScheduler",
    "PolynomialLR",
    "StepLR",
]
