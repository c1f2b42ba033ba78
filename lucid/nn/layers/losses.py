"""Losses as layers: `reduction` is "mean", "sum" or "none" everywhere."""

from collections.abc import Callable
from typing import Any

from lucid import Tensor
from lucid.nn.functional import classification, losses
from lucid.nn.layers.functions import FunctionLayer

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "MultilabelMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(FunctionLayer):
    """A loss with a reduction."""

    _allowed: tuple[str, ...] = losses.REDUCTIONS

    def __init__(self, reduction: str) -> None:
        super().__init__()
        if reduction not in self._allowed:
            raise ValueError(f"{self._get_name()}: reduction must be one of {self._allowed}, not {reduction!r}")
        self.reduction = reduction


class _OfTarget(_Loss):
    """A loss of an input and a target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._call(input, target)


class _Plain(_OfTarget):
    """One with no other setting."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)


class _Weighted(_OfTarget):
    """One with weights, which belong to its state and are not trained."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None, reduction: str) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Plain):
    """(x - y)².

    >>> import lucid
    >>> from lucid.nn.layers.losses import MSELoss
    >>> MSELoss()(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 2.0]))
    Tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return losses.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Plain, function=losses.l1_loss):
    """|x - y|.

    >>> import lucid
    >>> from lucid.nn.layers.losses import L1Loss
    >>> L1Loss()(lucid.tensor([1.0, 2.0]), lucid.tensor([4.0, 2.0]))
    Tensor(1.5)
    """


class SmoothL1Loss(_OfTarget, function=losses.smooth_l1_loss):
    """(x - y)² / (2 β) where |x - y| < β, and |x - y| - β / 2 elsewhere.

    >>> import lucid
    >>> from lucid.nn.layers.losses import SmoothL1Loss
    >>> SmoothL1Loss()(lucid.tensor([5.0]), lucid.tensor([0.0]))
    Tensor(4.5)
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta


class HuberLoss(_OfTarget, function=losses.huber_loss):
    """(x - y)² / 2 where |x - y| < δ, and δ (|x - y| - δ / 2) elsewhere.

    >>> import lucid
    >>> from lucid.nn.layers.losses import HuberLoss
    >>> HuberLoss(delta=2.0)(lucid.tensor([5.0]), lucid.tensor([0.0]))
    Tensor(8.)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta


class CrossEntropyLoss(_Weighted):
    """-log softmax(x)[y], with class indices or probabilities as targets.

    `weight` holds a factor for each class; indices equal to `ignore_index` do not count; `label_smoothing` moves that
    share of each target to all classes evenly.

    >>> import lucid
    >>> from lucid.nn.layers.losses import CrossEntropyLoss
    >>> CrossEntropyLoss()(lucid.tensor([[0.0, 0.0], [0.0, 100.0]]), lucid.tensor([0, 1]))
    Tensor(0.3466)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return classification.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Weighted, function=classification.nll_loss):
    """-x[y] for log-probabilities x and class indices y.

    >>> import lucid
    >>> from lucid.nn.layers.losses import NLLLoss
    >>> NLLLoss()(lucid.tensor([[0.5, 0.5]]).log(), lucid.tensor([0]))
    Tensor(0.6931)
    """

    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index


class BCELoss(_Weighted, function=losses.binary_cross_entropy):
    """-(y log x + (1 - y) log(1 - x)) for probabilities x.

    >>> import lucid
    >>> from lucid.nn.layers.losses import BCELoss
    >>> BCELoss()(lucid.tensor([0.5]), lucid.tensor([1.0]))
    Tensor(0.6931)
    """

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)


class BCEWithLogitsLoss(_Weighted, function=losses.binary_cross_entropy_with_logits):
    """The binary cross entropy of sigmoid(x); `pos_weight` multiplies the part of the positives.

    >>> import lucid
    >>> from lucid.nn.layers.losses import BCEWithLogitsLoss
    >>> BCEWithLogitsLoss()(lucid.tensor([0.0, 1000.0]), lucid.tensor([1.0, 1.0]))
    Tensor(0.3466)
    """

    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)


class KLDivLoss(_OfTarget, function=losses.kl_div):
    """y (log y - x) for log-probabilities x; "batchmean" divides the sum by the size of the batch.

    >>> import lucid
    >>> from lucid.nn.layers.losses import KLDivLoss
    >>> KLDivLoss(reduction="batchmean")(lucid.tensor([[0.5, 0.5]]).log(), lucid.tensor([[1.0, 0.0]]))
    Tensor(0.6931)
    """

    _allowed = (*losses.REDUCTIONS, "batchmean")

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target


class PoissonNLLLoss(_Loss, function=losses.poisson_nll_loss):
    """exp(x) - y x for the logarithm x of a Poisson rate, or x - y log(x + eps) for the rate itself.

    >>> import lucid
    >>> from lucid.nn.layers.losses import PoissonNLLLoss
    >>> PoissonNLLLoss()(lucid.tensor([0.0]), lucid.tensor([3.0]))
    Tensor(1.)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return self._call(log_input, target)


class GaussianNLLLoss(_Loss, function=losses.gaussian_nll_loss):
    """(log v + (x - y)² / v) / 2 for a normal distribution of mean x and variance v = max(var, eps).

    >>> import lucid
    >>> from lucid.nn.layers.losses import GaussianNLLLoss
    >>> GaussianNLLLoss()(lucid.tensor([1.0]), lucid.tensor([3.0]), lucid.tensor([1.0]))
    Tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return self._call(input, target, var)


class HingeEmbeddingLoss(_OfTarget, function=losses.hinge_embedding_loss):
    """x where y is 1, and max(0, margin - x) where y is -1.

    >>> import lucid
    >>> from lucid.nn.layers.losses import HingeEmbeddingLoss
    >>> HingeEmbeddingLoss()(lucid.tensor([0.3]), lucid.tensor([-1]))
    Tensor(0.7)
    """

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class SoftMarginLoss(_Plain, function=losses.soft_margin_loss):
    """log(1 + exp(-y x)) for targets 1 and -1.

    >>> import lucid
    >>> from lucid.nn.layers.losses import SoftMarginLoss
    >>> SoftMarginLoss()(lucid.tensor([0.0]), lucid.tensor([1.0]))
    Tensor(0.6931)
    """


class _PairLoss(_Loss):
    """A loss of two inputs with a margin."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return self._call(input1, input2, target)


class MarginRankingLoss(_PairLoss, function=losses.margin_ranking_loss):
    """max(0, margin - y (x1 - x2)).

    >>> import lucid
    >>> from lucid.nn.layers.losses import MarginRankingLoss
    >>> MarginRankingLoss()(lucid.tensor([2.0]), lucid.tensor([5.0]), lucid.tensor([1.0]))
    Tensor(3.)
    """


class CosineEmbeddingLoss(_PairLoss, function=losses.cosine_embedding_loss):
    """1 - cos(x1, x2) where y is 1, and max(0, cos(x1, x2) - margin) where it is -1.

    >>> import lucid
    >>> from lucid.nn.layers.losses import CosineEmbeddingLoss
    >>> x = lucid.tensor([[1.0, 0.0]])
    >>> CosineEmbeddingLoss()(x, x, lucid.tensor([-1]))
    Tensor(1.)
    """


class TripletMarginLoss(_Loss, function=losses.triplet_margin_loss):
    """max(0, d(a, p) - d(a, n) + margin) with d the p-norm of the difference.

    >>> import lucid
    >>> from lucid.nn.layers.losses import TripletMarginLoss
    >>> TripletMarginLoss()(lucid.tensor([[0.0]]), lucid.tensor([[1.0]]), lucid.tensor([[1.5]]))
    Tensor(0.5)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be positive, got {margin}")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._call(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss, function=losses.triplet_margin_with_distance_loss):
    """max(0, d(a, p) - d(a, n) + margin) with any distance d.

    >>> import lucid
    >>> from lucid.nn.layers.losses import TripletMarginWithDistanceLoss
    >>> loss = TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> loss(lucid.tensor([[0.0]]), lucid.tensor([[1.0]]), lucid.tensor([[1.5]]))
    Tensor(0.5)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin must be positive, got {margin}")
        self.distance_function = distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._call(anchor, positive, negative)


class MultiMarginLoss(_Weighted, function=losses.multi_margin_loss):
    """Σ max(0, margin - x[y] + x[i])ᵖ / C over all classes i but the target y.

    >>> import lucid
    >>> from lucid.nn.layers.losses import MultiMarginLoss
    >>> MultiMarginLoss()(lucid.tensor([[0.1, 0.2, 0.4, 0.8]]), lucid.tensor([3]))
    Tensor(0.325)
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {p}")
        self.p, self.margin = p, margin


class MultiLabelMarginLoss(_Plain, function=losses.multilabel_margin_loss):
    """Σ max(0, 1 - x[j] + x[i]) / C over all labels j of a row and all classes i that are no label of it.

    >>> import lucid
    >>> from lucid.nn.layers.losses import MultiLabelMarginLoss
    >>> MultiLabelMarginLoss()(lucid.tensor([[0.1, 0.2, 0.4, 0.8]]), lucid.tensor([[3, 0, -1, 1]]))
    Tensor(0.85)
    """


MultilabelMarginLoss = MultiLabelMarginLoss


class MultiLabelSoftMarginLoss(_Weighted, function=losses.multilabel_soft_margin_loss):
    """The mean over the classes of the binary cross entropy of logits.

    >>> import lucid
    >>> from lucid.nn.layers.losses import MultiLabelSoftMarginLoss
    >>> MultiLabelSoftMarginLoss()(lucid.tensor([[0.0, 0.0]]), lucid.tensor([[1.0, 0.0]]))
    Tensor(0.6931)
    """

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)


class CTCLoss(_Loss, function=classification.ctc_loss):
    """-log of the probability that a sequence spells its target, over all alignments with blanks and repetitions.

    >>> import lucid
    >>> from lucid.nn.layers.losses import CTCLoss
    >>> CTCLoss()(lucid.full((2, 1, 3), 1 / 3).log(), lucid.tensor([[1]]), [2], [1]).exp()
    Tensor(3.)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return self._call(log_probs, targets, input_lengths, target_lengths)
