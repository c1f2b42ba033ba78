"""How often a classifier is right."""

import lucid
from lucid import Tensor

__all__ = ["accuracy", "correct_count"]


def correct_count(logits: Tensor, target: Tensor, *, dim: int = -1) -> Tensor:
    """How many of the largest scores along a dimension are those of the target classes.

    >>> import lucid
    >>> from lucid.nn.functional import correct_count
    >>> correct_count(lucid.tensor([[0.1, 0.9], [0.8, 0.2]]), lucid.tensor([1, 1]))
    Tensor(1)
    """
    return (logits.detach().argmax(dim) == target).sum()


def accuracy(logits: Tensor, target: Tensor, *, dim: int = -1) -> Tensor:
    """The share of the largest scores along a dimension that are those of the target classes.

    >>> import lucid
    >>> from lucid.nn.functional import accuracy
    >>> accuracy(lucid.tensor([[0.1, 0.9], [0.8, 0.2]]), lucid.tensor([1, 1]))
    Tensor(0.5)
    """
    return (logits.detach().argmax(dim) == target).to(lucid.get_default_dtype()).mean()
