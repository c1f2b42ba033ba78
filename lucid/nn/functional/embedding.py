"""Tables of vectors: rows by index, bags of rows, and one-hot vectors."""

import math

import lucid
from lucid import Tensor
from lucid.arguments.promotion import as_floats
from lucid.core import dtypes
from lucid.core.arrays import counted, item
from lucid.core.errors import ElementTypeError
from lucid.core.primitive import P, apply, element_type
from lucid.core.tensor import is_plain, shape_of, wrapped
from lucid.ops.indexing import in_range
from lucid.ops.nn import embedding as ops
from lucid.ops.rules import is_array

__all__ = ["embedding", "embedding_bag", "one_hot"]
_NO_CLASS = -(1 << 63)
_ALL = (0,), False  # the dimensions of a vector, none of which is kept


def _row(padding_idx: int | None, count: int, name: str) -> int | None:
    """A row counted from the front."""
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise ValueError(f"{name}: padding_idx {padding_idx} is out of range for {count} embeddings")
    return padding_idx % count


def _check_table(input: Tensor, weight: Tensor, name: str) -> None:
    if len(shape_of(weight)) != 2:
        raise ValueError(f"{name}: weight must have shape (rows, size), not {weight.shape}")
    if element_type(input).kind not in "iu":
        raise ElementTypeError(f"{name}: indices must be integers, not {input.dtype}; convert them with .long()")


def _limit_norms(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows that are used and too long, in place; one that is used twice is written twice, with the same numbers."""
    with lucid.no_grad():
        rows = input.reshape(-1)
        used = weight[rows]
        norms = lucid.norm(used, norm_type, -1, keepdim=True)
        weight[rows] = lucid.where(norms > max_norm, used * (max_norm / (norms + 1e-7)), used)


def _frequencies(index: Tensor, count: int, like: Tensor) -> Tensor:
    """How often each index occurs among all of them."""
    flat = index.reshape(-1).long()
    ones = lucid.ones(flat.shape[0], 1, dtype=like.dtype)
    counts = ops.segment_sum(ones, flat, count).squeeze(1)
    return counts[flat].reshape(index.shape)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at the indices `input`.

    The row `padding_idx` gets no gradient. With `max_norm`, rows that are used and longer (by the p-norm of
    `norm_type`) are shortened to it first, in place. `scale_grad_by_freq` divides gradients by how often the row occurs.
    With `sparse`, the gradient of a `weight` that is a leaf is a sparse tensor of the rows that were read.

    >>> import lucid
    >>> from lucid.nn.functional.embedding import embedding
    >>> embedding(lucid.tensor([[1, 0]]), lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[[3., 4.],
             [1., 2.]]])
    """
    _check_table(input, weight, "embedding")
    padding = _row(padding_idx, shape_of(weight)[0], "embedding")
    if max_norm is not None:
        _limit_norms(weight, in_range(input, weight.shape[0], "embedding", negative=False), max_norm, norm_type)
    out = ops.embedding(weight, input, padding, sparse)
    if scale_grad_by_freq:
        out = ops.with_scaled_gradient(out, 1 / _frequencies(input, weight.shape[0], weight).unsqueeze(-1))
    return out


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the embeddings in each bag of indices.

    Bags are the rows of a 2-d `input`; of a 1-d `input`, `offsets` says where each bag starts (and, with
    `include_last_offset`, where the last one ends). Indices equal to `padding_idx` do not count, and an empty bag gives
    0. `per_sample_weights` multiplies the embeddings, for sums only. `sparse` is as for `embedding`. A `weight` of
    integers is taken as float32.

    >>> import lucid
    >>> from lucid.nn.functional.embedding import embedding_bag
    >>> weight = lucid.tensor([[1.0], [2.0], [4.0]])
    >>> embedding_bag(lucid.tensor([0, 1, 2]), weight, offsets=lucid.tensor([0, 2]), mode="sum")
    Tensor([[3.],
            [4.]])
    """
    _check_table(input, weight, "embedding_bag")
    weight = as_floats(weight, lucid.float32.numpy)
    _check_bags(input, offsets, per_sample_weights, mode)
    padding = _row(padding_idx, weight.shape[0], "embedding_bag")
    rows = embedding(input, weight, padding, max_norm, norm_type, scale_grad_by_freq, sparse)
    counts = lucid.ones_like(input, dtype=lucid.bool) if padding is None else input != padding
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if offsets is None:
        return _combined(rows, counts, mode)
    bags, number = _bags(input, offsets, include_last_offset)
    if mode == "max":
        return _largest_of_bags(rows, counts, bags, number)
    kept = lucid.where(counts.unsqueeze(-1), rows, 0)
    total = ops.segment_sum(kept, bags, number)
    return total if mode == "sum" else total / _sizes(counts, bags, number, rows)


def _check_bags(input: Tensor, offsets: Tensor | None, weights: Tensor | None, mode: str) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be one of 'sum', 'mean' and 'max', not {mode!r}")
    if weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag: per_sample_weights go with mode='sum', not with {mode!r}")
    if weights is not None and weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: per_sample_weights need the shape {input.shape} of the input, not {weights.shape}"
        )
    if input.ndim == 2 and offsets is not None:
        raise ValueError("embedding_bag: the rows of a 2-d input are the bags; leave out offsets")
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise ValueError("embedding_bag: a 1-d input needs a vector of offsets at which the bags start")
    if input.ndim not in (1, 2):
        raise ValueError(f"embedding_bag: the input must have 1 or 2 dimensions, not shape {input.shape}")


def _combined(rows: Tensor, counts: Tensor, mode: str) -> Tensor:
    """Rows of shape (bags, items, size) combined over the items that count."""
    mask = counts.unsqueeze(-1)
    if mode == "max":
        if not rows.shape[1]:
            return rows.sum(1)
        largest = lucid.max(lucid.where(mask, rows, -lucid.inf), 1).values
        return lucid.where(lucid.any(counts, 1, keepdim=True), largest, 0)
    total = lucid.where(mask, rows, 0).sum(1)
    return total if mode == "sum" else total / lucid.sum(counts, 1, keepdim=True).clamp(min=1).to(rows.dtype)


def _bags(input: Tensor, offsets: Tensor, include_last: bool) -> tuple[Tensor, int]:
    """The bag that each index belongs to, and the number of bags."""
    if offsets.np_dtype.kind not in "iu":
        raise TypeError(f"embedding_bag: offsets must be integers, not {offsets.dtype}; convert them with .long()")
    if is_plain(offsets) and offsets.shape[0]:
        first, last = int(offsets[0]), int(offsets[-1])
        if first != 0 or last > input.shape[0] or bool((offsets[1:] < offsets[:-1]).any()):
            raise ValueError(
                f"embedding_bag: offsets must start at 0, not decrease and not exceed {input.shape[0]}, "
                f"got {offsets.tolist()}"
            )
    starts = offsets[:-1] if include_last else offsets
    return lucid.searchsorted(starts, lucid.arange(input.shape[0]), right=True) - 1, starts.shape[0]


def _sizes(counts: Tensor, bags: Tensor, number: int, rows: Tensor) -> Tensor:
    return ops.segment_sum(counts.to(rows.dtype).unsqueeze(1), bags, number).clamp(min=1)


def _largest_of_bags(rows: Tensor, counts: Tensor, bags: Tensor, number: int) -> Tensor:
    """The maximum over each bag, of equal items the first one, by way of where it stands."""
    shape = (number, rows.shape[1])
    places = bags.unsqueeze(1).expand(rows.shape)
    candidates = lucid.where(counts.unsqueeze(1), rows.detach(), -lucid.inf)
    peaks = lucid.full(shape, -lucid.inf, dtype=rows.dtype).scatter_reduce(0, places, candidates, "amax")
    items = lucid.arange(rows.shape[0]).unsqueeze(1)
    is_peak = (candidates == lucid.gather(peaks, 0, places)) & counts.unsqueeze(1)
    none = rows.shape[0]
    positions = lucid.where(is_peak, items, none)
    first = lucid.full(shape, none, dtype=lucid.int64).scatter_reduce(0, places, positions, "amin")
    found = first < none
    if not none:
        return lucid.zeros(shape, dtype=rows.dtype)
    return lucid.where(found, lucid.gather(rows, 0, lucid.where(found, first, 0)), 0)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors of zeros with a 1 at the class; without a number of classes, the largest decides.

    >>> import lucid
    >>> from lucid.nn.functional.embedding import one_hot
    >>> one_hot(lucid.tensor([0, 2]), 3)
    Tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if element_type(tensor).kind not in "iu":
        raise TypeError(f"one_hot: classes must be integers, not {tensor.dtype}; convert them with .long()")
    shape = shape_of(tensor)
    count = math.prod(shape)
    flat = tensor if len(shape) == 1 else P.reshape(tensor, shape=(count,))
    if num_classes == -1:
        if not count:
            raise ValueError("one_hot: an empty tensor does not say how many classes there are; give num_classes")
        num_classes = int(item(P.amax.kernel(flat._array, *_ALL)) if is_array(flat) else flat.max()) + 1
    if num_classes < 1:
        raise ValueError(f"one_hot: the number of classes must be positive, got {num_classes}")
    ones = wrapped(counted(count, 1, 0, dtypes.INT64))
    try:
        rows = apply(P.place_class, (ones, flat), {"classes": num_classes, "ignore_index": _NO_CLASS})
    except IndexError:
        raise ValueError(f"one_hot: classes must lie between 0 and {num_classes - 1}") from None
    return rows if flat is tensor else P.reshape(rows, shape=(*shape, num_classes))
