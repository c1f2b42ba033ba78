"""Training with different numbers of inputs: processes that are done answer the collectives of the others, until all are."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from lucid.core.device import device
from lucid.core.tensor import Tensor
from lucid.distributed.collectives import all_reduce
from lucid.distributed.groups import ProcessGroup

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process that has no more inputs does for one object of a `Join`."""

    def main_hook(self) -> None:
        """Answer the collectives of one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is to be done once, when all processes are done; in those that were the last ones, it is True."""


class _Config:
    """What all objects of a `Join` know of it."""

    def __init__(self, enable: bool, throws: bool = False, first: Any = None) -> None:
        self.enable, self.throws, self.first = enable, throws, first
        self.active = 0  # how many processes had an input in the last step
        self.has_joined = False  # whether this one is done


class Joinable(ABC):
    """An object whose steps contain collectives, such as `DistributedDataParallel`."""

    _join_config = _Config(False)

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What answers for this object, by the further arguments of `Join`."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The processes that take the steps."""

    @property
    def join_device(self) -> device:
        """Where tensors of its collectives are."""
        return device("cpu")


class Join:
    """Lets processes with different numbers of inputs train together.

    Inside, each process goes through its inputs. Who is done goes on to answer the collectives of the others: it adds nothing
    to gradients, which are divided by the number of all processes, or with `divide_by_initial_world_size=False` by that of
    those with an input. In the end all have the model of those that were done last. With `throw_on_early_termination` all
    processes raise instead as soon as one is done. Further arguments go to the objects.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> model = lucid.nn.parallel.DistributedDataParallel(lucid.nn.Linear(2, 1))
    >>> with dist.Join([model]):
    ...     for x in lucid.ones(3, 4, 2):
    ...         model(x).sum().backward()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables or not all(isinstance(j, Joinable) for j in joinables):
            raise TypeError("Join: expected a list of objects such as DistributedDataParallel, with at least one")
        groups = [j.join_process_group for j in joinables]
        if any(g is not groups[0] for g in groups):
            raise ValueError("Join: the objects belong to different process groups")
        self.joinables, self.group = list(joinables), groups[0]
        self.config = _Config(enable, throw_on_early_termination, joinables[0])
        self.hooks = [j.join_hook(**kwargs) for j in joinables]

    def __enter__(self) -> Self:
        for each in self.joinables:
            each._join_config = self.config
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            if self.config.enable and kind is None:
                self._answer()
        finally:
            for each in self.joinables:
                del each._join_config

    def _answer(self) -> None:
        self.config.has_joined, is_last = True, True
        while _counted(self.config, self.group, 0):
            is_last = False
            for hook in self.hooks:
                hook.main_hook()
        for hook in self.hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Say that a step with collectives of an object begins. Only the first object of a `Join` does."""
        config = joinable._join_config
        if config.enable and config.first is joinable and not config.has_joined:
            _counted(config, joinable.join_process_group, 1)


def _counted(config: _Config, group: ProcessGroup, mine: int) -> int:
    """How many processes have an input; raises in all of them if one has none and that is an error."""
    found = Tensor.from_data([mine])
    all_reduce(found, group=group)
    config.active = int(found.item())
    if config.throws and 0 < config.active < group.size():
        raise RuntimeError(f"Join: {group.size() - config.active} of {group.size()} processes have no more inputs")
    return config.active
