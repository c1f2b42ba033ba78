"""Collectives with derivatives by the names and arguments of `torch.distributed.nn.functional`."""

from collections.abc import Sequence
from typing import Any

from lucid.api.joining import cat, stack
from lucid.core.tensor import Tensor
from lucid.distributed import functional
from lucid.distributed.engines.engine import ReduceOp
from lucid.distributed.functional import all_reduce, broadcast
from lucid.distributed.groups import chosen
from lucid.distributed.memory import as_tensors

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """What each member has.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> dist.nn.all_gather(lucid.ones(2))
    (Tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    return tuple(functional.all_gather(tensor.unsqueeze(0), 0, group).unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """What each member has, for one of them; the others get zeros."""
    return tuple(functional.gather(tensor, dst, group).unbind(0))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One of the tensors that one member has, for each."""
    return functional.scatter(stack(as_tensors("scatter", tensors, chosen(group).size()), 0), src, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum or mean of what all members have, for one of them; the others get zeros."""
    return functional.reduce(tensor, dst, op, group)


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """This member's tensor of what the lists of all members give together. `output` says the shape, and is not written."""
    tensors = as_tensors("reduce_scatter", input_list, chosen(group).size())
    return functional.reduce_scatter(stack(tensors, 0), op, 0, group).squeeze(0)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """One tensor from each member. The outputs say the shapes, which are those of the inputs, and are not written."""
    tensors = as_tensors("all_to_all", input_tensor_list, chosen(group).size())
    return tuple(functional.all_to_all(stack(tensors, 0), 0, 0, group).unbind(0))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """The same for parts of one tensor. Parts of unequal sizes are filled up for their way, and cut again."""
    if not output_split_sizes and not input_split_sizes:
        return functional.all_to_all(input, 0, 0, group)
    own = chosen(group)
    size = own.size()
    given = list(input_split_sizes or [input.shape[0] // size] * size)
    taken = list(output_split_sizes or [output.shape[0] // size] * size)
    most = int(functional.pmax(Tensor.from_data(max(given)), own).item())
    room = Tensor.from_data(0.0).to(input.dtype).expand(most, *input.shape[1:])
    parts = [cat([part, room[: most - part.shape[0]]], 0) for part in input.split(given, 0)]
    moved = functional.all_to_all(stack(parts, 0), 0, 0, own)
    return cat([moved[i, :count] for i, count in enumerate(taken)], 0)
