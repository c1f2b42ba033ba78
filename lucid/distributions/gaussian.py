"""Normal distributions of vectors."""

import math
from typing import Any

import lucid
from lucid import Tensor, linalg
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape, derived

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def columns_solved(lower: Tensor, x: Tensor) -> Tensor:
    """lower⁻¹ x for the vectors in the last dimension of x: in one call for all, if the matrix is one."""
    if lower.ndim == 2:
        flat = x.reshape(-1, x.shape[-1])
        return linalg.solve_triangular(lower, flat.t(), upper=False).t().reshape(x.shape)
    return linalg.solve_triangular(lower, x.unsqueeze(-1), upper=False).squeeze(-1)


def tril_of_precision(precision: Tensor) -> Tensor:
    """L of covariance = L Lᵀ: with the factor of the precision turned round, without an inverse of it."""
    flipped = linalg.cholesky(precision.flip(-2, -1))
    upper = flipped.flip(-2, -1).transpose(-2, -1)
    n = precision.shape[-1]
    return linalg.solve_triangular(upper, lucid.eye(n, dtype=precision.dtype), upper=False)


class OfCovariance(Parametric):
    """What is given by a covariance matrix, its inverse, or its Cholesky factor, which is what instances keep."""

    _choices = ("covariance_matrix", "precision_matrix", "scale_tril")
    _inner = {"_tril": 2}
    _tril: Tensor

    def _take(self, given: dict[str, Any], validate_args: bool | None) -> None:
        super()._take(given, validate_args)
        matrix = self._likelihood
        if "covariance_matrix" in self._given:
            matrix = linalg.cholesky(matrix)
        elif "precision_matrix" in self._given:
            matrix = tril_of_precision(matrix)
        self._tril = matrix

    @derived
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._tril

    @derived
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._tril @ self._tril.transpose(-2, -1)

    @derived
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._tril.shape[-1]
        inverse = linalg.solve_triangular(self._tril, lucid.eye(n, dtype=self._dtype), upper=False)
        return inverse.transpose(-2, -1) @ inverse

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        return self._tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


_COVARIANCES: dict[str, constraints.Constraint] = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


class Gaussian(Parametric):
    """Vectors x with log p(x) = -|x - loc|² / 2 - log volume - n/2 log 2π, in the metric of the covariance."""

    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        raise NotImplementedError

    def _square(self, x: Tensor) -> Tensor:
        """xᵀ covariance⁻¹ x."""
        raise NotImplementedError

    def _factor(self) -> Tensor:
        """A matrix F with covariance = F Fᵀ."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[0]
        return -0.5 * (self._square(value - self.loc) + n * math.log(2 * math.pi)) - self._log_volume()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_volume()


class MultivariateNormal(OfCovariance, Gaussian):
    """The normal distribution of vectors with mean `loc` and a covariance, given as such, inverted or factored.

    >>> import lucid
    >>> m = lucid.distributions.MultivariateNormal(lucid.zeros(2), lucid.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> m.log_prob(lucid.zeros(2)), m.variance
    (Tensor(-2.3872), Tensor([2., 2.]))
    """

    arg_constraints = {"loc": constraints.real_vector, **_COVARIANCES}

    @property
    def variance(self) -> Tensor:
        return (self._tril**2).sum(-1)

    def _square(self, x: Tensor) -> Tensor:
        return (columns_solved(self._tril, x) ** 2).sum(-1)

    def _factor(self) -> Tensor:
        return self._tril

    def _draw(self, shape: Shape) -> Tensor:
        return self.loc + (self._tril @ self._normal(shape).unsqueeze(-1)).squeeze(-1)


class LowRankMultivariateNormal(Gaussian):
    """The normal distribution of covariance W Wᵀ + diag(D), for W = cov_factor of few columns and D = cov_diag.

    >>> import lucid
    >>> m = lucid.distributions.LowRankMultivariateNormal(lucid.zeros(2), lucid.ones(2, 1), lucid.ones(2))
    >>> m.covariance_matrix
    Tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    cov_factor: Tensor
    cov_diag: Tensor

    def _take(self, given: dict[str, Any], validate_args: bool | None) -> None:
        super()._take(given, validate_args)
        n = self._event_shape[0]
        if self.cov_factor.shape[-2] != n or self.cov_diag.shape[-1] != n:
            raise ValueError(
                f"LowRankMultivariateNormal: for vectors of {n} elements cov_factor must have as many rows and cov_diag "
                f"as many elements, not shapes {self.cov_factor.shape} and {self.cov_diag.shape}"
            )

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """W Wᵀ + diag(D)."""
        return self.cov_factor @ self.cov_factor.transpose(-2, -1) + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's formula."""
        scaled = self._scaled()
        solved = linalg.solve_triangular(self._capacitance(), scaled, upper=False)
        return (1 / self.cov_diag).diag_embed() - solved.transpose(-2, -1) @ solved

    def _scaled(self) -> Tensor:
        """Wᵀ D⁻¹."""
        return self.cov_factor.transpose(-2, -1) / self.cov_diag.unsqueeze(-2)

    def _capacitance(self) -> Tensor:
        """The Cholesky factor of I + Wᵀ D⁻¹ W, a small matrix."""
        n = self.cov_factor.shape[-1]
        return linalg.cholesky(self._scaled() @ self.cov_factor + lucid.eye(n, dtype=self._dtype))

    def _log_volume(self) -> Tensor:
        return self._capacitance().diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def _square(self, x: Tensor) -> Tensor:
        inner = (self._scaled() @ x.unsqueeze(-1)).squeeze(-1)
        return (x**2 / self.cov_diag).sum(-1) - (columns_solved(self._capacitance(), inner) ** 2).sum(-1)

    def _factor(self) -> Tensor:
        return lucid.cat([self.cov_factor, self.cov_diag.sqrt().diag_embed()], -1)

    def _draw(self, shape: Shape) -> Tensor:
        few = self._normal((*shape[:-1], self.cov_factor.shape[-1], 1))
        return self.loc + (self.cov_factor @ few).squeeze(-1) + self.cov_diag.sqrt() * self._normal(shape)
