"""Saves, loads, or dies while it saves: `saving.py how folder`."""

import os
import signal
import sys

import numpy as np

import lucid
import lucid.distributed as dist
from lucid.checkpoints import parallel

how, folder = sys.argv[1:]
dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def whole(name, shift=0.0):
    shape = {"rows": (7, 5), "columns": (3, 8), "complex": (6, 2), "few": (1, 2), "half": (5,)}[name]
    values = np.arange(np.prod(shape)).reshape(shape) + shift
    dtype = {"complex": lucid.complex128, "half": lucid.bfloat16}.get(name, lucid.float32)
    return lucid.tensor(values * (1 + 2j) if name == "complex" else values, dtype=dtype)


def part(full, dim=0, parts=SIZE, number=RANK):
    bounds = [len(p) for p in np.array_split(np.arange(full.shape[dim]), parts)]
    start = sum(bounds[:number])
    offsets = tuple(start if d == dim else 0 for d in range(full.ndim))
    return lucid.Shard(full.narrow(dim, start, bounds[number]), offsets, tuple(full.shape))


def state(shift=0.0):
    return {
        "model": {
            name: part(whole(name, shift), int(name == "columns")) for name in ("rows", "columns", "complex", "few")
        },
        "same": [lucid.full((4,), 3.0 + shift), whole("half", shift)],
        "twice": part(whole("rows", shift), 0, 1, 0),  # every process has all of it, as one part
        "epoch": int(shift),
        "names": ("a", b"b", np.arange(3)),
    }


if how == "save":
    lucid.save_parallel(state(), folder)
if how == "die":
    write = parallel.write

    def killed(*args):
        if RANK == SIZE - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*args)

    parallel.write = killed
    lucid.save_parallel(state(1.0), folder)
if how == "again":
    lucid.save_parallel(state(1.0), folder)
if how == "load":
    found = state(5.0)
    kept = found["model"]["rows"].tensor
    loaded = lucid.load_parallel(folder, found)
    assert loaded["model"]["rows"].tensor is kept and loaded["epoch"] == 0 and loaded["names"][:2] == ("a", b"b")
    wanted = state()
    for name, shard in wanted["model"].items():
        assert (loaded["model"][name].tensor == shard.tensor).all(), name
    assert (loaded["same"][0] == 3).all() and (loaded["same"][1] == whole("half")).all()
    assert (loaded["twice"].tensor == whole("rows")).all()
    everything = lucid.load_parallel(folder, verify=False)
    assert (everything["model"]["columns"] == whole("columns")).all()
    # What one process cannot do, none does.
    try:
        lucid.load_parallel(folder, {"model": {"rows": whole("few") if RANK == 0 else part(whole("rows"))}})
    except lucid.checkpoints.CheckpointError as error:
        assert ("is to be filled" in str(error)) if RANK == 0 else ("rank 0" in str(error)), error
    else:
        raise AssertionError("nothing was raised")
    try:
        lucid.save_parallel({"x": lucid.Shard(lucid.ones(1), (0,), (SIZE,))}, folder + "-wrong")
    except ValueError as error:
        assert "gaps" in str(error), error
    else:
        assert SIZE == 1
print(f"rank {RANK} is well")
