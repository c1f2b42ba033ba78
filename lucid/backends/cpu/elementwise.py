"""Elementwise functions of small arrays, and what is no function of single elements: the others are generated.

To be replaced by generated code.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu import arithmetic
from lucid.core.kernels import fill


def overwrite(x: Any, y: Any) -> Any:
    shape = x.shape if y.shape == x.shape or not y.ndim else np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, x.dtype)
    np.copyto(out, y, casting="unsafe")
    return out


fill({"overwrite": overwrite}, "cpu")
# Small arrays of one floating-point type do without the set-up of a NumPy function.
fill(
    {
        "add": arithmetic.add,
        "add_into": arithmetic.add_into,  # not a primitive: gradients that add up
        "added_into": arithmetic.added_into,
        "takes": arithmetic.takes,
        "are_within": arithmetic.within,
        "sub": arithmetic.subtract,
        "mul": arithmetic.multiply,
        "div": arithmetic.divide,
        "neg": arithmetic.negative,
        "square": arithmetic.square,
        "chain": arithmetic.chain,
        "chain_both": arithmetic.chain_both,
    },
    "cpu",
    has_frames=True,
)
