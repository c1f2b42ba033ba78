"""Losses that are sums over all elements, by generated functions of rows.

What cuts arrays into rows is to be replaced by generated code, too.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import within
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.elementwise import scalar_kernel
from lucid.backends.cpu.generated.rows import row_kernel
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.numpy.nn.losses import of_probabilities
from lucid.core import kernels
from lucid.core.kernels import fill
from lucid.ops.nn.losses import squares_primitive
from lucid.ops.nn.rows import Row
from lucid.ops.rules import P

LONGEST_ROW = 8192  # elements that are summed up as one row


def squared_distance(row: Row, x: Any, y: Any) -> Any:
    """Σ (x - y)² of a row."""
    return row.sum(*squares_primitive.fold(1.0).lift(x, y, None))


_squares = row_kernel(squared_distance)


def _sum_of_squares(x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    size = x.size
    if x.shape == y.shape and len(dims) == x.ndim and size:
        # Rows of one length, and what is left of them.
        whole = size - size % LONGEST_ROW
        flat = contiguous(x).reshape(-1), contiguous(y).reshape(-1)
        cuts = [[v[:whole].reshape(-1, LONGEST_ROW) for v in flat], [v[None, whole:] for v in flat]]
        parts = [_squares.run(tuple(cut), 1, {}) for cut in cuts if cut[0].size]
        if parts[0] is not None:
            total = sum([P.sum.kernel(p, dims=(0, 1), keepdim=False) if len(p) > 1 else p[0, 0] for p in parts])
            return np.asarray(total * total.dtype.type(scale), x.dtype)
    return kernels.reference(squares_primitive)(x, y, dims=dims, scale=scale)


if support.in_use:
    entropy = of_probabilities(scalar_kernel(P.probability_entropy.source, 2, False), within)
    fill({"sum_of_squares": _sum_of_squares, "probability_entropy": entropy}, "cpu")
