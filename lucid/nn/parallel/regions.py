"""Collectives on the borders between what processes have alike and what each has for itself, with their derivatives.

A value that is alike in all processes of a group has a gradient that is alike, too; of one that each has for itself, each
has the gradient of the sum of all losses. Every border is the transpose of another one:

| border | forward | backward |
|---|---|---|
| `entered` | the value as it is | sum |
| `summed_up` | sum | the gradient as it is |
| `summed` | sum | sum: both sides differ between processes |
| `split` | own part | all parts together |
| `joined` | all parts together | own part |
| `gathered` | all parts together | own part of the sum |
| `reduce_scattered` | own part of the sum | all parts together |
"""

from collections.abc import Callable
from typing import Any

import lucid
from lucid import Tensor, distributed
from lucid.autograd import Function
from lucid.distributed import ProcessGroup

__all__ = ["entered", "gathered", "joined", "reduce_scattered", "split", "summed", "summed_up"]

Step = Callable[[Tensor, int, ProcessGroup], Tensor]


def _same(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    return x.view_as(x)


def _sum(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    out = x.detach().contiguous().clone()
    distributed.all_reduce(out, group=group)
    return out


def _part(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    length = _divided(x, dim, group)
    return x.detach().narrow(dim, group.rank() * length, length).contiguous().clone()


def _together(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    first = x.detach().movedim(dim, 0).contiguous()
    out = lucid.empty(first.shape[0] * group.size(), *first.shape[1:], dtype=x.dtype)
    distributed.all_gather_into_tensor(out, first, group)
    return out.movedim(0, dim).contiguous()


def _part_of_sum(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    length = _divided(x, dim, group)
    first = x.detach().movedim(dim, 0).contiguous()
    out = lucid.empty(length, *first.shape[1:], dtype=x.dtype)
    distributed.reduce_scatter_tensor(out, first, group=group)
    return out.movedim(0, dim).contiguous()


def _divided(x: Tensor, dim: int, group: ProcessGroup) -> int:
    if x.shape[dim] % group.size():
        raise ValueError(
            f"dimension {dim} of shape {x.shape} does not divide by the {group.size()} processes of a group"
        )
    return int(x.shape[dim] // group.size())


class _Border(Function):
    """A step whose derivative is another one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Step, back: Step, dim: int, group: ProcessGroup) -> Tensor:
        ctx.steps = there, back, dim, group
        return there(x, dim, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        there, back, dim, group = ctx.steps
        return _Border.apply(grads[0], back, there, dim, group), None, None, None, None


def _border(there: Step, back: Step, x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    if group.size() == 1:
        return x
    out: Tensor = _Border.apply(x, there, back, dim % max(x.ndim, 1), group)
    return out


def entered(x: Tensor, group: ProcessGroup) -> Tensor:
    """A value that all have alike, for use by each in its own way."""
    return _border(_same, _sum, x, 0, group)


def summed_up(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of what each has, which all have alike from here on."""
    return _border(_sum, _same, x, 0, group)


def summed(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of what each has, for use by each in its own way."""
    return _border(_sum, _sum, x, 0, group)


def split(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The own part of a value that all have alike."""
    return _border(_part, _together, x, dim, group)


def joined(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The parts of all, which all have alike from here on."""
    return _border(_together, _part, x, dim, group)


def gathered(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The parts of all, for use by each in its own way."""
    return _border(_together, _part_of_sum, x, dim, group)


def reduce_scattered(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The own part of the sum of what each has."""
    return _border(_part_of_sum, _together, x, dim, group)
