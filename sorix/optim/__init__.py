"""Optimizers and schedules of learning rates."""

from sorix.optim import lr_scheduler as lr_scheduler
from sorix.optim import optim as optim
from sorix.optim.optim import SGD as SGD
from sorix.optim.optim import Adam as Adam
from sorix.optim.optim import Optimizer as Optimizer
from sorix.optim.optim import RMSprop as RMSprop
from sorix.optim.optim import ScipyBridge as ScipyBridge
from sorix.optim.optim import SGDMomentum as SGDMomentum

__all__ = [*optim.__all__, "lr_scheduler", "optim"]
