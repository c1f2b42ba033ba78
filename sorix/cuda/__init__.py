"""CUDA devices, of which there are none."""

from sorix.cuda import cuda as cuda
from sorix.cuda.cuda import is_available as is_available

__all__ = ["cuda", "is_available"]
