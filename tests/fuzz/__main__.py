"""`python -m fuzz`: random programs for a time, and a report.

python -m fuzz --seconds 600 --seed 3       many programs
python -m fuzz --seed 3 --program 1234      one of them, in all modes
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence

from fuzz import judge
from fuzz.coverage import occurrences
from fuzz.modes import EVERY
from fuzz.shrink import pasted, shrunk
from fuzz.workers import Tally, run


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**9, help="the most programs to run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--asked", type=int, default=20, help="how often each primitive should occur")
    parser.add_argument("--program", type=int, help="run only this program, in all modes")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    given = options(argv)
    if given.program is not None:
        return one(given.seed, given.program)
    tally, seconds, shown = Tally(), 0.0, 0.0
    for tally, seconds in run(given.seed, given.seconds, given.count, given.processes):
        if time.time() - shown > (0.5 if sys.stdout.isatty() else 30):
            status(tally, seconds, given.seconds)
            shown = time.time()
    print()
    return report(tally, seconds, given.seed, given.asked)


def one(seed: int, number: int) -> int:
    program, _, findings = judge.judged(seed, number, modes=list(EVERY))
    print(program.source())
    for finding in findings:
        print(f"\n# {finding.mode}: {finding.what}, {finding.op}\n{pasted(shrunk(finding))}")
    return bool(findings)


def status(tally: Tally, seconds: float, wanted: float) -> None:
    done = min(seconds / wanted, 1.0)
    bar = ("#" * round(20 * done)).ljust(20, ".")
    unexplained = sum(not f.reason() for f in tally.findings.values())
    text = f"[{bar}] {tally.programs} programs, {tally.programs / max(seconds, 1e-9):.0f}/s, {unexplained} differences"
    print(f"\r{text}" if sys.stdout.isatty() else text, end="" if sys.stdout.isatty() else "\n", flush=True)


def report(tally: Tally, seconds: float, seed: int, asked: int) -> int:
    counts = occurrences(tally.rows)
    rare = sorted(name for name, count in counts.items() if count < asked)
    print(f"programs    {tally.programs} in {seconds:.0f} s ({tally.programs / max(seconds, 1e-9):.1f}/s), seed {seed}")
    print(f"statements  {tally.statements}, {sum(tally.rows.values())} of them rows of the table")
    print(f"modes       {', '.join(f'{name} {n}' for name, n in tally.modes.most_common())}")
    print(f"primitives  {len(counts)}: least {min(counts.values())}, median {statistics.median(counts.values()):.0f}")
    print(f"            fewer than {asked}: {', '.join(rare) or 'none'}")
    meant = {s: f for s, f in tally.findings.items() if f.reason()}
    wrong = {s: f for s, f in tally.findings.items() if not f.reason()}
    for signature, finding in meant.items():
        print(f"explained   {tally.counts[signature]:5} {' | '.join(signature)}: {finding.reason()}")
    for signature, finding in sorted(wrong.items()):
        print(f"DIFFERENCE  {tally.counts[signature]:5} {' | '.join(signature)} (program {finding.number})")
    for signature, finding in sorted(wrong.items()):
        print(f"\n{'-' * 100}\n# {' | '.join(signature)}: --seed {seed} --program {finding.number}\n{pasted(finding)}")
    print(f"\n{len(wrong)} differences that nobody has explained" if wrong else "\nno unexplained differences")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
