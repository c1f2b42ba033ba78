"""Rows of the table for `lucid.masked`; see `samples`. Every reference picks the elements of each row by a loop."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special as special
from samples import BOOLS, INTS, Array, Make, Row, Sample, Samples, kink, on_vectors, s

import lucid
from lucid import masked

MASK = np.array([[True, False, True], [True, True, False], [True, True, True]])
HOLES = np.array([[False, False, False], [False, True, True], [False, True, False]])
REDUCTIONS: tuple[dict[str, Any], ...] = ({}, {"dim": 1}, {"dim": 0, "keepdim": True}, {"dim": (0, 1)})
ALONG: tuple[dict[str, Any], ...] = ({"dim": 1}, {"dim": 0})


def picked(fold: Callable[..., Any], x: Array, mask: Any, dim: Any, keepdim: bool = False, dtype: Any = None) -> Array:
    """`fold` of the elements of each row where the mask holds."""
    mask = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    dims = tuple(range(x.ndim)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    dims = tuple(d % max(x.ndim, 1) for d in dims) if x.ndim else ()
    kept, along = [d for d in range(x.ndim) if d not in dims], math.prod(x.shape[d] for d in dims)
    rows, holds = (np.transpose(v, (*kept, *dims)).reshape(*(x.shape[d] for d in kept), along) for v in (x, mask))
    values = [fold(rows[i][holds[i]]) for i in np.ndindex(rows.shape[:-1])]
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    return np.asarray(values, dtype).reshape(shape)


def reduction(fold: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, mask, dim=None, keepdim=False: picked(fold, x, mask, dim, keepdim)


def scan(ref: Callable[..., Any], fill: float) -> Callable[..., Any]:
    def call(x: Array, mask: Any, dim: int) -> Array:
        held = x if mask is None else np.where(mask, x, np.asarray(fill, x.dtype))
        return on_vectors(ref)(np.asarray(held), dim)

    return call


def samples(kwargs: tuple[dict[str, Any], ...], holes: Any = s, spread: bool = True) -> Samples:
    """Masks of all shapes; `holes` makes the sample in which one row has no elements."""

    def made(make: Make) -> Iterator[Sample]:
        draw = make.spread if spread else make
        for one in kwargs:
            yield s(draw(3, 3), MASK, **one)
            yield s(draw(3, 3).T, MASK[0] if one.get("dim") != 0 else MASK[:, 1:2], **one)
            yield s(draw(2, 3), None, **one)
            yield holes(draw(3, 3), HOLES, **one)

    return made


def row(name: str, ref: Callable[..., Any], made: Samples, **flags: Any) -> Row:
    function = getattr(masked, name)
    op = flags.pop("op", lambda x, mask, *args, **kwargs: function(x, *args, mask=mask, **kwargs))
    return Row(f"masked_{name}", op, ref, made, **flags)


def extreme(name: str, fold: Callable[..., Any], empty: Callable[[Any], Any]) -> Row:
    return row(name, reduction(lambda v: fold(v) if v.size else empty(v.dtype)), samples(REDUCTIONS, kink), ints=INTS)


def place(best: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def call(x: Array, mask: Any, dim: Any = None, keepdim: bool = False) -> Array:
        held = x.astype(float) if mask is None else np.where(mask, x.astype(float), worst)
        return best(held, axis=dim, keepdims=keepdim)

    return call


def least(dtype: Any) -> Any:
    return -math.inf if dtype.kind == "f" else dtype.kind != "b" and np.iinfo(dtype).min


def most(dtype: Any) -> Any:
    return math.inf if dtype.kind == "f" else dtype.kind == "b" or np.iinfo(dtype).max


def middle(v: Array) -> Any:
    return np.sort(v)[(len(v) - 1) // 2] if v.size else np.nan


def norms(make: Make) -> Iterator[Sample]:
    for ord in (2.0, 1.0, 3.0, 0.0, math.inf, -math.inf, -1.0):
        yield s(make.spread(3, 3), MASK, ord)
        yield s(make.spread(3, 3), MASK, ord, 1, keepdim=True)


def length(x: Array, mask: Any, ord: float = 2.0, dim: Any = None, keepdim: bool = False) -> Array:
    return picked(lambda v: np.linalg.norm(v, ord), x, mask, dim, keepdim)


def variances(make: Make) -> Iterator[Sample]:
    yield from samples(({}, {"dim": 0}, {"dim": 1, "correction": 0}), kink)(make)
    yield s(make(3, 3), MASK, 1, False, keepdim=True)


def variance(x: Array, mask: Any, dim: Any = None, unbiased: Any = None, correction: Any = None, **kw: Any) -> Array:
    less = correction if correction is not None else int(unbiased is None or unbiased)

    def fold(v: Array) -> Any:
        with np.errstate(all="ignore"):
            return np.divide(np.sum(np.abs(v - v.mean() if v.size else v) ** 2), max(v.size - less, 0) or 0.0)

    return picked(fold, x, mask, dim, **kw)


def normal(soft: Callable[..., Any], fill: float) -> Callable[..., Any]:
    return lambda x, mask, dim: soft(x if mask is None else np.where(mask, x, fill), dim) if x.size else x


def finite(function: Callable[..., Any], where: Callable[..., Any]) -> Callable[..., Any]:
    """The results where the mask holds: elsewhere they are -inf, of which there are no differences."""

    def call(x: Any, mask: Any, dim: int) -> Any:
        out = function(x, mask, dim)
        return out if mask is None else where(mask, out, 0.0)

    return call


def unit(x: Array, mask: Any, ord: float, dim: int) -> Array:
    held = np.asarray(x if mask is None else np.where(mask, x, 0))
    return held / np.maximum(on_vectors(np.linalg.norm)(held, ord, axis=dim, keepdims=True), 1e-12)


def unit_samples(make: Make) -> Iterator[Sample]:
    for ord, dim in ((2.0, 1), (1.0, 0), (3.0, -1)):
        yield s(make(3, 3), MASK, ord, dim)


def pairs(make: Make) -> Iterator[Sample]:
    yield s(make(3, 3), make(3, 3), MASK, ~MASK)
    yield s(make(3, 3), make(3, 3), None, MASK[1])
    yield s(make(3, 3), make(3, 3), MASK, None)


def log_added(x: Array, y: Array, x_mask: Any, y_mask: Any) -> Array:
    x, y = (v if m is None else np.where(m, v, -math.inf) for v, m in ((x, x_mask), (y, y_mask)))
    return np.logaddexp(x, y)


ROWS = [
    row("sum", reduction(np.sum), samples(REDUCTIONS, spread=False), result="sum", complex=True, ints=BOOLS),
    row("prod", reduction(np.prod), samples(REDUCTIONS, spread=False), result="sum", complex=True, ints=BOOLS),
    row("mean", reduction(lambda v: v.mean() if v.size else np.nan), samples(REDUCTIONS, kink), complex=True),
    extreme("amax", np.max, least),
    extreme("amin", np.min, most),
    row("argmax", place(np.argmax, -math.inf), samples(ALONG), result="int64", differentiable=False, ints=INTS),
    row("argmin", place(np.argmin, math.inf), samples(ALONG), result="int64", differentiable=False, ints=INTS),
    row("median", reduction(middle), samples(ALONG, kink), without={"refused": "integers have a median without a mask"}),
    row("norm", length, norms, result="real", complex=True),
    row("var", variance, variances, result="real", complex=True),
    row("std", lambda *a, **k: np.sqrt(variance(*a, **k)), variances, result="real", complex=True),
    row("logsumexp", reduction(special.logsumexp), samples(REDUCTIONS, kink), complex=False,
        without={"refused": "takes what logsumexp takes"}),
    row("cumsum", scan(np.cumsum, 0), samples(ALONG, spread=False), result="sum", complex=True, ints=BOOLS),
    row("cumprod", scan(np.cumprod, 1), samples(ALONG, spread=False), result="sum", complex=True, ints=BOOLS),
    row("softmax", normal(special.softmax, -math.inf), samples(ALONG, kink), result="float", ints=BOOLS),
    row("log_softmax", finite(normal(special.log_softmax, -math.inf), np.where),
        samples(ALONG, kink), op=finite(lambda x, m, dim: masked.log_softmax(x, dim, mask=m), lucid.where),
        result="float", ints=BOOLS),
    row("softmin", normal(lambda x, dim: special.softmax(-x, dim), math.inf), samples(ALONG, kink),
        result="float", ints=BOOLS),
    row("normalize", unit, unit_samples, complex=True),
    row("logaddexp", log_added, pairs,
        op=lambda x, y, a, b: masked.logaddexp(x, y, input_mask=a, other_mask=b),
        without={"refused": "takes what logaddexp takes"}),
]  # fmt: skip
