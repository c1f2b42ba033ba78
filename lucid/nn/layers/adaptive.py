"""Softmax over very many classes: frequent ones in a head, rare ones in clusters that are looked at only if needed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import lucid
from lucid import Tensor
from lucid.nn.containers import ModuleList, Sequential
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module
from lucid.ops.nn.softmax import log_softmax

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class LogProbabilities(NamedTuple):
    """The log-probability of each target, and the loss: minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over classes in the order of their frequency, with less work for rare ones.

    `cutoffs` splits the classes: those below the first are in the head, each further interval is a cluster with its own
    projection, whose size falls by the factor `div_value` from one to the next. The head also scores the clusters, and
    log p(class) = log p(cluster) + log p(class | cluster).

    >>> import lucid
    >>> from lucid.nn.layers.adaptive import AdaptiveLogSoftmaxWithLoss
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10, 50])
    >>> output, loss = layer(lucid.ones(4, 8), lucid.tensor([3, 12, 99, 0]))
    >>> output.shape, loss.shape
    ((4,), ())
    >>> bool(lucid.allclose(layer.log_prob(lucid.ones(1, 8)).exp().sum(), lucid.tensor(1.0)))
    True
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds or bounds != sorted(set(bounds)) or bounds[0] <= 0 or bounds[-1] > n_classes - 1:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be rising whole numbers from 1 to n_classes - 1 "
                f"({n_classes - 1}), got {bounds}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = bounds[0]
        self.n_clusters = len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList([self._cluster(i, device, dtype) for i in range(self.n_clusters)])

    def _cluster(self, i: int, device: Any, dtype: Any) -> Sequential:
        inner = int(self.in_features // self.div_value ** (i + 1))
        size = self.cutoffs[i + 1] - self.cutoffs[i]
        return Sequential(
            Linear(self.in_features, inner, False, device, dtype), Linear(inner, size, False, device, dtype)
        )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for module in self.tail.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> LogProbabilities:
        alone = target.ndim == 0
        x, y = (input.unsqueeze(0), target.unsqueeze(0)) if alone else (input, target)
        self._check(x, y)
        head = log_softmax(self.head(x), 1)
        in_head = y < self.shortlist_size
        place = lucid.where(in_head, y, 0)
        output = lucid.zeros_like(head[:, 0])
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            mine = (y >= low) & (y < high)
            place = lucid.where(mine, self.shortlist_size + i, place)
            rows = mine.nonzero().squeeze(1)
            if rows.shape[0]:
                within = log_softmax(self.tail[i](x[rows]), 1)
                chosen = lucid.take_along_dim(within, (y[rows] - low).unsqueeze(1), 1).squeeze(1)
                output = output.index_add(0, rows, chosen)
        output = output + lucid.take_along_dim(head, place.unsqueeze(1), 1).squeeze(1)
        return LogProbabilities(output.squeeze(0) if alone else output, -output.mean())

    def _check(self, x: Tensor, y: Tensor) -> None:
        if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != self.in_features:
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: an input of shape {x.shape} and targets of shape {y.shape}; "
                f"expected (N, {self.in_features}) and (N,)"
            )
        if y.numel() and (int(y.min()) < 0 or int(y.max()) >= self.n_classes):
            raise IndexError(f"AdaptiveLogSoftmaxWithLoss: targets must lie between 0 and {self.n_classes - 1}")

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes.

        >>> import lucid
        >>> from lucid.nn.layers.adaptive import AdaptiveLogSoftmaxWithLoss
        >>> AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5]).log_prob(lucid.ones(3, 8)).shape
        (3, 20)
        """
        head = log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(log_softmax(cluster(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return lucid.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row; clusters that the head does not choose are not looked at.

        >>> import lucid
        >>> from lucid.nn.layers.adaptive import AdaptiveLogSoftmaxWithLoss
        >>> AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5]).predict(lucid.ones(3, 8)).shape
        (3,)
        """
        head = self.head(input)
        best = lucid.argmax(head, 1)
        unsure = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not unsure.shape[0]:
            return best
        return best.index_copy(0, unsure, lucid.argmax(self.log_prob(input[unsure]), 1))
