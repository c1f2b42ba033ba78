"""Which frequencies the elements of a spectrum belong to, and spectra with frequency 0 in the middle."""

from typing import Any

import numpy as np

from lucid.api.creation import tensor
from lucid.arguments.dims import one_dim
from lucid.arguments.out import fills_out
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.fft.arguments import numpy_axes, whole
from lucid.ops.rules import P

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _spaced(name: str, numbers: Any, n: int, d: float, dtype: Any, **settings: Any) -> Tensor:
    """Whole numbers as frequencies, in cycles for each unit of `d`."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)
    if kind not in dtypes.FLOATING:
        raise RuntimeError(f"{name} requires a floating point dtype, not {dtypes.of_numpy(kind)}")
    with np.errstate(all="ignore"):
        return tensor(numbers * (np.float64(1) / (n * d)), dtype=kind, **settings)


def _length(name: str, n: Any) -> int:
    found = whole(name, "n", n)
    if found < 0:
        raise RuntimeError(f"{name}: the length of a signal must not be negative, but n is {found}")
    return found


@fills_out
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements of `fft` for a signal of length `n` with samples `d` apart.

    They are k/(n·d) for k = 0, 1, … and, from the middle on, the negative ones: … -2, -1.

    >>> import lucid
    >>> lucid.fft.fftfreq(5)
    Tensor([ 0. ,  0.2,  0.4, -0.4, -0.2])
    """
    length = _length("fftfreq", n)
    numbers = np.arange(length)
    numbers[(length + 1) // 2 :] -= length
    return _spaced("fftfreq", numbers, length, d, dtype, device=device, requires_grad=requires_grad)


@fills_out
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements of `rfft` for a signal of length `n` with samples `d` apart.

    >>> import lucid
    >>> lucid.fft.rfftfreq(4, d=0.5)
    Tensor([0. , 0.5, 1. ])
    """
    length = _length("rfftfreq", n)
    numbers = np.arange(length // 2 + 1)
    return _spaced("rfftfreq", numbers, length, d, dtype, device=device, requires_grad=requires_grad)


def _rolled(name: str, input: Any, dim: Any, forward: bool) -> Tensor:
    x = lift(input)
    if dim is None:
        dims = tuple(range(x.ndim))
    else:
        dims = tuple(one_dim(d, x.ndim, name) for d in (dim if isinstance(dim, list | tuple) else (dim,)))
    if not x.ndim:
        if dims:
            raise IndexError(f"{name}: a 0-d tensor has no dimension {dims[0]}")
        return P.clone(x)
    moves = [x.shape[d] // 2 for d in dims]
    return P.roll(x, shifts=tuple(moves) if forward else tuple(-m for m in moves), dims=dims)


@numpy_axes
def fftshift(input: Any, dim: Any = None) -> Tensor:
    """A spectrum with frequency 0 in the middle of the dimensions `dim`, of all by default.

    >>> import lucid
    >>> lucid.fft.fftshift(lucid.fft.fftfreq(5))
    Tensor([-0.4, -0.2,  0. ,  0.2,  0.4])
    """
    return _rolled("fftshift", input, dim, forward=True)


@numpy_axes
def ifftshift(input: Any, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> import lucid
    >>> lucid.fft.ifftshift(lucid.tensor([-0.4, -0.2, 0.0, 0.2, 0.4]))
    Tensor([ 0. ,  0.2,  0.4, -0.4, -0.2])
    """
    return _rolled("ifftshift", input, dim, forward=False)
