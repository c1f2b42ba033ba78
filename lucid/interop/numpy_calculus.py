"""NumPy's functions of samples, series and polynomials, and those that leave out nan, in terms of lucid's."""

from importlib import import_module
from typing import Any

import numpy as np

from lucid.api import contractions, creation, differences, joining, reductions, shaping, sorting, splitting, statistics
from lucid.arguments.dims import one_dim
from lucid.arguments.promotion import as_floats, beside
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, of_class
from lucid.interop.numpy_arrangement import FUNCTIONS as ARRANGEMENT
from lucid.interop.numpy_functions import Function, NoCounterpartError, common, operands
from lucid.ops import binary, unary

# --- samples -----------------------------------------------------------------------------------


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = as_floats(f)
    axes = range(x.ndim) if axis is None else (axis,) if hasattr(axis, "__index__") else axis
    dims = tuple(one_dim(d, x.ndim, "gradient") for d in axes)
    if len(varargs) not in (0, 1, len(dims)):
        raise TypeError(f"gradient: {len(varargs)} spacings for {len(dims)} axes")
    steps = list(varargs) * (len(dims) if len(varargs) == 1 else 1) or [1.0] * len(dims)
    found = [_slopes(x, step, dim, edge_order) for step, dim in zip(steps, dims, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(x: Tensor, step: Any, dim: int, edge_order: int) -> Tensor:
    """By a number, which may be a tensor, or by the coordinates of the samples."""
    if x.shape[dim] < edge_order + 1:
        raise ValueError(f"gradient: {edge_order + 1} samples are needed along each axis, not {x.shape[dim]}")
    if isinstance(step, Tensor) and not step.ndim:
        return differences.gradient(x, dim=dim, edge_order=edge_order)[0] / step
    spacing = [lift(step).to(x.np_dtype)] if np.ndim(step) else float(step)
    return differences.gradient(x, spacing=spacing, dim=dim, edge_order=edge_order)[0]


def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    a, b = shaping.broadcast_tensors(*(as_floats(t) for t in common((start, stop))))
    count = int(num)
    parts = count - 1 if endpoint else count
    steps = creation.arange(count, dtype=a.np_dtype) / max(parts, 1)
    ramp = shaping.reshape(steps, (-1,) + (1,) * a.ndim)
    out = a * (1 - ramp) + b * ramp
    out = shaping.movedim(out, 0, axis)
    out = out if dtype is None else out.to(dtype)
    return (out, (b - a) / parts if parts else (b - a) * float("nan")) if retstep else out


def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    if np.ndim(base):
        raise NoCounterpartError
    out = binary.pow(base, _linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else out.to(dtype)


def _geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    a, b = (as_floats(t) for t in common((start, stop)))
    signs = unary.sign(a)
    out = unary.exp(_linspace(unary.log(a / signs), unary.log(b / signs), num, endpoint, axis=axis))
    out = out * (signs.unsqueeze(axis) if signs.ndim else signs)
    return out if dtype is None else out.to(dtype)


def _arange(*args: Any, dtype: Any = None) -> Tensor:
    """From tensors that are numbers: how many there are must be known."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    first, last, by = (v.item() if isinstance(v, Tensor) else v for v in (start, stop, step))
    count = max(0, int(np.ceil((last - first) / by)))
    kind = common((start, stop, step))[0].np_dtype
    out = start + of_class((start, stop, step), creation.arange(count, dtype=kind)) * step
    return out if dtype is None else out.to(dtype)


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    if period is not None:
        raise NoCounterpartError
    points, places, values = (as_floats(t) for t in operands(x, xp, fp))
    at = sorting.searchsorted(places.detach(), points.detach(), right=True)
    high = at.clamp(1, places.shape[0] - 1) if places.shape[0] > 1 else at * 0
    low = high - 1 if places.shape[0] > 1 else high
    run = places[high] - places[low]
    share = (points - places[low]) / binary.where(run == 0, 1, run)
    out = values[low] + share * (values[high] - values[low])
    out = binary.where(points < places[0], values[0] if left is None else left, out)
    return binary.where(points > places[-1], values[-1] if right is None else right, out)


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    return differences.trapezoid(as_floats(y), None if x is None else as_floats(x), dx=dx, dim=axis)


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    x = shaping.reshape(lift(ary), -1)
    ends = [None if e is None else shaping.reshape(beside(e, x.np_dtype), -1) for e in (to_begin, to_end)]
    return joining.cat([p for p in (ends[0], differences.diff(x), ends[1]) if p is not None])


def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Tensor:
    """A whole number of periods is added to each sample, which has no derivative."""
    x, half = as_floats(p), period / 2
    change = differences.diff(x.detach(), dim=axis)
    turned = (change + half) % period - half
    turned = binary.where((turned == -half) & (change > 0), half, turned)
    added = binary.where(unary.abs(change) < (half if discont is None else discont), 0.0, turned - change)
    first, others = splitting.tensor_split(x, [1], axis)
    return joining.cat([first, others + reductions.cumsum(added, axis)], axis)


def _convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    x, y = _vectors(a, v)
    if x.numel() < y.numel():
        x, y = y, x
    return _slid(x, shaping.flip(y, 0), mode)


def _correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    x, y = _vectors(a, v)
    if x.numel() >= y.numel():
        return _slid(x, unary.conj(y), mode)
    return shaping.flip(_slid(unary.conj(y), x, mode), 0)


def _vectors(a: Any, v: Any) -> tuple[Tensor, Tensor]:
    x, y = (joining.atleast_1d(t) for t in operands(a, v))
    if x.ndim != 1 or y.ndim != 1 or not x.numel() or not y.numel():
        raise ValueError(f"expected two vectors that are not empty, not shapes {tuple(x.shape)} and {tuple(y.shape)}")
    kind = (x[:1] * y[:1]).np_dtype
    return x.to(kind), y.to(kind)


def _slid(x: Tensor, window: Tensor, mode: str) -> Tensor:
    """The products of a window, which is not the longer one, with what it lies over as it slides along."""
    reach = window.numel() - 1
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode is full, same or valid, not {mode!r}")
    widths = {"full": (reach, reach), "valid": (0, 0), "same": (reach - reach // 2, reach // 2)}[mode]
    padded = ARRANGEMENT[np.pad](x, widths)
    return contractions.matmul(splitting.unfold(padded, 0, window.numel(), 1), window)


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    x = _variables(m, y, rowvar) if dtype is None else _variables(m, y, rowvar).to(dtype)
    correction = ddof if ddof is not None else 0 if bias else 1
    return statistics.cov(x, correction=correction, fweights=fweights, aweights=aweights)


def _variables(m: Any, y: Any, rowvar: bool) -> Tensor:
    parts = [joining.atleast_2d(as_floats(t)) for t in ((m,) if y is None else (m, y))]
    rows = [p if rowvar or p.shape[0] == 1 else p.mT for p in parts]
    joined = rows[0] if y is None else joining.cat(rows, 0)
    return joined[0] if joined.shape[0] == 1 else joined


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    found = _variables(x, y, rowvar)
    return statistics.corrcoef(found if dtype is None else found.to(dtype))


# --- without nan -------------------------------------------------------------------------------


def _without(function: Function, filler: float) -> Function:
    """A reduction in which nan is replaced by what does not matter; of nan alone it is nan."""

    def call(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = lift(a)
        if x.np_dtype not in dtypes.DIFFERENTIABLE:
            return function(x, axis, keepdims)
        missing = unary.isnan(x)
        found = function(binary.where(missing, filler, x), axis, keepdims)
        return binary.where(reductions.all(missing, axis, keepdims), float("nan"), found)

    return call


def _position_without(function: Function, filler: float) -> Function:
    def call(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = lift(a)
        there = x if x.np_dtype not in dtypes.DIFFERENTIABLE else binary.where(unary.isnan(x), filler, x)
        return function(there, axis, keepdims)

    return call


def _nanvar(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    x = as_floats(a) if dtype is None else lift(a).to(dtype)
    there = ~unary.isnan(x)
    count = reductions.sum(there, axis, True).to(x.np_dtype)
    values = binary.where(there, x, 0)
    mean = reductions.sum(values, axis, True) / count
    apart = binary.where(there, values - mean, 0)
    total = reductions.sum(unary.square(unary.abs(apart)) if x.is_complex() else apart * apart, axis, True)
    free = count - ddof
    out = binary.where(free > 0, total / binary.where(free > 0, free, 1), float("nan"))
    return out if keepdims else reductions.sum(out, axis, False)


def _nanstd(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    return unary.sqrt(_nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


def _nanquantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    if method not in ("linear", "lower", "higher", "nearest", "midpoint") or isinstance(axis, tuple):
        raise NoCounterpartError
    x = as_floats(a)
    if not x.numel():
        raise NoCounterpartError
    return sorting.nanquantile(x, lift(q).to(x.np_dtype), axis, keepdims, interpolation=method)


def _scanned_without(function: Function, filler: float) -> Function:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x = lift(a) if axis is not None else shaping.reshape(lift(a), -1)
        whole = x if x.np_dtype not in dtypes.DIFFERENTIABLE else binary.where(unary.isnan(x), filler, x)
        return function(whole, 0 if axis is None else axis, dtype=dtype)

    return call


# --- polynomials -------------------------------------------------------------------------------


def _polyval(p: Any, x: Any) -> Tensor:
    coefficients, at = operands(p, x)
    out = at * 0 + coefficients[0] * 0
    for c in coefficients:
        out = out * at + c
    return out


def _aligned(a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    x, y = (joining.atleast_1d(t) for t in operands(a1, a2))
    size = max(x.numel(), y.numel())
    return tuple(ARRANGEMENT[np.pad](t, (size - t.numel(), 0)) for t in (x, y))


def _polyder(p: Any, m: int = 1) -> Tensor:
    x = lift(p)
    for _ in range(m):
        x = x[:-1] * of_class((x,), creation.arange(x.shape[0] - 1, 0, -1, dtype=x.np_dtype))
    return x


def _polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    if k is not None:
        raise NoCounterpartError
    x = as_floats(p)
    for _ in range(m):
        powers = creation.arange(x.shape[0], 0, -1, dtype=x.np_dtype)
        x = ARRANGEMENT[np.pad](x / powers, (0, 1))
    return x


def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803  (the name is NumPy's)
    t = lift(x)
    t = t if t.np_dtype in dtypes.DIFFERENTIABLE else t.to(np.int64)  # whose powers have room
    count = t.shape[0] if N is None else N
    powers = list(range(count) if increasing else range(count - 1, -1, -1))
    return joining.stack([t**n for n in powers], -1) if count else t.unsqueeze(-1)[:, :0]


def _polyfit(x: Any, y: Any, deg: int) -> Tensor:
    """Least squares with columns of one length, as NumPy solves it."""
    at, values = (as_floats(t) for t in operands(x, y))
    left = _vander(at, int(deg) + 1)
    scale = unary.sqrt(reductions.sum(left * left, 0))
    found = import_module("lucid.linalg").lstsq(left / scale, values.unsqueeze(-1) if values.ndim == 1 else values)
    solution = found.solution / scale.unsqueeze(-1)
    return solution.squeeze(-1) if values.ndim == 1 else solution


def _roots(p: Any) -> Tensor:
    """The eigenvalues of the companion matrix; a factor of the variable itself has the root 0."""
    x = as_floats(p)
    there = np.flatnonzero(x.detach()._concrete("roots"))
    if not there.size:
        return x[:0]
    trailing = x.shape[0] - 1 - int(there[-1])
    x = x[int(there[0]) : int(there[-1]) + 1]
    degree = x.shape[0] - 1
    if not degree:
        return creation.zeros(trailing, dtype=x.np_dtype)
    top = (-x[1:] / x[0]).unsqueeze(0)
    companion = joining.cat([top, lift(np.eye(degree - 1, degree, dtype=x.np_dtype))], 0)
    found = import_module("lucid.linalg").eigvals(companion)
    return joining.cat([found, creation.zeros(trailing, dtype=found.np_dtype)])


# --- others ------------------------------------------------------------------------------------


def _with_start(function: Function, unit: float) -> Function:
    """`cumulative_sum` and its relative, which may begin with what nothing adds up to."""

    def call(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
        t = lift(x)
        if axis is None and t.ndim != 1:
            raise ValueError("an axis is needed for an array of more than one dimension")
        found = function(t, 0 if axis is None else axis, dtype=dtype)
        if not include_initial:
            return found
        dim = one_dim(0 if axis is None else axis, t.ndim, "axis")
        first = creation.full((*t.shape[:dim], 1, *t.shape[dim + 1 :]), unit, dtype=found.np_dtype)
        return joining.cat([first, found], dim)

    return call


def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    counting = import_module("lucid.api.counting")
    return counting.bincount(lift(x), None if weights is None else as_floats(weights), minlength)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    x = lift(a)
    dim = one_dim(axis, x.ndim, "diff")

    def ended(end: Any) -> Any:
        if end is None or end is np._NoValue:
            return None
        t = operands(x, end)[1]
        return t if t.ndim else shaping.broadcast_to(t, (*x.shape[:dim], 1, *x.shape[dim + 1 :]))

    return differences.diff(x, n, dim, ended(prepend), ended(append))


def _i0(x: Any) -> Tensor:
    found: Tensor = import_module("lucid.special").i0(as_floats(x))
    return found


FUNCTIONS: dict[Any, Function] = {
    np.gradient: _gradient,
    np.linspace: _linspace,
    np.logspace: _logspace,
    np.geomspace: _geomspace,
    np.arange: _arange,
    np.interp: _interp,
    np.ediff1d: _ediff1d,
    np.diff: _diff,
    np.unwrap: _unwrap,
    np.convolve: _convolve,
    np.correlate: _correlate,
    np.cov: _cov,
    np.corrcoef: _corrcoef,
    np.nanmax: _without(reductions.amax, -np.inf),
    np.nanmin: _without(reductions.amin, np.inf),
    np.nanprod: lambda a, axis=None, *, keepdims=False: reductions.prod(
        binary.where(unary.isnan(lift(a)), 1, lift(a)), axis, keepdims
    ),
    np.nanargmax: _position_without(reductions.argmax, -np.inf),
    np.nanargmin: _position_without(reductions.argmin, np.inf),
    np.nanvar: _nanvar,
    np.nanstd: _nanstd,
    np.nanmedian: lambda a, axis=None, *, keepdims=False: _nanquantile(a, 0.5, axis, keepdims=keepdims),
    np.nanquantile: _nanquantile,
    np.nanpercentile: lambda a, q, axis=None, *, method="linear", keepdims=False: _nanquantile(
        a, np.true_divide(q, 100), axis, method=method, keepdims=keepdims
    ),
    np.nancumsum: _scanned_without(reductions.cumsum, 0),
    np.nancumprod: _scanned_without(reductions.cumprod, 1),
    np.polyval: _polyval,
    np.polyadd: lambda a1, a2: binary.add(*_aligned(a1, a2)),
    np.polysub: lambda a1, a2: binary.sub(*_aligned(a1, a2)),
    np.polymul: lambda a1, a2: _convolve(a1, a2),
    np.polyder: _polyder,
    np.polyint: _polyint,
    np.polyfit: _polyfit,
    np.roots: _roots,
    np.vander: _vander,
    np.bincount: _bincount,
    np.i0: _i0,
}
# Since NumPy 2 or 2.1.
_NEWER: dict[str, Function] = {
    "trapezoid": _trapezoid,
    "cumulative_sum": _with_start(reductions.cumsum, 0),
    "cumulative_prod": _with_start(reductions.cumprod, 1),
    "unstack": lambda x, /, *, axis=0: splitting.unbind(x, axis),
}
FUNCTIONS |= {getattr(np, name): function for name, function in _NEWER.items() if hasattr(np, name)}
