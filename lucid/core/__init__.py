"""The machine: tensors, the nodes that record what is done to them, and primitives, with how these are applied."""

from lucid.native import compiled_first

compiled_first(__path__, "core")
