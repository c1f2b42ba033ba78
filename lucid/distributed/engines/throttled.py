"""An engine with a stated latency and bandwidth, over another one: it shows what waiting costs, on one machine.

An operation on n bytes takes latency + n / bandwidth, one after another in each direction, and what waits for it sleeps, so
that other threads have the processor: what is hidden behind computation can be measured without a network.
"""

import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from lucid.distributed.engines.engine import DONE, Counts, Engine, Pending, Receiving, ReduceOp

# Locks stay as they are in a forked child, which belongs to no group (`after_fork` in groups.py).


class _Link:
    """Says when an operation that starts now would be done, behind those that started before."""

    def __init__(self, latency: float, bandwidth: float) -> None:
        self.latency, self.bandwidth = latency, bandwidth
        self.free, self.lock = 0.0, threading.Lock()

    def ready(self, nbytes: int) -> float:
        with self.lock:
            self.free = max(self.free, time.monotonic()) + self.latency + nbytes / self.bandwidth
            return self.free


class _Delayed(Pending):
    def __init__(self, inner: Pending, ready: float) -> None:
        self.inner, self.ready = inner, ready

    def done(self) -> bool:
        return time.monotonic() >= self.ready and self.inner.done()

    def wait(self, seconds: float | None = None) -> bool:
        start = time.monotonic()
        left = max(self.ready - start, 0.0)
        time.sleep(left if seconds is None else min(left, seconds))
        if seconds is not None and left > seconds:
            return False
        return self.inner.wait(None if seconds is None else max(seconds - (time.monotonic() - start), 0.0))


class _Later(Pending):
    """A message that another thread sends when its time has come."""

    def __init__(self) -> None:
        self.started, self.inner = threading.Event(), DONE

    def done(self) -> bool:
        return self.started.is_set() and self.inner.done()

    def wait(self, seconds: float | None = None) -> bool:
        start = time.monotonic()
        if not self.started.wait(seconds):
            return False
        return self.inner.wait(None if seconds is None else max(seconds - (time.monotonic() - start), 0.0))


class Throttled(Engine):
    """Another engine, slowed down: `latency` in seconds, `bandwidth` in bytes for each of them.

    >>> import lucid, time
    >>> import lucid.distributed as dist
    >>> from lucid.distributed.engines.single import SingleEngine
    >>> dist.init_process_group(dist.Throttled(SingleEngine(), latency=0.01, bandwidth=1e9))
    >>> start = time.monotonic()
    >>> dist.all_reduce(lucid.ones(10))
    >>> time.monotonic() - start >= 0.01
    True
    >>> dist.destroy_process_group()
    """

    def __init__(self, inner: Engine, latency: float, bandwidth: float, *, _links: Any = None) -> None:
        self.inner, self.name, self.rank, self.size = inner, inner.name, inner.rank, inner.size
        self.is_threaded = inner.is_threaded
        self.links: tuple[_Link, _Link] = _links or (_Link(latency, bandwidth), _Link(latency, bandwidth))
        self.link, self.outgoing = self.links[0], self.links[1]
        self.messages: SimpleQueue[Any] = SimpleQueue()
        self.thread: threading.Thread | None = None

    def part(self, ranks: Sequence[int], name: str) -> Engine | None:
        inner = self.inner.part(ranks, name)
        return None if inner is None else Throttled(inner, 0, 1, _links=self.links)

    def _delayed(self, inner: Pending, nbytes: int) -> Pending:
        return _Delayed(inner, self.link.ready(nbytes))

    def barrier(self) -> Pending:
        return self._delayed(self.inner.barrier(), 0)

    def broadcast(self, buffer: Any, root: int) -> Pending:
        return self._delayed(self.inner.broadcast(buffer, root), buffer.nbytes)

    def all_reduce(self, buffer: Any, op: ReduceOp) -> Pending:
        return self._delayed(self.inner.all_reduce(buffer, op), buffer.nbytes)

    def reduce(self, buffer: Any, op: ReduceOp, root: int) -> Pending:
        return self._delayed(self.inner.reduce(buffer, op, root), buffer.nbytes)

    def all_gather(self, source: Any, target: Any, counts: Counts = None) -> Pending:
        return self._delayed(self.inner.all_gather(source, target, counts), target.nbytes)

    def gather(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        return self._delayed(self.inner.gather(source, target, root, counts), source.nbytes)

    def scatter(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        return self._delayed(self.inner.scatter(source, target, root, counts), target.nbytes)

    def reduce_scatter(self, source: Any, target: Any, op: ReduceOp, counts: Counts = None) -> Pending:
        return self._delayed(self.inner.reduce_scatter(source, target, op, counts), source.nbytes)

    def all_to_all(self, source: Any, target: Any, given: Counts = None, taken: Counts = None) -> Pending:
        return self._delayed(self.inner.all_to_all(source, target, given, taken), source.nbytes)

    def send(self, buffer: Any, to: int, tag: int) -> Pending:
        if self.thread is None:
            self.thread = threading.Thread(target=self._send, name="lucid.distributed throttled", daemon=True)
            self.thread.start()
        later = _Later()
        self.messages.put((self.outgoing.ready(buffer.nbytes), later, buffer, to, tag))
        return later

    def _send(self) -> None:
        while (message := self.messages.get()) is not None:
            ready, later, buffer, to, tag = message
            time.sleep(max(ready - time.monotonic(), 0.0))
            later.inner = self.inner.send(buffer, to, tag)
            later.started.set()

    def recv(self, buffer: Any, sender: int | None, tag: int) -> Receiving:
        return self.inner.recv(buffer, sender, tag)

    def busy(self) -> bool:
        return self.inner.busy()

    def close(self) -> None:
        if self.thread is not None:
            self.messages.put(None)
            self.thread.join()
        self.inner.close()

    def abort(self, why: str) -> None:
        self.inner.abort(why)
