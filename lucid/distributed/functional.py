"""Collectives that give new tensors and have derivatives, under the tape, `grad`, `jvp` and `vmap`, and in programs.

All members of a group call them, with tensors of the same shape and type. Derivatives are those of the sum of the losses of
all members; see `lucid.distributed.primitives` for the transposes. Since the derivative of a collective is one too, all
members must also do the same with the results: one that leaves a result out of its loss would be waited for in vain.
"""

from collections.abc import Sequence
from typing import Any

from lucid.api.reductions import amax, amin, prod
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.distributed import primitives
from lucid.distributed.calls import rank_of, read_op
from lucid.distributed.engines.engine import ReduceOp
from lucid.distributed.groups import ProcessGroup, chosen
from lucid.distributed.memory import described

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "pmax", "pmean", "pmin", "ppermute", "psum", "reduce",
    "reduce_once", "reduce_scatter", "replicate", "scatter",
]  # fmt: skip


def _given(x: Any, group: Any) -> tuple[Tensor, ProcessGroup]:
    return lift(x), chosen(group)


def _reduced(name: str, x: Tensor, op: Any, own: ProcessGroup, sums: Any) -> Any:
    """A reduction by its sum, if that is enough, or of everything that the members have."""
    found = read_op(name, op, x.dtype)
    if found is ReduceOp.SUM:
        return sums(x)
    if found is ReduceOp.AVG:
        return sums(x) / own.size()
    if found not in _OF_ALL:
        raise ValueError(f"{name}: there is no derivative of {found.value}; use lucid.distributed.{name}")
    return None


_OF_ALL = {
    ReduceOp.MIN: lambda parts: amin(parts, 0),
    ReduceOp.MAX: lambda parts: amax(parts, 0),
    ReduceOp.PRODUCT: lambda parts: prod(parts, 0),
}


def all_reduce(x: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """What the elements of all members give together, for all of them.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> lucid.func.grad(lambda x: dist.functional.all_reduce(x * x).sum())(lucid.tensor([1.0, 2.0]))
    Tensor([2., 4.])
    >>> dist.destroy_process_group()
    """
    x, own = _given(x, group)
    out = _reduced("all_reduce", x, op, own, lambda x: primitives.all_reduce(x, group=own))
    if out is None:
        parts = primitives.all_gather(x, group=own)
        out = _OF_ALL[read_op("all_reduce", op, x.dtype)](parts)
    made: Tensor = out
    return made


def psum(x: Any, group: Any = None) -> Tensor:
    """The sum of what all members have."""
    return all_reduce(x, ReduceOp.SUM, group)


def pmean(x: Any, group: Any = None) -> Tensor:
    """The mean of what all members have."""
    return all_reduce(x, ReduceOp.AVG, group)


def pmin(x: Any, group: Any = None) -> Tensor:
    """The least of what all members have; members that share it share the cotangent."""
    return all_reduce(x, ReduceOp.MIN, group)


def pmax(x: Any, group: Any = None) -> Tensor:
    """The largest of what all members have; members that share it share the cotangent."""
    return all_reduce(x, ReduceOp.MAX, group)


def replicate(x: Any, group: Any = None) -> Tensor:
    """A value that all members have in common, for computing something else of it in each: its cotangents are summed."""
    x, own = _given(x, group)
    out: Tensor = primitives.replicate(x, group=own)
    return out


def reduce_once(x: Any, group: Any = None) -> Tensor:
    """The sum of what all members have, where what is computed of it is the same everywhere and counts once."""
    x, own = _given(x, group)
    out: Tensor = primitives.reduce_once(x, group=own)
    return out


def _dim(name: str, dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(f"{name}: dim must be from {-ndim} to {ndim - 1} for a tensor of {ndim} dimensions, not {dim}")
    return dim % ndim


def _divided(name: str, x: Tensor, dim: int, own: ProcessGroup) -> Tensor:
    """The parts of a dimension, one for each member, in a new first dimension."""
    if not x.ndim:
        raise ValueError(f"{name}: a tensor without dimensions cannot be divided")
    dim = _dim(name, dim, x.ndim)
    length, size = x.shape[dim], own.size()
    if length % size:
        raise ValueError(f"{name}: dimension {dim} of {described(x)} does not divide by {size}, the number of members")
    return x.reshape(*x.shape[:dim], size, length // size, *x.shape[dim + 1 :]).movedim(dim, 0)


def _joined(name: str, parts: Tensor, dim: int) -> Tensor:
    """The parts in the first dimension one after another along another one."""
    if parts.ndim == 1:
        return parts
    dim = _dim(name, dim, parts.ndim - 1)
    whole = parts.movedim(0, dim)
    return whole.reshape(
        *whole.shape[:dim], -1 if parts.numel() else whole.shape[dim] * whole.shape[dim + 1], *whole.shape[dim + 2 :]
    )


def all_gather(x: Any, dim: int = 0, group: Any = None) -> Tensor:
    """What all members have, one after another along `dim`."""
    x, own = _given(x, group)
    return _joined("all_gather", primitives.all_gather(x, group=own), dim)


def reduce_scatter(x: Any, op: Any = ReduceOp.SUM, dim: int = 0, group: Any = None) -> Tensor:
    """This member's part, along `dim`, of what the elements of all members give together."""
    x, own = _given(x, group)
    parts = _divided("reduce_scatter", x, dim, own)
    out = _reduced("reduce_scatter", x, op, own, lambda _: primitives.reduce_scatter(parts, group=own))
    if out is None:
        given = primitives.all_to_all(parts, group=own)
        out = _OF_ALL[read_op("reduce_scatter", op, x.dtype)](given)
    made: Tensor = out
    return made


def all_to_all(x: Any, split_dim: int = 0, concat_dim: int = 0, group: Any = None) -> Tensor:
    """Divide along one dimension, give each member its part, and put those of the others together along another one."""
    x, own = _given(x, group)
    parts = primitives.all_to_all(_divided("all_to_all", x, split_dim, own), group=own)
    return _joined("all_to_all", parts, concat_dim)


def ppermute(x: Any, perm: Sequence[tuple[int, int]], group: Any = None) -> Tensor:
    """Send along pairs (from, to) of members; those that nothing is sent to get zeros. No member is named twice on a side."""
    x, own = _given(x, group)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    for side in ([a for a, _ in pairs], [b for _, b in pairs]):
        if len(set(side)) != len(side) or not all(0 <= r < own.size() for r in side):
            raise ValueError(
                f"ppermute: members are numbered from 0 to {own.size() - 1} and send and receive once, but perm is {list(perm)}"
            )
    out: Tensor = primitives.permute(x, pairs=pairs, group=own)
    return out


def broadcast(x: Any, src: int = 0, group: Any = None) -> Tensor:
    """What the member of rank `src` has, for all members."""
    x, own = _given(x, group)
    out: Tensor = primitives.broadcast(x, root=rank_of("broadcast", "src", own, src, None, None), group=own)
    return out


def reduce(x: Any, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum or mean of what all members have, for the one of rank `dst`; the others get zeros."""
    x, own = _given(x, group)
    root = rank_of("reduce", "dst", own, dst, None, None)
    out = _reduced("reduce", x, op, own, lambda x: primitives.reduce(x, root=root, group=own))
    if out is None:
        raise ValueError("reduce: use all_reduce for others than sums and means")
    made: Tensor = out
    return made


def gather(x: Any, dst: int = 0, group: Any = None) -> Tensor:
    """What all members have, stacked in a new first dimension, for the one of rank `dst`; the others get zeros."""
    x, own = _given(x, group)
    out: Tensor = primitives.gather(x, root=rank_of("gather", "dst", own, dst, None, None), group=own)
    return out


def scatter(x: Any, src: int = 0, group: Any = None) -> Tensor:
    """This member's part, along the first dimension, of what the one of rank `src` has; what the others give is not read."""
    x, own = _given(x, group)
    if not x.ndim or x.shape[0] != own.size():
        raise ValueError(
            f"scatter: the first dimension must have {own.size()} parts, one for each member, not {described(x)}"
        )
    out: Tensor = primitives.scatter(x, root=rank_of("scatter", "src", own, src, None, None), group=own)
    return out
