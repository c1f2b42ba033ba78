"""Convolution in any number of dimensions, as products of matrices of windows.

Generation does not reach it: blocks of windows are chosen to fit the cache beside the weights of a matrix product.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, NamedTuple

import numpy as np

from lucid.backends.cpu import implicit_gemm, windows
from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower, most_threads
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.parallel import LEAST_WORK, in_parts
from lucid.backends.numpy.nn.convolution import in_wide_type
from lucid.core.kernels import WithBackward, fill
from lucid.core.primitive import P
from lucid.ops.nn.convolution import Geometry, geometry

# Elements of windows that are laid out at a time: 1 MB in single precision, which a core's own cache holds beside the
# weights.
_BLOCK = 1 << 18


_FEW = 128  # windows of an example
_SUMS = 8  # parts of the examples, over each of which products are summed by one thread
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_MOST_PRODUCTS = 1 << 26  # bytes of the products of single examples, which are added up


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


class _Blocks(NamedTuple):
    """How windows become matrices: of some examples and rows of windows at a time."""

    examples: int
    rows: int
    # Whether the windows of all examples of a block are columns of one matrix. Where an example has few of them, that
    # makes products faster than it costs to reorder the results.
    are_joint: bool


@cache
def _blocks(g: Geometry, inputs: int, examples: int) -> _Blocks:
    depth, places = inputs * g.taps, math.prod(g.out)
    rows = max(1, min(g.out[0], _BLOCK // (depth * math.prod(g.out[1:]))))
    count = max(1, min(examples, _BLOCK // (depth * places)))
    return _Blocks(count, rows, count > 1 and places < _FEW)


def _each(blocks: _Blocks, examples: int, g: Geometry) -> Iterator[tuple[slice, slice]]:
    """The examples and the rows of windows of each block."""
    for i in range(0, examples, blocks.examples):
        for r in range(0, g.out[0], blocks.rows):
            yield slice(i, min(i + blocks.examples, examples)), slice(r, min(r + blocks.rows, g.out[0]))


def _memory(blocks: _Blocks, g: Geometry, depth: int, dtype: np.dtype[Any]) -> Any:
    """Room for the columns of a block."""
    return np.empty((depth, blocks.examples * blocks.rows * math.prod(g.out[1:])), dtype)


def _columns(memory: Any, examples: int, rows: slice, g: Geometry, are_joint: bool) -> tuple[Any, Any]:
    """Memory as columns, (examples, depth, places), and as matrices, (examples or 1, groups, depth/groups, places)."""
    depth, places = len(memory), (rows.stop - rows.start) * math.prod(g.out[1:])
    shape = (depth, examples, places) if are_joint else (examples, depth, places)
    columns = memory.reshape(-1)[: math.prod(shape)].reshape(shape)
    matrices = columns.reshape(1 if are_joint else examples, g.groups, depth // g.groups, -1)
    return columns.swapaxes(0, 1) if are_joint else columns, matrices


def _as_matrices(y: Any, groups: int, are_joint: bool) -> Any:
    """An array over places of windows as (examples or 1, groups, channels, places); a view unless they are joint."""
    if are_joint:
        return y.swapaxes(0, 1).reshape(1, groups, y.shape[1] // groups, -1)
    return y.reshape(len(y), groups, y.shape[1] // groups, -1)


def _windows(x: Any, g: Geometry, blocks: _Blocks) -> Iterator[tuple[slice, slice, Any]]:
    """Windows as matrices, with the examples and rows they are of; each comes in the memory of the one before."""
    depth = x.shape[1] * g.taps
    memory = None if g.is_product else _memory(blocks, g, depth, x.dtype)
    for examples, rows in _each(blocks, len(x), g):
        block = x[examples]
        if g.is_product:
            matrices = _as_matrices(block[:, :, rows], g.groups, blocks.are_joint)
        else:
            columns, matrices = _columns(memory, len(block), rows, g, blocks.are_joint)
            windows.im2col(block, g, rows.start, rows.stop - rows.start, columns)
        yield examples, rows, matrices


def _is_depthwise(inputs: int, g: Geometry) -> bool:
    """Whether each channel has kernels of its own: then there are no matrices to multiply."""
    return inputs == 1 and g.groups > 1


@_in_single
def _convolution_array(x: Any, w: Any, g: Geometry, bias: Any = None) -> Any:
    weight = contiguous(w).reshape(g.groups, w.shape[0] // g.groups, -1)
    out = np.empty((len(x), w.shape[0], *g.out), x.dtype)
    if not (x.size and out.size):
        out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * len(g.out))
        return out
    x, added = contiguous(x), None if bias is None else np.ascontiguousarray(bias, x.dtype)
    if _is_depthwise(w.shape[1], g):
        windows.depthwise(x, weight.reshape(-1, 1, *g.kernel), added, g, out)
        return out
    if not g.is_product and implicit_gemm.correlate(x, weight, added, g, out):
        return out
    plus = None if bias is None else bias.reshape(*weight.shape[:2], 1)
    in_parts(lambda some: _correlate(x[some], weight, plus, g, out[some]), len(x), out.size * weight.shape[2], 2)
    return out


def _correlate(x: Any, weight: Any, plus: Any, g: Geometry, out: Any) -> None:
    blocks = _blocks(g, x.shape[1], len(x))
    for examples, rows, matrices in _windows(x, g, blocks):
        target = out[examples, :, rows]
        results = None if blocks.are_joint else _as_matrices(target, g.groups, False)
        results = np.matmul(weight, matrices, out=results)
        if plus is not None:
            results += plus
        if blocks.are_joint:
            target[...] = results.reshape(target.swapaxes(0, 1).shape).swapaxes(0, 1)


@_in_single
def _convolution_input_array(y: Any, w: Any, g: Geometry) -> Any:
    inputs, results = w.shape[1], w.shape[0] // g.groups
    if not _turns(g, inputs, results, len(y)):
        return _scattered(y, w, g)
    flipped = _flipped(w, g).reshape(g.groups * inputs, results, *g.kernel)
    return _convolution_array(y, flipped, _turned(g))


def _flipped(w: Any, g: Geometry) -> Any:
    """Weights turned around, (groups, inputs, results, taps): a view of them."""
    grouped = w.reshape(g.groups, w.shape[0] // g.groups, *w.shape[1:])
    return np.flip(grouped, tuple(range(3, grouped.ndim))).swapaxes(1, 2)


def _turns(g: Geometry, inputs: int, results: int, examples: int) -> bool:
    """Whether to lay out windows of y, with the kernel turned around, and not to add up those of x."""
    if g.is_product or _turned(g) is None or _is_depthwise(inputs, g):
        return g.is_product
    # That takes two thirds of the time for each element; turning the weights around counts too.
    places = examples * math.prod(g.out)
    return results * (places + 2 * inputs) <= 1.5 * inputs * places


@cache
def _turned(g: Geometry) -> Geometry | None:
    """The convolution of y, with the kernel turned around, that gives x; there is none for strides or much padding."""
    reach = [d * (k - 1) for d, k in zip(g.dilation, g.kernel, strict=True)]
    padding = tuple((r - low, r - high) for r, (low, high) in zip(reach, g.padding, strict=True))
    turned = geometry(g.out, g.kernel, g.stride, padding, g.dilation, g.groups)
    fits = max(g.stride) == 1 and min(map(min, padding)) >= 0 and turned.out == g.size
    return turned if fits else None


def _scattered(y: Any, w: Any, g: Geometry) -> Any:
    """The windows of the input, each a product of weights with one place of y, added up."""
    weight = contiguous(w).reshape(g.groups, w.shape[0] // g.groups, -1)
    out = np.empty((len(y), w.shape[1] * g.groups, *g.size), y.dtype)
    if not (out.size and y.size):
        out[...] = 0
        return out
    y = contiguous(y)
    if _is_depthwise(w.shape[1], g):
        windows.depthwise_input(y, weight.reshape(-1, 1, *g.kernel), g, out)
    elif not implicit_gemm.spread(y, weight, g, out):
        in_parts(lambda some: _scatter(y[some], weight, g, out[some]), len(y), y.size * weight.shape[2], 2)
    return out


def _scatter(y: Any, weight: Any, g: Geometry, out: Any) -> None:
    blocks = _blocks(g, out.shape[1], len(y))
    memory = _memory(blocks, g, out.shape[1] * g.taps, y.dtype)
    for examples, rows in _each(blocks, len(y), g):
        results = _as_matrices(y[examples, :, rows], g.groups, blocks.are_joint)
        target = out[examples]
        columns, matrices = _columns(memory, len(target), rows, g, blocks.are_joint)
        np.matmul(weight.swapaxes(1, 2), results, out=matrices)
        if rows.start == 0:
            target[...] = 0
        windows.col2im(columns, g, rows.start, rows.stop - rows.start, target)


@_in_single
def _convolution_weight_array(x: Any, y: Any, g: Geometry) -> Any:
    inputs = x.shape[1] // g.groups
    shape = (y.shape[1], inputs, *g.kernel)
    if not (x.size and y.size):
        return np.zeros(shape, x.dtype)
    x, y = contiguous(x), contiguous(y)
    total = np.empty(shape, x.dtype)
    if _is_depthwise(inputs, g):
        windows.depthwise_weight(x, y, g, total)
        return total
    if not g.is_product and implicit_gemm.weigh(x, y, g, total):
        return total
    # Sums are over the same examples and in one order, whatever the number of threads.
    work = y.size * inputs * g.taps
    count = min(len(x), _SUMS) if work > LEAST_WORK else 1
    parts = [slice(len(x) * k // count, len(x) * (k + 1) // count) for k in range(count)]
    sums = in_parts(lambda some: [_windows_by(x[part], y[part], g) for part in parts[some]], count, work, 2)
    first, *others = [total for found in sums for total in found]
    for other in others:
        first += other
    return first.swapaxes(1, 2).reshape(shape)


def _windows_by(x: Any, y: Any, g: Geometry) -> Any:
    """The products of all windows of x with what y has at their places, (groups, channels · taps, results)."""
    blocks = _blocks(g, x.shape[1], len(x))
    total: Any = np.zeros((g.groups, x.shape[1] // g.groups * g.taps, y.shape[1] // g.groups), x.dtype)
    for examples, rows, matrices in _windows(x, g, blocks):
        results = _as_matrices(y[examples, :, rows], g.groups, blocks.are_joint)
        for one in np.matmul(matrices, results.swapaxes(2, 3)):
            total += one
    return total


@in_wide_type
def _patches_array(x: Any, g: Geometry) -> Any:
    out = np.empty((*x.shape[:2], *g.kernel, *g.out), x.dtype)
    if out.size:
        windows.im2col(x, g, 0, g.out[0], out.reshape(len(x), x.shape[1] * g.taps, -1))
    return out


@in_wide_type
def _patches_back_array(x: Any, g: Geometry) -> Any:
    out = np.zeros((*x.shape[:2], *g.size), x.dtype)
    if x.size:
        windows.col2im(x.reshape(len(x), x.shape[1] * g.taps, -1), g, 0, g.out[0], out)
    return out


def _biased_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, geometry: Geometry) -> list[Any]:
    (ct,), (x, w, _) = cts, arrays
    return [
        _convolution_input_array(ct, _conj(w), geometry) if needs[0] else None,
        _convolution_weight_array(_conj(x), ct, geometry) if needs[1] else None,
        _sums(ct) if needs[2] else None,
    ]


def _sums(ct: Any) -> Any:
    """The sum of each channel: over places, then over examples."""
    if ct.dtype not in _REAL or not ct.size:
        return np.add.reduce(ct, axis=(0, *range(2, ct.ndim)))
    each = P.sum.kernel(ct, dims=tuple(range(2, ct.ndim)), keepdim=False)
    return P.sum.kernel(each, dims=(0,), keepdim=False)


def _conj(x: Any) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


# --- in compiled programs --------------------------------------------------------------------------


def _enter(steps: Steps, what: str, x: Any, y: Any, w: Any, g: Geometry, bias: Any = None) -> bool:
    """Call loops over windows, if there are some for these: one of the places is written."""
    kind = x.array.dtype
    if any(p.array.dtype != kind or not p.array.size for p in (x, y, w, bias) if p is not None):
        return False
    loops = windows if what.startswith("depthwise") else implicit_gemm
    found = loops.entry(what, x.array, y.array, w.array, g, bias if bias is None else bias.array, most_threads())
    if found is None:
        return False
    address, task, size = found
    places = [p if p is None else steps.ordered(p) for p in (x, y, w, bias)]
    steps.enter(Entry(address, task), (*places, steps.new((size,), np.uint8)))
    return True


def _convolution_steps(steps: Steps, outs: Any, x: Any, w: Any, geometry: Geometry) -> Any:
    return _biased_steps(steps, outs, x, w, None, geometry)


def _biased_steps(steps: Steps, outs: Any, x: Any, w: Any, bias: Any, geometry: Geometry) -> Any:
    (out,), g = outs, geometry
    if _is_depthwise(w.array.shape[1], g):
        return () if _enter(steps, "depthwise", x, out, w, g, bias) else None
    if not g.is_product:
        return () if _enter(steps, "correlate", x, out, w, g, bias) else None
    kind = x.array.dtype
    if not (steps.can_multiply(kind) and kind == w.array.dtype and x.array.size and out.array.size):
        return None
    x, w = steps.ordered(x), steps.ordered(w)
    weight = w.array.reshape(g.groups, w.array.shape[0] // g.groups, -1)
    steps.multiply(w.shown(weight), _by_groups(x, g), _by_groups(out, g))
    if bias is not None:
        each = bias.array.reshape(-1, *(1,) * len(g.out))
        steps.add_into(bias.shown(np.broadcast_to(each, out.array.shape)), out)
    return ()


def _by_groups(place: Any, g: Geometry) -> Any:
    """An array over places as (examples, groups, channels, places)."""
    array = place.array
    return place.shown(array.reshape(len(array), g.groups, array.shape[1] // g.groups, math.prod(g.out)))


def _input_steps(steps: Steps, outs: Any, y: Any, w: Any, geometry: Geometry) -> Any:
    (out,), g = outs, geometry
    inputs, results = w.array.shape[1], w.array.shape[0] // g.groups
    kind = y.array.dtype
    if kind != w.array.dtype or not (y.array.size and out.array.size and w.array.size):
        return None
    if _is_depthwise(inputs, g) and not g.is_product:
        return () if _enter(steps, "depthwise_input", out, y, w, g) else None
    turned = _turned(g) if _turns(g, inputs, results, len(y.array)) else None
    if turned is None:
        return () if _enter(steps, "spread", out, y, w, g) else None
    flipped = steps.new((g.groups, inputs, results, *g.kernel), kind)
    weight = flipped.shown(flipped.array.reshape(g.groups * inputs, results, *g.kernel))
    found = (
        None
        if turned.is_product
        else implicit_gemm.entry("correlate", y.array, out.array, weight.array, turned, None, 1)
    )
    if found is None and not (turned.is_product and steps.can_multiply(kind)):
        return None
    w = steps.ordered(w)
    steps.copy(w.shown(_flipped(w.array, g)), flipped)
    return _convolution_steps(steps, outs, y, weight, turned)


def _biased_back_steps(steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, geometry: Geometry) -> bool:
    (dx, dw, db), (g,), (x, w, _) = outs, cts, operands
    kind = g.array.dtype
    # What neither the loops of windows nor products serve is left to the kernel as a whole.
    if kind not in _REAL or not (g.array.size and x.array.size):
        return False
    if dw is not None and not _has_weight_steps(steps, x, g, dw, geometry):
        return False
    if dx is not None and _input_steps(steps, [dx], g, w, geometry) is None:
        return False
    if dw is not None:
        _weight_steps(steps, [dw], x, g, geometry)
    if db is not None:
        each = steps.new(g.array.shape[:2], kind)
        steps.sum(g, tuple(range(2, g.array.ndim)), each)
        steps.sum(each, (0,), db)
    return True


def _has_weight_steps(steps: Steps, x: Any, y: Any, w: Any, g: Geometry) -> bool:
    kind = x.array.dtype
    if kind != y.array.dtype or not (x.array.size and y.array.size):
        return False
    if _is_depthwise(x.array.shape[1] // g.groups, g):
        return windows.entry("depthwise_weight", x.array, y.array, w.array, g, None, 1) is not None
    if g.is_product:
        return steps.can_multiply(kind) and len(x.array) * w.array.nbytes <= _MOST_PRODUCTS
    return implicit_gemm.entry("weigh", x.array, y.array, w.array, g, None, 1) is not None


def _weight_steps(steps: Steps, outs: Any, x: Any, y: Any, geometry: Geometry) -> Any:
    (out,), g = outs, geometry
    if not _has_weight_steps(steps, x, y, out, g):
        return None
    if _is_depthwise(x.array.shape[1] // g.groups, g):
        return () if _enter(steps, "depthwise_weight", x, y, out, g) else None
    if not g.is_product:
        return () if _enter(steps, "weigh", x, y, out, g) else None
    x, y = [_by_groups(steps.ordered(p), g) for p in (x, y)]
    weight = out.shown(out.array.reshape(g.groups, out.array.shape[0] // g.groups, out.array.shape[1]))
    each = weight if len(x.array) == 1 else steps.new((len(x.array), *weight.array.shape), x.array.dtype)
    steps.multiply(y, x.shown(x.array.swapaxes(2, 3)), each)
    if each is not weight:
        steps.sum(each, (0,), out)
    return ()


lower(
    {
        "convolution": Lowering(_convolution_steps),
        "convolution_input": Lowering(_input_steps),
        "convolution_weight": Lowering(_weight_steps),
        "biased_convolution": Lowering(_biased_steps, _biased_back_steps),
    }
)
fill(
    {
        "convolution": _convolution_array,
        "convolution_input": _convolution_input_array,
        "convolution_weight": _convolution_weight_array,
        "patches": _patches_array,
        "patches_back": _patches_back_array,
        "biased_convolution": WithBackward(
            lambda x, w, bias, geometry: (_convolution_array(x, w, geometry, bias), (None,)), _biased_backward
        ),
    },
    "cpu",
)
