"""Dropout as layers: they act in training only."""

from lucid import Tensor
from lucid.nn import functional as functions
from lucid.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{self._get_name()}: the probability p must be between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, 0 with probability p and x / (1 - p) otherwise.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout
    >>> Dropout(0.9).eval()(lucid.tensor([1.0, 2.0]))
    Tensor([1., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Dropout of whole channels of inputs (N, C, L) or (C, L).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout1d
    >>> Dropout1d(1.0)(lucid.ones(1, 2, 3)).sum()
    Tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Dropout of whole channels of inputs (N, C, H, W) or (C, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout2d
    >>> Dropout2d(1.0)(lucid.ones(1, 2, 3, 3)).sum()
    Tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Dropout of whole channels of inputs (N, C, D, H, W) or (C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.dropout import Dropout3d
    >>> Dropout3d(1.0)(lucid.ones(1, 2, 3, 3, 3)).sum()
    Tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout for networks with selu: dropped elements get its lowest value, and mean and variance stay.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import AlphaDropout
    >>> AlphaDropout(0.5).eval()(lucid.tensor([1.0, 2.0]))
    Tensor([1., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels, which stand in dimension 1.

    >>> import lucid
    >>> from lucid.nn.layers.dropout import FeatureAlphaDropout
    >>> FeatureAlphaDropout(0.5)(lucid.ones(2, 3, 4)).shape
    (2, 3, 4)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.feature_alpha_dropout(input, self.p, self.training, self.inplace)
