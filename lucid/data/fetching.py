"""Getting batches out of a dataset, the same in the main process and in workers."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lucid.core.tensor import Tensor, is_plain, of_class
from lucid.data.collation import default_collate
from lucid.data.datasets import IterableDataset, StackDataset, Subset, TensorDataset, samples

Fetch = Callable[[Any], Any]


class Recipe:
    """How batches are made: from which dataset, by which collation, in which sizes.

    `batched` says whether the indices come in lists; without it, each sample is passed on by itself.
    """

    __slots__ = ("batch_size", "batched", "collate", "dataset", "drop_last")

    def __init__(self, dataset: Any, collate: Any, batched: bool, batch_size: int | None, drop_last: bool) -> None:
        self.dataset = dataset
        self.collate = collate
        self.batched = batched
        self.batch_size = batch_size
        self.drop_last = drop_last

    @property
    def is_stream(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def fetcher(self) -> Fetch:
        """The function that makes a batch of indices (or a sample of one index)."""
        dataset, collate = self.dataset, self.collate
        if not self.batched:
            return lambda index: collate(dataset[index])
        gather = gatherer(dataset) if collate is default_collate else None
        if gather is None:
            return lambda indices: collate(samples(dataset, indices))

        def gather_or_collate(indices: Any) -> Any:
            positions = np.asarray(indices)
            if positions.ndim == 1 and positions.size and positions.dtype.kind in "iu":
                return gather(positions)
            return collate(samples(dataset, indices))

        return gather_or_collate

    def stream(self) -> Iterator[Any]:
        """The batches of a stream of samples."""
        source = iter(self.dataset)
        if not self.batched:
            for sample in source:
                yield self.collate(sample)
            return
        assert self.batch_size is not None
        while batch := list(itertools.islice(source, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate(batch)


def gatherer(dataset: Any) -> Fetch | None:
    """How to make a whole batch with one index operation per tensor, where that gives what default collation gives.

    (A batch of 256 rows of 784 numbers and their labels: 0.2 ms, against 2.4 ms sample by sample.)
    """
    kind = type(dataset)
    if kind is Tensor:
        return lambda positions: _rows(dataset, positions)
    if _unchanged(kind, TensorDataset):
        return lambda positions: [_rows(t, positions) for t in dataset.tensors]
    if _unchanged(kind, Subset):
        return _subset_gatherer(dataset)
    if _unchanged(kind, StackDataset):
        return _stack_gatherer(dataset.datasets)
    return None


def _unchanged(kind: type, base: Any) -> bool:
    """Whether the samples of a class are found as those of `base` are."""
    return issubclass(kind, base) and all(
        getattr(kind, name, None) is getattr(base, name, None) for name in ("__getitem__", "__getitems__")
    )


def _subset_gatherer(subset: Subset) -> Fetch | None:
    inner = gatherer(subset.dataset)
    chosen = np.asarray(subset.indices)
    if inner is None or chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        return None
    return lambda positions: inner(chosen[positions])


def _stack_gatherer(datasets: Sequence[Any] | dict[str, Any]) -> Fetch | None:
    parts = datasets.values() if isinstance(datasets, dict) else datasets
    found = [gather for gather in map(gatherer, parts) if gather is not None]
    if len(found) < len(datasets):
        return None
    if isinstance(datasets, dict):
        names = list(datasets)
        return lambda positions: {name: gather(positions) for name, gather in zip(names, found)}
    return lambda positions: [gather(positions) for gather in found]


def _rows(t: Tensor, positions: Any) -> Tensor:
    if not is_plain(t) or t.requires_grad:
        return t[positions]
    array = t._array
    # take copies whole rows and is the fastest way, but would first copy an array that is not contiguous.
    rows = array.take(positions, axis=0) if array.flags.c_contiguous else array[positions]
    return of_class((t,), Tensor._wrap(rows))


__all__ = ["Fetch", "Recipe", "gatherer"]
