"""Layers and losses as plain functions."""

from lucid.api.names import public as _public
from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "nn/functional")

from lucid.nn.functional.activations import *
from lucid.nn.functional.attention import *
from lucid.nn.functional.classification import *
from lucid.nn.functional.codes import *
from lucid.nn.functional.convolution import *
from lucid.nn.functional.dropout import *
from lucid.nn.functional.embedding import *
from lucid.nn.functional.fractional import *
from lucid.nn.functional.linear import *
from lucid.nn.functional.losses import *
from lucid.nn.functional.metrics import *
from lucid.nn.functional.noise import *
from lucid.nn.functional.normalization import *
from lucid.nn.functional.padding import *
from lucid.nn.functional.pooling import *
from lucid.nn.functional.positions import *
from lucid.nn.functional.similarity import *
from lucid.nn.functional.vision import *

__all__ = _public(globals())
