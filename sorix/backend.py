"""The array module of Sorix's tensors."""

from sorix.devices import get_xp as get_xp

__all__ = ["get_xp"]
