"""Keys and values of attention, kept between the steps of a decoder.

A cache holds one pair for each layer, of shape (batch, heads, length, size). `update` adds those of a step and gives all.
"""

from abc import ABC, abstractmethod
from typing import Any

import lucid
from lucid import Tensor

__all__ = ["Cache", "DynamicCache", "EncoderDecoderCache", "StaticCache"]

Pair = tuple[Tensor, Tensor]


class Cache(ABC):
    """The base of caches.

    >>> from lucid.utils.cache import Cache, DynamicCache
    >>> isinstance(DynamicCache(), Cache)
    True
    """

    key_cache: list[Any]
    value_cache: list[Any]

    @abstractmethod
    def update(self, key: Tensor, value: Tensor, layer_idx: int, cache_kwargs: dict[str, Any] | None = None) -> Pair:
        """Add keys and values of a step; gives all of the layer so far."""

    @abstractmethod
    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions a layer holds."""

    def get_max_cache_shape(self) -> int | None:
        """How many it can hold at most; None if there is no bound."""
        return None

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the rows of the batch in another order, as a beam search goes on with some of them."""
        for table in (self.key_cache, self.value_cache):
            table[:] = [None if t is None else t.index_select(0, beam_idx) for t in table]

    def reset(self) -> None:
        """Forget everything."""
        self.key_cache.clear()
        self.value_cache.clear()

    def __len__(self) -> int:
        return len(self.key_cache)

    def __getitem__(self, layer_idx: int) -> Pair:
        return self.key_cache[layer_idx], self.value_cache[layer_idx]


class DynamicCache(Cache):
    """A cache that grows with each step.

    >>> import lucid
    >>> from lucid.utils.cache import DynamicCache
    >>> cache = DynamicCache()
    >>> for _ in range(3):
    ...     keys, values = cache.update(lucid.rand(2, 4, 1, 8), lucid.rand(2, 4, 1, 8), layer_idx=0)
    >>> keys.shape, cache.get_seq_length()
    ((2, 4, 3, 8), 3)
    """

    def __init__(self) -> None:
        self.key_cache, self.value_cache = [], []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, cache_kwargs: dict[str, Any] | None = None) -> Pair:
        """Add keys and values of a step; gives all of the layer so far."""
        while len(self.key_cache) <= layer_idx:
            self.key_cache.append(None)
            self.value_cache.append(None)
        for table, new in ((self.key_cache, key), (self.value_cache, value)):
            held = table[layer_idx]
            table[layer_idx] = new if held is None else lucid.cat([held, new], -2)
        return self[layer_idx]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions a layer holds."""
        held = self.key_cache[layer_idx] if layer_idx < len(self) else None
        return 0 if held is None else int(held.shape[-2])

    def crop(self, max_length: int) -> None:
        """Keep the first positions; a negative number says how many of the last go."""
        for table in (self.key_cache, self.value_cache):
            table[:] = [None if t is None else t[..., :max_length, :] for t in table]


class StaticCache(Cache):
    """A cache of a fixed size, written in place.

    >>> import lucid
    >>> from lucid.utils.cache import StaticCache
    >>> cache = StaticCache(8)
    >>> keys, _ = cache.update(lucid.rand(2, 4, 3, 5), lucid.rand(2, 4, 3, 5), layer_idx=0)
    >>> keys.shape, cache.get_seq_length(), cache.get_max_cache_shape()
    ((2, 4, 3, 5), 3, 8)
    """

    def __init__(self, max_cache_len: int) -> None:
        self.max_cache_len = max_cache_len
        self.key_cache, self.value_cache = [], []
        self._lengths: list[int] = []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, cache_kwargs: dict[str, Any] | None = None) -> Pair:
        """Add keys and values of a step; gives all of the layer so far."""
        while len(self.key_cache) <= layer_idx:
            self.key_cache.append(None)
            self.value_cache.append(None)
            self._lengths.append(0)
        start = self._lengths[layer_idx]
        end = start + key.shape[-2]
        if end > self.max_cache_len:
            raise ValueError(f"StaticCache: {end} positions do not fit into {self.max_cache_len}")
        with lucid.no_grad():
            for table, new in ((self.key_cache, key), (self.value_cache, value)):
                if table[layer_idx] is None:
                    table[layer_idx] = new.new_zeros((*new.shape[:-2], self.max_cache_len, new.shape[-1]))
                table[layer_idx][..., start:end, :] = new
        self._lengths[layer_idx] = end
        return self.key_cache[layer_idx][..., :end, :], self.value_cache[layer_idx][..., :end, :]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions a layer holds."""
        return self._lengths[layer_idx] if layer_idx < len(self) else 0

    def get_max_cache_shape(self) -> int:
        """How many it can hold."""
        return self.max_cache_len

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._lengths.clear()


class EncoderDecoderCache(Cache):
    """A cache for the attention of a decoder to itself, and one for its attention to an encoder.

    >>> from lucid.utils.cache import DynamicCache, EncoderDecoderCache
    >>> EncoderDecoderCache(DynamicCache(), DynamicCache()).get_seq_length()
    0
    """

    def __init__(
        self, self_attention_cache: Cache, cross_attention_cache: Cache, *, is_updated: dict[int, bool] | None = None
    ) -> None:
        self.self_attention_cache, self.cross_attention_cache = self_attention_cache, cross_attention_cache
        self.is_updated = dict(is_updated or {})
        self.key_cache, self.value_cache = self_attention_cache.key_cache, self_attention_cache.value_cache

    def update(self, key: Tensor, value: Tensor, layer_idx: int, cache_kwargs: dict[str, Any] | None = None) -> Pair:
        """Add those of the decoder's attention to itself, or with `is_cross_attention` in the options those to the encoder."""
        if (cache_kwargs or {}).get("is_cross_attention"):
            self.is_updated[layer_idx] = True
            return self.cross_attention_cache.update(key, value, layer_idx)
        return self.self_attention_cache.update(key, value, layer_idx)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions the decoder has seen."""
        return self.self_attention_cache.get_seq_length(layer_idx)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the rows of the batch in another order in both."""
        self.self_attention_cache.reorder_cache(beam_idx)
        self.cross_attention_cache.reorder_cache(beam_idx)

    def reset(self) -> None:
        """Forget everything in both."""
        self.self_attention_cache.reset()
        self.cross_attention_cache.reset()
        self.is_updated.clear()
