"""Rows of results, and the forms in which they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Row:
    """One benchmark: a value for each library, what was hoped for, and whether it came true (None: no target)."""

    name: str
    title: str
    values: dict[str, float]
    unit: str  # "s", "B" or "ratio"
    target: str = ""
    met: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


_SCALES = {
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    "B": [(1e6, "MB"), (1e3, "kB"), (1.0, "B")],
}


def show(value: float, unit: str) -> str:
    """`0.431 ms`, `200 MB`, `1.04`."""
    if unit == "ratio":
        return f"{value:.2f}"
    steps = _SCALES[unit]
    scale, name = next(((s, n) for s, n in steps if abs(value) >= s), steps[-1])
    return f"{value / scale:.3g} {name}" if abs(value / scale) < 999.5 else f"{value / scale:.0f} {name}"


def cell(row: Row, library: str) -> str:
    """A library's value, and for peers how many times Lucid's it is."""
    value = row.values.get(library)
    if value is None:
        return "-"
    text = show(value, row.unit)
    ours = row.values.get("lucid")
    if library == "lucid" or row.unit == "ratio" or row.name == "leak" or not ours:
        return text
    ratio = value / ours
    return f"{text} ({ratio:.2f}x)" if ratio >= 0.01 else f"{text} ({ratio:.1g}x)"


def grid(rows: Sequence[Row], libraries: Sequence[str]) -> list[list[str]]:
    """The whole table as text, heading first."""
    verdict = {True: "yes", False: "no", None: ""}
    heading = ["benchmark", *libraries, "target", "met"]
    return [heading] + [[r.title, *(cell(r, name) for name in libraries), r.target, verdict[r.met]] for r in rows]


def as_text(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    table = grid(rows, libraries)
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in table]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    heading, *body = grid(rows, libraries)
    rule = ["---", *("---:" for _ in libraries), "---", "---"]
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, rule, *body])


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [vars(row) for row in rows]
