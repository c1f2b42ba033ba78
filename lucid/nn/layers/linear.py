"""Linear layers, and those that only pass on or reshape."""

import math
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import functional as functions
from lucid.nn import init
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Passes its input on; takes any arguments and ignores them.

    >>> import lucid
    >>> from lucid.nn.layers.linear import Identity
    >>> Identity(54)(lucid.ones(2))
    Tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class _Affine(Module):
    """A layer with weights and perhaps a bias, drawn evenly from ±1 / √(size of the input)."""

    weight: Tensor
    bias: Tensor | None

    def _add_parameters(self, shape: tuple[int, ...], bias: bool, device: Any, dtype: Any) -> None:
        self.weight = Parameter(lucid.empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(lucid.empty(shape[0], device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        size = self.weight.shape[1]
        bound = 1 / math.sqrt(size) if size else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)


class Linear(_Affine):
    """x Wᵀ + b for inputs of shape (..., in_features).

    >>> import lucid
    >>> from lucid.nn.layers.linear import Linear
    >>> layer = Linear(3, 2)
    >>> layer(lucid.ones(5, 3)).shape
    (5, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._add_parameters((out_features, in_features), bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return functions.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(_Affine):
    """x1ᵀ W_k x2 + b_k for each output k.

    >>> import lucid
    >>> from lucid.nn.layers.linear import Bilinear
    >>> Bilinear(3, 4, 2)(lucid.ones(5, 3), lucid.ones(5, 4)).shape
    (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self._add_parameters((out_features, in1_features, in2_features), bias, device, dtype)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functions.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Flatten(Module):
    """The dimensions from `start_dim` to `end_dim` as one.

    >>> import lucid
    >>> from lucid.nn.layers.linear import Flatten
    >>> Flatten()(lucid.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return lucid.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension `dim` as several of the given sizes.

    >>> import lucid
    >>> from lucid.nn.layers.linear import Unflatten
    >>> Unflatten(1, (3, 4))(lucid.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise TypeError(f"Unflatten: dimensions have numbers here, not names such as {dim!r}")
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError(f"Unflatten: the sizes must be a tuple of integers, not {unflattened_size!r}")
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return lucid.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
