"""Attention as functions: scaled dot products, and several heads with their projections."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import lucid
from lucid import Tensor
from lucid.amp.autocasting import in_low_precision
from lucid.arguments.promotion import beside
from lucid.nn import init
from lucid.nn.functional.activations import softmax
from lucid.nn.functional.dropout import dropout
from lucid.nn.functional.linear import linear
from lucid.ops.fused import given_back, in_working_type
from lucid.ops.nn.attention import attention

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@in_low_precision
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value, over the last two dimensions; the others broadcast.

    `attn_mask` is added to the scores, or says with truth values which of them count; `is_causal` lets each position
    see itself and those before it. A row that sees nothing gives 0. `scale` is 1 / sqrt(size of the queries) unless
    given. With `enable_gqa`, groups of query heads (dimension -3) share heads of keys and values. Dropout acts on the
    weights whenever `dropout_p` is above 0.

    >>> import lucid
    >>> from lucid.nn.functional.attention import scaled_dot_product_attention
    >>> q = k = lucid.tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> scaled_dot_product_attention(q, k, lucid.tensor([[1.0], [3.0]]), is_causal=True)
    Tensor([[1.],
            [2.]])
    """
    (q, k, v), kind = in_working_type("scaled_dot_product_attention", query, key, value)
    _check_attention(q, k, v, attn_mask, dropout_p, is_causal)
    if enable_gqa:
        k, v = (_repeated_heads(t, q) for t in (k, v))
    mask = None if attn_mask is None else _additive(attn_mask, q)
    if mask is not None and mask.ndim > 1 and q.shape[-2] == 1:  # one query for all rows of the mask
        q = q.expand(*q.shape[:-2], mask.shape[-2], q.shape[-1])
    scale = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    keep = _kept(q, k, dropout_p) if dropout_p else None
    return given_back(attention(q, k, v, mask, keep, scale=float(scale), causal=bool(is_causal)), kind)


def _check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Any, dropout_p: float, is_causal: bool) -> None:
    name = "scaled_dot_product_attention"
    shapes = f"query {q.shape}, key {k.shape}, value {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(f"{name} needs (..., length, size), at least 2 dimensions each, not {shapes}")
    if q.shape[-1] != k.shape[-1]:
        raise RuntimeError(f"{name}: queries and keys must have the same size, got {shapes}")
    if k.shape[-2] != v.shape[-2]:
        raise RuntimeError(f"{name}: there must be one value for each key, got {shapes}")
    if mask is not None and is_causal:
        raise RuntimeError(f"{name}: give attn_mask or is_causal, not both")
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"{name}: dropout_p must be between 0 and 1, not {dropout_p}")


def _repeated_heads(x: Tensor, q: Tensor) -> Tensor:
    """Heads of keys or values, each repeated for the queries that share it."""
    if x.ndim < 3 or q.ndim < 3 or q.shape[-3] % x.shape[-3]:
        raise RuntimeError(
            f"enable_gqa: the number of query heads must be a multiple of the others', got {q.shape} and {x.shape}"
        )
    times = q.shape[-3] // x.shape[-3]
    if times == 1:
        return x
    *lead, heads, length, size = x.shape
    spread = x.unsqueeze(-3).expand(*lead, heads, times, length, size)
    return spread.reshape(*lead, heads * times, length, size)


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as numbers to add to the scores."""
    mask = beside(mask, like.np_dtype)
    if mask.dtype == lucid.bool:
        return lucid.where(mask, 0.0, -math.inf).to(like.np_dtype)
    if not mask.is_floating_point():
        raise TypeError(f"a mask must consist of truth values or floating-point numbers, not {mask.dtype}")
    return mask.to(like.np_dtype)


def _kept(q: Tensor, k: Tensor, dropout_p: float) -> Tensor:
    """0 where a weight is dropped, else 1 / (1 - p)."""
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    draws = lucid.rand(*lead, q.shape[-2], k.shape[-2], device=q.device)
    return (draws >= dropout_p).to(q.np_dtype) * (1 / (1 - dropout_p) if dropout_p < 1 else 0.0)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None = None,
    in_proj_bias: Tensor | None = None,
    bias_k: Tensor | None = None,
    bias_v: Tensor | None = None,
    add_zero_attn: bool = False,
    dropout_p: float = 0.0,
    out_proj_weight: Tensor | None = None,
    out_proj_bias: Tensor | None = None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads, each on its part of projections of queries, keys and values; then a last projection.

    Inputs are (length, batch, size), or (length, size) without a batch. In masks of truth values, True means hidden; others
    are added to the scores: `attn_mask` is (queries, keys) or (batch · heads, queries, keys), `key_padding_mask` is
    (batch, keys). With `is_causal`, each position sees those up to its own, which may be all that `attn_mask` says.
    Gives the result and, if `need_weights`, the weights, averaged over the heads or for each. Weights of projections that
    are not given are drawn as those of a new `nn.MultiheadAttention`.

    >>> import lucid
    >>> from lucid.nn.functional.attention import multi_head_attention_forward
    >>> x, eye = lucid.ones(3, 1, 2), lucid.eye(2)
    >>> out, weights = multi_head_attention_forward(
    ...     x, x, x, 2, 1, lucid.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    ... )
    >>> out.shape, weights.shape
    ((3, 1, 2), (1, 3, 3))
    """
    if query.ndim and query.shape[-1] != embed_dim_to_check:
        raise RuntimeError(f"attention: the queries must have size {embed_dim_to_check}, not shape {query.shape}")
    inputs = (query, key, value)
    if use_separate_proj_weight:
        given = (q_proj_weight, k_proj_weight, v_proj_weight)
        weights: Sequence[Tensor] = [
            _drawn(t, embed_dim_to_check) if w is None else w for t, w in zip(inputs, given, strict=True)
        ]
    elif in_proj_weight is not None:
        weights = in_proj_weight.chunk(3)
    elif query.shape[-1:] == key.shape[-1:] == value.shape[-1:]:
        weights = _drawn(query, 3 * embed_dim_to_check).chunk(3)
    else:
        weights = [_drawn(t, embed_dim_to_check) for t in inputs]
    q, k, v = projected(inputs, weights, in_proj_bias)
    attended, probabilities = attend(
        q, k, v, num_heads, False,
        bias_k=bias_k, bias_v=bias_v, add_zero_attn=add_zero_attn, dropout_p=dropout_p if training else 0.0,
        key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask, static_k=static_k,
        static_v=static_v, average_attn_weights=average_attn_weights, is_causal=is_causal,
    )  # fmt: skip
    if out_proj_weight is None:
        fresh = lucid.empty(embed_dim_to_check, attended.shape[-1], dtype=attended.dtype)
        out_proj_weight = init.kaiming_uniform_(fresh, math.sqrt(5))  # as of nn.Linear
    return linear(attended, out_proj_weight, out_proj_bias), probabilities


def _drawn(input: Tensor, size: int) -> Tensor:
    """A new weight that projects an input to a size."""
    return init.xavier_uniform_(lucid.empty(size, input.shape[-1], dtype=input.dtype))


def projected(
    inputs: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor | None, kv_dim: int | None = None
) -> list[Tensor]:
    """Queries, keys and values for all heads; `kv_dim` is the size of keys and values if it differs."""
    biases: Any = (None,) * 3
    if bias is not None:
        size = bias.shape[0] // 3 if kv_dim is None else kv_dim
        biases = bias.split([bias.shape[0] - 2 * size, size, size])
    return [linear(t, w, b) for t, w, b in zip(inputs, weights, biases, strict=True)]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    num_heads: int,
    batch_first: bool,
    *,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
    average_attn_weights: bool,
    is_causal: bool,
) -> tuple[Tensor, Tensor | None]:
    """What stands between the projections of `multi_head_attention_forward`; inputs may have the batch first."""
    _check_heads(q, k, v, num_heads, batch_first, key_padding_mask)
    lengths = 1 if batch_first else 0
    alone = q.ndim == 2
    if alone:
        q, k, v = (t.unsqueeze(1 - lengths) for t in (q, k, v))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        k, v = (lucid.cat([t, _like_one_step(b, t, lengths)], lengths) for t, b in ((k, bias_k), (v, bias_v)))
    extra = int(bias_k is not None) + int(add_zero_attn)
    shape, order = q.shape, (1 - lengths, 2, lengths, 3)
    q, k, v = (t.reshape(*t.shape[:2], num_heads, t.shape[2] // num_heads).permute(*order) for t in (q, k, v))
    k, v = (_static(given, t) for given, t in ((static_k, k), (static_v, v)))
    if add_zero_attn:
        k, v = (lucid.cat([t, lucid.zeros_like(t[:, :, :1])], 2) for t in (k, v))
    only_causal = is_causal and key_padding_mask is None and not need_weights and not extra
    mask = None if only_causal else _merged_mask(attn_mask, key_padding_mask, q, k, extra, is_causal)
    out, weights = _attend(q, k, v, mask, dropout_p, only_causal, need_weights)
    out = out.permute(*[order.index(d) for d in range(4)]).reshape(*shape[:2], v.shape[3] * num_heads)
    if weights is not None:
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights.squeeze(0) if alone else weights
    return out.squeeze(1 - lengths) if alone else out, weights


def _like_one_step(bias: Tensor, x: Tensor, lengths: int) -> Tensor:
    """A further key or value for every sequence."""
    batch = x.shape[1 - lengths]
    return bias.reshape(1, 1, -1).expand(*((batch, 1) if lengths else (1, batch)), -1)


def _check_heads(
    q: Tensor, k: Tensor, v: Tensor, num_heads: int, batch_first: bool, key_padding_mask: Tensor | None
) -> None:
    """An error for shapes that do not fit."""
    shapes = f"query {q.shape}, key {k.shape}, value {v.shape}"
    if q.ndim not in (2, 3) or not q.ndim == k.ndim == v.ndim:
        raise RuntimeError(f"attention: inputs must all have 3 dimensions, or 2 without a batch; got {shapes}")
    if q.shape[-1] % num_heads:
        raise ValueError(f"attention: size {q.shape[-1]} does not divide into {num_heads} heads")
    lengths = 1 if batch_first and q.ndim == 3 else 0
    if k.shape[:-1] != v.shape[:-1] or (q.ndim == 3 and q.shape[1 - lengths] != k.shape[1 - lengths]):
        raise RuntimeError(f"attention: lengths of key and value, and batches, must agree; got {shapes}")
    wanted = (k.shape[1 - lengths], k.shape[lengths]) if q.ndim == 3 else (k.shape[0],)
    if key_padding_mask is not None and key_padding_mask.shape != wanted:
        raise RuntimeError(f"attention: key_padding_mask must have shape {wanted}, not {key_padding_mask.shape}")


def _static(given: Tensor | None, otherwise: Tensor) -> Tensor:
    """Keys or values that were given for all heads, (batch · heads, length, size)."""
    if given is None:
        return otherwise
    batch, heads, _, size = otherwise.shape
    if given.ndim != 3 or given.shape[0] != batch * heads or given.shape[2] != size:
        raise RuntimeError(
            f"attention: static_k and static_v must be ({batch * heads}, length, {size}), not {given.shape}"
        )
    return given.reshape(batch, heads, given.shape[1], size)


def _merged_mask(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, k: Tensor, extra: int, is_causal: bool
) -> Tensor | None:
    """Both masks as numbers to add to the scores; `extra` keys at the end are seen by all."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2] - extra
    found: list[Tensor] = []
    if attn_mask is not None:
        shapes = ((queries, keys), (batch * heads, queries, keys))
        if attn_mask.shape not in shapes:
            raise RuntimeError(
                f"attention: attn_mask must have shape {shapes[0]} or {shapes[1]}, not {attn_mask.shape}"
            )
        mask = _hiding(attn_mask, q)
        found.append(mask.reshape(batch, heads, queries, keys) if mask.ndim == 3 else mask)
    elif is_causal:
        found.append(_additive(lucid.ones(queries, keys, dtype=lucid.bool).tril(), q))
    if key_padding_mask is not None:
        found.append(_hiding(key_padding_mask, q).reshape(batch, 1, 1, keys))
    if not found:
        return None
    merged = found[0] if len(found) == 1 else found[0] + found[1]
    if not extra:
        return merged
    return lucid.cat([merged, lucid.zeros(*merged.shape[:-1], extra, dtype=merged.dtype)], -1)


def _hiding(mask: Tensor, like: Tensor) -> Tensor:
    return _additive(~mask if mask.dtype == lucid.bool else mask, like)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The result of all heads, and the weights if they are wanted."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT
    weights = softmax(scores if mask is None else scores + mask, dim=-1)
    weights = dropout(weights, dropout_p) if dropout_p else weights
    return weights @ v, weights
