"""Kernels that are generated from declarations, and what runs them: codegen writes loops, this hands them memory."""

from lucid.native import compiled_first

compiled_first(__path__, "backends/cpu/generated")
