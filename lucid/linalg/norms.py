"""Norms of vectors and matrices, and condition numbers.

Over two dimensions a matrix A has norms of three sorts: by its elements ("fro"), by sums of rows or columns (±1, ±inf)
and by its singular values ("nuc": their sum, 2 and -2: the largest and the smallest).
"""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

import math
from typing import Any

from lucid.api import reductions
from lucid.api.reductions import norm_over
from lucid.arguments import promotion
from lucid.arguments.dims import many_dims, numpy_names, one_dim
from lucid.core import dtypes
from lucid.core.errors import ArgumentError
from lucid.core.primitive import element_type, lift
from lucid.core.tensor import Tensor, shape_of
from lucid.linalg.eigen import svdvals
from lucid.linalg.operands import matrix_operand, square_operand
from lucid.ops import unary
from lucid.ops.linalg.matrices import column, identity
from lucid.ops.rules import P, kept_shape

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]

Dims = int | tuple[int, ...] | list[int] | None


@numpy_names
def vector_norm(x: Any, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm (Σ|x|ᵒ)^(1/o) of all elements over `dim` as one vector, o being `ord`.

    ±inf gives the largest or smallest |x|, 0 the number of elements that are not 0. The gradient at 0 is 0.

    >>> import lucid
    >>> x = lucid.tensor([[3.0, -4.0], [0.0, 2.0]])
    >>> lucid.linalg.vector_norm(x, dim=1), lucid.linalg.vector_norm(x, lucid.inf)
    (Tensor([5., 2.]), Tensor(4.))
    """
    return _of_vectors(x, ord, dim, keepdim, dtype)


def _of_vectors(x: Any, ord: Any, dim: Dims, keepdim: bool, dtype: Any) -> Tensor:
    if isinstance(ord, bool) or not isinstance(ord, int | float):
        raise TypeError(f"linalg.vector_norm: ord must be a number, not {ord!r}; for 'nuc' see linalg.matrix_norm")
    operand = _in_dtype("vector_norm", x, dtype)
    dims = many_dims(dim, len(shape_of(operand)), "linalg.vector_norm")
    if (ord < 0 or ord == math.inf) and 0 in [operand.shape[d] for d in dims]:
        raise RuntimeError(
            f"linalg.vector_norm: no elements over dims {dims} of shape {operand.shape}, and the norm of order {ord} "
            "of nothing is not defined"
        )
    return norm_over(operand, ord, dims, keepdim)


def _in_dtype(name: str, x: Any, dtype: Any) -> Tensor:
    """The operand, converted to `dtype` if that is wide enough for it."""
    operand = lift(x)
    if element_type(operand) not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"linalg.{name} needs a floating-point or complex tensor, not {operand.dtype}; use x.float()"
        )
    if dtype is None:
        return operand
    target = dtypes.as_dtype(dtype)
    if target.numpy not in dtypes.DIFFERENTIABLE or target.is_complex != operand.is_complex():
        kind = "complex" if operand.is_complex() else "floating-point"
        raise RuntimeError(f"linalg.{name}: dtype must be {kind} for a tensor of {operand.dtype}, not {target}")
    if promotion.promote_types(operand.dtype, target) != target:
        raise RuntimeError(f"linalg.{name}: dtype {target} is narrower than the operand's {operand.dtype}")
    return operand.to(target)


def _largest(x: Tensor, sign: float, dim: int) -> Tensor:
    """The largest element along `dim`, or the smallest; of no sizes at all, 0 is the largest."""
    if sign > 0 and not x.shape[dim]:
        return P.sum(x, dims=(dim,), keepdim=True)
    return reductions.amax(x, dim, True) if sign > 0 else reductions.amin(x, dim, True)


def _extreme(x: Tensor, largest: bool) -> Tensor:
    """The largest or the smallest singular value."""
    if not min(x.shape[-2:]):
        return _largest(svdvals(x), 1 if largest else -1, x.ndim - 2)
    return P.extreme_singular_value(x, largest=largest)


_SPECTRAL = ("nuc", 2, -2)
_SUMS = (1, -1, math.inf, -math.inf)


@numpy_names
def matrix_norm(
    A: Any, ord: Any = "fro", dim: tuple[int, ...] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of the matrices that stand in two dimensions.

    "fro": √Σ|a|²; "nuc": the sum of the singular values; 2, -2: the largest, the smallest of them; 1, -1: the largest,
    the smallest column sum of |A|; inf, -inf: the same of rows.

    >>> import lucid
    >>> A = lucid.tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> [lucid.linalg.matrix_norm(A, o).item() for o in ("fro", "nuc", 2, -2, 1)]
    [5.0, 7.0, 4.0, 3.0, 4.0]
    """
    x = _in_dtype("matrix_norm", A, dtype)
    if x.ndim < 2:
        raise ArgumentError(f"linalg.matrix_norm: expected at least 2 dimensions, not shape {x.shape}")
    rows, columns = _plane(x, dim)
    if ord in ("fro", "nuc"):
        return reductions.norm(x, ord, (rows, columns), keepdim)
    if ord in (2, -2):
        others = [d for d in range(x.ndim) if d not in (rows, columns)]
        moved = matrix_operand("linalg.matrix_norm", P.permute(x, dims=(*others, rows, columns)))
        out = _extreme(moved, ord > 0)
    elif ord in _SUMS:
        summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
        out = _largest(P.sum(unary.abs(x), dims=(summed,), keepdim=True), ord, chosen)
    else:
        raise ArgumentError(f"linalg.matrix_norm: unsupported ord {ord!r}; it must be 'fro', 'nuc', ±1, ±2 or ±inf")
    shape = kept_shape(x.shape, (rows, columns))
    return P.reshape(out, shape=shape if keepdim else _without(x.shape, rows, columns))


def _without(shape: tuple[int, ...], *dims: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def _plane(x: Tensor, dim: Any) -> tuple[int, int]:
    if not isinstance(dim, tuple | list):
        raise TypeError(f"linalg.matrix_norm: dim must be two dimensions, not {dim!r}")
    if len(dim) != 2:
        raise ArgumentError(f"linalg.matrix_norm: dim must be two dimensions, a pair of axes, not {dim!r}")
    rows, columns = (one_dim(d, x.ndim, "linalg.matrix_norm") for d in dim)
    if rows == columns:
        raise ArgumentError(f"linalg.matrix_norm: dim must be two distinct axes, not {tuple(dim)}")
    return rows, columns


@numpy_names
def norm(A: Any, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A norm of vectors or of matrices: of matrices where `dim` names two dimensions or `ord` is a string.

    Without `ord` it is the 2-norm of all elements over `dim`. With it and without `dim`, a tensor of one dimension is
    a vector and one of two is a matrix.

    >>> import lucid
    >>> A = lucid.tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> lucid.linalg.norm(A), lucid.linalg.norm(A, 2), lucid.linalg.norm(A, 1, dim=0)
    (Tensor(5.), Tensor(4.), Tensor([3., 4.]))
    """
    x = lift(A)
    if ord is None and (dim is None or type(dim) is int):
        return _of_vectors(x, 2, dim, keepdim, dtype)
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise ArgumentError(f"linalg.norm: dim must name one or two axes, not {dim!r}; see linalg.vector_norm")
    if ord is None:
        return _of_vectors(x, 2, dims, keepdim, dtype)
    if dims is None and x.ndim not in (1, 2):
        raise ArgumentError(f"linalg.norm: with ord but no dim the tensor must be 1-D or 2-D, not of shape {x.shape}")
    if isinstance(ord, str) and len(dims or x.shape) == 1:
        needs = f"is a matrix order, and the tensor has shape {x.shape}" if dims is None else "needs a pair of axes"
        raise ArgumentError(f"linalg.norm: ord={ord!r} {needs}")
    if isinstance(ord, str) or len(dims or x.shape) == 2:
        return matrix_norm(x, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return _of_vectors(x, ord, dims, keepdim, dtype)


def cond(A: Any, p: Any = None) -> Tensor:
    """The condition number ‖A‖·‖A⁻¹‖ of matrices, inf for singular ones.

    `p` is the norm: by default 2, for which the matrices need not be square, or any other of `linalg.matrix_norm`.

    >>> import lucid
    >>> lucid.linalg.cond(lucid.tensor([[4.0, 0.0], [0.0, 2.0]]))
    Tensor(2.)
    """
    if p is not None and p not in ("fro", *_SPECTRAL, *_SUMS):
        raise RuntimeError(f"linalg.cond: p must be None, 'fro', 'nuc', ±1, ±2 or ±inf, not {p!r}")
    x = matrix_operand("linalg.cond", A) if p in (None, 2, -2) else square_operand("linalg.cond", A)
    if not min(x.shape[-2:]):
        return unary.real(P.sum(x, dims=(x.ndim - 2, x.ndim - 1), keepdim=False))
    if p in ("fro", "nuc", *_SUMS):
        singular = P.singularity(x) > 0
        regular = P.where(column(column(singular)), identity(x.shape[-1], x), x)
        return P.where(singular, math.inf, matrix_norm(x, p) * matrix_norm(P.inverse(regular, strict=True), p))
    largest, smallest = _extreme(x, True), _extreme(x, False)
    return smallest / largest if p == -2 else largest / smallest
