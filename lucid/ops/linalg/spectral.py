"""Norms made of singular values, with derivatives that are right where other singular values coincide.

Derivatives of singular vectors divide by the gaps between singular values. In those of a norm the gaps that do not
matter cancel, so its derivatives are made from other things. The sum of singular values is smooth wherever none of them
is 0: its gradient is the factor W of A = W H with orthonormal columns and a positive H. The largest one (or the
smallest) is smooth wherever it is simple: its gradient is W = u v*, with its own singular vectors alone.

A singular value that is exactly 0 has a kink there, as |x| has, and takes no part in W and its derivatives: so the
gradient of all of them at a matrix of zeros is 0, and "nuc" at a singular matrix is the sum of the others.
"""

from typing import Any

from lucid.ops.abstract import same
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import FINITE, adjoint, column, identity, lapack, product, real, real_for_each, solution
from lucid.ops.norms import unit_size
from lucid.ops.rules import P, conj, is_complex, sum_to


def _polar_change(x: Any, w: Any, t: Any) -> Any:
    """W Ω + (I - W W*) T H⁺, where Ω H + H Ω = W* T - T* W. As a map of T it is its own transpose."""
    if x.shape[-2] < x.shape[-1]:
        return adjoint(_polar_change(adjoint(x), adjoint(w), adjoint(t)))
    h, inner = matmul(adjoint(w), x), matmul(adjoint(w), t)
    turned = matmul(w, P.sylvester(h, inner - adjoint(inner)))
    rank = P.sum(real(conj(w) * w), dims=_plane(w), keepdim=False)
    singular = _each(rank < x.shape[-1] - 0.5)
    square = x.shape[-2] == x.shape[-1]
    rest = t - matmul(w, inner)
    rest = P.where(singular, rest, 0) if square else rest
    # H and the projector on what it maps to 0 together are invertible.
    kernel = P.where(singular, -matmul(adjoint(w), w) + identity(x.shape[-1], x), 0)
    return turned + adjoint(_solved(h + kernel, adjoint(rest - matmul(rest, kernel))))


def _solved(matrix: Any, force: Any) -> Any:
    """The solution of a linear system, and 0 where the matrix is singular: at kinks of the norm."""
    singular = column(column(P.singularity(matrix) > 0))
    regular = P.where(singular, identity(matrix.shape[-1], matrix), matrix)
    return P.solve(regular, P.where(singular, 0, force), strict=False)


def _pull_factor(ct: Any, h: Any, out: Any, h_shape: tuple[int, ...]) -> Any:
    force = P.sylvester(h, ct)
    return sum_to(-(matmul(adjoint(out), force) + matmul(force, adjoint(out))), h_shape)


def _push_sylvester(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    h, (th, tk) = primals[0], tangents
    if th is not None:
        turned = matmul(out, th) + matmul(th, out)
        tk = -turned if tk is None else tk - turned
    return P.sylvester(h, tk)


def _pair_change(x: Any, w: Any, t: Any) -> Any:
    """du v* + u dv*, where (s² I - A A*) du = s T v + A T* u and u* du = 0, and likewise for v.

    Complex pairs also turn, by the angle Im(u* T v) / s. As a map of T it is its own transpose.
    """
    unit = unit_size(x, dims=_plane(x), least=0.0)
    x = x / unit
    size, weight = _each(_along(w, x)), _each(_along(x, x))
    back, flipped, pulled = adjoint(w), adjoint(x), adjoint(t)
    left = _deflated(x, w, size, weight, size * product(t, back, w) + product(x, pulled, w))
    right = _deflated(flipped, back, size, weight, size * product(pulled, w, back) + product(flipped, t, back))
    change = left + adjoint(right)
    if is_complex(x):
        turning = P.imag(P.sum(conj(w) * t, dims=_plane(x), keepdim=False))
        angle = _each(turning) / P.where(size == 0, 1, size)
        change = change + w * (angle * 1j)
    return change / unit


def _deflated(x: Any, w: Any, size: Any, weight: Any, force: Any) -> Any:
    """(s² I - A A*)⁺ F: the projector on u makes the matrix invertible, and is taken out of F."""
    projector = matmul(w, adjoint(w))
    eye = identity(x.shape[-2], x)
    matrix = P.where(size == 0, eye, size * size * eye - matmul(x, adjoint(x)) + weight * projector)
    return _solved(matrix, force - matmul(projector, force))


def _plane(x: Any) -> tuple[int, int]:
    return x.ndim - 2, x.ndim - 1


def _each(x: Any) -> Any:
    """A number for each matrix, in the shape to multiply it by."""
    return P.reshape(x, shape=(*x.shape, 1, 1))


def _along(gradient: Any, t: Any) -> Any:
    """Re<gradient, T> for each matrix."""
    return P.sum(real(conj(gradient) * t), dims=_plane(t), keepdim=False)


nuclear_norm = lapack(
    "nuclear_norm",
    rules=(lambda ct, x: _each(ct) * P.polar_factor(x),),
    jvp=lambda prim, primals, tangents, out, params: _along(P.polar_factor(primals[0]), tangents[0]),
    abstract=real_for_each,
    checks=FINITE,
)
extreme_singular_value = lapack(
    "extreme_singular_value",
    rules=(lambda ct, x, largest: _each(ct) * P.extreme_pair(x, largest=largest),),
    jvp=lambda prim, primals, tangents, out, params: _along(P.extreme_pair(primals[0], **params), tangents[0]),
    abstract=real_for_each,
    checks=FINITE,
)
extreme_pair = lapack(
    "extreme_pair",
    rules=(lambda ct, x, out: _pair_change(x, out, ct),),
    jvp=lambda prim, primals, tangents, out, params: _pair_change(primals[0], out, tangents[0]),
    abstract=same,
)
polar_factor = lapack(
    "polar_factor",
    rules=(lambda ct, x, out: _polar_change(x, out, ct),),
    jvp=lambda prim, primals, tangents, out, params: _polar_change(primals[0], out, tangents[0]),
    abstract=same,
)
# X H + H X = K for a positive H.
sylvester = lapack(
    "sylvester",
    operands=("h", "k"),
    rules=(_pull_factor, lambda ct, h, k_shape: sum_to(P.sylvester(h, ct), k_shape)),
    jvp=_push_sylvester,
    abstract=solution,
)
