"""Convolution in any number of dimensions, as products of matrices of windows.

With an input `x`, weights `w` and a result `y`, everything follows from one form that is linear in each of the three,

    T(x, w, y) = Σ x[n, c, s·o + d·k - p] · w[q, c, k] · y[n, q, o],

summed over examples n, channels c and q (of the same group), taps k and places o. `convolution` makes y from x and w,
`convolution_input` makes x from y and w (it is transposed convolution), `convolution_weight` makes w from x and y. Each
is the derivative of the other two, so the three are closed under differentiation of any order.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, wraps
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.fused import Fused
from lucid.ops.parallel import in_parts
from lucid.ops.rules import P, bilinear_jvp, linear
from lucid.ops.views import inverse

ndarray = np.ndarray
Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# Elements of windows that are laid out at a time: 2 MB in single precision, which a core's own cache holds. Whole
# batches at once take up to twice the time.
_BLOCK = 1 << 19


class Geometry(NamedTuple):
    """How a kernel slides over an input, with one entry for each spatial dimension."""

    size: Sizes  # of the input
    kernel: Sizes
    stride: Sizes
    padding: Pairs  # zeros in front of the input and behind it
    dilation: Sizes
    groups: int
    out: Sizes  # the number of places of the kernel
    taps: int  # elements of the kernel
    # Whether there is one tap and one place for each element: a product of matrices and nothing more.
    is_product: bool


@cache
def geometry(
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int = 1,
    out: Sizes | None = None,
) -> Geometry:
    """A geometry for so many places as fit, or as are given; 0 or less where the kernel does not fit."""
    if out is None:
        out = tuple(
            (n + sum(p) - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        )
    taps = math.prod(kernel)
    is_product = taps == 1 and out == size and not any(map(any, padding))
    return Geometry(size, kernel, stride, padding, dilation, groups, out, taps, is_product)


# --- arrays ------------------------------------------------------------------------------------


def _in_single(impl: Callable[..., Any]) -> Callable[..., Any]:
    """Half precision is multiplied and summed in single precision."""

    @wraps(impl)
    def run(a: Any, b: Any, geometry: Geometry, bias: Any = None) -> Any:
        more = () if bias is None else (bias,)
        if a.dtype.itemsize > 2:
            return impl(a, b, geometry, *more)
        single = [x.astype(np.float32) for x in (a, b, *more)]
        return impl(*single[:2], geometry, *single[2:]).astype(a.dtype)

    return run


def _blocks(x: Any, padding: Pairs, count: int) -> Iterator[tuple[slice, Any]]:
    """Padded examples, `count` at a time; each block comes in the memory of the one before."""
    n = len(x)
    if not any(map(any, padding)):
        x = np.ascontiguousarray(x)
        for i in range(0, n, count):
            yield slice(i, i + count), x[i : i + count]
        return
    sizes = [size + sum(p) for size, p in zip(x.shape[2:], padding, strict=True)]
    memory: Any = np.zeros((count, x.shape[1], *sizes), x.dtype)
    inner = memory[(..., *_inside(x.shape[2:], padding))]
    for i in range(0, n, count):
        stop = min(i + count, n)
        inner[: stop - i] = x[i:stop]
        yield slice(i, stop), memory[: stop - i]


def _inside(size: Sizes, padding: Pairs) -> tuple[slice, ...]:
    return tuple(slice(low, low + n) for n, (low, _) in zip(size, padding, strict=True))


def _windows(x: Any, g: Geometry, first: int, rows: int) -> Any:
    """A view of shape (channels, *kernel, examples, *windows) of `rows` rows of windows from the row `first` on."""
    steps = x.strides[2:]
    moves = [s * t for s, t in zip(steps, g.stride, strict=True)]
    taps = [s * d for s, d in zip(steps, g.dilation, strict=True)]
    shape = (x.shape[1], *g.kernel, len(x), rows, *g.out[1:])
    return ndarray(shape, x.dtype, x, first * moves[0], (x.strides[1], *taps, x.strides[0], *moves))


def _columns(x: Any, g: Geometry) -> Iterator[tuple[slice, slice, Any]]:
    """Windows laid out side by side, (groups, channels · taps, examples · places), with the examples and rows they are of.

    Each comes in the memory of the one before.
    """
    depth = x.shape[1] * g.taps
    rows = _rows(depth, g.out)
    count = max(1, min(len(x), _BLOCK // (depth * math.prod(g.out))))
    memory = np.empty(depth * count * rows * math.prod(g.out[1:]), x.dtype)
    for examples, block in _blocks(x, g.padding, count):
        for r in range(0, g.out[0], rows):
            windows = _windows(block, g, r, min(rows, g.out[0] - r))
            columns = memory[: windows.size].reshape(windows.shape)
            columns[...] = windows
            yield examples, slice(r, r + rows), columns.reshape(g.groups, depth // g.groups, -1)


def _rows(depth: int, out: Sizes) -> int:
    """How many rows of windows, of `depth` elements each, are laid out at a time."""
    return max(1, min(out[0], _BLOCK // (depth * math.prod(out[1:]))))


@_in_single
def _convolution_array(x: Any, w: Any, g: Geometry, bias: Any = None) -> Any:
    weight = w.reshape(g.groups, w.shape[0] // g.groups, -1)
    plus = None if bias is None else bias.reshape(*weight.shape[:2], 1)
    out = np.empty((len(x), w.shape[0], *g.out), x.dtype)
    if not x.size:
        out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * len(g.out))
    elif g.is_product:
        product = out.reshape(len(x), *weight.shape[:2], -1)
        np.matmul(weight, x.reshape(len(x), g.groups, w.shape[1], -1), out=product)
        if plus is not None:
            product += plus
    elif out.size:
        in_parts(lambda some: _correlate(x[some], weight, plus, g, out[some]), len(x), out.size * weight.shape[2])
    return out


def _correlate(x: Any, weight: Any, plus: Any, g: Geometry, out: Any) -> None:
    for examples, rows, columns in _columns(x, g):
        target = out[examples, :, rows]
        n, channels, *size = target.shape
        is_direct = n == 1 and target.flags.c_contiguous
        product = np.matmul(weight, columns, out=target.reshape(*weight.shape[:2], -1) if is_direct else None)
        if plus is not None:
            product += plus
        if not is_direct:
            target[...] = product.reshape(channels, n, *size).swapaxes(0, 1)


@_in_single
def _convolution_input_array(y: Any, w: Any, g: Geometry) -> Any:
    channels, results = w.shape[1], w.shape[0] // g.groups
    grouped = w.reshape(g.groups, results, channels, *g.kernel)
    if g.is_product:
        out = np.matmul(
            grouped.reshape(g.groups, results, channels).swapaxes(1, 2), y.reshape(len(y), g.groups, results, -1)
        )
        return out.reshape(len(y), g.groups * channels, *g.size)
    turned = _turned(g)
    # Laying out windows of y takes two thirds of the time, for each element, of adding up windows of x; turning the
    # weights around counts too.
    places = len(y) * math.prod(g.out)
    if turned is None or results * (places + 2 * channels) > 1.5 * channels * places:
        return _scattered(y, grouped.reshape(g.groups, results, -1).swapaxes(1, 2), g)
    flipped = np.flip(grouped, tuple(range(3, grouped.ndim))).swapaxes(1, 2)
    return _convolution_array(y, flipped.reshape(g.groups * channels, results, *g.kernel), turned)


@cache
def _turned(g: Geometry) -> Geometry | None:
    """The convolution of y, with the kernel turned around, that gives x; there is none for strides or much padding."""
    reach = [d * (k - 1) for d, k in zip(g.dilation, g.kernel, strict=True)]
    padding = tuple((r - low, r - high) for r, (low, high) in zip(reach, g.padding, strict=True))
    turned = geometry(g.out, g.kernel, g.stride, padding, g.dilation, g.groups)
    fits = max(g.stride) == 1 and min(map(min, padding)) >= 0 and turned.out == g.size
    return turned if fits else None


class _Shifts(NamedTuple):
    """Where windows lie in an input that is split into phases: the places with the same remainders modulo the strides.

    Within a phase, each tap moves all windows by the same number of elements, if rows of windows are as long as those
    of the phase. So windows are added up in long runs.
    """

    sizes: Sizes  # of a phase
    row: int  # elements of a phase from one row to the next
    taps: tuple[tuple[int, int], ...]  # phase and shift of each tap
    length: int  # of a phase, with room for the longest shift
    kept: tuple[tuple[tuple[slice, ...], tuple[slice, ...]], ...]  # places of each phase in the input and in itself


@cache
def _shifts(g: Geometry) -> _Shifts:
    sizes = tuple(-(-(n + sum(p)) // s) for n, p, s in zip(g.size, g.padding, g.stride, strict=True))
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    phases = list(product(*map(range, g.stride)))
    taps = []
    for tap in product(*map(range, g.kernel)):
        moved = [divmod(k * d, s) for k, d, s in zip(tap, g.dilation, g.stride, strict=True)]
        taps.append(
            (phases.index(tuple(r for _, r in moved)), sum(q * t for (q, _), t in zip(moved, steps, strict=True)))
        )
    kept = []
    for phase in phases:
        firsts = [(r - low) % s for r, (low, _), s in zip(phase, g.padding, g.stride, strict=True)]
        starts = [(f + low - r) // s for f, r, (low, _), s in zip(firsts, phase, g.padding, g.stride, strict=True)]
        counts = [len(range(f, n, s)) for f, n, s in zip(firsts, g.size, g.stride, strict=True)]
        there = tuple(slice(f, None, s) for f, s in zip(firsts, g.stride, strict=True))
        kept.append((there, tuple(slice(b, b + n) for b, n in zip(starts, counts, strict=True))))
    length = max(g.out[0] * steps[0] + max(shift for _, shift in taps), math.prod(sizes))
    return _Shifts(sizes, steps[0], tuple(taps), length, tuple(kept))


def _scattered(y: Any, weight: Any, g: Geometry) -> Any:
    """The windows of the input, each a product of weights with one place of y, added up."""
    out = np.zeros((len(y), weight.shape[1] // g.taps * g.groups, *g.size), y.dtype)
    if out.size and y.size:
        in_parts(lambda some: _scatter(y[some], weight, g, out[some]), len(y), y.size * weight.shape[1])
    return out


def _scatter(y: Any, weight: Any, g: Geometry, out: Any) -> None:
    shifts = _shifts(g)
    channels, results = out.shape[1], y.shape[1]
    rows = _rows(channels * g.taps, (g.out[0], shifts.row))
    count = max(1, min(len(y), _BLOCK // (channels * g.taps * shifts.row * rows)))
    spread: Any = np.zeros((results, count, rows, *shifts.sizes[1:]), y.dtype)
    seen = spread[(..., *(slice(0, n) for n in g.out[1:]))]
    phases = np.empty((math.prod(g.stride), channels, count, shifts.length), y.dtype)
    for i in range(0, len(y), count):
        block = y[i : i + count]
        total = phases[:, :, : len(block)]
        total[...] = 0
        for r in range(0, g.out[0], rows):
            part = block[:, :, r : r + rows].swapaxes(0, 1)
            right = spread[:, : len(block), : part.shape[2]]
            seen[:, : len(block), : part.shape[2]] = part
            windows = np.matmul(weight, right.reshape(g.groups, results // g.groups, -1))
            windows = windows.reshape(channels, g.taps, len(block), -1)
            for k, (phase, shift) in enumerate(shifts.taps):
                start = r * shifts.row + shift
                total[phase, :, :, start : start + windows.shape[3]] += windows[:, k]
        for (there, here), phase in zip(shifts.kept, total, strict=True):
            planes = phase[:, :, : math.prod(shifts.sizes)].reshape(channels, len(block), *shifts.sizes)
            out[(slice(i, i + count), slice(None), *there)] = planes[(..., *here)].swapaxes(0, 1)


@_in_single
def _convolution_weight_array(x: Any, y: Any, g: Geometry) -> Any:
    results, channels = y.shape[1] // g.groups, x.shape[1] // g.groups
    shape = (g.groups, channels * g.taps, results)
    totals = (
        in_parts(lambda some: _windows_by(x[some], y[some], g, shape), len(x), y.size * shape[1])
        if x.size and y.size
        else [np.zeros(shape, x.dtype)]
    )
    for other in totals[1:]:
        totals[0] += other
    return totals[0].swapaxes(1, 2).reshape(y.shape[1], channels, *g.kernel)


def _windows_by(x: Any, y: Any, g: Geometry, shape: Sizes) -> Any:
    """The products of all windows of x with what y has at their places, (groups, channels · taps, results)."""
    total = np.zeros(shape, x.dtype)
    for examples, rows, columns in _columns(x, g):
        part = y[examples, :, rows].swapaxes(0, 1).reshape(g.groups, shape[2], -1)
        total += np.matmul(columns, part.swapaxes(1, 2))
    return total


# --- primitives --------------------------------------------------------------------------------


# The operands and the result of each member by their letters in the form above, and the leading dimensions of each
# letter: examples N, groups G, channels C of the input, channels Q of the result.
_MEMBERS = {"convolution": "xwy", "convolution_input": "ywx", "convolution_weight": "xyw"}
_DIMS = {"x": "NGC", "w": "GQC", "y": "NGQ"}


def _conj(x: Any) -> Any:
    return P.conj(x) if x.dtype.kind == "c" else x


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """The batch becomes part of a dimension that all letters that have it share, and no other letter has."""
    letters = _MEMBERS[prim.name]
    having = {letter for letter, b in zip(letters, (*batched, True), strict=True) if b}
    dim = next(d for d in "NGCQ" if {letter for letter in "xwy" if d in _DIMS[letter]} == having)
    g = params["geometry"]
    merged = [
        _merged(v, letter, dim, g.groups) if b else v for v, letter, b in zip(values, letters, batched, strict=False)
    ]
    inner = g._replace(groups=g.groups * size) if dim == "G" else g
    return _split(prim(*merged, geometry=inner), letters[2], dim, g.groups, size)


def _expanded(shape: Sizes, letter: str, groups: int) -> Sizes:
    """A shape with the groups as a dimension of their own."""
    at = _DIMS[letter].index("G")
    return (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])


def _contracted(shape: Sizes, letter: str) -> Sizes:
    at = _DIMS[letter].index("G")
    return (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])


def _merged(value: Any, letter: str, dim: str, groups: int) -> Any:
    """The batch, in front, joined to `dim`."""
    size, at = value.shape[0], _DIMS[letter].index(dim)
    expanded = P.reshape(value, shape=(size, *_expanded(value.shape[1:], letter, groups)))
    order = (*range(1, at + 1), 0, *range(at + 1, expanded.ndim))
    shape = list(_expanded(value.shape[1:], letter, groups))
    shape[at] *= size
    return P.reshape(P.permute(expanded, dims=order), shape=_contracted(tuple(shape), letter))


def _split(value: Any, letter: str, dim: str, groups: int, size: int) -> Any:
    """What `_merged` joined, taken apart again."""
    at = _DIMS[letter].index(dim)
    shape = _expanded(value.shape, letter, groups * size if dim == "G" else groups)
    apart = P.reshape(value, shape=(*shape[:at], size, shape[at] // size, *shape[at + 1 :]))
    order = (*range(1, at + 1), 0, *range(at + 1, apart.ndim))
    front = P.permute(apart, dims=inverse(order))
    return P.reshape(front, shape=(size, *_contracted(front.shape[1:], letter)))


convolution = Primitive(
    "convolution",
    _convolution_array,
    operands=("x", "w"),
    rules=(
        lambda ct, w, geometry: P.convolution_input(ct, _conj(w), geometry=geometry),
        lambda ct, x, geometry: P.convolution_weight(_conj(x), ct, geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
)

convolution_input = Primitive(
    "convolution_input",
    _convolution_input_array,
    operands=("y", "w"),
    rules=(
        lambda ct, w, geometry: P.convolution(ct, _conj(w), geometry=geometry),
        lambda ct, y, geometry: P.convolution_weight(ct, _conj(y), geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
)

convolution_weight = Primitive(
    "convolution_weight",
    _convolution_weight_array,
    operands=("x", "y"),
    rules=(
        lambda ct, y, geometry: P.convolution_input(_conj(y), ct, geometry=geometry),
        lambda ct, x, geometry: P.convolution(_conj(x), ct, geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
)


def _patches_array(x: Any, geometry: Geometry) -> Any:
    g = geometry
    out = np.empty((*x.shape[:2], *g.kernel, *g.out), x.dtype)
    count = max(1, _BLOCK // max(1, math.prod(out.shape[1:])))
    at = len(g.kernel) + 1
    for examples, block in _blocks(x, g.padding, count) if out.size else ():
        windows = _windows(block, g, 0, g.out[0])
        out[examples] = windows.transpose(at, *range(at), *range(at + 1, windows.ndim))
    return out


def _patches_back_array(x: Any, geometry: Geometry) -> Any:
    g = geometry
    total: Any = np.zeros((*x.shape[:2], *(n + sum(p) for n, p in zip(g.size, g.padding, strict=True))), x.dtype)
    for tap in product(*map(range, g.kernel)):
        begins = [k * d for k, d in zip(tap, g.dilation, strict=True)]
        where = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, g.out, g.stride, strict=True)]
        total[(..., *where)] += x[(slice(None), slice(None), *tap)]
    return total[(..., *_inside(g.size, g.padding))]


def _by_example(name: str) -> Callable[..., Any]:
    """Batching of a primitive that treats every example alike: the batch becomes part of the examples."""

    def batch(x: Any, size: int, geometry: Geometry) -> Any:
        out = getattr(P, name)(P.reshape(x, shape=(size * x.shape[1], *x.shape[2:])), geometry=geometry)
        return P.reshape(out, shape=(size, x.shape[1], *out.shape[1:]))

    return batch


# All windows of an input, (examples, channels, *kernel, *places); overlapping windows add up on the way back.
patches = linear(
    "patches",
    _patches_array,
    transpose=lambda ct, geometry: P.patches_back(ct, geometry=geometry),
    batch=_by_example("patches"),
)

patches_back = linear(
    "patches_back",
    _patches_back_array,
    transpose=lambda ct, geometry: P.patches(ct, geometry=geometry),
    batch=_by_example("patches_back"),
)


def _plus_bias(x: Any, w: Any, bias: Any, geometry: Geometry) -> Any:
    return P.convolution(x, w, geometry=geometry) + P.reshape(bias, shape=(bias.shape[0], *(1,) * len(geometry.out)))


def _biased_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, geometry: Geometry) -> list[Any]:
    (ct,), (x, w, _) = cts, arrays
    return [
        _convolution_input_array(ct, _conj(w), geometry) if needs[0] else None,
        _convolution_weight_array(_conj(x), ct, geometry) if needs[1] else None,
        np.add.reduce(ct, axis=(0, *range(2, ct.ndim))) if needs[2] else None,
    ]


# A convolution that adds a bias to each block of results while it is at hand.
biased_convolution = Fused(
    "biased_convolution",
    _plus_bias,
    lambda x, w, bias, geometry: (_convolution_array(x, w, geometry, bias), (None,)),
    _biased_backward,
    operands=("x", "w", "bias"),
)
