"""The path `lucid.utils.data`, by which users of PyTorch look for `lucid.data`."""

from lucid.utils import data

__all__ = ["data"]
