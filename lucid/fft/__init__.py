"""Discrete Fourier transforms, with derivatives."""

from lucid.api.names import public as _public
from lucid.backends.numpy import fft as _kernels  # noqa: F401 -- they fill the table
from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "fft")

from lucid.fft.frequencies import *
from lucid.fft.transforms import *

__all__ = _public(globals())
