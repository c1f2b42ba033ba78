"""Reductions and scans: what becomes of all elements along some dimensions."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.special import running_logsumexp
from lucid.core import dtypes, modes
from lucid.core.arithmetic import total
from lucid.core.batched import Batched
from lucid.core.cuts import cut
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.bare import of_one
from lucid.ops.rules import (
    P,
    broadcast_to,
    conj,
    expand_reduced,
    kept_shape,
    linear,
    np_dtype,
    ones_like,
    reduction,
    shift,
)


def count_at(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    return math.prod(shape[d] for d in dims)


def _equal_share(x: Any, out: Any, dims: tuple[int, ...]) -> Any:
    # Ties share the cotangent: any convex split is a subgradient, and this one ignores order.
    chosen = P.cast((x == out) | ((x != x) & (out != out)), dtype=np_dtype(x), source=dtypes.BOOL)
    return chosen / P.sum(chosen, dims=dims, keepdim=True)


amax_primitive = reduction("amax", lambda x, dims, keepdim: np.amax(x, axis=dims, keepdims=keepdim), _equal_share)

amin_primitive = reduction("amin", lambda x, dims, keepdim: np.amin(x, axis=dims, keepdims=keepdim), _equal_share)


def _others_product(x: Any, out: Any, dims: tuple[int, ...]) -> Any:
    """The product of all other elements, exact when some are 0: products before times products behind."""
    kept = [d for d in range(x.ndim) if d not in dims]
    order = (*kept, *dims)
    front = tuple(x.shape[d] for d in kept)
    flat = P.reshape(P.permute(x, dims=order), shape=(*front, count_at(x.shape, dims)))
    before = _exclusive_cumprod(flat)
    last = (flat.ndim - 1,)
    behind = P.flip(_exclusive_cumprod(P.flip(flat, dims=last)), dims=last)
    back = P.reshape(before * behind, shape=tuple(x.shape[d] for d in order))
    return P.permute(back, dims=tuple(order.index(d) for d in range(x.ndim)))


def _exclusive_cumprod(x: Any) -> Any:
    return _before(P.cumprod(x, dim=x.ndim - 1), x.ndim - 1)


prod_primitive = reduction(
    "prod", lambda x, dims, keepdim: np.multiply.reduce(x, axis=dims, keepdims=keepdim), _others_product
)


def _shift_dim(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*values, **{**params, "dim": params["dim"] + 1})


def _reverse(function: Any, dim: int, *operands: Any) -> Any:
    """Run a scan from the other end."""
    return P.flip(function(*[P.flip(x, dims=(dim,)) for x in operands]), dims=(dim,))


cumsum_primitive = linear(
    "cumsum",
    lambda x, dim: np.cumsum(x, axis=dim, dtype=x.dtype),
    transpose=lambda ct, dim: _reverse(lambda t: P.cumsum(t, dim=dim), dim, ct),
    batch=lambda x, size, dim: P.cumsum(x, dim=dim + 1),
)


def _recurrence_array(a: Any, b: Any, dim: int) -> Any:
    a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
    if len(out):
        out[0] = b[0]
    for i in range(1, len(out)):
        np.multiply(a[i], out[i - 1], out=out[i, ...])
        out[i] += b[i]
    return np.moveaxis(out, 0, dim)


def _delayed(x: Any, dim: int) -> Any:
    """x moved one step back along `dim`; 0 comes in at the front."""
    n = x.shape[dim]
    front: tuple[Any, ...] = (slice(None),) * dim
    return P.slice_back(P.slice(x, index=(*front, slice(0, n - 1))), index=(*front, slice(1, n)), shape=x.shape)


def _recurrence_pull(ct: Any, a: Any, dim: int) -> Any:
    """The same recurrence from the other end, with each factor one step later."""
    later = _reverse(lambda t: _delayed(t, dim), dim, a)
    return _reverse(lambda f, g: P.recurrence(f, g, dim=dim), dim, later, ct)


def _recurrence_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    a, (ta, tb), dim = primals[0], tangents, params["dim"]
    drive = tb
    if ta is not None:
        change = ta * _delayed(out, dim)
        drive = change if tb is None else change + tb
    return P.recurrence(a, drive, dim=dim)


# h[i] = a[i] * h[i-1] + b[i] along one dimension: derivatives of products and of logcumsumexp scan with it.
recurrence = Primitive(
    "recurrence",
    _recurrence_array,
    operands=("a", "b"),
    rules=(
        lambda ct, a, out, dim: _recurrence_pull(ct, conj(a), dim) * conj(_delayed(out, dim)),
        lambda ct, a, dim: _recurrence_pull(ct, conj(a), dim),
    ),
    jvp=_recurrence_jvp,
    batch=lambda prim, values, batched, size, params: P.recurrence(
        *[v if b else broadcast_to(v, (size, *v.shape)) for v, b in zip(values, batched, strict=True)],
        dim=params["dim"] + 1,
    ),
)


def _cumprod_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """d out[i] = x[i] · d out[i-1] + dx[i] · out[i-1]."""
    x, t, dim = primals[0], tangents[0], params["dim"]
    return P.recurrence(x, t * _before(out, dim), dim=dim)


def _before(out: Any, dim: int) -> Any:
    """The products up to the element before: 1 at the front."""
    if out.shape[dim] == 0:
        return out
    front: tuple[Any, ...] = (slice(None),) * dim
    head = ones_like(P.slice(out, index=(*front, slice(0, 1))))
    return P.cat(head, P.slice(out, index=(*front, slice(0, out.shape[dim] - 1))), dim=dim)


cumprod_primitive = Primitive(
    "cumprod",
    lambda x, dim: np.cumprod(x, axis=dim, dtype=x.dtype),
    rules=(lambda ct, x, out, dim: _recurrence_pull(ct, conj(x), dim) * conj(_before(out, dim)),),
    jvp=_cumprod_jvp,
    batch=_shift_dim,
)


def _steps(out: Any, dim: int) -> Any:
    """exp(out[i-1] - out[i]) <= 1: how much of each running total the one before makes up."""
    front: tuple[Any, ...] = (slice(None),) * dim
    n = out.shape[dim]
    change = P.slice(out, index=(*front, slice(0, n - 1))) - P.slice(out, index=(*front, slice(1, n)))
    return P.exp(P.slice_back(_number(change), index=(*front, slice(1, n)), shape=out.shape))


def _number(difference: Any) -> Any:
    """0 where infinities were subtracted from each other."""
    return P.where(difference == difference, difference, 0)


logcumsumexp_primitive = Primitive(
    "logcumsumexp",
    running_logsumexp,
    rules=(lambda ct, x, out, dim: _recurrence_pull(ct, conj(_steps(out, dim)), dim) * conj(P.exp(_number(x - out))),),
    jvp=lambda prim, primals, tangents, out, params: P.recurrence(
        _steps(out, params["dim"]), tangents[0] * P.exp(_number(primals[0] - out)), dim=params["dim"]
    ),
    batch=_shift_dim,
)

logsumexp_primitive = reduction(
    "logsumexp",
    lambda x, dims, keepdim: _logsumexp_array(x, dims, keepdim),
    lambda x, out, dims: P.where(x == -math.inf, 0, P.exp(_number(x - out))),
)


def _logsumexp_array(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    peak = np.amax(x.real, axis=dims, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0).astype(peak.dtype)
    total = np.log(np.add.reduce(np.exp(x - peak), axis=dims, keepdims=True)) + peak
    return total if keepdim else total.reshape(tuple(n for i, n in enumerate(x.shape) if i not in dims))


def _choice(name: str, impl: Any) -> Primitive:
    """A reduction that gives positions or truth values: nothing to differentiate."""
    return Primitive(
        name,
        impl,
        batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
    )


all_primitive = _choice("all", lambda x, dims, keepdim: np.all(x, axis=dims, keepdims=keepdim))

any_primitive = _choice("any", lambda x, dims, keepdim: np.any(x, axis=dims, keepdims=keepdim))

count_primitive = _choice("count_nonzero", lambda x, dims: np.count_nonzero(x, axis=dims))

argmax_primitive = Primitive("argmax", lambda x, dim: np.argmax(x, axis=dim), batch=_shift_dim)

argmin_primitive = Primitive("argmin", lambda x, dim: np.argmin(x, axis=dim), batch=_shift_dim)


def _running_positions(x: Any, dim: int, largest: bool) -> Any:
    """Where the running extreme stands: the last position at which a new one (or an equal one) appeared."""
    best = (np.maximum if largest else np.minimum).accumulate(x, axis=dim)
    new = (x == best) | np.isnan(x)
    steps = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    return np.maximum.accumulate(np.where(new, steps, 0), axis=dim)


running_positions = Primitive("running_positions", _running_positions, batch=_shift_dim)


def _sum_array(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    if len(dims) == x.ndim and not keepdim:
        return total(x)
    reduce: Any = np.add.reduce
    return reduce(x, axis=dims, keepdims=keepdim) if dims else x + 0


_SMALL = 1 << 12  # elements that are written in less time than a view with strides of 0 is made in


def _sum_back_array(ct: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Any:
    if math.prod(x_shape) > _SMALL:
        return expand_reduced(ct, x_shape, dims, keepdim)
    out = np.empty(x_shape, ct.dtype)
    if not ct.ndim:
        out.fill(ct)
    else:
        out[...] = ct if keepdim else ct.reshape(kept_shape(x_shape, dims))
    return out


sum_primitive = linear(
    "sum",
    _sum_array,
    transpose=lambda ct, x_shape, dims, keepdim: expand_reduced(ct, x_shape, dims, keepdim),
    batch=lambda x, size, dims, keepdim: P.sum(x, dims=shift(dims), keepdim=keepdim),
    back=_sum_back_array,
)


_general = sum_primitive.vjp


def _pull_sum(node: Any, ct: Any) -> Any:
    """The same for tensors where nothing is recorded: one seed for a batch, or a number for each of its examples."""
    if not modes.recording.get():
        shape, dims, keepdim = node.saved[2], node.params["dims"], node.params["keepdim"]
        if type(ct) is Batched and ct._aux is None:
            found = of_one(lambda c: _sum_back_array(c, (len(c), *shape), shift(dims), keepdim), ct)
            if found is not None:
                return (found,)
        elif type(ct) is Tensor and math.prod(shape) <= _SMALL:
            return (Tensor._wrap(_sum_back_array(ct._array, shape, dims, keepdim)),)
    return _general(node, ct)


sum_primitive.vjp = _pull_sum  # type: ignore[method-assign]  # found before the method, and calls it


def sum_of_examples(input: Any, keepdim: bool) -> Any:
    """The sum of all elements of each example; None if there is more to it."""
    dims = tuple(range(input._array._array.ndim - (input._aux is None)))
    over = dims if input._aux is not None else shift(dims)
    made = of_one(lambda x: _sum_array(x, over, keepdim), input)
    if made is not None and input._requires_grad:
        if modes.recording.get():
            sum_primitive.record((input,), (True,), made, {"dims": dims, "keepdim": keepdim})
        else:
            cut("no_grad", input)
    return made
