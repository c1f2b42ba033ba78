"""What computes: the machine code that is generated for operations, and how it came about.

`print(lucid.kernels.source(lucid.exp, x))` runs a function and prints the generated kernels that ran: what each computes,
its loops, what LLVM is given, and the machine code. `python -m lucid.kernels` looks after the cache on disk.
"""

from lucid.kernels.listing import Kernel as Kernel
from lucid.kernels.listing import made as made
from lucid.kernels.listing import source as source

__all__ = ["Kernel", "made", "source"]
