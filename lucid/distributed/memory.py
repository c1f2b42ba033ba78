"""The memory of tensors as engines take it: contiguous, and written in place where that is possible."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from lucid.core import arrays, modes
from lucid.core.levels import tracing
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor

__all__ = ["as_tensors", "described", "raise_unless_tensor", "read", "read_all", "written", "written_all"]

Finish = Callable[[], None]


def described(tensor: Any) -> str:
    """The type and shape of a tensor, or of several.

    >>> import lucid
    >>> from lucid.distributed.memory import described
    >>> described(lucid.ones(2, 3)), described([lucid.ones(2), lucid.ones(2)])
    ('float32[2, 3]', '[float32[2], float32[2]]')
    """
    if hasattr(tensor, "shape"):
        return f"{tensor.dtype.name}[{', '.join(map(str, tensor.shape))}]"
    return f"[{', '.join(map(described, tensor))}]"


def raise_unless_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, not {type(value).__name__}")


def _array(name: str, tensor: Any) -> Any:
    raise_unless_tensor(name, tensor)
    if tensor._level or tracing():
        raise RuntimeError(
            f"{name}: a tensor inside a transform or a program has no memory of its own; "
            f"use the functions of lucid.distributed.functional there"
        )
    return tensor._synced().shell()._array


def as_tensors(name: str, tensors: Any, count: int) -> list[Tensor]:
    """A list with a tensor for each member."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{name}: expected a list of {count} tensors, one for each member, not {type(tensors).__name__}"
        )
    if len(tensors) != count:
        raise ValueError(f"{name}: expected a list of {count} tensors, one for each member, not of {len(tensors)}")
    for tensor in tensors:
        raise_unless_tensor(name, tensor)
        if tensor.np_dtype != tensors[0].np_dtype:
            raise TypeError(f"{name}: tensors must have one type, not {tensors[0].dtype} and {tensor.dtype}")
    return list(tensors)


def read(name: str, tensor: Tensor) -> Any:
    """The elements of a tensor, one after another: its own memory if they lie so."""
    array = _array(name, tensor)
    return (array if arrays.is_contiguous(array) else arrays.copy(array)).reshape(-1)


def written(name: str, tensor: Tensor, reads: bool = True) -> tuple[Any, Finish]:
    """Memory to write the elements of a tensor to, and what to call once that is done."""
    array = _array(name, tensor)
    tensor._raise_if_read_only(name)
    if modes.recording.get() and tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            f"{name}: this tensor has a history, which a write to its memory would make wrong; write to x.detach(), or use "
            "the functions of lucid.distributed.functional, which have derivatives"
        )
    direct = arrays.is_contiguous(array)
    made = array if direct else arrays.copy(array) if reads else arrays.empty(array.shape, array.dtype)

    def finish() -> None:
        if not direct:
            arrays.assign(array, made)
        storage_of(tensor).bump(name)

    return made.reshape(-1), finish


def read_all(name: str, tensors: Sequence[Tensor]) -> tuple[Any, list[int]]:
    """The elements of several tensors, and how many each has."""
    counts = [prod(t.shape) for t in tensors]
    made = arrays.empty((sum(counts),), tensors[0].np_dtype)
    for part, tensor in zip(_split(made, counts), tensors, strict=True):
        arrays.assign(part, read(name, tensor))
    return made, counts


def written_all(name: str, tensors: Sequence[Tensor]) -> tuple[Any, list[int], Finish]:
    """Memory to write the elements of several tensors to, how many each has, and what to call once that is done."""
    counts = [prod(t.shape) for t in tensors]
    targets = [written(name, t, reads=False) for t in tensors]
    made = arrays.empty((sum(counts),), tensors[0].np_dtype)

    def finish() -> None:
        for part, (target, end) in zip(_split(made, counts), targets, strict=True):
            arrays.assign(target, part)
            end()

    return made, counts, finish


def _split(array: Any, counts: Sequence[int]) -> list[Any]:
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    return [array[end - count : end] for end, count in zip(ends, counts, strict=True)]
