"""Spectra over time: a signal in overlapping pieces, each of them transformed, and the signal that has such spectra."""

import warnings
from typing import Any

from lucid.api.creation import ones
from lucid.api.joining import stack
from lucid.arguments.promotion import beside
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.fft import fft, ifft, irfft, rfft
from lucid.fft.arguments import resized, whole
from lucid.ops.nn.padding import MODES, padding_map
from lucid.ops.rules import P

# --- pieces of a signal ------------------------------------------------------------------------


def _frames(x: Any, size: int, hop: int) -> Any:
    """Pieces of `size` elements, `hop` apart, of the last dimension, in a new one behind it.

    They are windows over blocks of `hop` elements, so that the way back adds up size/hop blocks and not `size` elements.
    """
    *lead, length = x.shape
    count, blocks = 1 + (length - size) // hop, -(-size // hop)
    last = len(lead)
    x = resized(x, (last,), ((count - 1 + blocks) * hop,))
    x = P.reshape(x, shape=(*lead, count - 1 + blocks, hop))
    x = P.unfold(x, dim=last, window=blocks, step=1).mT
    return resized(P.reshape(x, shape=(*lead, count, blocks * hop)), (last + 1,), (size,))


def _overlap_add(frames: Any, hop: int) -> Any:
    """The transpose of `_frames`: the sum of the pieces, each at its place."""
    *lead, count, size = frames.shape
    blocks, last = -(-size // hop), len(lead)
    x = P.reshape(resized(frames, (last + 1,), (blocks * hop,)), shape=(*lead, count, blocks, hop)).mT
    shape = (*lead, count - 1 + blocks, hop)
    x = P.reshape(P.unfold_back(x, shape=shape, dim=last, window=blocks, step=1), shape=(*lead, shape[-2] * hop))
    return resized(x, (last,), ((count - 1) * hop + size,))


def _padded(x: Any, left: int, right: int, mode: str) -> Any:
    size = x.shape[-1]
    if mode == "constant":
        index = (*(slice(None),) * (x.ndim - 1), slice(left, left + size))
        return P.slice_back(x, index=index, shape=(*x.shape[:-1], left + size + right))
    if mode not in MODES:
        raise ValueError(f"stft: pad_mode must be 'constant', {', '.join(map(repr, MODES))}, not {mode!r}")
    most = {"reflect": size - 1, "circular": size}.get(mode, left if size else 0)
    if max(left, right) > most:
        raise RuntimeError(
            f"stft: pad_mode {mode!r} can add at most {most} elements at either end of a signal of {size}, but "
            f"n_fft needs {left}; give a longer signal, pad_mode='constant' or center=False"
        )
    return P.resample(x, maps=(padding_map(mode, size, left, right),))


# --- arguments ---------------------------------------------------------------------------------


def _sizes(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    size = whole(name, "n_fft", n_fft)
    hop = size // 4 if hop_length is None else whole(name, "hop_length", hop_length)
    width = size if win_length is None else whole(name, "win_length", win_length)
    if size < 1:
        raise RuntimeError(f"{name}: expected n_fft > 0, but got n_fft={size}")
    if hop < 1:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}; it is n_fft // 4 by default")
    if not 0 < width <= size:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={width} and n_fft={size}")
    return size, hop, width


def _window(name: str, window: Any, width: int, size: int, like: Tensor) -> Tensor:
    """The window with zeros on both sides, if it is narrower than the pieces; ones if there is none."""
    found = (
        ones(width, dtype=dtypes.real_of(like.np_dtype))
        if window is None
        else beside(window, dtypes.real_of(like.np_dtype))
    )
    if found.shape != (width,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={width}, but got shape {found.shape}"
        )
    left = (size - width) // 2
    return found if width == size else _padded(found, left, size - width - left, "constant")


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform: spectra of pieces of `n_fft` elements, `hop_length` apart.

    X[k, m] = Σ window[t] input[m·hop_length + t] exp(-2πi·kt/n_fft). The signals stand in the last of one or two
    dimensions, the result has frequencies and times in the last two. The defaults: `hop_length` n_fft // 4, `win_length`
    n_fft (a shorter window stands in the middle of the piece), `window` ones. With `center` the signal is padded by
    `pad_mode`, so that piece m is centred at m·hop_length; without, `align_to_window` lets the window begin where the
    signal does. `normalized` divides by √n_fft. Real signals give the frequencies 0 to n_fft/2 unless `onesided` is
    False, and need `return_complex=True`, or False for real and imaginary parts in a last dimension.

    >>> import lucid
    >>> wave = lucid.cos(2 * lucid.pi * lucid.arange(16) / 4)
    >>> lucid.stft(wave, 8, window=lucid.hann_window(8), center=False, return_complex=True).abs().round(decimals=3)
    Tensor([[0., 0., 0., 0., 0.],
            [1., 1., 1., 1., 1.],
            [2., 2., 2., 2., 2.],
            [1., 1., 1., 1., 1.],
            [0., 0., 0., 0., 0.]])
    """
    x = lift(input)
    size, hop, width = _sizes("stft", n_fft, hop_length, win_length)
    if x.np_dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, not {x.dtype}")
    if x.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, the signal or a batch of them, not shape {x.shape}")
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center=False")
    taper = _window("stft", window, width, size, x)
    is_complex = x.is_complex() or taper.is_complex()
    if return_complex is None and not is_complex:
        raise RuntimeError("stft requires return_complex to be given for real inputs; True gives complex numbers")
    if onesided and is_complex:
        raise RuntimeError("stft: cannot have onesided output if window or input is complex")
    if center:
        x = _padded(x, size // 2, size // 2, pad_mode)
    elif align_to_window:
        left = (size - width) // 2
        x = _padded(x, left, size - width - left, "constant")
    if size > x.shape[-1]:
        raise RuntimeError(f"stft: n_fft={size} is longer than the signal, which has {x.shape[-1]} elements")
    transform = fft if is_complex or onesided is False else rfft
    spectra = transform(_frames(x, size, hop) * taper, norm="ortho" if normalized else None).mT
    return stack([spectra.real, spectra.imag], -1) if return_complex is False else spectra


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The inverse of `stft`: the signal whose spectra over time are nearest to the given ones in the least squares.

    Pieces are transformed back, multiplied by the window, added up where they stand, and divided by the sum of the
    squared windows there, which must not be zero. The arguments are those that `stft` was given; `length` is that
    of the signal, which cannot be told from the spectra alone.

    >>> import lucid
    >>> wave, window = lucid.arange(10.0), lucid.hann_window(4)
    >>> spectra = lucid.stft(wave, 4, window=window, return_complex=True)
    >>> lucid.istft(spectra, 4, window=window).round(decimals=3)
    Tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.])
    """
    x = lift(input)
    size, hop, width = _sizes("istft", n_fft, hop_length, win_length)
    if not x.is_complex():
        raise RuntimeError(f"istft requires complex spectra, as stft with return_complex=True gives, not {x.dtype}")
    if x.ndim not in (2, 3) or not x.numel():
        raise RuntimeError(f"istft: expected shape (frequencies, times) or (batch, frequencies, times), not {x.shape}")
    if hop > width:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got {hop} and {width}")
    taper = _window("istft", window, width, size, x)
    frames = _frames_of(x, size, normalized, onesided, return_complex, taper)
    start = size // 2 if center else 0
    there = (frames.shape[-2] - 1) * hop + size
    end = there - start if length is None else start + _length(length)
    index = slice(start, min(end, there))
    squares = P.broadcast_to(taper * taper, shape=frames.shape[-2:])
    scale = P.overlap_reciprocal(_overlap_add(squares, hop)[index])
    signal = _overlap_add(frames * taper, hop)[..., index] * scale
    if end <= there:
        return signal
    warnings.warn(f"istft: the spectra reach to {there - start} of length={length}; zeros follow", stacklevel=2)
    return resized(signal, (signal.ndim - 1,), (end - start,))


def _length(length: Any) -> int:
    found = whole("istft", "length", length)
    if found < 1:
        raise RuntimeError(f"istft: expected length > 0, but got length={found}")
    return found


def _frames_of(
    x: Tensor, size: int, normalized: bool, onesided: bool | None, return_complex: bool, taper: Tensor
) -> Tensor:
    """The pieces of the signal that spectra belong to, times first."""
    is_half = x.shape[-2] != size if onesided is None else onesided
    if x.shape[-2] != (size // 2 + 1 if is_half else size):
        expected = f"n_fft // 2 + 1 = {size // 2 + 1} when onesided" if is_half else f"n_fft = {size} when not onesided"
        raise RuntimeError(f"istft: expected the frequency dimension to have {expected}, but it has {x.shape[-2]}")
    if is_half and return_complex:
        raise RuntimeError("istft: a complex result needs the whole spectrum; give onesided=False spectra")
    if taper.is_complex() and not return_complex:
        raise RuntimeError("istft: a complex window needs return_complex=True")
    spectra, norm = x.mT, "ortho" if normalized else None
    # A real signal needs the first half only: `irfft` leaves the other one out.
    return ifft(spectra, norm=norm) if return_complex else irfft(spectra, size, norm=norm)
