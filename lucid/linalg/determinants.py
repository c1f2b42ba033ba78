"""Determinants."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

import math
from typing import Any, NamedTuple

from lucid.core.tensor import Tensor
from lucid.linalg.operands import square_operand
from lucid.ops import unary
from lucid.ops.rules import P

__all__ = ["det", "slogdet"]


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
