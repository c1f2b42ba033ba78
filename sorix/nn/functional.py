"""Layers and losses as plain functions: those of `lucid.nn.functional`."""

from lucid.nn.functional import *  # noqa: F403  # exactly what stands in its __all__
from lucid.nn.functional import __all__ as __all__
