"""The cross entropy of scores and class indices in one step, and the linear maps that its derivatives are made of.

Scores have shape (N, C, ...) and targets (N, ...). Rows whose target is `ignore_index` have no part in anything.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.backends.cpu import loops, rowwise
from lucid.core import dtypes, modes
from lucid.core.arithmetic import total
from lucid.core.cuts import cut
from lucid.core.node import Node, output_edge, save_input, save_output, split_edges
from lucid.core.primitive import Primitive, attach, edge_of, split_outputs, synced, unpack
from lucid.core.tensor import Tensor
from lucid.native import in_use
from lucid.ops.nn.softmax import NARROW, blocks, exponentials, row_sums, shape_along
from lucid.ops.rules import P, add_all, batched_to_front

_recording = modes.recording.get
_wrap = Tensor._wrap
_REAL = dtypes.SINGLE_AND_DOUBLE
NONE, MEAN, SUM = "none", "mean", "sum"


def _safe_targets(target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Targets as positions that exist, and where they count; None if all of them do."""
    places = np.ascontiguousarray(target, np.int64)
    # Seen as unsigned, negative numbers are large ones: one comparison finds everything outside.
    if not places.size or (
        np.maximum.reduce(places.view(np.uint64), axis=None) < classes and not 0 <= ignore_index < classes
    ):
        return places, None
    keep = places != ignore_index
    places = np.where(keep, places, 0)
    if np.maximum.reduce(places.view(np.uint64), axis=None) >= classes:
        wrong = places[(places < 0) | (places >= classes)].flat[0]
        raise IndexError(
            f"target {wrong} is out of range for {classes} classes; "
            f"targets must lie between 0 and {classes - 1}, or be ignore_index ({ignore_index})"
        )
    return places, keep


def _at(target: Any) -> tuple[Any, ...]:
    """Where each row's class stands in an array of shape (rows, classes) or (rows, classes, inner)."""
    rows = np.arange(len(target))
    return (rows, target) if target.ndim == 1 else (rows[:, None], target, np.arange(target.shape[1]))


def _flat(x: Any, target: Any) -> tuple[Any, Any]:
    """Scores with one dimension at most behind the classes, and targets to match."""
    x = np.ascontiguousarray(x)
    if x.ndim == 2:
        return x, target
    shape = shape_along(x.shape, 1)
    return x.reshape(shape), target.reshape(shape[:1] + shape[2:])


def _pick_array(x: Any, target: Any, ignore_index: int) -> Any:
    places, keep = _safe_targets(target, x.shape[1], ignore_index)
    flat, places = _flat(x, places)
    out = flat[_at(places)].reshape(target.shape)
    return out if keep is None else np.where(keep, out, x.dtype.type(0))


def _place_array(x: Any, target: Any, classes: int, ignore_index: int) -> Any:
    places, keep = _safe_targets(target, classes, ignore_index)
    out = np.zeros((*x.shape[:1], classes, *x.shape[1:]), x.dtype)
    flat, places = _flat(out, places)
    flat[_at(places)] = (x if keep is None else np.where(keep, x, x.dtype.type(0))).reshape(places.shape)
    return out


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


# x[n, target[n, ...], ...], and 0 where the target is ignored.
pick_class = Primitive(
    "pick_class",
    _pick_array,
    operands=("x", "target"),
    rules=(
        lambda ct, target, x_shape, ignore_index: P.place_class(
            ct, target, classes=x_shape[1], ignore_index=ignore_index
        ),
        None,
    ),
    jvp=_push_linear,
    batch=_batch_rows,
)
# Its transpose: zeros with x at the targets.
place_class = Primitive(
    "place_class",
    _place_array,
    operands=("x", "target"),
    rules=(lambda ct, target, ignore_index: P.pick_class(ct, target, ignore_index=ignore_index), None),
    jvp=_push_linear,
    batch=_batch_rows,
)


def _fold_array(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    keep = target != ignore_index
    if reduction == NONE:
        return np.where(keep, x, x.dtype.type(0))
    axes = tuple(range(lead, x.ndim))
    total = np.add.reduce(x, axis=axes, where=keep)
    return total if reduction == SUM else (total / np.count_nonzero(keep, axis=axes)).astype(x.dtype)


def _shares(x: Any, keep: Any, reduction: str, lead: int) -> Any:
    """What a folded value x is of each row that counts, in a shape that broadcasts over the rows."""
    if reduction == NONE:
        return x
    if reduction == MEAN:
        axes = tuple(range(lead, keep.ndim))
        x = (x / (np.count_nonzero(keep, axis=axes) if lead else np.count_nonzero(keep))).astype(x.dtype)
    return x.reshape(x.shape + (1,) * (keep.ndim - lead))


def _spread_array(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    keep = target != ignore_index
    return np.where(keep, _shares(x, keep, reduction, lead), x.dtype.type(0))


def _batch_fold(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **{**params, "lead": params["lead"] + 1})


def _transposed(name: str) -> Any:
    return lambda ct, target, ignore_index, reduction, lead: getattr(P, name)(
        ct, target, ignore_index=ignore_index, reduction=reduction, lead=lead
    )


# The sum or mean of the rows that count, apart for each index of the first `lead` dimensions; and its transpose.
fold_rows = Primitive(
    "fold_rows",
    _fold_array,
    operands=("x", "target"),
    rules=(_transposed("spread_rows"), None),
    jvp=_push_linear,
    batch=_batch_fold,
)
spread_rows = Primitive(
    "spread_rows",
    _spread_array,
    operands=("x", "target"),
    rules=(_transposed("fold_rows"), None),
    jvp=_push_linear,
    batch=_batch_fold,
)


def _simple(x: Any, target: Any) -> bool:
    """Whether scores and targets are for the loops of `rows`."""
    return (
        x.ndim == 2
        and x.size > 0
        and x.dtype in _REAL
        and x.flags.c_contiguous
        and target.dtype == dtypes.INT64
        and target.shape == x.shape[:1]
        and target.flags.c_contiguous
    )


def _back_array(e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    if not g.ndim and reduction != NONE and _simple(e, target) and not 0 <= ignore_index < e.shape[1]:
        out = np.empty(e.shape, e.dtype)
        if rowwise.losses_back(e, target, g.item() / (len(e) if reduction == MEAN else 1), out):
            return out
    if e.dtype in NARROW:
        wide = _back_array(e.astype(np.float32), g.astype(np.float32), target, ignore_index, reduction)
        return wide.astype(e.dtype)
    keep = target != ignore_index
    count = np.count_nonzero(keep)
    weights: Any = None
    if count < keep.size or reduction == NONE:
        weights = np.where(keep, _shares(g, keep, reduction, 0), e.dtype.type(0))
        target = np.where(keep, target, 0)
    out = np.empty(e.shape, e.dtype)
    flat_e, places = _flat(e, target)
    flat = out.reshape(flat_e.shape)
    if weights is None:
        # All rows weigh the same, which is the usual case.
        share = g.item() / count if reduction == MEAN and count else g.item()
        for b in blocks(flat.shape):
            np.multiply(flat_e[b], share / row_sums(flat_e[b]), out=flat[b])
        _take_off(flat, places, share)
        return out
    weights = weights.reshape(places.shape)
    for b in blocks(flat.shape):
        np.multiply(flat_e[b], weights[b][:, None] / row_sums(flat_e[b]), out=flat[b])
    flat[_at(places)] -= weights
    return out


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
    _back_array,
    operands=("e", "g", "target"),
    rules=(_pull_exponentials, _pull_loss, None),
    jvp=_push_back,
    batch=_batch_back,
)


def _block_losses(x: Any, target: Any, e: Any) -> Any:
    """log Σ exp(x) - x[target] of each row, by way of exponentials, which are written to `e`."""
    total, shift = exponentials(x, e)
    losses = np.log(total[:, 0])
    picked = _picked(x, target)
    losses -= picked if shift is None else picked - shift[:, 0]
    return losses


def _picked(x: Any, places: Any) -> Any:
    """x[i, places[i]] for each row."""
    if not in_use or x.ndim != 2 or x.dtype not in _REAL:
        return x[_at(places)]
    out = np.empty(len(x), x.dtype)
    loops.pick(x, places, out)
    return out


def _take_off(x: Any, places: Any, amount: float) -> None:
    """x[i, places[i]] -= amount for each row."""
    if not in_use or x.ndim != 2 or x.dtype not in _REAL:
        x[_at(places)] -= amount
    else:
        loops.take_off(x, np.ascontiguousarray(places, np.int64), amount)


def _losses(x: Any, places: Any, keeps_e: bool) -> tuple[Any, Any]:
    """The loss of each row, and exp(x) up to a factor for each row, if it is to be kept."""
    flat, places = _flat(x, places)
    if not flat.size:
        return np.zeros(places.shape, x.dtype), np.empty(x.shape, x.dtype)
    parts = blocks(flat.shape)
    if len(parts) == 1:
        e = np.empty(x.shape, x.dtype)
        return _block_losses(flat, places, e.reshape(flat.shape)), e
    losses = np.empty(places.shape, x.dtype)
    e = np.empty(x.shape if keeps_e else flat[parts[0]].shape, x.dtype)
    flat_e = e.reshape(flat.shape) if keeps_e else e
    for b in parts:
        losses[b] = _block_losses(flat[b], places[b], flat_e[b] if keeps_e else flat_e[: len(places[b])])
    return losses, e if keeps_e else None


def _in_single(x: Any) -> Any:
    """Half precision as single, shifted so that the exponentials will fit."""
    wide = x.astype(np.float32)
    return wide - np.maximum.reduce(wide, axis=1, keepdims=True) if wide.size else wide


def _cross_entropy_array(
    x: Any, target: Any, ignore_index: int, reduction: str, keeps_e: bool = True
) -> tuple[Any, Any]:
    if _simple(x, target) and not 0 <= ignore_index < x.shape[1]:
        e, losses = np.empty(x.shape, x.dtype), np.empty(len(x), x.dtype)
        if rowwise.losses(x, target, e, losses):
            if reduction == NONE:
                return losses, e
            loss = total(losses)
            return np.asarray(loss / x.dtype.type(len(x)) if reduction == MEAN else loss), e
    if x.dtype in NARROW:
        loss, e = _cross_entropy_array(_in_single(x), target, ignore_index, reduction, keeps_e)
        return loss.astype(x.dtype), e if e is None else e.astype(x.dtype)
    places, keep = _safe_targets(target, x.shape[1], ignore_index)
    losses, e = _losses(x, places, keeps_e)
    if keep is not None:
        losses[~keep.reshape(losses.shape)] = 0
    if reduction == NONE:
        return losses.reshape(target.shape), e
    loss = total(losses)
    if reduction == MEAN:
        loss = loss / x.dtype.type(losses.size if keep is None else np.count_nonzero(keep))
    return np.asarray(loss), e


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


class CrossEntropy(Primitive):
    """Gives the loss and, for its derivative, e = exp(x - s), which is all of x that the tape keeps.

    The shifts s, one for each row, count as constants. That is right since e is only ever used up to a factor.
    """

    def save(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any) -> Sequence[Any]:
        e = save_output(out[1])
        e.index = 1
        return None, save_input(args[1]), e

    def record(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any, params: dict[str, Any]) -> None:
        edges = split_edges((edge_of(args[0]), None))
        split_outputs(attach(out[0], self, *edges, self.save(args, needs, out), -1, None, params, ()), out)

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        _, target, e = unpack(node, next(iter(ct.values())))
        loss_ct, e_ct = ct.get(0), ct.get(1)
        terms = [] if e_ct is None else [e_ct * e]
        if loss_ct is not None:
            terms.append(P.cross_entropy_back(e, loss_ct, target, **node.params))
        return add_all(terms), None


cross_entropy_primitive = CrossEntropy(
    "cross_entropy",
    _cross_entropy_array,
    operands=("x", "target"),
    rules=(lambda ct: ct, None),
    jvp=_push_cross_entropy,
    batch=_batch_cross_entropy,
    multi=True,
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
    if not _plain(x) or not _plain(target):
        return P.cross_entropy(x, target, **params)[0]
    recorded = x._requires_grad and _recording()
    loss, e = _cross_entropy_array(x._array, target._array, ignore_index, reduction, bool(recorded))
    out = _wrap(loss)
    if recorded:
        saved = cross_entropy_primitive.save((x, target), (True, False), (out, _wrap(e)))
        node = attach(out, cross_entropy_primitive, edge_of(x), None, None, saved, -1, None, params, ())
        node.shapes = ((loss.shape, loss.dtype), (e.shape, e.dtype))
        out._node = output_edge(node, 0)
    elif x._requires_grad:
        cut("no_grad", x)
    return out


def _plain(x: Tensor) -> bool:
    return type(x) is Tensor and (x._meta is None or type(synced(x)) is Tensor)


def raise_unless_classes(name: str, x: Tensor, target: Tensor) -> None:
    """Scores (N, C, ...) of floats and targets (N, ...) of integers, or a message that says what is wrong."""
    if x.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"{name}: the input must be floating-point, not {x.dtype}; convert it, as in x.float()")
    if target.np_dtype.kind not in "iu":
        raise TypeError(f"{name}: class indices must be integers, not {target.dtype}; convert them with .long()")
    shape = x.shape
    if len(shape) < 2 or target.shape != shape[:1] + shape[2:]:
        raise ValueError(
            f"{name}: targets of shape {target.shape} do not fit an input of shape {shape}; "
            f"for classes in dimension 1 they need shape {shape[:1] + shape[2:]}"
        )


def pick(x: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """x[n, target[n]] for each row, 0 where the target is ignored.

    >>> import lucid
    >>> from lucid.ops.nn.cross_entropy import pick
    >>> pick(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1, -1]), ignore_index=-1)
    Tensor([2., 0.])
    """
    return P.pick_class(x, target, ignore_index=ignore_index)


def fold(rows: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """The sum or mean of the rows whose target is not ignored.

    >>> import lucid
    >>> from lucid.ops.nn.cross_entropy import fold
    >>> fold(lucid.tensor([1.0, 2.0, 6.0]), lucid.tensor([0, -1, 0]), ignore_index=-1, reduction="mean")
    Tensor(3.5)
    """
    return P.fold_rows(rows, target, ignore_index=ignore_index, reduction=reduction, lead=0)
