"""Caches of keys and values, and the paths by which users of PyTorch look for `lucid.data` and checkpointing."""

from lucid.utils import cache, checkpoint, data

__all__ = ["cache", "checkpoint", "data"]
