"""What the operations on matrices take: stacks of matrices, of which types and sizes.

A matrix is the last two dimensions of a tensor; the dimensions before them are a stack of matrices.
"""

from typing import Any

import numpy as np

from lucid.arguments.promotion import in_single
from lucid.backends.numpy.linalg.errors import LinAlgError as LinAlgError
from lucid.core.dtypes import of_numpy
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.linalg.matrices import raise_unless_lapack

__all__ = ["LinAlgError"]


def matrix_operand(name: str, value: Any, operand: str = "A") -> Tensor:
    """An operand that is a matrix or a stack of matrices, of a type that LAPACK works in."""
    x = in_single(lift(value))
    if x.ndim < 2:
        raise RuntimeError(f"{name}: {operand} must have at least 2 dimensions, not shape {x.shape}")
    raise_unless_lapack(name, x, operand)
    return x


def square_operand(name: str, value: Any, operand: str = "A") -> Tensor:
    """An operand that is a square matrix or a stack of them."""
    x = matrix_operand(name, value, operand)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {operand} must be a square matrix or a stack of them, "
            f"but its matrices are {x.shape[-2]} by {x.shape[-1]}"
        )
    return x


def raise_unless_same_type(name: str, *operands: Tensor) -> None:
    """Operands of one operation must have one type."""
    if len({x.np_dtype for x in operands}) > 1:
        found = " and ".join(str(of_numpy(x.np_dtype)) for x in operands)
        raise RuntimeError(f"{name}: the operands are of {found}; convert them to one type")


def stack_shape(name: str, *operands: Tensor) -> tuple[int, ...]:
    """The dimensions in front of the matrices, broadcast against each other."""
    try:
        return np.broadcast_shapes(*[x.shape[:-2] for x in operands])
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in operands)
        raise RuntimeError(f"{name}: the stacks of shapes {shapes} do not broadcast against each other") from None
