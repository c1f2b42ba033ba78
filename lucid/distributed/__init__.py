"""Several processes that compute together, by PyTorch's names: groups, collectives, messages.

`python -m lucid.distributed.run -n 4 script.py` starts them. The same code works with one process, which needs no MPI.
"""

from lucid.api.names import public as _public
from lucid.distributed import functional as functional
from lucid.distributed import nn as nn
from lucid.distributed.collectives import *
from lucid.distributed.engines.engine import DistributedError as DistributedError
from lucid.distributed.engines.engine import Engine as Engine
from lucid.distributed.engines.throttled import Throttled as Throttled
from lucid.distributed.groups import *
from lucid.distributed.join import *
from lucid.distributed.mesh import *
from lucid.distributed.objects import *
from lucid.distributed.planning import *
from lucid.distributed.work import *

__all__ = _public(globals(), "functional", "nn")
DistributedError.__module__ = __name__  # where users know it from
