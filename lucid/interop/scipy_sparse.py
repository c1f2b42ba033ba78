"""SciPy's sparse matrices times tensors: `matrix @ x` is a tensor with a gradient, where SciPy alone would give an array."""

from typing import Any

from scipy.sparse import _base  # type: ignore[import-untyped]  # SciPy has no types

import lucid
from lucid.core.tensor import Tensor

_multiplied = _base._spbase._matmul_dispatch


def _product(self: Any, other: Any) -> Any:
    """What `@`, `*` of matrices, and `dot` come to."""
    if not isinstance(other, Tensor) or not other.ndim:
        return _multiplied(self, other)
    return lucid.matmul(lucid.sparse.from_scipy(self), other)


_base._spbase._matmul_dispatch = _product
