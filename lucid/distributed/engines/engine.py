"""What an engine must do: move contiguous host memory between processes. Everything else is built on this.

Buffers are contiguous arrays, and an engine neither keeps nor copies them. Each operation is started in the order of the
calls, gives a `Pending`, and must be called by all members, in the same order; callers have checked ranks, shapes and
types. `counts` are numbers of elements for each member, where they are not all the same. A new engine is a subclass, and a
row of `lucid.distributed.engines.ENGINES`.
"""

import os
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

__all__ = ["DONE", "DistributedError", "Engine", "Pending", "ReduceOp"]

Counts = Sequence[int] | None


class DistributedError(RuntimeError):
    """Processes could not do together what was asked of them; the message says what each was doing, as far as is known."""

    waited = False  # whether a time limit was reached


class ReduceOp(Enum):
    """How elements of several processes are put together.

    >>> from lucid.distributed import ReduceOp
    >>> ReduceOp.SUM, ReduceOp("max")
    (<ReduceOp.SUM: 'sum'>, <ReduceOp.MAX: 'max'>)
    """

    SUM = "sum"
    AVG = "mean"
    PRODUCT = "prod"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class Pending:
    """An operation that was started. Buffers must stay as they are until it is done."""

    def done(self) -> bool:
        """Whether it is done; raises what went wrong. Calls of this may be what moves it on."""
        raise NotImplementedError

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is done, or for so many seconds; whether it is done."""
        return polled(self.done, seconds)


class _Done(Pending):
    def done(self) -> bool:
        return True


DONE = _Done()  # of operations that took no time

_EAGER = 5e-5  # seconds during which a wait only gives way to other threads
_LONGEST = 1e-3  # seconds of a sleep


def polled(done: Callable[[], bool], seconds: float | None) -> bool:
    """Ask until the answer is yes or time is up, with sleeps that grow with the time that was spent."""
    start = time.perf_counter()
    while not done():
        spent = time.perf_counter() - start
        if seconds is not None and spent >= seconds:
            return False
        if spent < _EAGER:
            os.sched_yield()
        else:
            time.sleep(min(spent / 8, _LONGEST))
    return True


class Engine:
    """A number of processes, of which this is the one of number `rank`, and how they exchange memory."""

    name: str  # as given to `init_process_group`
    rank: int
    size: int
    is_threaded = True  # whether several threads may call it at once

    def part(self, ranks: Sequence[int], name: str) -> "Engine | None":
        """An engine of some members, numbered in the order given, which they all call; None for one that is not of them."""
        raise NotImplementedError

    def barrier(self) -> Pending:
        raise NotImplementedError

    def broadcast(self, buffer: Any, root: int) -> Pending:
        raise NotImplementedError

    def all_reduce(self, buffer: Any, op: ReduceOp) -> Pending:
        """In place. `op` is never AVG: what calls this divides sums."""
        raise NotImplementedError

    def reduce(self, buffer: Any, op: ReduceOp, root: int) -> Pending:
        """In place in the memory of the root; that of the others stays as it is."""
        raise NotImplementedError

    def all_gather(self, source: Any, target: Any, counts: Counts = None) -> Pending:
        """What the members have, one after another. The source may be this member's part of the target."""
        raise NotImplementedError

    def gather(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        """The same for the root; `target` is None elsewhere."""
        raise NotImplementedError

    def scatter(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        """Parts of the root's source, which is None elsewhere, to each member."""
        raise NotImplementedError

    def reduce_scatter(self, source: Any, target: Any, op: ReduceOp, counts: Counts = None) -> Pending:
        """This member's part of what is reduced of all sources."""
        raise NotImplementedError

    def all_to_all(self, source: Any, target: Any, given: Counts = None, taken: Counts = None) -> Pending:
        """The j-th part of the i-th member's source becomes the i-th part of the j-th member's target."""
        raise NotImplementedError

    def send(self, buffer: Any, to: int, tag: int) -> Pending:
        raise NotImplementedError

    def recv(self, buffer: Any, sender: int | None, tag: int) -> "Receiving":
        """`sender` None takes the message of any member."""
        raise NotImplementedError

    def busy(self) -> bool:
        """Whether a thread of it is at work."""
        return False

    def close(self) -> None:
        """Give back what it holds; nothing is under way. Members call it together."""

    def abort(self, why: str) -> None:
        """End all processes, members or not, at once."""
        raise NotImplementedError


class Receiving(Pending):
    """A message on its way. Once it is done, `sender` says from whom, and `count` how many elements it had."""

    sender: int
    count: int
