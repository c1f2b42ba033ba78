"""Random arguments for every row: the result is the reference's, or a documented error with a message; nothing else.

A call is made from one of the row's samples: tensors may get other shapes, types and contents, and numbers,
flags and dimensions other values.
"""

from typing import Any

import numpy as np
import pytest
from checks import REFUSALS, TOLERANCES, Case, array, assert_close, widened
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from samples import BOOLS, INNER, ROWS, Make, Row, Sample

from lucid.core import dtypes

TYPES = ("float64", "float32", "float16", "bfloat16", "complex128", *BOOLS, "int8")
EXACT = ("float64", "float32", "complex128")  # types in which values are compared; in the others shapes are
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
small = st.integers(-4, 4)


def other_array(draw: Any, a: np.ndarray, make: Make) -> np.ndarray:
    """The array as it is, or one of another shape."""
    if draw(st.integers(0, 2)):
        return a
    shape = draw(shapes)
    if a.dtype == make.dtype:
        return make(*shape)
    values = np.array(draw(st.lists(small, min_size=1, max_size=4)))
    return np.resize(values, shape).astype(a.dtype)


def other_argument(draw: Any, value: Any, make: Make) -> Any:
    if isinstance(value, np.ndarray):
        return other_array(draw, value, make)
    if type(value) in (list, tuple):
        return type(value)(other_argument(draw, v, make) for v in value)
    if draw(st.integers(0, 2)):
        return value
    if isinstance(value, bool):
        return not value
    return draw(small) if isinstance(value, int) else value


@st.composite
def calls(draw: Any, row: Row) -> Case:
    dtype = draw(st.sampled_from(TYPES))
    make = Make(dtype, row.domain, draw(st.integers(0, 9)))
    sample = draw(st.sampled_from(list(row.samples(make))))
    args = tuple(other_argument(draw, a, make) for a in sample.args)
    kwargs = {name: other_argument(draw, a, make) for name, a in sample.kwargs.items()}
    return Case(row, Sample(args, kwargs), dtype)


def compare(case: Case, got: list[Any]) -> None:
    try:
        want = case.ref(*widened(case))
    except TypeError:
        return  # NumPy has no such function for the type
    if case.dtype in EXACT or dtypes.as_dtype(case.dtype).category < dtypes.CATEGORY_FLOAT:
        rtol, atol = TOLERANCES.get(case.dtype, TOLERANCES["float32"])
        assert_close(got, want, case, rtol, atol)
    else:
        assert [array(g).shape for g in got] == [w.shape for w in want], case


@pytest.mark.parametrize("row", [row for row in ROWS if row not in INNER], ids=repr)
def test_right_or_refused(row):
    @given(calls(row))
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    def run(case: Case) -> None:
        note(repr(case))
        try:
            got = case.op(*case.operands(requires_grad=False))
        except REFUSALS as error:
            assert not isinstance(error, NotImplementedError), case
            assert str(error), f"{case}: an error without a message"
            return
        compare(case, got)

    with np.errstate(all="ignore"):
        run()
