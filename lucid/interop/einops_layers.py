"""einops' layers as modules: `Rearrange`, `Reduce` and `EinMix`, to be put into a `Sequential`."""

from collections.abc import Sequence
from typing import Any

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

import lucid
from lucid.core.tensor import Tensor
from lucid.nn import Module, Parameter


class Rearrange(RearrangeMixin, Module):
    """`einops.rearrange` as a layer.

    >>> import lucid
    >>> from lucid.interop.einops_layers import Rearrange
    >>> Rearrange("b c h w -> b (c h w)")(lucid.zeros(2, 3, 4, 4)).shape
    (2, 48)
    """

    def forward(self, x: Tensor) -> Tensor:
        """The tensor in its new shape."""
        return self._apply_recipe(x)  # type: ignore[no-untyped-call]  # einops gives it no types


class Reduce(ReduceMixin, Module):
    """`einops.reduce` as a layer.

    >>> import lucid
    >>> from lucid.interop.einops_layers import Reduce
    >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(lucid.zeros(2, 3, 4, 4)).shape
    (2, 3, 2, 2)
    """

    def forward(self, x: Tensor) -> Tensor:
        """The reduced tensor."""
        return self._apply_recipe(x)  # type: ignore[no-untyped-call]  # einops gives it no types


class EinMix(_EinmixMixin, Module):
    """A linear layer over axes with names: a product with weights along some, and a bias along some.

    >>> import lucid
    >>> from lucid.interop.einops_layers import EinMix
    >>> layer = EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=3, d=5)
    >>> layer(lucid.zeros(2, 4, 3)).shape
    (2, 4, 5)
    """

    def _create_parameters(
        self, weight_shape: Sequence[int], weight_bound: float, bias_shape: Any, bias_bound: float
    ) -> None:
        self.weight = Parameter(lucid.zeros(weight_shape).uniform_(-weight_bound, weight_bound))
        self.bias = None
        if bias_shape is not None:
            self.bias = Parameter(lucid.zeros(bias_shape).uniform_(-bias_bound, bias_bound))

    def _create_rearrange_layers(self, before: Any, before_sizes: Any, after: Any, after_sizes: Any) -> None:
        self.pre_rearrange = None if before is None else Rearrange(before, **before_sizes)
        self.post_rearrange = None if after is None else Rearrange(after, **after_sizes)

    def forward(self, x: Tensor) -> Tensor:
        """The product with the weights, and the bias."""
        if self.pre_rearrange is not None:
            x = self.pre_rearrange(x)
        out = lucid.einsum(self.einsum_pattern, x, self.weight)
        if self.bias is not None:
            out = out + self.bias
        return out if self.post_rearrange is None else self.post_rearrange(out)


__all__ = ["EinMix", "Rearrange", "Reduce"]
