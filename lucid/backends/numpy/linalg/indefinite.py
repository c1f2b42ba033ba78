"""The factorization A = P^T L D L^* P of symmetric or hermitian matrices."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
)
from lucid.backends.numpy.linalg.routines import lapack
from lucid.core.kernels import fill


def _ldl_array(x: Any, hermitian: bool, checked: str) -> tuple[Any, Any, Any]:
    stack, n = x.shape[:-2], x.shape[-1]
    out = np.zeros(x.shape, x.dtype)
    pivots, info = np.zeros((*stack, n), np.int32), np.zeros(stack, np.int32)
    factor = lapack("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", x.dtype)
    for i in np.ndindex(stack) if x.size else ():
        out[i], pivots[i], info[i] = factor(x[i], lower=True)
    if checked and info.any():
        wrong = int(np.argmax(info.reshape(-1) != 0))
        at = info.reshape(-1)[wrong]
        raise LinAlgError(
            f"{checked}: {element(wrong, x)}D[{at}, {at}] is zero, counted from 1, so that ldl_solve would divide by "
            "zero; linalg.ldl_factor_ex factors such matrices too"
        )
    return np.tril(out), pivots, info


def _exchanges(pivots: Any) -> list[tuple[int, int]]:
    """The rows that were exchanged in each step, as numbers from 0, of one matrix."""
    steps, k, n = [], 0, len(pivots)
    while k < n:
        p = int(pivots[k])
        size = 1 if p > 0 else 2
        if not 1 <= abs(p) <= n or k + size > n or (size == 2 and pivots[k + 1] != p):
            raise RuntimeError(f"{pivots.tolist()} are not pivots that linalg.ldl_factor gives for {n} rows")
        steps.append((k + size - 1, abs(p) - 1))
        k += size
    return steps


def _settled_array(x: Any, pivots: Any, back: bool) -> Any:
    out = np.array(x)
    for i in np.ndindex(pivots.shape[:-1]):
        steps = _exchanges(pivots[i])
        for row, other in reversed(steps) if back else steps:
            # A block of two begins one row above the one that was exchanged.
            start = row - 1 if pivots[i][row] < 0 else row
            out[i][[row, other], :start] = out[i][[other, row], :start]
    return out


def _order_array(pivots: Any, type: Any) -> Any:
    """P, which puts the rows of A into the order of those of L."""
    n = pivots.shape[-1]
    out = np.zeros((*pivots.shape, n), type)
    for i in np.ndindex(pivots.shape[:-1]):
        order = np.arange(n)
        for row, other in _exchanges(pivots[i]):
            order[[row, other]] = order[[other, row]]
        out[i][np.arange(n), order] = 1
    return out


def _blocks_array(pivots: Any, type: Any) -> Any:
    """1 in the blocks of D, 0 elsewhere."""
    n = pivots.shape[-1]
    out = np.zeros((*pivots.shape, n), type)
    out[..., np.arange(n), np.arange(n)] = 1
    for i in np.ndindex(pivots.shape[:-1]):
        for row, _ in _exchanges(pivots[i]):
            if pivots[i][row] < 0:
                out[i][[row, row - 1], [row - 1, row]] = 1
    return out


fill(
    {
        "ldl_settled": _settled_array,
        "ldl_order": _order_array,
        "ldl_blocks": _blocks_array,
        "ldl_factor": _ldl_array,
    }
)
