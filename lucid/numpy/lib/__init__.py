"""`numpy.lib`, as far as it is about arrays."""

from lucid.numpy.lib import stride_tricks as stride_tricks

__all__ = ["stride_tricks"]
