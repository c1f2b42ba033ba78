"""A process that is killed, hangs or raises: all end, and the launcher says which it was and why."""

import contextlib
import subprocess
import time
from pathlib import Path

import pytest
from distributed_runs import command, environment, needs_mpi, run

from lucid.distributed import run as launcher


def running(words):
    """The processes that have these words in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words in path.read_text(errors="replace").replace("\0", " "):
                found.append(int(path.parent.name))
    return found


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


WHY = {
    "raise": ["rank 1 (process", "ValueError: a reason of its own"],
    "hang": [
        "waited 2 s in all_reduce(float32[1000], sum)",
        "rank 1 did not come",
        "time.sleep(1000)  # the line that",
    ],
    "stop": ["waited 2 s in all_reduce(float32[1000], sum)", "rank 1 does not answer"],
    "late": ["rank 0 (process", "waited 2 s in init_process_group", "rank 1 did not come", "# before the group"],
    "apart": ["waited 2 s in new_group([0, 1])", "rank 1 did not come", "time.sleep(1000)  # the line that"],
}


@needs_mpi
@pytest.mark.parametrize("how", WHY)
def test_all_end_and_the_launcher_says_why(how):
    start = time.monotonic()
    done = run("failing.py", 2, how, "1")
    assert done.returncode != 0 and time.monotonic() - start < 60
    said = done.stderr[done.stderr.index("lucid.distributed.run:") :]
    assert [part for part in WHY[how] if part not in said] == [], done.stderr
    assert running(f"failing.py {how}") == []


@needs_mpi
def test_a_process_is_killed_and_all_are_started_again():
    done = run("failing.py", 2, "kill", "0", options=["--max-restarts", "2"])
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 2 is well after 1 restarts" for r in range(2)]
    assert "rank 0 (process" in done.stderr and "was ended by signal 9 (SIGKILL)" in done.stderr
    assert "restart 1 of 2" in done.stderr


@needs_mpi
def test_nothing_is_left_when_the_launcher_is_killed():
    process = subprocess.Popen(command("failing.py", 2, "sleep", "1"), env=environment())
    wait_until(lambda: len(running("failing.py sleep")) == 4)  # the launcher, mpirun and two processes
    process.kill()
    process.wait()
    wait_until(lambda: running("failing.py sleep") == [])


def test_one_process_needs_no_mpi():
    done = run("failing.py", 1, "exit", "0")
    assert done.returncode == 3  # as the script says
    assert "SystemExit: 3" in done.stderr[done.stderr.index("lucid.distributed.run:") :]


def test_one_process_is_started_again():
    done = run("failing.py", 1, "kill", "0", options=["--max-restarts", "1"])
    assert done.returncode == 0 and done.stdout == "rank 0 of 1 is well after 1 restarts\n"


def test_commands(monkeypatch, tmp_path):
    """In an allocation of Slurm, mpirun knows the nodes, and srun serves where there is none."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    options = launcher._arguments(["train.py", "--epochs", "3"])
    words = launcher.command(options, launcher.found_launcher(None), {})
    assert words[:4] == [str(tmp_path / "srun"), "--mpi=pmix", "--kill-on-bad-exit=1", "--ntasks=8"]
    assert words[-4:] == ["lucid.distributed.worker", "train.py", "--epochs", "3"]
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    (tmp_path / "mpirun").chmod(0o755)
    words = launcher.command(options, launcher.found_launcher(None), {"RANK": "0"})
    assert words[:5] == [str(tmp_path / "mpirun"), "-n", "8", "--bind-to", "none"]
    assert "--oversubscribe" not in words and words[5:7] == ["-x", "RANK"]


def test_arguments_that_make_no_sense(capsys):
    for given in (["-n", "0", "x.py"], ["--max-restarts", "-1", "x.py"], []):
        with pytest.raises(SystemExit):
            launcher._arguments(given)
    assert "at least 1" in capsys.readouterr().err
