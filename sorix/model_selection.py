"""Splits of data frames."""

from typing import Any

import numpy as np


def train_test_split(
    X: Any,  # noqa: N803  # Sorix's names
    Y: Any = None,  # noqa: N803
    test_size: float = 0.2,
    random_state: int = 42,
    shuffle: bool = True,
) -> tuple[Any, ...]:
    """Rows of a data frame for training and for tests, and those of `Y` which belong to them.

    NumPy's global generator is seeded with `random_state`.
    """
    if not 0 < test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, not {test_size}")
    np.random.seed(random_state)
    order = np.random.permutation(len(X)) if shuffle else np.arange(len(X))
    count = int(len(X) * (1 - test_size))
    parts = [_rows(values, rows) for values in (X, Y) if values is not None for rows in (order[:count], order[count:])]
    return tuple(parts)


def _rows(values: Any, rows: Any) -> Any:
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


__all__ = ["train_test_split"]
