"""Measurements that need a process of their own: `python -m benchmarks.child TASK LIBRARY` prints JSON."""

import gc
import json
import statistics
import sys
import tracemalloc
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.libraries import LIBRARIES, Library
from benchmarks.workloads import mlp_arrays, mlp_loss

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 3
REPEATED = 200_000  # operations timed together for chains shorter than this
STEPS = 1_000
PEAK_BYTES = 100_000_000


def chain_seconds(lib: Library, length: int) -> float:
    """Record a chain of `length` operations, run it backwards and free it."""
    x, c = lib.leaf(np.ones(8, np.float32)), lib.constant(np.ones(8, np.float32))
    start = perf_counter()
    y = x
    for _ in range(length):
        y = y * c
    y.sum().backward()
    del y
    return perf_counter() - start


def scaling(lib: Library) -> dict[str, Any]:
    """Seconds for each operation of chains of several lengths; short chains are repeated."""
    for _ in range(20):
        chain_seconds(lib, SIZES[0])
    found: dict[int, list[float]] = {n: [] for n in SIZES}
    for _ in range(ROUNDS):
        for n in SIZES:
            repeats = max(1, REPEATED // n)
            found[n].append(sum(chain_seconds(lib, n) for _ in range(repeats)) / (repeats * n))
    per_op = {n: statistics.median(times) for n, times in found.items()}
    return {"per_op": per_op, "ratio": per_op[SIZES[-1]] / per_op[SIZES[0]]}


def leak(lib: Library) -> dict[str, Any]:
    """What a thousand training steps leave behind when only reference counting frees memory."""
    step = lib.value_and_gradient(mlp_loss, *mlp_arrays())
    gc.collect()
    gc.disable()
    _steps(step, 200)
    before = resident()
    _steps(step, STEPS)
    rss = resident() - before
    tracemalloc.start()
    _steps(step, 200)
    before = tracemalloc.get_traced_memory()[0]
    _steps(step, STEPS)
    return {"rss": rss, "traced": tracemalloc.get_traced_memory()[0] - before, "steps": STEPS}


def _steps(step: Any, count: int) -> None:
    for _ in range(count):
        step()


def peak(lib: Library) -> dict[str, Any]:
    """How far memory rises above what it is once x is there."""
    lib.value_and_gradient(peak_loss, [np.ones(1_000, np.float32)], [])()  # what a library sets up on first use
    run = lib.value_and_gradient(peak_loss, [np.ones(PEAK_BYTES // 4, np.float32)], [])
    before = resident()
    reset_peak()
    run()
    return {"bytes": peak_resident() - before}


def peak_loss(lib: Library, x: Any) -> Any:
    return lib.relu((x * 2) + 1).sum()


def _status(field: str) -> int | None:
    """A line of /proc/self/status in bytes, where there is one."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def _max_rss() -> int:
    import resource  # there is none on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident() -> int:
    now = _status("VmRSS")
    return _max_rss() if now is None else now


def peak_resident() -> int:
    # Not ru_maxrss where it can be helped: Linux lets a child inherit its parent's.
    highest = _status("VmHWM")
    return _max_rss() if highest is None else highest


def reset_peak() -> None:
    """Forget earlier peaks, so that making x does not count. Without /proc it cannot be done, and they count."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


TASKS = {"scaling": scaling, "leak": leak, "peak": peak}


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](LIBRARIES[sys.argv[2]]())))
