"""The table: every row of `samples` under every check of `checks` that applies to it, and that no op is without one."""

import numpy as np
import pytest
from checks import array, exercise, planned
from samples import BINARY, CONVERSIONS
from sampling import has_turn
from table import ROWS

from lucid import autograd
from lucid.api.creation import from_numpy
from lucid.core.primitive import registry
from lucid.core.tensor import Tensor

# Values and first derivatives of every row are checked in every run; of the longer checks, samples take one of so many.
EVERY = {
    "generated": 16,
    "compiled": 24,
    "late": 8,
    "overwritten": 8,
    "second": 10,
    "vmap": 8,
    "aliasing": 10,
    "types": 10,
}


PLAN = [
    pytest.param(row, check, dtype, id=case)
    for row in ROWS
    for name, check, dtype in planned(row)
    if has_turn(case := f"{row.name}-{name}-{dtype}", EVERY.get(name, 1))
]


@pytest.mark.parametrize(("row", "check", "dtype"), PLAN)
def test_op(row, check, dtype):
    # Infinities and nan are among the samples; NumPy's warnings about them are not of interest.
    with np.errstate(all="ignore"):
        check(row, dtype)


def test_names_are_unique():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_every_primitive_is_exercised():
    """Each primitive's kernel, reverse, forward and batching rules are used by some row."""
    with np.errstate(all="ignore"):
        missing = exercise(registry, ROWS)
    assert not missing, f"rules that no row of the table uses: {', '.join(missing)}"


# PyTorch's promotion: operands (types; `()` marks a 0-d tensor; numbers stand for themselves), and the result.
PROMOTIONS = [
    ("int64", 1.5, "float32"),
    ("bool", 2, "int64"),
    ("uint8", 2, "uint8"),
    ("int32", "int64", "int64"),
    ("uint8", "int8", "int16"),
    ("int64", "float16", "float16"),
    ("float16", "float32", "float32"),
    ("float32", "float64", "float64"),
    ("float16", "bfloat16", "float32"),
    ("float32", 1.5, "float32"),
    ("float64", 1.5, "float64"),
    ("bfloat16", 1.5, "bfloat16"),
    ("float16", 1.5, "float16"),
    ("float32", 1j, "complex64"),
    ("float64", 1j, "complex128"),
    ("complex64", "float64", "complex128"),
    ("float32", ("float64",), "float32"),
    ("int64", ("float64",), "float64"),
    ("float32", ("int64",), "float32"),
    ("uint8", ("int64",), "uint8"),
    ("float32", ("complex128",), "complex64"),
    (("float32",), ("float64",), "float64"),
]


def _operand(spec):
    if isinstance(spec, str):
        return from_numpy(np.ones(2)).to(spec)
    return from_numpy(np.ones(())).to(spec[0]) if isinstance(spec, tuple) else spec


@pytest.mark.parametrize("name", ["add", "sub", "mul", "where", "pow"])
@pytest.mark.parametrize(("left", "right", "result"), PROMOTIONS, ids=str)
def test_promotion(name, left, right, result):
    op = next(row.op for row in BINARY if row.name == name)
    first = (from_numpy(np.array([True, False])),) if name == "where" else ()
    for a, b in ((left, right), (right, left)):
        assert op(*first, _operand(a), _operand(b)).dtype.name == result


@pytest.mark.parametrize(("left", "right"), [("float32", "float64"), ("float16", "float32"), ("float64", "complex64")])
def test_gradients_of_promoted_operands_keep_their_types(left, right):
    x, y = (_operand(t).detach().requires_grad_() for t in (left, right))
    for out in (x * y, x / y, x - y):
        dx, dy = autograd.grad(out, (x, y))
        assert (dx.dtype.name, dy.dtype.name) == (left, right)


@pytest.mark.parametrize("row", CONVERSIONS, ids=repr)
def test_conversions_keep_gradients_real(row):
    x = from_numpy(np.ones(3)).requires_grad_()
    (g,) = autograd.grad(row.op(x), [x])
    assert isinstance(g, Tensor) and array(g).dtype == np.float64
