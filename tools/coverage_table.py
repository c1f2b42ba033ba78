"""Prints docs/coverage.md and writes it: every operation of the table with what its tests cover, and a reason for every hole.

python tools/coverage_table.py           write the file and print it
python tools/coverage_table.py --check   fail if it is not up to date

The table is read off the plan of the checks, which `tests/test_ops.py` runs; nothing is run here.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from holes import COLUMNS, Cell, cells, families, other_name  # noqa: E402  # found through the line above
from public_ops import NOT_OPS  # noqa: E402

TARGET = ROOT / "docs" / "coverage.md"
HEAD = """# What is tested for every operation

Written by `make coverage-table` from the plan of the checks in `tests/checks.py`; `make test-all` runs them, `make test`
the longer ones by turns, and both fail if this page is not what the plan says. Values are compared with NumPy, SciPy or a
loop in all types that the operation takes, and so are results and first gradients by generated and compiled kernels with
those of the reference backend (`generated`); derivatives of first and second order with finite differences, forward mode
also as the transpose of reverse mode; `vmap` with a loop, for every choice of batched operands, with gradients through it
and inside it. The last column says that all of it is done for complex numbers too.

✓ is tested, – is a hole; the number names its reason below.
"""


class Notes:
    """Reasons, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, cell: Cell) -> str:
        sign = "✓" if cell.holds else "–"
        if not cell.note:
            return sign
        return f"{sign} {self.numbers.setdefault(cell.note, len(self.numbers) + 1)}"


def table() -> str:
    notes, parts, others = Notes(), [], []
    held = dict.fromkeys(COLUMNS, 0)
    count = 0
    for title, rows in families():
        lines = [f"## {title}", "", f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
        others += [other_name(row) for row in rows if other_name(row)]
        for row in (r for r in rows if not other_name(r)):
            found = cells(row)
            count += 1
            for column, cell in found.items():
                held[column] += cell.holds
            lines.append(f"| `{row.name}` | {' | '.join(notes.mark(cell) for cell in found.values())} |")
        if len(lines) > 4:
            parts.append("\n".join(lines))
    summary = f"| of {count} | {' | '.join(map(str, held.values()))} |"
    reasons = [f"{number}. {reason}" for reason, number in notes.numbers.items()]
    return "\n".join(
        [
            HEAD,
            f"| | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n{summary}",
            "\n## Reasons\n",
            *reasons,
            "\n## Names that are no operations\n",
            *[f"- {reason}: {', '.join(f'`{name}`' for name in names.split())}" for reason, names in NOT_OPS.items()],
            "\n## Other names\n",
            f"Tested to be the same: {'; '.join(o.removesuffix(' by another name') for o in others)}.\n",
            "\n\n".join(parts),
            "",
        ]
    )


def main() -> int:
    text = table()
    if "--check" not in sys.argv:
        TARGET.write_text(text, "utf-8")
        print(text, end="")
        return 0
    if TARGET.read_text("utf-8") != text:
        print(f"{TARGET} is out of date; run make coverage-table")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
