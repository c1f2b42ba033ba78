"""Distributions of matrices."""

import math
from typing import Any

import lucid
from lucid import Tensor, linalg, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape
from lucid.distributions.gamma import Beta, gamma_draws
from lucid.distributions.gaussian import _COVARIANCES, OfCovariance

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(OfCovariance):
    """The sum of x xᵀ over `df` normal vectors of mean 0 and a covariance, given as such, inverted or factored.

    `df` is any number above n - 1. Draws are made of Bartlett's triangular factors, and differentiable by all parameters.

    >>> import lucid
    >>> w = lucid.distributions.Wishart(3.0, lucid.eye(2))
    >>> w.mean, w.sample().shape
    (Tensor([[3., 0.],
            [0., 3.]]), (2, 2))
    """

    arg_constraints = {"df": constraints.dependent, **_COVARIANCES}
    support = constraints.positive_definite
    has_rsample = True
    df: Tensor

    def _check_arguments(self) -> None:
        super()._check_arguments()
        least = self._event_shape[-1] - 1
        self._require(self.df > least, f"df must be greater than {least}, one less than the size of the matrix")

    def _spread(self, x: Tensor) -> Tensor:
        """A number for each matrix, beside matrices."""
        return x.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._spread(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return self._spread(lucid.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._spread(self.df) * (covariance**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _log_factor(self) -> Tensor:
        """log 2^(n/2) |L|, of which a power belongs to each degree of freedom."""
        return self._event_shape[-1] / 2 * math.log(2) + self._log_volume()

    def _trace_of(self, value: Tensor) -> Tensor:
        """The trace of the inverse of the covariance times a symmetric matrix."""
        n = self._event_shape[-1]
        lower = self._tril.expand(*value.shape[:-2], n, n) if value.ndim > self._tril.ndim else self._tril
        solved = linalg.solve_triangular(lower, value, upper=False)
        solved = linalg.solve_triangular(lower, solved.transpose(-2, -1), upper=False)
        return solved.diagonal(dim1=-2, dim2=-1).sum(-1)

    def _slopes(self) -> Tensor:
        """Σ ψ((df - i) / 2), by which the expected log det of a draw is more than 2 log 2^(n/2) |L|."""
        steps = lucid.arange(self._event_shape[-1], dtype=self._dtype)
        return ((self.df.unsqueeze(-1) - steps) / 2).digamma().sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[-1]
        determinant = (self.df - n - 1) / 2 * linalg.slogdet(value)[1]
        return (
            determinant
            - self._trace_of(value) / 2
            - self.df * self._log_factor()
            - special.multigammaln(self.df / 2, n)
        )

    def entropy(self) -> Tensor:
        n = self._event_shape[-1]
        rest = special.multigammaln(self.df / 2, n) - (self.df - n - 1) / 2 * self._slopes()
        return (n + 1) * self._log_factor() + rest + self.df * n / 2

    def _draw(self, shape: Shape) -> Tensor:
        halves = (self.df.unsqueeze(-1) - lucid.arange(shape[-1], dtype=self._dtype)) / 2
        lengths = (2 * gamma_draws(halves, shape[:-1], "Wishart")).sqrt()
        factor = self._tril @ (self._normal(shape).tril(-1) + lengths.diag_embed())
        return factor @ factor.transpose(-2, -1)


class LKJCholesky(Parametric):
    """Cholesky factors of correlation matrices C of size `dim`, of density det(C)^(concentration - 1) up to a factor.

    >>> import lucid
    >>> L = lucid.distributions.LKJCholesky(3, 2.0).sample()
    >>> lucid.allclose((L @ L.t()).diagonal(), lucid.ones(3))
    True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 2:
            raise ValueError(f"LKJCholesky: dim must be a whole number from 2 on, not {dim!r}")
        self.dim = dim
        super().__init__(concentration, validate_args)

    def _event_of(self, tensors: dict[str, Tensor], events: dict[str, int]) -> Shape:
        return self.dim, self.dim

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.dim
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        powers = 2 * (self.concentration.unsqueeze(-1) - 1) + n - lucid.arange(2, n + 1, dtype=self._dtype)
        alpha = self.concentration + 0.5 * (n - 1)
        factor = 0.5 * (n - 1) * math.log(math.pi) + special.multigammaln(alpha - 0.5, n - 1) - (n - 1) * alpha.lgamma()
        return (powers * diagonal.log()).sum(-1) - factor

    def _draw(self, shape: Shape) -> Tensor:
        """By the onion method: row by row a direction, and how much of the length it takes."""
        n, dtype = self.dim, self._dtype
        rows = lucid.arange(1, n, dtype=dtype)
        first = self.concentration.unsqueeze(-1) + 0.5 * (n - 2)
        taken = Beta(rows / 2, first - 0.5 * (rows - 1), validate_args=False)._draw((*shape[:-2], n - 1))
        around = self._normal((*shape[:-2], n - 1, n - 1)).tril()
        around = around / (around**2).sum(-1, keepdim=True).sqrt()
        below = taken.sqrt().unsqueeze(-1) * around
        below = lucid.cat([lucid.zeros(*shape[:-2], 1, n - 1, dtype=dtype), below], -2)
        diagonal = (1 - (below**2).sum(-1)).clamp(min=lucid.finfo(dtype).tiny).sqrt()
        return lucid.cat([below, lucid.zeros(*shape[:-1], 1, dtype=dtype)], -1) + diagonal.diag_embed()
