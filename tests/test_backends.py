"""The tables of kernels: which backend computes, what the reference consists of, and kernels that are derived."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checks import planned
from sampling import has_turn
from table import ROWS
from test_layering import imports

import lucid
from lucid.core import kernels
from lucid.core.kernels import REFERENCE, Waiting
from lucid.core.primitive import Primitive, registry
from lucid.ops.fused import gradient_of

ROOT = Path(__file__).resolve().parent.parent
ALL_FILES = sorted((ROOT / "lucid" / "backends" / REFERENCE).rglob("*.py"))


@pytest.fixture
def reference():
    """Compute with the kernels of the reference alone."""
    kernels.load_all()
    before = kernels.in_use[0]
    kernels.use(REFERENCE)
    yield
    kernels.use(before)


@pytest.fixture
def made_up():
    """Names of primitives that are gone afterwards."""
    names = []
    yield names
    for name in names:
        registry.pop(name, None)
        kernels.table.pop(name, None)
        kernels.declared.pop(name, None)
        for table in kernels.tables.values():
            table.pop(name, None)


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_reference_is_numpy_and_scipy_alone(path):
    assert [m for m, _ in imports(path) if m.startswith(("lucid.backends.cpu", "lucid.native.in_use"))] == []


# What is no loop: it hands out work.
NO_LOOPS = {"__init__", "kernels", "blas", "entry_points", "parallel", "thread_pool", "threads"}


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted((ROOT / "lucid" / "backends" / "cpu").rglob("*.py"))
        if p.stem not in NO_LOOPS and p.parent.name not in ("generated", "launch")
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_loops_say_whether_generated_code_replaces_them(path):
    text = ast.get_docstring(ast.parse(path.read_text())).replace("\n", " ")
    assert "be replaced by generated code" in text or "Generation does not reach" in text


def test_one_backend_overrides_the_other(made_up):
    made_up.append("made_up")
    prim = Primitive("made_up")
    assert isinstance(prim.kernel, Waiting)
    kernels.fill({"made_up": lambda x: x + 1})
    assert prim.kernel(1) == 2
    kernels.fill({"made_up": lambda x: x + 2}, kernels.in_use[0])
    assert prim.kernel(1) == 3
    kernels.fill({"made_up": lambda x: x + 4})
    assert prim.kernel(1) == 3
    assert Primitive("made_up").kernel(1) == (3 if len(kernels.in_use) > 1 else 5)


def test_kernels_are_derived_where_no_table_has_one(made_up, monkeypatch):
    made_up += ["made_up", "made_up_later"]
    asked = []

    def rule(prim):
        asked.append(prim.name)
        factor = getattr(prim, "factor", None)
        return None if factor is None else lambda x: x * factor

    class Scaled(Primitive):
        def __init__(self, name, factor):
            self.factor = factor
            super().__init__(name)

    monkeypatch.setattr(kernels, "derive", [rule])
    prim = Scaled("made_up", 3)
    assert isinstance(prim.kernel, Waiting) and not kernels.has_own(prim)
    assert prim(lucid.tensor(2.0)).item() == 6
    assert kernels.tables[REFERENCE]["made_up"] is prim.kernel and prim.kernel(2) == 6
    assert not kernels.has_own(prim)
    assert asked == ["made_up"]  # once, not by each call
    later = Primitive("made_up_later")
    assert isinstance(later.kernel, Waiting)
    later.factor = 5
    assert later.kernel(2) == 10
    assert not isinstance(later.kernel, Waiting)
    kernels.fill({"made_up": lambda x: x * 7}, kernels.in_use[0])
    assert prim.kernel(2) == 14 and kernels.has_own(prim)


def test_primitives_without_any_kernel_say_so(made_up):
    made_up.append("made_up")
    with pytest.raises(NotImplementedError, match="`made_up` has no kernel"):
        Primitive("made_up").kernel(1)


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **variables}
    )


def test_the_environment_chooses():
    code = (
        "import sys, lucid, lucid.nn; print(*lucid.backends.in_use());"
        "print(*[m for m in sys.modules if m.startswith('lucid.backends.cpu')])"
    )
    assert run(code, LUCID_BACKEND="numpy").stdout.split("\n")[:2] == ["numpy", ""]
    assert run(code, LUCID_BACKEND="cpu").stdout.startswith("cpu numpy\n")
    assert "LUCID_BACKEND must be one of cpu, numpy" in run(code, LUCID_BACKEND="abacus").stderr


def test_every_primitive_has_a_kernel_in_the_reference(reference):
    declared = [prim for prim in registry.values() if prim.kernel is not None]
    for prim in declared:
        if isinstance(prim.kernel, Waiting):
            prim.kernel._found()
    for name in registry:
        if registry[name].kernel is not None:
            assert registry[name].kernel is kernels.tables[REFERENCE][name]


PLAN = [
    pytest.param(row, check, dtype, id=case)
    for row in ROWS
    for name, check, dtype in planned(row)
    if has_turn(case := f"{row.name}-{name}-{dtype}", 40)
]


@pytest.mark.parametrize(("row", "check", "dtype"), PLAN)
def test_op_on_the_reference(row, check, dtype, reference):
    """The table on the reference alone; `test_ops` has it on all backends together."""
    with np.errstate(all="ignore"):
        check(row, dtype)


def test_the_derivative_of_a_fused_primitive_keeps_its_kernel():
    """Where a kernel keeps nothing for it, the reference of the derivative is derived; it is not taken everywhere then."""
    derivative = gradient_of(registry["row_norm"], (True, False, False))
    kernel = derivative.kernel
    kernels.reference(derivative)
    kernels.use(kernels.in_use[0])
    assert derivative.kernel is kernel
