"""The three Fourier transforms of which all others are made, each a linear map with the adjoint as its reverse.

    fft_c2c   X[k] = Σ x[t] exp(∓2πi·kt/n)             to complex numbers, both directions
    fft_r2c   the same of a real x, for k = 0 … n/2    the other half is its mirror image, conjugated
    fft_c2r   x[t] = Re Σ m[k] X[k] exp(2πi·kt/n)      the way back: m is 2 for what stands for two, else 1

`norm` says which direction is divided by n: "backward" the inverse, "forward" the forward one, "ortho" both by √n.
"""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.arrays import question
from lucid.ops.abstract import Abstract
from lucid.ops.categories import Check, Elementwise, linear
from lucid.ops.rules import P, np_dtype, shift

# The adjoint turns the direction around and keeps the factor, which has another name in that direction.
OTHER_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _c2c_back(ct: Any, dims: tuple[int, ...], inverse: bool, norm: str, real: bool) -> Any:
    back = P.fft_c2c(ct, dims=dims, inverse=not inverse, norm=OTHER_NORM[norm], real=False)
    return P.real(back) if real else back


# `real` says that the operand is: its whole spectrum takes little longer than half of it.
fft_c2c = linear(
    "fft_c2c",
    transpose=_c2c_back,
    batch=lambda x, size, dims, inverse, norm, real: P.fft_c2c(
        x, dims=shift(dims), inverse=inverse, norm=norm, real=real
    ),
    abstract=lambda x, **params: Abstract(x.shape, dtypes.complex_of(x.dtype)),
    category="other",
    reason="a library of Fourier transforms",
)


# (size, behind, dtype): for how many of all `size` frequencies each of the first half stands, with so many dimensions
# behind it
_multiplicity = question("multiplicity")


def _counts(spectrum: Any, dims: tuple[int, ...], size: int) -> Any:
    return _multiplicity(size, spectrum.ndim - 1 - dims[-1], dtypes.real_of(np_dtype(spectrum)))


def _r2c_back(ct: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], norm: str) -> Any:
    size = x_shape[dims[-1]]
    return P.fft_c2r(ct / _counts(ct, dims, size), dims=dims, size=size, norm=OTHER_NORM[norm])


def _c2r_back(ct: Any, dims: tuple[int, ...], size: int, norm: str) -> Any:
    spectrum = P.fft_r2c(ct, dims=dims, norm=OTHER_NORM[norm])
    return spectrum * _counts(spectrum, dims, size)


def _resized(x: Any, dim: int, size: int, dtype: np.dtype[Any]) -> Abstract:
    return Abstract((*x.shape[:dim], size, *x.shape[dim + 1 :]), dtype)


# Over several dimensions the last of `dims` is the halved one; the others are transformed as complex numbers.
fft_r2c = linear(
    "fft_r2c",
    transpose=_r2c_back,
    batch=lambda x, size, dims, norm: P.fft_r2c(x, dims=shift(dims), norm=norm),
    abstract=lambda x, dims, norm: _resized(x, dims[-1], x.shape[dims[-1]] // 2 + 1, dtypes.complex_of(x.dtype)),
    category="other",
    reason="a library of Fourier transforms",
)
# The imaginary parts of frequency 0 and n/2 have no influence, so they get no gradient.
fft_c2r = linear(
    "fft_c2r",
    transpose=_c2r_back,
    batch=lambda x, size_of_batch, dims, size, norm: P.fft_c2r(x, dims=shift(dims), size=size, norm=norm),
    abstract=lambda x, dims, size, norm: _resized(x, dims[-1], size, dtypes.real_of(x.dtype)),
    category="other",
    reason="a library of Fourier transforms",
)

# What short-time transforms are divided by on the way back. The check stands in the kernel, where numbers are at hand in
# every transform.
overlap_reciprocal = Elementwise(
    "overlap_reciprocal",
    [lambda out: -(out * out)],
    ("x",),
    body=lambda x: 1 / x,
    checks=Check("that windows overlap"),
)
