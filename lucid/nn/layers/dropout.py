"""Dropout as layers: they act in training only."""

from lucid import Tensor
from lucid.nn import functional as functions
from lucid.nn.layers.functions import FunctionLayer

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(FunctionLayer):
    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{self._get_name()}: the probability p must be between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.p, self.training, self.inplace)


class Dropout(_Dropout, function=functions.dropout):
    """In training, 0 with probability p and x / (1 - p) otherwise.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout
    >>> Dropout(0.9).eval()(lucid.tensor([1.0, 2.0]))
    Tensor([1., 2.])
    """


class Dropout1d(_Dropout, function=functions.dropout1d):
    """Dropout of whole channels of inputs (N, C, L) or (C, L).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout1d
    >>> Dropout1d(1.0)(lucid.ones(1, 2, 3)).sum()
    Tensor(0.)
    """


class Dropout2d(_Dropout, function=functions.dropout2d):
    """Dropout of whole channels of inputs (N, C, H, W) or (C, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout2d
    >>> Dropout2d(1.0)(lucid.ones(1, 2, 3, 3)).sum()
    Tensor(0.)
    """


class Dropout3d(_Dropout, function=functions.dropout3d):
    """Dropout of whole channels of inputs (N, C, D, H, W) or (C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout3d
    >>> Dropout3d(1.0)(lucid.ones(1, 2, 3, 3, 3)).sum()
    Tensor(0.)
    """


class AlphaDropout(_Dropout, function=functions.alpha_dropout):
    """Dropout for networks with selu: dropped elements get its lowest value, and mean and variance stay.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import AlphaDropout
    >>> AlphaDropout(0.5).eval()(lucid.tensor([1.0, 2.0]))
    Tensor([1., 2.])
    """


class FeatureAlphaDropout(_Dropout, function=functions.feature_alpha_dropout):
    """Alpha dropout of whole channels, which stand in dimension 1.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import FeatureAlphaDropout
    >>> FeatureAlphaDropout(0.5)(lucid.ones(2, 3, 4)).shape
    (2, 3, 4)
    """
