"""Abstract rules, shapes and types without values, against what the kernels give."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from checks import run_rules
from table import ROWS

from lucid.core.kernels import WithBackward, load_all
from lucid.core.primitive import P, registry
from lucid.ops.abstract import Abstract
from lucid.ops.contraction import labelled


def abstract(value: Any) -> Any:
    return Abstract(value.shape, value.dtype) if isinstance(value, np.ndarray | np.generic) else value


def difference(prim: Any, args: tuple[Any, ...], params: dict[str, Any], result: Any) -> str | None:
    """How an abstract rule differs from a result, in words."""
    if prim.abstract is None:
        return f"{prim.name} has no abstract rule"
    found = prim.abstract(*map(abstract, args), **params)
    for k, (said, got) in enumerate(zip(found if prim.multi else (found,), result if prim.multi else (result,))):
        array = np.asarray(got)
        if (tuple(said.shape), said.dtype) != (array.shape, array.dtype):
            return f"{prim.name}: result {k} of {[abstract(a) for a in args]} {params} is {abstract(array)}, not {said}"
    return None


@contextmanager
def watched(primitives: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Compare each kernel's results with the abstract rule; yields the differences by primitive."""
    load_all()
    wrong: dict[str, str] = {}
    before = {name: prim.kernel for name, prim in primitives.items()}

    def watch(prim: Any, kernel: Any) -> Any:
        def call(*args: Any, **params: Any) -> Any:
            result = kernel(*args, **params)
            message = difference(prim, args, params, result)
            if message is not None:
                wrong.setdefault(prim.name, message)
            return result

        def forward(*args: Any, **params: Any) -> Any:
            result, residuals = kernel.forward(*args, **params)
            message = difference(prim, args, params, result)
            if message is not None:
                wrong.setdefault(prim.name, message)
            return result, residuals

        return WithBackward(forward, kernel.backward) if isinstance(kernel, WithBackward) else call

    for name, prim in primitives.items():
        prim.kernel = watch(prim, before[name])
    try:
        yield wrong
    finally:
        for name, kernel in before.items():
            primitives[name].kernel = kernel


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_abstract_rules_agree_with_kernels(row):
    with np.errstate(all="ignore"), watched(dict(registry)) as wrong:
        for dtype in ("float64",) * row.floats + ("complex128",) * row.complex or row.ints[:1]:
            run_rules(row, dtype, most=3)
        for dtype in (*row.ints[:1], "float32", "float16")[: 1 + row.floats * 2]:
            run_rules(row, dtype, most=1)
    assert wrong == {}


def test_the_check_can_fail(monkeypatch):
    row = next(r for r in ROWS if r.name == "exp")
    monkeypatch.setattr(registry["exp"], "abstract", lambda x: Abstract((7,), x.dtype))
    with watched(dict(registry)) as wrong:
        run_rules(row, "float64", most=1)
    assert "exp" in wrong


def test_factors_of_a_contraction_must_fit():
    labels = labelled("ij", "jk", "ik")
    with pytest.raises(ValueError, match="j is 3 of the left factor and 4 of the right one"):
        P.contract.abstract(Abstract((2, 3), np.dtype(float)), Abstract((4, 5), np.dtype(float)), labels=labels)
