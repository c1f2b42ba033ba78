"""The sum over dimensions as a primitive, with short ways for the ends of most losses."""

import math
from typing import Any

import numpy as np

from lucid.core import modes
from lucid.core.arithmetic import total
from lucid.core.batched import Batched
from lucid.core.cuts import cut
from lucid.core.tensor import Tensor
from lucid.ops.bare import of_one
from lucid.ops.rules import P, expand_reduced, kept_shape, linear, shift


def _sum_array(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    if len(dims) == x.ndim and not keepdim:
        return total(x)
    reduce: Any = np.add.reduce
    return reduce(x, axis=dims, keepdims=keepdim) if dims else x + 0


_SMALL = 1 << 12  # elements that are written in less time than a view with strides of 0 is made in


def _sum_back_array(ct: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Any:
    if math.prod(x_shape) > _SMALL:
        return expand_reduced(ct, x_shape, dims, keepdim)
    out = np.empty(x_shape, ct.dtype)
    if not ct.ndim:
        out.fill(ct)
    else:
        out[...] = ct if keepdim else ct.reshape(kept_shape(x_shape, dims))
    return out


sum_primitive = linear(
    "sum",
    _sum_array,
    transpose=lambda ct, x_shape, dims, keepdim: expand_reduced(ct, x_shape, dims, keepdim),
    batch=lambda x, size, dims, keepdim: P.sum(x, dims=shift(dims), keepdim=keepdim),
    back=_sum_back_array,
)


_general = sum_primitive.vjp


def _pull_sum(node: Any, ct: Any) -> Any:
    """The same for tensors where nothing is recorded: one seed for a batch, or a number for each of its examples."""
    if not modes.recording.get():
        shape, dims, keepdim = node.saved[2], node.params["dims"], node.params["keepdim"]
        if type(ct) is Batched and ct._aux is None:
            found = of_one(lambda c: _sum_back_array(c, (len(c), *shape), shift(dims), keepdim), ct)
            if found is not None:
                return (found,)
        elif type(ct) is Tensor and math.prod(shape) <= _SMALL:
            return (Tensor._wrap(_sum_back_array(ct._array, shape, dims, keepdim)),)
    return _general(node, ct)


sum_primitive.vjp = _pull_sum  # type: ignore[method-assign]  # found before the method, and calls it


def sum_of_examples(input: Any, keepdim: bool) -> Any:
    """The sum of all elements of each example; None if there is more to it."""
    dims = tuple(range(input._array._array.ndim - (input._aux is None)))
    over = dims if input._aux is not None else shift(dims)
    made = of_one(lambda x: _sum_array(x, over, keepdim), input)
    if made is not None and input._requires_grad:
        if modes.recording.get():
            sum_primitive.record((input,), (True,), made, {"dims": dims, "keepdim": keepdim})
        else:
            cut("no_grad", input)
    return made
