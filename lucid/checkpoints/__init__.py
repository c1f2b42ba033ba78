"""Checkpoints: saving and loading nests of tensors and plain values, in safetensors files, without pickle."""

from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.folders import load_safetensors, load_sharded, save_safetensors, save_sharded
from lucid.checkpoints.loading import load
from lucid.checkpoints.saving import save

__all__ = [
    "CheckpointError", "load", "load_safetensors", "load_sharded", "save", "save_safetensors", "save_sharded",
]  # fmt: skip
