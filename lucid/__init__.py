"""Lucid: a differentiable tensor library."""
import lucid.ops.methods
from lucid import autograd, func
from lucid.autograd import no_grad, enable_grad, set_grad_enabled, inference_mode, is_grad_enabled, is_inference_mode_enabled
from lucid.core.dtypes import *
from lucid.core.tensor import Tensor
from lucid.core.dtypes import bool_ as bool
from lucid.core.device import device
from lucid.core.rng import Generator
from lucid.ops.conversion import is_tensor
from lucid.ops.creation import *
from lucid.ops.reductions import *
from lucid.ops.binary import *
from lucid.ops.unary import *
from lucid.ops.unary import abs_ as abs
from lucid.ops.contractions import *
from lucid.ops.shaping import *
from lucid.ops.joining import *
from lucid.ops.indexing import take_along_dim
