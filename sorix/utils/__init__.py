"""The path `sorix.utils.data`."""

from sorix.utils import data

__all__ = ["data"]
