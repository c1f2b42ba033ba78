"""Pooling as layers."""

from collections.abc import Sequence
from typing import Any

from lucid import Tensor
from lucid.nn.functional import fractional
from lucid.nn.functional import pooling as functions
from lucid.nn.layers.functions import OfOneTensor
from lucid.nn.layers.spatial import Spatial

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Pool(Spatial, OfOneTensor):
    """Pooling of one tensor."""

    _shown: tuple[str, ...] = ("kernel_size", "stride", "padding")


class _MaxPool(_Pool, functions=functions, stem="max_pool"):
    """The largest element of each window; with `return_indices` also where it stands in its flattened plane.

    Without a `stride`, windows lie side by side. `ceil_mode` admits a last window that begins inside the input and ends
    outside.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(2)(lucid.ones(2, 3, {s8})).shape
    (2, 3, {s4})
    """

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPool, n=1):
    """Max pooling over sequences."""


class MaxPool2d(_MaxPool, n=2):
    """Max pooling over images."""


class MaxPool3d(_MaxPool, n=3):
    """Max pooling over volumes."""


class _MaxUnpool(Spatial, functions=functions, stem="max_unpool"):
    """Elements put back to where `MaxPool{n}d` found them, by its indices; 0 elsewhere.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import MaxPool{n}d, {name}
    >>> values, indices = MaxPool{n}d(2, return_indices=True)(lucid.ones(2, 3, {s8}))
    >>> {name}(2)(values, indices).shape
    (2, 3, {s8})
    """

    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._call(input, indices, output_size=output_size)


class MaxUnpool1d(_MaxUnpool, n=1):
    """The reverse of max pooling over sequences."""


class MaxUnpool2d(_MaxUnpool, n=2):
    """The reverse of max pooling over images."""


class MaxUnpool3d(_MaxUnpool, n=3):
    """The reverse of max pooling over volumes."""


class _AvgPool(_Pool, functions=functions, stem="avg_pool"):
    """The mean of each window; zeros of the padding are counted unless `count_include_pad` is False.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(3, stride=2, padding=1)(lucid.ones(2, 3, {s8})).shape
    (2, 3, {s4})
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool1d(_AvgPool, n=1):
    """Mean pooling over sequences."""


class AvgPool2d(_AvgPool, n=2):
    """Mean pooling over images."""


class AvgPool3d(_AvgPool, n=3):
    """Mean pooling over volumes."""


class _LPPool(_Pool, functions=functions, stem="lp_pool"):
    """(Σ xᵖ)^(1/p) of each window, with p = `norm_type`.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(2, 2)(lucid.ones(2, 3, {s8})).shape
    (2, 3, {s4})
    """

    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode


class LPPool1d(_LPPool, n=1):
    """Power-mean pooling over sequences."""


class LPPool2d(_LPPool, n=2):
    """Power-mean pooling over images."""


class LPPool3d(_LPPool, n=3):
    """Power-mean pooling over volumes."""


class _AdaptiveMaxPool(_Pool, functions=functions, stem="adaptive_max_pool"):
    """The largest elements of so many windows that the result has `output_size`; a size of None stays as it is.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(4)(lucid.ones(2, 3, {s7})).shape
    (2, 3, {s4})
    """

    _shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._call(input)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, n=1):
    """Max pooling over sequences to a given size."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, n=2):
    """Max pooling over images to a given size."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, n=3):
    """Max pooling over volumes to a given size."""


class _AdaptiveAvgPool(_Pool, functions=functions, stem="adaptive_avg_pool"):
    """The means of so many windows that the result has `output_size`; a size of None stays as it is.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(1)(lucid.ones(2, 3, {s7})).shape
    (2, 3, {s1})
    """

    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPool, n=1):
    """Mean pooling over sequences to a given size."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, n=2):
    """Mean pooling over images to a given size."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, n=3):
    """Mean pooling over volumes to a given size."""


class _FractionalMaxPool(_Pool, functions=fractional, stem="fractional_max_pool"):
    """The largest elements of windows at random steps, so many that the result has `output_size`, or `output_ratio` of the
    size of the input; see `lucid.nn.functional.fractional_max_pool{n}d`.

    >>> import lucid
    >>> from lucid.nn.layers.pooling import {name}
    >>> {name}(2, output_size=4)(lucid.ones(2, 3, {s7})).shape
    (2, 3, {s4})
    """

    _shown = ("kernel_size", "output_size", "output_ratio")

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: give output_size or output_ratio, one of them")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)


class FractionalMaxPool2d(_FractionalMaxPool, n=2):
    """Max pooling over images at random steps."""


class FractionalMaxPool3d(_FractionalMaxPool, n=3):
    """Max pooling over volumes at random steps."""
