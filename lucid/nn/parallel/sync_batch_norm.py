"""Batch normalisation over the batches of all processes."""

from typing import Any, cast

import lucid
from lucid import Tensor, distributed
from lucid.core.tensor import is_plain, shape_of
from lucid.distributed import ProcessGroup
from lucid.distributed.functional import psum
from lucid.distributed.groups import chosen
from lucid.nn.layers.normalization import _BatchNorm, equal_share
from lucid.nn.module import Module

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Mean 0 and variance 1 for each channel over the batches of all processes of a group, then weight and bias.

    Batches may have different sizes. Inputs have two dimensions or more. In evaluation, without a process group, and with
    one process it is what `BatchNorm2d` and its relatives are.

    >>> import lucid
    >>> from lucid.nn import BatchNorm1d, Linear, Sequential, SyncBatchNorm
    >>> model = SyncBatchNorm.convert_sync_batchnorm(Sequential(Linear(2, 3), BatchNorm1d(3)))
    >>> model[1](lucid.rand(4, 3)).shape
    (4, 3)
    """

    _ranks = tuple(range(2, 65))

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        is_local = not (self.training or self.running_mean is None) or not distributed.is_initialized()
        group = None if is_local else chosen(self.process_group)
        if group is None or group.size() == 1:
            return super().forward(input)
        self._check(shape_of(input), 1)
        kind = input.dtype
        x = input if kind == lucid.float64 else input.float()
        dims = [0, *range(2, x.ndim)]
        shape = [1, -1] + [1] * (x.ndim - 2)
        own = lucid.full((1,), x.numel() // self.num_features, dtype=x.dtype)
        totals = psum(lucid.cat([x.sum(dims), own]), group)
        count = totals[-1].detach()
        if is_plain(count) and count.item() <= 1:
            raise ValueError(
                f"SyncBatchNorm: training needs more than one value for each channel, but the input of each of "
                f"{group.size()} processes has shape {input.shape}; use a larger batch or eval()"
            )
        mean = totals[:-1] / count
        centred = x - mean.reshape(shape)
        variance = psum((centred * centred).sum(dims), group) / count
        self._follow(mean.detach(), variance.detach() * (count / (count - 1)))
        y = centred * lucid.rsqrt(variance + self.eps).reshape(shape)
        if self.weight is not None:
            y = y * self.weight.reshape(shape)
        if self.bias is not None:
            y = y + self.bias.reshape(shape)
        return y.to(kind)

    @lucid.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        count = self.num_batches_tracked
        if not self.training or count is None or self.running_mean is None or self.running_var is None:
            return
        count += 1
        share = equal_share(count) if self.momentum is None else self.momentum
        for running, found in ((self.running_mean, mean), (self.running_var, variance)):
            running.mul_(1 - share).add_(found.to(running.dtype) * share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """The module with this class in place of all batch normalisations, which keep their parameters and statistics."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group,
            )  # fmt: skip
            for name in (*module._parameters, *module._buffers):
                setattr(made, name, getattr(module, name))
            return cast(Module, made.train(module.training))
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module
