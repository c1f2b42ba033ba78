"""Dropout: elements, or whole channels, that are left out at random during training."""

import math

import lucid
from lucid import Tensor
from lucid.api.inplace import inplace as in_place_form
from lucid.api.random import mask

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

_LOWEST_SELU = -1.0507009873554805 * 1.6732632423543772  # what selu tends to for very negative numbers


def _check(p: float, name: str) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability p must be between 0 and 1, got {p}")


def _multiply(input: Tensor, factor: Tensor, inplace: bool) -> Tensor:
    return input.mul_(factor) if inplace else input * factor


def _drop(input: Tensor, p: float, shape: tuple[int, ...], inplace: bool) -> Tensor:
    if p == 0:
        return input
    if p == 1:
        return _multiply(input, lucid.zeros((), dtype=input.dtype), inplace)
    return _multiply(input, mask(shape, p, input.dtype, 1 / (1 - p), input.device), inplace)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, 0 with probability p and x / (1 - p) otherwise; else x.

    >>> import lucid
    >>> from lucid.nn.functional.dropout import dropout
    >>> _ = lucid.manual_seed(0)
    >>> sorted(set(dropout(lucid.ones(100), 0.75).tolist()))
    [0.0, 4.0]
    """
    _check(p, "dropout")
    return _drop(input, p, input.shape, inplace) if training else input


def _channel_shape(input: Tensor, without_batch: int, name: str) -> tuple[int, ...]:
    """One number for each example and channel."""
    if input.ndim not in (without_batch, without_batch + 1):
        raise ValueError(
            f"{name} takes inputs with {without_batch + 1} dimensions, or {without_batch} without a batch, "
            f"not shape {input.shape}"
        )
    kept = input.ndim - without_batch + 1
    return input.shape[:kept] + (1,) * (input.ndim - kept)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool, dims: int) -> Tensor:
    name = f"dropout{dims}d"
    _check(p, name)
    shape = _channel_shape(input, dims + 1, name)
    return _drop(input, p, shape, inplace) if training else input


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of inputs (N, C, L) or (C, L).

    >>> import lucid
    >>> from lucid.nn.functional.dropout import dropout1d
    >>> dropout1d(lucid.ones(1, 2, 3), training=False).shape
    (1, 2, 3)
    """
    return _drop_channels(input, p, training, inplace, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of inputs (N, C, H, W) or (C, H, W).

    >>> import lucid
    >>> from lucid.nn.functional.dropout import dropout2d
    >>> dropout2d(lucid.ones(1, 2, 3, 3), p=1.0).sum()
    Tensor(0.)
    """
    return _drop_channels(input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of inputs (N, C, D, H, W) or (C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.functional.dropout import dropout3d
    >>> dropout3d(lucid.ones(1, 2, 3, 3, 3), p=0.0).sum()
    Tensor(54.)
    """
    return _drop_channels(input, p, training, inplace, 3)


def _alpha_drop(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """Elements set to the lowest value of selu, and all scaled and moved to have mean and variance as before."""
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _LOWEST_SELU * _LOWEST_SELU))
    kept = mask(shape, p, input.dtype, device=input.device)
    # Kept: scale · x + shift. Dropped: scale · lowest + shift.
    shift = -scale * p * _LOWEST_SELU
    return input * (kept * scale) + ((1 - kept) * (scale * _LOWEST_SELU) + shift)


def _alpha(input: Tensor, p: float, shape: tuple[int, ...], training: bool, inplace: bool) -> Tensor:
    if not training or p == 0:
        return input
    return (in_place_form(_alpha_drop) if inplace else _alpha_drop)(input, p, shape)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for networks with selu: dropped elements get its lowest value, and mean and variance stay.

    >>> import lucid
    >>> from lucid.nn.functional.dropout import alpha_dropout
    >>> alpha_dropout(lucid.tensor([1.0, 2.0]), training=False)
    Tensor([1., 2.])
    """
    _check(p, "alpha_dropout")
    return _alpha(input, p, input.shape, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels, which stand in dimension 1.

    >>> import lucid
    >>> from lucid.nn.functional.dropout import feature_alpha_dropout
    >>> feature_alpha_dropout(lucid.ones(2, 3, 4), p=0.5, training=True).shape
    (2, 3, 4)
    """
    _check(p, "feature_alpha_dropout")
    if training and input.ndim < 2:
        raise ValueError(f"feature_alpha_dropout needs inputs of shape (N, C, ...), not {input.shape}")
    return _alpha(input, p, input.shape[:2] + (1,) * (input.ndim - 2), training, inplace)
