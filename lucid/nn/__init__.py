"""Neural networks: modules, layers, losses and their initialisation."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from lucid.api.names import public as _public
from lucid.backends import load as _load
from lucid.native import compiled_first as _compiled_first

_load("nn")
_compiled_first(__path__, "nn")

from lucid.nn import functional as functional
from lucid.nn import init as init
from lucid.nn import utils as utils
from lucid.nn.containers import *
from lucid.nn.layers.activations import *
from lucid.nn.layers.adaptive import *
from lucid.nn.layers.attention import *
from lucid.nn.layers.convolution import *
from lucid.nn.layers.dropout import *
from lucid.nn.layers.embedding import *
from lucid.nn.layers.lazy import *
from lucid.nn.layers.linear import *
from lucid.nn.layers.losses import *
from lucid.nn.layers.noisy import *
from lucid.nn.layers.normalization import *
from lucid.nn.layers.padding import *
from lucid.nn.layers.pooling import *
from lucid.nn.layers.positions import *
from lucid.nn.layers.quantization import *
from lucid.nn.layers.recurrent import *
from lucid.nn.layers.similarity import *
from lucid.nn.layers.transformer import *
from lucid.nn.layers.vision import *
from lucid.nn.module import *
from lucid.nn.module_hooks import *
from lucid.nn.parameter import *
from lucid.nn.registry import *
from lucid.nn.state import *
from lucid.nn.summary import *

if _TYPE_CHECKING:
    from lucid.nn import modules as modules
    from lucid.nn import parallel as parallel
    from lucid.nn.parallel import SyncBatchNorm as SyncBatchNorm


def __getattr__(name: str) -> _Any:
    # Programs of one process have no use for what several train together.
    if name in ("modules", "parallel"):
        return _import_module(f"lucid.nn.{name}")
    if name == "SyncBatchNorm":
        return _import_module("lucid.nn.parallel").SyncBatchNorm
    raise AttributeError(f"module 'lucid.nn' has no attribute {name!r}")


__all__ = sorted([*_public(globals(), "functional", "init", "parallel", "utils"), "SyncBatchNorm"])
