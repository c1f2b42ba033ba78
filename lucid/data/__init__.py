"""Datasets, samplers and the DataLoader: getting samples to a training loop in batches."""

from lucid.api.names import public as _public
from lucid.data.collation import *
from lucid.data.datasets import *
from lucid.data.loader import *
from lucid.data.mixing import *
from lucid.data.replicas import *
from lucid.data.samplers import *
from lucid.data.worker_info import *

__all__ = _public(globals())
