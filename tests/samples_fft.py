"""Rows of the table for Fourier transforms, and for the spectra over time made of them; see `samples`.

References are sums over exponentials, as the definitions have them. Complex results come as two real ones, since the
types that the table knows for results are those of the operands and their real parts.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from samples import BOOLS, Array, Domain, Make, Row, Sample, s

import lucid
from lucid.core.primitive import P
from lucid.signal import spectra

NO_DOOR = {"refused": "a primitive that no user calls"}
Norm = str | None

# --- the definitions -----------------------------------------------------------------------------


def factor(norm: Norm, n: int, inverse: bool) -> float:
    if norm == "ortho":
        return n**-0.5
    return 1 / n if (norm == "forward") != inverse else 1.0


def fit(x: Array, dim: int, n: int) -> Array:
    """The first n elements, with zeros for missing ones."""
    x = np.moveaxis(x, dim, -1)[..., :n]
    x = np.concatenate([x, np.zeros((*x.shape[:-1], n - x.shape[-1]))], -1)
    return np.moveaxis(x, -1, dim)


def along(x: Array, dim: int, matrix: Array) -> Array:
    return np.moveaxis(np.moveaxis(x, dim, -1) @ matrix, -1, dim)


def dft(x: Array, dim: int, n: int, inverse: bool, norm: Norm) -> Array:
    k = np.arange(n)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(k, k) / n)
    return along(fit(x, dim, n), dim, turns) * factor(norm, n, inverse)


def completed(x: Array, dim: int, n: int) -> Array:
    """All n elements of what equals its own mirror image, conjugated, from the first half; the middle ones are real."""
    half = np.moveaxis(fit(x, dim, n // 2 + 1), dim, -1).astype(complex)
    whole = np.zeros((*half.shape[:-1], n), complex)
    for k in range(n // 2 + 1):
        if (2 * k) % n == 0:
            whole[..., k] = half[..., k].real
        else:
            whole[..., k], whole[..., n - k] = half[..., k], half[..., k].conj()
    return np.moveaxis(whole, -1, dim)


def reference(x: Array, kind: str, s: Any = None, dim: Any = None, norm: Norm = None) -> Array:
    """Any transform along any dimensions."""
    inverse, halves, completes = (
        kind in ("ifft", "irfft", "ihfft"),
        kind in ("rfft", "ihfft"),
        kind in ("irfft", "hfft"),
    )
    if dim is None:
        dim = range(x.ndim - len(s), x.ndim) if s is not None else range(x.ndim)
    dims = [int(d) % x.ndim for d in np.atleast_1d(np.asarray(list(dim) if not isinstance(dim, int) else dim, int))]
    sizes = [2 * (x.shape[d] - 1) if completes and d == dims[-1] else x.shape[d] for d in dims]
    if s is not None:
        sizes = [n if wanted == -1 else wanted for n, wanted in zip(sizes, np.atleast_1d(s), strict=True)]
    for d, n in list(zip(dims, sizes, strict=True))[: -1 if completes else None]:
        x = dft(x, d, n, inverse, norm)
    if completes:
        return dft(completed(x, dims[-1], sizes[-1]), dims[-1], sizes[-1], inverse, norm).real
    if halves:
        return np.moveaxis(np.moveaxis(x, dims[-1], -1)[..., : sizes[-1] // 2 + 1], -1, dims[-1])
    return x


# --- transforms ----------------------------------------------------------------------------------


def parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """A complex result as its real and imaginary parts."""

    def op(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        z = function(*args, **kwargs)
        return z.real, z.imag

    return op


def taken(make: Make) -> bool:
    """Half precision is refused, which has a test of its own."""
    return make.name not in ("float16", "bfloat16")


def one_dim(make: Make) -> Iterator[Sample]:
    if not taken(make):
        return
    yield s(make(5))
    yield s(make(6))
    yield s(make(3, 2).T, dim=0)
    yield s(make(2, 6)[:, ::2], n=5, norm="ortho")
    yield s(make(2, 3, 5), n=2, dim=1, norm="forward")
    yield s(make(7), n=6, norm="backward")
    yield s(make(5), n=1)
    yield s(make(0, 3))


def many_dims(make: Make) -> Iterator[Sample]:
    if not taken(make):
        return
    yield s(make(2, 3))
    yield s(make(3, 5), s=(2, 6), norm="ortho")
    yield s(make(2, 5, 3), dim=(2, 0), norm="forward")
    yield s(make(2, 3), s=(-1, 5), dim=(1, 0))


def any_dims(make: Make) -> Iterator[Sample]:
    yield from many_dims(make)
    if taken(make):
        yield s(make(2, 3, 5), s=(3,))
        yield s(make(2, 3), dim=0)


SAMPLES = {"": one_dim, "2": many_dims, "n": any_dims}


def transform(kind: str, suffix: str) -> Row:
    name = kind + suffix

    def ref(x: Array, n: Any = None, s: Any = None, dim: Any = {"": -1, "2": (-2, -1), "n": None}[suffix], **rest: Any):
        out = reference(x, kind, n if s is None else s, dim, **rest)
        return out if kind in ("irfft", "hfft") else (out.real, out.imag)

    op = getattr(lucid.fft, name)
    return Row(
        name,
        op if kind in ("irfft", "hfft") else parts(op),
        ref,
        SAMPLES[suffix],
        result="float real",
        complex=kind not in ("rfft", "ihfft"),
        ints=BOOLS,
    )


TRANSFORMS = [
    transform(kind, suffix)
    for suffix in SAMPLES
    for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
]  # fmt: skip


def shifts(make: Make) -> Iterator[Sample]:
    yield s(make(5))
    yield s(make(6))
    yield s(make(2, 3))
    yield s(make(2, 3, 5), dim=1)
    yield s(make(2, 3, 5), dim=(-1, 0))
    yield s(make())


def rolled(sign: int) -> Callable[..., Array]:
    def ref(x: Array, dim: Any = None) -> Array:
        dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        for d in dims:
            x = x.take(np.arange(x.shape[d]) - sign * (x.shape[d] // 2), d, mode="wrap")
        return x

    return ref


SHIFTS = [
    Row("fftshift", lucid.fft.fftshift, rolled(1), shifts, complex=True, ints=BOOLS),
    Row("ifftshift", lucid.fft.ifftshift, rolled(-1), shifts, complex=True, ints=BOOLS),
]


# --- primitives ----------------------------------------------------------------------------------


def spectrum(make: Make) -> Iterator[Sample]:
    yield s(make(5), dims=(0,), inverse=False, norm="backward", real=False)
    yield s(make(2, 3), dims=(1, 0), inverse=True, norm="forward", real=False)


def reals(make: Make) -> Iterator[Sample]:
    if taken(make):
        yield s(make(5), dims=(0,), norm="backward")
        yield s(make(6, 3), dims=(1, 0), norm="forward")


def halves(make: Make) -> Iterator[Sample]:
    yield s(make(3), dims=(0,), size=5, norm="ortho")
    yield s(make(3, 2), dims=(1, 0), size=5, norm="forward")
    yield s(make(2, 3), dims=(0, 1), size=3 + 2, norm="backward")


def reference_of(kind: str) -> Callable[..., Array]:
    def ref(x: Array, dims: Any, norm: str, size: int | None = None, inverse: bool = False, real: bool = True) -> Array:
        sizes = None if size is None else [*(x.shape[d] for d in dims[:-1]), size]
        return reference(x, "ifft" if inverse else kind, sizes, dims, norm)

    return ref


def both(function: Callable[..., Array]) -> Callable[..., Any]:
    def ref(*args: Any, **kwargs: Any) -> tuple[Array, Array]:
        out = function(*args, **kwargs)
        return out.real, out.imag

    return ref


PRIMITIVES = [
    Row("fft_c2c", P.fft_c2c, reference_of("fft"), spectrum, floats=False, complex=True, without=NO_DOOR),
    Row("fft_r2c", parts(P.fft_r2c), both(reference_of("rfft")), reals, without=NO_DOOR),
    Row("fft_c2r", P.fft_c2r, reference_of("irfft"), halves, result="real", floats=False, complex=True,
        without=NO_DOOR),
    Row("overlap_reciprocal", P.overlap_reciprocal, lambda x: 1 / x, lambda make: [s(make(5)), s(make(2, 3))],
        domain=Domain(0.5, 2.0), complex=True, without=NO_DOOR),
]  # fmt: skip

# --- spectra over time ---------------------------------------------------------------------------

PADDING = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}


def tapered(window: Array | None, width: int, size: int) -> Array:
    left = (size - width) // 2
    return np.pad(np.ones(width) if window is None else window, (left, size - width - left))


def stft(
    x: Array,
    n_fft: int,
    window: Array | None = None,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    align_to_window: bool = False,
) -> Any:
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    taper = tapered(window, width, n_fft)
    left = n_fft // 2 if center else (n_fft - width) // 2 if align_to_window else 0
    right = left if center else n_fft - width - left if align_to_window else 0
    mode: Any = PADDING[pad_mode if center else "constant"]
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(left, right)], mode)
    whole = onesided is False or x.dtype.kind == "c" or taper.dtype.kind == "c"
    columns = [
        reference(x[..., start : start + n_fft] * taper, "fft" if whole else "rfft", dim=-1,
                  norm="ortho" if normalized else None)
        for start in range(0, x.shape[-1] - n_fft + 1, hop)
    ]  # fmt: skip
    return np.stack(columns, -1)


def istft(
    x: Array,
    n_fft: int,
    window: Array | None = None,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Array:
    hop, width, count = hop_length or n_fft // 4, win_length or n_fft, x.shape[-1]
    taper = tapered(window, width, n_fft)
    norm = "ortho" if normalized else None
    total: Any = np.zeros((*x.shape[:-2], (count - 1) * hop + n_fft), complex)
    weight: Any = np.zeros(total.shape[-1], taper.dtype)
    for m in range(count):
        column, place = x[..., m], slice(m * hop, m * hop + n_fft)
        piece = reference(column, "ifft" if return_complex else "irfft", n_fft, -1, norm)
        total[..., place] += piece * taper
        weight[place] += taper * taper
    start = n_fft // 2 if center else 0
    kept = slice(start, total.shape[-1] - start if length is None else start + length)
    out = total[..., kept] / weight[kept]
    return out if return_complex else out.real


def signals(make: Make) -> Iterator[Sample]:
    if not taken(make):
        return
    yield s(make(9), 5, make(5), hop_length=2)
    yield s(make(2, 10), 6, make(5), hop_length=3, win_length=5, pad_mode="constant", normalized=True)
    yield s(make(11), 6, make.real(3), hop_length=2, win_length=3, center=False, onesided=False)
    yield s(make(7), 6, hop_length=7, pad_mode="circular")
    yield s(make(11), 6, make(3), hop_length=5, win_length=3, center=False, align_to_window=True)
    yield s(make(9)[::-1], 7, pad_mode="replicate")


def pieces(make: Make) -> Iterator[Sample]:
    yield s(make(3, 5), 5, make.real(5), hop_length=2)
    yield s(make(2, 3, 6), 5, make.real(3), hop_length=2, win_length=3, normalized=True, length=9)
    yield s(make(6, 5), 6, hop_length=3, onesided=False)
    yield s(make(6, 3), 6, make.real(6), hop_length=6, center=False)


def complex_pieces(make: Make) -> Iterator[Sample]:
    yield s(make(6, 3), 6, make(6), hop_length=3, center=False)
    yield s(make(2, 5, 3), 5, make.real(3), hop_length=2, win_length=3, length=3)


def with_window(function: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    def op(x: Any, n_fft: int, window: Any = None, **settings: Any) -> Any:
        return function(x, n_fft, window=window, **settings, **fixed)

    return op


SPECTRA = [
    Row("stft", parts(with_window(spectra.stft, return_complex=True)), both(stft), signals, result="real",
        complex=True),
    Row("istft", with_window(spectra.istft), istft, pieces, domain=Domain(0.5, 2.0), floats=False, complex=True,
        result="real"),
    Row("istft_complex", with_window(spectra.istft, return_complex=True), with_window(istft, return_complex=True),
        complex_pieces, domain=Domain(0.5, 2.0), floats=False, complex=True),
]  # fmt: skip

ROWS = [*TRANSFORMS, *SHIFTS, *PRIMITIVES, *SPECTRA]
