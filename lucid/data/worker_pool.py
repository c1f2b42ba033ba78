"""The main process's side of workers: starting them, giving them tasks, waiting for answers, ending them."""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any
from weakref import finalize

from lucid.data.fetching import Recipe
from lucid.data.transport import Received
from lucid.data.worker_process import END, FAILURE, Init, main_ends, work

_GRACE = 2.0  # seconds for a worker to finish what it is doing before it is terminated, and then before it is killed


class WorkerPool:
    """Worker processes, each with a connection of its own: whatever befalls one, no lock is left held."""

    def __init__(self, recipe: Recipe, num_workers: int, base_seed: int, init: Init, context: Any) -> None:
        self.owner = os.getpid()
        self.epoch = -1
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self.close = finalize(self, _shut_down, self._processes, self._connections, self.owner)
        try:
            for number in range(num_workers):
                self._start(context, (number, num_workers, base_seed + number), recipe, init)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, info: tuple[int, int, int], recipe: Recipe, init: Init) -> None:
        here, there = context.Pipe()
        self._connections.append(here)
        main_ends.add(here)
        name = f"lucid-worker-{info[0]}"
        process = context.Process(target=work, args=(there, self.owner, info, recipe, init), daemon=True, name=name)
        try:
            process.start()
        finally:
            there.close()
        self._processes.append(process)

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def usable(self) -> bool:
        """Whether this process may give tasks to these workers."""
        return self.close.alive and self.owner == os.getpid()

    def send(self, worker: int, indices: Any) -> None:
        """Give a worker a task of the current epoch."""
        try:
            self._connections[worker].send((self.epoch, indices))
        except OSError:
            raise self._death(worker) from None

    def answer(self, worker: int, timeout: float) -> tuple[int, Any]:
        """A worker's next answer of the current epoch; those of epochs that were abandoned are dropped."""
        deadline = time.monotonic() + timeout if timeout else None
        while True:
            self._wait(worker, timeout, deadline)
            try:
                message = Received(self._connections[worker])
            except (EOFError, OSError):
                raise self._death(worker) from None
            epoch, kind = message.label
            if epoch == self.epoch:
                return kind, message.content()

    def _wait(self, worker: int, timeout: float, deadline: float | None) -> None:
        connection, process = self._connections[worker], self._processes[worker]
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = wait([connection, process.sentinel], left)
        if not ready:
            raise RuntimeError(f"DataLoader: worker {worker} gave no batch within timeout={timeout:g} seconds")
        if connection not in ready and not connection.poll():
            raise self._death(worker)

    def _death(self, worker: int) -> RuntimeError:
        process = self._processes[worker]
        process.join(_GRACE)
        code = process.exitcode
        advice = "its output may say why, and num_workers=0 runs the same code in this process"
        if code is None:
            how = "closed its connection"
        elif code >= 0:
            how = f"ended with exit code {code}"
        else:
            names = {s.value: s.name for s in signal.Signals}
            how = f"was killed by {names.get(-code, f'signal {-code}')}"
            if code == -getattr(signal, "SIGKILL", 0):
                advice = "the system may have run out of memory: try fewer workers or smaller batches"
        return RuntimeError(f"DataLoader: worker {worker} (pid {process.pid}) {how}; {advice}")


def _shut_down(processes: list[Any], connections: list[Connection], owner: int) -> None:
    """Ask the workers to end, wait a little, insist. Runs when a pool is closed or forgotten, and at exit."""
    if os.getpid() != owner:
        return  # in a copy of the main process, which has no say over its workers
    for connection in connections:
        _say_goodbye(connection)
        main_ends.discard(connection)
    deadline = time.monotonic() + _GRACE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    for stop in ("terminate", "kill"):
        alive = [process for process in processes if process.is_alive()]
        for process in alive:
            getattr(process, stop)()
        for process in alive:
            process.join(_GRACE)
    for process in processes:
        if not process.is_alive():
            process.close()
    processes.clear()


def _say_goodbye(connection: Connection) -> None:
    try:
        if os.name == "posix":  # a worker that hangs must not make this wait
            os.set_blocking(connection.fileno(), False)
        connection.send(None)
    except OSError:  # it is gone, or will notice that the connection is closed
        return
    finally:
        connection.close()


class WorkerIterator(Iterator[Any]):
    """One epoch: the batches in the order of their tasks, which go to the workers in turn, some ahead of time."""

    def __init__(
        self,
        pool: WorkerPool,
        tasks: Iterator[Any],
        prefetch: int,
        timeout: float,
        give_back: Callable[[WorkerPool], None],
    ) -> None:
        self._pool: WorkerPool | None = pool
        self._tasks = tasks
        self._timeout = timeout
        self._give_back = give_back
        self._order: deque[int] = deque()  # the workers that were given a task, in the order of the tasks
        self._error: Exception | None = None  # of the source of tasks, to be raised when its turn comes
        pool.epoch += 1
        try:
            for _ in range(prefetch):
                for worker in range(len(pool)):
                    self._give(pool, worker)
        except BaseException:
            self._end(pool.close)
            raise

    def _give(self, pool: WorkerPool, worker: int) -> None:
        try:
            task = next(self._tasks)
        except StopIteration:
            return
        except Exception as error:
            self._error, self._tasks = error, iter(())
            return
        pool.send(worker, task)
        self._order.append(worker)

    def __next__(self) -> Any:
        pool = self._pool
        if pool is None:
            raise StopIteration
        try:
            while self._order:
                worker = self._order.popleft()
                kind, content = pool.answer(worker, self._timeout)
                if kind == FAILURE:
                    raise content.rebuilt()
                if kind != END:
                    self._give(pool, worker)
                    return content
            if self._error is not None:
                raise self._error
        except BaseException:
            self._end(pool.close)
            raise
        self._end(lambda: self._give_back(pool))
        raise StopIteration

    def _end(self, then: Callable[[], Any]) -> None:
        self._pool = None
        self._order.clear()
        then()

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            self._end(lambda: self._give_back(pool))


__all__ = ["WorkerIterator", "WorkerPool"]
