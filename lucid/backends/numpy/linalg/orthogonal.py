"""Factorizations into a matrix with orthonormal columns and a triangle."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.routines import LARGE, PANEL, lapack
from lucid.core.kernels import fill


def _tall_qr_array(x: Any, complete: bool) -> tuple[Any, Any, Any]:
    n = x.shape[-1]
    if n >= LARGE:
        return _one_by_one(x, complete)
    q, r = np.linalg.qr(x, mode="complete" if complete else "reduced")
    return np.ascontiguousarray(q[..., :n]), np.ascontiguousarray(r[..., :n, :]), np.ascontiguousarray(q[..., n:])


def _one_by_one(x: Any, complete: bool) -> tuple[Any, Any, Any]:
    """The same of large matrices, by LAPACK itself."""
    stack, (m, n) = x.shape[:-2], x.shape[-2:]
    columns = m if complete else n
    q, r, rest = (np.empty((*stack, *shape), x.dtype) for shape in ((m, n), (n, n), (m, columns - n)))
    factor, form = lapack("geqrf", x.dtype), lapack("ungqr" if x.dtype.kind == "c" else "orgqr", x.dtype)
    for i in np.ndindex(stack):
        basis = np.zeros((m, columns), x.dtype, order="F")
        basis[:, :n], tau, *_ = factor(x[i], lwork=PANEL * n)
        r[i] = np.triu(basis[:n, :n])
        basis = form(basis, tau, lwork=PANEL * columns, overwrite_a=True)[0]
        q[i], rest[i] = basis[:, :n], basis[:, n:]
    return q, r, rest


def _geqrf_array(x: Any) -> tuple[Any, Any]:
    h, tau = np.linalg.qr(x, mode="raw")
    return np.ascontiguousarray(h.swapaxes(-1, -2)), tau


fill(
    {
        "tall_qr": _tall_qr_array,
        "complement": lambda x, basis, name: basis,
        "geqrf": _geqrf_array,
    }
)
