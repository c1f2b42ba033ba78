"""Optimizers, schedules for their learning rates, averages of models, and minimization.

All optimizers have PyTorch's arguments and state. `foreach`, `fused` and `capturable` are accepted and kept so that
programs and checkpoints carry over; they change nothing, since there is one implementation and it is always fused. With
`differentiable=True` a step is recorded and can be differentiated itself.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from lucid.api.names import public as _public
from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "optim")

from lucid.optim import lr_scheduler as lr_scheduler
from lucid.optim.adam import *
from lucid.optim.adaptive import *
from lucid.optim.averaged import *
from lucid.optim.factored import *
from lucid.optim.lbfgs import *
from lucid.optim.lr_scheduler import *
from lucid.optim.minimization import *
from lucid.optim.muon import *
from lucid.optim.optimizer import *
from lucid.optim.sgd import *
from lucid.optim.signs import *

if _TYPE_CHECKING:
    from lucid.optim import swa_utils as swa_utils
    from lucid.optim.zero import ZeroOptimizer as ZeroOptimizer
    from lucid.optim.zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

_FOR_PROCESSES = ("ZeroOptimizer", "ZeroRedundancyOptimizer")


def __getattr__(name: str) -> _Any:
    # It needs lucid.nn, which programs that only optimize tensors have no use for.
    if name == "swa_utils":
        return _import_module("lucid.optim.swa_utils")
    if name in _FOR_PROCESSES:
        return getattr(_import_module("lucid.optim.zero"), name)
    raise AttributeError(f"module 'lucid.optim' has no attribute {name!r}")


__all__ = sorted({*_public(globals(), "lr_scheduler", "swa_utils"), *_FOR_PROCESSES})
