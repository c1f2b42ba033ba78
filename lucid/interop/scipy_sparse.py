"""SciPy's sparse matrices beside tensors: `matrix @ x` and `x @ matrix` are tensors with a gradient."""

from typing import Any

from scipy.sparse import _base  # type: ignore[import-untyped]  # SciPy has no types

import lucid
from lucid.api.creation import FOREIGN
from lucid.core.tensor import Tensor

_multiplied = _base._spbase._matmul_dispatch


def _product(self: Any, other: Any) -> Any:
    """What `@`, `*` of matrices, and `dot` come to."""
    if not isinstance(other, Tensor) or not other.ndim:
        return _multiplied(self, other)
    return lucid.matmul(lucid.sparse.from_scipy(self), other)


_base._spbase._matmul_dispatch = _product
FOREIGN["tocoo"] = lambda matrix: lucid.sparse.from_scipy(matrix)  # of `x @ matrix`
