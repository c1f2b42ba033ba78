# cython: annotation_typing=True
"""x Wᵀ + b in one step: what most layers are made of."""

from typing import Any

from lucid.arguments.promotion import KEEP, promote, raise_unless_alike
from lucid.core import kernels
from lucid.core.fields import TensorFields
from lucid.core.primitive import Primitive, apply
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract
from lucid.ops.contraction import LETTERS, Labels, labelled, multiplied, pulled_left, pulled_right
from lucid.ops.fused import batch_by_composite
from lucid.ops.rules import P, add_all

_NO_PARAMS: dict[str, Any] = {}


_of_rank: list[Labels] = []


def _labels(rank: int) -> Labels:
    """Those of the product of an input with this many dimensions and the weight."""
    while len(_of_rank) <= rank:
        lead = "".join(c for c in LETTERS if c not in "io")[: max(len(_of_rank) - 1, 0)]
        _of_rank.append(labelled(lead + "i", "oi", lead + "o"))
    return _of_rank[rank]


def _composite(x: Any, weight: Any, bias: Any) -> Any:
    out = multiplied(x, weight, _labels(x.ndim))
    return out if bias is None else out + bias


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, weight, _), (tx, tw, tb) = primals, tangents
    terms = [] if tx is None else [prim(tx, weight, None if tw is not None else tb)]
    if tw is not None:
        terms.append(prim(x, tw, tb))
    if not terms:
        terms = [P.broadcast_to(tb, shape=out.shape)]
    return add_all(terms)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """More rows of an input are one product with its epilogue."""
    if batched[1] or batched[2]:
        return batch_by_composite(prim, values, batched, size, params)
    return prim(*values)


def _pull_bias(ct: Any) -> Any:
    rank = len(ct.shape)
    if rank == 1:
        return ct
    if isinstance(ct, TensorFields):
        return P.sum(ct, dims=tuple(range(rank - 1)), keepdim=False)
    return kernels.table["column_sums"](ct)


# x @ weight.T + bias for x of shape (..., in), weight (out, in), and bias (out,) or None.
linear_primitive = Primitive(
    "linear",
    operands=("x", "weight", "bias"),
    rules=(
        lambda ct, weight: pulled_left(ct, weight, _labels(len(ct.shape))),
        lambda ct, x: pulled_right(ct, x, _labels(len(ct.shape))),
        _pull_bias,
    ),
    jvp=_push,
    batch=_batch,
    abstract=lambda x, weight, bias: Abstract((*x.shape[:-1], weight.shape[0]), x.dtype),
    category="fused",
    composite=_composite,
    pulls_arrays=True,
)


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
