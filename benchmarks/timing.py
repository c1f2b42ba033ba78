"""Timing that is fair: one process, everybody warmed up, turns taken round-robin, medians reported."""

import gc
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter, sleep

from benchmarks.libraries import Library, Thunk
from benchmarks.workloads import Workload, check_agreement

# Threads for products of matrices go on waiting for work when they are done, 0.13 s in OpenBLAS, and would slow down
# whoever comes next.
PAUSE = 0.15


@dataclass(frozen=True)
class Times:
    """Seconds for one call: the median of the samples and the quartiles around it."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(samples: list[float]) -> "Times":
        low, median, high = statistics.quantiles(samples, n=4)
        return Times(median, low, high)


def sample(thunk: Thunk, number: int) -> float:
    """Seconds for one call, over `number` calls. The collector runs as it does for users."""
    start = perf_counter()
    for _ in repeat(None, number):
        thunk()
    return (perf_counter() - start) / number


def calibrate(thunk: Thunk, seconds: float) -> int:
    """How many calls take about `seconds`; finding out is the warm-up too. The first call may load or compile code."""
    thunk()
    number = 1
    while True:
        each = sample(thunk, number)
        if each * number >= seconds:
            return max(1, round(seconds / each))
        number *= 2


def turns(names: list[str], rounds: int) -> Iterator[str]:
    """Whose turn it is: everybody once a round, and everybody first equally often."""
    for r in range(rounds):
        start = r % len(names)
        yield from names[start:] + names[:start]


def measure(workload: Workload, libraries: list[Library], rounds: int, seconds: float) -> dict[str, Times]:
    """Time one workload for all libraries, in turns."""
    thunks = {lib.name: workload.bound(lib) for lib in libraries}
    check_agreement(workload, libraries, thunks)
    return in_turns(thunks, rounds, seconds)


def in_turns(thunks: dict[str, Thunk], rounds: int, seconds: float, pause: float = PAUSE) -> dict[str, Times]:
    """Time several calls, one after the other in each round."""
    numbers = {name: calibrate(thunk, seconds) for name, thunk in thunks.items()}
    samples: dict[str, list[float]] = {name: [] for name in thunks}
    gc.collect()
    for name in turns(list(thunks), rounds):
        sleep(pause)
        thunks[name]()
        samples[name].append(sample(thunks[name], numbers[name]))
    return {name: Times.of(found) for name, found in samples.items()}
