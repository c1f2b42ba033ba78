"""Runs programs in processes of their own, so that one that crashes or hangs is a finding like any other."""

import gc
import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from fuzz.judge import Finding, judged, run_modes
from fuzz.modes import EVERY
from fuzz.program import Program
from fuzz.shrink import Check, same_failure, shrunk
from fuzz.structure import program as generated

PATIENCE = 60.0  # seconds for one program
OFTEN = 0.25  # seconds between reports
AGAIN = 0.05  # how many of the failures that look known are made small all the same
SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Tally:
    """What was run and what was found."""

    programs: int = 0
    statements: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        self.programs += other.programs
        self.statements += other.statements
        for mine, theirs in ((self.rows, other.rows), (self.modes, other.modes), (self.counts, other.counts)):
            mine.update(theirs)
        for signature, finding in other.findings.items():
            self.findings.setdefault(signature, finding)

    def file(self, finding: Finding) -> None:
        self.counts[finding.signature] += 1
        self.findings.setdefault(finding.signature, finding)


class Examiner:
    """Runs programs by number and makes what fails small, unless it looks like what was found before."""

    def __init__(self, seed: int, current: Any) -> None:
        self.seed, self.current = seed, current
        self.known: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.small: dict[str, Program] = {}

    def examine(self, number: int, tally: Tally) -> None:
        self.current[:] = number, 0
        program, modes, findings = judged(self.seed, number)
        tally.programs += 1
        tally.statements += len(program.lines)
        tally.rows.update(line.row for line in program.lines if line.row)
        tally.modes.update(modes)
        for finding in findings:
            self.file(finding, tally)

    def file(self, finding: Finding, tally: Tally) -> None:
        known = self.known[finding.mode, finding.what]
        seen = next((line.op for line in reversed(finding.program.lines) if line.op in known), None)
        if seen is not None and random.Random(finding.number).random() > AGAIN:
            tally.counts[finding.mode, finding.what, seen] += 1
            return
        check = self.alive(same_failure(finding))
        small = self.seen_in_another_mode(finding, check) or shrunk(finding, check)
        known.add(small.op)
        self.small[small.op] = small.program
        tally.file(small)

    def seen_in_another_mode(self, finding: Finding, check: Check) -> Finding | None:
        """A small program that failed in another mode may do so in this one."""
        ops = {line.op for line in finding.program.lines} & set(self.small)
        return next((found for op in sorted(ops) if (found := check(self.small[op]))), None)

    def alive(self, check: Check) -> Check:
        """A check that says that the process does not hang."""

        def call(program: Program) -> Finding | None:
            self.current[1] += 1
            return check(program)

        return call


def work(seed: int, numbers: range, current: Any, pipe: Connection, until: float) -> None:
    """The body of a process: programs by number, until the time is over."""
    gc.freeze()  # what was imported is garbage to nobody, and some operations look through all objects
    examiner, tally, sent = Examiner(seed, current), Tally(), time.time()
    for number in numbers:
        if time.time() > until:
            break
        examiner.examine(number, tally)
        if time.time() - sent > OFTEN:
            pipe.send(tally)
            tally, sent = Tally(), time.time()
    pipe.send(tally)
    pipe.close()


class Worker:
    def __init__(self, seed: int, numbers: range, until: float) -> None:
        self.seed, self.numbers, self.until = seed, numbers, until
        self.current = SPAWN.Array("q", [-1, 0], lock=False)  # the number of the program, and how often it was tried
        self.pipe, theirs = SPAWN.Pipe(duplex=False)
        self.process = SPAWN.Process(target=work, args=(seed, numbers, self.current, theirs, until), daemon=True)
        self.process.start()
        theirs.close()
        self.seen, self.since = (-1, -1), time.time()
        self.over = False

    def received(self) -> Tally | None:
        """A report; None at the end."""
        try:
            found: Tally = self.pipe.recv()
            return found
        except EOFError:
            self.over = True
            self.process.join()
            return None

    @property
    def hangs(self) -> bool:
        if tuple(self.current) != self.seen:
            self.seen, self.since = tuple(self.current), time.time()
        # A process that has begun no program yet still imports what it needs.
        return time.time() - self.since > (PATIENCE if self.current[0] >= 0 else 10 * PATIENCE)

    def after(self) -> "Worker":
        """A new process for the numbers behind the one that did not end."""
        step = self.numbers.step
        last = max(self.current[0], self.numbers.start)
        return Worker(self.seed, range(last + step, self.numbers.stop, step), self.until)


def run(seed: int, seconds: float, count: int, processes: int) -> Iterator[tuple[Tally, float]]:
    """All programs up to `count`, or until the time is over: the tally so far, and the seconds."""
    # Threads of BLAS beside the processes would only get in the way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    start = time.time()
    workers = [Worker(seed, range(k, count, processes), start + seconds) for k in range(processes)]
    total = Tally()
    while workers:
        ready = wait([w.pipe for w in workers], timeout=1.0)
        for worker in list(workers):
            report = worker.received() if worker.pipe in ready else None
            if report:
                total.add(report)
            ended = worker.over and worker.process.exitcode
            if ended or (not worker.over and worker.hangs):
                worker.process.kill()
                total.programs += 1
                total.file(ended_badly(seed, worker.current[0], "crash" if ended else "hang"))
                workers.append(worker.after())
            if worker.over or worker.hangs:
                workers.remove(worker)
        yield total, time.time() - start


def ended_badly(seed: int, number: int, kind: str) -> Finding:
    """Find the mode in which a program takes its process with it, and make it small."""
    program = isolated(generated, seed, number)
    if program is None:
        return Finding("eager", kind, "while the program was made", f"seed {seed}", Program({}, (), ()), number)
    for mode in EVERY:
        if not survives(mode, program, number):
            finding = Finding(mode, kind, program.op, "the process did not end well", program, number)
            return shrunk(finding, fatal(finding))
    return Finding("all", kind, program.op, "only beside other programs", program, number)


def fatal(finding: Finding) -> Check:
    """Whether a program, too, takes its process with it."""

    def check(program: Program) -> Finding | None:
        if survives(finding.mode, program, finding.number):
            return None
        return replace(finding, program=program, op=program.op)

    return check


def survives(mode: str, program: Program, number: int) -> bool:
    return isolated(_run_one, mode, program, number) is not None


def _run_one(mode: str, program: Program, number: int) -> bool:
    list(run_modes([mode], program, number))
    return True


def isolated(function: Any, *args: Any) -> Any:
    """The result of a call in a process of its own; None if the process does not end well."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_answer, args=(theirs, function, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(PATIENCE) else None
    except EOFError:
        return None
    finally:
        process.kill()


def _answer(pipe: Connection, function: Any, *args: Any) -> None:
    pipe.send(function(*args))
