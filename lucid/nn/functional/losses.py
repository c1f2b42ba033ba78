"""Losses of numbers, distances and rankings.

`reduction` is "mean", "sum" or "none" everywhere.
"""

import math
from collections.abc import Callable

import lucid
from lucid import Tensor
from lucid.amp.autocasting import in_single_precision
from lucid.arguments.promotion import lift_all
from lucid.nn.functional.similarity import pairwise_distance
from lucid.nn.functional.warning import warn
from lucid.ops.indexing import in_range
from lucid.ops.nn import losses as ops

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip

REDUCTIONS = ("none", "mean", "sum")


def reduced(loss: Tensor, reduction: str, name: str) -> Tensor:
    """The loss of each element, or the mean or sum of all."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(reduction, name)
    return loss


def check_reduction(reduction: str, name: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction must be 'none', 'mean' or 'sum', not {reduction!r}")


def _warn_of_broadcast(input: Tensor, target: Tensor, name: str) -> None:
    if input.shape != target.shape:
        warn(f"{name}: the shapes {input.shape} and {target.shape} differ; they are broadcast, which is rarely meant")


def _raise_unless_same_shape(input: Tensor, target: Tensor, name: str) -> None:
    if input.shape != target.shape:
        raise ValueError(f"{name}: input and target must have the same shape, not {input.shape} and {target.shape}")


@in_single_precision
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(x - y)²; with `weight`, the mean is that of the weighted squares over the sum of the weights.

    >>> import lucid
    >>> from lucid.nn.functional.losses import mse_loss
    >>> mse_loss(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 2.0]))
    Tensor(2.)
    """
    _warn_of_broadcast(input, target, "mse_loss")
    if weight is None and reduction in ("mean", "sum") and _alike(input, target):
        return ops.sum_of_squares(input, target, mean=reduction == "mean")
    squares = ops.squared_distance(input, target) if _alike(input, target) else lucid.square(input - target)
    return _weighted(squares, weight, reduction, "mse_loss")


def _alike(input: Tensor, target: Tensor) -> bool:
    return input.shape == target.shape and input.dtype == target.dtype and input.is_floating_point()


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, name: str) -> Tensor:
    if weight is None:
        return reduced(loss, reduction, name)
    loss = loss * _weight_like(loss, weight, name)
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction, name)


def _weight_like(loss: Tensor, weight: Tensor, name: str) -> Tensor:
    if weight.shape != loss.shape:
        raise ValueError(f"{name}: weight must have the shape {loss.shape} of the input, not {weight.shape}")
    return weight


@in_single_precision
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|x - y|; with `weight`, the mean is that of the weighted distances over the sum of the weights.

    >>> import lucid
    >>> from lucid.nn.functional.losses import l1_loss
    >>> l1_loss(lucid.tensor([1.0, 2.0]), lucid.tensor([4.0, 2.0]))
    Tensor(1.5)
    """
    _warn_of_broadcast(input, target, "l1_loss")
    return _weighted(lucid.abs(input - target), weight, reduction, "l1_loss")


@in_single_precision
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """(x - y)² / 2 where |x - y| < δ, and δ (|x - y| - δ / 2) elsewhere, times `weight` if given.

    >>> import lucid
    >>> from lucid.nn.functional.losses import huber_loss
    >>> huber_loss(lucid.tensor([1.0, 5.0]), lucid.tensor([0.0, 0.0]), reduction="none")
    Tensor([0.5, 4.5])
    """
    if not delta > 0:
        raise ValueError(f"huber_loss: delta must be positive, got {delta}")
    _warn_of_broadcast(input, target, "huber_loss")
    loss = ops.huber(input, target, float(delta))
    if weight is not None:
        loss = loss * _weight_like(loss, weight, "huber_loss")
    return reduced(loss, reduction, "huber_loss")


@in_single_precision
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """(x - y)² / (2 β) where |x - y| < β, and |x - y| - β / 2 elsewhere; with β = 0, |x - y|.

    >>> import lucid
    >>> from lucid.nn.functional.losses import smooth_l1_loss
    >>> smooth_l1_loss(lucid.tensor([1.0, 5.0]), lucid.tensor([0.0, 0.0]), reduction="none", beta=2.0)
    Tensor([0.25, 4.  ])
    """
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    _warn_of_broadcast(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced(lucid.abs(input - target), reduction, "smooth_l1_loss")
    loss = ops.huber(input, target, float(beta))
    return reduced(loss if beta == 1 else loss / beta, reduction, "smooth_l1_loss")


@in_single_precision
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)) for probabilities x; the logarithms stop at -100.

    >>> import lucid
    >>> from lucid.nn.functional.losses import binary_cross_entropy
    >>> binary_cross_entropy(lucid.tensor([0.5, 0.0]), lucid.tensor([1.0, 0.0]))
    Tensor(0.3466)
    """
    _raise_unless_same_shape(input, target, "binary_cross_entropy")
    loss = ops.probability_entropy(input, target)
    return reduced(loss if weight is None else loss * weight, reduction, "binary_cross_entropy")


@in_single_precision
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(x), without overflow; `pos_weight` multiplies the part of the positives.

    >>> import lucid
    >>> from lucid.nn.functional.losses import binary_cross_entropy_with_logits
    >>> binary_cross_entropy_with_logits(lucid.tensor([0.0, 1000.0]), lucid.tensor([1.0, 1.0]))
    Tensor(0.3466)
    """
    _raise_unless_same_shape(input, target, "binary_cross_entropy_with_logits")
    if pos_weight is None:
        loss = ops.logit_entropy(input, target)
    else:
        positives = pos_weight * target * lucid.log_sigmoid(input)
        loss = -(positives + (1 - target) * lucid.log_sigmoid(-input))
    return reduced(loss if weight is None else loss * weight, reduction, "binary_cross_entropy_with_logits")


@in_single_precision
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """y (log y - x) for log-probabilities x and probabilities y, or for log y with `log_target`.

    The reduction "batchmean" divides the sum by the size of the batch: the divergence as it is defined.

    >>> import lucid
    >>> from lucid.nn.functional.losses import kl_div
    >>> x = lucid.tensor([[0.5, 0.5]]).log()
    >>> kl_div(x, lucid.tensor([[1.0, 0.0]]), reduction="batchmean")
    Tensor(0.6931)
    """
    input, target = lift_all(input, target)
    if log_target:
        loss = lucid.exp(target) * (target - input)
    else:
        loss = lucid.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0] if loss.ndim else loss
    return reduced(loss, reduction, "kl_div")


@in_single_precision
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - y x for the logarithm x of a Poisson rate, or x - y log(x + eps) for the rate itself.

    With `full`, Stirling's approximation of log y! is added for targets above 1.

    >>> import lucid
    >>> from lucid.nn.functional.losses import poisson_nll_loss
    >>> poisson_nll_loss(lucid.tensor([0.0, 1.0]), lucid.tensor([3.0, 2.0]), reduction="none")
    Tensor([1.    , 0.7183])
    """
    input, target = lift_all(input, target)
    if log_input:
        loss = lucid.exp(input) - target * input
    else:
        loss = input - target * lucid.log(input + eps)
    if full:
        large = lucid.where(target > 1, target, 1)
        stirling = large * lucid.log(large) - large + 0.5 * lucid.log(2 * math.pi * large)
        loss = loss + lucid.where(target > 1, stirling, 0)
    return reduced(loss, reduction, "poisson_nll_loss")


@in_single_precision
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log v + (x - y)² / v) / 2 for a normal distribution of mean x and variance v = max(var, eps).

    The bound has no part in the gradient. With `full`, log(2π) / 2 is added. `var` has the input's shape, or lacks
    its last dimension, or has size 1 there.

    >>> import lucid
    >>> from lucid.nn.functional.losses import gaussian_nll_loss
    >>> gaussian_nll_loss(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 2.0]), lucid.tensor([1.0, 1.0]))
    Tensor(1.)
    """
    if eps <= 0:
        raise ValueError(f"gaussian_nll_loss: eps must be positive, got {eps}")
    variance = _variance_like(lift_all(var, input)[0], input)
    # Values are bounded, gradients pass as if they were not.
    variance = variance + (variance.clamp(min=eps) - variance).detach()
    loss = 0.5 * (lucid.log(variance) + lucid.square(input - target) / variance)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


def _variance_like(var: Tensor, input: Tensor) -> Tensor:
    if var.shape in ((), input.shape):
        return var
    if var.shape == input.shape[:-1]:
        return var.unsqueeze(-1)
    if var.shape == (*input.shape[:-1], 1):
        return var
    raise ValueError(f"gaussian_nll_loss: a var of shape {var.shape} does not fit an input of shape {input.shape}")


@in_single_precision
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """x where y is 1, and max(0, margin - x) where y is -1.

    >>> import lucid
    >>> from lucid.nn.functional.losses import hinge_embedding_loss
    >>> hinge_embedding_loss(lucid.tensor([0.3, 0.3]), lucid.tensor([1, -1]), reduction="none")
    Tensor([0.3, 0.7])
    """
    far = lucid.where(target != 1, (margin - input).clamp(min=0), 0)
    return reduced(far + lucid.where(target != -1, input, 0), reduction, "hinge_embedding_loss")


@in_single_precision
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-y x)) for targets 1 and -1.

    >>> import lucid
    >>> from lucid.nn.functional.losses import soft_margin_loss
    >>> soft_margin_loss(lucid.tensor([0.0, 1000.0]), lucid.tensor([1.0, -1.0]), reduction="none")
    Tensor([6.9315e-01, 1.0000e+03])
    """
    return reduced(-lucid.log_sigmoid(target * input), reduction, "soft_margin_loss")


@in_single_precision
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - y (x1 - x2)): the first should be the larger one where y is 1, the second where it is -1.

    >>> import lucid
    >>> from lucid.nn.functional.losses import margin_ranking_loss
    >>> margin_ranking_loss(lucid.tensor([2.0]), lucid.tensor([5.0]), lucid.tensor([1.0]))
    Tensor(3.)
    """
    return reduced((margin - target * (input1 - input2)).clamp(min=0), reduction, "margin_ranking_loss")


@in_single_precision
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x1, x2) where y is 1, and max(0, cos(x1, x2) - margin) where it is -1, along the last dimension.

    >>> import lucid
    >>> from lucid.nn.functional.losses import cosine_embedding_loss
    >>> x = lucid.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> cosine_embedding_loss(x, x, lucid.tensor([1, -1]), reduction="none")
    Tensor([0., 1.])
    """
    if input1.shape != input2.shape or target.ndim + 1 != input1.ndim:
        raise ValueError(
            "cosine_embedding_loss takes inputs of shape (N, D) and targets (N,), or vectors and a single target, not "
            f"{input1.shape}, {input2.shape} and {target.shape}"
        )
    cosine = _cosine(input1, input2)
    pull = lucid.where(target == 1, 1 - cosine, 0)
    return reduced(
        pull + lucid.where(target == -1, (cosine - margin).clamp(min=0), 0), reduction, "cosine_embedding_loss"
    )


def _cosine(x: Tensor, y: Tensor) -> Tensor:
    """A cosine whose squares are kept away from 0 by addition, so that it has a gradient everywhere."""
    eps = 1e-12
    lengths = ((x * x).sum(-1) + eps) * ((y * y).sum(-1) + eps)
    return (x * y).sum(-1) / lucid.sqrt(lengths)


@in_single_precision
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin) with d the p-norm of the difference along the last dimension.

    With `swap`, the nearer of anchor and positive is what the negative is compared with.

    >>> import lucid
    >>> from lucid.nn.functional.losses import triplet_margin_loss
    >>> a, p, n = lucid.tensor([[0.0]]), lucid.tensor([[1.0]]), lucid.tensor([[1.5]])
    >>> triplet_margin_loss(a, p, n)
    Tensor(0.5)
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda x, y: pairwise_distance(x, y, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


@in_single_precision
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin) with any distance d; by default the Euclidean one.

    >>> import lucid
    >>> from lucid.nn.functional.losses import triplet_margin_with_distance_loss
    >>> a, p, n = lucid.tensor([[0.0]]), lucid.tensor([[1.0]]), lucid.tensor([[1.5]])
    >>> triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1))
    Tensor(0.5)
    """
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be positive, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = lucid.minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction, "triplet_margin_with_distance_loss")


def _rows_and_targets(input: Tensor, target: Tensor, per_row: int, name: str) -> tuple[Tensor, Tensor, bool]:
    """Scores as (N, C) and targets to match, with `per_row` dimensions of their own; and whether there was no batch."""
    alone = input.ndim < 2
    x = input.reshape(1, -1) if alone else input
    y = target.reshape(1, *[-1] * per_row) if target.ndim <= per_row else target
    expected = x.shape[:1] + x.shape[1:] * per_row
    if x.ndim != 2 or y.shape != expected:
        raise ValueError(f"{name}: targets of shape {target.shape} do not fit an input of shape {input.shape}")
    return x, y, alone


@in_single_precision
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Σ max(0, margin - x[y] + x[i])ᵖ / C over all classes i but the target y; `weight` is that of the target's class.

    >>> import lucid
    >>> from lucid.nn.functional.losses import multi_margin_loss
    >>> multi_margin_loss(lucid.tensor([[0.1, 0.2, 0.4, 0.8]]), lucid.tensor([3]))
    Tensor(0.325)
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    x, y, alone = _rows_and_targets(input, target, 0, "multi_margin_loss")
    y = in_range(y, x.shape[1], "multi_margin_loss", negative=False)
    chosen = lucid.take_along_dim(x, y.unsqueeze(1), 1)
    excess = lucid.relu(margin - chosen + x)
    if p == 2:
        excess = excess * excess
    if weight is not None:
        excess = excess * weight[y].unsqueeze(1)
    others = lucid.arange(x.shape[1]) != y.unsqueeze(1)
    loss = lucid.where(others, excess, 0).sum(1) / x.shape[1]
    return reduced(loss.squeeze(0) if alone else loss, reduction, "multi_margin_loss")


@in_single_precision
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Σ max(0, 1 - x[j] + x[i]) / C over all labels j of a row and all classes i that are no label of it.

    The labels of a row stand at its beginning; the first -1 ends them.

    >>> import lucid
    >>> from lucid.nn.functional.losses import multilabel_margin_loss
    >>> multilabel_margin_loss(lucid.tensor([[0.1, 0.2, 0.4, 0.8]]), lucid.tensor([[3, 0, -1, 1]]))
    Tensor(0.85)
    """
    x, y, alone = _rows_and_targets(input, target, 1, "multilabel_margin_loss")
    classes = x.shape[1]
    in_range(lucid.where(y == -1, 0, y), classes, "multilabel_margin_loss", negative=False)  # refuses other labels
    given = lucid.cumsum(y < 0, 1) == 0
    labels = lucid.where(given, y, 0)
    is_label = ((labels.unsqueeze(2) == lucid.arange(classes)) & given.unsqueeze(2)).any(1)
    scores = lucid.take_along_dim(x, labels, 1)
    counts = given.unsqueeze(2) & ~is_label.unsqueeze(1)
    excess = lucid.where(counts, lucid.relu(1 - scores.unsqueeze(2) + x.unsqueeze(1)), 0)
    loss = excess.sum((1, 2)) / classes
    return reduced(loss.squeeze(0) if alone else loss, reduction, "multilabel_margin_loss")


@in_single_precision
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes (the last dimension) of the binary cross entropy of logits.

    >>> import lucid
    >>> from lucid.nn.functional.losses import multilabel_soft_margin_loss
    >>> multilabel_soft_margin_loss(lucid.tensor([[0.0, 0.0]]), lucid.tensor([[1.0, 0.0]]))
    Tensor(0.6931)
    """
    if not input.ndim or input.shape != target.shape:
        raise ValueError(
            "multilabel_soft_margin_loss: input and target must have the same shape, with the classes in the last "
            f"dimension, not {input.shape} and {target.shape}"
        )
    loss = ops.logit_entropy(input, target)
    if weight is not None:
        loss = loss * weight
    return reduced(loss.mean(-1), reduction, "multilabel_soft_margin_loss")
