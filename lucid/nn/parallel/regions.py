"""The own part of what processes have alike, and the whole of their parts, with derivatives.

What is alike in all processes of a group has a gradient that is alike, too, and counts once; the other borders between what is
alike and what each has for itself are `replicate`, `reduce_once`, `psum`, `all_gather` and `reduce_scatter` of
`lucid.distributed.functional`.
"""

import lucid
from lucid import Tensor
from lucid.distributed import ProcessGroup
from lucid.distributed.functional import reduce_once, replicate

__all__ = ["joined", "split"]


def split(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The own part of a value that all have alike."""
    if x.shape[dim] % group.size():
        raise ValueError(
            f"dimension {dim} of shape {tuple(x.shape)} does not divide by the {group.size()} processes of a group"
        )
    length = x.shape[dim] // group.size()
    return replicate(x, group).narrow(dim, group.rank() * length, length)


def joined(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The parts of all, which all have alike from here on: a sum, in which each has zeros in the places of others."""
    rank, zeros = group.rank(), lucid.zeros_like(x)
    return reduce_once(lucid.cat([x if i == rank else zeros for i in range(group.size())], dim), group)
