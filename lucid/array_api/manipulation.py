"""Manipulation functions."""

from collections.abc import Sequence
from typing import Any

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.core.tensor import Tensor


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Arrays brought to one shape; none of them may be written to.

    >>> import lucid
    >>> x, y = lucid.broadcast_arrays(lucid.tensor([1, 2]), lucid.tensor([[3], [4]]))
    >>> x.shape, y.shape
    ((2, 2), (2, 2))
    """
    return lucid.broadcast_tensors(*arrays)


def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """The array repeated to a shape, without a copy.

    >>> import lucid
    >>> lucid.array_api.broadcast_to(lucid.tensor([1, 2]), (2, 2))
    Tensor([[1, 2],
            [1, 2]])
    """
    return lucid.broadcast_to(array(x, "broadcast_to"), shape)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """Arrays joined along a dimension, or flattened and joined with `axis=None`.

    >>> import lucid
    >>> lucid.array_api.concat([lucid.tensor([1, 2]), lucid.tensor([[3]])], axis=None)
    Tensor([1, 2, 3])
    """
    found = same_type("concat", *arrays)
    return lucid.cat([x.reshape(-1) for x in found]) if axis is None else lucid.cat(found, axis)


def expand_dims(x: Any, /, axis: int) -> Tensor:
    """A new dimension of size 1.

    >>> import lucid
    >>> lucid.array_api.expand_dims(lucid.tensor([1, 2]), 1).shape
    (2, 1)
    """
    return lucid.unsqueeze(array(x, "expand_dims"), axis)


def flip(x: Any, /, *, axis: Any = None) -> Tensor:
    """The elements in reverse order along some dimensions, or all.

    >>> import lucid
    >>> lucid.array_api.flip(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[4, 3],
            [2, 1]])
    """
    found = array(x, "flip")
    return lucid.flip(found, tuple(range(found.ndim)) if axis is None else axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """Dimensions moved to other places; the rest stay in order.

    >>> import lucid
    >>> lucid.array_api.moveaxis(lucid.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    return lucid.movedim(array(x, "moveaxis"), source, destination)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """The dimensions in another order.

    >>> import lucid
    >>> lucid.permute_dims(lucid.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return lucid.permute(array(x, "permute_dims"), tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element several times in a row along `axis`, or of the flattened array. `Tensor.repeat` is PyTorch's `tile`.

    >>> import lucid
    >>> lucid.repeat(lucid.tensor([1, 2]), lucid.tensor([1, 3]))
    Tensor([1, 2, 2, 2])
    """
    return lucid.repeat_interleave(array(x, "repeat"), repeats, axis)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; memory is shared if it can be, never with `copy=True`, always with `copy=False`.

    >>> import lucid
    >>> lucid.array_api.reshape(lucid.arange(4), (2, -1))
    Tensor([[0, 1],
            [2, 3]])
    """
    found = array(x, "reshape")
    if copy is False:
        try:
            return found.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: {error}") from None
    out = lucid.reshape(found, shape)
    return out.clone() if copy else out


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The elements moved along, those that leave at one end entering at the other.

    >>> import lucid
    >>> lucid.array_api.roll(lucid.tensor([1, 2, 3]), 1)
    Tensor([3, 1, 2])
    """
    if isinstance(axis, Sequence) and not isinstance(shift, Sequence):
        shift = (shift,) * len(axis)
    return lucid.roll(array(x, "roll"), shift, axis)


def squeeze(x: Any, /, axis: Any) -> Tensor:
    """The array without the dimensions `axis`, which must be of size 1.

    >>> import lucid
    >>> lucid.array_api.squeeze(lucid.zeros(1, 2, 1), 0).shape
    (2, 1)
    """
    found = array(x, "squeeze")
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    if any(not -found.ndim <= a < found.ndim or found.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {found.shape} is not of size 1")
    return lucid.squeeze(found, axes)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new dimension.

    >>> import lucid
    >>> lucid.array_api.stack([lucid.tensor([1, 2]), lucid.tensor([3, 4])], axis=1)
    Tensor([[1, 3],
            [2, 4]])
    """
    return lucid.stack(same_type("stack", *arrays), axis)


def tile(x: Any, repetitions: Sequence[int], /) -> Tensor:
    """The whole array several times along each dimension.

    >>> import lucid
    >>> lucid.array_api.tile(lucid.tensor([1, 2]), (2, 2))
    Tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    return lucid.tile(array(x, "tile"), tuple(repetitions))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension.

    >>> import lucid
    >>> lucid.unstack(lucid.tensor([[1, 2], [3, 4]]), axis=1)
    (Tensor([1, 3]), Tensor([2, 4]))
    """
    return lucid.unbind(array(x, "unstack"), axis)
