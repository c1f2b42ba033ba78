"""Handles of collectives that were started: what `async_op=True` gives."""

from collections.abc import Callable
from typing import Any

from lucid.distributed import progress
from lucid.distributed.engines.engine import DistributedError, Pending
from lucid.distributed.groups import ProcessGroup, seconds_of

__all__ = ["Work"]


class Work:
    """A collective that was started. `wait` before its tensors are used.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> x = lucid.ones(2)
    >>> work = dist.all_reduce(x, async_op=True)
    >>> work.wait(), work.is_completed(), x
    (True, True, Tensor([1., 1.]))
    >>> dist.destroy_process_group()
    """

    def __init__(self, what: str, group: ProcessGroup, pending: Pending, finish: Callable[[], Any]) -> None:
        self.what, self.group, self._pending, self._finish = what, group, pending, finish
        self._ended, self._value = False, None
        self._error: DistributedError | None = None

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done. Past the time limit, of the group if none is given, it raises."""
        if not self._ended:
            limit = seconds_of(timeout, self.group.timeout)
            progress.now[:] = progress.now[0] + 1, self.what, limit
            if not self._moved(lambda: self._pending.wait(limit)):
                progress.abandoned.append((self.what, self._pending))
                self._raised(self._overdue(limit))
            progress.now[2] = 0
        if self._error is not None:
            raise self._error
        return True

    def _overdue(self, limit: float) -> DistributedError:
        error = DistributedError(
            f"rank {self.group.ranks[self.group.rank()]} waited {limit:g} s in {self.what} of {self.group!r} for other "
            "members; at least one of them has not called it, is gone, or called something else "
            "(LUCID_DISTRIBUTED_DEBUG=1 compares the calls)"
        )
        error.waited = True
        return error

    def _moved(self, ask: Callable[[], bool]) -> bool:
        if self._ended:
            return True
        try:
            if not ask():
                return False
        except Exception as error:
            self._raised(DistributedError(f"{self.what} of {self.group!r}: {error}"), error)
        else:
            self._ended = True
            self._value = self._finish()
        return True

    def _raised(self, error: DistributedError, cause: Exception | None = None) -> None:
        error.__cause__ = cause
        self._ended, self._error = True, error

    def is_completed(self) -> bool:
        """Whether it is done, with success or not. Once it is, the tensors have the result."""
        return self._moved(self._pending.done)

    def is_success(self) -> bool:
        """Whether it is done without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> DistributedError | None:
        """What went wrong, if it is done and something did."""
        return self._error

    def result(self) -> Any:
        """What the collective gives, once it is done."""
        self.wait()
        return self._value

    def __repr__(self) -> str:
        state = "failed" if self._error is not None else "done" if self._ended else "under way"
        return f"<Work {self.what}, {state}>"
