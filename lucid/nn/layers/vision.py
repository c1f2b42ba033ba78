"""Images in other sizes and rearranged channels, as layers."""

from typing import Any

from lucid.nn.functional.convolution import fold, unfold
from lucid.nn.functional.vision import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle
from lucid.nn.layers.functions import OfOneTensor

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(OfOneTensor, function=interpolate):
    """Signals, images or volumes in another size, see `lucid.nn.functional.interpolate`.

    >>> import lucid
    >>> from lucid.nn.layers.vision import Upsample
    >>> Upsample(scale_factor=2, mode="bilinear")(lucid.ones(1, 3, 4, 4)).shape
    (1, 3, 8, 8)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        several = isinstance(scale_factor, (list, tuple))
        self.size = size
        self.scale_factor = (
            tuple(float(s) for s in scale_factor) if several else None if scale_factor is None else float(scale_factor)
        )
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def extra_repr(self) -> str:
        by = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images in another size, each place taking the nearest element.

    >>> import lucid
    >>> from lucid.nn.layers.vision import UpsamplingNearest2d
    >>> UpsamplingNearest2d(scale_factor=2)(lucid.tensor([[[[1.0, 2.0]]]]))
    Tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images in another size, interpolated between the elements around; the corners stay where they are.

    >>> import lucid
    >>> from lucid.nn.layers.vision import UpsamplingBilinear2d
    >>> UpsamplingBilinear2d(size=(1, 3))(lucid.tensor([[[[1.0, 2.0]]]]))
    Tensor([[[[1. , 1.5, 2. ]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(OfOneTensor, function=pixel_shuffle):
    """Channels spread out over space: (…, C·r², H, W) becomes (…, C, H·r, W·r).

    >>> import lucid
    >>> from lucid.nn.layers.vision import PixelShuffle
    >>> PixelShuffle(2)(lucid.ones(1, 12, 4, 5)).shape
    (1, 3, 8, 10)
    """

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor


class PixelUnshuffle(OfOneTensor, function=pixel_unshuffle):
    """Space folded into channels: (…, C, H·r, W·r) becomes (…, C·r², H, W).

    >>> import lucid
    >>> from lucid.nn.layers.vision import PixelUnshuffle
    >>> PixelUnshuffle(2)(lucid.ones(1, 3, 8, 10)).shape
    (1, 12, 4, 5)
    """

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor


class ChannelShuffle(OfOneTensor, function=channel_shuffle):
    """Channels dealt out anew: the first of each group, then the second of each, and so on.

    >>> import lucid
    >>> from lucid.nn.layers.vision import ChannelShuffle
    >>> ChannelShuffle(2)(lucid.arange(4).reshape(1, 4, 1)).reshape(4)
    Tensor([0, 2, 1, 3])
    """

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups


class _Columns(OfOneTensor):
    """What `Unfold` and `Fold` share."""

    _shown: tuple[str, ...] = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride


class Unfold(_Columns, function=unfold):
    """The windows of images as columns: (N, C, H, W) becomes (N, C · taps, places).

    >>> import lucid
    >>> from lucid.nn.layers.vision import Unfold
    >>> Unfold(2)(lucid.ones(1, 3, 4, 4)).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)


class Fold(_Columns, function=fold):
    """Columns added up to images where they came from: the transpose of `Unfold`.

    >>> import lucid
    >>> from lucid.nn.layers.vision import Fold
    >>> Fold((4, 4), 2)(lucid.ones(1, 12, 9)).shape
    (1, 3, 4, 4)
    """

    _shown = ("output_size", *_Columns._shown)

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size
