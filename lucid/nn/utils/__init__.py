"""What is done to parameters and gradients around training: clipping, vectors, parametrizations."""

from lucid.api.names import public as _public
from lucid.nn.utils import parametrizations as parametrizations
from lucid.nn.utils import parametrize as parametrize
from lucid.nn.utils import prune as prune
from lucid.nn.utils import rnn as rnn
from lucid.nn.utils.clip_grad import *
from lucid.nn.utils.convert_parameters import *
from lucid.nn.utils.fusion import *
from lucid.nn.utils.rnn import *
from lucid.nn.utils.weight_hooks import *

__all__ = _public(globals(), "parametrizations", "parametrize", "prune", "rnn")
