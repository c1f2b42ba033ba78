"""What is measured in child processes: scaling, memory, import time."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

_IMPORT = "import numpy; from time import perf_counter; t = perf_counter(); import {}; print(perf_counter() - t)"


def _run(*arguments: str, **variables: str) -> str:
    """The last line that a child Python prints."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RuntimeError(f"{' '.join(arguments[-2:])}: {reason}")
    return done.stdout.strip().splitlines()[-1]


def task(name: str, library: str) -> dict[str, Any]:
    """Run one task of `benchmarks.child` for one library."""
    return json.loads(_run("-m", "benchmarks.child", name, library))


def median_peak(library: str, repeats: int) -> float:
    """Bytes by which memory rises at most."""
    return statistics.median(task("peak", library)["bytes"] for _ in range(repeats))


def import_seconds(modules: list[str], repeats: int) -> dict[str, float]:
    """Median time to import each module after NumPy, in turns.

    The first round compiles everything into a folder of its own, as installing a package does, and is dropped.
    """
    found: dict[str, list[float]] = {m: [] for m in modules}
    with TemporaryDirectory() as compiled:
        variables = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(repeats + 1):
            for module in modules:
                found[module].append(float(_run("-c", _IMPORT.format(module), **variables)))
    return {module: statistics.median(times[1:]) for module, times in found.items()}
