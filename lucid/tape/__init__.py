"""The tape at work: backward passes through what was recorded, and writes to memory that it knows of."""

from lucid.native import compiled_first

compiled_first(__path__, "tape")
