"""Programs of primitives: how a run of a function is written down, shown and run again."""

from lucid.native import compiled_first

compiled_first(__path__, "ir")
