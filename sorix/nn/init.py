"""Initialisation of parameters: that of `lucid.nn.init`."""

from lucid.nn.init import *  # noqa: F403  # exactly what stands in its __all__
from lucid.nn.init import __all__ as __all__
