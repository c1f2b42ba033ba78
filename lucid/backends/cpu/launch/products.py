"""Products of small matrices and vectors by BLAS, and vector products, without the set-up of NumPy's functions (products.pyx).

Here others compute them. Generation does not reach it: BLAS has the loops, and a vector product is no function of elements.
"""

from typing import Any


def product(x: Any, y: Any, out: Any = None) -> Any:
    """x @ y for vectors, matrices, or two stacks of as many matrices, with the bits that NumPy's `dot` and `matmul` give.

    With `out`, the product is written there. It is None, and nothing is written, where that is not the fastest way, where
    NumPy would not simply call BLAS, or where `out` does not fit or shares memory with a factor.
    """
    return None


def cross(x: Any, y: Any, dim: int) -> Any:
    """Vector products along a dimension of arrays of one shape, of floats or doubles; None for others."""
    return None
