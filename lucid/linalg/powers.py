"""Powers and exponentials of matrices, and matrices of powers."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from typing import Any

import numpy as np

from lucid.api.reductions import cumprod
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import square_operand
from lucid.linalg.solvers import inv
from lucid.ops.linalg.matrices import identity
from lucid.ops.rules import P

__all__ = ["matrix_exp", "matrix_power", "vander"]


def matrix_exp(A: Any) -> Tensor:
    """The exponential Σ Aⁿ / n! of square matrices.

    >>> import lucid
    >>> lucid.linalg.matrix_exp(lucid.tensor([[0.0, 1.0], [0.0, 0.0]]))
    Tensor([[1., 1.],
            [0., 1.]])
    """
    x = lift(A)
    low = x.np_dtype in dtypes.FLOATING and x.np_dtype.itemsize == 2
    square_operand("linalg.matrix_exp", x.float() if low else x)  # the exponential of low precision is made in float32
    return P.matrix_exp(x)


def matrix_power(A: Any, n: int) -> Tensor:
    """The n-th power of square matrices: of the inverse for a negative n, the identity for 0.

    >>> import lucid
    >>> lucid.linalg.matrix_power(lucid.tensor([[1.0, 1.0], [0.0, 1.0]]), -3)
    Tensor([[ 1., -3.],
            [ 0.,  1.]])
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"linalg.matrix_power: n must be an integer, not {n!r}")
    exponent = n.__index__()
    x = lift(A)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be a square matrix or a stack of them, not shape {x.shape}")
    if exponent < 0:
        return _power(inv(x), -exponent)
    if exponent == 0:
        ones: Tensor = P.overwrite(x, lift(identity(x.shape[-1], x)))  # still connected to A, with a derivative of 0
        return ones
    return _power(x, exponent)


def _power(x: Tensor, n: int) -> Tensor:
    """By squares: as many products as n has binary digits, and one for each 1 among them."""
    if n == 1:
        return x.clone()
    out, square = None, x
    while n:
        if n & 1:
            out = square if out is None else out @ square
        n >>= 1
        if n:
            square = square @ square
    assert out is not None
    return out


def powers_of(x: Tensor, count: int) -> Tensor:
    """1, x, x², … in a new last dimension: a running product, so that derivatives are exact where x is 0."""
    x = x.long() if x.np_dtype == dtypes.BOOL else x
    ones = Tensor._wrap(np.ones((*x.shape, min(count, 1)), x.np_dtype))
    column = P.reshape(x, shape=(*x.shape, 1))
    factors = P.broadcast_to(column, shape=(*x.shape, max(count - 1, 0)))
    return cumprod(P.cat(ones, factors, dim=x.ndim), x.ndim)


def vander(x: Any, *, N: int | None = None) -> Tensor:
    """The powers 1, x … xᴺ⁻¹ of each element in a new last dimension, as many as there are elements in the last one.

    >>> import lucid
    >>> lucid.linalg.vander(lucid.tensor([2, 3]), N=3)
    Tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    v = lift(x)
    if v.np_dtype == dtypes.BOOL:
        raise RuntimeError("linalg.vander: expected numbers, not booleans; convert them, as in x.long()")
    v = v if v.ndim else P.reshape(v, shape=(1,))
    count = v.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, not {count}")
    return powers_of(v, count)
