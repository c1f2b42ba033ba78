"""The paths `sorix.utils.math`, `sorix.utils.utils` and `sorix.utils.data`."""

from sorix.utils import data, math, utils

__all__ = ["data", "math", "utils"]
