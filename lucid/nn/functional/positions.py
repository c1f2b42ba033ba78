"""Positions as numbers: sinusoids, rotations of queries and keys, and heads that several queries share."""

import lucid
from lucid import Tensor

__all__ = ["apply_rotary_emb", "repeat_kv", "sinusoidal_embedding", "sinusoidal_embedding_2d"]


def sinusoidal_embedding(
    num_positions: int, embedding_dim: int, *, base: float = 10000.0, device: object = None
) -> Tensor:
    """(positions, size): columns 2i and 2i + 1 are sine and cosine of position · base^(-2i/size).

    >>> import lucid
    >>> from lucid.nn.functional import sinusoidal_embedding
    >>> sinusoidal_embedding(2, 4)
    Tensor([[0.    , 1.    , 0.    , 1.    ],
            [0.8415, 0.5403, 0.01  , 0.9999]])
    """
    if embedding_dim % 2:
        raise ValueError(f"sinusoidal_embedding needs an even embedding_dim, not {embedding_dim}")
    positions = lucid.arange(num_positions, dtype=lucid.float64, device=device)
    rates = base ** (-lucid.arange(0, embedding_dim, 2, dtype=lucid.float64) / max(embedding_dim, 1))
    angles = positions.unsqueeze(1) * rates
    both = lucid.stack([angles.sin(), angles.cos()], -1).reshape(num_positions, embedding_dim)
    return both.to(lucid.get_default_dtype())


def sinusoidal_embedding_2d(
    height: int, width: int, embedding_dim: int, *, base: float = 10000.0, device: object = None
) -> Tensor:
    """(height · width, size), row by row: the first half of the columns codes the column of a place, the second its row.

    >>> import lucid
    >>> from lucid.nn.functional import sinusoidal_embedding_2d
    >>> sinusoidal_embedding_2d(2, 3, 8).shape
    (6, 8)
    """
    if embedding_dim % 4:
        raise ValueError(f"sinusoidal_embedding_2d needs an embedding_dim divisible by 4, not {embedding_dim}")
    half = embedding_dim // 2
    columns = sinusoidal_embedding(width, half, base=base, device=device).unsqueeze(0).expand(height, width, half)
    rows = sinusoidal_embedding(height, half, base=base, device=device).unsqueeze(1).expand(height, width, half)
    return lucid.cat([columns, rows], -1).reshape(height * width, embedding_dim)


def _rotated(x: Tensor, interleaved: bool) -> Tensor:
    """A quarter turn of each pair: of neighbours, or of elements of both halves."""
    if interleaved:
        return lucid.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    half = x.shape[-1] // 2
    return lucid.cat([-x[..., half:], x[..., :half]], -1)


def apply_rotary_emb(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: bool = False,
) -> tuple[Tensor, Tensor]:
    """Turn pairs of elements of queries and keys (…, length, size) by angles that grow with their positions.

    `cos` and `sin` are tables (positions, size), as `RotaryEmbedding` gives them, cut to the lengths or picked by
    `position_ids`. A pair is an element of each half, or with `interleaved` two neighbours.

    >>> import lucid
    >>> from lucid.nn.functional import apply_rotary_emb
    >>> cos, sin = lucid.nn.RotaryEmbedding(4, 8)()
    >>> q = lucid.ones(1, 2, 3, 4)
    >>> turned, _ = apply_rotary_emb(q, q, cos, sin)
    >>> turned[0, 0, 0], turned.norm().item() == q.norm().item()
    (Tensor([1., 1., 1., 1.]), True)
    """

    def turn(x: Tensor) -> Tensor:
        if position_ids is None:
            c, s = cos[: x.shape[-2]], sin[: x.shape[-2]]
        else:
            c, s = cos[position_ids], sin[position_ids]
            while c.ndim < x.ndim and position_ids.ndim > 1:  # (batch, length, size): heads share the positions
                c, s = c.unsqueeze(1), s.unsqueeze(1)
        return x * c + _rotated(x, interleaved) * s

    return turn(q), turn(k)


def repeat_kv(hidden_states: Tensor, n_rep: int) -> Tensor:
    """Keys or values (batch, heads, length, size) with each head n times in a row.

    >>> import lucid
    >>> from lucid.nn.functional import repeat_kv
    >>> repeat_kv(lucid.ones(2, 3, 5, 4), 2).shape
    (2, 6, 5, 4)
    """
    return hidden_states.repeat_interleave(n_rep, 1)
