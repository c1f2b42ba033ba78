# cython: annotation_typing=True
"""What rules are written with.

They are in terms of primitives and work on tensors of every kind: plain ones compute or record, batched and dual ones
batch and push forward, expressions become kernels. `P.name` is the primitive called `name`.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.core.arrays import ARRAY, as_array, full, zeros
from lucid.core.fields import TensorFields
from lucid.core.levels import tracing
from lucid.core.primitive import P as P
from lucid.core.primitive import element_type, synced
from lucid.core.tensor import Tensor, is_plain, shape_of

Impl = Callable[..., Any]
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def sum_to(x: Any, shape: Sequence[int]) -> Any:
    """Undo broadcasting: sum `x` down to `shape`."""
    have = x.shape
    if have == shape:
        return x
    extra = len(have) - len(shape)
    dims = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and have[i + extra] != 1))
    if dims:
        x = P.sum(x, dims=dims, keepdim=False)
    return x if x.shape == shape else P.reshape(x, shape=shape)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    return x if x.shape == shape else P.broadcast_to(x, shape=shape)


def zeros_like(x: Any) -> Any:
    """Zeros that are connected to nothing, for derivatives that vanish."""
    return Tensor._wrap(zeros(x.shape, x.np_dtype))


def ones_like(x: Any) -> Any:
    """Ones that are connected to nothing."""
    return Tensor._wrap(full(x.shape, 1, x.np_dtype))


def np_dtype(x: Any) -> np.dtype[Any]:
    """The NumPy type of a tensor."""
    found: np.dtype[Any] = element_type(x)
    return found


def typed_as(x: Any, value: Any) -> Any:
    """A number as an array of the type of `x`: between two numbers `where` would choose double precision."""
    return Tensor._wrap(as_array(value, np_dtype(x))) if isinstance(value, (bool, int, float, complex)) else value


def is_complex(x: Any) -> bool:
    return bool(element_type(x).kind == "c")


def conj(x: Any) -> Any:
    """The conjugate of what is complex."""
    return P.conj(x) if is_complex(x) else x


def chained(change: Any, derivative: Any) -> Any:
    """The product of the chain rule: exactly 0 where the change is 0, also if the derivative is infinite or nan.

    So the branch that `where` does not select contributes nothing. The product is bilinear and differentiated as one:
    by the change the derivative is `derivative` also where the change is 0.
    """
    return P.chain.public(change, derivative)


def chained_both(change: Any, other: Any) -> Any:
    """The same for a derivative that is a change itself: exactly 0 where either is 0."""
    return P.chain_both.public(change, other)


def times(ct: Any, derivative: Any) -> Any:
    """`ct` scaled for the reverse direction: complex derivatives enter conjugated."""
    return chained(ct, conjugate_for(ct, derivative))


def conjugate_for(ct: Any, derivative: Any) -> Any:
    """What a cotangent is multiplied by."""
    return derivative.conjugate() if is_complex(ct) else derivative


def conjugated(derivative: Any) -> Any:
    """That of an array or a number."""
    return P.conj.kernel(derivative) if type(derivative) is ARRAY else derivative.conjugate()


def add_all(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def align(values: Any, batched: Any, size: Any) -> Any:
    """Give batched values equal ranks, so that the batch dimension is the outermost of the broadcast."""
    if len(values) == 1:
        return values
    rank, lowest = 0, sys.maxsize  # of one example: of all values, and of those that are batched
    for v, b in zip(values, batched):
        own = _rank(v) - 1 if b else _rank(v)
        rank = max(rank, own)
        if b:
            lowest = min(lowest, own)
    if lowest >= rank:
        return values
    return [
        P.reshape(v, shape=(size, *(1,) * (rank - _rank(v) + 1), *v.shape[1:])) if b and _rank(v) <= rank else v
        for v, b in zip(values, batched)
    ]


def _rank(value: Any) -> Any:
    """The number of dimensions of a tensor, an array or a number."""
    if isinstance(value, TensorFields):
        fields: TensorFields = value
        if not fields._level:
            return fields._array.ndim
    return len(shape_of(value))


def shift(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The same dimensions behind a batch dimension."""
    return tuple(d + 1 for d in dims)


def kept_shape(shape: Sequence[int], dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i in dims else n for i, n in enumerate(shape))


def expand_reduced(ct: Any, x_shape: Sequence[int], dims: tuple[int, ...], keepdim: bool) -> Any:
    """Spread a reduced value over the dimensions that were reduced."""
    if not keepdim and ct.ndim:
        ct = P.reshape(ct, shape=kept_shape(x_shape, dims))
    return broadcast_to(ct, x_shape)


def batched_to_front(values: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """All values with the batch in dimension 0; unbatched ones repeat."""
    return [v if b else P.broadcast_to(v, shape=(size, *v.shape)) for v, b in zip(values, batched, strict=True)]


def is_array(x: Tensor) -> bool:
    """Whether nobody records or sees what is done to a tensor, so that kernels may compute of its array step by step."""
    synced(x)  # a view of what has got a history since then has one, too
    return not x._requires_grad and not tracing() and is_plain(x)
