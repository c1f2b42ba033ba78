"""Products added to a tensor: beta · input + alpha · product, for the products that `contractions` has."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.core.inplace import write
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops import contractions, unary
from lucid.ops.contractions import scaled_sum
from lucid.ops.out import takes_out
from lucid.ops.promotion import lift_all
from lucid.ops.rules import P


@takes_out
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addmv(lucid.ones(2), lucid.eye(2), lucid.tensor([1.0, 2.0]), alpha=10)
    Tensor([11., 21.])
    """
    return scaled_sum(input, contractions.mv(mat, vec), beta, alpha)


@takes_out
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addr(lucid.ones(2, 2), lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([[4., 5.],
            [7., 9.]])
    """
    return scaled_sum(input, contractions.outer(vec1, vec2), beta, alpha)


@takes_out
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * Σ batch1ᵢ @ batch2ᵢ, summed over the matrices of the stacks.

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addbmm(lucid.ones(1, 1), lucid.ones(5, 1, 3), lucid.ones(5, 3, 1))
    Tensor([[16.]])
    """
    x, y = lift_all(batch1, batch2)
    if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(f"addbmm: stacks of shapes {x.shape} and {y.shape} do not fit")
    # The sum over the stack is part of one large product.
    (count, rows, inner), columns = x.shape, y.shape[2]
    flat = P.reshape(P.permute(x, dims=(1, 0, 2)), shape=(rows, count * inner))
    product = contractions.matmul(flat, P.reshape(y, shape=(count * inner, columns)))
    return scaled_sum(input, product, beta, alpha)


@takes_out
def vdot(input: Any, other: Any) -> Tensor:
    """Σ conj(input) · other of two vectors.

    >>> import lucid
    >>> lucid.vdot(lucid.tensor([1 + 1j, 2.0]), lucid.tensor([1 + 1j, 1.0]))
    Tensor(4.+0.j, dtype=lucid.complex64)
    """
    x = lift(input)
    return contractions.dot(unary.conj(x) if x.is_complex() else x, other)


def _in_place(function: Callable[..., Tensor], example: str) -> Callable[..., Tensor]:
    """The form that writes into its first operand; `example` is a call and what it gives."""
    name = function.__name__ + "_"

    @wraps(function)
    def call(self: Tensor, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        return write(self, name, lambda x: function(x, first, second, beta=beta, alpha=alpha), (first, second))

    source, _, result = example.partition(" -> ")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"In-place form of `{function.__name__}`.\n\n    >>> import lucid\n    >>> lucid.{source}\n    {result}\n    "
    )
    return call


addmv_ = _in_place(addmv, "zeros(2).addmv_(lucid.eye(2), lucid.ones(2)) -> Tensor([1., 1.])")
addr_ = _in_place(addr, "zeros(1, 2).addr_(lucid.ones(1), lucid.ones(2)) -> Tensor([[1., 1.]])")
addbmm_ = _in_place(addbmm, "zeros(1, 1).addbmm_(lucid.ones(2, 1, 3), lucid.ones(2, 3, 1)) -> Tensor([[6.]])")
