"""`torch.profiler` over Lucid's own: schedules, handlers of traces, and tables."""

import os
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from lucid.profiler import Profiler, ProfileSummary
from lucid.profiler import record_function as record_function


class ProfilerActivity(Enum):
    """What PyTorch can watch; here the processor is."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3


class ProfilerAction(Enum):
    """What a schedule asks for at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **_: Any
) -> Callable[[int], ProfilerAction]:
    """Which steps are watched: after `skip_first`, rounds of waiting, warming up and recording, `repeat` times.

    >>> from lucid.torch.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        done, place = divmod(step - skip_first, length)
        if step < skip_first or (repeat and done >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """A handler that writes each trace to a file in a directory."""

    def handle(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or f'worker_{os.getpid()}'}.{time.time_ns()}.pt.trace.json"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class EventList(list[ProfileSummary]):
    """Events by name, which can be printed as a table."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """A table of the events: the times, how often each ran, and how much it computed."""
        head = ("Name", "CPU total", "CPU time avg", "# of Calls", "FLOPs")
        rows = [
            (s.name, f"{s.total_time_us:.3f}us", f"{s.avg_time_us:.3f}us", str(s.count), str(s.total_flops))
            for s in self[: row_limit if row_limit >= 0 else None]
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        line = "  ".join("-" * width for width in widths)
        body = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in (head, *rows)]
        return "\n".join([line, body[0], line, *body[1:], line])

    def total_average(self) -> ProfileSummary:
        """All of them together."""
        total, count = sum(s.total_time_us for s in self), sum(s.count for s in self)
        return ProfileSummary("Total", count, total, total / max(count, 1), sum(s.total_flops for s in self))


class profile(Profiler):
    """Notes what runs inside, all the time or at the steps of a schedule.

    >>> import lucid.torch as torch
    >>> from lucid.torch.profiler import ProfilerActivity, profile, record_function
    >>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof, record_function("forward"):
    ...     _ = torch.ones(3, 3) @ torch.ones(3, 3)
    >>> "forward" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    True
    """

    def __init__(
        self,
        *_: Any,
        activities: Any = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], None] | None = None,
        profile_memory: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(with_memory=True)
        self.schedule, self.on_trace_ready, self.step_num = schedule, on_trace_ready, 0

    def _is_recording(self) -> bool:
        return self.schedule is None or self.schedule(self.step_num).value >= ProfilerAction.RECORD.value

    def start(self) -> None:
        """Begin, if the schedule says so."""
        if self._is_recording():
            super().start()

    def stop(self) -> None:
        """End, and hand over the trace if there is one that nobody has had."""
        was = self._is_recording()
        super().stop()
        if was and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the program begins."""
        plan = self.schedule
        if plan is not None:
            before = plan(self.step_num)
            super().stop()
            if before is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.step_num += 1
        if plan is not None and self._is_recording():
            if before is not ProfilerAction.RECORD:
                self.clear()
            super().start()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> EventList:
        """What ran, by name."""
        return EventList(super().key_averages())


def supported_activities() -> set[ProfilerActivity]:
    """What can be watched."""
    return {ProfilerActivity.CPU}
