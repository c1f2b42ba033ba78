"""Draws docs/scaling.svg: what `lucid.distributed.plan` predicts from 1 to 1024 processes, for a stated model and machine.

python tools/scaling_figure.py

Beside it stand measured steps: benchmarks/scaling.jsonl, which `benchmarks.scaling --json` writes.
"""

import json
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from lucid.distributed import Machine, Workload, plan

ROOT = Path(__file__).resolve().parent.parent
# A GPT of 1.3 thousand million parameters in float32: 24 layers of width 2048 with six products each, on 512 sequences of
# 1024 tokens. A process computes 10 TFLOP/s; 6 floating-point operations for each parameter and token.
TOKENS, PARAMETERS, WIDTH = 512 * 1024, 1.3e9, 2048
GPT = Workload(
    seconds=6 * PARAMETERS * TOKENS / 1e13,
    parameters=4 * PARAMETERS,
    activations=TOKENS * WIDTH * 24 * 34 * 2,
    boundary=TOKENS * WIDTH * 4,
    layers=96,
)
NETWORK = Machine(latency=5e-6, bandwidth=12.5e9)  # 100 Gbit/s for each process
RANKS = [2**k for k in range(11)]
COLOURS = {"data": "#1f6f9f", "zero": "#3a9a6a", "sharded": "#e0703a", "tensor": "#8a5fb0", "pipeline": "#8c8c8c"}


def predicted() -> dict[int, object]:
    """A plan for each number of processes."""
    return {n: plan(ranks=n, workload=GPT, machine=NETWORK, microbatches=max(n, 64)) for n in RANKS}


def main() -> None:
    matplotlib.rcParams["svg.hashsalt"] = "scaling"  # the same file each time
    plans = predicted()
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    time, memory, measured = figure.subplots(1, 3)
    for kind, colour in COLOURS.items():
        time.plot(RANKS, [plans[n][kind].efficiency for n in RANKS], "o-", ms=3, color=colour, label=kind)
        memory.plot(RANKS, [plans[n][kind].memory / 2**30 for n in RANKS], "o-", ms=3, color=colour)
    time.set(
        xlabel="processes", ylabel="efficiency", xscale="log", ylim=(0, 1.05), title="1.3e9 parameters, 100 Gbit/s"
    )
    memory.set(xlabel="processes", ylabel="GiB in each process", xscale="log", yscale="log")
    for axes in (time, memory):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    time.legend(fontsize=8)
    rows = [json.loads(line) for line in (ROOT / "benchmarks" / "scaling.jsonl").read_text().splitlines()]
    for row in rows:
        mark = "o" if row["ranks"] == 2 else "s"
        measured.plot(row["predicted"], row["seconds"], mark, color=COLOURS[row["kind"]], ms=6)
    end = 1.1 * max(row["seconds"] for row in rows)
    measured.plot([0, end], [0, end], "--", color="#8c8c8c", lw=1)
    measured.set(xlabel="predicted, s", ylabel="measured, s", title="2 (round) and 4 (square) processes")
    figure.savefig(ROOT / "docs" / "scaling.svg", metadata={"Date": None})
    for n in (64, 1024):
        print(f"{n} processes\n{plans[n]}")


if __name__ == "__main__":
    main()
