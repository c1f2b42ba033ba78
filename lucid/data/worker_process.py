"""What runs in a worker process: tasks come in, batches or failures go out."""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import numpy as np

from lucid.api.random import manual_seed
from lucid.backends.cpu.threads import set_num_threads
from lucid.data import collation
from lucid.data.failures import Failure
from lucid.data.fetching import Fetch, Recipe
from lucid.data.transport import Parcel, shared_stack
from lucid.data.worker_info import WorkerInfo, set_worker_info

# A task is the number of the epoch and the indices to fetch (for streams: None); None instead of a task ends the worker.
# An answer is labelled with that number and with what its content is: a batch, the end of a stream, or a Failure.
BATCH, END, FAILURE = range(3)
_NOTHING = object()
Init = Callable[[int], Any] | None
_PARENT_CHECK = 5.0  # seconds between looks at whether the parent is alive

# The main process's ends of its connections to workers. A forked worker inherits copies of them, and as long as those
# are open, other workers would not notice that the main process is gone.
main_ends: set[Connection] = set()


def work(connection: Connection, parent: int, info: tuple[int, int, int], recipe: Recipe, init: Init) -> None:
    """The life of a worker; `info` is its number, the number of workers, and its seed."""
    _leave_signals_to_the_parent()
    _close_inherited()
    set_num_threads(1)  # the workers together keep the cores busy
    collation.stack_arrays = shared_stack
    inbox = _Inbox(connection, parent)
    number, _, seed = info
    _seed_everything(seed, number)
    set_worker_info(WorkerInfo(*info, recipe.dataset))
    job = _Job(recipe, init, number)
    while (task := inbox.next()) is not None:
        epoch, indices = task
        try:
            kind, content = job.answer(epoch, indices)
            parcel = Parcel((epoch, kind), content)
        except Exception as error:
            parcel = Parcel((epoch, FAILURE), Failure(error, number))
        try:
            parcel.send(connection)
        except OSError:  # nobody listens any more
            return


class _Job:
    """Answers tasks: initializes at the first, and starts afresh at the first of each epoch."""

    def __init__(self, recipe: Recipe, init: Init, number: int) -> None:
        self._recipe = recipe
        self._init = init
        self._number = number
        self._epoch = -1
        self._fetch: Fetch | None = None
        self._stream: Iterator[Any] | None = None

    def answer(self, epoch: int, indices: Any) -> tuple[int, Any]:
        if self._init is not None:
            self._init(self._number)
            self._init = None
        if epoch != self._epoch:
            self._epoch = epoch
            self._fetch = None if self._recipe.is_stream else self._recipe.fetcher()
            self._stream = self._recipe.stream() if self._recipe.is_stream else None
        if self._fetch is not None:
            return BATCH, self._fetch(indices)
        assert self._stream is not None
        batch = next(self._stream, _NOTHING)
        return (END, None) if batch is _NOTHING else (BATCH, batch)


class _Inbox:
    """Tasks, read as they come by a thread of their own, so that the main process never waits to send one."""

    def __init__(self, connection: Connection, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._newest = -1
        threading.Thread(target=self._read, daemon=True, name="lucid-inbox").start()

    def next(self) -> Any:
        """The next task of the newest epoch; None at the end."""
        while (task := self._tasks.get()) is not None:
            if task[0] >= self._newest:
                return task
        return None

    def _read(self) -> None:
        try:
            while (task := self._received()) is not None:
                self._newest = task[0]
                self._tasks.put(task)
        finally:
            while not self._tasks.empty():
                self._tasks.get()
            self._tasks.put(None)

    def _received(self) -> Any:
        try:
            while not self._connection.poll(_PARENT_CHECK):
                if os.getppid() != self._parent:
                    return None
            return self._connection.recv()
        except (EOFError, OSError):
            return None


def _leave_signals_to_the_parent() -> None:
    """Ctrl-C reaches every process of a terminal, but the main process decides; its own handlers are not for workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _close_inherited() -> None:
    while main_ends:
        main_ends.pop().close()


def _seed_everything(seed: int, number: int) -> None:
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(np.random.SeedSequence([seed - number, number]).generate_state(4))


__all__ = ["BATCH", "END", "FAILURE", "Init", "main_ends", "work"]
