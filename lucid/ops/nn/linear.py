# cython: annotation_typing=True
"""x Wᵀ + b in one step: what most layers are made of."""

import math
from typing import Any

import numpy as np

from lucid.core import kernels, modes
from lucid.core.node import Node
from lucid.core.primitive import Primitive, apply, bare, saved_at, wrapped
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract
from lucid.ops.products import mT
from lucid.ops.promotion import KEEP, promote, raise_unless_alike
from lucid.ops.rules import P, add_all, align, conj

_recording = modes.recording.get
_wrap = Tensor._wrap
_NO_PARAMS: dict[str, Any] = {}


def _pull_input(ct: Any, weight: Any) -> Any:
    if ct.ndim > 1:
        return P.matmul(ct, conj(weight))
    row = P.matmul(P.reshape(ct, shape=(1, *ct.shape)), conj(weight))
    return P.reshape(row, shape=weight.shape[1:])


def _pull_weight(ct: Any, x: Any) -> Any:
    if x.ndim != 2:
        count = math.prod(x.shape[:-1])
        x = P.reshape(x, shape=(count, x.shape[-1]))
        ct = P.reshape(ct, shape=(count, ct.shape[-1]))
    return P.matmul(mT(ct), conj(x))


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, weight, _), (tx, tw, tb) = primals, tangents
    terms = [] if tx is None else [prim(tx, weight, None if tw is not None else tb)]
    if tw is not None:
        terms.append(prim(x, tw, tb))
    if not terms:
        terms = [P.broadcast_to(tb, shape=out.shape)]
    return add_all(terms)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, weight, bias = values
    if batched[1]:
        alone = x.ndim == 1 + batched[0]
        if alone:
            x = P.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
        out = P.matmul(*align((x, mT(weight)), batched[:2], size))
        if alone:
            out = P.reshape(out, shape=(size, out.shape[-1]))
    elif batched[0]:
        out = prim(x, weight, None if batched[2] else bias)
        if not batched[2]:
            return out
    else:
        out = prim(x, weight, None)
    if bias is None:
        return out
    return out + align((bias, out), (batched[2], batched[0] or batched[1]), size)[0]


class _Linear(Primitive):
    """With a short way back for rows of real numbers, in which training spends much of its time."""

    def vjp(self, node: Node, ct: Any) -> Any:
        if isinstance(ct, Tensor):
            return super().vjp(node, ct)
        if ct.ndim < 2 or ct.dtype.char not in "fd":
            return [bare(g) for g in Primitive.vjp(self, node, wrapped(ct))]
        to_x, to_weight, to_bias = node.others  # type: ignore[misc]  # three edges
        front = None
        if ct.ndim > 2:  # all rows as one matrix: one product instead of one for each example
            front = ct.shape[:-1]
            ct = ct.reshape(-1, ct.shape[-1])
        if to_x is not None:
            to_x = P.product.kernel(ct, saved_at(node, 1, ct), False, False)
            if front is not None:
                to_x = to_x.reshape(*front, to_x.shape[1])
        if to_weight is not None:
            x = saved_at(node, 0, ct)
            x = x if front is None else x.reshape(-1, x.shape[-1])
            to_weight = P.product.kernel(ct, x, True, False)
        return to_x, to_weight, None if to_bias is None else kernels.table["column_sums"](np.ascontiguousarray(ct))


# x @ weight.T + bias for x of shape (..., in), weight (out, in), and bias (out,) or None.
linear_primitive = _Linear(
    "linear",
    operands=("x", "weight", "bias"),
    rules=(
        _pull_input,
        _pull_weight,
        lambda ct: P.sum(ct, dims=tuple(range(ct.ndim - 1)), keepdim=False) if ct.ndim > 1 else ct,
    ),
    jvp=_push,
    batch=_batch,
    abstract=lambda x, weight, bias: Abstract((*x.shape[:-1], weight.shape[0]), x.dtype),
)
linear_primitive.pulls_arrays = True


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias.

    >>> import lucid
    >>> from lucid.ops.nn.linear import linear
    >>> linear(lucid.tensor([1.0, 2.0]), lucid.tensor([[1.0, 1.0], [0.0, 1.0]]), lucid.tensor([10.0, 0.0]))
    Tensor([13.,  2.])
    """
    shape, size = weight.shape, x.shape
    if len(shape) != 2 or not size or size[-1] != shape[1] or (bias is not None and bias.shape != shape[:1]):
        raise RuntimeError(
            f"linear: input {size}, weight {shape} and bias {None if bias is None else bias.shape} do not fit; "
            "they need shapes (..., in), (out, in) and (out,)"
        )
    kind = weight.np_dtype
    if x.np_dtype is not kind or (bias is not None and bias.np_dtype is not kind):
        raise_unless_alike("linear", x, weight, bias)
        if bias is None:
            x, weight = promote("linear", (x, weight), KEEP)
        else:
            x, weight, bias = promote("linear", (x, weight, bias), KEEP)
    return apply(linear_primitive, (x, weight, bias), _NO_PARAMS)
