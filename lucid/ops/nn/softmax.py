"""Softmax and log-softmax along a dimension.

Kernels see arrays of shape (outer, n) or (outer, n, inner) and work along dimension 1, in blocks of rows that stay in
the cache.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.primitive import Primitive, apply_to_one, lift
from lucid.core.tensor import Tensor
from lucid.ops.dims import one_dim
from lucid.ops.rules import P, add_all, batched_to_front

_BLOCK = 1 << 16  # elements: 512 x 1000 softmax takes 0.6 of the time that it takes in one piece
NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})
# Sums of exponentials within these bounds are as exact as those of numbers that were shifted to have their maximum at 0.
_LEAST, _MOST = 1e-14, 1e14


@lru_cache(maxsize=64)
def _ones(n: int, dtype: np.dtype[Any]) -> Any:
    return np.ones(n, dtype)


def row_sums(x: Any) -> Any:
    """Sums along dimension 1, which is kept; those of a matrix by BLAS, in a third of the time."""
    if x.ndim == 2:
        return np.matmul(x, _ones(x.shape[1], x.dtype))[:, None]
    return np.add.reduce(x, axis=1, keepdims=True)


def exponentials(x: Any, out: Any) -> tuple[Any, Any]:
    """Write exp(x - shift) to `out`; the sums of it along dimension 1, and the shift, None where none is needed."""
    np.exp(x, out=out)
    total = row_sums(out)
    if np.minimum.reduce(total, axis=None) >= _LEAST and np.maximum.reduce(total, axis=None) <= _MOST:
        return total, None
    shift = np.maximum.reduce(x, axis=1, keepdims=True)
    np.subtract(x, shift, out=out)
    np.exp(out, out=out)
    return row_sums(out), shift


def _softmax_kernel(x: Any, out: Any) -> None:
    np.divide(out, exponentials(x, out)[0], out=out)


def _log_softmax_kernel(x: Any, out: Any) -> None:
    if x.shape[1] == 1:  # exactly 0, which x - log(exp(x)) is not always
        np.subtract(x, x, out=out)
        return
    total, shift = exponentials(x, out)
    np.log(total, out=total)
    if shift is not None:
        x = np.subtract(x, shift, out=out)
    np.subtract(x, total, out=out)


def _softmax_back_kernel(g: Any, y: Any, out: Any) -> None:
    mean = np.vecdot(g, y)[:, None] if y.ndim == 2 else np.einsum("ijk,ijk->ik", g, y)[:, None]
    np.subtract(g, mean, out=out)
    np.multiply(out, y, out=out)


def _log_softmax_back_kernel(g: Any, y: Any, out: Any) -> None:
    np.exp(y, out=out)
    np.multiply(out, row_sums(g), out=out)
    np.subtract(g, out, out=out)


def shape_along(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The shape with all dimensions before `dim` as one, and all behind it."""
    if len(shape) == 2 and dim == 1:
        return shape
    inner = math.prod(shape[dim + 1 :])
    outer = math.prod(shape[:dim])
    return (outer, shape[dim]) if inner == 1 else (outer, shape[dim], inner)


_WHOLE = (slice(None),)


def blocks(shape: tuple[int, ...]) -> Sequence[slice]:
    """Blocks of rows that have about `_BLOCK` elements each."""
    row = shape[1] if len(shape) == 2 else shape[1] * shape[2]
    step = max(1, _BLOCK // (row or 1))
    return _WHOLE if step >= shape[0] else [slice(start, start + step) for start in range(0, shape[0], step)]


def _along(kernel: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays and a dimension that runs a kernel on blocks of rows; half precision in single."""

    def impl(*arrays: Any, dim: int) -> Any:
        x = arrays[0]
        if x.ndim == 2 and dim == 1 and 0 < x.size <= _BLOCK and x.dtype.char in "fd":
            out = np.empty(x.shape, x.dtype)
            kernel(*arrays, out)
            return out
        if x.dtype in NARROW:
            return impl(*[a.astype(np.float32) for a in arrays], dim=dim).astype(x.dtype)
        if not x.size:
            return x.copy()
        shape = shape_along(x.shape, dim)
        flat = [np.ascontiguousarray(a).reshape(shape) for a in arrays]
        out = np.empty(x.shape, x.dtype)
        flat.append(out.reshape(shape))
        for rows in blocks(shape):
            kernel(*[f[rows] for f in flat])
        return out

    return impl


def _sum(x: Any, dim: int) -> Any:
    return P.sum(x, dims=(dim,), keepdim=True)


def _batch_along(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), dim=params["dim"] + 1)


softmax_primitive = Primitive(
    "softmax",
    _along(_softmax_kernel),
    rules=(lambda ct, out, dim: P.softmax_back(ct, out, dim=dim),),
    jvp=lambda prim, primals, tangents, out, params: P.softmax_back(tangents[0], out, **params),
    batch=_batch_along,
)
log_softmax_primitive = Primitive(
    "log_softmax",
    _along(_log_softmax_kernel),
    rules=(lambda ct, out, dim: P.log_softmax_back(ct, out, dim=dim),),
    jvp=lambda prim, primals, tangents, out, params: tangents[0] - _sum(P.exp(out) * tangents[0], params["dim"]),
    batch=_batch_along,
)


def _pull_softmax_result(ct: Any, g: Any, y: Any, dim: int) -> Any:
    return ct * (g - _sum(g * y, dim)) - g * _sum(ct * y, dim)


def _push_softmax_back(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (g, y), (tg, ty), dim = primals, tangents, params["dim"]
    terms = [] if tg is None else [prim(tg, y, dim=dim)]
    if ty is not None:
        terms.append(ty * (g - _sum(g * y, dim)) - y * _sum(g * ty, dim))
    return add_all(terms)


# y · (g - Σ g y): the derivative of softmax with the result y, in both directions.
softmax_back = Primitive(
    "softmax_back",
    _along(_softmax_back_kernel),
    operands=("g", "y"),
    rules=(lambda ct, y, dim: P.softmax_back(ct, y, dim=dim), _pull_softmax_result),
    jvp=_push_softmax_back,
    batch=_batch_along,
)


def _push_log_softmax_back(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (g, y), (tg, ty), dim = primals, tangents, params["dim"]
    terms = [] if tg is None else [prim(tg, y, dim=dim)]
    if ty is not None:
        terms.append(-(ty * P.exp(y)) * _sum(g, dim))
    return add_all(terms)


# g - exp(y) Σ g: the reverse derivative of log-softmax with the result y.
log_softmax_back = Primitive(
    "log_softmax_back",
    _along(_log_softmax_back_kernel),
    operands=("g", "y"),
    rules=(
        lambda ct, y, dim: ct - _sum(P.exp(y) * ct, dim),
        lambda ct, g, y, dim: -(ct * P.exp(y)) * _sum(g, dim),
    ),
    jvp=_push_log_softmax_back,
    batch=_batch_along,
)


def _floating(input: Any, name: str, dtype: Any = None) -> Tensor:
    x = lift(input)
    if dtype is not None:
        x = x.to(dtype)
    if x.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"{name} needs a floating-point tensor, not {x.dtype}; convert it, as in x.float()")
    return x


def _only_axis(dim: int | None, axis: int) -> int:
    """`axis`, which is NumPy's name for `dim`."""
    if dim is not None:
        raise TypeError("give dim or axis, not both")
    return axis


def _normalised(prim: Primitive, input: Any, dim: int | None, dtype: Any) -> Tensor:
    if type(input) is Tensor and dtype is None and type(dim) is int and input._array.dtype in dtypes.FLOATING:
        ndim = input._array.ndim
        if -ndim <= dim < ndim:
            return apply_to_one(prim, input, {"dim": dim if dim >= 0 else dim + ndim})
    if dim is None:
        raise TypeError(f"{prim.name}: dim is missing; say along which dimension, as in dim=-1")
    x = _floating(input, prim.name, dtype)
    d = one_dim(dim, x.ndim, prim.name)
    return prim(x, dim=d) if x.ndim else P.reshape(prim(P.reshape(x, shape=(1,)), dim=0), shape=())


def softmax(input: Any, dim: int | None = None, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`, without overflow.

    >>> import lucid
    >>> lucid.softmax(lucid.tensor([1.0, 1.0, 1001.0]), dim=0)
    Tensor([0., 0., 1.])
    """
    return _normalised(softmax_primitive, input, dim if axis is None else _only_axis(dim, axis), dtype)


def log_softmax(input: Any, dim: int | None = None, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """x - log Σ exp(x) along `dim`, without overflow.

    >>> import lucid
    >>> lucid.log_softmax(lucid.tensor([0.0, 1000.0]), dim=0)
    Tensor([-1000.,     0.])
    """
    return _normalised(log_softmax_primitive, input, dim if axis is None else _only_axis(dim, axis), dtype)
