"""Samplers that divide a dataset among several processes that train the same model."""

from collections.abc import Iterator, Sized

from lucid import distributed
from lucid.api.random import randperm
from lucid.api.rng import Generator
from lucid.data.samplers import Sampler

__all__ = ["DistributedSampler", "RASampler"]


class _ForReplicas(Sampler[int]):
    """An order for each epoch, drawn from `seed + epoch`, which is the same in all processes.

    By default there are as many parts as processes, and the own one has the number of this process.
    """

    def __init__(self, dataset: Sized, num_replicas: int | None, rank: int | None, shuffle: bool, seed: int) -> None:
        self.dataset = dataset
        joined = distributed.is_initialized()
        self.num_replicas = (distributed.get_world_size() if joined else 1) if num_replicas is None else num_replicas
        self.rank = (distributed.get_rank() if joined else 0) if rank is None else rank
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        name = type(self).__name__
        if self.num_replicas < 1:
            raise ValueError(f"{name}: num_replicas must be at least 1, not {num_replicas}")
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"{name}: rank must be from 0 to {self.num_replicas - 1}, not {rank}")

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: each has an order of its own."""
        self.epoch = epoch

    def _order(self) -> list[int]:
        count = len(self.dataset)
        if not self.shuffle:
            return list(range(count))
        return list(randperm(count, generator=Generator(seed=self.seed + self.epoch)).tolist())


class DistributedSampler(_ForReplicas):
    """Every `num_replicas`-th index, from the `rank`-th on; what does not divide evenly is filled up from the start, or
    with `drop_last` left out.

    >>> from lucid.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle, seed)
        self.drop_last = drop_last
        count, parts = len(dataset), self.num_replicas
        self.num_samples = count // parts if drop_last else -(-count // parts)
        self.total_size = self.num_samples * parts

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        while order and len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


class RASampler(_ForReplicas):
    """Repeated augmentation: each index `num_repeats` times in a row, of which each process takes a part without overlap,
    and of that as many as it would see without repeats.

    >>> from lucid.data import RASampler
    >>> list(RASampler(range(4), 2, 0, shuffle=False, num_repeats=2))
    [0, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        num_repeats: int = 3,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle, seed)
        if num_repeats < 1:
            raise ValueError(f"RASampler: num_repeats must be at least 1, not {num_repeats}")
        self.num_repeats = num_repeats
        self.num_samples = len(dataset) // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        repeated = [i for i in self._order() for _ in range(self.num_repeats)]
        share = -(-len(repeated) // self.num_replicas)
        part = repeated[self.rank * share : (self.rank + 1) * share]
        return iter(part[: self.num_samples])

    def __len__(self) -> int:
        return self.num_samples
