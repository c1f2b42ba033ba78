"""Lengths, distances and angles of vectors, and samples of soft choices."""

from typing import Any

import lucid
from lucid import Tensor
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import as_floats
from lucid.ops.nn.softmax import softmax
from lucid.ops.one_loop import one_loop

__all__ = ["cosine_similarity", "gumbel_softmax", "normalize", "pairwise_distance", "pdist"]


@takes_out
def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖, eps) with the p-norm along `dim`; integers are taken as floats.

    >>> import lucid
    >>> from lucid.nn.functional.similarity import normalize
    >>> normalize(lucid.tensor([[3.0, 4.0]]))
    Tensor([[0.6, 0.8]])
    """
    x = as_floats(input)
    return x / lucid.norm(x, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths count as `eps` at least.

    >>> import lucid
    >>> from lucid.nn.functional.similarity import cosine_similarity
    >>> cosine_similarity(lucid.tensor([[1.0, 0.0]]), lucid.tensor([[1.0, 1.0]]))
    Tensor([0.7071])
    """
    x, y = (x1, x2) if x1.shape == x2.shape else lucid.broadcast_tensors(x1, x2)
    first, second = lucid.norm(x, 2, dim, True), lucid.norm(y, 2, dim, True)
    return lucid.sum(_products_of_directions(x, y, first, second, eps=float(eps)), dim)


@one_loop(4)
def _products_of_directions(x: Any, y: Any, first: Any, second: Any, eps: float) -> Any:
    """Products of elements of two vectors, which are divided by their lengths."""
    return (x / first.clamp(min=eps)) * (y / second.clamp(min=eps))


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x1 - x2 + eps‖, the p-norm along the last dimension.

    >>> import lucid
    >>> from lucid.nn.functional.similarity import pairwise_distance
    >>> pairwise_distance(lucid.tensor([[0.0, 0.0]]), lucid.tensor([[3.0, 4.0]]))
    Tensor([5.])
    """
    return lucid.norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows, in the order (0, 1), (0, 2), …, (1, 2), ….

    >>> import lucid
    >>> from lucid.nn.functional.similarity import pdist
    >>> pdist(lucid.tensor([[0.0], [1.0], [3.0]]))
    Tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise ValueError(f"pdist takes rows of numbers, (N, D), not shape {input.shape}")
    if p < 0:
        raise ValueError(f"pdist: p must not be negative, got {p}")
    return lucid.pdist(input, p)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): a sample of a choice, smooth enough to be differentiated.

    With `hard`, the result is exactly 1 at the choice and 0 elsewhere, with the gradient of the smooth one. `eps` is
    there for compatibility: the noise needs no protection.

    >>> import lucid
    >>> from lucid.nn.functional.similarity import gumbel_softmax
    >>> gumbel_softmax(lucid.tensor([0.0, 1000.0]), hard=True)
    Tensor([0., 1.])
    """
    noise = -lucid.log(-lucid.log(_open_uniform(logits)))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = lucid.argmax(soft.detach(), dim, keepdim=True)
    places = lucid.arange(soft.shape[dim]).reshape(-1, *(1,) * (soft.ndim - 1 - dim % soft.ndim))
    one_hot = (places == chosen).to(soft.dtype)
    return one_hot - soft.detach() + soft


def _open_uniform(like: Tensor) -> Tensor:
    """Numbers in (0, 1): both ends would become infinite noise."""
    info = lucid.finfo(like.dtype)
    return lucid.rand_like(like.detach()).clamp(min=info.tiny, max=1 - info.eps / 2)
