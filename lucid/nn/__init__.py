"""Neural networks: modules, layers, losses and their initialisation."""

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
from lucid.nn.summary import *

__all__ = _public(globals(), "functional", "init", "utils")
