"""The DataLoader: batches of a dataset, made here or by worker processes."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from lucid.api.random import randint
from lucid.api.rng import Generator
from lucid.data.collation import default_collate, default_convert
from lucid.data.datasets import IterableDataset
from lucid.data.fetching import Recipe
from lucid.data.samplers import BatchSampler, RandomSampler, SequentialSampler, batch_count

Batch = TypeVar("Batch", covariant=True)
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class DataLoader(Generic[Batch]):
    """Batches of a dataset, in order or shuffled, made here or ahead of time by worker processes.

    - `dataset` has `__getitem__` and `__len__`, or is an `IterableDataset`.
    - The order comes from `shuffle`, a `sampler` of indices, or a `batch_sampler` of lists of indices. With
      `batch_size=None` samples come one by one.
    - `collate_fn` makes a batch of a list of samples; `default_collate` unless given.
    - `num_workers` processes make batches ahead of time, each `prefetch_factor` of them (2 unless given). Batches come
      in the same order whatever their number. An error in a worker is raised here with its trace. `timeout` limits the
      seconds to wait for a batch. `multiprocessing_context` is a start method ("fork", "spawn", "forkserver") or a
      context of `multiprocessing`.
    - With `persistent_workers` the processes live on from epoch to epoch; they are seeded once.
    - `generator` shuffles, and gives each epoch the base seed of its workers (see `get_worker_info`).
    - `pin_memory` is accepted and changes nothing: there is no other memory to copy from.

    A loop that is left early, by `break` or by an exception, ends the workers; so does the end of the program.

    >>> import lucid
    >>> from lucid.data import DataLoader, TensorDataset
    >>> data = TensorDataset(lucid.arange(5), lucid.arange(5) * 10)
    >>> for x, y in DataLoader(data, batch_size=2):
    ...     print(x, y)
    Tensor([0, 1]) Tensor([ 0, 10])
    Tensor([2, 3]) Tensor([20, 30])
    Tensor([4]) Tensor([40])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        _check_order(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers = persistent_workers
        self.drop_last = drop_last
        self.sampler = self._chosen_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None and not isinstance(dataset, IterableDataset):
            self.batch_size: int | None = batch_size
            self.batch_sampler: Any = BatchSampler(self.sampler, batch_size, drop_last)
        else:
            self.batch_size = None if batch_sampler is not None else batch_size
            self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._idle: Any = None  # workers that wait for the next epoch

    def _chosen_sampler(self, shuffle: bool | None) -> Any:
        if isinstance(self.dataset, IterableDataset):
            return itertools.repeat(None)
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def _batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    @property
    def _tasks(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and hasattr(self, "_idle"):
            raise ValueError(f"{name} of a DataLoader cannot be changed; make a new DataLoader")
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": None}

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._tasks)
        if not hasattr(self.dataset, "__len__"):
            raise TypeError(f"the number of batches is unknown: {type(self.dataset).__name__} has no __len__")
        count = len(self.dataset)
        return count if self.batch_size is None else batch_count(count, self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        # Drawn with and without workers: their number must not change what a seed gives.
        base_seed = int(randint(0, 1 << 62, (), generator=self.generator).item())
        recipe = Recipe(self.dataset, self.collate_fn, self._batched, self.batch_size, self.drop_last)
        tasks = iter(self._tasks)
        if self.num_workers:
            return self._from_workers(recipe, tasks, base_seed)
        if recipe.is_stream:
            return recipe.stream()
        fetch = recipe.fetcher()
        return (fetch(task) for task in tasks)

    def _from_workers(self, recipe: Recipe, tasks: Iterator[Any], base_seed: int) -> Iterator[Any]:
        # Imported here because it brings in multiprocessing: 30 ms that other programs need not spend.
        import multiprocessing

        from lucid.data.worker_pool import WorkerIterator, WorkerPool

        pool, self._idle = self._idle, None
        if pool is None or not pool.usable:
            context = self.multiprocessing_context
            if context is None or isinstance(context, str):
                context = multiprocessing.get_context(context)
            pool = WorkerPool(recipe, self.num_workers, base_seed, self.worker_init_fn, context)
        assert self.prefetch_factor is not None
        return WorkerIterator(pool, tasks, self.prefetch_factor, self.timeout, self._take_back)

    def _take_back(self, pool: Any) -> None:
        if self.persistent_workers and self._idle is None and pool.usable:
            self._idle = pool
        else:
            pool.close()


def _check_workers(num_workers: int, timeout: float, prefetch: int | None, persistent: bool, context: Any) -> None:
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 0:
        raise ValueError(f"DataLoader: num_workers must be a whole number, 0 or more, not {num_workers!r}")
    if not timeout >= 0:
        raise ValueError(f"DataLoader: timeout must not be negative, got {timeout}")
    if prefetch is not None and (not isinstance(prefetch, int) or prefetch < 1):
        raise ValueError(f"DataLoader: prefetch_factor must be a positive whole number, not {prefetch!r}")
    if not num_workers:
        given = {"prefetch_factor": prefetch, "persistent_workers": persistent, "multiprocessing_context": context}
        for name, value in given.items():
            if value:
                raise ValueError(f"DataLoader: {name} needs workers; give num_workers as well")
    if isinstance(context, str):
        import multiprocessing

        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(f"DataLoader: no start method {context!r} here; choose from {', '.join(known)}")


def _check_order(
    dataset: Any, batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if isinstance(dataset, IterableDataset):
        for name, value in {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}.items():
            if value:
                raise ValueError(f"DataLoader: {name} cannot be given for a stream, which has its own order")
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: give either a sampler or shuffle=True, not both")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
    if batch_size is None and drop_last:
        raise ValueError("DataLoader: drop_last needs a batch_size")
    if batch_size is not None and (isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"DataLoader: batch_size must be a positive whole number or None, not {batch_size!r}")


__all__ = ["DataLoader"]
