"""Datasets over arrays, the DataLoader, and folds for series."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lucid.data
from sorix.tensor import Tensor


class Dataset:
    """Samples in arrays or lists, with labels and transforms of either if wanted.

    >>> from sorix.utils.data import Dataset
    >>> Dataset([[1.0], [2.0]], [0, 1])[1], Dataset([1, 2])
    (([2.0], 1), Dataset(len=2, has_labels=False, has_transform=False))
    """

    def __init__(
        self,
        X: Any,  # noqa: N803  # Sorix's name
        y: Any = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if y is not None and len(X) != len(y):
            raise ValueError(f"X and y must have the same length, not {len(X)} and {len(y)}")
        self.X, self.y = X, y
        self.transform, self.target_transform = transform, target_transform

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: Any) -> Any:
        x = self.X[index]
        x = x if self.transform is None else self.transform(x)
        if self.y is None:
            return x
        y = self.y[index]
        return x, y if self.target_transform is None else self.target_transform(y)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.y is None:
            self.X[index] = value
            return
        if not isinstance(value, tuple) or len(value) != 2:
            raise ValueError("with labels, the value must be a tuple (x, y)")
        self.X[index], self.y[index] = value

    def __repr__(self) -> str:
        labels, changed = self.y is not None, self.transform is not None
        return f"Dataset(len={len(self)}, has_labels={labels}, has_transform={changed})"


class _Shuffled:
    """The numbers below a length, in another order of NumPy's global generator each time."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.permutation(len(self.dataset)).tolist())


class DataLoader(lucid.data.DataLoader):
    """Batches of samples, each of which is a tensor, or a tuple of tensors; types stay those of the samples.

    >>> import numpy as np
    >>> from sorix.utils.data import DataLoader, Dataset
    >>> loader = DataLoader(Dataset(np.arange(3.0), np.arange(3)), batch_size=2)
    >>> len(loader), list(loader)[1]
    (2, (tensor([2.], dtype=sorix.float64), tensor([2])))
    """

    def __init__(
        self, dataset: Any, batch_size: int = 16, shuffle: bool = False, collate_fn: Callable[..., Any] | None = None
    ) -> None:
        sampler = _Shuffled(dataset) if shuffle else range(len(dataset))
        super().__init__(dataset, batch_size, sampler=sampler, collate_fn=collate_fn or collated)
        self.shuffle = shuffle


def collated(samples: Any) -> Any:
    """Samples as one batch: of tuples a tuple of tensors, of anything else one tensor."""
    if isinstance(samples[0], tuple | list):
        return tuple(Tensor(np.array([np.asarray(v) for v in field])) for field in zip(*samples, strict=True))
    return Tensor(np.array([np.asarray(s) for s in samples]))


class WalkForwardSplit:
    """Folds of a series in which each part for validation follows the one for training, `gap` samples later.

    The last fold ends with the series. Parts for training grow (`expanding`), or have `train_size` samples, which is
    also what decides unless `expanding` is given.

    >>> from sorix.utils.data import WalkForwardSplit
    >>> list(WalkForwardSplit(n_splits=2, val_size=1).split([1, 2, 3, 4]))
    [([1, 2], [3]), ([1, 2, 3], [4])]
    """

    def __init__(
        self,
        n_splits: int = 5,
        train_size: int | None = None,
        val_size: int | None = None,
        gap: int = 0,
        expanding: bool | None = None,
    ) -> None:
        if n_splits < 1 or gap < 0:
            raise ValueError(f"n_splits must be >= 1 and gap >= 0, not {n_splits} and {gap}")
        self.n_splits, self.train_size, self.val_size, self.gap = n_splits, train_size, val_size, gap
        self.expanding = train_size is None if expanding is None else expanding

    def split(self, X: Any, y: Any = None) -> Iterator[tuple[Any, ...]]:  # noqa: N803  # Sorix's name
        """The folds, as slices `(train_X, train_y, val_X, val_y)`, or `(train_X, val_X)` without labels."""
        if y is not None and len(X) != len(y):
            raise ValueError(f"X and y must have the same length, not {len(X)} and {len(y)}")
        size = self.val_size or len(X) // (self.n_splits + 1)
        first = len(X) - self.n_splits * size
        shortest = first - self.gap
        if size < 1 or shortest < (self.train_size or 1):
            raise ValueError(f"{len(X)} samples are too few for {self.n_splits} folds of these sizes")
        for begin in range(first, len(X), size):
            stop = begin - self.gap
            train = slice(0 if self.expanding else stop - (self.train_size or shortest), stop)
            held = slice(begin, begin + size)
            parts = [_rows(X, train), _rows(y, train), _rows(X, held), _rows(y, held)]
            yield tuple(parts) if y is not None else (parts[0], parts[2])


def _rows(values: Any, where: slice) -> Any:
    if values is None:
        return None
    return values.iloc[where] if hasattr(values, "iloc") else values[where]


__all__ = ["DataLoader", "Dataset", "WalkForwardSplit"]
