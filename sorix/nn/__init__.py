"""Neural networks: the modules of `lucid.nn`."""

from lucid.nn import *  # noqa: F403  # exactly what stands in its __all__
from lucid.nn import __all__ as __all__
