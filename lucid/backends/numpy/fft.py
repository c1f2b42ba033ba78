"""Fourier transforms, by NumPy's pocketfft or SciPy's."""

import os
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from lucid.core.kernels import fill

# Complex transforms on two cores, NumPy 2.4 against SciPy 1.17: n = 64 takes 5 to 7 µs against 9, equal at 1024; in
# single precision 256 of 1024 take 2.1 ms against 0.9, 2²⁰ take 38 ms against 16 and 4096 × 2048 along the first
# dimension 260 ms against 110 (60 on both cores); in double precision one thread of either takes about as long. But
# SciPy's takes 330 ms to import and NumPy's is there, so only large transforms ask for it.
_LARGE = 1 << 16


_PER_THREAD = 1 << 17


@cache
def _cores() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(name: str, x: Any, dims: tuple[int, ...], norm: str, size: int | None = None) -> Any:
    """One of `fft`, `ifft`, `rfft` and `irfft` of NumPy or SciPy; `size` is that of the last of `dims` in the result."""
    sizes = None if size is None else (*(x.shape[d] for d in dims[:-1]), size)
    if x.size >= _LARGE:
        workers = max(1, min(_cores(), x.size // _PER_THREAD))
        return getattr(import_module("scipy.fft"), name + "n")(x, sizes, dims, norm, workers=workers)
    with np.errstate(over="ignore", invalid="ignore"):  # which NumPy would warn of from a frame of its own
        if len(dims) == 1:
            return getattr(np.fft, name)(x, size, dims[0], norm)
        return getattr(np.fft, name + "n")(x, sizes, dims, norm)


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
        "fft_c2c": lambda x, dims, inverse, norm, real: _run("ifft" if inverse else "fft", x, dims, norm),
        "fft_r2c": lambda x, dims, norm: _run("rfft", x, dims, norm),
        "fft_c2r": lambda x, dims, size, norm: _run("irfft", x, dims, norm, size),
        "overlap_reciprocal": _reciprocal_array,
    }
)
