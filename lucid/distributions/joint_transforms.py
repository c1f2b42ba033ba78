"""Transforms of vectors and matrices, and of parts of a tensor each by a transform of its own."""

import math
from collections.abc import Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.distributions import constraints
from lucid.distributions.distribution import Shape, sum_last
from lucid.distributions.transform import Transform

__all__ = """
    CatTransform CorrCholeskyTransform LowerCholeskyTransform PositiveDefiniteTransform SoftmaxTransform StackTransform
    StickBreakingTransform
""".split()


class SoftmaxTransform(Transform):
    """y = softmax(x): not bijective, as x and x + c have the same image.

    >>> import lucid
    >>> lucid.distributions.SoftmaxTransform()(lucid.zeros(2))
    Tensor([0.5, 0.5])
    """

    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """Real vectors to the simplex of one more dimension: each element breaks its part off what is left of a stick.

    >>> import lucid
    >>> lucid.distributions.StickBreakingTransform()(lucid.zeros(2))
    Tensor([0.3333, 0.3333, 0.3333])
    """

    bijective = True
    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex

    def _offsets(self, x: Tensor) -> Tensor:
        """The logarithm of how many parts are still to come: zeros give equal parts."""
        return lucid.arange(x.shape[-1], 0, -1, dtype=x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        logits = x - self._offsets(x)
        left = lucid.log_sigmoid(-logits).cumsum(-1)  # logarithms of what is left after each
        none = lucid.zeros_like(left[..., :1])
        return lucid.cat([lucid.log_sigmoid(logits) + lucid.cat([none, left[..., :-1]], -1), left[..., -1:]], -1).exp()

    def _inverse(self, y: Tensor) -> Tensor:
        # What is left behind a part, summed from the end: nothing cancels.
        left = y.flip(-1).cumsum(-1).flip(-1)[..., 1:]
        parts = y[..., :-1]
        return parts.log() - left.log() + self._offsets(parts)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logits = x - self._offsets(x)
        return (lucid.log_sigmoid(-logits) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangular ones with a positive diagonal, by exp of the diagonal.

    >>> import lucid
    >>> lucid.distributions.LowerCholeskyTransform()(lucid.zeros(2, 2))
    Tensor([[1., 0.],
            [0., 1.]])
    """

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones, L Lᵀ of what `LowerCholeskyTransform` makes.

    >>> import lucid
    >>> lucid.distributions.PositiveDefiniteTransform()(lucid.zeros(2, 2))
    Tensor([[1., 0.],
            [0., 1.]])
    """

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.transpose(-2, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(lucid.linalg.cholesky(y))


def _below(matrix: Tensor, diagonal: int = -1) -> Tensor:
    """The elements below the diagonal, row by row."""
    n = matrix.shape[-1]
    rows, columns = lucid.tril_indices(n, n, diagonal)
    return matrix.flatten(-2)[..., rows * n + columns]


class CorrCholeskyTransform(Transform):
    """Real vectors of D(D-1)/2 elements to the Cholesky factors of D×D correlation matrices.

    With r = tanh(x), row by row, each element takes the part r of the length that is left: y = r √Π (1 - r²).

    >>> import lucid
    >>> lucid.distributions.CorrCholeskyTransform()(lucid.zeros(1))
    Tensor([[1., 0.],
            [0., 1.]])
    """

    bijective = True
    domain: Any = constraints.real_vector
    codomain: Any = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        n = self.forward_shape(x.shape)[-1]
        eps = lucid.finfo(x.dtype).eps
        rows, columns = lucid.tril_indices(n, n, -1)
        flat = lucid.zeros(*x.shape[:-1], n * n, dtype=x.dtype)
        places = (rows * n + columns).expand(x.shape)
        r = flat.scatter_add(-1, places, x.tanh().clamp(-1 + eps, 1 - eps)).unflatten(-1, (n, n))
        left = (1 - r * r).sqrt().cumprod(-1)
        left = lucid.cat([lucid.ones_like(left[..., :1]), left[..., :-1]], -1)
        return (r + lucid.eye(n, dtype=x.dtype)) * left

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        left = lucid.cat([lucid.ones_like(left[..., :1]), left[..., :-1]], -1)
        return (_below(y) / _below(left).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """By the elements below the diagonal."""
        left = 1 - (y * y).cumsum(-1)
        lengths = 0.5 * _below(left, -2).log().sum(-1)
        return lengths - 2 * (x - lucid.log_sigmoid(2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: {shape[-1]} is not the number of elements below a diagonal")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Shape) -> Shape:
        n = shape[-1]
        if len(shape) < 2 or shape[-2] != n:
            raise ValueError(f"CorrCholeskyTransform: square matrices were expected, not shape {shape}")
        return (*shape[:-2], n * (n - 1) // 2)


class _Joined(Transform):
    """Parts along `dim`, each by a transform of its own."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.dim = dim
        self.bijective = all(t.bijective for t in self.transforms)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)])

    def _logs(self, x: Tensor, y: Tensor) -> list[Tensor]:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [t.log_abs_det_jacobian(before, after) for t, before, after in parts]


class CatTransform(_Joined):
    """Parts of given `lengths` along `dim`, each by a transform of its own, as for `lucid.cat`.

    >>> import lucid
    >>> d = lucid.distributions
    >>> t = d.CatTransform([d.ExpTransform(), d.identity_transform], lengths=[1, 2])
    >>> t(lucid.tensor([0.0, 1.0, 2.0]))
    Tensor([1., 1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _arguments(self) -> tuple[Any, ...]:
        return self.transforms, self.dim, self.lengths

    @property
    def length(self) -> int:
        """Of all parts."""
        return sum(self.lengths)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return lucid.cat(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        most = self.event_dim
        logs = [sum_last(f, most - t.event_dim) for t, f in zip(self.transforms, self._logs(x, y), strict=True)]
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + most
        return lucid.cat(logs, dim) if dim < 0 else sum(logs[1:], logs[0])


class StackTransform(_Joined):
    """Slices along `dim`, each by a transform of its own, as for `lucid.stack`.

    >>> import lucid
    >>> d = lucid.distributions
    >>> d.StackTransform([d.ExpTransform(), d.identity_transform])(lucid.tensor([[0.0], [2.0]]))
    Tensor([[1.],
            [2.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _arguments(self) -> tuple[Any, ...]:
        return self.transforms, self.dim

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return lucid.stack(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return lucid.stack(self._logs(x, y), self.dim)
