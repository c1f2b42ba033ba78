"""Products of small matrices and vectors by BLAS, without the set-up of NumPy's functions (products.pyx). Here NumPy has it all.

Generation does not reach it: BLAS has the loops.
"""

from typing import Any


def product(x: Any, y: Any, out: Any = None) -> Any:
    """x @ y for vectors, matrices, or two stacks of as many matrices, with the bits that NumPy's `dot` and `matmul` give.

    With `out`, the product is written there. It is None, and nothing is written, where that is not the fastest way, where
    NumPy would not simply call BLAS, or where `out` does not fit or shares memory with a factor.
    """
    return None
