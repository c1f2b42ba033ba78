"""Several processes: collectives under a real mpirun."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or MPIRUN is None,
    reason='NO MPI: nothing between processes is tested here; pip install "lucid[mpi]" brings mpi4py and mpirun',
)


def run(script, processes, **environment):
    """Run a script of tests/distributed by several processes."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    command = [MPIRUN, "-n", str(processes), "--oversubscribe", sys.executable, str(HERE / "distributed" / script)]
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command,
        env={**os.environ, **root, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_every_collective_on_every_type(processes):
    done = run("blocking.py", processes)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.split("\n"))[1:] == [f"rank {r} is well" for r in range(processes)]
