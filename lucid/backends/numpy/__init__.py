"""Kernels in terms of NumPy."""

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy")
