"""Padding as layers."""

from typing import Any

from lucid import Tensor
from lucid.nn.functional import padding as functions
from lucid.nn.layers.spatial import Spatial

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Spatial, functions=functions, stem="pad"):
    """`padding` is one number for all sides or (left, right, top, bottom, …), last dimension first.

    Negative numbers cut elements off; see `lucid.nn.functional.pad`.

    >>> import lucid
    >>> from lucid.nn.layers.padding import {name}
    >>> {name}(1)(lucid.ones(2, 3, {s4})).shape
    (2, 3, {s6})
    """

    _mode = "constant"

    def __init_subclass__(cls, mode: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if mode is not None:
            cls._mode = mode

    def __init__(self, padding: Any) -> None:
        super().__init__()
        count = 2 * self._n
        given = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(given) != count:
            raise ValueError(f"{type(self).__name__}: padding must be one number or {count} of them, not {padding!r}")
        self.padding = given

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    """`padding` is one number for all sides or (left, right, top, bottom, …), last dimension first.

    >>> import lucid
    >>> from lucid.nn.layers.padding import {name}
    >>> {name}(1, 3.5)(lucid.zeros(2, 3, {s4})).shape
    (2, 3, {s6})
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad, n=1):
    """A constant around sequences."""


class ConstantPad2d(_ConstantPad, n=2):
    """A constant around images."""


class ConstantPad3d(_ConstantPad, n=3):
    """A constant around volumes."""


class ZeroPad1d(_Pad, n=1):
    """Zeros around sequences."""


class ZeroPad2d(_Pad, n=2):
    """Zeros around images."""


class ZeroPad3d(_Pad, n=3):
    """Zeros around volumes."""


class ReflectionPad1d(_Pad, n=1, mode="reflect"):
    """Mirror images of sequences at their ends, without the outermost elements."""


class ReflectionPad2d(_Pad, n=2, mode="reflect"):
    """Mirror images of images at their ends, without the outermost elements."""


class ReflectionPad3d(_Pad, n=3, mode="reflect"):
    """Mirror images of volumes at their ends, without the outermost elements."""


class ReplicationPad1d(_Pad, n=1, mode="replicate"):
    """The outermost elements of sequences repeated."""


class ReplicationPad2d(_Pad, n=2, mode="replicate"):
    """The outermost elements of images repeated."""


class ReplicationPad3d(_Pad, n=3, mode="replicate"):
    """The outermost elements of volumes repeated."""


class CircularPad1d(_Pad, n=1, mode="circular"):
    """Sequences continued from their other end."""


class CircularPad2d(_Pad, n=2, mode="circular"):
    """Images continued from their other end."""


class CircularPad3d(_Pad, n=3, mode="circular"):
    """Volumes continued from their other end."""
