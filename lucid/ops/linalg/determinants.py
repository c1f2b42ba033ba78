"""Determinants, with derivatives that hold for singular matrices too.

The derivative of det A is tr(adj(A) dA). The adjugate is a polynomial in A, so it and its own derivatives exist
everywhere; none of them divides by det A.
"""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.arrays import question
from lucid.core.tensor import wrapped
from lucid.ops.abstract import same
from lucid.ops.contraction import mT
from lucid.ops.linalg.matrices import adjoint, balance, for_each, lapack, real_for_each
from lucid.ops.rules import P, is_complex, np_dtype

_roots_of_unity = question("roots_of_unity")  # (n, dtype)


def _adjugate_change(x: Any, t: Any) -> Any:
    """The derivative of adj(X + hT) by h at 0, from n points on a circle around it.

    The elements are polynomials in h of degree n - 1, so that n points give their coefficients without error.
    """
    n, own, wide = x.shape[-1], np_dtype(x), dtypes.complex_of(np_dtype(x))
    if n < 2:
        return x * 0
    points = P.reshape(wrapped(_roots_of_unity(n, wide)), shape=(n, 1, 1))
    reach = balance(x, t, least=0.0)
    along = _as(_stacked(t * reach), wide) * points
    values = P.adjugate(_as(_stacked(x), wide) + along)
    change = P.sum(values * (P.conj(points) / n), dims=(values.ndim - 3,), keepdim=False) / reach
    return change if is_complex(x) else _as(P.real(change), own)


def _stacked(x: Any) -> Any:
    """One more dimension in front of the matrices."""
    return P.reshape(x, shape=(*x.shape[:-2], 1, *x.shape[-2:]))


def _as(x: Any, target: np.dtype[Any]) -> Any:
    return x if np_dtype(x) == target else P.cast(x, dtype=target, source=np_dtype(x))


adjugate = lapack(
    "adjugate",
    rules=(lambda ct, x: adjoint(_adjugate_change(x, adjoint(ct))),),
    jvp=lambda prim, primals, tangents, out, params: _adjugate_change(primals[0], tangents[0]),
    abstract=same,
)


def _trace_of_product(x: Any, y: Any) -> Any:
    return P.sum(mT(x) * y, dims=(y.ndim - 2, y.ndim - 1), keepdim=False)


def _scaling(x: Any) -> Any:
    """A number for each matrix, in the shape to multiply it by."""
    return P.reshape(x, shape=(*x.shape, 1, 1))


det = lapack(
    "det",
    rules=(lambda ct, x: _scaling(ct) * adjoint(P.adjugate(x)),),
    jvp=lambda prim, primals, tangents, out, params: _trace_of_product(P.adjugate(primals[0]), tangents[0]),
    abstract=for_each,
)


def _push_slogdet(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    change = _trace_of_product(P.inverse(primals[0], strict=False), tangents[0])
    if not is_complex(change):
        return None, change
    return out[0] * P.imag(change) * 1j, P.real(change)


def _pull_slogdet(cts: Any, x: Any) -> Any:
    """d log|det| + i dθ = tr(A⁻¹ dA), where the sign is exp(iθ)."""
    to_sign, total = cts
    if to_sign is not None and is_complex(x):
        turn = P.imag(to_sign * P.conj(P.slogdet(x)[0])) * 1j
        total = turn if total is None else total + turn
    return None if total is None else _scaling(total) * adjoint(P.inverse(x, strict=False))


slogdet = lapack(
    "slogdet",
    results=("sign", "logabsdet"),
    rules=(_pull_slogdet,),
    jvp=_push_slogdet,
    abstract=lambda x: (for_each(x), real_for_each(x)),
)
