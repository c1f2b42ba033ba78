"""The standard's extension of discrete Fourier transforms, over `lucid.fft`."""

from collections.abc import Callable, Sequence
from typing import Any

import lucid
from lucid.array_api.promotion import array
from lucid.core.tensor import Tensor

Function = Callable[..., Tensor]


def _described(function: Function, name: str, text: str, example: str) -> Function:
    function.__name__ = function.__qualname__ = name
    call, _, result = example.partition(" -> ")
    function.__doc__ = f"{text}\n\n    >>> import lucid\n    >>> lucid.array_api.fft.{name}({call})\n    {result}\n    "
    return function


def _along_one(name: str, text: str, example: str) -> Function:
    """A transform along one dimension."""

    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return getattr(lucid.fft, name)(array(x, name), n=n, dim=axis, norm=norm)

    return _described(function, name, text, example)


def _along_many(name: str, text: str, example: str) -> Function:
    """A transform along several dimensions."""

    def function(
        x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Tensor:
        return getattr(lucid.fft, name)(array(x, name), s=s, dim=axes, norm=norm)

    return _described(function, name, text, example)


def _shift(name: str, text: str, example: str) -> Function:
    def function(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return getattr(lucid.fft, name)(array(x, name), dim=axes)

    return _described(function, name, text, example)


def _frequencies(name: str, text: str, example: str) -> Function:
    def function(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
        return getattr(lucid.fft, name)(n, d, dtype=dtype, device=device)

    return _described(function, name, text, example)


_PULSE = "lucid.tensor([1.0, 0.0])"
_LEVEL = "lucid.tensor([1.0, 1.0])"
_IMAGE = "lucid.ones(1, 2)"

fft = _along_one(
    "fft", "The discrete Fourier transform.", f"{_PULSE} -> Tensor([1.+0.j, 1.+0.j], dtype=lucid.complex64)"
)
ifft = _along_one("ifft", "The inverse of `fft`.", f"{_LEVEL} -> Tensor([1.+0.j, 0.+0.j], dtype=lucid.complex64)")
rfft = _along_one(
    "rfft",
    "`fft` of real input, the half that says all.",
    f"{_PULSE} -> Tensor([1.+0.j, 1.+0.j], dtype=lucid.complex64)",
)
irfft = _along_one("irfft", "The inverse of `rfft`.", f"{_LEVEL} -> Tensor([1., 0.])")
hfft = _along_one("hfft", "`fft` of input that is Hermitian in time, which is real.", f"{_PULSE} -> Tensor([1., 1.])")
ihfft = _along_one("ihfft", "The inverse of `hfft`.", f"{_LEVEL} -> Tensor([1.-0.j, 0.-0.j], dtype=lucid.complex64)")
fftn = _along_many(
    "fftn", "The transform along several dimensions.", f"{_IMAGE} -> Tensor([[2.+0.j, 0.+0.j]], dtype=lucid.complex64)"
)
ifftn = _along_many("ifftn", "The inverse of `fftn`.", f"{_IMAGE} -> Tensor([[1.+0.j, 0.+0.j]], dtype=lucid.complex64)")
rfftn = _along_many(
    "rfftn",
    "`fftn` of real input, the half that says all.",
    f"{_IMAGE} -> Tensor([[2.+0.j, 0.+0.j]], dtype=lucid.complex64)",
)
irfftn = _along_many("irfftn", "The inverse of `rfftn`.", f"{_IMAGE} -> Tensor([[1., 0.]])")
fftshift = _shift("fftshift", "Frequency 0 moved to the middle.", "lucid.arange(4) -> Tensor([2, 3, 0, 1])")
ifftshift = _shift("ifftshift", "The inverse of `fftshift`.", "lucid.arange(4) -> Tensor([2, 3, 0, 1])")
fftfreq = _frequencies("fftfreq", "The frequencies that belong to `fft`.", "4 -> Tensor([ 0.  ,  0.25, -0.5 , -0.25])")
rfftfreq = _frequencies("rfftfreq", "The frequencies that belong to `rfft`.", "4 -> Tensor([0.  , 0.25, 0.5 ])")

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
