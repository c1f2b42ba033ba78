"""From programs to machine code: simplify, fuse, plan memory, emit, run."""

from lucid.native import compiled_first

compiled_first(__path__, "compiler")
