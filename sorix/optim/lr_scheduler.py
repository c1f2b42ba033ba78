"""Schedules for learning rates: those of `lucid.optim.lr_scheduler`."""

from lucid.optim.lr_scheduler import *  # noqa: F403  # exactly what stands in its __all__
from lucid.optim.lr_scheduler import __all__ as __all__
