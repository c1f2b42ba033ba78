"""What the operations on matrices share: types, stacks and batches, adjoints and triangles, checks.

A matrix is the last two dimensions of a tensor; the dimensions before them are a stack of matrices.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lucid.core.arrays import question
from lucid.core.dtypes import dtype, int32, of_numpy, real_of
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, same
from lucid.ops.categories import Check, asked_by
from lucid.ops.contraction import matmul, mT
from lucid.ops.rules import P, align, conj, is_complex, np_dtype

LAPACK_TYPES = frozenset(np.dtype(t) for t in ("float32", "float64", "complex64", "complex128"))
INT32 = int32.numpy

LAPACK = "a routine of LAPACK"  # why primitives here are in no other category


def raise_unless_lapack(name: str, x: Tensor, operand: str = "A") -> None:
    """Refuse operands of types that LAPACK does not work in."""
    if x.np_dtype not in LAPACK_TYPES:
        found: dtype = of_numpy(x.np_dtype)
        raise RuntimeError(
            f"{name}: expected {operand} of type float32, float64, complex64 or complex128, not {found}; "
            f"convert it, as in {operand}.float()"
        )


# --- shapes and types of results ------------------------------------------------------------------------


def for_each(*matrices: Any, size: tuple[int, ...] = (), dtype: Any = None) -> Abstract:
    """Something of one size for each matrix of stacks that are broadcast, in the type of the first by default."""
    lead = np.broadcast_shapes(*[m.shape[:-2] for m in matrices if isinstance(m, Abstract)])
    return Abstract((*lead, *size), matrices[0].dtype if dtype is None else dtype)


def real_for_each(x: Any, *others: Any, size: tuple[int, ...] = (), **params: Any) -> Abstract:
    """The same in the type of absolute values."""
    return for_each(x, *others, size=size, dtype=real_of(x.dtype))


def solution(a: Any, b: Any, **params: Any) -> Abstract:
    """X of A X = B."""
    return for_each(b, a, size=b.shape[-2:])


# --- rules: written for arrays and for tensors of every kind ------------------------------------------


def over_stacks(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """A batch is one more dimension of the stack."""
    return prim(*align(values, batched, size), **params)


# Declares a primitive that LAPACK computes, for each matrix of a stack.
lapack = partial(Primitive, batch=over_stacks, reason=LAPACK)


def real(x: Any) -> Any:
    return P.real(x) if is_complex(x) else x


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return mT(conj(x))


def product(*matrices: Any) -> Any:
    """The product of matrices, from the left to the right."""
    out = matrices[0]
    for factor in matrices[1:]:
        out = matmul(out, factor)
    return out


def diagonal(x: Any) -> Any:
    """The diagonal of each matrix."""
    return P.diagonal(x, offset=0, dim1=x.ndim - 2, dim2=x.ndim - 1)


def diag(x: Any) -> Any:
    """The last dimension as the diagonals of matrices."""
    return P.diagonal_back(x, shape=(*x.shape, x.shape[-1]), offset=0, dim1=x.ndim - 1, dim2=x.ndim)


def row(x: Any) -> Any:
    """Vectors as matrices of one row, so that they scale columns."""
    return P.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def column(x: Any) -> Any:
    """Vectors as matrices of one column, so that they scale rows."""
    return P.reshape(x, shape=(*x.shape, 1))


eye = question("eye")  # (rows, columns, dtype)


def identity(n: int, like: Any) -> Any:
    """The identity matrix in the type of `like`."""
    return eye(n, n, np_dtype(like))


def hermitian_part(x: Any) -> Any:
    return (x + adjoint(x)) * 0.5


def upper_half(x: Any) -> Any:
    """The upper triangle with half of the diagonal: U with U + U^H = X for a hermitian X."""
    return (P.triu(x, diagonal=0) + P.triu(x, diagonal=1)) * 0.5


def columns(x: Any, start: int, stop: int) -> Any:
    """Some columns; all of them are the matrices themselves."""
    if start == 0 and stop == x.shape[-1]:
        return x
    return P.slice(x, index=(Ellipsis, slice(start, stop)))


def rows(x: Any, start: int, stop: int) -> Any:
    """Some rows; all of them are the matrices themselves."""
    if start == 0 and stop == x.shape[-2]:
        return x
    return P.slice(x, index=(Ellipsis, slice(start, stop), slice(None)))


# The factor that makes each matrix of `t` as long as that of `x`, or as `least` if that is longer: how far to go from a
# matrix along another one, where a derivative is made from values elsewhere. Results do not depend on it but for
# rounding, so it has no derivative.
balance = lapack("balance", operands=("x", "t"), abstract=lambda x, t, least: real_for_each(x, t, size=(1, 1)))

# Looks at how a loss changes under a choice that a factorization leaves open: not at all, or there is no derivative.
within_gauge = lapack("within_gauge", abstract=same, checks=Check("that a loss depends on no choice"))
FINITE = Check("that matrices are finite")
FACTORED = Check("that matrices have such factors", asked_by("checked"))
PIVOTS = Check("that pivots are possible")


def raise_unless_phase_free(name: str, vectors: str, turning: Any) -> None:
    """Refuse losses that change with the phases of complex vectors; `turning` has their derivatives on its diagonal."""
    if is_complex(turning):
        freedom = f"complex {vectors} are determined up to a factor exp(i·phi) each"
        P.within_gauge(P.imag(diagonal(turning)), name=name, freedom=freedom)


def factorization(
    name: str,
    results: Sequence[str],
    pull: Callable[..., Any],
    push: Callable[..., Any],
    **declared: Any,
) -> Primitive:
    """A primitive of one operand with several results, from which alone its derivatives are made.

    `pull(cts, …)` is the rule for the operand; `push(t, …)` reads the same results and gives the tangents of all.
    """
    reads = push.__code__.co_varnames[1 : push.__code__.co_argcount]

    def jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        known = {**dict(zip(results, out, strict=True)), **params}
        return push(tangents[0], *[known[n] for n in reads])

    return lapack(name, results=results, rules=(pull,), jvp=jvp, **declared)
