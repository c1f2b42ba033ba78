"""The cross entropy of scores and class indices in one step, and the linear maps that its derivatives are made of.

Scores have shape (N, C, ...) and targets (N, ...). Rows whose target is `ignore_index` have no part in anything.
"""

from typing import Any

from lucid.core import dtypes
from lucid.core.fields import TensorFields
from lucid.core.primitive import Primitive, apply, bare, element_type, lift
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.abstract import Abstract, same
from lucid.ops.categories import Check
from lucid.ops.nn.rows import Row
from lucid.ops.rules import P, add_all, batched_to_front

NONE, MEAN, SUM = "none", "mean", "sum"


def _push_linear(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """Forward mode of maps that are linear in the first operand, beside targets."""
    return prim(tangents[0], *primals[1:], **params)


def _merged(values: Any, batched: Any, size: int) -> tuple[list[Any], int]:
    """The batch and the rows as one dimension, and the number of rows."""
    front = batched_to_front(values, batched, size)
    rows = front[0].shape[1]
    return [P.reshape(v, shape=(size * rows, *v.shape[2:])) for v in front], rows


def _batch_rows(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """Rows do not know of each other, so a batch of them is more rows."""
    merged, rows = _merged(values, batched, size)
    out = prim(*merged, **params)
    return P.reshape(out, shape=(size, rows, *out.shape[1:]))


def _like_targets(x: Any, target: Any, **params: Any) -> Abstract:
    """A number for each target."""
    return Abstract(target.shape, x.dtype)


_CLASSES = Check("that targets are classes")

# x[n, target[n, ...], ...], and 0 where the target is ignored.
pick_class = Primitive(
    "pick_class",
    operands=("x", "target"),
    rules=(
        lambda ct, target, x_shape, ignore_index: P.place_class(
            ct, target, classes=x_shape[1], ignore_index=ignore_index
        ),
        None,
    ),
    jvp=_push_linear,
    batch=_batch_rows,
    abstract=_like_targets,
    category="gather",
    checks=_CLASSES,
)
# Its transpose: zeros with x at the targets.
place_class = Primitive(
    "place_class",
    operands=("x", "target"),
    rules=(lambda ct, target, ignore_index: P.pick_class(ct, target, ignore_index=ignore_index), None),
    jvp=_push_linear,
    batch=_batch_rows,
    abstract=lambda x, target, classes, ignore_index: Abstract((x.shape[0], classes, *x.shape[1:]), x.dtype),
    category="scatter",
    checks=_CLASSES,
)


def _batch_fold(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **{**params, "lead": params["lead"] + 1})


def _folded(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Abstract:
    """What is left of the rows: all of them, or one number for each index of the first `lead` dimensions."""
    return Abstract(target.shape if reduction == NONE else target.shape[:lead], x.dtype)


def _transposed(name: str) -> Any:
    return lambda ct, target, ignore_index, reduction, lead: getattr(P, name)(
        ct, target, ignore_index=ignore_index, reduction=reduction, lead=lead
    )


# The sum or mean of the rows that count, apart for each index of the first `lead` dimensions; and its transpose.
fold_rows = Primitive(
    "fold_rows",
    operands=("x", "target"),
    rules=(_transposed("spread_rows"), None),
    jvp=_push_linear,
    batch=_batch_fold,
    abstract=_folded,
    category="movement",
)
spread_rows = Primitive(
    "spread_rows",
    operands=("x", "target"),
    rules=(_transposed("fold_rows"), None),
    jvp=_push_linear,
    batch=_batch_fold,
    abstract=_like_targets,
    category="movement",
)


def _batch_nll(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    (x, target), rows = _merged(values, batched, size)
    losses = prim(x, target, **{**params, "reduction": NONE})
    losses, target = (P.reshape(v, shape=(size, rows, *v.shape[1:])) for v in (losses, target))
    return losses if params["reduction"] == NONE else P.fold_rows(losses, target, lead=1, **params)


def _batch_nll_back(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    g, target = batched_to_front(values, batched, size)
    rest = {name: params[name] for name in ("ignore_index", "reduction")}
    g = P.spread_rows(g, target, lead=1, **rest)
    return _batch_rows(prim, (g, target), (True, True), size, {**params, "reduction": NONE})


# -fold_rows(pick_class(x)) in one step, and its transpose.
nll = Primitive(
    "nll",
    operands=("x", "target"),
    rules=(
        lambda ct, target, x_shape, ignore_index, reduction: P.nll_back(
            ct, target, classes=x_shape[1], ignore_index=ignore_index, reduction=reduction
        ),
        None,
    ),
    jvp=_push_linear,
    batch=_batch_nll,
    abstract=lambda x, target, ignore_index, reduction: _folded(x, target, ignore_index, reduction, 0),
    category="gather",
    checks=_CLASSES,
)
nll_back = Primitive(
    "nll_back",
    operands=("x", "target"),
    rules=(
        lambda ct, target, ignore_index, reduction: P.nll(ct, target, ignore_index=ignore_index, reduction=reduction),
        None,
    ),
    jvp=_push_linear,
    batch=_batch_nll_back,
    abstract=lambda x, target, classes, ignore_index, reduction: Abstract(
        (target.shape[0], classes, *target.shape[1:]), x.dtype
    ),
    category="scatter",
    checks=_CLASSES,
)


def loss_of_row(row: Row, x: Any, target: Any) -> tuple[Any, Any]:
    """log Σ exp(x) - x[target] of the scores of a row, and e = exp(x - max x)."""
    most = row.max(x)
    e = P.exp(x - most)
    return P.log(row.sum(e)) - (row.sum(P.where(row.index == target, x, 0.0)) - most), e


def loss_of_row_back(row: Row, e: Any, g: Any, target: Any) -> Any:
    """The cotangent of scores, from that of the loss of their row: (e / Σe - onehot(target)) · g."""
    return e * (g / row.sum(e)) - P.where(row.index == target, g, 0.0)


def _per_class(rows: Any) -> Any:
    return P.reshape(rows, shape=(rows.shape[0], 1, *rows.shape[1:]))


def _sum(x: Any, keepdim: bool = True) -> Any:
    return P.sum(x, dims=(1,), keepdim=keepdim)


def _loss_change(x: Any, e: Any, target: Any, ignore_index: int) -> Any:
    """What a change x of the scores changes the loss of each row by: its mean under softmax, less that of the target."""
    return _sum(e * x, False) / _sum(e, False) - P.pick_class(x, target, ignore_index=ignore_index)


def _rows(g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    """The cotangent of each row, from that of the loss."""
    return _per_class(P.spread_rows(g, target, ignore_index=ignore_index, reduction=reduction, lead=0))


def _pull_exponentials(ct: Any, e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    total = _sum(e)
    return (ct - _sum(ct * e) / total) * (_rows(g, target, ignore_index, reduction) / total)


def _pull_loss(ct: Any, e: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    changes = _loss_change(ct, e, target, ignore_index)
    return P.fold_rows(changes, target, ignore_index=ignore_index, reduction=reduction, lead=0)


def _push_back(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (e, g, target), (te, tg, _) = primals, tangents
    terms = [] if tg is None else [prim(e, tg, target, **params)]
    if te is not None:
        total = _sum(e)
        terms.append((te - e * (_sum(te) / total)) * (_rows(g, target, **params) / total))
    return add_all(terms)


def _batch_back(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    e, g, target = batched_to_front(values, batched, size)
    g = P.spread_rows(g, target, lead=1, **params)
    return _batch_rows(prim, (e, g, target), (True, True, True), size, {**params, "reduction": NONE})


# (e / Σe - onehot(target)) · rows: the gradient of the scores, where the cotangent g of the loss is that of each row.
cross_entropy_back = Primitive(
    "cross_entropy_back",
    operands=("e", "g", "target"),
    rules=(_pull_exponentials, _pull_loss, None),
    jvp=_push_back,
    batch=_batch_back,
    abstract=same,
    category="fused",
    is_polynomial=True,
)


def _push_cross_entropy(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> tuple[Any, Any]:
    target, t, e = primals[1], tangents[0], out[1]
    return _pull_loss(t, e, target, **params), e * t


def _batch_cross_entropy(prim: Any, values: Any, batched: Any, size: int, params: Any) -> tuple[Any, Any]:
    (x, target), rows = _merged(values, batched, size)
    losses, e = prim(x, target, **{**params, "reduction": NONE})
    losses, target = (P.reshape(v, shape=(size, rows, *v.shape[1:])) for v in (losses, target))
    if params["reduction"] != NONE:
        losses = P.fold_rows(losses, target, lead=1, **params)
    return losses, P.reshape(e, shape=(size, rows, *e.shape[1:]))


def _pull_cross_entropy(cts: Any, e: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    to_loss, to_e = cts
    if to_e is None and not isinstance(to_loss, TensorFields):
        return cross_entropy_back.kernel(e, to_loss, target, ignore_index, reduction)
    terms = [] if to_e is None else [lift(to_e) * lift(e)]
    if to_loss is not None:
        terms.append(P.cross_entropy_back(e, to_loss, target, ignore_index=ignore_index, reduction=reduction))
    found = add_all(terms)
    return found if isinstance(e, TensorFields) else bare(found)


# Gives the loss and, for its derivative, e = exp(x - s), which is all of x that the tape keeps. The shifts s, one for each
# row, count as constants. That is right since e is only ever used up to a factor.
cross_entropy_primitive = Primitive(
    "cross_entropy",
    operands=("x", "target"),
    results=("loss", "e"),
    rules=(_pull_cross_entropy, None),
    jvp=_push_cross_entropy,
    batch=_batch_cross_entropy,
    abstract=lambda x, target, ignore_index, reduction: (_folded(x, target, ignore_index, reduction, 0), same(x)),
    category="fused",
    checks=_CLASSES,
    pulls_arrays=True,
    pulls_new=True,
)


def cross_entropy(x: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = MEAN) -> Tensor:
    """The mean (or sum, or each) of -log softmax(x)[target], over the classes in dimension 1.

    >>> import lucid
    >>> from lucid.ops.nn.cross_entropy import cross_entropy
    >>> x = lucid.tensor([[0.0, 0.0], [0.0, 1000.0]], requires_grad=True)
    >>> loss = cross_entropy(x, lucid.tensor([0, 1]))
    >>> loss.backward()
    >>> x.grad
    Tensor([[-0.25,  0.25],
            [ 0.  ,  0.  ]])
    """
    raise_unless_classes("cross_entropy", x, target)
    params = {"ignore_index": ignore_index, "reduction": reduction}
    return apply(cross_entropy_primitive, (x, target), params)[0]


def raise_unless_classes(name: str, x: Tensor, target: Tensor) -> None:
    """Scores (N, C, ...) of floats and targets (N, ...) of integers, or a message that says what is wrong."""
    if element_type(x) not in dtypes.FLOATING:
        raise TypeError(f"{name}: the input must be floating-point, not {x.dtype}; convert it, as in x.float()")
    if element_type(target).kind not in "iu":
        raise TypeError(f"{name}: class indices must be integers, not {target.dtype}; convert them with .long()")
    shape, places = shape_of(x), shape_of(target)
    if len(shape) < 2 or places != shape[:1] + shape[2:]:
        raise ValueError(
            f"{name}: targets of shape {places} do not fit an input of shape {shape}; "
            f"for classes in dimension 1 they need shape {shape[:1] + shape[2:]}"
        )


def pick(x: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """x[n, target[n]] for each row, 0 where the target is ignored.

    >>> import lucid
    >>> from lucid.ops.nn.cross_entropy import pick
    >>> pick(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1, -1]), ignore_index=-1)
    Tensor([2., 0.])
    """
    return apply(pick_class, (x, target), {"ignore_index": ignore_index})


def fold(rows: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """The sum or mean of the rows whose target is not ignored.

    >>> import lucid
    >>> from lucid.ops.nn.cross_entropy import fold
    >>> fold(lucid.tensor([1.0, 2.0, 6.0]), lucid.tensor([0, -1, 0]), ignore_index=-1, reduction="mean")
    Tensor(3.5)
    """
    return apply(fold_rows, (rows, target), {"ignore_index": ignore_index, "reduction": reduction, "lead": 0})
