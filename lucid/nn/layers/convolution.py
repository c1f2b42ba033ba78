"""Convolutions as layers."""

import math
from collections.abc import Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional import convolution as functions
from lucid.nn.functional.padding import pad
from lucid.nn.functional.spatial import each
from lucid.nn.layers.spatial import Spatial
from lucid.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _WithKernel(Spatial):
    """What convolutions and transposed convolutions share."""

    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self._n
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(f"{name}: {in_channels} and {out_channels} channels do not fall into {groups} groups")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {', '.join(_PADDING_MODES)}, not {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = each(kernel_size, n, f"{name}: kernel_size", 1)
        self.stride = each(stride, n, f"{name}: stride", 1)
        self.padding: Any = padding if isinstance(padding, str) else each(padding, n, f"{name}: padding")
        self.dilation = each(dilation, n, f"{name}: dilation", 1)
        self.output_padding = each(output_padding, n, f"{name}: output_padding")
        self.groups = groups
        self.padding_mode = padding_mode
        ends = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (ends[0], ends[1] // groups, *self.kernel_size)
        self.weight = Parameter(lucid.empty(shape, dtype=dtype, device=device))
        if bias:
            self.bias = Parameter(lucid.empty(out_channels, dtype=dtype, device=device))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias evenly from ±1/√(inputs of one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None and self.weight.numel():
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self._n, (1,) * self._n
        usual = {"padding": zeros, "dilation": ones, "output_padding": zeros, "groups": 1}
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += "".join(
            f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value
        )
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_WithKernel, functions=functions, stem="conv"):
    """out = bias + Σ weight · window, see `lucid.nn.functional.conv{n}d`.

    The weight has shape (out_channels, in_channels / groups, *kernel_size). `padding` is numbers, "valid" or "same",
    and `padding_mode` says what is there: "zeros", "reflect", "replicate" or "circular". Inputs have shape
    (N, in_channels, …) or (in_channels, …).

    >>> import lucid
    >>> from lucid.nn.layers.convolution import {name}
    >>> layer = {name}(3, 4, kernel_size=3, stride=2, padding=1)
    >>> layer(lucid.ones(2, 3, {s8})).shape
    (2, 4, {s4})
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        if isinstance(padding, str) and (
            padding not in ("same", "valid") or (padding == "same" and max(self.stride) > 1)
        ):
            raise ValueError(
                f"{type(self).__name__}: padding must be numbers, 'valid', or with a stride of 1 'same', "
                f"not {padding!r} with a stride of {self.stride}"
            )

    def forward(self, input: Tensor) -> Tensor:
        x, padding = input, self.padding
        if self.padding_mode != "zeros":
            x, padding = pad(input, self._around(), mode=self.padding_mode), 0
        return self._function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _around(self) -> list[int]:
        """The padding as `pad` takes it: last dimension first."""
        if self.padding == "valid":
            return [0] * (2 * self._n)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [p for t in reversed(totals) for p in (t // 2, t - t // 2)]
        return [p for p in reversed(self.padding) for _ in range(2)]


class Conv1d(_Conv, n=1):
    """Convolution over sequences."""


class Conv2d(_Conv, n=2):
    """Convolution over images."""


class Conv3d(_Conv, n=3):
    """Convolution over volumes."""


class _ConvTranspose(_WithKernel, functions=functions, stem="conv_transpose"):
    """Each input element adds a multiple of the kernel to the result, see `lucid.nn.functional.conv_transpose{n}d`.

    The weight has shape (in_channels, out_channels / groups, *kernel_size). Where a stride leaves several sizes of the
    result possible, `output_padding` chooses, or `output_size` when the layer is called.

    >>> import lucid
    >>> from lucid.nn.layers.convolution import {name}
    >>> layer = {name}(3, 4, kernel_size=3, stride=2, padding=1)
    >>> layer(lucid.ones(2, 3, {s4}), output_size=({s8},)).shape
    (2, 4, {s8})
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ValueError(f"{type(self).__name__}: padding must be numbers, and padding_mode 'zeros'")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        wanted = tuple(output_size)[-self._n :]
        smallest = [
            (i - 1) * s - 2 * p + d * (k - 1) + 1
            for i, s, p, d, k in zip(
                input.shape[-self._n :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        more = tuple(w - m for w, m in zip(wanted, smallest, strict=False))
        if len(more) != self._n or any(not 0 <= m < s for m, s in zip(more, self.stride, strict=True)):
            raise ValueError(
                f"{type(self).__name__}: an input of shape {input.shape} cannot give output_size {tuple(output_size)}; "
                f"sizes go from {tuple(smallest)} to less than a stride of {self.stride} more"
            )
        return more


class ConvTranspose1d(_ConvTranspose, n=1):
    """Transposed convolution over sequences."""


class ConvTranspose2d(_ConvTranspose, n=2):
    """Transposed convolution over images."""


class ConvTranspose3d(_ConvTranspose, n=3):
    """Transposed convolution over volumes."""
