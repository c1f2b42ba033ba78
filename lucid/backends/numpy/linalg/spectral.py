"""Norms made of singular values, with derivatives that are right where other singular values coincide."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.eigen import eigenpairs, factors, singular_values
from lucid.core.kernels import fill


def _nuclear_norm_array(x: Any) -> Any:
    return np.asarray(singular_values(x, "linalg.matrix_norm").sum(-1))


def _polar_array(x: Any) -> Any:
    u, sizes, v = factors(x)
    return (u if sizes.all() else u * (sizes > 0)[..., None, :]) @ v


def _sylvester_array(h: Any, k: Any) -> Any:
    """In the basis of H's eigenvectors the equation is one for each element: 0 where their sum is not positive."""
    sizes, q = eigenpairs(h, "L")
    back = np.conj(np.swapaxes(q, -1, -2))
    sums = sizes[..., :, None] + sizes[..., None, :]
    return q @ ((back @ k @ q) / np.where(sums > 0, sums, np.inf)) @ back


def _extreme_array(x: Any, largest: bool) -> Any:
    return singular_values(x, "linalg.matrix_norm")[..., 0 if largest else -1]


def _extreme_pair_array(x: Any, largest: bool) -> Any:
    """u v* for the extreme singular value; several that are equal share."""
    u, sizes, v = factors(x)
    chosen = (sizes == sizes[..., :1] if largest else sizes == sizes[..., -1:]) & (sizes > 0)
    shares = chosen / np.maximum(chosen.sum(-1, keepdims=True), 1).astype(sizes.dtype)
    return (u * shares[..., None, :]) @ v


fill(
    {
        "nuclear_norm": _nuclear_norm_array,
        "extreme_singular_value": _extreme_array,
        "extreme_pair": _extreme_pair_array,
        "polar_factor": _polar_array,
        "sylvester": _sylvester_array,
    }
)
