"""The mathematics: every operation, one file for each category."""

from lucid.native import compiled_first

compiled_first(__path__, "ops")

from lucid.ops import views as views  # every other file uses the view primitives by name
