"""Exponentials of matrices."""

from typing import Any

from lucid.ops.abstract import same
from lucid.ops.linalg.matrices import adjoint, balance, lapack
from lucid.ops.rules import P, zeros_like


def _change(x: Any, t: Any) -> Any:
    """The derivative along T: the upper right block of the exponential of [[A, T], [0, A]].

    It is linear in T, which is brought to the size of A first: a larger one would cost digits of A, a smaller one its own.
    """
    n = x.shape[-1]
    scale = balance(x, t, least=1.0)
    above = P.cat(x, t * scale, dim=x.ndim - 1)
    below = P.cat(zeros_like(x), x, dim=x.ndim - 1)
    blocks = P.matrix_exp(P.cat(above, below, dim=x.ndim - 2))
    return P.slice(blocks, index=(Ellipsis, slice(0, n), slice(n, 2 * n))) / scale


matrix_exp = lapack(
    "matrix_exp",
    rules=(lambda ct, x: _change(adjoint(x), ct),),
    jvp=lambda prim, primals, tangents, out, params: _change(primals[0], tangents[0]),
    abstract=same,
)
