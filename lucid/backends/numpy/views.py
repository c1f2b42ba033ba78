"""Views and other rearrangements."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.memory import restrided
from lucid.core.kernels import fill
from lucid.tape.geometry import placed

ndarray = np.ndarray


def _broadcast_array(x: Any, shape: tuple[int, ...]) -> Any:
    """`np.broadcast_to`, a few microseconds faster for what backward passes do most."""
    if not x.ndim and type(x) is ndarray and shape and x.dtype.isbuiltin == 1:
        out = ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
        out.flags.writeable = False
        return out
    if x.shape == shape:
        return x.view()
    extra = len(shape) - x.ndim
    if extra >= 0 and type(x) is ndarray and x.dtype.isbuiltin == 1 and x.flags.c_contiguous:
        strides = [0] * extra + list(x.strides)
        for d, n in enumerate(x.shape, extra):
            if n == 1 and shape[d] != 1:
                strides[d] = 0
            elif n != shape[d]:
                break
        else:
            out = ndarray(shape, x.dtype, x, 0, strides)
            # Only where elements share memory must writes be refused.
            if x.size != out.size or not x.flags.writeable:
                out.flags.writeable = False
            return out
    return np.broadcast_to(x, shape)


def _slice_array(x: Any, index: tuple[Any, ...]) -> Any:
    out = x[index]
    # A full set of integers gives a scalar; with an Ellipsis it is a 0-d view.
    return out if type(out) is ndarray else x[(*index, ...)]


def _slice_back_array(x: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def _parts_back_array(*xs: Any, places: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, np.result_type(*{x.dtype for x in xs}))
    for x, place in zip(xs, places, strict=True):
        part = placed(out, place)
        part += x
    return out


def _writable(out: Any, x: Any) -> Any:
    """NumPy hands out diagonals read-only."""
    if type(out) is ndarray and isinstance(x, ndarray) and x.flags.writeable:
        out.flags.writeable = True
    return out


def _diagonal_back_array(x: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    out = np.zeros(shape, x.dtype)
    _writable(np.diagonal(out, offset, dim1, dim2), out)[...] = x
    return out


def _unfold_array(x: Any, dim: int, size: int, step: int) -> Any:
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    if 0 in shape:
        return x.reshape(-1)[:0].reshape(shape)
    out = restrided(x, shape, strides)
    out.flags.writeable = (step >= size or count == 1) and x.flags.writeable
    return out


def _unfold_back_array(x: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    out = np.zeros(shape, x.dtype)
    if step >= size:  # windows that do not overlap
        _unfold_array(out, dim, size, step)[...] = x
        return out
    index: list[Any] = [slice(None)] * len(shape)
    count = x.shape[dim]
    for k in range(size):
        index[dim] = slice(k, k + (count - 1) * step + 1, step)
        out[tuple(index)] += x[..., k]
    return out


_SMALL = 1 << 12  # elements that are written in less time than a view with strides of 0 is made in


def _spread(x: Any, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    kept = x.reshape([1 if i in dims else n for i, n in enumerate(shape)]) if x.ndim else x
    if math.prod(shape) > _SMALL:
        return _broadcast_array(kept, shape)
    out = np.empty(shape, x.dtype)
    out[...] = kept
    return out


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum `x` down to `shape`."""
    extra = x.ndim - len(shape)
    dims = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1))
    return (np.add.reduce(x, axis=dims) if dims else x).reshape(shape)


def _write_view(base: Any, new: Any, through: Any, settings: dict[str, Any]) -> Any:
    out = np.array(base, order="C")  # in another order, some views would be copies
    through.kernel(out, **settings)[...] = new
    return out


fill(
    {
        "spread": _spread,
        "write_view": _write_view,
        "detach": lambda x: x.view(),
        "no_grad": lambda x: x.view(),
        "other_value": lambda old, new, pushed: new.view(),
        "reshape": lambda x, shape: x.reshape(shape),
        "permute": lambda x, dims: x.transpose(dims),
        "broadcast_to": _broadcast_array,
        "slice": _slice_array,
        "slice_back": _slice_back_array,
        "parts_back": _parts_back_array,
        "diagonal": lambda x, offset, dim1, dim2: _writable(x.diagonal(offset, dim1, dim2), x),
        "diagonal_back": _diagonal_back_array,
        "unfold": lambda x, dim, window, step: _unfold_array(x, dim, window, step),
        "unfold_back": lambda x, shape, dim, window, step: _unfold_back_array(x, shape, dim, window, step),
        "flip": lambda x, dims: np.array(np.flip(x, dims), order="C"),
        "roll": lambda x, shifts, dims: np.roll(x, shifts, dims),
        "clone": lambda x: x.copy(),
        "alias": lambda x: x.view(),
        "tril": lambda x, diagonal: np.tril(x, diagonal),
        "triu": lambda x, diagonal: np.triu(x, diagonal),
        "cat": lambda *xs, dim: np.concatenate(xs, axis=dim),
        "stack": lambda *xs, dim: np.stack(xs, axis=dim),
    }
)
