"""What runs generated loops: it hands them memory, and divides the work among threads."""

from lucid.native import compiled_first

compiled_first(__path__, "backends/cpu/launch")
