"""Attention with several heads as a layer."""

from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional.attention import attend, projected
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, see `lucid.nn.functional.multi_head_attention_forward`.

    Called with queries, keys and values of shape (length, batch, size), or (batch, length, size) with `batch_first`; gives
    the result and the weights. Keys and values may have sizes `kdim` and `vdim` of their own. `add_bias_kv` adds a learned
    key and value to each sequence, `add_zero_attn` one of zeros.

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
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        alike = self.kdim == self.vdim == embed_dim

        def add(name: str, wanted: bool, *shape: int) -> None:
            value = Parameter(lucid.empty(*shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)

        add("in_proj_weight", alike, 3 * embed_dim, embed_dim)
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            add(f"{name}_proj_weight", not alike, embed_dim, size)
        add("in_proj_bias", bias, 3 * embed_dim)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        add("bias_k", add_bias_kv, 1, 1, embed_dim)
        add("bias_v", add_bias_kv, 1, 1, embed_dim)
        self.reset_parameters()

    def _in_weights(self) -> Any:
        if self.in_proj_weight is not None:
            return self.in_proj_weight.chunk(3)
        return self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

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
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v = projected((query, key, value), self._in_weights(), self.in_proj_bias)
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
