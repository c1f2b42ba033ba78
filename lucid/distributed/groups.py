"""Processes and groups of them: starting, ending, and who is who.

Ranks are numbers of processes among all; inside a group, members are numbered from 0 in the order in which they were given.
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from lucid.distributed import faults
from lucid.distributed.control import RESTARTS, SIZE
from lucid.distributed.engines import ENGINES, DistributedError, Engine, made
from lucid.forks import after_fork

__all__ = [
    "DistributedError", "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "new_group", "new_subgroups",
]  # fmt: skip

DEFAULT_TIMEOUT = 1800.0  # seconds, as in PyTorch
# By these, launchers of MPI say how many processes they started: Open MPI, MPICH and its relatives; Slurm says it of its
# step, and by another name whether that one speaks MPI.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_STEP_SIZE, _STEP_RANKS = "SLURM_STEP_NUM_TASKS", ("PMIX_RANK", "PMI_RANK")


class ProcessGroup:
    """Some processes that do collectives together. `new_group` makes one; all of them are `group.WORLD`.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> dist.group.WORLD, dist.group.WORLD.rank(), dist.group.WORLD.size()
    (<ProcessGroup 'world' of 1, backend single>, 0, 1)
    >>> dist.destroy_process_group()
    """

    def __init__(self, engine: Engine, ranks: Sequence[int], name: str, timeout: float, debug: bool) -> None:
        self.engine, self.ranks, self.name = engine, tuple(ranks), name
        self.timeout, self.debug = timeout, debug
        self.calls = 0  # how many collectives were started

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.engine.rank

    def size(self) -> int:
        """How many members there are."""
        return self.engine.size

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return self.name

    def member(self, rank: int) -> int:
        """The number in this group of a process that is given by its number among all."""
        if rank not in self.ranks:
            raise ValueError(f"rank {rank} is not in {self!r}, whose ranks are {list(self.ranks)}")
        return self.ranks.index(rank)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.name!r} of {self.size()}, backend {self.engine.name}>"


class _NonMember:
    """Stands for a group of which this process is no member."""

    def __repr__(self) -> str:
        return "<not a member of the group>"


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _groups[0] if _groups else None

    @WORLD.setter
    def WORLD(cls, value: Any) -> None:
        raise AttributeError("group.WORLD is set by init_process_group")


class group(metaclass=_Members):
    """`group.WORLD` has all processes; it is None before `init_process_group`."""

    NON_GROUP_MEMBER = _NonMember()


GroupMember = group
_groups: list[ProcessGroup] = []  # those of which this process is a member, the first with all processes
_made = [0]  # how many groups were made, with those of others
_left: list[ProcessGroup] = []  # those of the process from which this one was forked


@after_fork
def _leave() -> None:
    """A forked child, such as a worker that loads data, is no process of its own: it belongs to no group."""
    _left.extend(_groups)  # nothing of them is freed here
    _groups.clear()


def chosen(given: Any = None) -> ProcessGroup:
    """The group that a function is given: all processes by default."""
    if given is None:
        if not _groups:
            raise ValueError("there is no process group yet: call lucid.distributed.init_process_group() first")
        return _groups[0]
    if isinstance(given, _NonMember):
        raise ValueError("this process is not a member of the group; only members call its collectives")
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"a group must be a ProcessGroup, or None for all processes, not {type(given).__name__}")
    if given not in _groups:
        raise ValueError(f"{given!r} was destroyed")
    return given


def seconds_of(timeout: Any, default: float) -> float:
    """A time limit, given in seconds or as a timedelta."""
    if timeout is None:
        return default
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"timeout must be a timedelta or a number of seconds, not {type(timeout).__name__}")
    if not seconds > 0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    return float(seconds)


def _started_together() -> bool:
    """Whether a launcher of MPI started this process with others."""
    names = [*_SIZES, *([_STEP_SIZE] if any(name in os.environ for name in _STEP_RANKS) else [])]
    return any(os.environ.get(name, "1") not in ("", "1") for name in names)


def init_process_group(
    backend: str | Engine | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    *,
    debug: bool | None = None,
) -> None:
    """Join the processes that were started together. All of them call it.

    `backend` is "mpi" (the extra `lucid[mpi]`) or "single", for one process alone; by default what fits how this process
    was started. Processes find each other by their launcher, so that `init_method` and `store` are not looked at.
    `timeout` limits the wait for others, in seconds or as a timedelta. With `debug`, or LUCID_DISTRIBUTED_DEBUG=1, each
    collective first compares what all members call.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group()
    >>> dist.get_rank(), dist.get_world_size(), dist.get_backend()
    (0, 1, 'single')
    >>> dist.destroy_process_group()
    """
    if _groups:
        raise ValueError("init_process_group was called already; destroy_process_group() ends what it started")
    limit = seconds_of(timeout, float(os.environ.get("LUCID_DISTRIBUTED_TIMEOUT") or DEFAULT_TIMEOUT))
    if backend is None:
        backend = "mpi" if _started_together() else "single"
    with faults.joining("init_process_group", limit):
        engine = backend if isinstance(backend, Engine) else made(str(backend).lower())
    expected = os.environ.get(SIZE, "1") if RESTARTS in os.environ else str(engine.size)
    if str(engine.size) != expected and isinstance(backend, str):
        raise RuntimeError(
            f"the launcher started {expected} processes, but {backend!r} sees {engine.size}: mpi4py uses another MPI than "
            "the mpirun that started them; run --launcher says which one to take"
        )
    for what, given, found in (("world_size", world_size, engine.size), ("rank", rank, engine.rank)):
        if given not in (-1, found):
            raise ValueError(f"{what}={given}, but this process was started with {what} {found} by its launcher")
    if debug is None:
        debug = os.environ.get("LUCID_DISTRIBUTED_DEBUG", "0") not in ("", "0")
    _groups.append(ProcessGroup(engine, range(engine.size), "world", limit, debug))
    _made[0] = 1
    faults.watch(engine)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group, or all of them. All members call it."""
    ended = [chosen(group)] if group is not None and group is not _first() else list(_groups)
    for known in reversed(ended):
        _groups.remove(known)
        known.engine.close()
    if not _groups:
        faults.unwatch()


def _first() -> ProcessGroup | None:
    return _groups[0] if _groups else None


def is_available() -> bool:
    """Whether processes can be joined: always, since one process needs nothing else.

    >>> import lucid.distributed as dist
    >>> dist.is_available(), dist.is_initialized()
    (True, False)
    """
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return bool(_groups)


def is_mpi_available() -> bool:
    """Whether backend="mpi" can be used: whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_backend_available(backend: str) -> bool:
    """Whether there is a backend of this name."""
    return is_mpi_available() if backend == "mpi" else backend in ENGINES


def is_nccl_available() -> bool:
    """Whether there is NCCL: no."""
    return False


is_gloo_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's launcher started this process: no. See `python -m lucid.distributed.run`."""
    return False


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group, from 0; -1 if it is no member."""
    return -1 if isinstance(group, _NonMember) else chosen(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes a group has; -1 if this one is no member."""
    return -1 if isinstance(group, _NonMember) else chosen(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of the engine of a group."""
    return chosen(group).engine.name


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The ranks of the members of a group among all processes."""
    return list(chosen(group).ranks)


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """The number in a group of a process that is given by its number among all."""
    return chosen(group).member(global_rank)


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """The number among all processes of a member of a group."""
    return checked_rank("group_rank", group_rank, chosen(group), among_all=False)


def checked_rank(what: str, rank: Any, group: ProcessGroup, among_all: bool = True) -> int:
    """The number in a group of a rank among all, or the other way around."""
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"{what} must be the rank of a process, a number, not {type(rank).__name__}")
    if among_all:
        return group.member(rank)
    if not 0 <= rank < group.size():
        raise ValueError(f"{what} must be from 0 to {group.size() - 1} in {group!r}, not {rank}")
    return group.ranks[rank]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes, by default of all. All processes call it, members or not, in the same order.

    For processes that are not in `ranks`, `group.NON_GROUP_MEMBER` is returned.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> dist.new_group([0])
    <ProcessGroup 'group 1' of 1, backend single>
    >>> dist.destroy_process_group()
    """
    world = chosen()
    members = list(world.ranks if ranks is None else ranks)
    if len(set(members)) != len(members):
        raise ValueError(f"new_group: ranks must differ from each other, not {members}")
    if not members:
        raise ValueError("new_group: a group needs at least one rank")
    for rank in members:
        checked_rank("new_group: ranks", rank, world)
    if backend not in (None, world.engine.name):
        raise ValueError(f"new_group: groups have the backend of all processes, {world.engine.name!r}, not {backend!r}")
    members = sorted(members)
    name = group_desc or f"group {_made[0]}"
    _made[0] += 1
    limit = seconds_of(timeout, world.timeout)
    with faults.joining(f"new_group({members})", limit):
        engine = world.engine.part(members, name)
    if engine is None:
        return group.NON_GROUP_MEMBER
    _groups.append(ProcessGroup(engine, members, name, limit, world.debug))
    return _groups[-1]


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` processes next to each other: the one with this process, and all of them."""
    ranks = chosen(group).ranks
    if group_size is None or not 0 < group_size <= len(ranks) or len(ranks) % group_size:
        raise ValueError(f"new_subgroups: {len(ranks)} processes do not divide into groups of {group_size}")
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    made = [new_group(part, timeout, backend) for part in parts]
    own = next((g for g in made if isinstance(g, ProcessGroup)), made[0])
    return own, made
