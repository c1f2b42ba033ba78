"""Scaling of losses, so that small gradients are not lost in 16-bit numbers."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

import lucid
from lucid.core import dtypes
from lucid.core.device import as_device
from lucid.core.levels import capturing, trace
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.core.tree import flatten

if TYPE_CHECKING:
    from lucid.optim.optimizer import Optimizer


class _Stage(Enum):
    """How far an optimizer has come since the last update of the scale."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


class GradScaler:
    """Multiplies losses by a large number, and divides gradients by it before the optimizer uses them.

    A step whose gradients contain inf or nan is left out, and `update` lowers the scale by `backoff_factor` then; after
    `growth_interval` good steps in a row it grows by `growth_factor`. With `enabled=False` all methods do nothing but
    call the optimizer.

    >>> import lucid, lucid.optim
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> optimizer = lucid.optim.SGD([x], lr=0.5)
    >>> scaler = lucid.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale((x * 3).sum()).backward()
    >>> x.grad
    Tensor([3072.])
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> x
    Tensor([-0.5], requires_grad=True)
    """

    compiled_attributes = ("_stages", "_enabled")  # the scale is read for each run

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        as_device(device)
        self._enabled = enabled
        self._scale = _finite_positive("init_scale", init_scale)
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)
        self._growth_tracker = 0
        self._stages: dict[int, tuple[Optimizer, _Stage, bool]] = {}  # by id: the stage, and whether inf was found

    def scale(self, outputs: Any) -> Any:
        """A loss, or a nest of lists and tuples of them, multiplied by the scale."""
        if not self._enabled:
            return outputs
        flatten(outputs)  # raises if it contains itself
        return self._scaled(outputs)

    def _scaled(self, outputs: Any) -> Any:
        if isinstance(outputs, Tensor):
            return outputs * (self._traced_scale(trace.get()) if capturing() else self._scale)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self._scaled(o) for o in outputs)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise TypeError(f"scale takes a tensor or an iterable of tensors, not a {type(outputs).__name__}")

    def unscale_(self, optimizer: "Optimizer") -> None:
        """Divide the gradients of an optimizer by the scale now, as is needed to clip them before `step`."""
        if not self._enabled:
            return
        stage = self._stage(optimizer)
        if stage is not _Stage.READY:
            raise RuntimeError(
                f"unscale_: the gradients of this optimizer were already {stage.value} since the last update()"
                if stage is _Stage.UNSCALED
                else "unscale_ is called after step(); call it before, or call update() in between"
            )
        params = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [g for p in params if (g := p.grad) is not None]  # read once: another thread may remove it
        for g in gradients:
            if g.dtype == dtypes.float16:
                raise ValueError("unscale_: gradients in float16 cannot be unscaled; keep parameters in float32")
        found: Any = False
        if capturing():
            found = _unscaled_in_program(gradients, trace.get(), lambda: [1.0 / self._scale])
        else:
            for g in gradients:
                found = _unscale(g, 1.0 / self._scale) or found
        found = self._agreed(found, params)
        self._stages[id(optimizer)] = optimizer, _Stage.UNSCALED, found

    def _agreed(self, found: Any, params: Sequence[Tensor]) -> Any:
        """Whether inf or nan was found, also by processes that have other parts of the parameters."""
        from lucid.distributed.parts import by_division, of_all_parts

        for groups in filter(None, by_division(params)):
            found = read_flag(of_all_parts(lucid.as_tensor(found), groups, Tensor.any))
        return found

    def step(self, optimizer: "Optimizer", *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if that was not done, and take the optimizer's step unless one is inf or nan."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if (args and callable(args[0])) or "closure" in kwargs:
            raise RuntimeError("step: closures are not supported, since they would have to scale the loss themselves")
        if self._stage(optimizer) is _Stage.STEPPED:
            raise RuntimeError("step has already been called for this optimizer since the last update()")
        if self._stage(optimizer) is _Stage.READY:
            self.unscale_(optimizer)
        found = self._stages[id(optimizer)][2]
        if capturing():
            with trace.get().left_out_if(found, optimizer):
                result = optimizer.step(*args, **kwargs)
        else:
            result = None if found else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = optimizer, _Stage.STEPPED, found
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what the steps since the last update have met, or set a new one."""
        if not self._enabled:
            return
        if new_scale is not None:
            if capturing():
                raise NotImplementedError(
                    "GradScaler: a compiled function cannot set the scale; call update(new_scale) outside"
                )
            self._scale = _finite_positive("new_scale", float(new_scale))
        elif not self._stages:
            raise RuntimeError("update: no gradients were unscaled since the last update(); call step() before")
        elif capturing():
            trace.get().ticks[id(self)] = True
            trace.get().after(self._updated, *[found for _, _, found in self._stages.values()])
        else:
            self._updated(*[found for _, _, found in self._stages.values()])
        self._stages.clear()

    def _updated(self, *found: Any) -> None:
        """Adapt the scale to whether steps were left out."""
        if any(found):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if np.isfinite(np.float32(grown)) else self._scale
                self._growth_tracker = 0

    def _traced_scale(self, program: Any) -> Any:
        """The scale as a number that is read for each run of a program."""
        if id(self) in program.ticks:
            raise NotImplementedError(
                "GradScaler: a compiled function may not scale a loss after update(); call it at its end"
            )
        (scale,) = program.numbers(lambda: [self._scale], np.dtype(np.float64))
        return scale

    def _stage(self, optimizer: "Optimizer") -> _Stage:
        return self._stages.get(id(optimizer), (optimizer, _Stage.READY, False))[1]

    def get_scale(self) -> Any:
        """The present scale; 1 if the scaler is not enabled. In a compiled function, a tensor."""
        if not self._enabled:
            return 1.0
        return self._traced_scale(trace.get()) if capturing() else self._scale

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        if not new_factor > 1.0:
            raise ValueError(f"GradScaler: the growth factor must be above 1, not {new_factor}")
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        if not 0.0 < new_factor < 1.0:
            raise ValueError(f"GradScaler: the backoff factor must be between 0 and 1, not {new_factor}")
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps make the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many good steps make the scale grow."""
        if not isinstance(new_interval, int) or new_interval < 1:
            raise ValueError(
                f"GradScaler: the growth interval must be a whole number of at least 1, not {new_interval}"
            )
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it adapts; empty if the scaler is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("the state is empty: it may have been saved by a scaler that was not enabled")
        self._scale = float(state_dict["scale"])
        self.set_growth_factor(state_dict["growth_factor"])
        self.set_backoff_factor(state_dict["backoff_factor"])
        self.set_growth_interval(state_dict["growth_interval"])
        self._growth_tracker = int(state_dict["_growth_tracker"])


def read_flag(flag: Tensor) -> Any:
    """A flag as Python's, but in a program that is traced, which has no value of it."""
    return flag if capturing() else bool(flag)


def _finite_positive(name: str, value: float) -> float:
    if not 0.0 < value < float("inf"):
        raise ValueError(f"GradScaler: {name} must be a positive number, not {value}")
    return float(value)


def _unscaled_in_program(gradients: Sequence[Tensor], program: Any, read: Any) -> Tensor:
    """The same for all gradients in a program that is traced; whether one contains inf or nan, as a tensor."""
    (factor,) = program.numbers(read, np.dtype(np.float64))
    found = lucid.tensor(False)
    for gradient in gradients:
        found = found | ~gradient.detach().isfinite().all()
        with lucid.no_grad():
            gradient.mul_(factor)
    return found


def _unscale(gradient: Tensor, factor: float) -> bool:
    """Multiply a gradient in place; whether it contains inf or nan."""
    array = gradient._concrete("unscale_")
    if not array.flags.writeable:
        array = gradient._array = array.copy()
    found = not bool(np.isfinite(array).all())
    np.multiply(array, np.asarray(factor, dtypes.real_of(array.dtype)), out=array)
    storage_of(gradient).bump("GradScaler.unscale_")
    return found


__all__ = ["GradScaler"]
