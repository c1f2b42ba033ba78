"""Saving and loading, under the name that the original Lucid has for it: see `lucid.checkpoints`."""

from lucid.checkpoints import load as load
from lucid.checkpoints import load_safetensors as load_safetensors
from lucid.checkpoints import load_sharded as load_sharded
from lucid.checkpoints import save as save
from lucid.checkpoints import save_safetensors as save_safetensors
from lucid.checkpoints import save_sharded as save_sharded

__all__ = ["load", "load_safetensors", "load_sharded", "save", "save_safetensors", "save_sharded"]
