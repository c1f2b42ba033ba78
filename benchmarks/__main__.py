"""`python -m benchmarks`: measure Lucid and the peers that are installed, and print one table."""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks.jax_programs  # noqa: F401  (a contestant)
from benchmarks import isolated, operations
from benchmarks.libraries import LIBRARIES, USUAL, Library, present
from benchmarks.programs import PROGRAMS
from benchmarks.report import Row, as_json, as_markdown, as_text
from benchmarks.timing import in_turns, measure
from benchmarks.training import TRAINING
from benchmarks.transforms import RATIOS, TRANSFORMS
from benchmarks.workloads import WORKLOADS, Workload
from lucid import native

FLAT_BYTES = 256_000  # one array of 64 float32 leaked in each of a thousand steps


def timed(workload: Workload, libraries: list[Library], quick: bool) -> list[Row]:
    """A workload in turns, with the ratios hoped for."""
    libraries = [lib for lib in libraries if workload.libraries is None or lib.name in workload.libraries]
    times = measure(workload, libraries, rounds=10 if quick else 100, seconds=0.005)
    values = {name: t.median for name, t in times.items()}
    aims = {peer: factor for peer, factor in workload.targets.items() if peer in values}
    target = ", ".join(f"{peer} ≥ {factor:g}x" for peer, factor in workload.targets.items())
    met = all(values[peer] / values["lucid"] >= factor for peer, factor in aims.items()) if aims else None
    details = {name: {"low": t.low, "high": t.high} for name, t in times.items()}
    return [Row(workload.name, workload.title, values, "s", target, met, details)]


def against(
    name: str,
    title: str,
    above: Any,
    below: Any,
    bound: tuple[str, float] | None,
    libraries: list[Library],
    quick: bool,
) -> list[Row]:
    """How many times longer one thing takes in Lucid than another."""
    lucid = next(lib for lib in libraries if lib.name == "lucid")
    times = in_turns({"above": above(lucid), "below": below(lucid)}, rounds=10 if quick else 50, seconds=0.005)
    ratio = times["above"].median / times["below"].median
    if bound is None:
        return [Row(name, title, {"lucid": ratio}, "ratio")]
    sign, limit = bound
    met = ratio >= limit if sign == "≥" else ratio <= limit
    return [Row(name, title, {"lucid": ratio}, "ratio", f"lucid {sign} {limit:g}", met)]


def each(libraries: list[Library], measure_one: Callable[[str], Any]) -> dict[str, Any]:
    """A measurement in child processes for each library, with a note for those in which it fails."""
    found = {}
    for lib in libraries:
        try:
            found[lib.name] = measure_one(lib.name)
        except RuntimeError as error:
            if lib.name == "lucid":
                raise
            print(f"  left out: {error}", file=sys.stderr)
    return found


def _apart(libraries: list[Library]) -> list[Library]:
    """Those that are packages of their own."""
    return [lib for lib in libraries if lib.name == lib.module]


def scaling(libraries: list[Library], quick: bool) -> list[Row]:
    """Does an operation cost the same in a chain of a million as in a chain of a thousand?"""
    found = each([lib for lib in libraries if lib.name in ("lucid", "torch")], partial(isolated.task, "scaling"))
    longest = {name: f["per_op"]["1000000"] for name, f in found.items()}
    ratios = {name: f["ratio"] for name, f in found.items()}
    details = {name: f["per_op"] for name, f in found.items()}
    return [
        Row("scaling", "chain of 10^6: forward + backward + free, per op", longest, "s", details=details),
        Row("growth", "the same, 10^6 against 10^3", ratios, "ratio", "lucid < 1.3", ratios["lucid"] < 1.3),
    ]


def leak(libraries: list[Library], quick: bool) -> list[Row]:
    """Is memory flat over a thousand training steps without the garbage collector?"""
    found = each(_apart(libraries), partial(isolated.task, "leak"))
    rows = []
    for kind, title in (("rss", "resident"), ("traced", "tracemalloc")):
        values = {name: float(f[kind]) for name, f in found.items()}
        flat = values["lucid"] < FLAT_BYTES
        rows.append(Row("leak", f"growth over 1000 steps, gc off: {title}", values, "B", "lucid < 256 kB", flat))
    return rows


def peak(libraries: list[Library], quick: bool) -> list[Row]:
    """How much memory a short chain over 100 MB needs at most."""
    values = each(_apart(libraries), partial(isolated.median_peak, repeats=1 if quick else 3))
    met = values["lucid"] <= values["torch"] if "torch" in values else None
    title = "peak memory of ((x*2)+1).relu().sum(), backward, x 100 MB"
    return [Row("peak", title, values, "B", "lucid ≤ torch", met)]


def importing(libraries: list[Library], quick: bool) -> list[Row]:
    """How long `import` takes when NumPy is there already."""
    libraries = _apart(libraries)
    seconds = isolated.import_seconds([lib.module for lib in libraries], 3 if quick else 9)
    values = {lib.name: seconds[lib.module] for lib in libraries}
    return [Row("import", "import, on top of NumPy", values, "s", "lucid ≤ 60 ms", values["lucid"] <= 0.060)]


def ops(libraries: list[Library], quick: bool) -> list[Row]:
    """All operations by themselves, against PyTorch: how many times as fast they are, in the middle."""
    if not any(lib.name == "torch" for lib in libraries):
        return []
    rows = []
    for n in operations.SIZES:
        times = list(operations.compare(list(operations.CASES), (n, n), "float32", False, 3 if quick else 15))
        ratios = [t["torch"] / t["lucid"] for _, t in times]
        level = sum(r >= operations.LEVEL for r in ratios)
        title = f"operations on {n} x {n} floats: times as fast as torch ({level} of {len(ratios)} level or ahead)"
        rows.append(Row(f"ops {n}", title, {"lucid": statistics.median(ratios)}, "ratio"))
    return rows


Benchmark = Callable[[list[Library], bool], list[Row]]

BENCHMARKS: dict[str, Benchmark] = {
    **{w.name: partial(timed, w) for w in (*WORKLOADS, *PROGRAMS, *TRANSFORMS, *TRAINING)},
    **{name: partial(against, name, *rest) for name, *rest in RATIOS},
    "scaling": scaling,
    "leak": leak,
    "peak": peak,
    "import": importing,
    "ops": ops,
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS), metavar="NAME", help="which")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=USUAL, metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, for the README")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to a file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a rough idea")
    parser.add_argument("--list", action="store_true", help="print the names of the benchmarks and stop")
    return parser.parse_args(given)


def environment(libraries: list[Library]) -> str:
    versions = ", ".join(f"{lib.name} {lib.version}" for lib in libraries if lib.name != "lucid")
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__}, {versions or 'no peers'}; "
        f"{platform.machine()}, {platform.system()}, at most 2 threads; "
        f"Lucid {'compiled' if native.in_use else 'as Python sources'}."
    )


def busy() -> list[str]:
    """A warning if other programs were using the machine just before."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return [f"The machine was busy (load {load:.1f}) when this began: do not trust the times."] if load > 0.7 else []


def run(names: Sequence[str], libraries: list[Library], quick: bool) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        print(f"{name}...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name](libraries, quick)
    return rows


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    if options.list:
        print("\n".join(BENCHMARKS))
        return 0
    if importlib.util.find_spec("lucid") is None:
        print("lucid cannot be imported: run from the checkout, or `make bench`", file=sys.stderr)
        return 2
    warning = busy()
    wanted = [name for name in LIBRARIES if name in {"lucid", *options.libraries}]
    libraries, missing = present(wanted)
    rows = run(options.only, libraries, options.quick)
    names = [lib.name for lib in libraries]
    print((as_markdown if options.markdown else as_text)(rows, names))
    notes = [
        environment(libraries),
        "Median times in one process, libraries taking turns; in parentheses, how many times Lucid's.",
        "An unrecorded multiply in autograd is NumPy's own.",
        *warning,
        *missing,
    ]
    print("\n" + "\n".join(notes))
    if options.json:
        options.json.write_text(json.dumps({"environment": environment(libraries), "rows": as_json(rows)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
