"""Pseudo-inverses, ranks and least squares."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.api.joining import cat
from lucid.api.splitting import tril
from lucid.arguments.promotion import cast, in_single
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.kinds.kind import Kind
from lucid.linalg.eigen import svd
from lucid.linalg.operands import matrix_operand, raise_unless_same_type, square_operand, stack_shape
from lucid.ops.binary import maximum, where
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import adjoint, column, identity, real
from lucid.ops.rules import P, conj

__all__ = ["lstsq", "matrix_rank", "pinv"]

# --- what counts as 0 ------------------------------------------------------------------------------


def default_rtol(x: Tensor) -> float:
    """The relative error that rounding alone makes in singular values."""
    return max(x.shape[-2:]) * float(np.finfo(x.np_dtype).eps)


def _tolerances(name: str, x: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """The absolute and the relative tolerance as `_counts` wants them."""
    if rtol is None:
        rtol = default_rtol(x)
        if isinstance(atol, Tensor):
            rtol = P.where(atol > 0, 0.0, rtol)
        elif atol is not None and atol > 0:
            rtol = 0.0
    return _tolerance(name, x, 0.0 if atol is None else atol), _tolerance(name, x, rtol)


def _tolerance(name: str, x: Tensor, value: Any) -> Any:
    if isinstance(value, int | float):
        return float(value)
    t = lift(value).detach()
    if t.is_complex():
        raise RuntimeError(f"{name}: tolerances must be real, not {t.dtype}")
    try:
        np.broadcast_shapes(t.shape, x.shape[:-2])
    except ValueError:
        raise RuntimeError(f"{name}: a tolerance of shape {t.shape} does not fit the stack of {x.shape}") from None
    return P.reshape(cast(t, dtypes.real_of(x.np_dtype)), shape=(*t.shape, 1, 1))


def _of_that_rank(x: Any, atol: Any, rtol: Any) -> Any:
    """What is left of a matrix without the singular values that do not count.

    A change turns the spaces of those that count and of the others into each other: see `_projected`.
    """
    rows, columns = x.shape[-2:]
    if not rows or not columns or not (isinstance(x, Kind) or x.requires_grad):
        return x
    u, sizes, v = svd(x.detach(), full_matrices=False)
    absolute, relative = (P.reshape(t, shape=t.shape[:-1]) if isinstance(t, Tensor) else t for t in (atol, rtol))
    kept = sizes > maximum(relative * sizes[..., :1], absolute)
    lowest, highest = where(kept, sizes, np.inf).amin(-1), where(kept, 0.0, sizes).amax(-1)
    between = where(kept.any(-1), (lowest + highest) / 2, 2 * highest + 1)
    stack = between.shape
    x = P.broadcast_to(x, shape=(*stack, rows, columns))
    projected = _projected(x, between)  # the same in fewer digits: it stands for the derivative
    return matmul(u * where(kept, sizes, 0.0)[..., None, :], v) + (projected - projected.detach())


def _projected(x: Any, between: Any) -> Any:
    """A matrix without the singular values below a number for each, projected on the singular vectors of the others.

    The projector on the left ones is I plus a block of the matrix sign of [[0, A], [A*, 0]] - c. Where that would be
    much larger than A, it is half of I plus the sign of A A* - c², or the same on the right, with half of the digits.
    Signs are polar factors, which have derivatives of every order.
    """
    rows, columns = x.shape[-2:]
    between = P.reshape(between, shape=(*between.shape, 1, 1))
    if rows + columns <= 3 * min(rows, columns):
        upper, lower = (Tensor._wrap(np.zeros((*x.shape[:-2], n, n), x.np_dtype)) for n in (rows, columns))
        both = cat([cat([upper, x], -1), cat([adjoint(x), lower], -1)], -2)
        sign = P.polar_factor(both - between * identity(rows + columns, both))
        return matmul(sign[..., :rows, :rows] + identity(rows, x), x)
    unit = x / between
    square = matmul(adjoint(unit), unit) if rows > columns else matmul(unit, adjoint(unit))
    eye = identity(min(rows, columns), x)
    projector = (P.polar_factor(square - eye) + eye) * 0.5
    return matmul(x, projector) if rows > columns else matmul(projector, x)


def _is_more_than_noise(x: Tensor, rtol: Any) -> bool:
    """Whether singular values may count as 0 that are more than rounding errors."""
    return rtol is not None and (not isinstance(rtol, int | float) or rtol > default_rtol(x))


def _lower(x: Tensor) -> Tensor:
    """The hermitian matrix of which the lower triangle is read."""
    return tril(x) + adjoint(tril(x, -1))


# --- pseudo-inverses -------------------------------------------------------------------------------


def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudo-inverse (Moore–Penrose) of matrices.

    Singular values up to max(atol, rtol·σ₁) count as 0: numbers, or tensors with one for each matrix. `rtol` is by
    default the rounding error, or 0 beside an `atol`; `rcond` is another name for it. A hermitian matrix, of which
    only the lower triangle is read, is done by its eigenvalues. Derivatives hold where the rank does not change.

    >>> import lucid
    >>> lucid.linalg.pinv(lucid.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.5 , 0.  , 0.  ],
            [0.  , 0.  , 0.25]])
    """
    x = (square_operand if hermitian else matrix_operand)("linalg.pinv", A)
    relative = rcond if rtol is None else rtol
    limits = _tolerances("linalg.pinv", x, atol, relative)
    if atol is not None or _is_more_than_noise(x, relative):
        x = _of_that_rank(x + (_lower(x) - x).detach() if hermitian else x, *limits)
    return P.pinv(x, *limits, hermitian=bool(hermitian))


def pinverse(input: Any, rcond: Any = 1e-15) -> Tensor:
    """The pseudo-inverse, with singular values up to `rcond` times the largest taken as 0.

    >>> import lucid
    >>> lucid.pinverse(lucid.tensor([[2.0], [0.0]]))
    Tensor([[0.5, 0. ]])
    """
    return pinv(input, rcond)


# --- ranks -----------------------------------------------------------------------------------------


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """How many singular values are above max(atol, rtol·σ₁).

    `atol` and `rtol` are those of `pinv`; `tol` is another name for an `atol` with an `rtol` of 0.

    >>> import lucid
    >>> lucid.linalg.matrix_rank(lucid.tensor([[1.0, 2.0], [2.0, 4.0]]))
    Tensor(1)
    """
    x = (square_operand if hermitian else matrix_operand)("linalg.matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    limits = _tolerances("linalg.matrix_rank", x, atol, rtol)
    return P.matrix_rank(x, *limits, hermitian=bool(hermitian))


# --- least squares ---------------------------------------------------------------------------------

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


# X = P B with the pseudo-inverse P of A, and G = P* C for the cotangent C of X.


class LstsqResult(NamedTuple):
    """What `lstsq` gives; what its driver does not find is empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """The X for which ‖A X - B‖ is smallest, and of several the shortest.

    `driver` is "gels", by a QR factorization for matrices of full rank, or one of LAPACK's other names "gelsy" (the
    default), "gelsd" and "gelss", which all work by singular values here: those up to `rcond` times the largest count
    as 0. All but "gels" give the `rank`, the last two `singular_values` too. All but "gelsy" give the `residuals`, the
    squared lengths of A X - B for each column, where A has more rows than columns: of matrices without full rank too,
    for the shape of a result does not depend on values. Derivatives hold where the rank does not change.

    >>> import lucid
    >>> A = lucid.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> lucid.linalg.lstsq(A, lucid.tensor([1.0, 3.0, 5.0])).solution
    Tensor([1., 2.])
    """
    name, chosen = "linalg.lstsq", "gelsy" if driver is None else driver
    if chosen not in DRIVERS:
        raise RuntimeError(f"{name}: driver must be one of {', '.join(DRIVERS)}, not {driver!r}")
    a, b = matrix_operand(name, A), in_single(lift(B))
    raise_unless_same_type(name, a, b)
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    b = column(b) if vector else matrix_operand(name, b, "B")
    if b.shape[-2] != a.shape[-2]:
        raise RuntimeError(f"{name}: A of shape {a.shape} and B of shape {lift(B).shape} differ in their rows")
    stack_shape(name, a, b)
    limit = default_rtol(a) if rcond is None else float(rcond)
    if _is_more_than_noise(a, rcond):
        a = _of_that_rank(a, 0.0, limit)
    x, rank, sizes = P.lstsq(a, b, rcond=limit, driver=chosen)
    residuals = _nothing(sizes)
    if a.shape[-2] > a.shape[-1] and chosen != "gelsy":
        rest = b - matmul(a, x)
        residuals = P.sum(real(rest * conj(rest)), dims=(rest.ndim - 2,), keepdim=False)
    return LstsqResult(
        P.reshape(x, shape=x.shape[:-1]) if vector else x,
        residuals,
        _nothing(rank) if chosen == "gels" else rank,
        sizes.detach() if chosen in ("gelsd", "gelss") else _nothing(sizes),
    )


def _nothing(like: Tensor) -> Tensor:
    return Tensor._wrap(np.empty(0, like.np_dtype))
