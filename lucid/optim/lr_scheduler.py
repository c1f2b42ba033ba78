"""Schedules for the learning rates of optimizers."""

from lucid.api.names import public as _public
from lucid.optim.composed import *
from lucid.optim.cycles import *
from lucid.optim.scheduler import *

__all__ = _public(globals())
