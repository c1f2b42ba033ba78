"""Factorizations into triangles: Cholesky's A = L L^H of positive-definite matrices, and A = P L U."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
)
from lucid.backends.numpy.linalg.routines import lapack, one_by_one, places, routine
from lucid.core.kernels import fill


def _cholesky_array(x: Any, checked: str) -> tuple[Any, Any]:
    info = np.zeros(x.shape[:-2], np.int32)
    if not x.size:
        return np.zeros_like(x), info
    try:
        found = _one_by_one(x, info) if one_by_one(x) else np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        found = _one_by_one(x, info)
    # Not every LAPACK says that nan is not positive. All rows below the first one have it too.
    if np.isnan(found[..., -1, -1]).any():
        lost = np.isnan(np.diagonal(found, axis1=-2, axis2=-1))
        np.copyto(info, np.argmax(lost, -1) + 1, where=lost.any(-1) & (info == 0), casting="same_kind")
    if checked and info.any():
        wrong = int(np.argmax(info.reshape(-1) != 0))
        raise LinAlgError(
            f"{checked}: {element(wrong, x)}the matrix is not positive-definite: "
            f"its leading minor of order {info.reshape(-1)[wrong]} is not positive"
        )
    return found, info


def _one_by_one(x: Any, info: Any) -> Any:
    """Each matrix as far as it goes, and into `info` how far that was."""
    potrf = routine("potrf", x)
    out = np.empty(x.shape, x.dtype)
    for i in places(info.shape):
        out.swapaxes(-1, -2)[i], info[i] = potrf(x[i].T, lower=False, clean=True)  # LAPACK counts by columns
    return out


def _checked_factor_array(x: Any) -> Any:
    zero = np.diagonal(x, axis1=-2, axis2=-1) == 0
    if zero.any():
        wrong = int(np.argmax(zero.any(-1).reshape(-1)))
        at = int(np.argmax(zero.reshape(-1, zero.shape[-1])[wrong])) + 1
        raise LinAlgError(
            f"cholesky_inverse: {element(wrong, x)}L[{at}, {at}] is zero, counted from 1, so that A has no inverse"
        )
    return x


def _lu_array(x: Any, pivot: bool, checked: str) -> tuple[Any, Any, Any]:
    stack, k = x.shape[:-2], min(x.shape[-2:])
    if not pivot:
        out, pivots = _eliminated(x), np.zeros((*stack, k), np.int32) + np.arange(k, dtype=np.int32)
    else:
        out, pivots = np.empty(x.shape, x.dtype), np.empty((*stack, k), np.int32)
        getrf = lapack("getrf", x.dtype)
        for i in places(stack) if x.size else ():
            out[i], pivots[i], _ = getrf(x[i])
    zero = out.diagonal(0, -2, -1) == 0
    info = np.zeros(stack, np.int32)
    if zero.any():
        info[...] = np.where(zero.any(-1), np.argmax(zero, -1) + 1, 0)
    if checked and info.any():
        wrong = int(np.argmax(info.reshape(-1) != 0))
        at = info.reshape(-1)[wrong]
        raise LinAlgError(
            f"{checked}: {element(wrong, x)}U[{at}, {at}] is zero, counted from 1, so that lu_solve would divide by "
            "zero; linalg.lu and linalg.lu_factor_ex factor such matrices too"
        )
    return out, pivots + np.int32(1), info


def _eliminated(x: Any) -> Any:
    """L and U in one matrix, without exchanges of rows, which LAPACK cannot leave out."""
    out = np.array(x)
    for j in range(min(x.shape[-2:])):
        top = out[..., j, j]
        out[..., j + 1 :, j] /= np.where(top == 0, 1, top)[..., None]
        out[..., j + 1 :, j + 1 :] -= out[..., j + 1 :, j : j + 1] * out[..., j : j + 1, j + 1 :]
    return out


def _order_array(pivots: Any, m: int) -> Any:
    """The exchanges of rows, one after the other, as the order of rows that they lead to."""
    order = np.empty((*pivots.shape[:-1], m), np.int64)
    order[...] = np.arange(m)
    height = math.prod(pivots.shape[:-1])
    flat, steps = order.reshape(height, m), pivots.reshape(height, pivots.shape[-1]).astype(np.int64) - 1
    if steps.size and (steps.min() < 0 or steps.max() >= m):
        raise RuntimeError(f"pivots must lie between 1 and {m}, the number of rows")
    if height == 1:
        rows = flat[0].tolist()
        for j, step in enumerate(steps[0].tolist()):
            rows[j], rows[step] = rows[step], rows[j]
        flat[0] = rows
        return order
    each = np.arange(len(flat))
    for j in range(steps.shape[1]):
        flat[each, j], flat[each, steps[:, j]] = flat[each, steps[:, j]], flat[each, j]
    return order


def _permutation_array(pivots: Any, m: int, type: Any) -> Any:
    """The matrix P of A = P L U: its column i has a 1 in the row of A that became row i."""
    order = _order_array(pivots, m)
    return (np.arange(m)[:, None] == order[..., None, :]).astype(type)


fill(
    {
        "cholesky": _cholesky_array,
        "checked_factor": _checked_factor_array,
        "permutation": _permutation_array,
        "lu_factor": _lu_array,
    }
)
