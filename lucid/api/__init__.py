"""The public functions, by theme: they read arguments, promote types and call primitives."""

from lucid.native import compiled_first

compiled_first(__path__, "api")
