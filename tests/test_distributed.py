"""Several processes: collectives between real ones."""

import os
import subprocess
import sys
import time

import pytest
from distributed_runs import all_well, environment, needs_mpi

import lucid
import lucid.distributed as dist
from lucid.distributed import progress
from lucid.distributed.engines.single import SingleEngine


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_every_collective_on_every_type(processes):
    all_well("blocking.py", processes)


@needs_mpi
@pytest.mark.parametrize("processes", [2, 3])
def test_handles_objects_and_differing_calls(processes):
    all_well("handles.py", processes)


def test_a_throttled_engine_takes_its_time():
    """Operations wait for those before them, on one link."""
    dist.init_process_group(dist.Throttled(SingleEngine(), latency=0.05, bandwidth=1e9))
    try:
        start = time.monotonic()
        works = [dist.all_reduce(lucid.ones(10), async_op=True) for _ in range(2)]
        assert not works[0].is_completed()
        for work in works:
            work.wait()
        assert time.monotonic() - start >= 0.1
        dist.isend(lucid.ones(2), 0).wait()
        assert dist.recv(lucid.zeros(2)) == 0
        with pytest.raises(dist.DistributedError, match=r"waited 0.01 s in all_reduce\(float32\[3\], sum\)"):
            dist.all_reduce(lucid.ones(3), async_op=True).wait(0.01)
    finally:
        progress.abandoned.clear()
        dist.destroy_process_group()


@pytest.fixture
def single():
    dist.init_process_group("single")
    yield
    dist.destroy_process_group()


def test_one_process_alone(single):
    """The same code works without others."""
    x = lucid.arange(3.0)
    for call in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.reduce(t, 0)):
        call(x)
    assert x.tolist() == [0, 1, 2] and x._version == 3
    out = lucid.zeros(3)
    dist.all_to_all_single(out, x)
    dist.reduce_scatter_tensor(out, out.clone(), "mean")
    dist.all_gather_into_tensor(out, out)
    assert out.tolist() == [0, 1, 2]
    parts = [lucid.zeros(3)]
    dist.gather(x, parts)
    dist.scatter(out.zero_(), parts)
    assert out.tolist() == [0, 1, 2]
    dist.barrier()
    dist.monitored_barrier(timeout=1)


def test_a_saved_value_that_is_overwritten_is_noticed(single):
    x = lucid.ones(2, requires_grad=True)
    saved = x * 2
    loss = (saved * saved).sum()
    dist.all_reduce(saved.detach())
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_what_is_said_without_a_group():
    with pytest.raises(ValueError, match="init_process_group"):
        dist.get_rank()
    with pytest.raises(ValueError, match="no backend 'nccl'"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="world_size=2"):
        dist.init_process_group("single", world_size=2)
    with pytest.raises(ValueError, match="timeout"):
        dist.init_process_group("single", timeout=-1)


def test_mpi_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"lucid\[mpi\]"):
        dist.init_process_group("mpi")
    assert not dist.is_initialized()


def test_mpi_is_loaded_only_when_it_is_asked_for():
    code = (
        "import sys, lucid; assert 'lucid.distributed' not in sys.modules; lucid.distributed.init_process_group('single');"
        "assert not [m for m in sys.modules if m.startswith('mpi4py')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_derivatives_batches_and_programs(processes):
    all_well("derivatives.py", processes)


def test_derivatives_of_one_process():
    all_well("derivatives.py", 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_belongs_to_no_group():
    code = (
        "import os, lucid.distributed as dist; dist.init_process_group('single')\n"
        "if not (child := os.fork()): os._exit(0 if not dist.is_initialized() else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and dist.is_initialized()\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
