"""The engine of one process: every collective is a copy at most."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from lucid.core.arrays import assign, copy, shares_memory
from lucid.distributed.engines.engine import DONE, Counts, DistributedError, Engine, Pending, Receiving, ReduceOp


class _Message(Receiving):
    sender = 0

    def __init__(self, buffer: Any, box: deque[Any]) -> None:
        self.buffer, self.box, self.came = buffer, box, False

    def done(self) -> bool:
        if not self.came and self.box:
            message = self.box.popleft()
            if message.dtype != self.buffer.dtype or message.size > self.buffer.size:
                raise DistributedError(
                    f"a message of {message.size} elements of {message.dtype} came where {self.buffer.size} of "
                    f"{self.buffer.dtype} were expected"
                )
            self.count, self.came = message.size, True
            assign(self.buffer.reshape(-1)[: message.size], message.reshape(-1))
        return self.came


class SingleEngine(Engine):
    """One process, alone: what it sends, it receives itself."""

    name, rank, size = "single", 0, 1

    def __init__(self) -> None:
        self.boxes: dict[int, deque[Any]] = {}  # messages by tag

    def part(self, ranks: Sequence[int], name: str) -> Engine | None:
        return SingleEngine() if ranks else None

    def barrier(self) -> Pending:
        return DONE

    def broadcast(self, buffer: Any, root: int) -> Pending:
        return DONE

    def all_reduce(self, buffer: Any, op: ReduceOp) -> Pending:
        return DONE

    def reduce(self, buffer: Any, op: ReduceOp, root: int) -> Pending:
        return DONE

    def _copied(self, source: Any, target: Any) -> Pending:
        if not shares_memory(source, target):
            assign(target.reshape(-1), source.reshape(-1))
        return DONE

    def all_gather(self, source: Any, target: Any, counts: Counts = None) -> Pending:
        return self._copied(source, target)

    def gather(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        return self._copied(source, target)

    def scatter(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        return self._copied(source, target)

    def reduce_scatter(self, source: Any, target: Any, op: ReduceOp, counts: Counts = None) -> Pending:
        return self._copied(source, target)

    def all_to_all(self, source: Any, target: Any, given: Counts = None, taken: Counts = None) -> Pending:
        return self._copied(source, target)

    def send(self, buffer: Any, to: int, tag: int) -> Pending:
        self.boxes.setdefault(tag, deque()).append(copy(buffer))
        return DONE

    def recv(self, buffer: Any, sender: int | None, tag: int) -> Receiving:
        return _Message(buffer, self.boxes.setdefault(tag, deque()))

    def abort(self, why: str) -> None:
        """There are no others."""
