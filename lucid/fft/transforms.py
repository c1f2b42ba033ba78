"""The Fourier transforms of users: six kinds, along one dimension, the last two, or any number.

`fft` and `ifft` take and give complex numbers; `rfft` takes real ones and gives the first half of the spectrum, from
which `irfft` makes real numbers again; `hfft` and `ihfft` are the same with time and frequency exchanged.
"""

from typing import Any

from lucid.core.tensor import Tensor
from lucid.fft.arguments import along_many, along_one, public

__all__ = [
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip


@public
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along one dimension: X[k] = Σ x[t] exp(-2πi·kt/n).

    `n` is the length of the signal along `dim`: what is beyond it is left out, and zeros stand for what is missing.
    `norm` says where the factor 1/n stands: "backward" (the default) at the inverse transform, "forward" at this one,
    "ortho" 1/√n at both.

    >>> import lucid
    >>> lucid.fft.fft(lucid.tensor([1.0, 2.0, 3.0]))
    Tensor([ 6. +0.j   , -1.5+0.866j, -1.5-0.866j], dtype=lucid.complex64)
    """
    return along_one("fft", input, n, dim, norm)


@public
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft` along one dimension: x[t] = 1/n Σ X[k] exp(2πi·kt/n).

    >>> import lucid
    >>> lucid.fft.ifft(lucid.tensor([6.0, 0.0, 0.0]))
    Tensor([2.+0.j, 2.+0.j, 2.+0.j], dtype=lucid.complex64)
    """
    return along_one("ifft", input, n, dim, norm)


@public
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The Fourier transform of real numbers along one dimension: frequencies 0 to n/2; the others are their conjugates.

    >>> import lucid
    >>> lucid.fft.rfft(lucid.tensor([1.0, 0.0, -1.0, 0.0]))
    Tensor([0.+0.j, 2.+0.j, 0.+0.j], dtype=lucid.complex64)
    """
    return along_one("rfft", input, n, dim, norm)


@public
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft` along one dimension: real numbers from half a spectrum.

    `n` is the length of the result, 2 (m - 1) for m elements by default: give it to get an odd length back. Of what
    stands at frequency 0, and at n/2 for an even n, only the real part counts.

    >>> import lucid
    >>> lucid.fft.irfft(lucid.tensor([0.0, 1.0, 0.0]))
    Tensor([ 0.5,  0. , -0.5,  0. ])
    """
    return along_one("irfft", input, n, dim, norm)


@public
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The spectrum, real, of a signal of which the first half is given; the other half is its conjugate, mirrored.

    `n` is the length of the result, 2 (m - 1) for m elements by default.

    >>> import lucid
    >>> lucid.fft.hfft(lucid.tensor([1.0, 1j, 0.0]))
    Tensor([ 1.,  3.,  1., -1.])
    """
    return along_one("hfft", input, n, dim, norm)


@public
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft` along one dimension: the first half of a signal whose spectrum is these real numbers.

    >>> import lucid
    >>> lucid.fft.ihfft(lucid.tensor([4.0, 0.0, 0.0, 0.0])).real
    Tensor([1., 1., 1.])
    """
    return along_one("ihfft", input, n, dim, norm)


@public
def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along two dimensions, one after the other.

    >>> import lucid
    >>> lucid.fft.fft2(lucid.ones(2, 2))
    Tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=lucid.complex64)
    """
    return along_many("fft", "2", input, s, dim, norm)


@public
def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `fft2`.

    >>> import lucid
    >>> lucid.fft.ifft2(lucid.ones(2, 2))
    Tensor([[1.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=lucid.complex64)
    """
    return along_many("ifft", "2", input, s, dim, norm)


@public
def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The Fourier transform of real numbers along two dimensions: in the last of them frequencies 0 to n/2.

    >>> import lucid
    >>> lucid.fft.rfft2(lucid.ones(2, 3))
    Tensor([[6.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=lucid.complex64)
    """
    return along_many("rfft", "2", input, s, dim, norm)


@public
def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `rfft2`.

    >>> import lucid
    >>> lucid.fft.irfft2(lucid.ones(2, 2))
    Tensor([[1., 0.],
            [0., 0.]])
    """
    return along_many("irfft", "2", input, s, dim, norm)


@public
def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The spectrum, real, of a signal of which, in the last of the dimensions, the first half is given.

    >>> import lucid
    >>> lucid.fft.hfft2(lucid.ones(2, 2))
    Tensor([[4., 0.],
            [0., 0.]])
    """
    return along_many("hfft", "2", input, s, dim, norm)


@public
def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `hfft2`.

    >>> import lucid
    >>> lucid.fft.ihfft2(lucid.ones(2, 3)).real
    Tensor([[1., 0.],
            [0., 0.]])
    """
    return along_many("ihfft", "2", input, s, dim, norm)


@public
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along several dimensions, one after the other.

    `s` are the lengths of the signal along the dimensions `dim`, with -1 for what is there; without `dim` they are
    those of the last dimensions, and without both all dimensions are transformed. `norm` is as for `fft`.

    >>> import lucid
    >>> lucid.fft.fftn(lucid.ones(2, 2), s=(-1, 3))[0]
    Tensor([4.+0.j    , 1.-1.7321j, 1.+1.7321j], dtype=lucid.complex64)
    """
    return along_many("fft", "n", input, s, dim, norm)


@public
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`.

    >>> import lucid
    >>> lucid.fft.ifftn(lucid.ones(2, 2), s=(1, 2))
    Tensor([[1.+0.j, 0.+0.j]], dtype=lucid.complex64)
    """
    return along_many("ifft", "n", input, s, dim, norm)


@public
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The Fourier transform of real numbers along several dimensions: in the last of them frequencies 0 to n/2.

    >>> import lucid
    >>> lucid.fft.rfftn(lucid.ones(2, 2), norm="ortho")
    Tensor([[2.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=lucid.complex64)
    """
    return along_many("rfft", "n", input, s, dim, norm)


@public
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`.

    The last of `s` is the length of the result in the halved dimension, 2 (m - 1) for m elements by default.

    >>> import lucid
    >>> lucid.fft.irfftn(lucid.ones(2, 2), s=(2, 3))
    Tensor([[1., 0., 0.],
            [0., 0., 0.]])
    """
    return along_many("irfft", "n", input, s, dim, norm)


@public
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The spectrum, real, of a signal of which, in the last of the dimensions, the first half is given.

    >>> import lucid
    >>> lucid.fft.hfftn(lucid.ones(2, 2), s=(2, 3))
    Tensor([[6., 0., 0.],
            [0., 0., 0.]])
    """
    return along_many("hfft", "n", input, s, dim, norm)


@public
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`.

    >>> import lucid
    >>> lucid.fft.ihfftn(lucid.ones(2, 2), norm="ortho").real
    Tensor([[2., 0.],
            [0., 0.]])
    """
    return along_many("ihfft", "n", input, s, dim, norm)
