"""Neural networks: the modules of `lucid.nn`."""

from functools import reduce

import lucid
from lucid import nn as _nn
from lucid.nn import *  # noqa: F403  # exactly what stands in its __all__
from lucid.nn import __all__ as __all__


class Linear(_nn.Linear):
    """Lucid's layer, which in Sorix also takes inputs of another type: it computes in what holds them and the weights.

    >>> import sorix
    >>> sorix.nn.Linear(3, 2)(sorix.ones(5, 3, dtype=sorix.float64)).dtype
    lucid.float64
    """

    def forward(self, input: lucid.Tensor) -> lucid.Tensor:
        kinds = [t.dtype for t in (input, self.weight, self.bias) if t is not None]
        kind = reduce(lucid.promote_types, kinds)
        bias = None if self.bias is None else self.bias.to(kind)
        return _nn.functional.linear(input.to(kind), self.weight.to(kind), bias)
