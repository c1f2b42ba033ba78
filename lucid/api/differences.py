"""Differences and integrals along a dimension by finite steps."""

from collections.abc import Sequence
from typing import Any

from lucid.api import joining, reductions
from lucid.arguments.dims import numpy_names, one_dim, real_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import as_floats, beside
from lucid.core import dtypes
from lucid.core.primitive import element_type, lift
from lucid.core.tensor import Tensor, shape_of
from lucid.ops import binary
from lucid.ops.rules import P

Dim = int | Sequence[int] | None


def _part(x: Tensor, dim: int, start: int | None, stop: int | None) -> Tensor:
    return P.slice(x, index=(*(slice(None),) * dim, slice(start, stop)))


def _steps(x: Tensor, dim: int) -> Tensor:
    """Each element less the one before."""
    before = (slice(None),) * dim
    later = reductions.shown(P.slice, x, {"index": (*before, _LATER)})
    earlier = reductions.shown(P.slice, x, {"index": (*before, _EARLIER)})
    return binary.logical_xor(later, earlier) if element_type(x).kind == "b" else binary.sub(later, earlier)


_LATER, _EARLIER = slice(1, None), slice(None, -1)


@takes_out
@numpy_names
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th differences of neighbours along `dim`: out[i] = x[i + 1] - x[i], n times over.

    `prepend` and `append` are joined to the ends first. Differences of booleans are their exclusive or.

    >>> import lucid
    >>> lucid.diff(lucid.tensor([1, 4, 9, 16]))
    Tensor([3, 5, 7])
    >>> lucid.diff(lucid.tensor([1, 4, 9, 16]), n=2, prepend=lucid.tensor([0]))
    Tensor([2, 2, 2])
    """
    x = lift(input)
    shape = shape_of(x)
    d = real_dim(x, dim, "diff")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    if not n:
        return P.clone(x)
    if prepend is not None or append is not None:
        x = _with_ends(x, d, prepend, append)
        shape = x.shape
    for _ in range(min(n, shape[d])):
        x = _steps(x, d)
    return x


def _with_ends(x: Tensor, dim: int, prepend: Any, append: Any) -> Tensor:
    """The tensor with others joined to its ends, which may be None."""
    ends = [None if end is None else beside(end, x.np_dtype) for end in (prepend, append)]
    for end, name in zip(ends, ("prepend", "append"), strict=True):
        if end is not None and end.ndim != x.ndim:
            raise RuntimeError(f"diff: {name} has {end.ndim} dimensions and the input {x.ndim}; they must agree")
    return joining.cat([part for part in (ends[0], x, ends[1]) if part is not None], dim)


def _quotients(x: Tensor, coordinates: Tensor, dim: int, edge_order: int) -> Tensor:
    """Second-order differences over unevenly spaced points: weights h- and h+ of the steps to both sides."""
    shape = tuple(-1 if d == dim else 1 for d in range(x.ndim))
    h = _steps(coordinates, 0).reshape(shape)
    slopes = _steps(x, dim) / h
    before, behind = _part(h, dim, None, -1), _part(h, dim, 1, None)
    inner = (behind * _part(slopes, dim, None, -1) + before * _part(slopes, dim, 1, None)) / (before + behind)
    first, last = _part(slopes, dim, None, 1), _part(slopes, dim, -1, None)
    if edge_order == 2:
        # A parabola through the three points at the edge.
        (h0, h1), (h2, h3) = ((_part(h, dim, a, b), _part(h, dim, c, e)) for a, b, c, e in _EDGES)
        second, before_last = _part(slopes, dim, 1, 2), _part(slopes, dim, -2, -1)
        first = first + (first - second) * h0 / (h0 + h1)
        last = last + (last - before_last) * h3 / (h2 + h3)
    return joining.cat([first, inner, last], dim)


_EDGES = ((0, 1, 1, 2), (-2, -1, -1, None))


def _even_quotients(x: Tensor, step: float, dim: int, edge_order: int) -> Tensor:
    inner = (_part(x, dim, 2, None) - _part(x, dim, None, -2)) / (2 * step)
    if edge_order == 1:
        first, last = (_part(x, dim, b, c) - _part(x, dim, a, b) for a, b, c in ((0, 1, 2), (-2, -1, None)))
    else:
        x0, x1, x2 = (_part(x, dim, i, i + 1) for i in range(3))
        first = (4 * x1 - 3 * x0 - x2) / 2
        x0, x1, x2 = (_part(x, dim, i, i + 1 or None) for i in (-1, -2, -3))
        last = (3 * x0 - 4 * x1 + x2) / 2
    return joining.cat([first / step, inner, last / step], dim)


def _spacings(spacing: Any, count: int) -> list[Any]:
    """The spacing along each dimension: a number, or a vector of coordinates."""
    if spacing is None:
        return [1.0] * count
    if isinstance(spacing, Tensor) and spacing.ndim:
        raise RuntimeError("gradient: give coordinates as a list of vectors, one for each dimension")
    if not isinstance(spacing, (list, tuple)):
        return [spacing] * count
    if len(spacing) != count:
        raise RuntimeError(f"gradient: {len(spacing)} spacings for {count} dimensions")
    return list(spacing)


@numpy_names
def gradient(input: Any, *, spacing: Any = None, dim: Dim = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative of sampled values along each of `dim`, by central differences, one-sided at the edges.

    `spacing` is the distance of the samples: one number, one for each dimension, or vectors of coordinates.
    `edge_order` 2 takes three points at the edges in the place of two.

    >>> import lucid
    >>> lucid.gradient(lucid.tensor([1.0, 4.0, 9.0, 16.0]))
    (Tensor([3., 4., 6., 7.]),)
    """
    x = as_floats(input)
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    along = range(x.ndim) if dim is None else [dim] if hasattr(dim, "__index__") else list(dim)
    dims = [one_dim(d, x.ndim, "gradient") for d in along]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: dim {tuple(along)} names a dimension twice")
    found = []
    for d, step in zip(dims, _spacings(spacing, len(dims)), strict=True):
        if not x.ndim or x.shape[d] <= edge_order:
            raise RuntimeError(f"gradient: needs more than {edge_order} samples along dimension {d} of shape {x.shape}")
        found.append(_along(x, step, d, edge_order))
    return tuple(found)


def _along(x: Tensor, step: Any, dim: int, edge_order: int) -> Tensor:
    if not isinstance(step, Tensor) or not step.ndim:
        return _even_quotients(x, step, dim, edge_order)
    if step.shape != (x.shape[dim],):
        raise RuntimeError(
            f"gradient: coordinates of shape {step.shape} for {x.shape[dim]} samples along dimension {dim}"
        )
    return _quotients(x, step, dim, edge_order)


def _areas(y: Any, x: Any, dx: Any, dim: int, name: str) -> tuple[Tensor, int]:
    """The area between each pair of neighbours."""
    values = lift(y)
    points = None if x is None else lift(x)
    if dtypes.BOOL in (values.np_dtype, None if points is None else points.np_dtype):
        raise RuntimeError(f"{name}: booleans have no area; convert them, as in y.float()")
    d = real_dim(values, dim, name)
    heights = _part(values, d, 1, None) + _part(values, d, None, -1)
    if points is None:
        return heights * dx / 2, d
    if dx is not None and not (isinstance(dx, (int, float)) and dx == 1):
        raise TypeError(f"{name}: give the points x or their distance dx, not both")
    if 1 < points.ndim < values.ndim:
        points = P.reshape(points, shape=(*(1,) * (values.ndim - points.ndim), *points.shape))
    if not points.ndim or points.shape[-1 if points.ndim == 1 else d - values.ndim] != values.shape[d]:
        raise RuntimeError(f"{name}: points of shape {points.shape} do not fit values of shape {values.shape}")
    if points.ndim == 1:
        widths = _steps(points, 0).reshape([-1 if e == d else 1 for e in range(values.ndim)])
    else:
        widths = _steps(points, points.ndim - values.ndim + d)
    return heights * widths / 2, d


@numpy_names
def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral of sampled values along `dim` by the trapezoidal rule: Σ (y[i] + y[i + 1]) / 2 · (x[i + 1] - x[i]).

    `x` are the points; without them the samples are `dx` apart.

    >>> import lucid
    >>> lucid.trapezoid(lucid.tensor([1.0, 5.0, 10.0]), dx=2)
    Tensor(21.)
    """
    areas, d = _areas(y, x, dx, dim, "trapezoid")
    return P.sum(areas, dims=(areas.ndim - lift(y).ndim + d,), keepdim=False)


trapz = trapezoid


@numpy_names
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The running integral of sampled values along `dim` by the trapezoidal rule; it is one shorter than `y`.

    >>> import lucid
    >>> lucid.cumulative_trapezoid(lucid.tensor([1.0, 5.0, 10.0]))
    Tensor([ 3. , 10.5])
    """
    areas, d = _areas(y, x, dx, dim, "cumulative_trapezoid")
    return P.cumsum(areas, dim=areas.ndim - lift(y).ndim + d, reverse=False)
