"""What all calls of collectives have in common: how they start, and how ranks and reductions are given."""

from collections.abc import Callable, Sequence
from typing import Any

from lucid.core import dtypes
from lucid.distributed.checks import compare
from lucid.distributed.engines.engine import Pending, ReduceOp
from lucid.distributed.groups import ProcessGroup, checked_rank
from lucid.distributed.work import Work

_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_ORDERED = (ReduceOp.MIN, ReduceOp.MAX)
MOST_TAG = 32000  # MPI promises numbers to 32767, and some are for messages of our own


def started(
    what: str,
    group: ProcessGroup,
    start: Callable[[], Pending],
    finish: Callable[[], Any] = lambda: None,
    async_op: bool = False,
    given: Sequence[int] | None = None,
    taken: Sequence[int] | None = None,
) -> Any:
    """Start what an engine does, and wait for it unless it is to go on by itself. `given` and `taken`: see `compare`."""
    group.calls += 1
    if group.debug:
        compare(group, what, given, taken)
    work = Work(what, group, start(), finish)
    if async_op:
        return work
    work.wait()
    return None


def read_op(name: str, op: Any, dtype: dtypes.dtype) -> ReduceOp:
    """A reduction, given as such or by its name, if elements of a type have it."""
    try:
        found = op if isinstance(op, ReduceOp) else ReduceOp(op)
    except ValueError:
        known = ", ".join(repr(o.value) for o in ReduceOp)
        raise ValueError(f"{name}: there is no reduction {op!r}; use a ReduceOp, or one of {known}") from None
    kind = dtype.category
    if (
        (found in _BITWISE and kind in (dtypes.CATEGORY_FLOAT, dtypes.CATEGORY_COMPLEX))
        or (found in _ORDERED and kind == dtypes.CATEGORY_COMPLEX)
        or (found is ReduceOp.AVG and kind in (dtypes.CATEGORY_BOOL, dtypes.CATEGORY_INT))
    ):
        raise TypeError(f"{name}: elements of {dtype} have no {found.value}")
    return found


def rank_of(
    name: str, what: str, group: ProcessGroup, rank: int | None, group_rank: int | None, default: int | None
) -> int:
    """The number in the group of a rank that is given in one of two ways."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: give {what} or group_{what}, not both")
    if group_rank is not None:
        checked_rank(f"{name}: group_{what}", group_rank, group, among_all=False)
        return group_rank
    if rank is None and default is None:
        raise ValueError(f"{name}: say which process is meant, by {what} or group_{what}")
    return checked_rank(f"{name}: {what}", group.ranks[default or 0] if rank is None else rank, group)
