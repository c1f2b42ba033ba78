"""The windows of a convolution laid out side by side, and added up again.

A geometry `g` is that of `lucid.ops.nn.convolution`; columns are (examples, channels · taps, places).
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np


def seen(g: Any, first: int, rows: int) -> tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]:
    """What the rows of windows from `first` on see of a padded input: its sizes, and where the input is in it and it in
    the input."""
    begins = [-low for low, _ in g.padding]
    begins[0] += first * g.stride[0]
    counts = (rows, *g.out[1:])
    sizes = tuple((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(counts, g.stride, g.kernel, g.dilation))
    inner = [(max(b, 0), max(min(b + n, size), 0)) for b, n, size in zip(begins, sizes, g.size)]
    there = tuple(slice(i, max(i, j)) for i, j in inner)
    here = tuple(slice(t.start - b, t.stop - b) for t, b in zip(there, begins))
    return sizes, here, there


def taps(g: Any, rows: int) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each tap, and where all windows have it in what they see."""
    counts = (rows, *g.out[1:])
    for tap in product(*map(range, g.kernel)):
        yield (
            tap,
            tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(tap, g.dilation, counts, g.stride)),
        )


def padded(x: Any, g: Any, first: int, rows: int) -> Any:
    """What the rows of windows from `first` on see of an input, with zeros around it."""
    sizes, here, there = seen(g, first, rows)
    out: Any = np.zeros((*x.shape[:2], *sizes), x.dtype)
    out[(..., *here)] = x[(..., *there)]
    return out


def im2col(x: Any, g: Any, first: int, rows: int, out: Any) -> None:
    """Windows laid out side by side, for `rows` rows of windows from the row `first` on."""
    field = padded(x, g, first, rows)
    columns = out.reshape(*x.shape[:2], *g.kernel, rows, *g.out[1:])
    for tap, where in taps(g, rows):
        columns[(slice(None), slice(None), *tap)] = field[(..., *where)]


def col2im(columns: Any, g: Any, first: int, rows: int, out: Any) -> None:
    """The transpose of `im2col`: windows that overlap add up."""
    sizes, here, there = seen(g, first, rows)
    columns = columns.reshape(*out.shape[:2], *g.kernel, rows, *g.out[1:])
    total: Any = np.zeros((*out.shape[:2], *sizes), out.dtype)
    for tap, where in taps(g, rows):
        total[(..., *where)] += columns[(slice(None), slice(None), *tap)]
    out[(..., *there)] += total[(..., *here)]
