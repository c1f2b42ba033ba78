"""Rows of the table for solvers, norms and functions of matrices; see `samples`.

Matrices to invert are random plus a multiple of the identity, so that no sample is nearly singular.
"""

# ruff: noqa: N803 -- arguments have the names that PyTorch gives them

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from samples import Array, Make, Row, Sample, Samples, kink, on_vectors, s

from lucid import linalg
from lucid.core.primitive import P
from lucid.linalg import determinants, least_squares, products, solvers

MATRICES: dict[str, Any] = {"complex": True, "halves": False}


def firm(make: Make, *shape: int, diagonal: float = 4.0) -> Array:
    """Square matrices far from singular ones."""
    return np.asarray(make(*shape) + diagonal * np.eye(shape[-1])).astype(make.dtype)


def tall(make: Make, *shape: int) -> Array:
    """Matrices with singular values far from 0 and from each other."""
    steps = np.diag(3.0 + 2.0 * np.arange(max(shape[-2:])))[: shape[-2], : shape[-1]]
    return np.asarray(0.4 * make(*shape) + steps).astype(make.dtype)


def stacks(*rest: Any, **options: Any) -> Samples:
    """A matrix, stacks, another memory layout, no matrices and matrices of no elements; all of them regular."""

    def samples(make: Make) -> Iterator[Sample]:
        yield s(firm(make, 3, 3), *rest, **options)
        yield s(np.swapaxes(firm(make, 2, 3, 3), -1, -2), *rest, **options)
        yield s(firm(make, 1, 1), *rest, **options)
        yield s(make(0, 3, 3), *rest, **options)
        yield s(make(2, 0, 0), *rest, **options)

    return samples


# --- determinants and inverses ---------------------------------------------------------------------


def leibniz(x: Array) -> Array:
    """The determinant by expansion along the first row: exact in derivatives, singular or not."""
    if not x.shape[-1]:
        return np.ones(x.shape[:-2], x.dtype)
    minors = [np.delete(x[..., 1:, :], j, -1) for j in range(x.shape[-1])]
    terms = [(-1) ** j * x[..., 0, j] * leibniz(m) for j, m in enumerate(minors)]
    return np.asarray(sum(terms))


def any_squares(make: Make) -> Iterator[Sample]:
    yield from stacks()(make)
    column, row = make(2, 3, 1), make(2, 1, 3)
    yield s(column * row)  # of rank 1
    yield s(make(3, 2) @ make(2, 3))
    yield s(np.zeros((3, 3), make.dtype))


def slogdet(x: Array) -> tuple[Array, Array]:
    d = np.linalg.det(x)
    return d / np.abs(d), np.log(np.abs(d))


def positive(make: Make) -> Iterator[Sample]:
    yield s(firm(make, 3, 3, diagonal=8.0))
    yield s(firm(make, 2, 3, 3, diagonal=8.0))
    yield s(make(2, 0, 0))
    yield s(make(0, 2, 2))


def adjugate(x: Array) -> Array:
    n = x.shape[-1]
    out = np.zeros_like(x)
    for i in range(n):
        for j in range(n):
            out[..., j, i] = (-1) ** (i + j) * leibniz(np.delete(np.delete(x, i, -2), j, -1))
    return out


def equations(make: Make) -> Iterator[Sample]:
    yield s(firm(make, 3, 3), make(3))
    yield s(firm(make, 3, 3), make(3, 2))
    yield s(firm(make, 2, 3, 3), make(2, 3))
    yield s(firm(make, 2, 3, 3), make(3))
    yield s(firm(make, 2, 1, 3, 3), make(5, 3, 1))
    yield s(firm(make, 3, 3), make(2, 3), left=False)
    yield s(np.swapaxes(firm(make, 2, 3, 3), -1, -2), make(1, 3, 3).mT, left=False)
    yield s(make(0, 0), make(0))
    yield s(make(0, 3, 3), make(3, 2))
    yield s(firm(make, 3, 3), make(3, 0))


def solve(a: Array, b: Array, left: bool = True) -> Array:
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    right = b[..., None] if vector else b
    inverse = np.linalg.inv(a)
    out = inverse @ right if left else right @ inverse
    return out[..., 0] if vector else out


# --- pseudo-inverses, least squares and ranks ------------------------------------------------------


def rectangles(make: Make) -> Iterator[Sample]:
    yield s(tall(make, 3, 2))
    yield s(tall(make, 2, 3))
    yield s(tall(make, 2, 3, 3), atol=0.01)
    yield s(tall(make, 2, 5, 3).swapaxes(-1, -2), rtol=1e-3)
    yield s(make(0, 3))
    yield s(make(0, 3, 2))


def low_rank(make: Make) -> Iterator[Sample]:
    for shape in ((3, 3), (5, 3), (2, 2, 3)):
        *stack, m, n = shape
        yield s(tall(make, *stack, m, 1), tall(make, *stack, 1, n))
    yield s(tall(make, 5, 2), tall(make, 2, 3))


def systems(make: Make) -> Iterator[Sample]:
    yield s(tall(make, 3, 2), make(3), driver="gels")
    yield s(tall(make, 2, 3), make(2, 2), driver="gels")
    yield s(tall(make, 5, 3, 2), make(5, 3, 1))
    yield s(tall(make, 2, 3), make(2, 1))
    yield s(tall(make, 3, 2), make(2, 3, 2), driver="gelsd")
    yield s(tall(make, 3, 3), make(3, 2), driver="gelss")
    yield s(make(0, 2), make(0, 3))
    yield s(tall(make, 3, 2), make(3, 0))


def lstsq(a: Array, b: Array, driver: str = "gelsy") -> list[Array]:
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    right = b[..., None] if vector else b
    x = np.linalg.pinv(a, rcond=1e-10) @ right
    found = [x[..., 0] if vector else x]
    if a.shape[-2] > a.shape[-1] and driver != "gelsy":
        found.append(np.sum(np.abs(a @ x - right) ** 2, axis=-2))
    return found


def lucid_lstsq(*args: Any, **options: Any) -> list[Any]:
    """The results that have derivatives, and are not empty."""
    out = linalg.lstsq(*args, **options)
    return [out.solution, out.residuals] if out.residuals.ndim > 1 or out.residuals.numel() else [out.solution]


def ranks(make: Make) -> Iterator[Sample]:
    yield s(tall(make, 2, 3, 2))
    yield s(make(3, 1) @ make(1, 3), atol=1e-3)
    yield s(tall(make, 3, 3), atol=4.0)
    yield s(tall(make, 3, 3), tol=0.01)
    yield s(make(0, 3))


# --- norms -----------------------------------------------------------------------------------------

ELEMENTS = ("fro", 1, -1, math.inf, -math.inf)
SPECTRAL = ("nuc", 2, -2)


def matrix_norms(make: Make) -> Iterator[Sample]:
    for order in ELEMENTS:
        yield s(tall(make, 3, 2), order)
    # Columns of other sizes, so that one of them has the largest sum in half precision too, however that is rounded.
    columns = np.moveaxis(tall(make, 5, 2, 3), 0, 1) * np.array([1, 2], make.dtype).reshape(2, 1, 1)
    yield s(columns, 1, (2, 0), True)
    yield s(tall(make, 2, 3, 3), -math.inf, dim=(1, 2))
    yield s(make(0, 3, 2), "fro")


def spectral_norms(make: Make) -> Iterator[Sample]:
    for order in SPECTRAL:
        yield s(tall(make, 3, 2), order)
    yield s(tall(make, 2, 3, 3), "nuc", keepdim=True)
    yield s(np.moveaxis(tall(make, 5, 2, 3), 0, 1), 2, (0, 2))


def matrix_norm(x: Array, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Array:
    return np.asarray(np.linalg.norm(x, ord, dim, keepdim))


def repeated(make: Make) -> Iterator[Sample]:
    """Matrices whose singular values coincide, where the sum of them is smooth all the same."""
    for shape in ((3, 3), (3, 2), (2, 3)):
        yield s(np.eye(*shape).astype(make.dtype) * np.array(2, make.dtype), "nuc")
    yield s(polar_factor(make(2, 3, 2).astype(np.result_type(make.dtype, float))).astype(make.dtype), "nuc")


def gapless(make: Make) -> Iterator[Sample]:
    """Matrices with equal singular values beside the largest or the smallest one, which is smooth all the same."""
    for sizes, order in (([3, 1, 1], 2), ([3, 0, 0], 2), ([3, 3, 1], -2)):
        turned = [polar_factor(make(3, 3).astype(np.result_type(make.dtype, float))) for _ in range(2)]
        yield s(((turned[0] * sizes) @ turned[1]).astype(make.dtype), order)
    yield s(np.eye(3, 2).astype(make.dtype) * np.array([1, 3], make.dtype), 2)
    yield s(np.eye(5, 3).T.astype(make.dtype) * np.array([1, 3, 3, 1, 1], make.dtype), -2)


def extreme_pair(x: Array, largest: bool) -> Array:
    u, _, v = np.linalg.svd(x, full_matrices=False)
    k = 0 if largest else -1
    return np.asarray(u[..., :, k, None] * v[..., k, None, :])


def polar_factor(x: Array) -> Array:
    u, _, v = np.linalg.svd(x, full_matrices=False)
    return np.asarray(u @ v)


def sylvester(x: Array, k: Array) -> Array:
    """X H + H X = K, for each matrix."""
    out = np.empty_like(k)
    for i in np.ndindex(x.shape[:-2]):
        h = x[i] + np.conj(x[i]).T
        out[i] = scipy.linalg.solve_sylvester(h, h, k[i])
    return out


def vector_norms(make: Make) -> Iterator[Sample]:
    for order in (2, 1, 3, 0.5, math.inf, -math.inf, -2):
        yield s(make(2, 3), order, 1)
    yield s(make(2, 3))
    yield s(make(2, 3, 2), 3, (0, 2), True)
    yield s(make())
    yield s(make(0))
    yield kink(make(3), 0)


def vector_norm(x: Array, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    size, dims = np.abs(x), tuple(range(x.ndim)) if dim is None else dim
    if ord == math.inf:
        return np.asarray(np.max(size, axis=dims, keepdims=keepdim))
    if ord == -math.inf:
        return np.asarray(np.min(size, axis=dims, keepdims=keepdim))
    if ord == 0:
        return np.asarray(np.sum(size != 0, axis=dims, keepdims=keepdim)).astype(size.dtype)
    return np.asarray(np.sum(size**ord, axis=dims, keepdims=keepdim) ** (1 / ord))


def any_norms(make: Make) -> Iterator[Sample]:
    yield s(tall(make, 2, 3))
    yield s(tall(make, 2, 3), 1)
    yield s(tall(make, 2, 3), 1, 0)
    yield s(make(2, 3, 2))
    yield s(tall(make, 2, 3, 2), "fro", (1, 2), keepdim=True)


def norm(x: Array, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Array:
    x = x.reshape(-1) if ord is None and dim is None else x
    return np.asarray(on_vectors(np.linalg.norm)(x, ord, dim, keepdim))


def conditions(make: Make) -> Iterator[Sample]:
    for order in (None, *ELEMENTS, *SPECTRAL):
        yield s(tall(make, 3, 3), order)
    yield s(tall(make, 2, 3, 2))
    yield s(make(2, 0, 0))


def cond(x: Array, p: Any = None) -> Array:
    if not min(x.shape[-2:]):
        return np.zeros(x.shape[:-2])
    if p in (None, 2, -2):
        sizes = np.linalg.svd(x, compute_uv=False)
        return np.asarray(sizes[..., -1] / sizes[..., 0] if p == -2 else sizes[..., 0] / sizes[..., -1])
    return np.asarray(matrix_norm(x, p) * matrix_norm(np.linalg.inv(x), p))


# --- powers and products ---------------------------------------------------------------------------


def exponents(make: Make) -> Iterator[Sample]:
    for n in (2, 3, 5, -1, -3):
        yield s(firm(make, 2, 2), n)
    yield s(firm(make, 2, 3, 3), 1)
    yield s(make(0, 2, 2), 2)


def exponentials(make: Make) -> Iterator[Sample]:
    yield s(make(3, 3))
    yield s(make(2, 2, 2) * np.array(1.5, make.dtype))
    yield s(make(1, 1))
    yield s(np.triu(make(3, 3), 1))
    yield s(np.zeros((2, 2), make.dtype))
    yield s(make(2, 0, 0))
    yield s(make(0, 2, 2))


def vander(x: Array, N: int | None = None, increasing: bool = True) -> Array:
    x = np.atleast_1d(x)
    count = x.shape[-1] if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return np.asarray(x[..., None] ** powers).astype(x.dtype)


def vecdot(x: Array, y: Array, dim: int = -1) -> Array:
    terms = np.conj(x) * y
    return np.asarray(terms.sum(axis=dim) if terms.ndim else terms)


def tensorinv(x: Array, ind: int = 2) -> Array:
    return np.linalg.tensorinv(x, ind) if x.size else x.reshape(*x.shape[ind:], *x.shape[:ind])


def rows_of(name: str, *rest: Any, **options: Any) -> Row:
    return Row(name, *rest, **{**MATRICES, **options})


NO_DOOR = {"refused": "a primitive that no user calls"}
SAME_TYPES = {"refused": "takes what matmul takes"}

ROWS = [
    rows_of("det", determinants.det, leibniz, any_squares),
    rows_of("adjugate", P.adjugate, adjugate, any_squares, without=NO_DOOR),
    rows_of("slogdet", determinants.slogdet, slogdet, stacks(), result=("keep", "real")),
    rows_of("logdet", determinants.logdet, lambda x: np.log(np.linalg.det(x)), positive),
    rows_of("inverse", solvers.inverse, np.linalg.inv, stacks()),
    rows_of("linalg.inv_ex", linalg.inv_ex, lambda x: (np.linalg.inv(x), np.zeros(x.shape[:-2], np.int32)), stacks(),
        result=("keep", "int32")),
    rows_of("linalg.solve", linalg.solve, solve, equations),
    rows_of("linalg.solve_ex", linalg.solve_ex,
        lambda x, y, **how: (solve(x, y, **how), np.zeros(x.shape[:-2], np.int32)), equations, result=("keep", "int32")),
    rows_of("linalg.tensorinv", linalg.tensorinv, tensorinv,
        lambda make: [s(firm(make, 6, 6).reshape(2, 3, 6), 2), s(firm(make, 6, 6).reshape(6, 3, 2), 1)]),
    rows_of("linalg.tensorsolve", linalg.tensorsolve, np.linalg.tensorsolve,
        lambda make: [s(firm(make, 6, 6).reshape(2, 3, 6), make(2, 3)),
                      s(firm(make, 6, 6).reshape(2, 6, 3), make(2, 3), (1,))]),
    rows_of("linalg.pinv", linalg.pinv, lambda x, **tolerances: np.linalg.pinv(x), rectangles),
    rows_of("linalg.pinv of low rank", lambda x, y: linalg.pinv(x @ y, rtol=1e-5),
        lambda x, y: np.linalg.pinv(x @ y, rcond=1e-10), low_rank),
    rows_of("linalg.pinv of hermitian", lambda x: linalg.pinv(x + x.mH, hermitian=True),
        lambda x: np.linalg.pinv(x + np.conj(x).swapaxes(-1, -2)), stacks()),
    rows_of("pinverse", least_squares.pinverse, np.linalg.pinv, lambda make: [s(tall(make, 3, 2))]),
    rows_of("linalg.matrix_rank", linalg.matrix_rank,
        lambda x, tol=None, atol=None: np.linalg.matrix_rank(x, tol=tol or atol), ranks,
        result="int64", differentiable=False),
    rows_of("linalg.lstsq", lucid_lstsq, lstsq, systems, without={"values": "results of two types: see test_linalg_solve"}),
    rows_of("linalg.matrix_norm", linalg.matrix_norm, matrix_norm, matrix_norms, result="real", halves=True),
    rows_of("linalg.matrix_norm of singular values", linalg.matrix_norm, matrix_norm, spectral_norms, result="real"),
    rows_of("linalg.vector_norm", linalg.vector_norm, vector_norm, vector_norms, result="real", halves=True),
    rows_of("linalg.matrix_norm of equal singular values", linalg.matrix_norm, matrix_norm, repeated, result="real"),
    rows_of("linalg.matrix_norm without gaps", linalg.matrix_norm, matrix_norm, gapless, result="real"),
    rows_of("extreme_pair", P.extreme_pair, extreme_pair,
        lambda make: [Sample((tall(make, *shape),), {"largest": largest})
                      for shape in ((2, 3, 3), (3, 2), (2, 3)) for largest in (True, False)], without=NO_DOOR),
    rows_of("polar_factor", P.polar_factor, polar_factor,
        lambda make: [s(tall(make, 2, 3, 3)), s(tall(make, 3, 2)), s(tall(make, 2, 3))], without=NO_DOOR),
    rows_of("sylvester", lambda x, k: P.sylvester(x + x.mH, k), sylvester,
        lambda make: [s(firm(make, 3, 3), make(3, 3)), s(firm(make, 2, 2, 2), make(2, 2, 2))], without=NO_DOOR),
    rows_of("linalg.norm", linalg.norm, norm, any_norms, result="real", halves=True),
    rows_of("linalg.cond", linalg.cond, cond, conditions, result="real"),
    rows_of("matrix_power", linalg.matrix_power, np.linalg.matrix_power, exponents,
        without={"refused": "positive powers take integers"}),
    rows_of("matrix_exp", linalg.matrix_exp, lambda x: scipy.linalg.expm(x) if x.size else x.copy(), exponentials, halves=True),
    rows_of("linalg.multi_dot", lambda *xs: linalg.multi_dot(xs), lambda *xs: np.linalg.multi_dot(xs),
        lambda make: [s(make(3), make(3, 2)), s(make(2, 3), make(3, 5), make(5, 2), make(2))], halves=True,
        without=SAME_TYPES),
    rows_of("chain_matmul", products.chain_matmul, lambda *xs: np.linalg.multi_dot(xs),
        lambda make: [s(make(2, 3), make(3, 5), make(5, 2))], halves=True, without=SAME_TYPES),
    rows_of("linalg.vander", linalg.vander, vander, lambda make: [s(make(3)), s(make(2, 3), N=5)],
        ints=("int64",), without={"refused": "takes what cumprod takes"}),
    rows_of("vander", products.vander, lambda x, N=None, increasing=False: vander(x, N, increasing),
        lambda make: [s(make(3)), s(make(3), 2), s(make(2), 3, True), s(make(2), 0)],
        ints=("int64",), without={"refused": "takes what cumprod takes"}),
    rows_of("linalg.vecdot", linalg.vecdot, vecdot,
        lambda make: [s(make(3), make(3)), s(make(2, 3), make(3)), s(make(2, 3), make(2, 3), dim=0), s(make(), make())],
        halves=True),
    rows_of("linalg.cross", linalg.cross, np.cross, lambda make: [s(make(3), make(3)), s(make(2, 3), make(1, 3))],
        halves=True, without={"refused": "takes what lucid.cross takes"}),
    rows_of("linalg.diagonal", linalg.diagonal, lambda x, offset=0: np.diagonal(x, offset, -2, -1),
        lambda make: [s(make(2, 3, 3)), s(make(2, 3), offset=1)], halves=True,
        without={"refused": "takes what lucid.diagonal takes"}),
]  # fmt: skip
