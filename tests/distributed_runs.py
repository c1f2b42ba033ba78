"""How tests run scripts of tests/distributed by several processes."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lucid.distributed.run import found_launcher

HERE = Path(__file__).resolve().parent
needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or found_launcher(None) is None,
    reason='NO MPI: nothing between processes is tested here; pip install "lucid[mpi]" brings mpi4py and mpirun',
)


def command(script, processes, *arguments, options=()):
    path = str(HERE / "distributed" / script)
    return [sys.executable, "-m", "lucid.distributed.run", "-n", str(processes), *options, path, *arguments]


def environment(**more):
    path = os.pathsep.join(p for p in (str(HERE.parent), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def run(script, processes, *arguments, options=(), **more):
    """Run a script by several processes, to its end."""
    words = command(script, processes, *arguments, options=options)
    return subprocess.run(words, env=environment(**more), capture_output=True, text=True, errors="replace", timeout=300)


def all_well(script, processes, *arguments, **more):
    """Run a script whose processes each say at the end that they are well."""
    done = run(script, processes, *arguments, **more)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    said = sorted(line for line in done.stdout.splitlines() if line.endswith("is well"))
    assert said == [f"rank {r} is well" for r in range(processes)]
