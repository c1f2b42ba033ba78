"""Factorizations into a matrix with orthonormal columns and a triangle."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _tall_qr_array(x: Any, complete: bool) -> tuple[Any, Any, Any]:
    n = x.shape[-1]
    q, r = np.linalg.qr(x, mode="complete" if complete else "reduced")
    return np.ascontiguousarray(q[..., :n]), np.ascontiguousarray(r[..., :n, :]), np.ascontiguousarray(q[..., n:])


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
