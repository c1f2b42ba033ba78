"""Reductions and normalisations of the elements that a mask lets take part."""

from lucid.api.names import public as _public
from lucid.masked.normalization import *
from lucid.masked.reductions import *

__all__ = _public(globals())
