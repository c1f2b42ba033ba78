"""Angles and distances of vectors as layers."""

from lucid import Tensor
from lucid.nn.functional import similarity as functions
from lucid.nn.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    >>> import lucid
    >>> from lucid.nn.layers.similarity import CosineSimilarity
    >>> CosineSimilarity()(lucid.tensor([[1.0, 0.0]]), lucid.tensor([[1.0, 1.0]]))
    Tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return functions.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """‖x1 - x2 + eps‖, the p-norm along the last dimension.

    >>> import lucid
    >>> from lucid.nn.layers.similarity import PairwiseDistance
    >>> PairwiseDistance()(lucid.tensor([[0.0, 0.0]]), lucid.tensor([[3.0, 4.0]]))
    Tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return functions.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
