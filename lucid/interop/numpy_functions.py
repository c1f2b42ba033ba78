"""NumPy's functions in terms of lucid's: how the arguments of each are translated."""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from lucid.api import (
    contractions,
    counting,
    creation,
    indexing,
    joining,
    reductions,
    shaping,
    sorting,
    splitting,
)
from lucid.arguments import promotion
from lucid.arguments.dims import one_dim
from lucid.arguments.promotion import as_floats, lattice_of, lift_all
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops import binary, unary

Function = Callable[..., Any]
_NO_VALUE = np._NoValue
DEGREE = math.pi / 180


class NoCounterpartError(Exception):
    """Raised by a translation for arguments that lucid's function does not take."""


def _flat_unless(a: Any, axis: Any) -> tuple[Tensor, Any]:
    """NumPy takes a tensor as flat where no axis is given."""
    return (lift(a).reshape(-1), 0) if axis is None else (lift(a), axis)


def _reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Tensor:
    x = lift(a).clone() if copy else lift(a)
    if order != "F":
        return shaping.reshape(x, shape)
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    return _transpose(shaping.reshape(_transpose(x), tuple(reversed(sizes))))


def _ravel(a: Any, order: str = "C") -> Tensor:
    return _reshape(a, -1, order)


def _transpose(a: Any, axes: Any = None) -> Tensor:
    x = lift(a)
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


def _squeeze(a: Any, axis: Any = None) -> Tensor:
    x = lift(a)
    dims = () if axis is None else (axis,) if hasattr(axis, "__index__") else tuple(axis)
    if any(x.shape[one_dim(d, x.ndim, "squeeze")] != 1 for d in dims):
        raise ValueError(f"squeeze: dimensions {dims} of shape {x.shape} are not all of size 1")
    return shaping.squeeze(x, axis)


def _expand_dims(a: Any, axis: Any) -> Tensor:
    x = lift(a)
    axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    rank = x.ndim + len(axes)
    new = {one_dim(d, rank, "expand_dims") for d in axes}
    if len(new) != len(axes):
        raise ValueError(f"expand_dims: axes {axes} name a dimension twice")
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if d in new else next(sizes) for d in range(rank)))


def _broadcast_arrays(*args: Any) -> tuple[Tensor, ...]:
    if any(a is None for a in args):  # which NumPy takes for an object
        raise NoCounterpartError
    return shaping.broadcast_tensors(*operands(*args))


def _concatenate(arrays: Any, axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    parts = [a.reshape(-1) if axis is None else a for a in operands(*arrays)]
    out = joining.cat(parts, 0 if axis is None else axis)
    return out if dtype is None else out.to(dtype)


def _cuts(indices_or_sections: Any) -> Any:
    if hasattr(indices_or_sections, "__index__") and not np.ndim(indices_or_sections):
        return int(indices_or_sections)
    return [int(i) for i in indices_or_sections]


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(splitting.tensor_split(ary, _cuts(indices_or_sections), axis))


def equal_parts(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x, cuts = lift(ary), _cuts(indices_or_sections)
    size = x.shape[one_dim(axis, x.ndim, "split")]
    if isinstance(cuts, int) and cuts > 0 and size % cuts:
        raise ValueError(f"split: dimension {axis} of size {size} has no {cuts} equal parts; use array_split")
    return _array_split(x, cuts, axis)


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return _nonzero(condition)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor) and lattice_of((condition,)) is not None:
        values = [v if np.isscalar(v) else np.asarray(v) for v in (x, y)]
        x = lift(np.asarray(x, np.result_type(*values)))  # as NumPy would, whose numbers are not of the default type
    return binary.where(condition, x, y)


def _nonzero(a: Any) -> Any:
    return counting.nonzero(lift(a), as_tuple=True)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    low = min if a_min is None or a_min is _NO_VALUE else a_min
    high = max if a_max is None or a_max is _NO_VALUE else a_max
    if low is None and high is None:
        return lift(a).clone()
    lattice = lattice_of((a,))
    if lattice is not None:  # which says where integers become floats
        numbers = [v for v in (low, high) if isinstance(v, promotion.NUMBERS)]
        a = a.to(lattice.result_type([a.np_dtype], numbers))
    return unary.clamp(a, low, high)


def _dot(a: Any, b: Any) -> Tensor:
    """The last dimension of `a` against the second to last of `b`; numbers multiply."""
    x, y = operands(a, b)
    if not x.ndim or not y.ndim:
        return binary.mul(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return contractions.matmul(x, y)
    x, y = common((x, y))
    return contractions.tensordot(x, y, ([-1], [-2 if y.ndim > 1 else -1]))


def operands(*values: Any) -> list[Tensor]:
    """Operands as tensors: beside those of a front door, numbers and lists of them have the types that they have there."""
    lattice = lattice_of(values)
    if lattice is None:
        return lift_all(*values)
    kinds = [v.np_dtype for v in values if isinstance(v, Tensor)]
    return [lift(lattice.array(v, kinds) if _is_of_numbers(v) else v) for v in values]


def _is_of_numbers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_of_numbers(v) for v in value)
    return isinstance(value, promotion.NUMBERS) and not isinstance(value, np.generic)


def common(values: Sequence[Any]) -> list[Tensor]:
    """Values as tensors of the type in which they meet; numbers follow the others."""
    lattice = lattice_of(values)
    if lattice is None:
        tensors = lift_all(*values)
        kind = reduce(promotion.promote_pair, [t.np_dtype for t in tensors])
        return [t.to(kind) for t in tensors]
    numbers = [v for v in values if isinstance(v, promotion.NUMBERS)]
    others = {i: lift(v) for i, v in enumerate(values) if not isinstance(v, promotion.NUMBERS)}
    kind = lattice.result_type([t.np_dtype for t in others.values()], numbers)
    return [others[i].to(kind) if i in others else lift(np.asarray(v, kind)) for i, v in enumerate(values)]


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    x, y = common(operands(a, b))
    return contractions.tensordot(x, y, axes)


def _einsum(*operands: Any, optimize: Any = False, dtype: Any = None) -> Tensor:
    """The order of products is lucid's own choice."""
    if dtype is not None:
        operands = tuple(o.to(dtype) if isinstance(o, Tensor) else o for o in operands)
    return contractions.einsum(*operands)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return reductions.sum(splitting.diagonal(a, offset, axis1, axis2), -1)


def _flip(m: Any, axis: Any = None) -> Tensor:
    x = lift(m)
    return shaping.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    moves = [int(s) for s in np.atleast_1d(shift)]
    if axis is None:
        return shaping.roll(a, (sum(moves),))
    axes = [int(d) for d in np.atleast_1d(axis)]
    count = max(len(moves), len(axes))
    return shaping.roll(a, moves * (count // len(moves)), axes * (count // len(axes)))


def _take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    x, d = _flat_unless(a, axis)
    return x[(slice(None),) * one_dim(d, x.ndim, "take") + (lift(indices),)]


def _like(make: Function) -> Function:
    def function(a: Any, dtype: Any = None, *, shape: Any = None) -> Tensor:
        x = lift(a)
        return make(x.shape if shape is None else shape, dtype=x.dtype if dtype is None else dtype)

    return function


def _full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Tensor:
    if np.ndim(fill_value):
        like = _like(lambda size, dtype: creation.empty(size, dtype=dtype))(a, dtype, shape=shape)
        return shaping.broadcast_to(lift(fill_value), like.shape).to(like.np_dtype, copy=True)
    return _like(lambda size, dtype: creation.full(size, fill_value, dtype=dtype))(a, dtype, shape=shape)


def _chosen(x: Tensor, where: Any, unit: Any) -> Tensor:
    """The elements that `where` picks, and for the others `unit`, which changes nothing."""
    return x if where is True else binary.where(lift(where), x, lift(np.asarray(unit, x.np_dtype)))


def _count(x: Tensor, where: Any, axis: Any, keepdims: bool) -> Tensor:
    """How many elements `where` picks."""
    return reductions.sum(shaping.broadcast_to(lift(where), x.shape), axis, keepdims)


def _variance(function: Function) -> Function:
    def call(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        *,
        ddof: Any = 0,
        correction: Any = None,
        keepdims: bool = False,
        where: Any = True,
    ) -> Tensor:
        x = as_floats(a) if dtype is None else lift(a).to(dtype)
        free = ddof if correction is None else correction
        if where is True:
            return function(x, axis, keepdim=keepdims, correction=free)
        mean = reductions.sum(_chosen(x, where, 0), axis, True) / _count(x, where, axis, True)
        squares = reductions.sum(unary.square(unary.abs(_chosen(x - mean, where, 0))), axis, keepdims)
        out = squares / (_count(x, where, axis, keepdims) - free)
        return unary.sqrt(out) if function is reductions.std else out

    return call


def _mean(function: Function) -> Function:
    def call(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = True) -> Tensor:
        x = as_floats(a) if dtype is None else lift(a).to(dtype)
        if where is True:
            return function(x, axis, keepdims)
        if function is not reductions.mean:
            raise NoCounterpartError
        return reductions.sum(_chosen(x, where, 0), axis, keepdims) / _count(x, where, axis, keepdims)

    return call


def _total(function: Function, unit: int = 0, combine: Function = binary.add) -> Function:
    """For sums and products, which may be taken in another type, of chosen elements, and from a first value on."""

    def call(
        a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = unit, where: Any = True
    ) -> Tensor:
        out = function(_chosen(lift(a), where, unit), axis, keepdims, dtype=dtype)
        return out if initial is unit else combine(out, initial)

    return call


def _extreme(function: Function, combine: Function) -> Function:
    """For the largest and the smallest element: of chosen ones only together with a first value, as NumPy has it."""

    def call(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Tensor:
        x = lift(a)
        if initial is None and where is True:
            return function(x, axis, keepdims)
        if initial is None or 0 in x.shape or x.np_dtype not in dtypes.DIFFERENTIABLE:
            raise NoCounterpartError
        return combine(function(_chosen(x, where, initial), axis, keepdims), initial)

    return call


def _truth(function: Function, unit: bool) -> Function:
    """For questions about all elements, or those that are chosen."""
    return lambda a, axis=None, *, keepdims=False, where=True: function(_chosen(lift(a), where, unit), axis, keepdims)


def _fold(function: Function) -> Function:
    return lambda a, axis=None, *, keepdims=False: function(a, axis, keepdims)


def _scan(function: Function) -> Function:
    return lambda a, axis=None, dtype=None: function(*_flat_unless(a, axis), dtype=dtype)


def _average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    x = as_floats(a)
    if weights is None:
        return reductions.mean(x, axis, keepdims)
    w = weights if isinstance(weights, Tensor) else creation.tensor(weights, dtype=x.dtype)
    if w.shape != x.shape:
        if not isinstance(axis, int) or w.shape != (x.shape[axis],):
            raise TypeError(f"average: weights of shape {w.shape} do not fit shape {x.shape} along axis {axis}")
        w = w.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    total = reductions.sum(shaping.broadcast_to(w, x.shape), axis, keepdims)
    return reductions.sum(x * w, axis, keepdims) / total


def _sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    x, d = _flat_unless(a, axis)
    return sorting.sort(x, d).values


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    x, d = _flat_unless(a, axis)
    return sorting.argsort(x, d, stable=bool(stable) or kind in ("stable", "mergesort"))


_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    if method not in _METHODS or isinstance(axis, tuple):
        raise NoCounterpartError
    x = as_floats(a)
    if not x.numel():  # nan there, an error here
        raise NoCounterpartError
    return sorting.quantile(x, creation.tensor(q, dtype=x.dtype), axis, keepdims, interpolation=method)


def _percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    return _quantile(a, np.true_divide(q, 100), axis, method=method, keepdims=keepdims)


def _unique(ar: Any, *, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None) -> Any:
    x = lift(ar)
    if x.np_dtype in dtypes.DIFFERENTIABLE and not x._level and reductions.any(unary.isnan(x)):
        raise NoCounterpartError  # nan are one value there, and each its own here
    return sorting.unique(lift(ar), return_inverse=return_inverse, return_counts=return_counts, dim=axis)


def _rows(m: Any) -> Tensor:
    """A vector as each row of a square, as NumPy's triangles take it."""
    x = lift(m)
    return shaping.broadcast_to(x, (*x.shape, *x.shape)) if x.ndim == 1 else x


def _imag(val: Any) -> Tensor:
    x = lift(val)
    return unary.imag(x) if x.is_complex() else creation.zeros_like(x)


def _angle(z: Any, deg: bool = False) -> Tensor:
    found = unary.angle(lift(z))
    return found / DEGREE if deg else found


def _meshgrid(*xi: Any, indexing: str = "xy", copy: bool = True) -> tuple[Tensor, ...]:
    return shaping.meshgrid(*[x.reshape(-1) for x in operands(*xi)], indexing=indexing)


def _fourier(name: str) -> Function:
    """A function of numpy.fft by the one of lucid.fft, which loads when it is needed."""

    def call(a: Any, *args: Any) -> Tensor:
        x = lift(a)
        if x.is_floating_point() and x.dtype.itemsize == 2 and len(args) > 1:  # NumPy computes it in single precision
            x = x.to(np.float32)
        return getattr(import_module("lucid.fft"), name)(x, *args)

    if name.endswith("shift"):
        return lambda x, axes=None: call(x, axes)
    if name.endswith("2"):
        return lambda a, s=None, axes=(-2, -1), norm=None: call(a, s, axes, norm)
    if name.endswith("n"):
        return lambda a, s=None, axes=None, norm=None: call(a, s, axes, norm)
    return lambda a, n=None, axis=-1, norm=None: call(a, n, axis, norm)


_FOURIER = "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift"


FUNCTIONS: dict[Any, Function] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.numel() if axis is None else a.shape[axis],
    np.iscomplexobj: lambda x: x.is_complex(),
    np.isrealobj: lambda x: not x.is_complex(),
    np.sum: _total(reductions.sum),
    np.prod: _total(reductions.prod, 1, binary.mul),
    np.nansum: _total(reductions.nansum),
    np.mean: _mean(reductions.mean),
    np.nanmean: _mean(reductions.nanmean),
    np.average: _average,
    np.var: _variance(reductions.var),
    np.std: _variance(reductions.std),
    np.max: _extreme(reductions.amax, binary.maximum),
    np.amax: _extreme(reductions.amax, binary.maximum),
    np.min: _extreme(reductions.amin, binary.minimum),
    np.amin: _extreme(reductions.amin, binary.minimum),
    np.ptp: _fold(lambda a, axis, keepdims: reductions.amax(a, axis, keepdims) - reductions.amin(a, axis, keepdims)),
    np.argmax: _fold(reductions.argmax),
    np.argmin: _fold(reductions.argmin),
    np.any: _truth(reductions.any, False),
    np.all: _truth(reductions.all, True),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False: reductions.sum(binary.ne(a, 0), axis, keepdims),
    np.cumsum: _scan(reductions.cumsum),
    np.cumprod: _scan(reductions.cumprod),
    np.sort: _sort,
    np.argsort: _argsort,
    np.median: lambda a, axis=None, *, keepdims=False: _quantile(a, 0.5, axis, keepdims=keepdims),
    np.quantile: _quantile,
    np.percentile: _percentile,
    np.searchsorted: lambda a, v, side="left": sorting.searchsorted(*operands(a, v), right=side == "right"),
    np.unique: _unique,
    np.nonzero: _nonzero,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.transpose: _transpose,
    np.matrix_transpose: lambda x: shaping.transpose(x, -2, -1),
    np.swapaxes: lambda a, axis1, axis2: shaping.transpose(a, axis1, axis2),
    np.moveaxis: lambda a, source, destination: shaping.movedim(a, source, destination),
    np.squeeze: _squeeze,
    np.expand_dims: _expand_dims,
    np.atleast_1d: lambda *arys: joining.atleast_1d(*operands(*arys)),
    np.atleast_2d: lambda *arys: joining.atleast_2d(*operands(*arys)),
    np.atleast_3d: lambda *arys: joining.atleast_3d(*operands(*arys)),
    np.broadcast_to: lambda array, shape: shaping.broadcast_to(
        array, (shape,) if hasattr(shape, "__index__") else shape
    ),
    np.broadcast_arrays: _broadcast_arrays,
    np.concatenate: _concatenate,
    np.stack: lambda arrays, axis=0: joining.stack(list(arrays), axis),
    np.hstack: lambda tup: joining.hstack(operands(*tup)),
    np.vstack: lambda tup: joining.vstack(operands(*tup)),
    np.dstack: lambda tup: joining.dstack(operands(*tup)),
    np.column_stack: lambda tup: joining.column_stack(tup),
    np.append: lambda arr, values, axis=None: _concatenate((arr, values), axis),
    np.split: equal_parts,
    np.array_split: _array_split,
    np.hsplit: lambda ary, indices_or_sections: equal_parts(ary, indices_or_sections, 1 if lift(ary).ndim > 1 else 0),
    np.vsplit: lambda ary, indices_or_sections: equal_parts(ary, indices_or_sections, 0),
    np.flip: _flip,
    np.fliplr: lambda m: shaping.fliplr(m),
    np.flipud: lambda m: shaping.flipud(m),
    np.roll: _roll,
    np.rot90: lambda m, k=1, axes=(0, 1): shaping.rot90(m, k, axes),
    np.tile: lambda A, reps: shaping.tile(A, reps),  # noqa: N803  (the name is NumPy's)
    np.repeat: lambda a, repeats, axis=None: shaping.repeat_interleave(a, lift(repeats), axis),
    np.take: _take,
    np.take_along_axis: lambda arr, indices, axis=-1: indexing.take_along_dim(arr, indices, axis),
    np.diagonal: lambda a, offset=0, axis1=0, axis2=1: splitting.diagonal(a, offset, axis1, axis2),
    np.diag: lambda v, k=0: splitting.diag(v, k),
    np.diagflat: lambda v, k=0: splitting.diag(lift(v).reshape(-1), k),
    np.tril: lambda m, k=0: splitting.tril(_rows(m), k),
    np.triu: lambda m, k=0: splitting.triu(_rows(m), k),
    np.trace: _trace,
    np.dot: _dot,
    np.vdot: lambda a, b, /: contractions.matmul(unary.conj(lift(a).reshape(-1)), lift(b).reshape(-1)),
    np.inner: lambda a, b, /: contractions.inner(*common(operands(a, b))),
    np.outer: lambda a, b: contractions.outer(*[t.reshape(-1) for t in operands(a, b)]),
    np.kron: lambda a, b: contractions.kron(*common(operands(a, b))),
    np.tensordot: _tensordot,
    np.einsum: _einsum,
    np.where: _where,
    np.clip: _clip,
    np.round: lambda a, decimals=0: unary.round(a, decimals),
    np.around: lambda a, decimals=0: unary.round(a, decimals),
    np.fix: lambda x: unary.trunc(x),
    np.sinc: lambda x: unary.sinc(x),
    np.nan_to_num: lambda x, copy=True, nan=0.0, posinf=None, neginf=None: unary.nan_to_num(x, nan, posinf, neginf),
    np.real: lambda val: unary.real(lift(val)),
    np.imag: _imag,
    np.angle: _angle,
    np.isclose: lambda a, b, rtol=1e-05, atol=1e-08, equal_nan=False: binary.isclose(a, b, rtol, atol, equal_nan),
    np.zeros_like: _like(creation.zeros),
    np.ones_like: _like(creation.ones),
    np.empty_like: _like(creation.empty),
    np.full_like: _full_like,
    np.copy: lambda a: lift(a).clone(),
    np.meshgrid: _meshgrid,
    **{getattr(np.fft, name): _fourier(name) for name in _FOURIER.split()},
}
if hasattr(np, "astype"):  # since NumPy 2.1
    FUNCTIONS[np.astype] = lambda x, dtype, /, *, copy=True: lift(x).to(dtype, copy=copy)
