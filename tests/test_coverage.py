"""The table covers the library: no hole without a reason, no operation without a row, no page out of date."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from holes import EXPLAINED, Cell, cells, families, plain_name
from public_ops import NAMES, SAME_AS, WHY_NOT, public, without_row
from samples import ROWS as SAMPLES
from table import ROWS

ROOT = Path(__file__).parent.parent


def test_every_hole_has_a_reason():
    holes = [
        f"{row.name}: {column}" for row in ROWS for column, (holds, why) in cells(row).items() if not holds | bool(why)
    ]
    assert not holes, f"not tested, and nobody says why: {', '.join(holes)}"


def test_every_reason_is_of_a_hole():
    """Reasons outlive what they excuse unless somebody looks."""
    needed = set()
    for row in ROWS:
        for column, cell in cells(row).items():
            if not cell.holds:
                needed.add(("complex" if column == "complex" else "derivatives", plain_name(row)))
    assert not set(EXPLAINED) - needed


def test_every_operation_has_a_row():
    missing = without_row()
    assert not missing, f"no row in the table for {', '.join(missing)}"


def test_names_that_are_no_operations_exist():
    known = {name for _, name, _ in public()} | {f"{home.removeprefix('lucid.')}.{name}" for home, name, _ in public()}
    assert not set(WHY_NOT) - known
    assert not set(SAME_AS) - known
    assert set(SAME_AS.values()) <= NAMES


def test_families_hold_every_row_once():
    names = [row.name for _, rows in families() for row in rows]
    assert sorted(names) == sorted(row.name for row in ROWS)


def row(name):
    return next(r for r in SAMPLES if r.name == name)


def test_a_check_without_samples_is_a_hole():
    """A plan alone proves nothing: without a sample to run on, nothing is tested."""
    empty = replace(row("sin"), name="nothing", samples=lambda make: [])
    assert not any(cell.holds for cell in cells(empty).values())
    kinks = replace(
        row("sin"), name="kinks", samples=lambda make: (s._replace(smooth=False) for s in row("sin").samples(make))
    )
    assert [column for column, cell in cells(kinks).items() if not cell.holds] == ["reverse", "second"]


@pytest.mark.parametrize("check", ["reverse", "forward", "second", "vmap"])
def test_a_check_that_a_row_goes_without_is_a_hole(check):
    found = cells(replace(row("sin"), without={check: "for a test"}))
    assert found[check] == Cell(False, "for a test")


def test_page_is_up_to_date():
    script = ROOT / "tools" / "coverage_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
