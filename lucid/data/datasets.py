"""Datasets: samples found by their number, or streams of samples."""

import bisect
import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from lucid.api.random import randperm
from lucid.api.rng import Generator, seeded
from lucid.core.tensor import Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(ABC, Generic[Sample]):
    """Samples found by number: a subclass gives `__getitem__`, and `__len__` where samplers need it.

    A subclass may also give `__getitems__(indices)`, which returns the samples of a whole batch as a list.

    >>> from lucid.data import Dataset
    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index * index
    ...     def __len__(self):
    ...         return 10
    >>> Squares()[3]
    9
    """

    @abstractmethod
    def __getitem__(self, index: Any) -> Sample:
        """The sample with this number."""

    def __add__(self, other: "Dataset[Any]") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """A stream of samples: a subclass gives `__iter__`.

    With several workers each has a copy of the stream; `get_worker_info` tells which part of it to produce.

    >>> from lucid.data import DataLoader, IterableDataset
    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Sample]:
        """The stream from its beginning."""

    def __getitem__(self, index: Any) -> Sample:
        raise TypeError(f"{type(self).__name__} is a stream of samples: iterate over it, it cannot be indexed")

    def __add__(self, other: Dataset[Any]) -> "ChainDataset":  # type: ignore[override] # streams chain, others concatenate
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i consists of row i of each tensor.

    >>> import lucid
    >>> from lucid.data import TensorDataset
    >>> TensorDataset(lucid.tensor([[1.0], [2.0]]), lucid.tensor([0, 1]))[1]
    (Tensor([2.]), Tensor(1))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset needs at least one tensor")
        for position, t in enumerate(tensors):
            if not isinstance(t, Tensor):
                raise TypeError(f"TensorDataset: argument {position} is {type(t).__name__}, expected a Tensor")
        if not all(t.ndim and len(t) == len(tensors[0]) for t in tensors):
            shapes = ", ".join(str(t.shape) for t in tensors)
            raise ValueError(f"TensorDataset: the tensors must have equally many rows; got shapes {shapes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample i has sample i of each, as a tuple, or as a dict if they are given by name.

    >>> from lucid.data import StackDataset
    >>> StackDataset([1, 2], "ab")[1]
    (2, 'b')
    >>> StackDataset(number=[1, 2], letter="ab")[0]
    {'number': 1, 'letter': 'a'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give datasets either by position or by name, and at least one")
        self.datasets = args or kwargs
        lengths = [len(d) for d in args or kwargs.values()]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: the datasets differ in length: {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple([d[index] for d in self.datasets])

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other.

    >>> from lucid.data import ConcatDataset
    >>> both = ConcatDataset([[1, 2], [3]])
    >>> len(both), both[2]
    (3, 3)
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset needs at least one dataset")
        for d in self.datasets:
            if isinstance(d, IterableDataset):
                raise TypeError(f"ConcatDataset: {type(d).__name__} is a stream; join streams with ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: Any) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} is out of range for a dataset of {len(self)} samples")
        which = bisect.bisect_right(self.cumulative_sizes, place)
        return self.datasets[which][place - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other.

    >>> from lucid.data import ChainDataset, IterableDataset
    >>> class Letters(IterableDataset):
    ...     def __init__(self, text):
    ...         self.text = text
    ...     def __iter__(self):
    ...         return iter(self.text)
    >>> list(ChainDataset([Letters("ab"), Letters("c")]))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise TypeError(f"ChainDataset joins IterableDatasets, not {type(d).__name__}; use ConcatDataset")
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


class Subset(Dataset[Any]):
    """The samples of a dataset that `indices` names.

    >>> from lucid.data import Subset
    >>> list(Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    dataset: Any
    indices: Sequence[Any]

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def samples(dataset: Any, indices: Iterable[Any]) -> list[Any]:
    """The samples with these numbers, all at once where the dataset can do that."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(list(indices))
    return [dataset[i] for i in indices]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | int | None = None
) -> list[Subset]:
    """Deal out the samples of a dataset at random to subsets of given lengths.

    Lengths that add up to 1 are fractions; what is left after rounding down goes to the first subsets, one sample each.

    >>> import lucid
    >>> from lucid.data import random_split
    >>> train, test = random_split(range(10), [0.75, 0.25], generator=lucid.Generator().manual_seed(0))
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    total = len(dataset)
    sizes = _sizes(total, lengths)
    if sum(sizes) != total:
        raise ValueError(f"random_split: lengths {sizes} add up to {sum(sizes)}, but the dataset has {total} samples")
    order = randperm(total, generator=seeded(generator)).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _sizes(total: int, lengths: Sequence[int | float]) -> list[int]:
    if any(not n >= 0 for n in lengths):
        raise ValueError(f"random_split: lengths must not be negative, got {list(lengths)}")
    if all(float(n).is_integer() for n in lengths) and sum(lengths) == total:
        return [int(n) for n in lengths]
    if not math.isclose(sum(lengths), 1):
        whole = [int(n) for n in lengths if float(n).is_integer()]
        if len(whole) == len(lengths):
            return whole
        raise ValueError(f"random_split: fractions must add up to 1, but {list(lengths)} add up to {sum(lengths)}")
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if not size:
            warnings.warn(f"random_split: subset {i} is empty", stacklevel=3)
    return sizes


__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip
