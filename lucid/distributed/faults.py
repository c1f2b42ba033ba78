"""What becomes of the other processes when one fails: they are ended at once, and the launcher is told why."""

import atexit
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from lucid.distributed import progress
from lucid.distributed.control import Line
from lucid.distributed.engines.engine import DistributedError, Engine

_engines: list[Engine] = []  # the one of all processes
_line: list[Line] = []
_pid: list[int] = []
_ending: list[BaseException] = []


def watch(engine: Engine) -> None:
    """From now on, an error that nobody catches, and an end with something under way, end all processes."""
    if not _pid:
        _pid.append(os.getpid())
        former = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            former(kind, error, trace)
            if not issubclass(kind, KeyboardInterrupt):
                end_all(error)

        sys.excepthook = hook
        atexit.register(_at_exit)
    _engines[:] = [engine]


def report_to(line: Line) -> None:
    """Tell the launcher, too."""
    _line.append(line)


@contextmanager
def joining(what: str, limit: float) -> Iterator[None]:
    """Around a call of an engine that only returns when others make it too: the launcher ends what takes longer.

    It is told at once, since MPI keeps other threads of this process waiting while it starts.
    """
    progress.now[:] = progress.now[0] + 1, what, limit
    _tell()
    try:
        yield
    finally:
        progress.now[2] = 0
        _tell()


def _tell() -> None:
    for line in _line:
        line.say(at=progress.now)


def unwatch() -> None:
    """The processes have parted."""
    _engines.clear()


def end_all(error: BaseException) -> None:
    """Say what went wrong, and end all processes."""
    if _ending or (_pid and _pid[0] != os.getpid()):
        return  # once is enough, and a process that was forked off ends alone
    _ending.append(error)
    sys.stdout.flush()
    sys.stderr.flush()
    for line in _line:
        kind = "waited" if isinstance(error, DistributedError) and error.waited else "raised"
        line.failed(kind, "".join(traceback.format_exception_only(error)).strip())
    if _engines and (_engines[0].size > 1 or progress.abandoned):
        _engines[0].abort(str(error))


def _at_exit() -> None:
    if _pid[0] != os.getpid() or not _engines:
        return
    if progress.abandoned or _engines[0].busy():
        what: Any = progress.abandoned[0][0] if progress.abandoned else "a collective"
        error = DistributedError(f"this process ended while {what} was under way")
        print(f"rank {_engines[0].rank}: {error}", file=sys.stderr)
        end_all(error)
