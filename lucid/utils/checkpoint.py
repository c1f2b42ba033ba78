"""The path `lucid.utils.checkpoint`, by which users of PyTorch look for `lucid.autograd.checkpoint`."""

from lucid.autograd.checkpoint import checkpoint

__all__ = ["checkpoint"]
