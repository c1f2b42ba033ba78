"""What is asked of the backend about arrays beside kernels: to make, copy, write and compare them, and how they lie.

Above the backends, arrays have a shape, a type and strides; all else is a question from here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core.kernels import table

ARRAY = np.ndarray  # the type of arrays that backends make


def question(name: str) -> Callable[..., Any]:
    """What a backend answers by the function of this name in its table."""

    def ask(*args: Any, **options: Any) -> Any:
        return table[name](*args, **options) if options else table[name](*args)

    return ask


# Making. Shapes come first, then types.
as_array = question("as_array")  # (value, dtype=None): a number, or what a kernel gave
from_numpy = question("from_numpy")  # (value, dtype=None): what users give, without a copy if that is possible
empty, zeros = question("empty"), question("zeros")
full = question("full")  # (shape, value, dtype)
counted = question("counted")  # (count, start, step, dtype): start + step · i
steps = question("steps")  # (size, behind=()): 0, 1 and so on, with dimensions of these sizes, 1 each, behind
unit = question("unit")  # (shape, k, dtype): 0 but for a 1 at the k-th element in row-major order
basis = question("basis")  # (count, start, shape, dtype): so many, of which those from `start` on are all units
empty_strided = question("empty_strided")  # (shape, dtype, strides in bytes)
empty_in_order = question("empty_in_order")  # (shape, dtype, dims): the outermost dimension in memory first
copy = question("copy")  # (x, dtype=None, order="C")
expanded_copy = question("expanded_copy")  # (x): an expanded array again, in memory of its own that cannot be written

# Writing.
assign = question("assign")  # (x, value): x[...] = value
call_into = question("call_into")  # (primitive, out, operands, params): compute into `out`, if that can be
set_writable = question("set_writable")  # (x, whether): of an array that owns its memory

# What elements there are.
item = question("item")  # the only one
first = question("first")
is_finite = question("is_finite")  # whether all are
has_negative = question("has_negative")
are_within = question("are_within")  # (x, low, high): whether all are one of these or lie between
any_nonzero, all_nonzero = question("any_nonzero"), question("all_nonzero")
are_all = question("are_all")  # (x, number)
fingerprint = question("fingerprint")

# Memory.
owns_memory = question("owns_memory")  # whether nobody else's memory is shown
shares_memory = question("shares_memory")
is_writable = question("is_writable")
is_contiguous = question("is_contiguous")  # in row-major order
address = question("address")
bounds = question("bounds")  # the address of the first byte and that behind the last; the same without elements
offset = question("offset")  # bytes from the start of the memory
can_reshape = question("can_reshape")  # (x, shape): whether that is a view
ones_laid_out_like = question("ones_laid_out_like")  # (x, shape): with the strides of a part of x
restrided = question("restrided")  # (x, shape, strides, offset=0), in bytes
