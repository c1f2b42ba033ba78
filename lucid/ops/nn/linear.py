# cython: annotation_typing=True
"""x Wᵀ + b in one step: what most layers are made of."""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import gemm, rowwise
from lucid.core import modes
from lucid.core.cuts import cut
from lucid.core.fields import TensorFields
from lucid.core.node import Node, array_of, save_input
from lucid.core.primitive import Primitive, attach, edge_of, synced
from lucid.core.tensor import Tensor
from lucid.ops.products import dot, mT
from lucid.ops.promotion import KEEP, promote, raise_unless_alike
from lucid.ops.rules import P, add_all, align, conj

_recording = modes.recording.get
_wrap = Tensor._wrap
_NO_PARAMS: dict[str, Any] = {}


def _linear_array(x: Any, weight: Any, bias: Any) -> Any:
    if x.dtype.char not in "fd" or x.ndim < 2:
        out = P.matmul.impl(x, weight.T)
        return out if bias is None else np.add(out, bias, out)
    matrix = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = None if bias is None or bias.dtype is not x.dtype else gemm.product(matrix, weight.T, bias)
    if out is None:
        out = dot(matrix, weight.T)
        if bias is not None:
            if bias.dtype is out.dtype and bias.flags.c_contiguous and out.flags.c_contiguous:
                rowwise.add_bias(out, bias)
            else:
                np.add(out, bias, out)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], out.shape[1])


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
        saved = node.saved
        if type(ct) is not np.ndarray or ct.ndim < 2 or ct.dtype.char not in "fd" or type(saved) is not tuple:
            return super().vjp(node, ct)
        to_x, to_weight, to_bias = node.others  # type: ignore[misc]  # three edges
        front = None
        if ct.ndim > 2:  # all rows as one matrix: one product instead of one for each example
            front = ct.shape[:-1]
            ct = ct.reshape(-1, ct.shape[-1])
        if to_x is not None:
            to_x = dot(ct, array_of(node, saved[1]))
            if front is not None:
                to_x = to_x.reshape(*front, to_x.shape[1])
        if to_weight is not None:
            x = array_of(node, saved[0])
            to_weight = dot(ct.T, x if front is None else x.reshape(-1, x.shape[-1]))
        return to_x, to_weight, None if to_bias is None else rowwise.column_sums(np.ascontiguousarray(ct))


# x @ weight.T + bias for x of shape (..., in), weight (out, in), and bias (out,) or None.
linear_primitive = _Linear(
    "linear",
    _linear_array,
    operands=("x", "weight", "bias"),
    rules=(
        _pull_input,
        _pull_weight,
        lambda ct: P.sum(ct, dims=tuple(range(ct.ndim - 1)), keepdim=False) if ct.ndim > 1 else ct,
    ),
    jvp=_push,
    batch=_batch,
)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias.

    >>> import lucid
    >>> from lucid.ops.nn.linear import linear
    >>> linear(lucid.tensor([1.0, 2.0]), lucid.tensor([[1.0, 1.0], [0.0, 1.0]]), lucid.tensor([10.0, 0.0]))
    Tensor([13.,  2.])
    """
    if type(x) is not Tensor or type(weight) is not Tensor or (bias is not None and type(bias) is not Tensor):
        return _general(x, weight, bias)
    a: TensorFields = x
    b: TensorFields = weight
    c: TensorFields | None = bias
    if a._meta is not None:
        synced(a)
    if b._meta is not None:
        synced(b)
    if c is not None and c._meta is not None:
        synced(c)
    array, matrix = a._array, b._array
    kind = matrix.dtype
    offset = None if c is None else c._array
    if array.dtype is not kind or (offset is not None and offset.dtype is not kind):
        return _general(x, weight, bias)
    if matrix.ndim != 2 or not array.ndim or (offset is not None and offset.shape != matrix.shape[:1]):
        _check(x, weight, bias)
    try:
        out = _wrap(_linear_array(array, matrix, offset))
    except ValueError:
        _check(x, weight, bias)
        raise
    need_x, need_w, need_b = a._requires_grad, b._requires_grad, c is not None and c._requires_grad
    if not (need_x or need_w or need_b):
        return out
    if not _recording():
        cut("no_grad", x if need_x else weight if need_w else bias)
        return out
    edges = (
        (x if a._node is None else a._node) if need_x else None,
        (weight if b._node is None else b._node) if need_w else None,
        edge_of(bias) if need_b else None,  # type: ignore[arg-type]  # not None if needed
    )
    saved = (save_input(a) if need_w else None, save_input(b) if need_x else None, None, None)
    attach(out, linear_primitive, None, None, edges, saved, -1, None, _NO_PARAMS, out._array.shape)
    return out


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    shape, size = weight.shape, x.shape
    if len(shape) != 2 or not size or size[-1] != shape[1] or (bias is not None and bias.shape != shape[:1]):
        raise RuntimeError(
            f"linear: input {size}, weight {shape} and bias {None if bias is None else bias.shape} do not fit; "
            "they need shapes (..., in), (out, in) and (out,)"
        )


def _general(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Operands of any kind, and of several types."""
    _check(x, weight, bias)
    raise_unless_alike("linear", x, weight, bias)
    if bias is None:
        x, weight = promote("linear", (x, weight), KEEP)
    else:
        x, weight, bias = promote("linear", (x, weight, bias), KEEP)
    return P.linear(x, weight, bias)
