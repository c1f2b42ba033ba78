"""Discrete Fourier transforms, with derivatives."""

from lucid.api.names import public as _public
from lucid.backends.numpy import fft as _kernels  # noqa: F401 -- they fill the table
from lucid.fft.frequencies import *
from lucid.fft.transforms import *

__all__ = _public(globals())
