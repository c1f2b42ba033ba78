"""Kernels of searches: places among sorted elements, bins, members and counts."""

from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import searches as launch_searches
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.numpy import counting, sorting
from lucid.core import kernels
from lucid.core.dtypes import INT64, UINT64
from lucid.core.primitive import P

_FEW = 1 << 13  # elements that are found among sorted ones in less time than by NumPy's tables


def searchsorted(sequence: Any, values: Any, right: bool) -> Any:
    found = launch_searches.searchsorted(contiguous(sequence), contiguous(values), right)
    return sorting.searchsorted(sequence, values, right) if found is None else found


def bin_numbers(x: Any, edges: Any, even: bool) -> Any:
    found = launch_searches.bin_numbers(contiguous(x), contiguous(edges)) if even else None
    return counting.bin_numbers(x, edges, even) if found is None else found


def isin(x: Any, test: Any, invert: bool, assume_unique: bool) -> Any:
    places = None
    if test.size and x.size + test.size <= _FEW:
        ordered = np.sort(test.reshape(-1))
        places = launch_searches.searchsorted(ordered, contiguous(x), False)
    if places is None:
        return counting.isin(x, test, invert, assume_unique)
    found = ordered[np.minimum(places, len(ordered) - 1)]
    return np.asarray(found != x if invert else found == x)


def occurrences(numbers: Any, least: int) -> Any:
    if numbers.dtype not in (INT64, UINT64):
        numbers = P.cast.kernel(numbers, dtype=INT64, source=numbers.dtype)
    found = launch_searches.counted(contiguous(numbers), least)
    return counting.occurrences(numbers, least) if found is None else found


def triangle_positions(rows: int, columns: int, offset: int, is_lower: bool) -> Any:
    found = launch_searches.triangle(rows, columns, offset, is_lower)
    return counting.triangle_positions(rows, columns, offset, is_lower) if found is None else found


if support.in_use:
    kernels.fill(
        {
            "searchsorted": searchsorted,
            "bin_numbers": bin_numbers,
            "isin": isin,
            "occurrences": occurrences,
            "triangle_positions": triangle_positions,
        },
        "cpu",
    )
