"""Kernels for the processor: compiled loops, BLAS and threads."""

from lucid.native import compiled_first

compiled_first(__path__, "backends/cpu")
