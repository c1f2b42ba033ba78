"""Concatenation, and everything that is concatenation underneath."""

from itertools import accumulate
from typing import Any

import numpy as np

from lucid.core.tensor import Tensor
from lucid.ops.dims import numpy_names, one_dim
from lucid.ops.promotion import KEEP, lift_all, promote
from lucid.ops.rules import P, Variadic, batched_to_front, zeros_like


def _cat_pull(needed: list[int], ct: Any, args: Any, shapes: Any, params: Any) -> list[Any]:
    dim = params["dim"]
    bounds = [0, *accumulate(s[dim] for s in shapes)]
    before = (slice(None),) * dim
    return [P.slice(ct, index=(*before, slice(bounds[i], bounds[i + 1]))) for i in needed]


cat_primitive = Variadic(
    "cat",
    lambda *xs, dim: np.concatenate(xs, axis=dim),
    _cat_pull,
    jvp=lambda prim, primals, tangents, out, params: P.cat(
        *[zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)], **params
    ),
    batch=lambda prim, values, batched, size, params: P.cat(
        *batched_to_front(values, batched, size), dim=params["dim"] + 1
    ),
    reads=lambda needed, count: (),
)


def _tensors(tensors: Any, name: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        tensors = tensors.unbind(0)
    found = lift_all(*tensors)
    if not found:
        raise ValueError(f"{name}: expected at least one tensor")
    promoted: list[Tensor] = promote(name, found, KEEP)
    return promoted


@numpy_names
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along a dimension that they have.

    >>> import lucid
    >>> lucid.cat([lucid.zeros(2, 1), lucid.ones(2, 2)], dim=1)
    Tensor([[0., 1., 1.],
            [0., 1., 1.]])
    """
    found = _tensors(tensors, "cat")
    # As in PyTorch, empty 1-d tensors join with anything.
    parts = [t for t in found if t.shape != (0,)] or found[:1]
    first = parts[0]
    if not first.ndim:
        raise RuntimeError("cat: 0-d tensors cannot be joined; use stack")
    d = one_dim(dim, first.ndim, "cat")
    for t in parts[1:]:
        if t.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if i != d
        ):
            raise RuntimeError(f"cat: shapes {first.shape} and {t.shape} differ outside dimension {d}")
    return P.cat(*parts, dim=d)


concat = concatenate = cat


@numpy_names
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension.

    >>> import lucid
    >>> x, y = lucid.tensor([1, 2]), lucid.tensor([3, 4])
    >>> lucid.stack([x, y], dim=1)
    Tensor([[1, 3],
            [2, 4]])
    """
    found = _tensors(tensors, "stack")
    shape = found[0].shape
    for t in found[1:]:
        if t.shape != shape:
            raise RuntimeError(f"stack: shapes {shape} and {t.shape} differ")
    d = one_dim(dim, len(shape) + 1, "stack")
    return P.cat(*[P.reshape(t, shape=(*shape[:d], 1, *shape[d:])) for t in found], dim=d)


def hstack(tensors: Any) -> Tensor:
    """Join along dimension 1 (0 for 1-d tensors).

    >>> import lucid
    >>> lucid.hstack([lucid.tensor([1, 2]), lucid.tensor([3])])
    Tensor([1, 2, 3])
    """
    found = [t.reshape(1) if t.ndim == 0 else t for t in _tensors(tensors, "hstack")]
    return cat(found, 0 if found[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    """Join along dimension 0; 1-d tensors are rows.

    >>> import lucid
    >>> lucid.vstack([lucid.tensor([1, 2]), lucid.tensor([3, 4])])
    Tensor([[1, 2],
            [3, 4]])
    """
    return cat([t.reshape(1, -1) if t.ndim < 2 else t for t in _tensors(tensors, "vstack")], 0)


def dstack(tensors: Any) -> Tensor:
    """Join along dimension 2, which matrices get; 1-d tensors count as one row.

    >>> import lucid
    >>> lucid.dstack([lucid.tensor([1, 2]), lucid.tensor([3, 4])])
    Tensor([[[1, 3],
             [2, 4]]])
    """
    found = [t.reshape(1, -1) if t.ndim < 2 else t for t in _tensors(tensors, "dstack")]
    return cat([t.unsqueeze(2) if t.ndim == 2 else t for t in found], 2)
