"""Padding as a function."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lucid import Tensor
from lucid.core.primitive import apply, lift
from lucid.core.tensor import shape_of
from lucid.ops.nn.padding import MODES, padding_map
from lucid.ops.nn.resampling import Maps
from lucid.ops.rules import P

__all__ = ["pad"]

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def pad(
    input: Any,
    pad: Sequence[int] | None = None,
    mode: str = "constant",
    value: float | None = None,
    *,
    padding: Sequence[int] | None = None,
) -> Tensor:
    """Elements in front of and behind the last dimensions: `pad` is (left, right, top, bottom, …), last dimension first.

    The mode is "constant" (`value`, 0 by default), "reflect" (mirrored without the edge), "replicate" (the edge
    repeated) or "circular" (from the other end). Negative numbers cut elements off first. All but "constant" take one, two or
    three dimensions behind the channels. `padding` is another name of `pad`.

    >>> import lucid
    >>> from lucid.nn.functional.padding import pad
    >>> x = lucid.tensor([[1.0, 2.0, 3.0]])
    >>> pad(x, (2, 1))
    Tensor([[0., 0., 1., 2., 3., 0.]])
    >>> pad(x, (2, 1), mode="reflect")
    Tensor([[3., 2., 1., 2., 3., 2.]])
    >>> pad(x, (2, 1), mode="circular")
    Tensor([[2., 3., 1., 2., 3., 1.]])
    """
    x = lift(input)
    if (pad is None) == (padding is None):
        raise TypeError("pad: give pad, which may also be called padding, once")
    numbers = _integers(padding if pad is None else pad)
    if mode == "constant":
        return _constant(x, numbers, 0 if value is None else value)
    if mode not in MODES:
        raise ValueError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', not {mode!r}")
    if value:
        raise ValueError(f"pad: mode {mode!r} copies elements and takes no value, but {value} was given")
    return apply(P.resample, (x,), {"maps": _maps(mode, shape_of(x), numbers)})


def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0) -> Tensor:
    """One value in front of and behind the last dimensions: `pad` in the mode "constant".

    >>> import lucid
    >>> lucid.constant_pad_nd(lucid.tensor([1, 2]), (1, 2), 7)
    Tensor([7, 1, 2, 7, 7])
    """
    x = lift(input)
    return _constant(x, _integers(pad), value)


def _integers(pad: Any) -> Sizes:
    try:
        return tuple([p.__index__() for p in pad])
    except (AttributeError, TypeError):
        raise TypeError(f"pad: expected a sequence of integers, not {pad!r}") from None


def _pairs(sizes: Sizes, numbers: Sizes) -> Pairs:
    """(before, behind) for each of the last dimensions, in their order."""
    if len(numbers) % 2 or len(numbers) > 2 * len(sizes):
        raise RuntimeError(
            f"pad: {len(numbers)} numbers for shape {sizes}; expected two for each dimension, at most {2 * len(sizes)}"
        )
    return tuple(zip(numbers[-2::-2], numbers[::-2], strict=True))


@lru_cache(maxsize=512)
def _maps(mode: str, sizes: Sizes, numbers: Sizes) -> Maps:
    """Where the elements of each dimension come from."""
    pairs = _pairs(sizes, numbers)
    n = len(pairs)
    if not 1 <= n <= 3 or len(sizes) not in (n + 1, n + 2):
        raise RuntimeError(
            f"pad: mode {mode!r} pads one, two or three dimensions behind the channels, so {n} pairs of numbers "
            f"need a tensor with {n + 1} or {n + 2} dimensions, not shape {sizes}"
        )
    for size, (low, high) in zip(sizes[-n:], pairs, strict=True):
        _raise_if_too_much(mode, size, low, high)
    return tuple([padding_map(mode, size, *pair) if any(pair) else None for size, pair in zip(sizes[-n:], pairs)])


def _raise_if_too_much(mode: str, size: int, low: int, high: int) -> None:
    left = size + (low + high if mode == "replicate" else min(low, 0) + min(high, 0))
    most = {"reflect": left - 1, "circular": left}.get(mode, max(low, high))
    if left < 1:
        raise RuntimeError(f"pad: ({low}, {high}) leaves nothing of a dimension of {size}")
    if max(low, high) > most:
        raise RuntimeError(
            f"pad: mode {mode!r} can add at most {most} elements to {left} at either end, not ({low}, {high})"
        )


def _constant(x: Tensor, numbers: Sizes, value: float) -> Tensor:
    sizes = shape_of(x)
    kept, places, shape = _around(sizes, numbers)
    if kept is not None:
        x = P.slice(x, index=kept)
        sizes = x.shape
    if shape == sizes:
        return P.clone(x)
    return apply(P.pad, (x,), {"index": places, "shape": shape, "value": value})


@lru_cache(maxsize=512)
def _around(sizes: Sizes, numbers: Sizes) -> tuple[tuple[slice, ...] | None, tuple[slice, ...], Sizes]:
    """What is kept of a shape, None for all of it, where that is in what it becomes, and the shape of this."""
    pairs = _pairs(sizes, numbers)
    lead = len(sizes) - len(pairs)
    shape, whole = list(sizes), [slice(None)] * lead
    kept, places = whole.copy(), whole.copy()
    for d, (low, high) in enumerate(pairs, lead):
        n = shape[d]
        shape[d] = n + low + high
        if shape[d] < 0:
            raise RuntimeError(f"pad: {list(pairs)} cuts off more than there is in shape {sizes}")
        part = slice(max(-low, 0), n - max(-high, 0))
        kept.append(part)
        places.append(slice(max(low, 0), max(low, 0) + max(part.stop - part.start, 0)))
    cuts = any(low < 0 or high < 0 for low, high in pairs)
    return tuple(kept) if cuts else None, tuple(places), tuple(shape)
