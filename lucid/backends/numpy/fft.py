"""Fourier transforms, by SciPy's pocketfft."""

import os
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.arrays import question
from lucid.core.kernels import fill

_MODULE = "scipy.fft._pocketfft.pypocketfft"
_FACTORS = {"backward": 0, "ortho": 1, "forward": 2}  # none, 1/√n and 1/n, by numbers that mirror each other
_PER_THREAD = 1 << 17  # elements from which on another thread helps


threads = question("threads")  # how many may compute at a time


@cache
def _pocketfft() -> Any:
    """The module that SciPy's functions call, or None if SciPy has none like it.

    It is loaded by itself in 1 ms, and SciPy's functions in 400; a call takes 2 µs, and one of NumPy's functions 6.
    """
    module = sys.modules.get(_MODULE) or _by_itself()
    try:
        half = module.r2c(np.ones(3), (0,), True, 0, None, 1)
        back = module.c2r(half, (0,), 3, False, 2, None, 1)
        both = module.c2c(half, (0,), True, 2, None, 1)
    except (AttributeError, TypeError, ValueError):
        return None
    return module if back.tolist() == [1, 1, 1] and both.tolist() == [1.5, 1.5] else None


def _by_itself() -> Any:
    scipy = find_spec("scipy")
    folders = [
        os.path.join(folder, "fft", "_pocketfft") for folder in (scipy and scipy.submodule_search_locations) or ()
    ]
    spec = PathFinder.find_spec(_MODULE, folders)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _threads(x: Any) -> int:
    return 1 if x.size < 2 * _PER_THREAD else min(int(threads()), x.size // _PER_THREAD)


def _aligned(x: Any) -> Any:
    return x if x.flags.aligned else x.copy()


def _c2c(x: Any, dims: tuple[int, ...], inverse: bool, norm: str, real: bool) -> Any:
    own, factor = _pocketfft(), _FACTORS[norm]
    if own is None:
        return _by_scipy("ifftn" if inverse else "fftn", x, None, dims, norm)
    x, factor = _aligned(x), 2 - factor if inverse else factor
    if real:
        x, dims = _mirrored(own, x, dims[-1], inverse, factor), dims[:-1]
    return own.c2c(x, dims, not inverse, factor, None, _threads(x)) if dims else x


def _mirrored(own: Any, x: Any, dim: int, inverse: bool, factor: int) -> Any:
    """Both halves of a spectrum of real numbers, of which one is the conjugate of the other.

    pocketfft would do so itself, but makes the conjugate of what is real, too, whose zeros get another sign.
    """
    out, n = np.empty(x.shape, dtypes.complex_of(x.dtype)), x.shape[dim]
    spectra = out.swapaxes(dim, -1)
    first, rest = spectra[..., : n // 2 + 1], spectra[..., n // 2 + 1 :]
    own.r2c(x, (dim,), True, factor, first.swapaxes(dim, -1), _threads(x))
    rest[...] = spectra[..., (n - 1) // 2 : 0 : -1]
    turned = first if inverse else rest
    np.subtract(0, turned.imag, out=turned.imag)
    return out


def _r2c(x: Any, dims: tuple[int, ...], norm: str) -> Any:
    own = _pocketfft()
    if own is None:
        return _by_scipy("rfftn", x, None, dims, norm)
    return own.r2c(_aligned(x), dims, True, _FACTORS[norm], None, _threads(x))


def _c2r(x: Any, dims: tuple[int, ...], size: int, norm: str) -> Any:
    """`size` is that of the last of `dims` in the result."""
    own = _pocketfft()
    if own is None:
        return _by_scipy("irfftn", x, (*[x.shape[d] for d in dims[:-1]], size), dims, norm)
    return own.c2r(_aligned(x), dims, size, False, 2 - _FACTORS[norm], None, _threads(x))


def _by_scipy(name: str, x: Any, sizes: Any, dims: tuple[int, ...], norm: str) -> Any:
    return getattr(import_module("scipy.fft"), name)(x, sizes, dims, norm, workers=_threads(x))


_LEAST_OVERLAP = 1e-11


def _reciprocal_array(x: Any) -> Any:
    """1/x for sums of squared windows, refused where they vanish."""
    least = np.abs(x).min(initial=np.inf)
    if not least > _LEAST_OVERLAP:
        raise RuntimeError(
            f"istft: window overlap add min: {least:.3g}; the squared windows must not add up to zero anywhere in the "
            "result. Use a smaller hop_length, center=True, or a window that is not zero at its ends"
        )
    return 1 / x


fill(
    {
        "fft_c2c": _c2c,
        "fft_r2c": _r2c,
        "fft_c2r": _c2r,
        "overlap_reciprocal": _reciprocal_array,
    }
)
