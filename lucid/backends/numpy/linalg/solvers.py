"""Systems of linear equations, and inverses."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
)
from lucid.backends.numpy.linalg.routines import LARGE, PANEL, lapack, one_by_one, places, routine
from lucid.core.kernels import fill


def _singularity_array(x: Any) -> Any:
    """For each matrix 0, or the number of the first pivot that is 0."""
    info = np.zeros(x.shape[:-2], np.int32)
    try:
        _inverted(x)
    except np.linalg.LinAlgError:
        factor = lapack("getrf", x.dtype)
        for i in np.ndindex(info.shape):
            info[i] = factor(x[i])[2]
    return info


def _inverted(x: Any) -> Any:
    """The inverses; NumPy's error if a pivot is 0."""
    n = x.shape[-1]
    if n < LARGE:
        return np.linalg.inv(x)
    getrf, getri, out = lapack("getrf", x.dtype), lapack("getri", x.dtype), np.empty(x.shape, x.dtype)
    for i in np.ndindex(x.shape[:-2]):
        factors, pivots, info = getrf(x[i])
        if info > 0:
            raise np.linalg.LinAlgError
        out[i] = getri(factors, pivots, lwork=PANEL * n, overwrite_lu=True)[0]
    return out


def solutions(a: Any, b: Any) -> Any:
    """The solutions X of A X = B; NumPy's error if a pivot is 0."""
    if not one_by_one(a, b):
        return np.linalg.solve(a, b)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*stack, *b.shape[-2:]), np.result_type(a, b))
    gesv = routine("gesv", a)
    if stack:
        a, b = np.broadcast_to(a, (*stack, *a.shape[-2:])), np.broadcast_to(b, out.shape)
    for i in places(stack):
        *_, out[i], info = gesv(a[i], b[i])
        if info > 0:
            raise np.linalg.LinAlgError
    return out


def _raise_if_singular(name: str, x: Any, info: Any) -> None:
    if info.any():
        first = int(np.flatnonzero(info)[0])
        raise LinAlgError(
            f"{name}: {element(first, x)}the matrix is singular: pivot {info.reshape(-1)[first]} of its elimination is 0"
        )


def _solved(function: Any, name: str, strict: bool, a: Any, *right: Any) -> Any:
    """The function of invertible matrices; of others nan, or an error if `strict`."""
    with np.errstate(all="ignore"):
        try:
            return function(a, *right)
        except np.linalg.LinAlgError:
            if strict:
                _raise_if_singular(name, a, _singularity_array(a))
            # Which matrices these are must come from the function itself: another LAPACK may round a pivot of 0 to another
            # number.
            return _one_by_one(function, name, strict, a, *right)


def _one_by_one(function: Any, name: str, strict: bool, a: Any, *right: Any) -> Any:
    lead = np.broadcast_shapes(a.shape[:-2], *[r.shape[:-2] for r in right])
    stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, *right)]
    out = np.full(stacks[-1].shape, np.nan, np.result_type(a, *right))
    for i in np.ndindex(lead):
        try:
            out[i] = function(*[x[i] for x in stacks])
        except np.linalg.LinAlgError:
            if strict:
                raise LinAlgError(f"{name}: the matrix is singular") from None
    return out


def inverses(x: Any, strict: bool) -> Any:
    """The inverses of an array's matrices: of singular ones nan, or an error if `strict`."""
    return _solved(_inverted, "linalg.inv", strict, x)


fill(
    {
        "singularity": _singularity_array,
        "inverse": inverses,
        "solve": lambda a, b, strict: _solved(solutions, "linalg.solve", strict, a, b),
    }
)
