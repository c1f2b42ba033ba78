"""Where time and memory go: the primitives that run in a block, with their times, shapes and sizes.

While a profiler runs, kernels are called by way of it. Backward passes count as far as they call primitives.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from lucid.core.primitive import Primitive, registry
from lucid.forks import after_fork


class OpEvent(NamedTuple):
    """One run of a primitive, or of a block that `record_function` names."""

    name: str
    start_ns: int
    time_ns: int
    shape: list[int]
    flops: int
    memory_delta_bytes: int
    thread: int

    @property
    def time_us(self) -> float:
        """The time in microseconds."""
        return self.time_ns / 1e3

    @property
    def time_ms(self) -> float:
        """The time in milliseconds."""
        return self.time_ns / 1e6


@dataclass(frozen=True)
class ProfileSummary:
    """All events of one name together."""

    name: str
    count: int
    total_time_us: float
    avg_time_us: float
    total_flops: int


class MemoryStats(NamedTuple):
    """Memory of results: what was made, the largest, and how many there were."""

    current_bytes: int
    peak_bytes: int
    alloc_count: int
    free_count: int


class _Watched:
    """A kernel whose runs are noted."""

    def __init__(self, prim: Primitive, kernel: Any) -> None:
        self.prim, self.kernel = prim, kernel

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return _noted(self.prim, self.kernel, arrays, params)

    def forward(self, *arrays: Any, **params: Any) -> Any:
        return _noted(self.prim, self.kernel.forward, arrays, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


_running: list["Profiler"] = []
_lock = threading.Lock()


@after_fork
def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


def _noted(prim: Primitive, function: Callable[..., Any], arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    begin = time.perf_counter_ns()
    out = function(*arrays, **params)
    taken = time.perf_counter_ns() - begin
    first = out[0] if isinstance(out, (tuple, list)) and out else out
    shape = list(getattr(first, "shape", ()))
    made = (
        0 if prim.is_view else sum(getattr(o, "nbytes", 0) for o in (out if isinstance(out, (tuple, list)) else [out]))
    )
    event = OpEvent(prim.name, begin, taken, shape, _flops(prim, arrays, shape, params), made, threading.get_ident())
    for profiler in _running:
        profiler._events.append(event)
    return out


def _flops(prim: Primitive, arrays: tuple[Any, ...], shape: list[int], params: dict[str, Any]) -> int:
    """Multiplications and additions of a product; 0 for what is not counted, and for kernels that others call."""
    rule = getattr(prim, "multiply_adds", None)
    try:
        return 0 if rule is None else 2 * int(rule([getattr(a, "shape", ()) for a in arrays], tuple(shape), params))
    except KeyError:
        return 0


class Profiler:
    """Notes what runs between `start` and `stop`, or inside of `with`.

    >>> import lucid
    >>> x = lucid.ones(100, 100)
    >>> with lucid.profiler.profile() as profiler:
    ...     y = (x @ x).relu().sum()
    >>> [(e.name, e.shape) for e in profiler.events()]
    [('contract', [100, 100]), ('relu', [100, 100]), ('sum', [])]
    >>> {s.name: (s.count, s.total_flops) for s in profiler.key_averages()}["contract"]
    (1, 2000000)
    >>> profiler.memory_stats().peak_bytes
    80004
    """

    def __init__(self, with_memory: bool = True) -> None:
        self.with_memory = with_memory
        self._events: list[OpEvent] = []

    def start(self) -> None:
        """Begin to note what runs."""
        with _lock:
            _running.append(self)
            if len(_running) == 1:
                for prim in _primitives():
                    prim.kernel = _Watched(prim, prim.kernel)

    def stop(self) -> None:
        """Note nothing any more."""
        with _lock:
            if self not in _running:
                return
            _running.remove(self)
            if not _running:
                for prim in _primitives():
                    if isinstance(prim.kernel, _Watched):
                        prim.kernel = prim.kernel.kernel

    def __enter__(self) -> "Profiler":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def clear(self) -> None:
        """Forget all events."""
        self._events.clear()

    def events(self) -> list[OpEvent]:
        """What ran, in the order in which it ended."""
        return list(self._events)

    def key_averages(self) -> list[ProfileSummary]:
        """What ran, by name, that with the largest time first."""
        found: dict[str, list[OpEvent]] = {}
        for event in self._events:
            found.setdefault(event.name, []).append(event)
        sums = []
        for name, events in found.items():
            total = sum(e.time_us for e in events)
            sums.append(ProfileSummary(name, len(events), total, total / len(events), sum(e.flops for e in events)))
        return sorted(sums, key=lambda s: -s.total_time_us)

    def memory_stats(self) -> MemoryStats | None:
        """The memory of all results, as if none were freed; None without `with_memory`."""
        if not self.with_memory:
            return None
        sizes = [e.memory_delta_bytes for e in self._events if e.memory_delta_bytes]
        return MemoryStats(sum(sizes), sum(sizes), len(sizes), 0)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the events to a file that Chrome's tracing view and Perfetto show."""
        events = [
            {"name": e.name, "ph": "X", "ts": e.start_ns / 1e3, "dur": e.time_us, "pid": os.getpid(), "tid": e.thread,
             "args": {"shape": e.shape, "flops": e.flops, "bytes": e.memory_delta_bytes}}
            for e in self._events
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


def _primitives() -> list[Primitive]:
    found = {id(p): p for p in registry.values() if isinstance(p, Primitive) and p.kernel is not None}
    return list(found.values())


@contextmanager
def profile(activities: Any = None, with_memory: bool = True) -> Iterator[Profiler]:
    """A context that notes what runs inside, and hands over the profiler that has it."""
    profiler = Profiler(with_memory)
    with profiler:
        yield profiler


@contextmanager
def record_function(name: str) -> Iterator[None]:
    """A context that is an event of its own.

    >>> import lucid
    >>> with lucid.profiler.profile() as profiler, lucid.profiler.record_function("twice"):
    ...     _ = lucid.ones(2) * 2
    >>> [e.name for e in profiler.events()]
    ['mul', 'twice']
    """
    watching = list(_running)
    begin = time.perf_counter_ns()
    try:
        yield
    finally:
        event = OpEvent(name, begin, time.perf_counter_ns() - begin, [], 0, 0, threading.get_ident())
        for profiler in watching:
            profiler._events.append(event)


__all__ = ["MemoryStats", "OpEvent", "ProfileSummary", "Profiler", "profile", "record_function"]
