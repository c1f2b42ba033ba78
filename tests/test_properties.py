"""Random arguments for every row: the result is the reference's, or a documented error with a message; nothing else.

A call is made from one of the row's samples: tensors may get other shapes, types and contents, and numbers,
flags and dimensions other values.
"""

import os
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from checks import REFUSALS, TOLERANCES, Case, array, assert_close, taken, widened
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from samples import BOOLS, Make, Row, Sample
from samples_elements import ALIAS_ROWS
from table import ROWS

import lucid
from lucid import fft, linalg, masked, special
from lucid.core.primitive import registry
from lucid.core.tensor import Tensor
from lucid.nn import functional

TYPES = ("float64", "float32", "float16", "bfloat16", "complex128", *BOOLS, "int8")
HALVES = ("float16", "bfloat16")
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
small = st.integers(-4, 4)
# How many calls of each row (a third of it where another row computes the same, under another name or not in place);
# the variable LUCID_THOROUGH multiplies them.
EXAMPLES = 60 * int(os.environ.get("LUCID_THOROUGH", "1"))


PUBLIC = (lucid, Tensor, functional, linalg, fft, special, masked)
CHECKED_ABOVE = "a primitive: public functions check its arguments"
LEFT_OUT = {
    "dropout": "with `training` turned on, the result is random",
    **dict.fromkeys(("rnn", "lstm", "gru"), CHECKED_ABOVE),
    **dict.fromkeys(("coo_order", "csr_matmul", "csr_matmul_back", "csr_sample"), CHECKED_ABOVE),
}


def is_open(row: Row) -> bool:
    """Whether users can call it; what other primitives are given, public functions have checked."""
    inner = row.name in registry and not any(hasattr(place, row.name) for place in PUBLIC)
    return row.name not in LEFT_OUT and not (inner and "refused" in row.without)


def types_of(row: Row) -> list[str]:
    """The types for which the row has samples."""
    found = []
    for dtype in TYPES:
        with suppress(TypeError), np.errstate(all="ignore"):  # NumPy cannot make all of them
            found += [dtype] if list(row.samples(Make(dtype, row.domain))) else []
    return found


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
def calls(draw: Any, row: Row, types: list[str]) -> Case:
    dtype = draw(st.sampled_from(types))
    make = Make(dtype, row.domain, draw(st.integers(0, 9)))
    sample = draw(st.sampled_from(list(row.samples(make))))
    args = tuple(other_argument(draw, a, make) for a in sample.args)
    kwargs = {name: other_argument(draw, a, make) for name, a in sample.kwargs.items()}
    return Case(row, Sample(args, kwargs), dtype)


def compare(case: Case, got: list[Any]) -> None:
    """Values in the types that the row lists; in half precision, and in other types that are taken, only shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = case.ref(*widened(case))
        except TypeError:
            return  # NumPy has no such function for the type
    listed = "int32" if case.dtype == "int8" else case.dtype
    if listed in taken(case.row) and listed not in HALVES:
        rtol, atol = TOLERANCES.get(case.dtype, TOLERANCES["float32"])
        assert_close(got, want, case, rtol, atol)
    else:
        assert [array(g).shape for g in got] == [w.shape for w in want], case


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("row", [row for row in ROWS if is_open(row)], ids=repr)
@pytest.mark.filterwarnings("ignore:.*the shapes .* differ:UserWarning")
def test_right_or_refused(row):
    @given(calls(row, types_of(row)))
    @settings(
        max_examples=EXAMPLES // (3 if row.name.endswith("_") or row in ALIAS_ROWS else 1),
        suppress_health_check=list(HealthCheck),
    )
    def run(case: Case) -> None:
        note(repr(case))
        try:
            got = case.op(*case.operands(requires_grad=False))
        except REFUSALS as error:
            assert not isinstance(error, NotImplementedError | np.exceptions.AxisError), case
            assert str(error), f"{case}: an error without a message"
            return
        compare(case, got)

    with np.errstate(all="ignore"):
        run()


TRUTHS = lucid.tensor([True, False, True])
# Calls that random arguments found, with what PyTorch says to them.
REFUSED = {
    "trapezoid of booleans": (lambda: lucid.trapezoid(TRUTHS), RuntimeError, "booleans have no area"),
    "trapezoid over booleans": (lambda: lucid.trapezoid(lucid.ones(3), TRUTHS), RuntimeError, "booleans have no area"),
    "points without the dimension": (
        lambda: lucid.trapezoid(lucid.ones(2, 3, 5), lucid.ones(3, 5), dim=0),
        RuntimeError,
        "do not fit",
    ),
    "mvlgamma of booleans": (lambda: lucid.mvlgamma(TRUTHS, 1), RuntimeError, "not booleans"),
    "vander of booleans": (lambda: linalg.vander(TRUTHS), RuntimeError, "not booleans"),
    "mean of booleans": (
        lambda: lucid.index_reduce(TRUTHS, 0, lucid.tensor([1]), TRUTHS[:1], "mean"),
        RuntimeError,
        "no mean",
    ),
    "roll of a number": (lambda: lucid.roll(lucid.tensor(1.0), 1, 0), IndexError, "no dimension 0"),
    "fftshift of a number": (lambda: fft.fftshift(lucid.tensor(1.0), 0), IndexError, "no dimension 0"),
    "labels of another shape": (
        lambda: functional.multilabel_soft_margin_loss(lucid.ones(1, 1), lucid.ones(2, 3)),
        ValueError,
        "same shape",
    ),
}


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_with_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_positions_in_nothing():
    assert [p.shape for p in lucid.unravel_index(lucid.zeros(0, dtype=lucid.int64), (0, 2))] == [(0,), (0,)]
