"""Tables of positions as layers, and times as vectors."""

from typing import Any

import lucid
from lucid import Tensor
from lucid.nn.functional.positions import sinusoidal_embedding, sinusoidal_embedding_2d
from lucid.nn.layers.activations import SiLU
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module

__all__ = ["RotaryEmbedding", "SinusoidalEmbedding", "SinusoidalEmbedding2D", "TimestepEmbedding"]


class SinusoidalEmbedding(Module):
    """The table of `lucid.nn.functional.sinusoidal_embedding`, which calling the layer gives.

    >>> import lucid
    >>> lucid.nn.SinusoidalEmbedding(5, 8)().shape
    (5, 8)
    """

    pe: Tensor

    def __init__(self, num_positions: int, embedding_dim: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.num_positions, self.embedding_dim, self.base = num_positions, embedding_dim, base
        self.register_buffer("pe", sinusoidal_embedding(num_positions, embedding_dim, base=base), persistent=False)

    def forward(self) -> Tensor:
        return self.pe

    def extra_repr(self) -> str:
        return f"{self.num_positions}, {self.embedding_dim}, base={self.base}"


class SinusoidalEmbedding2D(Module):
    """The table of `lucid.nn.functional.sinusoidal_embedding_2d`, which calling the layer gives.

    >>> import lucid
    >>> lucid.nn.SinusoidalEmbedding2D(2, 3, 8)().shape
    (6, 8)
    """

    pe: Tensor

    def __init__(self, height: int, width: int, embedding_dim: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.height, self.width, self.embedding_dim, self.base = height, width, embedding_dim, base
        self.register_buffer("pe", sinusoidal_embedding_2d(height, width, embedding_dim, base=base), persistent=False)

    def forward(self) -> Tensor:
        return self.pe

    def extra_repr(self) -> str:
        return f"{self.height}, {self.width}, {self.embedding_dim}, base={self.base}"


class RotaryEmbedding(Module):
    """Cosines and sines (positions, head_dim) for `lucid.nn.functional.apply_rotary_emb`.

    Angles are position · base^(-2i/head_dim) for i < head_dim/2, twice in a row.

    >>> import lucid
    >>> cos, sin = lucid.nn.RotaryEmbedding(8, 16)()
    >>> cos.shape, sin[0].tolist() == [0] * 8
    ((16, 8), True)
    """

    cos_cached: Tensor
    sin_cached: Tensor

    def __init__(self, head_dim: int, max_position_embeddings: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"RotaryEmbedding needs an even head_dim, not {head_dim}")
        self.head_dim, self.max_position_embeddings, self.base = head_dim, max_position_embeddings, base
        rates = base ** (-lucid.arange(0, head_dim, 2, dtype=lucid.float64) / max(head_dim, 1))
        angles = lucid.arange(max_position_embeddings, dtype=lucid.float64).unsqueeze(1) * rates
        both, kind = lucid.cat([angles, angles], -1), lucid.get_default_dtype()
        self.register_buffer("cos_cached", both.cos().to(kind), persistent=False)
        self.register_buffer("sin_cached", both.sin().to(kind), persistent=False)

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.cos_cached, self.sin_cached

    def extra_repr(self) -> str:
        return f"{self.head_dim}, {self.max_position_embeddings}, base={self.base}"


class TimestepEmbedding(Module):
    """Times of any shape (…) as vectors (…, out_dim): sinusoids, then two linear layers with SiLU between them.

    The sinusoids have rates base^(-i/(half - 1)) for half = in_dim/2, cosines first unless `flip_sin_to_cos=False`.

    >>> import lucid
    >>> lucid.nn.TimestepEmbedding(8, 16)(lucid.arange(3)).shape
    (3, 16)
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        base: float = 10000.0,
        flip_sin_to_cos: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in_dim % 2:
            raise ValueError(f"TimestepEmbedding needs an even in_dim, not {in_dim}")
        self.in_dim, self.out_dim, self.base, self.flip_sin_to_cos = in_dim, out_dim, base, flip_sin_to_cos
        self.linear_1 = Linear(in_dim, out_dim, device=device, dtype=dtype)
        self.act = SiLU()
        self.linear_2 = Linear(out_dim, out_dim, device=device, dtype=dtype)

    def forward(self, timesteps: Tensor) -> Tensor:
        half, kind = self.in_dim // 2, self.linear_1.weight.dtype
        rates = self.base ** (-lucid.arange(half, dtype=lucid.float64) / max(half - 1, 1))
        angles = timesteps.unsqueeze(-1).to(kind) * rates.to(kind)
        parts = (angles.cos(), angles.sin()) if self.flip_sin_to_cos else (angles.sin(), angles.cos())
        out: Tensor = self.linear_2(self.act(self.linear_1(lucid.cat(parts, -1))))
        return out
