"""Checkpoints of several processes: written together, read by any number, whole whatever happens."""

import json
import os

import numpy as np
import pytest
from distributed_runs import all_well, needs_mpi, run

import lucid
from lucid.checkpoints.parallel import INDEX


def rows(shift=0.0):
    return (np.arange(35.0).reshape(7, 5) + shift).tolist()


@needs_mpi
def test_saved_by_some_and_loaded_by_others(tmp_path):
    folder = str(tmp_path / "saved")
    all_well("saving.py", 3, "save", folder)
    assert len(os.listdir(folder)) == 4  # a file of each process, and the index
    all_well("saving.py", 2, "load", folder)
    found = lucid.load_parallel(folder)
    assert found["model"]["rows"].tolist() == rows() and found["twice"].tolist() == rows()
    assert found["model"]["complex"].dtype == lucid.complex128 and found["model"]["complex"][-1, -1].item() == 11 + 22j
    assert found["names"][2].tolist() == [0, 1, 2]
    # A process dies while all save again: what was there is whole, and what it left is removed by the next save.
    died = run("saving.py", 2, "die", folder)
    assert died.returncode != 0 and "SIGKILL" in died.stderr
    assert lucid.load_parallel(folder)["model"]["rows"].tolist() == rows()
    all_well("saving.py", 2, "again", folder)
    assert lucid.load_parallel(folder)["model"]["rows"].tolist() == rows(1.0) and len(os.listdir(folder)) == 3


@needs_mpi
@pytest.mark.parametrize("kind", ["sharded", "tensor"])
def test_divided_models_are_saved_by_parts(tmp_path, kind):
    folder = str(tmp_path / "saved")
    all_well("divided.py", 2, "save", kind, folder)
    assert lucid.load_parallel(folder)["model"]["first.weight"].shape == (6, 4)
    for size in (1, 2, 3):
        all_well("divided.py", size, "load", kind, folder)


@needs_mpi
def test_training_that_is_interrupted_ends_where_it_would_have(tmp_path):
    """Bit by bit: the restarted run goes on from the last checkpoint."""
    whole = run("resumed.py", 2, str(tmp_path / "whole"), "-1")
    broken = run("resumed.py", 2, str(tmp_path / "broken"), "3", options=["--max-restarts", "1"])
    assert whole.returncode == broken.returncode == 0, whole.stderr + broken.stderr
    assert "restart 1 of 1" in broken.stderr and "ended with" in whole.stdout
    assert broken.stdout == whole.stdout


def test_damage_is_noticed(tmp_path):
    lucid.save_parallel({"x": lucid.arange(1000.0), "n": 1}, tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    index = tmp_path / INDEX
    text, data = index.read_text(), bytearray(file.read_bytes())
    index.write_text(text.replace('"n\\\\"', '"m\\\\"').replace("lucid.save", "lucid.safe", 1))
    with pytest.raises(lucid.checkpoints.CheckpointError, match="damaged"):
        lucid.load_parallel(tmp_path)
    index.write_text("{")
    with pytest.raises(lucid.checkpoints.CheckpointError, match="not JSON"):
        lucid.load_parallel(tmp_path)
    index.write_text(json.dumps({"format": "other"}))
    with pytest.raises(lucid.checkpoints.CheckpointError, match="no index"):
        lucid.load_parallel(tmp_path)
    index.write_text(text)
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(lucid.checkpoints.CheckpointError, match="damaged"):
        lucid.load_parallel(tmp_path)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        lucid.load_parallel(tmp_path)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        lucid.load_parallel(tmp_path / "nowhere")


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not inside"):
        lucid.save_parallel({"x": lucid.Shard(lucid.ones(3), (2,), (4,))}, tmp_path)
    with pytest.raises(ValueError, match="gaps"):
        lucid.save_parallel({"x": lucid.Shard(lucid.ones(3), (0,), (4,))}, tmp_path)
    with pytest.raises(TypeError, match="function"):
        lucid.save_parallel({"f": test_what_is_refused}, tmp_path)
    lucid.save_parallel({"x": lucid.ones(3)}, tmp_path)
    with pytest.raises(lucid.checkpoints.CheckpointError, match="has no y"):
        lucid.load_parallel(tmp_path, {"y": lucid.ones(3)})
    leaf = lucid.zeros(3, requires_grad=True)
    assert lucid.load_parallel(tmp_path, {"x": leaf})["x"] is leaf and leaf.tolist() == [1, 1, 1]
