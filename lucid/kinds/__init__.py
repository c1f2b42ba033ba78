"""Kinds of tensor inside transforms: a value with its tangent, and one example that stands for a batch."""

from lucid.native import compiled_first

compiled_first(__path__, "kinds")
