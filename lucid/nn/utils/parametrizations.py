"""Ready-made parametrizations of weights."""

from typing import Any

from lucid import Tensor
from lucid.nn.module import Module
from lucid.nn.utils import orthogonality, weight_norms
from lucid.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_norms.weight_from(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return weight_norms.norm_except(weight, self.dim), weight.detach().clone()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the length and the direction of a weight apart: w = g · v / ‖v‖.

    The norm is over all dimensions but `dim`, or over all if that is None. `original0` is g, `original1` is v.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import parametrizations
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.tensor([[3.0, 4.0]]))
    >>> _ = parametrizations.weight_norm(layer)
    >>> layer.parametrizations.weight.original0
    Parameter containing:
    Tensor([[5.]], requires_grad=True)
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim {dim} is out of range for a weight of shape {weight.shape}")
        weight_norms.raise_if_not_positive(n_power_iterations)
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            u, v = weight_norms.first_vectors(weight_norms.as_matrix(weight.detach(), self.dim), eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight_norms.unit(weight, self.eps)
        matrix = weight_norms.as_matrix(weight, self.dim)
        if self.training:
            weight_norms.power_iterations(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        return weight / weight_norms.largest_singular_value(matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        # A weight with another norm is not in the image; the one that is nearest in direction is itself.
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = weight_norms.EPSILON,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, which each use in training mode estimates anew.

    The weight counts as a matrix whose rows are the entries of `dim`: 0, and 1 for transposed convolutions.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import parametrizations
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.tensor([[4.0, 0.0], [0.0, 2.0]]))
    >>> _ = parametrizations.spectral_norm(layer)
    >>> lucid.allclose(layer.weight, lucid.tensor([[1.0, 0.0], [0.0, 0.5]]), atol=1e-5)
    True
    """
    weight = _weight_of(module, name, "normalize")
    chosen = weight_norms.default_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, chosen, eps))


def _weight_of(module: Module, name: str, verb: str) -> Tensor:
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r} to {verb}")
    return weight


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep the columns of a weight orthonormal, or its rows if there are fewer of them: Q* Q = I.

    `orthogonal_map` makes it from free parameters: "matrix_exp", "cayley" or "householder"; by default the first for
    square and complex weights, the last for others. With `use_trivialization` the result is multiplied by a base,
    which is set when the weight is assigned, so that every orthonormal weight can be; without it only "householder"
    takes assignments. Training starts from the nearest orthonormal matrix that a QR factorization gives, but without
    `use_trivialization` from that of the parameters as they are, unless the map is "householder".

    >>> import lucid
    >>> from lucid import nn
    >>> from lucid.nn.utils import parametrizations
    >>> layer = parametrizations.orthogonal(nn.Linear(3, 2))
    >>> lucid.allclose(layer.weight @ layer.weight.T, lucid.eye(2), atol=1e-5)
    True
    """
    weight = _weight_of(module, name, "make orthogonal")
    made = orthogonality.parametrization(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
