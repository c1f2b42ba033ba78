"""The compiler: whole functions, backward passes and optimizer steps included, as programs of machine code.

A function is captured (`function`, `capture`, `places`) as a program of `lucid.ir`, and that becomes machine code in
stages: `simplify`, `fuse`, `layout`, `emit`. `executable` and `runtime` run it.
"""

from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "compiler")

from lucid.compiler.function import Compiled, compile, disable, is_compiling

__all__ = ["Compiled", "compile", "disable", "is_compiling"]
