"""Where the entries of sparse tensors stand: questions that are no primitives, since the size of the answer depends on values."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _keys(indices: Any, shape: tuple[int, ...]) -> Any:
    """One number for each position, in row-major order."""
    return np.ravel_multi_index(tuple(indices), shape) if len(shape) else np.zeros(indices.shape[1], np.int64)


def _distinct_positions(indices: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Positions in row-major order, each once, and for each of those given which of them it is."""
    if not indices.shape[1]:
        return indices, np.zeros(0, np.int64)
    keys, inverse = np.unique(_keys(indices, shape), return_inverse=True)
    return np.stack(np.unravel_index(keys, shape)).astype(np.int64), inverse.reshape(-1)


def _common_positions(x: Any, y: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Where positions that both have stand in each; each has them once."""
    _, first, second = np.intersect1d(_keys(x, shape), _keys(y, shape), assume_unique=True, return_indices=True)
    return first, second


def row_of_each(crow: Any) -> Any:
    """The row of each entry."""
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def _joined_entries(crow: Any, col: Any, other_crow: Any) -> tuple[Any, Any]:
    """All pairs of entries whose product is part of a product of matrices: of the first matrix, and of the second."""
    lengths = np.diff(other_crow)[col]
    first = np.repeat(np.arange(len(col)), lengths)
    ends = np.cumsum(lengths)
    offsets = np.arange(len(first)) - np.repeat(ends - lengths, lengths)
    return first, np.repeat(other_crow[:-1][col], lengths) + offsets


def _are_compressed(crow: Any, col: Any, rows: int, columns: int) -> bool:
    """Whether indices are those of compressed rows, each with its columns in order and each of them once."""
    if len(crow) != rows + 1 or crow[0] != 0 or crow[-1] != len(col) or (np.diff(crow) < 0).any():
        return False
    if not len(col):
        return True
    grows = np.diff(col) > 0
    starts = crow[1:-1]
    grows[starts[(starts > 0) & (starts < len(col))] - 1] = True
    return bool(grows.all() and col.min() >= 0 and col.max() < columns)


fill(
    {
        "distinct_positions": _distinct_positions,
        "common_positions": _common_positions,
        "row_of_each": row_of_each,
        "same_elements": np.array_equal,
        "joined_entries": _joined_entries,
        "are_compressed": _are_compressed,
    }
)
