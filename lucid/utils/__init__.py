"""Caches of keys and values, and the path `lucid.utils.data`, by which users of PyTorch look for `lucid.data`."""

from lucid.utils import cache, data

__all__ = ["cache", "data"]
