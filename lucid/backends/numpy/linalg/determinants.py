"""Determinants, with derivatives that hold for singular matrices too."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.routines import LARGE, lapack
from lucid.backends.numpy.linalg.solvers import inverses
from lucid.core import dtypes
from lucid.core.kernels import fill


def _signs_and_logarithms(x: Any) -> tuple[Any, Any]:
    """Of determinants, as LAPACK factors large matrices of single precision; NumPy would do it in double."""
    wide = np.result_type(x, np.float64)
    sign = np.empty(x.shape[:-2], wide)
    size = np.empty(x.shape[:-2], np.float64)
    getrf = lapack("getrf", x.dtype)
    for i in np.ndindex(x.shape[:-2]):
        factors, pivots, _ = getrf(x[i].T)  # the same determinant: LAPACK counts by columns
        diagonal = factors.diagonal().astype(wide)
        sign[i] = np.sign(diagonal).prod() * (-1) ** np.count_nonzero(pivots != np.arange(len(pivots)))
        size[i] = np.log(np.abs(diagonal)).sum()
    return sign, size


def _is_large_and_single(x: Any) -> bool:
    return bool(x.shape[-1] >= LARGE and np.finfo(x.dtype).nmant < np.finfo(np.float64).nmant)


def _det_array(x: Any) -> Any:
    # NumPy takes the logarithm of pivots on the way; which flags that sets, and so what it warns about, differs between
    # processors.
    with np.errstate(all="ignore"):
        if _is_large_and_single(x):
            sign, size = _signs_and_logarithms(x)
            return np.asarray((sign * np.exp(size)).astype(x.dtype))
        return np.linalg.det(x)


def _adjugate_array(x: Any) -> Any:
    """det(A) · A⁻¹ where rounding leaves three quarters of the digits of that, and by singular values elsewhere."""
    if not x.size:
        return np.zeros_like(x)
    inverse = inverses(x, strict=False)
    with np.errstate(all="ignore"):
        out = _det_array(x)[..., None, None] * inverse
        condition = _size(x) * _size(inverse)
    poor = ~(condition < np.finfo(x.dtype).eps ** -0.25)
    if poor.any():
        out[poor] = _singular_adjugate(x[poor])
    return out


def _size(x: Any) -> Any:
    """The 1-norm of each matrix."""
    return np.abs(x).sum(-2).max(-1)


def _singular_adjugate(x: Any) -> Any:
    """From A = U S V: adj(A) = det(UV) · V* adj(S) U*, where adj(S) has the products of all other singular values."""
    finite = np.isfinite(x).all(axis=(-2, -1), keepdims=True)
    u, s, v = np.linalg.svd(np.where(finite, x, 0))
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
    behind = np.flip(np.cumprod(np.concatenate([ones, np.flip(s, -1)[..., :-1]], -1), -1), -1)
    phase = _det_array(u @ v)[..., None, None]
    scaled = np.conj(np.swapaxes(v, -1, -2)) * (before * behind)[..., None, :]
    return np.where(finite, phase * scaled @ np.conj(np.swapaxes(u, -1, -2)), np.nan)


def _slogdet_array(x: Any) -> Any:
    with np.errstate(all="ignore"):
        if _is_large_and_single(x):
            sign, size = _signs_and_logarithms(x)
            return sign.astype(x.dtype), size.astype(dtypes.real_of(x.dtype))
        sign, size = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(size)


fill(
    {
        "adjugate": _adjugate_array,
        "det": _det_array,
        "slogdet": _slogdet_array,
    }
)
