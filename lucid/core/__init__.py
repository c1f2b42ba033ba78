"""The machine: tensors, primitives, the tape, and the kinds of tensor inside transforms."""

from lucid.native import compiled_first

compiled_first(__path__, "core")
