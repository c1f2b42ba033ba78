"""Normalisation layers: over a batch, an instance, a layer, groups of channels."""

from collections.abc import Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.core.tensor import is_plain, shape_of
from lucid.nn import init
from lucid.nn.functional import normalization as functions
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.ops.rules import is_array

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


# Beside integers, a tensor is added in half the time that a number takes.
_ONE = lucid.ones((), dtype="int64")


class _Scaled(Module):
    """A layer with a weight that starts as ones and a bias that starts as zeros, or without them."""

    weight: Tensor | None
    bias: Tensor | None

    def _add_affine(self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            value = Parameter(lucid.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _WithStatistics(_Scaled):
    """A layer for channels that may keep running statistics."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _ranks: tuple[int, ...]  # the numbers of dimensions that inputs may have

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._add_affine((num_features,), affine, affine and bias, device, dtype)
        empty = [lucid.empty(num_features, device=device, dtype=dtype) for _ in range(2)] + [
            lucid.zeros((), dtype="int64")
        ]
        for name, value in zip(("running_mean", "running_var", "num_batches_tracked"), empty, strict=True):
            self.register_buffer(name, value if track_running_stats else None)
        self.reset_parameters()

    _version = 2  # states before it have no num_batches_tracked

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *arguments: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if local_metadata.get("version", 1) < 2 and self.num_batches_tracked is not None and key not in state_dict:
            state_dict = {**state_dict, key: lucid.zeros_like(self.num_batches_tracked)}
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *arguments)

    def reset_running_stats(self) -> None:
        """Go back to a mean of 0, a variance of 1 and no batches seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set weight and bias to ones and zeros, and reset the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, shape: tuple[int, ...], channels: int) -> None:
        if len(shape) not in self._ranks:
            allowed = " or ".join(str(r) for r in self._ranks)
            raise ValueError(f"{self._get_name()} takes inputs with {allowed} dimensions, not shape {shape}")
        if shape[channels] != self.num_features:
            raise ValueError(
                f"{self._get_name()} has {self.num_features} features, but dimension {channels} of the input has "
                f"{shape[channels]}: {shape}"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_WithStatistics):
    """Mean 0 and variance 1 for each channel over the batch, then weight and bias; see `lucid.nn.functional.batch_norm`.

    With a `momentum` of None the running statistics are averages over all batches. In evaluation they are used in place
    of the batch's, unless `track_running_stats=False`. Under vmap each example has statistics of its own.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        self._check(shape_of(input), 1)
        mean, variance, count = self.running_mean, self.running_var, self.num_batches_tracked
        training = self.training or mean is None
        if not self.training or count is None:
            share = self.momentum or 0.0
            return functions.batch_norm(input, mean, variance, self.weight, self.bias, training, share, self.eps)
        share = equal_share(count + 1) if self.momentum is None else self.momentum
        out = functions.batch_norm(input, mean, variance, self.weight, self.bias, training, share, self.eps)
        count += _ONE if is_array(count) else 1
        return out


def equal_share(count: Tensor) -> Any:
    """The share of the last of so many batches in the mean of all: a number where that can be read."""
    return 1 / count.item() if is_plain(count) else 1 / count.double()


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of inputs (N, C) or (N, C, L).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import BatchNorm1d
    >>> BatchNorm1d(1, affine=False)(lucid.tensor([[1.0], [3.0]]))
    Tensor([[-1.],
            [ 1.]])
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of inputs (N, C, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import BatchNorm2d
    >>> layer = BatchNorm2d(3)
    >>> layer(lucid.rand(2, 3, 4, 4)).shape, layer.num_batches_tracked
    ((2, 3, 4, 4), Tensor(1))
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of inputs (N, C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import BatchNorm3d
    >>> BatchNorm3d(3).eval()(lucid.rand(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    _ranks = (5,)


class _InstanceNorm(_WithStatistics):
    """Mean 0 and variance 1 for each channel of each example; see `lucid.nn.functional.instance_norm`."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        alone = input.ndim == self._ranks[0]
        self._check(shape_of(input), 0 if alone else 1)
        out = functions.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 for each channel of each example of inputs (N, C, L) or (C, L).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import InstanceNorm1d
    >>> InstanceNorm1d(1)(lucid.tensor([[[1.0, 3.0]], [[2.0, 6.0]]]))
    Tensor([[[-1.,  1.]],
    <BLANKLINE>
            [[-1.,  1.]]])
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 for each channel of each example of inputs (N, C, H, W) or (C, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import InstanceNorm2d
    >>> InstanceNorm2d(3, affine=True)(lucid.rand(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Mean 0 and variance 1 for each channel of each example of inputs (N, C, D, H, W) or (C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.normalization import InstanceNorm3d
    >>> InstanceNorm3d(3, track_running_stats=True)(lucid.rand(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    _ranks = (4, 5)


def _sizes(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Scaled):
    """Mean 0 and variance 1 over the last dimensions, then weight and bias; see `lucid.nn.functional.layer_norm`.

    >>> import lucid
    >>> from lucid.nn.layers.normalization import LayerNorm
    >>> LayerNorm(2)(lucid.tensor([[1.0, 3.0], [2.0, 6.0]])).detach()
    Tensor([[-1.,  1.],
            [-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return functions.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(_Scaled):
    """Root mean square 1 over the last dimensions, then a weight; see `lucid.nn.functional.rms_norm`.

    >>> import lucid
    >>> from lucid.nn.layers.normalization import RMSNorm
    >>> RMSNorm(3)(lucid.tensor([3.0, 4.0, 5.0])).detach()
    Tensor([0.7348, 0.9798, 1.2247])
    """

    bias = None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = (
            Parameter(lucid.ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("weight", weight)

    def forward(self, input: Tensor) -> Tensor:
        return functions.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """Mean 0 and variance 1 for each group of channels of each example; see `lucid.nn.functional.group_norm`.

    >>> import lucid
    >>> from lucid.nn.layers.normalization import GroupNorm
    >>> GroupNorm(2, 4, affine=False)(lucid.tensor([[1.0, 3.0, 2.0, 6.0]]))
    Tensor([[-1.,  1., -1.,  1.]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups of equal size")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_affine((num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return functions.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Each value divided by a mean over neighbouring channels; see `lucid.nn.functional.local_response_norm`.

    >>> import lucid
    >>> from lucid.nn.layers.normalization import LocalResponseNorm
    >>> LocalResponseNorm(3, alpha=3.0, beta=1.0)(lucid.ones(1, 3, 1))[0, :, 0]
    Tensor([0.3333, 0.25  , 0.3333])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return functions.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
