"""Transformers: attention and feed-forward networks with residual connections, in layers."""

import copy
import math
from collections.abc import Callable
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.containers import ModuleList
from lucid.nn.functional.activations import gelu, relu
from lucid.nn.layers.attention import MultiheadAttention
from lucid.nn.layers.dropout import Dropout
from lucid.nn.layers.linear import Linear
from lucid.nn.layers.normalization import LayerNorm
from lucid.nn.module import Module

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu}


def _function(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in _ACTIVATIONS:
        raise RuntimeError(f"activation must be 'relu', 'gelu' or a function, not {activation!r}")
    return _ACTIVATIONS[activation]


class _Layer(Module):
    """Blocks with a residual connection around each: x + block(norm(x)), or norm(x + block(x))."""

    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        attention_dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.d_model, self.nhead, self.dim_feedforward = d_model, nhead, dim_feedforward
        attending = dropout if attention_dropout is None else attention_dropout
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        attentions = ("self_attn",) if self._blocks == 2 else ("self_attn", "multihead_attn")
        for name in attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, attending, bias, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        for k in range(1, self._blocks + 1):
            setattr(self, f"norm{k}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for k in range(1, self._blocks + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _function(activation)

    _blocks: int

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, nhead={self.nhead}, dim_feedforward={self.dim_feedforward}, dropout={self.dropout.p}"

    def _around(self, k: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """The k-th block with its norm, its dropout and the connection around it."""
        norm, dropout = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, a residual connection and layer normalisation.

    Inputs are (length, batch, d_model), with `batch_first` (batch, length, d_model). With `norm_first` the input of each
    block is normalised, otherwise its result. `activation` is "relu", "gelu" or a function. The weights of the attention
    are dropped with the probability `attention_dropout`, which is `dropout` unless it is given.

    >>> import lucid
    >>> from lucid.nn.layers.transformer import TransformerEncoderLayer
    >>> layer = TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(lucid.rand(3, 5, 8)).shape
    (3, 5, 8)
    """

    _blocks = 2
    self_attn: MultiheadAttention

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._around(2, self._around(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result, and a feed-forward network; see `TransformerEncoderLayer`.

    >>> import lucid
    >>> from lucid.nn.layers.transformer import TransformerDecoderLayer
    >>> layer = TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(lucid.rand(3, 5, 8), memory=lucid.rand(3, 7, 8)).shape
    (3, 5, 8)
    """

    _blocks = 3
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )[0]

        x = self._around(2, self._around(1, tgt, attend), look)
        return self._around(3, x, self._feed_forward)


class _Stack(Module):
    """Copies of one layer on top of each other, and a norm behind them."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def extra_repr(self) -> str:
        return f"num_layers={self.num_layers}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """As of any module; layers may also be called by their numbers alone."""
        for key in [k for k in state_dict if k.startswith(prefix) and k[len(prefix) :].partition(".")[0].isdecimal()]:
            value = state_dict.pop(key)
            state_dict.setdefault(f"{prefix}layers.{key[len(prefix) :]}", value)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _run(self, x: Tensor, *args: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, and `norm`, if given, behind them.

    `enable_nested_tensor` and `mask_check` are taken for code that gives them; results do not depend on them.

    >>> import lucid
    >>> from lucid.nn.layers.transformer import TransformerEncoder, TransformerEncoderLayer
    >>> encoder = TransformerEncoder(TransformerEncoderLayer(8, nhead=2, dim_feedforward=16), num_layers=2)
    >>> encoder(lucid.rand(5, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._run(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, and `norm`, if given, behind them.

    >>> import lucid
    >>> from lucid.nn.layers.transformer import TransformerDecoder, TransformerDecoderLayer
    >>> decoder = TransformerDecoder(TransformerDecoderLayer(8, nhead=2, dim_feedforward=16), num_layers=2)
    >>> decoder(lucid.rand(5, 3, 8), lucid.rand(7, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self._run(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """An encoder and a decoder that attends to its result.

    Called with the source and the target sequences, and masks for both.

    >>> import lucid
    >>> from lucid.nn.layers.transformer import Transformer
    >>> model = Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> target = lucid.rand(4, 3, 8)
    >>> model(lucid.rand(6, 3, 8), target, tgt_mask=model.generate_square_subsequent_mask(4)).shape
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        attention_dropout: float | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        layer: dict[str, Any] = {**made, "attention_dropout": attention_dropout}
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, **made)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings, **layer), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings, **layer), num_decoder_layers, norm()
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, nhead={self.nhead}"

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(f"Transformer: inputs must have size {self.d_model}, got {src.shape} and {tgt.shape}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A mask with which each of `sz` positions sees itself and those before it: -inf above the diagonal, else 0."""
        return lucid.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
