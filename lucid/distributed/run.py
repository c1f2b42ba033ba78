"""The launcher: `python -m lucid.distributed.run -n 4 [--max-restarts 3] script.py arguments`.

Starts processes by mpirun, in an allocation of Slurm by mpirun or srun, and one process alone without MPI. When one is
killed, raises, or waits past its time limit for another that hangs, all are ended, and it is said which and why; then, up
to `--max-restarts` times, all are started again. Scripts find RANK, WORLD_SIZE, LOCAL_RANK and LUCID_RESTART_COUNT in their
environment, and continue from their last checkpoint.
"""

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lucid.distributed.control import RESTARTS, SIZE, Board, Member

GRACE = 5.0  # seconds that others have to end by themselves
_ANSWER = 1.0  # seconds that a process has to say where it is


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m lucid.distributed.run", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "-n", "--nproc", type=int, default=None, help="how many processes; in Slurm, by default its tasks"
    )
    parser.add_argument("--max-restarts", type=int, default=0, help="how often all are started again after a failure")
    parser.add_argument(
        "--timeout", type=float, default=None, help="seconds a process waits for others; otherwise 1800"
    )
    parser.add_argument("--debug", action="store_true", help="compare what processes call, before each collective")
    parser.add_argument("--launcher", default=None, help="mpirun or srun, by name or path; otherwise what is found")
    parser.add_argument("-m", dest="is_module", action="store_true", help="run a module, as python -m does")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    found = parser.parse_args(given)
    if found.nproc is None:
        found.nproc = int(os.environ.get("SLURM_NTASKS", "1"))
    if found.nproc < 1 or found.max_restarts < 0:
        parser.error("-n must be at least 1, and --max-restarts at least 0")
    return found


def in_slurm() -> bool:
    """Whether this is an allocation of Slurm."""
    return "SLURM_JOB_ID" in os.environ


def found_launcher(given: str | None) -> str | None:
    """Where mpirun is, beside this Python first; or srun in an allocation of Slurm."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    names = [given] if given else ["mpirun", "srun"] if in_slurm() else ["mpirun"]
    return next((path for name in names if (path := shutil.which(name, path=places))), None)


def command(options: argparse.Namespace, launcher: str | None, passed: dict[str, str]) -> list[str]:
    """What starts the processes."""
    script = (["-m"] if options.is_module else []) + [options.script, *options.arguments]
    own = [sys.executable, "-m", "lucid.distributed.worker", *script]
    if launcher is None or (options.nproc == 1 and not options.launcher):
        return own
    if Path(launcher).name == "srun":
        return [launcher, "--mpi=pmix", "--kill-on-bad-exit=1", f"--ntasks={options.nproc}", *own]
    start = [launcher, "-n", str(options.nproc)]
    if _is_open_mpi(launcher):
        # Processes have threads: bound to one core each, these would stand in line behind each other.
        start += ["--bind-to", "none", *([] if in_slurm() else ["--oversubscribe"])]
        start += [word for name in passed for word in ("-x", name)]
        if os.getuid() == 0:
            start.append("--allow-run-as-root")
    return start + own


def _is_open_mpi(launcher: str) -> bool:
    said = subprocess.run([launcher, "--version"], capture_output=True, text=True).stdout
    return "Open MPI" in said or "OpenRTE" in said or "prte" in said.lower()


def _environment(options: argparse.Namespace, board: Board, restarts: int) -> dict[str, str]:
    passed = {**board.environment(), SIZE: str(options.nproc), RESTARTS: str(restarts)}
    if options.timeout is not None:
        passed["LUCID_DISTRIBUTED_TIMEOUT"] = str(options.timeout)
    if options.debug:
        passed["LUCID_DISTRIBUTED_DEBUG"] = "1"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if "OMP_NUM_THREADS" not in os.environ and not in_slurm():
        passed["OMP_NUM_THREADS"] = str(max(1, cores // options.nproc))
    passed |= {name: os.environ[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ}
    return passed


def _die_with_launcher() -> None:
    """In the process that becomes mpirun: it ends when the launcher is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _wait_for_failure(process: subprocess.Popen[Any], board: Board) -> None:
    """Wait until all have ended or one has failed."""
    while process.poll() is None:
        with board.changed:
            board.look_at_clock(GRACE)
            if board.failed:
                return
            board.changed.wait(0.1)


def _ask_others(board: Board) -> None:
    """Ask where the others are, if one gave up waiting for them; and let those that failed end."""
    first = board.failed[0]
    others = [m for m in board.members.values() if m is not first and not m.done and m.raised is None]
    if first.raised is not None and first.raised[0] == "waited":
        for member in others:
            member.ask("where")
        end = time.monotonic() + _ANSWER
        with board.changed:
            while any(m.where is None for m in others) and (left := end - time.monotonic()) > 0:
                board.changed.wait(left)
    board.final = True
    for member in board.members.values():
        member.ask("go")


def _end(process: subprocess.Popen[Any], board: Board, at_once: bool = False) -> None:
    """End all processes: by themselves, by a signal to mpirun, by signals to each."""
    for send in (process.poll, process.terminate, process.kill)[at_once:]:
        send()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            break
    for member in board.members.values():
        if member.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)
    end = time.monotonic() + GRACE
    while any(m.lives() for m in board.members.values()) and time.monotonic() < end:
        time.sleep(0.02)


def _ended(code: int | None) -> str:
    """How a process ended, by what its launcher returned."""
    number = -code if code is not None and code < 0 else code - 128 if code is not None and code > 128 else 0
    try:
        return f"was ended by signal {number} ({signal.Signals(number).name})" if number else "ended without a word"
    except ValueError:
        return f"ended with code {code}"


def reasons(board: Board, code: int | None) -> list[str]:
    """Which process failed, and why."""
    if not board.members:
        return [f"no process came up; what should start them returned {code}"]
    if not board.failed:
        return [f"all processes ended, but what started them returned {code}"]
    first = board.failed[0]
    name = f"rank {first.rank} (process {first.pid} on {first.host})"
    if first.raised is None:
        return [f"{name} {_ended(code)}; the last call it reported was {_last(first)}"]
    kind, why = first.raised
    return [f"{name}: {why}", *(_missing(board, first) if kind == "waited" else ())]


def _last(member: Member) -> str:
    count, what, waits = member.at
    return f"{what} (number {count}{', for which it was waiting' if waits else ''})"


def _missing(board: Board, first: Member) -> Iterator[str]:
    """What the processes do that one waited for in vain."""
    for rank, member in sorted(board.members.items()):
        if member is first or (member.at == first.at and member.raised is None and not member.done):
            continue
        if member.raised is not None and member.raised[0] == "waited":
            yield f"rank {rank} waited as well, in {_last(member)}"
        elif member.done:
            yield f"rank {rank} had ended; the last call it reported was {_last(member)}"
        elif member.where is None:
            yield f"rank {rank} does not answer: it is stopped, or hangs in compiled code; the last call it reported was {_last(member)}"
        else:
            lines = "".join(f"\n    {line}" for line in member.where)
            yield f"rank {rank} did not come; the last call it reported was {_last(member)}, and it is at{lines}"


def launch(options: argparse.Namespace, restarts: int) -> tuple[int, list[str]]:
    """Start all processes once: the code to return, and what went wrong."""
    launcher = found_launcher(options.launcher)
    if options.nproc > 1 and (launcher is None or find_spec("mpi4py") is None):
        raise SystemExit(
            f"{options.nproc} processes need {'mpirun' if launcher is None else 'mpi4py'}: "
            'pip install "lucid[mpi]" brings both'
        )
    board = Board(everywhere=in_slurm() and os.environ.get("SLURM_NNODES", "1") != "1")
    passed = _environment(options, board, restarts)
    process = subprocess.Popen(
        command(options, launcher, passed), env={**os.environ, **passed}, preexec_fn=_die_with_launcher
    )
    try:
        _wait_for_failure(process, board)
        if board.failed:
            _ask_others(board)
            _end(process, board)
        code = process.wait()
        time.sleep(0.05)  # for the last words, which are read by other threads
        if code == 0 and not board.failed:
            return 0, []
        return (code if 0 < code < 256 else 1), reasons(board, code)
    finally:
        if process.poll() is None:
            _end(process, board, at_once=True)
        board.close()


def _interrupted(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def main(given: list[str] | None = None) -> int:
    """Start the processes, again after failures, and return the code of the last run."""
    options = _arguments(given)
    signal.signal(signal.SIGTERM, _interrupted)
    for restarts in range(options.max_restarts + 1):
        code, why = launch(options, restarts)
        if code == 0:
            return 0
        if restarts < options.max_restarts:
            why.append(f"starting all again: restart {restarts + 1} of {options.max_restarts}")
        print(file=sys.stderr)  # what ended them may have left a line unfinished
        for line in why:
            print(f"lucid.distributed.run: {line}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
