"""Reductions over dimensions and scans along one."""

import math
from typing import Any

from lucid.api.results import Cummax, Cummin, Max, Min, ValuesIndices
from lucid.arguments.dims import many_dims, numpy_names, one_dim
from lucid.arguments.promotion import FLOAT, as_floats, cast, in_single
from lucid.core import dtypes
from lucid.core.errors import PositionError
from lucid.core.kernels import table
from lucid.core.primitive import Primitive, apply, element_type, lift
from lucid.core.tensor import Tensor, is_plain, of_class, shape_of, wrapped
from lucid.native import PyObject_Call
from lucid.ops import binary, unary
from lucid.ops.elementwise import called
from lucid.ops.indexing import along, counting, index_primitive
from lucid.ops.norms import norm as _norm_primitive
from lucid.ops.reductions import (
    amax_primitive,
    amin_primitive,
    argmax_primitive,
    argmin_primitive,
    count_at,
    count_or_nan,
    cumprod_primitive,
    cumsum_primitive,
    logcumsumexp_primitive,
    mean_of,
    prod_primitive,
    sum_primitive,
)
from lucid.ops.reductions import var_primitive as _var_primitive
from lucid.ops.rules import P, is_array, kept_shape
from lucid.ops.views import reshape

Dims = int | tuple[int, ...] | list[int] | None


_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
_NO_PARAMS: dict[str, Any] = {}
_NOT_WIDENED = _DIFFERENTIABLE | {dtypes.UINT64}


def pair(kind: type[Any], first: Tensor, second: Tensor) -> Any:
    """The same as `kind(first, second)`, which takes a microsecond longer."""
    return _new_tuple(kind, (first, second))


_new_tuple: Any = tuple.__new__


def _floats(input: Any, name: str, dtype: Any = None) -> Tensor:
    x = lift(input)
    if dtype is not None:
        x = x.to(dtype)
    if element_type(x) not in _DIFFERENTIABLE:
        raise RuntimeError(
            f"{name} needs a floating-point or complex tensor, not {x.dtype}; convert it, as in x.float()"
        )
    return x


def _ordered(input: Any, name: str) -> Tensor:
    x = lift(input)
    if element_type(x).kind == "c":
        raise TypeError(f"{name} takes real tensors, not complex ones; take abs(), real or imag first")
    return x


def _widened(input: Any, dtype: Any) -> Tensor:
    """Sums and products of integers are made in int64, unless that cannot hold the integers themselves."""
    x = lift(input)
    if dtype is not None:
        return x.to(dtype)
    return x if element_type(x) in _NOT_WIDENED else cast(x, dtypes.INT64)


def _as_asked(out: Tensor, dtype: Any) -> Tensor:
    """NumPy adds and multiplies small integers in large ones, also where a small type was asked for."""
    return out if dtype is None else out.to(dtype)


@numpy_names
def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over `dim`, or of all elements.

    Integers and booleans are added up in int64; `dtype`, if given, is what the elements are converted to first.

    >>> import lucid
    >>> x = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> lucid.sum(x)
    Tensor(10.)
    >>> lucid.sum(x, dim=0)
    Tensor([4., 6.])
    """
    x = lift(input)
    return _as_asked(sum_over(x, many_dims(dim, len(shape_of(x)), "sum"), keepdim, dtype), dtype)


def sum_over(x: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> Tensor:
    """The sum over dims as they stand."""
    return apply(sum_primitive, (_widened(x, dtype),), {"dims": dims, "keepdim": keepdim})


@numpy_names
def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Arithmetic mean over `dim`, or of all elements.

    Integers have no mean of their own type: convert them, or give the `dtype` to convert to.

    >>> import lucid
    >>> lucid.mean(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1, keepdim=True)
    Tensor([[1.5],
            [3.5]])
    """
    x = _floats(input, "mean", dtype)
    dims = many_dims(dim, len(shape_of(x)), "mean")
    total = apply(sum_primitive, (x,), {"dims": dims, "keepdim": keepdim})
    return called(P.div, (total, count_or_nan(shape_of(x), dims)), FLOAT, _NO_PARAMS)


@numpy_names
def prod(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product over `dim`, or of all elements; the gradient is exact when some are 0.

    >>> import lucid
    >>> x = lucid.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> lucid.prod(x).backward()
    >>> x.grad
    Tensor([0., 8., 0.])
    """
    x = _widened(in_single(input), dtype)
    dims = many_dims(dim, len(shape_of(x)), "prod")
    return _as_asked(apply(prod_primitive, (x,), {"dims": dims, "keepdim": keepdim}), dtype)


def _nonempty(x: Tensor, dims: tuple[int, ...], name: str) -> None:
    shape = shape_of(x)
    if 0 in shape and count_at(shape, dims) == 0:
        raise PositionError(f"{name}: no elements to choose from over dims {dims} of shape {x.shape}")


def _extreme(input: Any, dim: Dims, keepdim: bool, prim: Primitive) -> Tensor:
    x = _ordered(input, prim.name)
    dims = many_dims(dim, len(shape_of(x)), prim.name)
    _nonempty(x, dims, prim.name)
    return apply(prim, (x,), {"dims": dims, "keepdim": keepdim})


def extremes(input: Any, dim: Dims, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element over `dim`."""
    low = _extreme(input, dim, keepdim, amin_primitive)
    x = lift(input)
    if not is_array(x):
        return low, _extreme(x, dim, keepdim, amax_primitive)
    params = {"dims": many_dims(dim, len(shape_of(x)), "amax"), "keepdim": keepdim}
    return low, of_class((x,), wrapped(PyObject_Call(amax_primitive.kernel, (x._array,), params)))


@numpy_names
def amax(input: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Largest element over `dim`; ties share the gradient.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> lucid.amax(x).backward()
    >>> x.grad
    Tensor([0. , 0.5, 0.5])
    """
    return _extreme(input, dim, keepdim, amax_primitive)


@numpy_names
def amin(input: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Smallest element over `dim`; ties share the gradient.

    >>> import lucid
    >>> lucid.amin(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=(0, 1))
    Tensor(1.)
    """
    return _extreme(input, dim, keepdim, amin_primitive)


def chosen(x: Tensor, positions: Tensor, dim: int, keepdim: bool, kind: type[ValuesIndices]) -> Any:
    """The elements at `positions`, which lack `dim` and exist."""
    sizes = shape_of(x)
    if not sizes:
        return pair(kind, x.clone(), positions)
    rank = len(sizes) - 1
    places = [positions if d == dim else counting(n, d - (d > dim), rank) for d, n in enumerate(sizes)]
    values = apply(index_primitive, (x, *places), _NO_PARAMS)
    if keepdim:
        return pair(kind, values.unsqueeze(dim), positions.unsqueeze(dim))
    return pair(kind, values, positions)


def _max_or_min(input: Any, dim: Any, keepdim: bool, which: str) -> Any:
    is_max = which == "max"
    if dim is None:
        return _extreme(input, None, False, amax_primitive if is_max else amin_primitive)
    x = _ordered(input, which)
    if isinstance(dim, Tensor):
        return (binary.maximum if is_max else binary.minimum)(x, dim)
    rank = len(shape_of(x))
    d = one_dim(dim, rank, which)
    _nonempty(x, (d,) if rank else (), which)
    positions = _positions(x, d, argmax_primitive if is_max else argmin_primitive)
    return chosen(x, positions, d, keepdim, Max if is_max else Min)


def _positions(x: Tensor, dim: int, prim: Primitive) -> Tensor:
    if not shape_of(x):
        return of_class((x,), lift(0))
    return apply(prim, (x,), {"dim": dim})


@numpy_names
def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with `dim`, values and indices along it; with a tensor, the larger of each pair.

    >>> import lucid
    >>> values, indices = lucid.max(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    >>> values
    Tensor([4., 3.])
    >>> indices
    Tensor([1, 0])
    """
    return _max_or_min(input, dim, keepdim, "max")


@numpy_names
def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with `dim`, values and indices along it; with a tensor, the smaller of each pair.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 4.0, 3.0])
    >>> lucid.min(x)
    Tensor(1.)
    >>> lucid.min(x, lucid.tensor([2.0, 2.0, 2.0]))
    Tensor([1., 2., 2.])
    """
    return _max_or_min(input, dim, keepdim, "min")


def unseen(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in another shape, without a gradient, as a tensor that nobody else sees: it need not be known as a view."""
    if not is_plain(x):
        return apply(reshape, (x,), {"shape": shape})
    return of_class((x,), wrapped(reshape.kernel(x._array, shape)))


def in_steps(x: Tensor, steps: tuple[tuple[Primitive, dict[str, Any]], ...]) -> Tensor:
    """What primitives of one operand give one after the other, without tensors in between where nothing is recorded."""
    if not is_array(x):
        for prim, params in steps:
            x = apply(prim, (x,), params)
        return x
    found = x._array
    for prim, params in steps:
        found = PyObject_Call(prim.kernel, (found,), params)
    return of_class((x,), wrapped(found))


def shown(prim: Primitive, x: Tensor, params: dict[str, Any]) -> Tensor:
    """What a view shows, for one who only reads it: without a gradient nobody else sees it, and it need not be known as one."""
    if not is_array(x):
        return apply(prim, (x,), params)
    return of_class((x,), wrapped(PyObject_Call(prim.kernel, (x._array,), params)))


def _argument(input: Any, dim: int | None, keepdim: bool, prim: Primitive) -> Tensor:
    name = prim.name
    x = _ordered(input, name)
    rank = len(shape_of(x))
    if dim is None:
        _nonempty(x, many_dims(None, rank, name), name)
        found = _positions(x if rank == 1 else unseen(x, (math.prod(shape_of(x)),)), 0, prim)
        return found.reshape((1,) * rank) if keepdim else found
    d = one_dim(dim, rank, name)
    _nonempty(x, (d,) if rank else (), name)
    positions = _positions(x, d, prim)
    return positions.unsqueeze(d) if keepdim and rank else positions


@numpy_names
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is, along `dim` or in the flattened tensor.

    Of equal elements the first one counts.

    >>> import lucid
    >>> lucid.argmax(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    Tensor([1, 0])
    """
    return _argument(input, dim, keepdim, argmax_primitive)


@numpy_names
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is, along `dim` or in the flattened tensor.

    Of equal elements the first one counts.

    >>> import lucid
    >>> lucid.argmin(lucid.tensor([[1.0, 4.0], [3.0, 0.0]]))
    Tensor(3)
    """
    return _argument(input, dim, keepdim, argmin_primitive)


def spread(
    input: Any, dim: Any, unbiased: bool, correction: float | None, name: str
) -> tuple[Tensor, tuple[int, ...], float, float]:
    """The elements, the dims, how many elements these have and what a sum of squares is divided by."""
    x = as_floats(input)
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    dims = many_dims(dim, len(shape_of(x)), name)
    less = (1.0 if unbiased else 0.0) if correction is None else float(correction)
    count = count_or_nan(shape_of(x), dims)
    divisor = count - less
    return x, dims, count, divisor if divisor > 0 else 0.0


def _centred(x: Tensor, dims: tuple[int, ...], count: float) -> Tensor:
    """The differences from the mean."""
    return x - apply(sum_primitive, (x,), {"dims": dims, "keepdim": True}) / count


@numpy_names
def var(
    input: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Variance over `dim`; the divisor is the count less `correction` (1 unless `unbiased` is False).

    Integers are taken as numbers of the default floating-point type.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0, 3.0, 4.0])
    >>> lucid.var(x)
    Tensor(1.6667)
    >>> lucid.var(x, correction=0)
    Tensor(1.25)
    """
    return var_over(*spread(input, dim, unbiased, correction, "var"), keepdim)


def var_over(x: Tensor, dims: tuple[int, ...], count: float, divisor: float, keepdim: bool) -> Tensor:
    """The variance of a tensor of floating-point or complex numbers over dims with so many elements."""
    if element_type(x).kind != "c":
        return apply(_var_primitive, (x,), {"dims": dims, "keepdim": keepdim, "divisor": divisor})
    centred = _centred(x, dims, count)
    squares = unary.real(centred * unary.conj(centred))
    return apply(P.sum, (squares,), {"dims": dims, "keepdim": keepdim}) / divisor


@numpy_names
def std(
    input: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Standard deviation over `dim`; the gradient of a constant is 0.

    `unbiased` and `correction` are those of `var`.

    >>> import lucid
    >>> lucid.std(lucid.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1, correction=0)
    Tensor([1., 3.])
    """
    return std_over(*spread(input, dim, unbiased, correction, "std"), keepdim)


def std_over(x: Tensor, dims: tuple[int, ...], count: float, divisor: float, keepdim: bool) -> Tensor:
    """The standard deviation of a tensor of floating-point or complex numbers over dims with so many elements."""
    if is_array(x):
        return of_class((x,), wrapped(table["deviation"](x._array, dims, keepdim, divisor)))
    params = {"p": 2.0, "dims": dims, "keepdim": keepdim, "divisor": divisor}
    out = apply(_norm_primitive, (_centred(x, dims, count),), params)
    # A copy: programs write into a standard deviation where it is 0, and a derivative needs it as it was.
    return P.clone(out) if out._requires_grad or not is_plain(out) else out


def mean_over(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The mean of a tensor of floating-point or complex numbers over dims."""
    if not is_array(x):
        return mean(x, dims, keepdim)
    found = mean_of(x._array, dims)
    if not keepdim:
        found = reshape.kernel(found, tuple([n for d, n in enumerate(found.shape) if d not in dims]))
    return of_class((x,), wrapped(found))


@numpy_names
def norm(input: Any, p: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The p-norm over `dim`: (Σ|x|ᵖ)^(1/p), the largest or smallest |x| for ±inf, the count of non-zeros for 0.

    The gradient at 0 is 0. Over several dimensions the elements count as one vector, so that "fro" is the same as 2.
    "nuc" is the sum of the singular values of matrices.

    >>> import lucid
    >>> x = lucid.tensor([3.0, -4.0])
    >>> lucid.norm(x), lucid.norm(x, p=1), lucid.norm(x, p=lucid.inf)
    (Tensor(5.), Tensor(7.), Tensor(4.))
    """
    x = _floats(input if dtype is None else cast(lift(input), dtypes.as_numpy(dtype)), "norm")
    if p == "nuc":
        return _nuclear_norm(x, (0, 1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"norm: p must be a number, 'fro' or 'nuc', not {p!r}")
    return norm_over(x, 2 if p == "fro" else p, many_dims(dim, len(shape_of(x)), "norm"), keepdim)


def norm_over(x: Tensor, p: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The p-norm of a floating-point tensor over dims."""
    if p == 2:
        return apply(_norm_primitive, (x,), {"p": 2.0, "dims": dims, "keepdim": keepdim, "divisor": 1.0})
    if p in (math.inf, -math.inf):
        return _extreme(unary.abs(x), dims, keepdim, amax_primitive if p > 0 else amin_primitive)
    if p == 0:
        return P.sum(P.where(x != x, 1, unary.sign(unary.abs(x))), dims=dims, keepdim=keepdim)
    if p == 1:
        return P.sum(unary.abs(x), dims=dims, keepdim=keepdim)
    return _norm_primitive(x, p=float(p), dims=dims, keepdim=keepdim, divisor=1.0)


def _nuclear_norm(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """The sum of the singular values of the matrices that stand in two dimensions."""
    from lucid.ops.linalg.matrices import raise_unless_lapack  # loads on first use, like lucid.linalg
    from lucid.ops.linalg.spectral import nuclear_norm

    raise_unless_lapack("norm", x, "input")
    dims = many_dims(dim, x.ndim, "norm")
    if len(dims) != 2:
        raise RuntimeError(f"norm: with p='nuc' dim must be two dimensions, not {dim!r}")
    others = [d for d in range(x.ndim) if d not in dims]
    out = nuclear_norm(P.permute(x, dims=(*others, *dims)))
    return P.reshape(out, shape=kept_shape(x.shape, dims)) if keepdim else out


@numpy_names
def logsumexp(input: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) over `dim`, without overflow.

    >>> import lucid
    >>> lucid.logsumexp(lucid.tensor([1000.0, 1000.0]), dim=0)
    Tensor(1000.6932)
    """
    x = as_floats(input)
    return apply(P.logsumexp, (x,), {"dims": many_dims(dim, len(shape_of(x)), "logsumexp"), "keepdim": keepdim})


def _asked_dims(dim: Dims, ndim: int, name: str) -> tuple[int, ...]:
    """Dimensions of a question: () asks each element, as in PyTorch and NumPy."""
    return () if isinstance(dim, tuple | list) and not dim else many_dims(dim, ndim, name)


@numpy_names
def all(input: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether every element is true (not zero).

    >>> import lucid
    >>> lucid.all(lucid.tensor([[True, True], [False, True]]), dim=1)
    Tensor([ True, False])
    """
    x = lift(input)
    return P.all(x, dims=_asked_dims(dim, x.ndim, "all"), keepdim=keepdim)


@numpy_names
def any(input: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether some element is true (not zero).

    >>> import lucid
    >>> lucid.any(lucid.tensor([[0.0, 0.0], [0.0, 2.0]]), dim=1)
    Tensor([False,  True])
    """
    x = lift(input)
    return P.any(x, dims=_asked_dims(dim, x.ndim, "any"), keepdim=keepdim)


@numpy_names
def count_nonzero(input: Any, dim: Dims = None) -> Tensor:
    """How many elements are not zero.

    >>> import lucid
    >>> lucid.count_nonzero(lucid.tensor([[1, 0, 2], [0, 0, 3]]), dim=1)
    Tensor([2, 1])
    """
    x = lift(input)
    return P.count_nonzero(x, dims=many_dims(dim, x.ndim, "count_nonzero"), keepdim=False)


@numpy_names
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over `dim` with nan taken as 0.

    >>> import lucid
    >>> lucid.nansum(lucid.tensor([1.0, lucid.nan, 3.0]))
    Tensor(4.)
    """
    x = _widened(input, dtype)
    if element_type(x) not in dtypes.DIFFERENTIABLE:
        return sum(x, dim, keepdim, dtype=dtype)
    return apply(P.nansum, (x,), {"dims": many_dims(dim, len(shape_of(x)), "nansum"), "keepdim": keepdim})


@numpy_names
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over `dim` of the elements that are not nan.

    >>> import lucid
    >>> lucid.nanmean(lucid.tensor([1.0, lucid.nan, 3.0]))
    Tensor(2.)
    """
    x = _floats(input, "nanmean", dtype)
    return nansum(x, dim, keepdim) / cast(
        P.count_nonzero(x == x, dims=many_dims(dim, x.ndim, "nanmean"), keepdim=keepdim), x.np_dtype
    )


def _scan(prim: Primitive, input: Any, dim: int, dtype: Any, params: dict[str, Any]) -> Tensor:
    x = _widened(input, dtype)
    rank = len(shape_of(x))
    params["dim"] = one_dim(dim, rank, prim.name)
    return apply(prim, (x,), params) if rank else x.clone()


@numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sum along `dim`.

    >>> import lucid
    >>> lucid.cumsum(lucid.tensor([1.0, 2.0, 3.0]), dim=0)
    Tensor([1., 3., 6.])
    """
    return _scan(cumsum_primitive, input, dim, dtype, {"reverse": False})


@numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along `dim`; the gradient is exact when some elements are 0.

    >>> import lucid
    >>> lucid.cumprod(lucid.tensor([1.0, 2.0, 3.0, 4.0]), dim=0)
    Tensor([ 1.,  2.,  6., 24.])
    """
    return _scan(cumprod_primitive, input, dim, dtype, {"reverse": False})


@numpy_names
def logcumsumexp(input: Any, dim: int) -> Tensor:
    """log of the running sum of exp(x) along `dim`, without overflow; of complex numbers the principal logarithm.

    >>> import lucid
    >>> lucid.logcumsumexp(lucid.tensor([0.0, 0.0, 0.0]), dim=0)
    Tensor([0.    , 0.6931, 1.0986])
    """
    x = _floats(input, "logcumsumexp")
    if x.ndim or not x.is_complex():
        return _scan(logcumsumexp_primitive, x, dim, None, {})
    return P.reshape(_scan(logcumsumexp_primitive, P.reshape(x, shape=(1,)), dim, None, {}), shape=())


def _running(input: Any, dim: int, kind: type[ValuesIndices], name: str) -> Any:
    x = _ordered(input, name)
    rank = len(shape_of(x))
    d = one_dim(dim, rank, name)
    if not rank:
        return kind(x.clone(), of_class((x,), lift(0)))
    positions = apply(P.running_positions, (x,), {"dim": d, "largest": kind is Cummax})
    return kind(apply(index_primitive, (x, *along(positions, shape_of(x), d)), _NO_PARAMS), positions)


@numpy_names
def cummax(input: Any, dim: int) -> Cummax:
    """The largest element so far along `dim`, and where it stands.

    Of equal elements the last one counts.

    >>> import lucid
    >>> values, indices = lucid.cummax(lucid.tensor([1.0, 3.0, 2.0, 5.0]), dim=0)
    >>> values
    Tensor([1., 3., 3., 5.])
    >>> indices
    Tensor([0, 1, 1, 3])
    """
    return _running(input, dim, Cummax, "cummax")


@numpy_names
def cummin(input: Any, dim: int) -> Cummin:
    """The smallest element so far along `dim`, and where it stands.

    Of equal elements the last one counts.

    >>> import lucid
    >>> values, indices = lucid.cummin(lucid.tensor([4.0, 3.0, 5.0, 1.0]), dim=0)
    >>> values
    Tensor([4., 3., 3., 1.])
    >>> indices
    Tensor([0, 1, 1, 3])
    """
    return _running(input, dim, Cummin, "cummin")
