"""Rows of the table for factorizations, eigenvalues and singular values; see `samples`.

Vectors that are determined up to a sign, a phase or a basis enter as values in which the choice cancels. Hermitian and
positive-definite operands are made of free ones inside the op, so that finite differences stay among them.
"""

# ruff: noqa: N806 -- matrices have the names that PyTorch gives them

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from samples import Array, Domain, Make, Row, Sample, s

import lucid
from lucid import linalg
from lucid.linalg import classic

HALVES = ("float16", "bfloat16")
COUNTS = "int32"


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2)) if isinstance(x, Array) else x.mH


def eye(x: Any) -> Any:
    n = x.shape[-1]
    return np.eye(n, dtype=x.dtype) if isinstance(x, Array) else lucid.eye(n, dtype=x.dtype)


def positive(x: Any) -> Any:
    """A positive-definite matrix made of any matrix."""
    return x @ adjoint(x) + eye(x)


def hermitian(x: Any) -> Any:
    return x + adjoint(x)


def firm(x: Any) -> Any:
    """A matrix whose diagonal is far from 0."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"the table makes square matrices firm, not {x.shape}")
    return x + 4 * eye(x)


def squared(x: Any) -> Any:
    """|x|², which does not see signs and phases."""
    return (x * x.conj()).real


def shapes(*sizes: tuple[int, ...], **how: Any) -> Callable[[Make], Iterator[Sample]]:
    """One operand of each shape, in the types that LAPACK works in."""

    def samples(make: Make) -> Iterator[Sample]:
        if make.name not in HALVES:
            yield from (s(make(*size), **how) for size in sizes)
            if (3, 3) in sizes:
                yield s(make(3, 3).T, **how)

    return samples


def each_of(*makers: Callable[[Make], Iterator[Sample]]) -> Callable[[Make], Iterator[Sample]]:
    return lambda make: (sample for maker in makers for sample in maker(make))


SQUARE = ((3, 3), (2, 3, 3), (0, 3, 3), (0, 0), (1, 1))
ANY = (*SQUARE, (5, 3), (2, 5), (2, 3, 2), (2, 2, 3), (3, 0), (0, 2))


def row(name: str, op: Callable[..., Any], ref: Callable[..., Any], samples: Any, **flags: Any) -> Row:
    return Row(name, op, ref, samples, **{"complex": True, "domain": Domain(-1, 1), **flags})


def stacked(function: Callable[..., Any], x: Array, *rest: Array) -> Any:
    """A function of matrices, for each of a stack."""
    stack = x.shape[:-2]
    if not stack:
        return function(x, *rest)
    found = [function(x[i], *[r[i] for r in rest]) for i in np.ndindex(stack)]
    if not found:
        found = [function(np.ones(x.shape[-2:], x.dtype), *[np.ones(r.shape[len(stack) :], r.dtype) for r in rest])]
        return tuple(np.zeros((*stack, *np.shape(f)), np.asarray(f).dtype) for f in found[0])
    return tuple(np.stack(parts).reshape(*stack, *parts[0].shape) for parts in zip(*found, strict=True))


# --- Cholesky and triangles --------------------------------------------------------------------------


def cholesky_reference(x: Array, upper: bool = False) -> Array:
    found = np.linalg.cholesky(positive(x))
    return adjoint(found) if upper else found


def with_factor(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    for upper in (False, True):
        yield s(make(3, 2), make(3, 3), upper=upper)
        yield s(make(2, 3, 1), make(3, 3), upper=upper)
    yield s(make(3, 2), make(2, 3, 3))
    yield s(make(3, 0), make(3, 3))


def whole(factor: Any, upper: bool) -> Any:
    """The positive-definite matrix that has this factor."""
    factor = firm(np.triu(factor) if upper else np.tril(factor))
    return adjoint(factor) @ factor if upper else factor @ adjoint(factor)


def triangles(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    for upper in (False, True):
        yield s(make(3, 3), make(3, 2), upper=upper)
        yield s(make(3, 3), make(2, 3), upper=upper, left=False)
        yield s(make(2, 3, 3), make(3, 1), upper=upper, unitriangular=True)
    yield s(make(3, 3), make(2, 3, 2), upper=True)
    yield s(make(6, 2, 2), make(6, 2, 1), upper=False)
    yield s(make(5, 1, 3, 3), make(2, 1, 3), upper=True, left=False)
    yield s(make(0, 0), make(0, 2), upper=False)
    yield s(make(2, 2), make(2, 0), upper=True)


def triangle(x: Array, upper: bool, unitriangular: bool) -> Array:
    x = firm(x)
    x = np.triu(x) if upper else np.tril(x)
    if unitriangular:
        x = np.where(np.eye(x.shape[-1]) > 0, 1, x)
    return x


def triangular_reference(
    a: Array, b: Array, upper: bool = True, left: bool = True, unitriangular: bool = False, transpose: bool = False
) -> Array:
    a = triangle(a, upper, unitriangular)
    a = np.swapaxes(a, -1, -2) if transpose else a
    if left:
        return np.linalg.inv(a) @ b
    return b @ np.linalg.inv(a)


def old_triangles(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    yield s(make(3, 2), make(3, 3))
    yield s(make(3, 2), make(3, 3), transpose=True)
    yield s(make(2, 3, 1), make(3, 3), upper=False, unitriangular=True)


TRIANGLES = [
    row(
        "cholesky",
        lambda x, **how: classic.cholesky(positive(x), **how),
        cholesky_reference,
        each_of(shapes(*SQUARE), shapes((3, 3), upper=True)),
    ),
    row(
        "linalg.cholesky",
        lambda x, **how: linalg.cholesky(positive(x), **how),
        cholesky_reference,
        each_of(shapes(*SQUARE), shapes((2, 3, 3), upper=True)),
    ),
    row(
        "linalg.cholesky_ex",
        lambda x: tuple(linalg.cholesky_ex(positive(x))),
        lambda x: (cholesky_reference(x), np.zeros(x.shape[:-2], np.int32)),
        shapes(*SQUARE),
        result=("keep", COUNTS),
    ),
    row(
        "cholesky_solve",
        lambda b, a, upper=False: linalg.cholesky_solve(b, firm(a), upper),
        lambda b, a, upper=False: np.linalg.inv(whole(a, upper)) @ b,
        with_factor,
    ),
    row(
        "cholesky_inverse",
        lambda a, upper=False: linalg.cholesky_inverse(firm(a), upper),
        lambda a, upper=False: np.linalg.inv(whole(a, upper)),
        each_of(shapes(*SQUARE), shapes((3, 3), upper=True)),
    ),
    row(
        "linalg.solve_triangular",
        lambda a, b, **how: linalg.solve_triangular(firm(a), b, **how),
        triangular_reference,
        triangles,
    ),
    row(
        "triangular_solve",
        lambda b, a, **how: tuple(classic.triangular_solve(b, firm(a), **how)),
        lambda b, a, **how: (triangular_reference(a, b, **how), firm(a)),
        old_triangles,
    ),
]


# --- LU ----------------------------------------------------------------------------------------------


def lu_factor_reference(x: Array) -> tuple[Array, Array]:
    """By elimination with the largest pivot, and the exchanges counted from 1."""

    def one(a: Array) -> tuple[Array, Array]:
        a, k = a.copy(), min(a.shape)
        pivots = np.zeros(k, np.int32)
        for j in range(k):
            p = j + int(np.argmax(np.abs(a[j:, j].real) + np.abs(a[j:, j].imag)))
            a[[j, p]], pivots[j] = a[[p, j]], p + 1
            a[j + 1 :, j] /= a[j, j]
            a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
        return a, pivots

    return stacked(one, x)


def lu_reference(x: Array) -> tuple[Array, ...]:
    if not x.size:
        return np.zeros((*x.shape[:-2], x.shape[-2], x.shape[-2])) + np.eye(x.shape[-2]), *unpacked(x)
    return stacked(scipy.linalg.lu, x)


def unpacked(packed: Array) -> tuple[Array, Array]:
    k = min(packed.shape[-2:])
    lower = np.tril(packed[..., :k], -1) + np.eye(packed.shape[-2], k, dtype=packed.dtype)
    return lower, np.triu(packed[..., :k, :])


def unpivoted(x: Array) -> Array:
    x = x.copy()
    for j in range(min(x.shape[-2:])):
        x[..., j + 1 :, j] /= x[..., j, j, None]
        x[..., j + 1 :, j + 1 :] -= x[..., j + 1 :, j, None] * x[..., j, None, j + 1 :]
    return x


def permutation(pivots: Array, m: int) -> Array:
    def one(_: Array, steps: Array) -> tuple[Array]:
        order = list(range(m))
        for i, p in enumerate(steps):
            order[i], order[p - 1] = order[p - 1], order[i]
        return (np.eye(m)[:, order],)

    stack = pivots.shape[:-1]
    found = stacked(one, np.zeros((*stack, 0, 0)), pivots)
    return np.asarray(found[0])


def dominant(x: Any) -> Any:
    """A matrix whose elimination needs no exchanges."""
    m, n = x.shape[-2:]
    unit = 4 * np.eye(m, n)
    return x + (unit.astype(x.dtype) if isinstance(x, Array) else lucid.tensor(unit, dtype=x.dtype))


PIVOTS = np.array([3, 3, 3], np.int32)


def packed_factors(make: Make, *right: tuple[int, ...], **how: Any) -> Iterator[Sample]:
    """Factors of a 3 by 3 matrix and of a stack of them, and something for each."""
    if make.name in HALVES:
        return
    single, stack = right
    yield s(make(3, 3), PIVOTS, make(*single), **how)
    yield s(make(2, 3, 3), np.stack([PIVOTS, PIVOTS - 1]), make(*stack), **how)


def lu_solutions(make: Make) -> Iterator[Sample]:
    for adjoint in (False, True):
        yield from packed_factors(make, (3, 2), (2, 3, 1), adjoint=adjoint)
        yield from packed_factors(make, (2, 3), (2, 1, 3), adjoint=adjoint, left=False)


def lu_solve_reference(a: Array, pivots: Array, b: Array, adjoint: bool = False, left: bool = True) -> Array:
    lower, upper = unpacked(firm(a))
    a = permutation(pivots, 3) @ lower @ upper
    a = np.conj(np.swapaxes(a, -1, -2)) if adjoint else a
    return np.linalg.inv(a) @ b if left else b @ np.linalg.inv(a)


def unpack_samples(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    yield s(make(3, 3), PIVOTS)
    yield s(make(5, 3), PIVOTS)
    yield s(make(2, 3, 5), np.stack([PIVOTS, PIVOTS - 1]))


LU = [
    row(
        "lu",
        lambda x: tuple(classic.lu(x)),
        lu_factor_reference,
        shapes(*ANY),
        result=("keep", COUNTS),
    ),
    row("linalg.lu_factor", lambda x: tuple(linalg.lu_factor(x)), lu_factor_reference, shapes(*ANY), result=("keep", COUNTS)),
    row(
        "linalg.lu_factor_ex",
        lambda x: tuple(linalg.lu_factor_ex(dominant(x), pivot=False)),
        lambda x: (
            unpivoted(dominant(x)),
            np.zeros((*x.shape[:-2], min(x.shape[-2:])), np.int32) + np.arange(1, min(x.shape[-2:]) + 1, dtype=np.int32),
            np.zeros(x.shape[:-2], np.int32),
        ),
        shapes(*ANY),
        result=("keep", COUNTS, COUNTS),
    ),
    row("linalg.lu", lambda x: tuple(linalg.lu(x)), lu_reference, shapes(*ANY)),
    row(
        "linalg.lu_solve",
        lambda a, p, b, **how: linalg.lu_solve(firm(a), p, b, **how),
        lu_solve_reference,
        lu_solutions,
    ),
    row(
        "lu_solve",
        lambda a, p, b: classic.lu_solve(b, firm(a), p),
        lu_solve_reference,
        lambda make: packed_factors(make, (3, 2), (2, 3, 1)),
    ),
    row(
        "lu_unpack",
        lambda a, p: tuple(linalg.lu_unpack(a, p)),
        lambda a, p: (permutation(p, a.shape[-2]), *unpacked(a)),
        unpack_samples,
    ),
]  # fmt: skip


# --- LDL ---------------------------------------------------------------------------------------------


def symmetric(x: Any) -> Any:
    """With a small diagonal, so that D has blocks of two."""
    return x + x.swapaxes(-1, -2) - eye(x) * x


def hermitian_hollow(x: Any) -> Any:
    return hermitian(x) - eye(x) * x.real


def ldl_reference(x: Array, hermitian: bool) -> Any:
    """LAPACK's factors."""
    name = "hetrf" if hermitian and x.dtype.kind == "c" else "sytrf"

    def one(a: Array) -> tuple[Array, Array]:
        packed, pivots, _ = scipy.linalg.get_lapack_funcs(name, (a,))(a, lower=True)
        return np.tril(packed), pivots

    return stacked(one, x) if x.size else (x, np.zeros(x.shape[:-1], np.int32))


# A block of two rows, of which the second was exchanged with the third, and a block of one.
BLOCKS = np.array([-3, -3, 3], np.int32)
EXCHANGES = np.array([2, 3, 3], np.int32)


def ldl_solutions(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    for hermitian in (False, True):
        yield s(make(3, 3), BLOCKS, make(3, 2), hermitian=hermitian)
        yield s(make(2, 3, 3), np.stack([EXCHANGES, BLOCKS]), make(2, 3, 1), hermitian=hermitian)


def ldl_solve_reference(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """A = F D F^*, F being the product of each step's exchange and column of L."""

    def one(ld: Array, pivots: Array, b: Array) -> tuple[Array]:
        ld, k = firm(ld), 0
        F, D = np.eye(3, dtype=ld.dtype), np.zeros((3, 3), ld.dtype)
        while k < 3:
            size = 1 if pivots[k] > 0 else 2
            rows = slice(k, k + size)
            swap, step = np.eye(3), np.eye(3, dtype=ld.dtype)
            exchanged = [k + size - 1, abs(pivots[k]) - 1]
            swap[exchanged] = swap[exchanged[::-1]]
            step[k + size :, rows] = ld[k + size :, rows]
            F = F @ swap @ step
            block = np.tril(ld[rows, rows])
            D[rows, rows] = block + (np.conj if hermitian else np.asarray)(np.tril(block, -1).T)
            k += size
        A = F @ D @ (np.conj(F.T) if hermitian else F.T)
        return (np.linalg.inv(A) @ b,)

    return np.asarray(stacked(one, ld, pivots, b)[0])


LDL = [
    row(
        "linalg.ldl_factor",
        lambda x: tuple(linalg.ldl_factor(symmetric(x))),
        lambda x: ldl_reference(symmetric(x), False),
        shapes(*SQUARE, (5, 5)),
        result=("keep", COUNTS),
    ),
    row(
        "linalg.ldl_factor_ex",
        lambda x: tuple(linalg.ldl_factor_ex(hermitian_hollow(x), hermitian=True)),
        lambda x: (*ldl_reference(hermitian_hollow(x), True), np.zeros(x.shape[:-2], np.int32)),
        shapes(*SQUARE, (5, 5)),
        result=("keep", COUNTS, COUNTS),
    ),
    row(
        "linalg.ldl_solve",
        lambda a, p, b, **how: linalg.ldl_solve(firm(a), p, b, **how),
        ldl_solve_reference,
        ldl_solutions,
        unbatched="i",
    ),
]


# --- QR and reflections ------------------------------------------------------------------------------


def projector(x: Any) -> Any:
    """On the space of the columns, whatever their basis."""
    return x @ adjoint(x)


def complete_qr(x: Any) -> tuple[Any, Any, Any]:
    q, r = np.linalg.qr(x, "complete") if isinstance(x, Array) else linalg.qr(x, mode="complete")
    n = x.shape[-1]
    return q[..., :n], projector(q[..., n:]), r


def reflections(a: Array, tau: Array) -> Array:
    """H1 ... Hk, one after the other."""

    def one(a: Array, tau: Array) -> tuple[Array]:
        q = np.eye(len(a), dtype=a.dtype)
        for i, t in enumerate(tau):
            v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
            q = q - t * np.outer(q @ v, v.conj())
        return (q,)

    found = stacked(one, a, tau)
    return np.asarray(found[0])


def reflectors(make: Make) -> Iterator[Sample]:
    if make.name not in HALVES:
        yield s(make(3, 3), make(3))
        yield s(make(5, 3), make(2))
        yield s(make(2, 3, 2), make(2, 2))
        yield s(make(3, 2), make(0))
        yield s(make(3, 0), make(0))


def reflected(make: Make) -> Iterator[Sample]:
    if make.name in HALVES:
        return
    for transpose in (False, True):
        yield s(make(3, 2), make(2), make(3, 5), transpose=transpose)
        yield s(make(2, 3, 3), make(2, 2), make(2, 1, 3), left=False, transpose=transpose)


def ormqr_reference(a: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False) -> Array:
    q = reflections(a, tau)
    q = adjoint(q) if transpose else q
    return q @ other if left else other @ q


def geqrf_reference(x: Array) -> tuple[Array, Array]:
    h, tau = np.linalg.qr(x, "raw")
    return np.swapaxes(h, -1, -2), tau


# Reflections begin with a column that is not 0 below the diagonal.
REFLECTED = ((3, 3), (2, 3, 3), (0, 3, 3), (5, 3), (2, 5), (2, 3, 2), (3, 0))

ORTHOGONAL = [
    row("linalg.qr", lambda x: tuple(linalg.qr(x)), np.linalg.qr, shapes(*ANY)),
    row("linalg.qr_r", lambda x: linalg.qr(x, mode="r").R, lambda x: np.linalg.qr(x, "r"), shapes(*ANY)),
    row("linalg.qr_complete", complete_qr, complete_qr, shapes((3, 3), (5, 3), (2, 3, 2), (3, 0), (2, 3))),
    row("qr", lambda x: tuple(classic.qr(x)), np.linalg.qr, shapes((3, 3), (2, 3, 2))),
    row("geqrf", lambda x: tuple(classic.geqrf(x)), geqrf_reference, shapes(*REFLECTED)),
    row("linalg.householder_product", linalg.householder_product, lambda a, t: reflections(a, t)[..., : a.shape[-1]], reflectors),
    row("orgqr", classic.orgqr, lambda a, t: reflections(a, t)[..., : a.shape[-1]], reflectors),
    row("ormqr", classic.ormqr, ormqr_reference, reflected),
]  # fmt: skip


# --- eigenvalues and singular values -----------------------------------------------------------------


def of_eigh(x: Any, **how: Any) -> tuple[Any, Any, Any]:
    """Eigenvalues, a function of the matrix, and the sizes of the eigenvectors' components."""
    w, v = (np.linalg.eigh if isinstance(x, Array) else linalg.eigh)(hermitian(x), **how)
    return w, (v * (w * w)[..., None, :]) @ adjoint(v) * 0.1, squared(v)


def of_eig(x: Any) -> tuple[Any, ...]:
    w, v = np.linalg.eig(x + 0j) if isinstance(x, Array) else linalg.eig(x)
    return *by_size(w), squared(v).sum(-1)


def by_size(w: Any) -> tuple[Any, ...]:
    """Symmetric functions of the eigenvalues, which have no order."""
    total, squares = w.sum(-1), (w * w).sum(-1)
    return total.real, total.imag, squares.real, (w * w.conj()).real.sum(-1)


def of_svd(x: Any) -> tuple[Any, Any, Any, Any]:
    u, sv, vh = (np.linalg.svd if isinstance(x, Array) else linalg.svd)(x, full_matrices=False)
    return sv, (u * (sv * sv)[..., None, :]) @ vh, squared(u), squared(vh)


def of_full_svd(x: Any) -> tuple[Any, Any, Any]:
    u, sv, vh = (np.linalg.svd if isinstance(x, Array) else linalg.svd)(x, full_matrices=True)
    k = min(x.shape[-2:])
    return sv, projector(u[..., k:]), projector(adjoint(vh[..., k:, :]))


def of_old_svd(x: Any) -> tuple[Any, Any, Any]:
    if isinstance(x, Array):
        u, sv, vh = np.linalg.svd(x, full_matrices=False)
        v = adjoint(vh)
    else:
        u, sv, v = classic.svd(x)
    return sv, squared(u), squared(v)


EIGEN = [
    row(
        "linalg.eigh",
        of_eigh,
        of_eigh,
        each_of(shapes(*SQUARE), shapes((3, 3), UPLO="U")),
        result=("real", "keep", "real"),
    ),
    row(
        "linalg.eigvalsh",
        lambda x: linalg.eigvalsh(hermitian(x)),
        lambda x: np.linalg.eigvalsh(hermitian(x)),
        shapes(*SQUARE),
        result="real",
    ),
    row("linalg.eig", of_eig, of_eig, shapes(*SQUARE), result="real"),
    row("linalg.eigvals", lambda x: by_size(linalg.eigvals(x)), lambda x: by_size(np.linalg.eigvals(x + 0j)),
        shapes(*SQUARE), result="real"),
    row("linalg.svd", of_svd, of_svd, shapes(*ANY), result=("real", "keep", "real", "real")),
    row("linalg.svd_full", of_full_svd, of_full_svd, shapes((3, 3), (5, 3), (2, 3, 5), (3, 0)), result=("real", "keep", "keep")),
    row("svd", of_old_svd, of_old_svd, shapes((3, 3), (2, 3, 2)), result="real"),
    row("linalg.svdvals", linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), shapes(*ANY), result="real"),
]  # fmt: skip

ROWS = [*TRIANGLES, *LU, *LDL, *ORTHOGONAL, *EIGEN]
