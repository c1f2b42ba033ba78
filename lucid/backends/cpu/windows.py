"""Windows of an input as columns and back (im2col, col2im), and depthwise convolution.

A geometry `g` is that of `lucid.ops.nn.convolution`; columns are (examples, channels · taps, places). The loops of
windows.pyx need arrays of one type whose rows are contiguous, and do without copies of padded inputs and without
temporary arrays.

Generation does not reach convolution, whose windows are read in place.
"""

from typing import Any

import numpy as np

from lucid.backends.numpy.nn.windows import col2im as col2im
from lucid.backends.numpy.nn.windows import im2col as im2col
from lucid.backends.numpy.nn.windows import padded, seen, taps


def _multiplied(array: Any, channels: int) -> Any:
    """(examples, channels · results, ...) with the results of each channel as a dimension of their own."""
    return array.reshape(len(array), channels, array.shape[1] // channels, *array.shape[2:])


def _weights(w: Any, channels: int, tap: tuple[int, ...]) -> Any:
    """What a tap has for (channels, results), in the shape that broadcasts against results."""
    return w[(slice(None), 0, *tap)].reshape(channels, -1, *(1,) * len(tap))


def depthwise(x: Any, w: Any, bias: Any, g: Any, out: Any) -> None:
    """Write the convolution of each channel of x with kernels of its own."""
    out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * len(g.out))
    field, results = padded(x, g, 0, g.out[0]), _multiplied(out, x.shape[1])
    for tap, where in taps(g, g.out[0]):
        results += field[(..., *where)][:, :, None] * _weights(w, x.shape[1], tap)


def depthwise_input(y: Any, w: Any, g: Any, out: Any) -> None:
    """Write what `depthwise` gives y from, going back."""
    sizes, here, there = seen(g, 0, g.out[0])
    total: Any = np.zeros((*out.shape[:2], *sizes), out.dtype)
    results = _multiplied(y, out.shape[1])
    for tap, where in taps(g, g.out[0]):
        total[(..., *where)] += np.add.reduce(results * _weights(w, out.shape[1], tap), axis=2)
    out[...] = 0
    out[(..., *there)] = total[(..., *here)]


def depthwise_weight(x: Any, y: Any, g: Any, out: Any) -> None:
    """Write the gradient of the weights of `depthwise`, where y has that of its result."""
    field, results = padded(x, g, 0, g.out[0]), _multiplied(y, x.shape[1])
    dims = (0, *range(3, results.ndim))
    for tap, where in taps(g, g.out[0]):
        found = np.add.reduce(results * field[(..., *where)][:, :, None], axis=dims)
        out[(slice(None), 0, *tap)] = found.reshape(-1)


def entry(what: str, x: Any, y: Any, w: Any, g: Any, bias: Any, threads: int) -> tuple[int, bytes, int] | None:
    """The entry point of one of these: its address, its task, and how many bytes its room is; None without loops."""
    return None
