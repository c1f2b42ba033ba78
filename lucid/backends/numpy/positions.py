"""Where the entries of sparse tensors stand: questions that are no primitives, since the size of the answer depends on values."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _keys(indices: Any, shape: tuple[int, ...]) -> Any:
    """One number for each position, in row-major order."""
    return np.ravel_multi_index(tuple(indices), shape) if len(shape) else np.zeros(indices.shape[1], np.int64)


def distinct_positions(indices: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Positions in row-major order, each once; the order of those given; and where in it equal ones begin, if there are any."""
    keys = _keys(indices, shape)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
    if len(begins) == len(keys):
        return indices[:, order], order, None
    return indices[:, order[begins]], order, np.append(begins, len(keys))


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


def are_compressed(crow: Any, col: Any, rows: int, columns: int, ordered: Any = None) -> bool:
    """Whether indices are those of compressed rows, each with its columns in order and each of them once."""
    if len(crow) != rows + 1 or crow[0] != 0 or crow[-1] != len(col) or (crow[1:] < crow[:-1]).any():
        return False
    return bool((ordered or ordered_columns)(crow, col, columns))


def ordered_columns(crow: Any, col: Any, columns: int) -> bool:
    """Whether the columns of each row are in order, each once, and none is outside."""
    if not len(col):
        return True
    grows = np.diff(col) > 0
    starts = crow[1:-1]
    grows[starts[(starts > 0) & (starts < len(col))] - 1] = True
    return bool(grows.all() and col.min() >= 0 and col.max() < columns)


fill(
    {
        "distinct_positions": distinct_positions,
        "common_positions": _common_positions,
        "row_of_each": row_of_each,
        "same_elements": np.array_equal,
        "joined_entries": _joined_entries,
        "are_compressed": are_compressed,
    }
)
