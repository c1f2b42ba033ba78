"""Losses of classes: cross entropy, negative log-likelihood, and connectionist temporal classification."""

import math
from collections.abc import Sequence

import lucid
from lucid.amp.autocasting import in_single_precision
from lucid.api.reductions import shown
from lucid.core.dtypes import FLOATING
from lucid.core.errors import ArgumentError
from lucid.core.primitive import P, apply, element_type
from lucid.core.tensor import Tensor, is_plain, shape_of
from lucid.nn.functional.linear import linear
from lucid.nn.functional.losses import check_reduction, reduced
from lucid.ops.indexing import in_range
from lucid.ops.nn import cross_entropy as ops
from lucid.ops.nn.ctc import log_alpha
from lucid.ops.nn.softmax import log_softmax

__all__ = ["cross_entropy", "ctc_loss", "linear_cross_entropy", "nll_loss"]


def _class_weight(weight: Tensor | None, classes: int, name: str) -> Tensor | None:
    if weight is not None and shape_of(weight) != (classes,):
        raise ValueError(f"{name}: weight must hold one number for each of {classes} classes, not shape {weight.shape}")
    return weight


@in_single_precision
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-x[y] for log-probabilities x, with the classes in dimension 1 (0 without a batch), and class indices y.

    `weight` multiplies the loss of each class, and the mean is over the sum of the weights. Targets equal to
    `ignore_index` do not count.

    >>> import lucid
    >>> from lucid.nn.functional.classification import nll_loss
    >>> x = lucid.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> nll_loss(x, lucid.tensor([0, 1]), reduction="none")
    Tensor([0.6931, 0.2877])
    """
    check_reduction(reduction, "nll_loss")
    if input.ndim == 1:
        loss = nll_loss(input.unsqueeze(0), target.unsqueeze(0), weight, ignore_index=ignore_index, reduction=reduction)
        return loss.squeeze(0) if reduction == "none" else loss
    ops.raise_unless_classes("nll_loss", input, target)
    weight = _class_weight(weight, input.shape[1], "nll_loss")
    if weight is None:
        return apply(ops.nll, (input, target), {"ignore_index": ignore_index, "reduction": reduction})
    losses = P.nll(input, target, ignore_index=ignore_index, reduction="none")
    return _fold_weighted(losses, target, weight, ignore_index, reduction)


def _fold_weighted(losses: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """Reduce the losses of rows, each weighted by the class that is its target."""
    if weight is None:
        return losses if reduction == "none" else ops.fold(losses, target, ignore_index, reduction)
    shares = _target_weights(weight, target, ignore_index)
    if reduction == "mean":
        every = {"dims": tuple(range(len(shape_of(shares)))), "keepdim": False}
        return apply(P.sum, (losses * shares,), every) / apply(P.sum, (shares,), every)
    return reduced(losses * shares, reduction, "nll_loss")


def _target_weights(weight: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """The weight of each target's class, 0 for those that are ignored."""
    shape = shape_of(target)
    count = math.prod(shape)
    flat = target if len(shape) == 1 else P.reshape(target, shape=(count,))
    rows = shown(P.broadcast_to, weight, {"shape": (count, *shape_of(weight))})
    found = ops.pick(rows, flat, ignore_index)
    return found if flat is target else P.reshape(found, shape=shape)


@in_single_precision
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(x)[y], with the classes of x in dimension 1 (0 without a batch).

    Targets are class indices, or probabilities in the shape of x, for which the loss is -Σ y log softmax(x).
    `weight` multiplies the loss of each class; for indices, the mean is over the sum of the weights. Indices equal to
    `ignore_index` do not count. `label_smoothing` moves that share of each target to all classes evenly.

    >>> import lucid
    >>> from lucid.nn.functional.classification import cross_entropy
    >>> x = lucid.tensor([[0.0, 0.0], [0.0, 100.0]])
    >>> cross_entropy(x, lucid.tensor([0, 1]), reduction="none")
    Tensor([0.6931, 0.    ])
    >>> cross_entropy(x, lucid.tensor([[0.5, 0.5], [0.0, 1.0]]))
    Tensor(0.3466)
    """
    check_reduction(reduction, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}")
    if len(shape_of(input)) == 1:
        loss = cross_entropy(
            input.unsqueeze(0),
            target.unsqueeze(0),
            weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
        return loss.squeeze(0) if reduction == "none" else loss
    if element_type(target) in FLOATING:
        return _of_probabilities(input, target, weight, reduction, label_smoothing)
    if weight is None and not label_smoothing:
        return ops.cross_entropy(input, target, ignore_index, reduction)
    ops.raise_unless_classes("cross_entropy", input, target)
    weight = _class_weight(weight, shape_of(input)[1], "cross_entropy")
    if not label_smoothing:
        params = {"ignore_index": ignore_index, "reduction": "none"}
        losses = apply(ops.cross_entropy_primitive, (input, target), params)[0]
        return _fold_weighted(losses, target, weight, ignore_index, reduction)
    return _smoothed(input, target, weight, ignore_index, reduction, label_smoothing)


def _along_classes(weight: Tensor, ndim: int) -> Tensor:
    return weight.reshape(-1, *(1,) * (ndim - 2))


def _smoothed(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    """(1 - ε) times the loss of the target and ε / C times that of all classes."""
    logs = log_softmax(input, 1)
    spread = logs if weight is None else logs * _along_classes(weight, logs.ndim)
    everywhere = -spread.sum(1) * (smoothing / input.shape[1])
    shares = None if weight is None else _target_weights(weight, target, ignore_index)
    chosen = -ops.pick(logs, target, ignore_index)
    losses = (chosen if shares is None else chosen * shares) * (1 - smoothing) + everywhere
    if shares is None or reduction != "mean":
        return ops.fold(losses, target, ignore_index, reduction)
    return ops.fold(losses, target, ignore_index, "sum") / shares.sum()


def _of_probabilities(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    if target.shape != input.shape:
        raise ArgumentError(
            f"cross_entropy: probabilities of shape {target.shape} do not fit an input of shape {input.shape}; "
            "give one for each score, or class indices as integers"
        )
    weight = _class_weight(weight, input.shape[1], "cross_entropy")
    if smoothing:
        target = target * (1 - smoothing) + smoothing / input.shape[1]
    products = target * log_softmax(input, 1)
    if weight is not None:
        products = products * _along_classes(weight, input.ndim)
    if reduction == "mean":
        # Over the rows, not over the classes.
        return -products.sum() / (input.numel() / max(input.shape[1], 1))
    return reduced(-products.sum(1), reduction, "cross_entropy")


Lengths = Tensor | Sequence[int]


@in_single_precision
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that a sequence spells its target, over all alignments with blanks and repetitions.

    `log_probs` has shape (T, N, C), or (T, C) without a batch. `targets` has shape (N, S), or holds all targets one
    behind the other. Lengths say how much of each counts. "mean" divides by the lengths of the targets first.
    Targets that are too long for their input have the loss inf, or with `zero_infinity` 0 and no gradient.

    >>> import lucid
    >>> from lucid.nn.functional.classification import ctc_loss
    >>> log_probs = lucid.full((2, 1, 3), 1 / 3).log()
    >>> ctc_loss(log_probs, lucid.tensor([[1]]), [2], [1]).exp()  # 3 of 9 ways: "1 1", "_ 1" and "1 _"
    Tensor(3.)
    """
    check_reduction(reduction, "ctc_loss")
    alone = log_probs.ndim == 2
    if alone:
        log_probs = log_probs.unsqueeze(1)
    inputs, lengths = (_as_lengths(n) for n in (input_lengths, target_lengths))
    labels = _padded_targets(targets, lengths, log_probs, blank)
    _check_ctc(log_probs, labels, inputs, lengths, blank)
    labels = in_range(labels, log_probs.shape[2], "ctc_loss", negative=False)
    narrow = log_probs.dtype in (lucid.float16, lucid.bfloat16)
    loss = _spelling_loss(log_probs.float() if narrow else log_probs, labels, inputs, lengths, blank)
    loss = loss.to(log_probs.dtype) if narrow else loss
    if zero_infinity:
        loss = lucid.where(loss == lucid.inf, 0, loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if alone else loss


def _as_lengths(lengths: Lengths) -> Tensor:
    found = lengths if isinstance(lengths, Tensor) else lucid.tensor(lengths, dtype=lucid.int64)
    if found.is_floating_point():
        raise TypeError(f"ctc_loss: lengths must be integers, not {found.dtype}")
    return found.reshape(-1)


def _padded_targets(targets: Tensor, lengths: Tensor, log_probs: Tensor, blank: int) -> Tensor:
    """Targets as (N, S), with blanks behind the end of each."""
    batch = log_probs.shape[1]
    if targets.ndim == 1 and lengths.shape[0] == 1:
        targets = targets.unsqueeze(0)
    if targets.ndim == 2:
        places = lucid.arange(targets.shape[1])
        return lucid.where(places < lengths.unsqueeze(1), targets, blank)
    if targets.ndim != 1 or lengths.shape[0] != batch:
        raise ValueError(
            f"ctc_loss: targets of shape {targets.shape} and {lengths.shape[0]} target lengths do not fit a batch of "
            f"{batch}; give targets of shape (N, S), or all of them one behind the other"
        )
    longest = max(lengths.tolist(), default=0)
    if int(lengths.sum()) != targets.shape[0]:
        raise ValueError(f"ctc_loss: {targets.shape[0]} targets, but the lengths add up to {int(lengths.sum())}")
    places = lucid.arange(longest)
    starts = lucid.cumsum(lengths, 0) - lengths
    inside = places < lengths.unsqueeze(1)
    return lucid.where(inside, targets[lucid.where(inside, starts.unsqueeze(1) + places, 0)], blank)


def _check_ctc(log_probs: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> None:
    if log_probs.ndim != 3 or not log_probs.is_floating_point():
        raise ValueError(
            f"ctc_loss: log_probs must be floats of shape (T, N, C) or (T, C), not {log_probs.dtype} {log_probs.shape}"
        )
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank must be one of the {classes} classes, got {blank}")
    if labels.shape[0] != batch or inputs.shape != (batch,) or lengths.shape != (batch,):
        raise ArgumentError(
            f"ctc_loss: a batch of {batch} needs as many targets and lengths, not {labels.shape[0]} targets, "
            f"{inputs.shape[0]} input lengths and {lengths.shape[0]} target lengths"
        )
    _check_range("input_lengths", inputs, 1, steps)
    _check_range("target_lengths", lengths, 0, labels.shape[1])
    if steps == 0:
        raise ValueError("ctc_loss: the input has no time steps")


def _check_range(name: str, lengths: Tensor, low: int, high: int) -> None:
    """Checked where the values are at hand; inside vmap they are not."""
    if is_plain(lengths) and lengths.numel() and not (low <= int(lengths.min()) and int(lengths.max()) <= high):
        raise ValueError(f"ctc_loss: {name} must lie between {low} and {high}, got {lengths.tolist()}")


def _spelling_loss(log_probs: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """The loss of each sequence."""
    batch, size = labels.shape
    blanks = lucid.full_like(labels, blank)
    states = lucid.cat([lucid.stack([blanks, labels], 2).reshape(batch, 2 * size), _column(labels, blank)], 1)
    steps = log_probs.shape[0]
    emit = lucid.take_along_dim(log_probs, states.expand(steps, *states.shape).long(), 2)
    alpha = log_alpha(emit, _skips(states, blank).to(log_probs.dtype))
    last = (inputs.long() - 1).reshape(1, batch, 1).expand(1, *states.shape)
    final = lucid.take_along_dim(alpha, last, 0).squeeze(0)
    ends = (2 * lengths.long()).unsqueeze(1)
    at_blank = lucid.take_along_dim(final, ends, 1).squeeze(1)
    at_label = lucid.take_along_dim(final, (ends - 1).clamp(min=0), 1).squeeze(1)
    return -lucid.logaddexp(at_blank, lucid.where(lengths > 0, at_label, -lucid.inf))


def _column(labels: Tensor, value: int) -> Tensor:
    return lucid.full((labels.shape[0], 1), value, dtype=labels.dtype)


def _skips(states: Tensor, blank: int) -> Tensor:
    """0 where a path may come from two states further back, else -inf."""
    if states.shape[1] < 3:
        return lucid.full(states.shape, -lucid.inf)
    here, before = states[:, 2:], states[:, :-2]
    allowed = lucid.where((here != blank) & (here != before), 0.0, -lucid.inf)
    return lucid.cat([lucid.full((states.shape[0], 2), -lucid.inf), allowed], 1)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """`cross_entropy` of scores that a linear layer gives: x Wᵀ + b, with weights (classes, in) or (classes, …, in).

    >>> import lucid
    >>> from lucid.nn.functional.classification import linear_cross_entropy
    >>> linear_cross_entropy(lucid.ones(2, 3), lucid.zeros(4, 3), lucid.tensor([0, 3]))
    Tensor(1.3863)
    """
    classes = linear_weight.shape[:-1]
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    scores = linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1))
    scores = scores.reshape(*input.shape[:-1], *classes)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )
