"""What functions are given: dimensions, operands of mixed types, and tensors for results."""

from lucid.native import compiled_first

compiled_first(__path__, "arguments")
