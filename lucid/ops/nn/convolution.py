"""Convolution in any number of dimensions, as products of matrices of windows.

With an input `x`, weights `w` and a result `y`, everything follows from one form that is linear in each of the three,

    T(x, w, y) = Σ x[n, c, s·o + d·k - p] · w[q, c, k] · y[n, q, o],

summed over examples n, channels c and q (of the same group), taps k and places o. `convolution` makes y from x and w,
`convolution_input` makes x from y and w (it is transposed convolution), `convolution_weight` makes w from x and y. Each
is the derivative of the other two, so the three are closed under differentiation of any order.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract
from lucid.ops.categories import bilinear_jvp, linear
from lucid.ops.fused import Fused
from lucid.ops.rules import P, conj
from lucid.ops.views import inverse

Sizes = tuple[int, ...]


Pairs = tuple[tuple[int, int], ...]


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


ndarray = np.ndarray


# --- arrays ------------------------------------------------------------------------------------


# --- primitives --------------------------------------------------------------------------------


# The operands and the result of each member by their letters in the form above, and the leading dimensions of each
# letter: examples N, groups G, channels C of the input, channels Q of the result.
_MEMBERS = {"convolution": "xwy", "convolution_input": "ywx", "convolution_weight": "xyw"}
_DIMS = {"x": "NGC", "w": "GQC", "y": "NGQ"}


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
    # What lies between places, or between taps, is of no account where there is but one of them.
    stride = tuple(s if o > 1 else 1 for s, o in zip(stride, out, strict=True))
    dilation = tuple(d if k > 1 else 1 for d, k in zip(dilation, kernel, strict=True))
    taps = math.prod(kernel)
    is_product = taps == 1 and out == size and not any(map(any, padding))
    return Geometry(size, kernel, stride, padding, dilation, groups, out, taps, is_product)


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


def _result(x: Any, w: Any, *bias: Any, geometry: Geometry) -> Abstract:
    """Examples, channels of the result and places."""
    return Abstract((x.shape[0], w.shape[0], *geometry.out), x.dtype)


def _window_work(result: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Each element of the result of a convolution takes one filter."""
    return math.prod(result) * math.prod(weight[1:])


convolution = Primitive(
    "convolution",
    operands=("x", "w"),
    rules=(
        lambda ct, w, geometry: P.convolution_input(ct, conj(w), geometry=geometry),
        lambda ct, x, geometry: P.convolution_weight(conj(x), ct, geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
    abstract=_result,
    category="contraction",
    multiply_adds=lambda shapes, out, params: _window_work(out, shapes[1]),
)

convolution_input = Primitive(
    "convolution_input",
    operands=("y", "w"),
    rules=(
        lambda ct, w, geometry: P.convolution(ct, conj(w), geometry=geometry),
        lambda ct, y, geometry: P.convolution_weight(ct, conj(y), geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
    abstract=lambda y, w, geometry: Abstract((y.shape[0], w.shape[1] * geometry.groups, *geometry.size), y.dtype),
    category="contraction",
    multiply_adds=lambda shapes, out, params: _window_work(shapes[0], shapes[1]),
)

convolution_weight = Primitive(
    "convolution_weight",
    operands=("x", "y"),
    rules=(
        lambda ct, y, geometry: P.convolution_input(conj(y), ct, geometry=geometry),
        lambda ct, x, geometry: P.convolution(conj(x), ct, geometry=geometry),
    ),
    jvp=bilinear_jvp,
    batch=_batch,
    abstract=lambda x, y, geometry: Abstract((y.shape[1], x.shape[1] // geometry.groups, *geometry.kernel), x.dtype),
    category="contraction",
    multiply_adds=lambda shapes, out, params: _window_work(shapes[1], out),
)


def _by_example(name: str) -> Callable[..., Any]:
    """Batching of a primitive that treats every example alike: the batch becomes part of the examples."""

    def batch(x: Any, size: int, geometry: Geometry) -> Any:
        out = getattr(P, name)(P.reshape(x, shape=(size * x.shape[1], *x.shape[2:])), geometry=geometry)
        return P.reshape(out, shape=(size, x.shape[1], *out.shape[1:]))

    return batch


# All windows of an input, (examples, channels, *kernel, *places); overlapping windows add up on the way back.
patches = linear(
    "patches",
    transpose=lambda ct, geometry: P.patches_back(ct, geometry=geometry),
    batch=_by_example("patches"),
    abstract=lambda x, geometry: Abstract((*x.shape[:2], *geometry.kernel, *geometry.out), x.dtype),
    category="gather",
)

patches_back = linear(
    "patches_back",
    transpose=lambda ct, geometry: P.patches(ct, geometry=geometry),
    batch=_by_example("patches_back"),
    abstract=lambda x, geometry: Abstract((*x.shape[:2], *geometry.size), x.dtype),
    category="scatter",
)


def _plus_bias(x: Any, w: Any, bias: Any, geometry: Geometry) -> Any:
    return P.convolution(x, w, geometry=geometry) + P.reshape(bias, shape=(bias.shape[0], *(1,) * len(geometry.out)))


# A convolution that adds a bias to each block of results while it is at hand.
biased_convolution = Fused("biased_convolution", _plus_bias, operands=("x", "w", "bias"), abstract=_result)
