"""Modules that several processes train together."""

from lucid.api.names import public as _public
from lucid.nn.parallel.comm_hooks import *
from lucid.nn.parallel.data_parallel import *
from lucid.nn.parallel.sync_batch_norm import *

__all__ = _public(globals())
