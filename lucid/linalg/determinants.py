"""Determinants, with derivatives that hold for singular matrices too.

The derivative of det A is tr(adj(A) dA). The adjugate is a polynomial in A, so it and its own derivatives exist
everywhere; none of them divides by det A.
"""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

import math
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes
from lucid.core.tensor import Tensor
from lucid.linalg.matrices import adjoint, for_each, lapack, real_for_each, square_operand
from lucid.linalg.scales import balance
from lucid.ops import unary
from lucid.ops.abstract import same
from lucid.ops.contraction import mT
from lucid.ops.rules import P, is_complex, np_dtype

__all__ = ["det", "slogdet"]


def _adjugate_change(x: Any, t: Any) -> Any:
    """The derivative of adj(X + hT) by h at 0, from n points on a circle around it.

    The elements are polynomials in h of degree n - 1, so that n points give their coefficients without error.
    """
    n, own, wide = x.shape[-1], np_dtype(x), dtypes.complex_of(np_dtype(x))
    if n < 2:
        return x * 0
    points = np.exp(2j * np.pi * np.arange(n) / n).astype(wide).reshape(n, 1, 1)
    reach = balance(x, t, least=0.0)
    along = _as(_stacked(t * reach), wide) * points
    values = P.adjugate(_as(_stacked(x), wide) + along)
    change = P.sum(values * (np.conj(points) / n), dims=(values.ndim - 3,), keepdim=False) / reach
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


det_primitive = lapack(
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


slogdet_primitive = lapack(
    "slogdet",
    results=("sign", "logabsdet"),
    rules=(_pull_slogdet,),
    jvp=_push_slogdet,
    abstract=lambda x: (for_each(x), real_for_each(x)),
)


class SlogdetResult(NamedTuple):
    """What `slogdet` gives: det A = sign · exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


def det(A: Any) -> Tensor:
    """The determinant of square matrices; derivatives of every order hold for singular ones too.

    >>> import lucid
    >>> A = lucid.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> d = lucid.linalg.det(A)
    >>> d.detach().round(decimals=4)
    Tensor(0.)
    >>> d.backward()
    >>> A.grad.round(decimals=4)
    Tensor([[ 4., -2.],
            [-2.,  1.]])
    """
    return P.det(square_operand("linalg.det", A))


def slogdet(A: Any) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value, without overflow.

    A complex determinant has a complex number of length 1 for its sign. Of a singular matrix the sign is 0 and the
    logarithm -inf; that has no derivative.

    >>> import lucid
    >>> lucid.linalg.slogdet(lucid.tensor([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=Tensor(-1.), logabsdet=Tensor(0.))
    """
    return SlogdetResult(*P.slogdet(square_operand("linalg.slogdet", A)))


def logdet(input: Any) -> Tensor:
    """The logarithm of the determinant: nan where that is negative, -inf where it is 0.

    >>> import lucid
    >>> lucid.logdet(lucid.tensor([[2.0, 0.0], [0.0, 3.0]]))
    Tensor(1.7918)
    """
    sign, size = P.slogdet(square_operand("logdet", input))
    if sign.is_complex():
        return unary.log(sign) + size
    return P.where(sign < 0, math.nan, size)
