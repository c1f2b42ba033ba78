"""From text to the address of machine code, each text once: what was compiled before is loaded from the cache on disk."""

import hashlib
from collections.abc import Sequence
from typing import Any

from lucid.codegen import cache, lock
from lucid.codegen.bodies import Plan
from lucid.codegen.folds import FoldPlan, columns, merge, merge_columns, run
from lucid.codegen.loops import elementwise as elementwise_loop
from lucid.codegen.loops import module
from lucid.codegen.machine import Compiler, Loaded
from lucid.codegen.rows import RowPlan
from lucid.codegen.rows import columns as columns_of_rows
from lucid.codegen.rows import rows as one_row
from lucid.codegen.scans import ScanPlan, line, rows
from lucid.codegen.scans import columns as scan_columns
from lucid.codegen.selections import SelectionPlan, select
from lucid.codegen.vectors import Function

_known: dict[str, tuple[tuple[int, ...], Any]] = {}
_compiler: Compiler | None = None


def compiler() -> Compiler:
    """The compiler for this processor."""
    global _compiler
    if _compiler is None:
        _compiler = Compiler()
    return _compiler


def addresses(functions: Sequence[Function]) -> tuple[tuple[int, ...], Any]:
    """Where the code of functions is, and what must be kept as long as it is used."""
    text = module(functions)
    with lock:
        found = _known.get(text)
        if found is None:
            loaded = _load(text)
            found = _known[text] = tuple([loaded.address(f.name) for f in functions]), loaded
        return found


def _load(text: str) -> Loaded:
    here = compiler()
    key = hashlib.sha256(f"{here.identity}\n{text}".encode()).hexdigest()
    code = cache.read(key)
    if code is None:
        code = here.object_code(text)
        cache.write(key, code)
    return Loaded(here, code)


def elementwise(plan: Plan) -> tuple[tuple[int, ...], Any]:
    """The loop of an elementwise operation."""
    return addresses([elementwise_loop(plan, "elementwise")])


def fold(plan: FoldPlan) -> tuple[tuple[int, ...], Any]:
    """The loops of a reduction."""
    return addresses([make(plan, make.__name__) for make in (run, merge, columns, merge_columns)])


def function_of_rows(plan: RowPlan) -> tuple[tuple[int, ...], Any]:
    """The loop of a function of rows along one row."""
    return addresses([one_row(plan, "rows")])


def function_of_columns(plan: RowPlan, shared: Sequence[int]) -> tuple[tuple[int, ...], Any]:
    """The same along many rows side by side."""
    return addresses([columns_of_rows(plan, "columns", shared)])


def scan(plan: ScanPlan) -> tuple[tuple[int, ...], Any]:
    """The loops of a scan."""
    return addresses([make(plan, make.__name__) for make in (line, rows, scan_columns)])


def selection(plan: SelectionPlan) -> tuple[tuple[int, ...], Any]:
    """The loop that finds the first few elements in order."""
    return addresses([select(plan, "select")])
