"""Softmax and log-softmax along a dimension."""

from typing import Any

from lucid.arguments.dims import one_dim
from lucid.arguments.promotion import as_floats
from lucid.core import dtypes
from lucid.core.primitive import Primitive, apply, lift
from lucid.core.tensor import Tensor
from lucid.ops.abstract import same
from lucid.ops.nn.rows import Row
from lucid.ops.rules import P, add_all, batched_to_front


def _sum(x: Any, dim: int) -> Any:
    return P.sum(x, dims=(dim,), keepdim=True)


def _batch_along(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), dim=params["dim"] + 1)


def _softmax(row: Row, x: Any) -> Any:
    e = P.exp(x - row.max(x))
    return e * (1 / row.sum(e))  # the sum is at least 1: one division for all elements


def _log_softmax(row: Row, x: Any) -> Any:
    x = x - row.max(x)
    return x - P.log(row.sum(P.exp(x)))


softmax_primitive = Primitive(
    "softmax",
    rules=(lambda ct, out, dim: P.softmax_back(ct, out, dim=dim),),
    jvp=lambda prim, primals, tangents, out, params: P.softmax_back(tangents[0], out, **params),
    batch=_batch_along,
    abstract=same,
    category="fused",
    row_body=_softmax,
)
log_softmax_primitive = Primitive(
    "log_softmax",
    rules=(lambda ct, out, dim: P.log_softmax_back(ct, out, dim=dim),),
    jvp=lambda prim, primals, tangents, out, params: tangents[0] - _sum(P.exp(out) * tangents[0], params["dim"]),
    batch=_batch_along,
    abstract=same,
    category="fused",
    row_body=_log_softmax,
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
    operands=("g", "y"),
    rules=(lambda ct, y, dim: P.softmax_back(ct, y, dim=dim), _pull_softmax_result),
    jvp=_push_softmax_back,
    batch=_batch_along,
    abstract=same,
    category="fused",
    row_body=lambda row, g, y: (g - row.sum(g * y)) * y,
    is_polynomial=True,
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
    operands=("g", "y"),
    rules=(
        lambda ct, y, dim: ct - _sum(P.exp(y) * ct, dim),
        lambda ct, g, y, dim: -(ct * P.exp(y)) * _sum(g, dim),
    ),
    jvp=_push_log_softmax_back,
    batch=_batch_along,
    abstract=same,
    category="fused",
    row_body=lambda row, g, y: g - P.exp(y) * row.sum(g),
    is_polynomial=True,
)


def _floating(input: Any, name: str, dtype: Any = None) -> Tensor:
    x = as_floats(input) if dtype is None else lift(input).to(dtype)
    if x.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"{name} needs a floating-point tensor, not {x.dtype}; convert it, as in x.float()")
    return x


def _only_axis(dim: int | None, axis: int) -> int:
    """`axis`, which is NumPy's name for `dim`."""
    if dim is not None:
        raise TypeError("give dim or axis, not both")
    return axis


def _normalised(prim: Primitive, input: Any, dim: int | None, dtype: Any) -> Tensor:
    if isinstance(input, Tensor) and dtype is None and type(dim) is int and input.np_dtype in dtypes.FLOATING:
        ndim = input.ndim
        if -ndim <= dim < ndim:
            return apply(prim, (input,), {"dim": dim if dim >= 0 else dim + ndim})
    if dim is None:
        raise TypeError(f"{prim.name}: dim is missing; say along which dimension, as in dim=-1")
    x = _floating(input, prim.name, dtype)
    d = one_dim(dim, x.ndim, prim.name)
    return prim(x, dim=d) if x.ndim else P.reshape(prim(P.reshape(x, shape=(1,)), dim=0), shape=())


def softmax(input: Any, dim: int | None = None, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`, without overflow; integers are taken as floats.

    >>> import lucid
    >>> lucid.softmax(lucid.tensor([1.0, 1.0, 1001.0]), dim=0)
    Tensor([0., 0., 1.])
    """
    return _normalised(softmax_primitive, input, dim if axis is None else _only_axis(dim, axis), dtype)


def log_softmax(input: Any, dim: int | None = None, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """x - log Σ exp(x) along `dim`, without overflow; integers are taken as floats.

    >>> import lucid
    >>> lucid.log_softmax(lucid.tensor([0.0, 1000.0]), dim=0)
    Tensor([-1000.,     0.])
    """
    return _normalised(log_softmax_primitive, input, dim if axis is None else _only_axis(dim, axis), dtype)
