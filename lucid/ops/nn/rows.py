"""Functions of rows: each element of the result depends on its own row, along some dimensions, and on nothing else.

Softmax is one, and so are normalisations. A body says what is computed, by elementwise functions and by folds over the row
that it is given, as in `lambda row, x: x - row.mean(x)`. With tensors it is an ordinary composite. Read with expressions
it gives the steps of which loops are generated that finish a row while it is in the cache.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import P
from lucid.ops.expressions import Expression, Operand, Parameter, Step, as_expression, in_order

LENGTH = "length"  # the parameter that says how many elements a row has


class Index(NamedTuple):
    """The place of an element in its row."""


class Row:
    """What a body needs to know of rows: the dimensions along which they lie, and how many elements they have.

    `index`, the place of each element (int32), is there for expressions alone.
    """

    def __init__(self, dims: tuple[int, ...], length: Any, index: Any = None) -> None:
        self.dims = dims
        self.length = length
        self.index = index

    @staticmethod
    def along(x: Any, dims: tuple[int, ...]) -> "Row":
        return Row(dims, max(math.prod(x.shape[d] for d in dims), 1))

    def sum(self, x: Any) -> Any:
        return P.sum(x, dims=self.dims, keepdim=True)

    def max(self, x: Any) -> Any:
        return P.amax(x, dims=self.dims, keepdim=True)

    def mean(self, x: Any) -> Any:
        return self.sum(x) / self.length


class RowBody(NamedTuple):
    """The steps of a function of rows, folds among them; results may be one number for a row."""

    types: tuple[np.dtype[Any], ...]
    steps: tuple[Step, ...]
    results: tuple[Any, ...]
    dtypes: tuple[np.dtype[Any], ...]


def read_rows(
    function: Callable[..., Any],
    types: Sequence[np.dtype[Any]],
    params: dict[str, Any],
    is_base: Callable[[Any], bool],
) -> RowBody:
    """The steps of a body; its parameters that are floats are left open, as the length of rows is."""
    working = next(t for t in types if t.kind in "fcV")
    leaves = [Expression.make(Operand(k), dtype, is_base) for k, dtype in enumerate(types)]

    def opened(name: str) -> Expression:
        return Expression.make(Parameter(name), working, is_base)

    given = {n: opened(n) if type(v) is float else v for n, v in params.items()}
    found = function(Row((0,), opened(LENGTH), Expression.make(Index(), np.dtype(np.int32), is_base)), *leaves, **given)
    roots = [as_expression(r, is_base) for r in (found if isinstance(found, tuple) else (found,))]
    steps, results = in_order(roots)
    return RowBody(tuple(types), steps, tuple(results), tuple([r.np_dtype for r in roots]))
