"""How long the first call of a compiled function takes, against `jax.jit` and `torch.compile`, for the tasks of the table.

    python -m benchmarks.first_calls [--only NAME ...] [--libraries NAME ...]

Each library compiles in a process of its own, with an empty cache, in turns; Lucid once more in a second process, which
finds the machine code of the first in the cache. Imports and arrays are made before. A step of training is timed until
it runs as it will from then on: its first three calls, in which the state of the optimizer is made.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter

import benchmarks.jax_programs  # noqa: F401  (a contestant)
from benchmarks import training
from benchmarks.libraries import LIBRARIES, Compiled, Torchlike
from benchmarks.programs import PROGRAMS
from benchmarks.training import TRAINING
from benchmarks.transforms import TRANSFORMS
from benchmarks.workloads import WORKLOADS

TASKS = {w.name: w for w in (*WORKLOADS, *PROGRAMS, *TRANSFORMS, *TRAINING) if not w.name.endswith("recorded")}
CALLS = 3
AGAIN = "from its cache"


def first_calls(task: str, library: str) -> list[float]:
    """Seconds of the first calls in this process."""
    training.STEPS_BEFORE = 0
    lib = LIBRARIES[library]()
    if isinstance(lib, Torchlike):
        lib.namespace.nn, lib.namespace.optim  # noqa: B018  (imported when they are first named)
    call = TASKS[task].bound(lib)
    times = []
    for _ in range(CALLS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return times


def timed(task: str, library: str, folder: str) -> float:
    """The same in a process of its own, whose caches are in a folder; what the calls take together."""
    environment = {
        **os.environ,
        "LUCID_CACHE": os.path.join(folder, "lucid"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "torch"),
        "PYTHONPYCACHEPREFIX": os.path.join(os.path.dirname(folder), "modules"),
        "PYTHONDONTWRITEBYTECODE": "",
        "OMP_NUM_THREADS": "2",
    }
    command = [sys.executable, "-m", "benchmarks.first_calls", "--child", task, library]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times = [float(t) for t in done.stdout.split()[-CALLS:]]
    return sum(times) if TASKS[task] in TRAINING else times[0]


def compare(task: str, libraries: list[str], rounds: int, parent: str) -> dict[str, float]:
    """Medians of what each library takes."""
    wanted = TASKS[task].libraries
    libraries = [name for name in libraries if wanted is None or name in wanted]
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in libraries:
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                try:
                    found.setdefault(name, []).append(timed(task, name, folder))
                    if name == Compiled.name:
                        found.setdefault(AGAIN, []).append(timed(task, name, folder))
                except subprocess.CalledProcessError as error:
                    print(f"  left out of {task}: {name}: {error.stderr.strip()[-200:]}", file=sys.stderr)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="NAME")
    parser.add_argument("--libraries", nargs="+", default=[Compiled.name, "jax"], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", nargs=2, metavar=("TASK", "LIBRARY"), help="what a child process does")
    options = parser.parse_args()
    if options.child:
        print(*first_calls(*options.child))
        return
    columns = [Compiled.name, AGAIN, *[name for name in options.libraries if name != Compiled.name]]
    print(f"{'ms':16}", *[f"{name:>16}" for name in columns])
    with tempfile.TemporaryDirectory() as parent:
        for name in options.libraries:  # modules are compiled into the folder, as installing a package does
            timed("train-mlp-small", name, os.path.join(parent, "first"))
        for task in options.only:
            found = compare(task, options.libraries, options.rounds, parent)
            cells = [f"{1e3 * found[name]:16.0f}" if name in found else " " * 16 for name in columns]
            print(f"{task:16}", *cells, flush=True)


if __name__ == "__main__":
    main()
