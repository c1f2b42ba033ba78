"""Systems of linear equations, and inverses."""

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs  # type: ignore[import-untyped]  # SciPy has no types

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
)
from lucid.core.kernels import fill


def _singularity_array(x: Any) -> Any:
    """For each matrix 0, or the number of the first pivot that is 0."""
    info = np.zeros(x.shape[:-2], np.int32)
    try:
        np.linalg.inv(x)
    except np.linalg.LinAlgError:
        (factor,) = get_lapack_funcs(("getrf",), (x,))
        for i in np.ndindex(info.shape):
            info[i] = factor(x[i])[2]
    return info


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
            # Which matrices these are must come from NumPy's own LAPACK: SciPy's may round a pivot of 0 to another number.
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
    return _solved(np.linalg.inv, "linalg.inv", strict, x)


fill(
    {
        "singularity": _singularity_array,
        "inverse": inverses,
        "solve": lambda a, b, strict: _solved(np.linalg.solve, "linalg.solve", strict, a, b),
    }
)
