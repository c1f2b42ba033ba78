"""The whole table: the rows of every family of operations, from all files called samples*.py."""

from importlib import import_module
from pathlib import Path

FAMILIES = sorted(path.stem for path in Path(__file__).parent.glob("samples*.py"))
ROWS = [row for family in FAMILIES for row in import_module(family).ROWS]
