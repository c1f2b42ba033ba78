"""Factorizations into a matrix with orthonormal columns and a triangle."""

from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.routines import PANEL, one_by_one, places, routine
from lucid.core.kernels import fill
from lucid.core.primitive import P


def tall_qr_array(x: Any, complete: bool) -> tuple[Any, Any, Any]:
    n = x.shape[-1]
    if one_by_one(x):
        return _one_by_one(x, complete)
    q, r = np.linalg.qr(x, mode="complete" if complete else "reduced")
    return np.ascontiguousarray(q[..., :n]), np.ascontiguousarray(r[..., :n, :]), np.ascontiguousarray(q[..., n:])


def _one_by_one(x: Any, complete: bool) -> tuple[Any, Any, Any]:
    """The same by LAPACK itself."""
    stack, (m, n) = x.shape[:-2], x.shape[-2:]
    columns = m if complete else n
    q, r, rest = (np.empty((*stack, *shape), x.dtype) for shape in ((m, n), (n, n), (m, columns - n)))
    factor, form = routine("geqrf", x), routine("ungqr" if x.dtype.kind == "c" else "orgqr", x)
    for i in places(stack):
        basis, tau, *_ = factor(x[i], lwork=PANEL * n)
        r[i] = P.triu.kernel(basis[:n], diagonal=0)
        if columns > n:
            reflections, basis = basis, np.zeros((m, columns), basis.dtype, order="F")
            basis[:, :n] = reflections
        basis = form(basis, tau, lwork=PANEL * columns, overwrite_a=True)[0]
        q[i], rest[i] = basis[:, :n], basis[:, n:]
    return q, r, rest


def _geqrf_array(x: Any) -> tuple[Any, Any]:
    h, tau = np.linalg.qr(x, mode="raw")
    return np.ascontiguousarray(h.swapaxes(-1, -2)), tau


fill(
    {
        "tall_qr": tall_qr_array,
        "complement": lambda x, basis, name: basis,
        "geqrf": _geqrf_array,
    }
)
