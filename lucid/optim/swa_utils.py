"""Averages of models over the course of training: stochastic weight averaging and moving averages."""

import copy
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Literal

from lucid.api.creation import tensor
from lucid.autograd.modes import no_grad
from lucid.core.device import as_device
from lucid.core.tensor import Tensor, is_plain
from lucid.nn.layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from lucid.nn.module import Module
from lucid.ops.binary import where
from lucid.optim.cycles import ANNEALING
from lucid.optim.optimizer import Optimizer
from lucid.optim.scheduler import FactorLR, for_each_group, whole_number

Average = Callable[[Tensor, Tensor, Any], Any]
ManyAverages = Callable[[list[Tensor], list[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A function that gives the exponential moving average: decay · average + (1 - decay) · current.

    >>> import lucid
    >>> average = lucid.optim.swa_utils.get_ema_avg_fn(0.9)
    >>> average(lucid.tensor(1.0), lucid.tensor(2.0), 5)
    Tensor(1.1)
    """
    _check_decay(decay)

    def update(average: Tensor, current: Tensor, count: Any) -> Tensor:
        return average * decay + current * (1 - decay)

    return update


def get_swa_avg_fn() -> Average:
    """A function that gives the mean of all values so far: average + (current - average) / (count + 1).

    >>> import lucid
    >>> average = lucid.optim.swa_utils.get_swa_avg_fn()
    >>> average(lucid.tensor(1.0), lucid.tensor(4.0), 2)
    Tensor(2.)
    """

    def update(average: Tensor, current: Tensor, count: Any) -> Tensor:
        return average + (current - average) / (count + 1)

    return update


def _for_many(one: Average) -> ManyAverages:
    @no_grad()
    def update(averages: list[Tensor], currents: list[Tensor], count: Any) -> None:
        for average, current in zip(averages, currents, strict=True):
            average.copy_(one(average, current, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> ManyAverages:
    """The exponential moving average for lists of tensors, in place.

    >>> import lucid
    >>> averages = [lucid.tensor(1.0)]
    >>> lucid.optim.swa_utils.get_ema_multi_avg_fn(0.9)(averages, [lucid.tensor(2.0)], 5)
    >>> averages
    [Tensor(1.1)]
    """
    return _for_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> ManyAverages:
    """The mean of all values so far for lists of tensors, in place.

    >>> import lucid
    >>> averages = [lucid.tensor(1.0)]
    >>> lucid.optim.swa_utils.get_swa_multi_avg_fn()(averages, [lucid.tensor(4.0)], 2)
    >>> averages
    [Tensor(2.)]
    """
    return _for_many(get_swa_avg_fn())


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"the decay of a moving average must be between 0 and 1, not {decay}")


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's parameters over time.

    Call `update_parameters(model)` after each step, or each epoch, to be averaged. The average is the mean unless
    `avg_fn` or `multi_avg_fn` gives another; buffers are copied from the model, or averaged with `use_buffers`.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> class Scale(Module):
    ...     def __init__(self, factor):
    ...         super().__init__()
    ...         self.factor = Parameter(lucid.tensor(factor))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale(1.0)
    >>> averaged = lucid.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     model.factor.data.fill_(value)
    ...     averaged.update_parameters(model)
    Tensor(1.)
    Tensor(2.)
    Tensor(6.)
    >>> averaged(lucid.tensor(10.0)).item()
    30.0
    """

    n_averaged: Tensor
    module: Module

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: ManyAverages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel takes avg_fn or multi_avg_fn, not both")
        as_device(device)
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Let the present parameters of the model enter the averages."""
        mine, theirs = (
            [t.detach() for t in (chain(m.parameters(), m.buffers()) if self.use_buffers else m.parameters())]
            for m in (self.module, model)
        )
        pairs = list(zip(mine, theirs, strict=True))
        copied = [(a, b) for a, b in pairs if not _is_continuous(a)]
        if not self.use_buffers:
            copied += zip(self.module.buffers(), model.buffers(), strict=True)
        self._enter([(a, b) for a, b in pairs if _is_continuous(a)])
        for average, current in copied:
            average.copy_(current)
        self.n_averaged.add_(1)

    def _enter(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Let values enter their averages, which are the values themselves at first."""
        is_first = self.n_averaged == 0
        is_known = is_plain(is_first)
        if pairs and not (is_known and is_first.item()):
            found = [a if is_known else a.clone() for a, _ in pairs]
            self._average(found, [b for _, b in pairs])
            pairs = [] if is_known else [(a, where(is_first, b, f)) for (a, b), f in zip(pairs, found, strict=True)]
        for average, current in pairs:
            average.copy_(current)

    def _average(self, averages: list[Tensor], currents: list[Tensor]) -> None:
        if self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, currents, self.n_averaged)
        else:
            _for_many(self.avg_fn or get_swa_avg_fn())(averages, currents, self.n_averaged)


def _is_continuous(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of the batch normalization layers of a model anew, from all batches of a loader.

    Batches may be tuples or lists whose first entry is the input.

    >>> import lucid
    >>> from lucid.nn.layers.normalization import BatchNorm1d
    >>> model = BatchNorm1d(1)
    >>> batches = [lucid.tensor([[1.0], [3.0]]), lucid.tensor([[4.0], [8.0]])]
    >>> lucid.optim.swa_utils.update_bn(batches, model)
    >>> model.running_mean
    Tensor([4.])
    """
    as_device(device)
    layers = [m for m in model.modules() if isinstance(m, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    layers = [layer for layer in layers if layer.track_running_stats]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(FactorLR):
    """Moves the learning rate to `swa_lr` within `anneal_epochs`, along half a cosine or a line, and keeps it there.

    >>> import lucid
    >>> optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=1.0)
    >>> schedule = lucid.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ANNEALING:
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = whole_number(self, "anneal_epochs", anneal_epochs, 0)
        for group, rate in zip(optimizer.param_groups, for_each_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _floors(self) -> list[Any]:
        return [group["swa_lr"] for group in self.optimizer.param_groups]

    def factor_at(self, epoch: int) -> float:
        """What is left of the way to `swa_lr` at an epoch."""
        part = min(1.0, epoch / self.anneal_epochs) if self.anneal_epochs else 1.0
        return float(ANNEALING[self._anneal_strategy](1.0, 0.0, part))


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
