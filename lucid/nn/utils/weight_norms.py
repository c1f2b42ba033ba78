"""What weight normalization and spectral normalization compute, for both ways to attach them to a module."""

import lucid
from lucid import Tensor
from lucid.nn.module import Module

EPSILON = 1e-12
_FIRST_ITERATIONS = 15


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The norm of `v` over all dimensions but one, which are kept with length 1; of all elements if `dim` is None."""
    if dim is None:
        return v.norm()
    if not -v.ndim <= dim < v.ndim:
        raise ValueError(f"weight_norm: dim {dim} is out of range for a weight of shape {v.shape}")
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return v.norm(dim=others, keepdim=True) if others else v.abs()


def weight_from(v: Tensor, g: Tensor, dim: int | None) -> Tensor:
    """g · v / ‖v‖: a weight with length `g` and the direction of `v`."""
    return v * (g / norm_except(v, dim))


def default_dim(module: Module) -> int:
    """The dimension of a module's weight that counts its outputs."""
    return int(any(kind.__name__.startswith("ConvTranspose") for kind in type(module).__mro__))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix with a row for each entry of `dim`."""
    return (weight.movedim(dim, 0) if dim else weight).reshape(weight.shape[dim], -1)


def unit(vector: Tensor, eps: float) -> Tensor:
    """The vector divided by its length, or by `eps` if that is more."""
    return vector / vector.norm().clamp(min=eps)


def power_iterations(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Bring `u` and `v`, in place, nearer to the first left and right singular vectors of a matrix."""
    with lucid.no_grad():
        for _ in range(count):
            u.copy_(unit(matrix.mv(v), eps))
            v.copy_(unit(matrix.T.mv(u), eps))


def first_vectors(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Estimates of the first left and right singular vectors of a matrix, from random ones."""
    u, v = (unit(lucid.randn(length, dtype=matrix.dtype), eps) for length in matrix.shape)
    power_iterations(matrix, u, v, _FIRST_ITERATIONS, eps)
    return u, v


def largest_singular_value(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """uᵀ M v, which is the largest singular value of M for its singular vectors u and v.

    The vectors are copied, since the next iteration overwrites them while gradients may still be wanted.
    """
    return u.detach().clone().dot(matrix.mv(v.detach().clone()))


def raise_if_not_positive(count: int) -> None:
    if count <= 0:
        raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {count}")
