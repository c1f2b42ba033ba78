"""How the work of an operation grows with the number of its parts: what is counted, and for what.

Work is counted, not timed: lines and calls that Python runs, and bytes that it allocates (NumPy's too), each at three sizes.
The sources must run as they are for this (LUCID_PURE=1), so `test_growth` runs this file as a program, once for each group.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
Case = Callable[[int], Run]  # prepares n parts; what it returns is counted

SIZE = 20  # then twice and four times as much
# What is counted is a + b n for linear work, so its increments double from step to step; with n² they grow fourfold. Steps
# are exact; bytes are not, as sets and lists grow in leaps.
LIMITS = (2.2, 2.5)


class Counter:
    """Counts the steps of Python and the bytes that they allocate while it is active."""

    def __init__(self) -> None:
        self.steps = self.bytes = self._held = 0

    def __enter__(self) -> "Counter":
        gc.collect()
        gc.disable()
        tracemalloc.start(1)
        self._held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        sys.settrace(self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)
        self._event(None, "line", None)
        tracemalloc.stop()
        gc.enable()

    def _event(self, frame: Any, event: str, arg: Any) -> Any:
        self.steps += 1
        now, peak = tracemalloc.get_traced_memory()
        self.bytes += max(0, peak - self._held)
        tracemalloc.reset_peak()
        self._held = now
        return self._event


def work(case: Case, n: int) -> tuple[int, int]:
    run = case(n)
    with Counter() as counter:
        out = run()
    del out
    return counter.steps, counter.bytes


def growth(case: Case) -> list[float]:
    """By how much the increments of steps and bytes grow when the number of parts doubles."""
    work(case, 2)  # what is done only once
    small, middle, large = (work(case, k * SIZE) for k in (1, 2, 4))
    return [(c - b) / max(SIZE, b - a) for a, b, c in zip(small, middle, large, strict=True)]


def main() -> None:
    from growth_cases import CASES

    cases = CASES[sys.argv[1]]
    for name in sys.argv[2:] or cases:
        print(json.dumps([name, *growth(cases[name])]), flush=True)


if __name__ == "__main__":
    main()
