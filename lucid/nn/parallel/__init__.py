"""Modules that several processes train together."""

from lucid.api.names import public as _public
from lucid.nn.parallel.comm_hooks import *
from lucid.nn.parallel.data_parallel import *
from lucid.nn.parallel.pipeline import *
from lucid.nn.parallel.scaling import *
from lucid.nn.parallel.sharded_states import *
from lucid.nn.parallel.sharding import *
from lucid.nn.parallel.sync_batch_norm import *
from lucid.nn.parallel.tensor_parallel import *

__all__ = _public(globals())
