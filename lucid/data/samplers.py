"""Samplers: in which order the samples of a dataset are visited, and how they are grouped into batches.

All random choices of an epoch are drawn when the iteration starts, so that it does not matter how far ahead of the
training loop a sampler is read.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from lucid.api.creation import as_tensor
from lucid.api.random import multinomial, randint, randperm
from lucid.api.rng import Generator, seeded
from lucid.core.tensor import Tensor

Index = TypeVar("Index", covariant=True)
_CHUNK = 4096


class Sampler(ABC, Generic[Index]):
    """An order of indices: a subclass gives `__iter__`, and `__len__` where the number is known.

    >>> from lucid.data import Sampler
    >>> class Evens(Sampler):
    ...     def __init__(self, n):
    ...         self.n = n
    ...     def __iter__(self):
    ...         return iter(range(0, self.n, 2))
    >>> list(Evens(5))
    [0, 2, 4]
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Index]:
        """The indices of one epoch."""


class SequentialSampler(Sampler[int]):
    """All indices in their order.

    >>> from lucid.data import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Without replacement every index comes once, then in another order once more, until there are `num_samples`; with
    replacement each is drawn from all of them.

    >>> import lucid
    >>> from lucid.data import RandomSampler
    >>> sorted(RandomSampler(range(4)))
    [0, 1, 2, 3]
    >>> len(list(RandomSampler(range(4), replacement=True, num_samples=10)))
    10
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | int | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be True or False, not {replacement!r}")
        if num_samples is not None:
            _raise_unless_count(num_samples, "RandomSampler: num_samples")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = seeded(generator)

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has; by default as many as there are samples."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        if not n:
            if count:
                raise ValueError(f"RandomSampler: {count} samples wanted, but there are none to choose from")
            return iter(())
        if self.replacement:
            return _one_by_one([randint(n, (count,), generator=self.generator)])
        rounds = [randperm(n, generator=self.generator) for _ in range(-(-count // n))]
        return itertools.islice(_one_by_one(rounds), count)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """Given indices in random order.

    >>> from lucid.data import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([5, 3, 8]))
    [3, 5, 8]
    """

    def __init__(self, indices: Sequence[Any], generator: Generator | int | None = None) -> None:
        self.indices = indices
        self.generator = seeded(generator)

    def __iter__(self) -> Iterator[Any]:
        order = randperm(len(self.indices), generator=self.generator)
        return (self.indices[i] for i in _one_by_one([order]))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to `weights`.

    >>> from lucid.data import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 2.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor | np.ndarray,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | int | None = None,
    ) -> None:
        _raise_unless_count(num_samples, "WeightedRandomSampler: num_samples")
        if not isinstance(replacement, bool):
            raise TypeError(f"WeightedRandomSampler: replacement must be True or False, not {replacement!r}")
        self.weights = as_tensor(weights, dtype=np.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"WeightedRandomSampler: weights must have one dimension, not shape {self.weights.shape}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = seeded(generator)

    def __iter__(self) -> Iterator[int]:
        return _one_by_one([multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """The indices of another sampler in lists of `batch_size`; the last may be shorter, unless `drop_last`.

    >>> from lucid.data import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _raise_unless_count(batch_size, "BatchSampler: batch_size")
        if not isinstance(drop_last, bool):
            raise TypeError(f"BatchSampler: drop_last must be True or False, not {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        return self._batches(iter(self.sampler))

    def _batches(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        size = self.batch_size
        while batch := list(itertools.islice(indices, size)):
            if len(batch) == size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count: int = len(self.sampler)  # type: ignore[arg-type] # a sampler without a length has no number of batches
        return batch_count(count, self.batch_size, self.drop_last)


def batch_count(samples: int, batch_size: int, drop_last: bool) -> int:
    """How many batches there are in a number of samples."""
    return samples // batch_size if drop_last else -(-samples // batch_size)


def _one_by_one(drawn: list[Tensor]) -> Iterator[int]:
    """The elements as Python numbers, of which only some exist at a time."""
    chunks = (t[start : start + _CHUNK].tolist() for t in drawn for start in range(0, len(t), _CHUNK))
    return itertools.chain.from_iterable(chunks)


def _raise_unless_count(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}")


__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip
