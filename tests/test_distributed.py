"""Several processes: collectives between real ones."""

import pytest
from distributed_runs import all_well, needs_mpi


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_every_collective_on_every_type(processes):
    all_well("blocking.py", processes)
