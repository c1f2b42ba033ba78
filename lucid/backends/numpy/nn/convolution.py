"""Convolution in any number of dimensions: sums of products over all windows.

Labels: examples n, groups g, channels c of the input and q of the result in a group, taps t and places p.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from lucid.backends.numpy.nn.windows import col2im, im2col
from lucid.backends.numpy.precision import in_single
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.ops.nn.convolution import Geometry


def in_wide_type(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Small types are moved and added up in larger ones of their kind."""

    @wraps(kernel)
    def run(x: Any, geometry: Geometry) -> Any:
        kind = x.dtype
        wide = kind if kind.itemsize > 2 else np.float32 if kind in dtypes.FLOATING else np.int32
        return kernel(np.ascontiguousarray(x, wide), geometry).astype(kind, copy=False)

    return run


@in_wide_type
def _patches(x: Any, g: Geometry) -> Any:
    out = np.empty((*x.shape[:2], *g.kernel, *g.out), x.dtype)
    if out.size:
        im2col(x, g, 0, g.out[0], out)
    return out


@in_wide_type
def _patches_back(x: Any, g: Geometry) -> Any:
    out = np.zeros((*x.shape[:2], *g.size), x.dtype)
    if x.size:
        col2im(x, g, 0, g.out[0], out)
    return out


def _split(x: Any, dim: int, groups: int, *behind: int) -> Any:
    """A dimension as groups and what each has, with the dimensions behind it as so many."""
    return x.reshape(*x.shape[:dim], groups, x.shape[dim] // groups, *behind)


def _places(g: Geometry) -> int:
    return int(np.prod(g.out))


@in_single
def _convolution(x: Any, w: Any, geometry: Geometry) -> Any:
    g = geometry
    windows = _split(_patches(x, g), 1, g.groups, g.taps, _places(g))
    out = np.einsum("ngctp,gqct->ngqp", windows, _split(w, 0, g.groups, w.shape[1], g.taps))
    return out.reshape(len(x), len(w), *g.out)


@in_single
def _convolution_input(y: Any, w: Any, geometry: Geometry) -> Any:
    g = geometry
    weights = _split(w, 0, g.groups, w.shape[1], g.taps)
    windows = np.einsum("ngqp,gqct->ngctp", _split(y, 1, g.groups, _places(g)), weights)
    return _patches_back(windows.reshape(len(y), g.groups * w.shape[1], *g.kernel, *g.out), g)


@in_single
def _convolution_weight(x: Any, y: Any, geometry: Geometry) -> Any:
    g = geometry
    windows = _split(_patches(x, g), 1, g.groups, g.taps, _places(g))
    out = np.einsum("ngctp,ngqp->gqct", windows, _split(y, 1, g.groups, _places(g)))
    return out.reshape(y.shape[1], x.shape[1] // g.groups, *g.kernel)


fill(
    {
        "convolution": _convolution,
        "convolution_input": _convolution_input,
        "convolution_weight": _convolution_weight,
        "patches": _patches,
        "patches_back": _patches_back,
    }
)
