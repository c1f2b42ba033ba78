"""Attention with several heads as a layer."""

from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional.attention import attend, projected
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["GroupedQueryAttention", "MultiQueryAttention", "MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, see `lucid.nn.functional.multi_head_attention_forward`.

    Called with queries, keys and values of shape (length, batch, size), or (batch, length, size) with `batch_first`; gives
    the result and the weights. Keys and values may have sizes `kdim` and `vdim` of their own. `add_bias_kv` adds a learned
    key and value to each sequence, `add_zero_attn` one of zeros. With `num_kv_heads`, keys and values have fewer heads, each of
    which serves several heads of queries in a row. With `use_cache=True`, keys and values are added to those of
    `past_key_value`, a `lucid.utils.cache.Cache`, and all of them are attended to: `is_causal` counts those before.

    >>> import lucid
    >>> from lucid.nn.layers.attention import MultiheadAttention
    >>> attention = MultiheadAttention(8, 2, batch_first=True)
    >>> x = lucid.rand(5, 3, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    ((5, 3, 8), (5, 3, 3))
    """

    in_proj_weight: Tensor | None
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        num_kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads <= 0 or num_heads % self.num_kv_heads:
            raise ValueError(f"{type(self).__name__}: num_kv_heads {num_kv_heads} does not divide {num_heads} heads")
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self._kv_dim = self.num_kv_heads * self.head_dim
        alike = self.kdim == self.vdim == embed_dim == self._kv_dim

        def add(name: str, wanted: bool, *shape: int) -> None:
            value = Parameter(lucid.empty(*shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)

        add("in_proj_weight", alike, 3 * embed_dim, embed_dim)
        for name, out, size in (
            ("q", embed_dim, embed_dim), ("k", self._kv_dim, self.kdim), ("v", self._kv_dim, self.vdim),
        ):  # fmt: skip
            add(f"{name}_proj_weight", not alike, out, size)
        add("in_proj_bias", bias, embed_dim + 2 * self._kv_dim)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        add("bias_k", add_bias_kv, 1, 1, embed_dim)  # behind the heads, which are as many as the queries' then
        add("bias_v", add_bias_kv, 1, 1, embed_dim)
        self.reset_parameters()

    def _in_weights(self) -> Any:
        if self.in_proj_weight is not None:
            return self.in_proj_weight.chunk(3)
        return self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

    def _shared(self, x: Tensor) -> Tensor:
        """Keys or values with each head as often as there are queries for it."""
        heads = x.unflatten(-1, (self.num_kv_heads, self.head_dim))
        return heads.repeat_interleave(self.num_heads // self.num_kv_heads, -2).flatten(-2)

    def _with_cached(self, k: Tensor, v: Tensor, cache: Any, layer_idx: int, options: dict[str, Any]) -> list[Tensor]:
        """All keys and values of a layer so far, these included; those of an encoder are the same in each step."""
        batches_first = self.batch_first or k.ndim == 2
        order = (0, 2, 1, 3) if batches_first else (1, 2, 0, 3)  # batch, heads, length, size
        back = [order.index(d) for d in range(4)]

        def split(x: Tensor) -> Tensor:
            whole = x.unsqueeze(0) if x.ndim == 2 else x
            return whole.unflatten(-1, (self.num_kv_heads, self.head_dim)).permute(*order)

        if options["is_cross_attention"] and getattr(cache, "is_updated", {}).get(layer_idx):
            found = cache.cross_attention_cache[layer_idx]
        else:
            found = cache.update(split(k), split(v), layer_idx, options)
        joined = [t.permute(*back).flatten(-2) for t in found]
        return [t.squeeze(0) for t in joined] if k.ndim == 2 else joined

    def reset_parameters(self) -> None:
        """Draw the projections by Xavier's rule, and set their biases to 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        past_key_value: Any = None,
        layer_idx: int = 0,
        cache_position: Any = None,
        use_cache: bool = False,
        is_cross_attention: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v = projected((query, key, value), self._in_weights(), self.in_proj_bias, self._kv_dim)
        if use_cache and past_key_value is not None:
            options = {"cache_position": cache_position, "is_cross_attention": is_cross_attention}
            seen = 0 if is_cross_attention else past_key_value.get_seq_length(layer_idx)
            k, v = self._with_cached(k, v, past_key_value, layer_idx, options)
            if is_causal and seen:
                lengths = [t.shape[1 if self.batch_first and t.ndim == 3 else 0] for t in (q, k)]
                attn_mask, is_causal = lucid.ones(*lengths, dtype=lucid.bool_).triu(seen + 1), False
        if self.num_kv_heads != self.num_heads:
            k, v = self._shared(k), self._shared(v)
        attended, weights = attend(
            q,
            k,
            v,
            self.num_heads,
            self.batch_first and query.ndim == 3,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            dropout_p=self.dropout if self.training else 0.0,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            static_k=None,
            static_v=None,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return self.out_proj(attended), weights


class GroupedQueryAttention(MultiheadAttention):
    """Attention whose keys and values have fewer heads than the queries; see `MultiheadAttention`.

    >>> import lucid
    >>> attention = lucid.nn.GroupedQueryAttention(8, 4, 2, batch_first=True)
    >>> x = lucid.rand(5, 3, 8)
    >>> attention(x, x, x)[0].shape, attention.k_proj_weight.shape
    ((5, 3, 8), (4, 8))
    """

    def __init__(self, embed_dim: int, num_heads: int, num_kv_heads: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, *args, num_kv_heads=num_kv_heads, **kwargs)


class MultiQueryAttention(MultiheadAttention):
    """Attention whose keys and values have one head for all queries; see `MultiheadAttention`.

    >>> import lucid
    >>> attention = lucid.nn.MultiQueryAttention(8, 4, batch_first=True)
    >>> x = lucid.rand(5, 3, 8)
    >>> attention(x, x, x)[0].shape, attention.v_proj_weight.shape
    ((5, 3, 8), (2, 8))
    """

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, *args, num_kv_heads=1, **kwargs)
