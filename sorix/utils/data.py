"""Datasets, samplers and the DataLoader: those of `lucid.data`."""

from lucid.data import *  # noqa: F403  # exactly what stands in its __all__
from lucid.data import __all__ as __all__
