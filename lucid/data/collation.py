"""Making one batch of many samples: nests of samples become a nest of batched tensors."""

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from lucid.api.creation import as_tensor, tensor
from lucid.api.joining import stack
from lucid.core.tensor import Tensor, is_plain, of_class
from lucid.core.tree import too_deep

_NOT_NUMBERS = "SUOMm"  # the kinds of NumPy's types for text, objects and times
_TYPE_OF_NUMBERS: dict[type, Any] = {float: np.float64, complex: np.complex128}
# Workers set this to a function that puts large batches where the main process can map them.
stack_arrays: Callable[[list[Any]], Any] = np.stack
_MAX_DEPTH = 100  # of samples
_ADVICE = "give the DataLoader a collate_fn that pads them or makes a list"


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples: numbers, arrays and tensors are stacked along a new first dimension.

    Dicts, named tuples and lists are collated part by part (tuples become lists), strings stay as they are.
    Python floats give float64, complex numbers complex128.

    >>> from lucid.data import default_collate
    >>> default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': Tensor([1., 2.], dtype=lucid.float64), 'name': ['a', 'b']}
    >>> default_collate([(1, [2, 3]), (4, [5, 6])])
    [Tensor([1, 4]), [Tensor([2, 5]), Tensor([3, 6])]]
    """
    return _collated(batch, 0)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """One batch of samples, by the first function of a map from types to functions that fits, or by `default_collate`.

    A function is called with the batch and the map.

    >>> from lucid.data import collate
    >>> collate([1, 2], collate_fn_map={int: lambda batch, *, collate_fn_map=None: sum(batch)})
    3
    """
    for kind, function in (collate_fn_map or {}).items():
        if isinstance(batch[0], kind):
            return function(batch, collate_fn_map=collate_fn_map)
    return default_collate(batch)


def _collated(batch: Sequence[Any], depth: int) -> Any:
    if not batch:
        raise ValueError("default_collate: a batch needs at least one sample")
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (np.ndarray, np.generic)):
        return _from_arrays(batch)
    if isinstance(first, (bool, int, float, complex)):
        return tensor(batch, dtype=_TYPE_OF_NUMBERS.get(type(first)))
    if depth > _MAX_DEPTH:
        raise too_deep(first, _MAX_DEPTH)
    if isinstance(first, Mapping):
        return _rebuilt_mapping(first, _columns_by_key(batch, depth))
    if isinstance(first, Sequence):
        return _rebuilt_sequence(first, [_collated(column, depth + 1) for column in _columns(batch)])
    raise TypeError(
        f"default_collate: cannot make a batch of {type(first).__name__}; expected tensors, arrays, numbers, strings, "
        "or dicts and sequences of them. Give the DataLoader a collate_fn."
    )


def default_convert(data: Any) -> Any:
    """Arrays as tensors (over the same memory where it can be), in nests as well; everything else stays as it is.

    This is what a DataLoader does to each sample when `batch_size` is None.

    >>> import numpy as np
    >>> from lucid.data import default_convert
    >>> default_convert({"x": np.array([1, 2]), "name": "a"})
    {'x': Tensor([1, 2]), 'name': 'a'}
    """
    return _converted(data, 0)


def _converted(data: Any, depth: int) -> Any:
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in _NOT_NUMBERS else as_tensor(data)
    if depth > _MAX_DEPTH and isinstance(data, (Mapping, Sequence)):
        raise too_deep(data, _MAX_DEPTH)
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: _converted(value, depth + 1) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _rebuilt_sequence(data, [_converted(d, depth + 1) for d in data])
    return data


def _stacked(batch: Sequence[Any]) -> Tensor:
    for t in batch:
        if not is_plain(t) or t.requires_grad:
            return _stacked_and_recorded(batch)
    return of_class(batch, Tensor._wrap(_stacked_arrays([t._array for t in batch])))


def _stacked_and_recorded(batch: Sequence[Any]) -> Tensor:
    for t in batch:
        if not isinstance(t, Tensor):
            raise TypeError(f"default_collate: a batch of tensors and {type(t).__name__}; {_ADVICE}")
    _raise_unless_alike(batch)
    return stack(batch)


def _from_arrays(batch: Sequence[Any]) -> Tensor:
    arrays = [np.asarray(sample) for sample in batch]
    odd = next((a.dtype for a in arrays if a.dtype.kind in _NOT_NUMBERS), None)
    if odd is not None:
        raise TypeError(f"default_collate: arrays of type {odd} cannot be tensors; {_ADVICE}")
    return as_tensor(_stacked_arrays(arrays))


def _stacked_arrays(arrays: list[Any]) -> Any:
    _raise_unless_alike(arrays)
    return stack_arrays(arrays)


def _raise_unless_alike(samples: Sequence[Any]) -> None:
    shape = samples[0].shape
    for sample in samples:
        if sample.shape != shape:
            raise RuntimeError(
                f"default_collate: samples of shapes {shape} and {sample.shape} cannot be stacked; {_ADVICE}"
            )


def _columns_by_key(batch: Sequence[Mapping[Any, Any]], depth: int) -> dict[Any, Any]:
    keys = batch[0].keys()
    for sample in batch:
        if sample.keys() != keys:
            raise RuntimeError(
                f"default_collate: samples have different keys, {list(keys)} and {list(sample.keys())}; {_ADVICE}"
            )
    return {key: _collated([sample[key] for sample in batch], depth + 1) for key in keys}


def _columns(batch: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    length = len(batch[0])
    for sample in batch:
        if len(sample) != length:
            raise RuntimeError(
                f"default_collate: samples have different lengths, {length} and {len(sample)}; {_ADVICE}"
            )
    return list(zip(*batch, strict=True))


def _rebuilt_mapping(original: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    if type(original) is dict:
        return parts
    if isinstance(original, MutableMapping):
        # A copy keeps what a subclass has besides its items, such as the factory of a defaultdict.
        out = copy.copy(original)
        out.update(parts)
        return out
    return _in_type(type(original), parts)


def _rebuilt_sequence(original: Sequence[Any], parts: list[Any]) -> Any:
    kind: Any = type(original)
    if hasattr(kind, "_fields"):
        return kind(*parts)
    return parts if kind in (list, tuple) else _in_type(kind, parts)


def _in_type(kind: Any, parts: Any) -> Any:
    """In the type of the samples if that can be made so, else in the plain type."""
    try:
        return kind(parts)
    except TypeError:
        return parts


__all__ = ["collate", "default_collate", "default_convert"]
