"""The array API standard's special cases: what functions give for infinities, nan and signed zeros.

A row has the operands and what must come out. "±x" is x of either sign, and a complex result is a pair of parts.
Beside them: Python numbers are as exact as arrays in every function of the namespace.
"""

import inspect
import math

import numpy as np
import pytest

import lucid
from lucid import array_api as xp
from lucid.array_api import elementwise

inf, nan, pi = math.inf, math.nan, math.pi
EITHER = {"±inf": inf, "±0": 0.0, "±π/2": pi / 2}  # where the sign is not specified

REAL = {
    "abs": [(nan, nan), (-0.0, 0.0), (-inf, inf)],
    "acos": [(nan, nan), (1.5, nan), (-1.5, nan), (1.0, 0.0)],
    "acosh": [(nan, nan), (0.5, nan), (1.0, 0.0), (inf, inf)],
    "asin": [(nan, nan), (1.5, nan), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "atan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, pi / 2), (-inf, -pi / 2)],
    "atanh": [(nan, nan), (-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(nan, nan), (inf, inf), (-inf, -inf), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (3.0, 3.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0)],
    "floor": [(nan, nan), (inf, inf), (-inf, -inf), (0.0, 0.0), (-0.0, -0.0), (3.0, 3.0)],
    "log": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [(nan, nan), (-1.5, nan), (-1.0, -inf), (-0.0, -0.0), (0.0, 0.0), (inf, inf)],
    "log2": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log10": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "reciprocal": [(nan, nan), (0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)],
    "round": [(nan, nan), (inf, inf), (-inf, -inf), (0.0, 0.0), (-0.0, -0.0), (0.5, 0.0), (-0.5, -0.0), (2.5, 2.0)],
    "sign": [(nan, nan), (-2.0, -1.0), (2.0, 1.0), (0.0, 0.0), (-0.0, "±0"), (inf, 1.0), (-inf, -1.0)],
    "signbit": [(0.0, False), (-0.0, True), (inf, False), (-inf, True), (nan, False), (-nan, True), (-1.0, True)],
    "sin": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "sinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "sqrt": [(nan, nan), (-1.0, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf)],
    "square": [(nan, nan), (-0.0, 0.0), (-inf, inf)],
    "tan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "tanh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "trunc": [(nan, nan), (inf, inf), (-inf, -inf), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (-3.0, -3.0), (0.7, 0.0)],
    "isfinite": [(nan, False), (inf, False), (-inf, False), (1.0, True)],
    "isinf": [(nan, False), (inf, True), (-inf, True), (1.0, False)],
    "isnan": [(nan, True), (inf, False), (1.0, False)],
}

BINARY = {
    "add": [(nan, 1, nan), (inf, -inf, nan), (inf, inf, inf), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (1, -1, 0.0)],
    "atan2": [
        (nan, 1, nan), (1, nan, nan), (1, 0.0, pi / 2), (1, -0.0, pi / 2), (0.0, 1, 0.0), (0.0, 0.0, 0.0),
        (0.0, -0.0, pi), (0.0, -1, pi), (-0.0, 1, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi), (-0.0, -1, -pi),
        (-1, 0.0, -pi / 2), (-1, -0.0, -pi / 2), (1, inf, 0.0), (1, -inf, pi), (-1, inf, -0.0), (-1, -inf, -pi),
        (inf, 1, pi / 2), (-inf, 1, -pi / 2), (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4), (-inf, inf, -pi / 4),
        (-inf, -inf, -3 * pi / 4),
    ],
    "copysign": [(1, -0.0, -1.0), (nan, 1, nan), (inf, -2, -inf), (0.0, -1, -0.0), (-3, 0.0, 3.0)],
    "divide": [
        (nan, 1, nan), (inf, inf, nan), (0.0, 0.0, nan), (0.0, -0.0, nan), (0.0, 1, 0.0), (-0.0, 1, -0.0), (0.0, -1, -0.0),
        (1, 0.0, inf), (1, -0.0, -inf), (-1, 0.0, -inf), (-1, -0.0, inf), (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf),
        (2, inf, 0.0), (2, -inf, -0.0), (-2, inf, -0.0),
    ],
    "floor_divide": [
        (nan, 1, nan), (1, nan, nan), (inf, inf, nan), (-inf, inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan), (0.0, 2, 0.0),
        (-0.0, 2, -0.0), (0.0, -2, -0.0), (-0.0, -2, 0.0), (2, 0.0, inf), (2, -0.0, -inf), (-2, 0.0, -inf),
        (-2, -0.0, inf), (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf), (-inf, -2, inf), (2, inf, 0.0), (2, -inf, -1.0),
        (-2, inf, -1.0), (-2, -inf, 0.0), (5, 2, 2.0), (-5, 2, -3.0), (inf, 0.0, inf), (-inf, 0.0, -inf),
    ],
    "hypot": [
        (inf, nan, inf), (nan, -inf, inf), (nan, 1, nan), (1, nan, nan), (3, 0.0, 3.0), (-0.0, -4, 4.0), (-inf, 1, inf),
    ],
    "logaddexp": [(nan, 1, nan), (1, nan, nan), (inf, 1, inf), (inf, inf, inf), (-inf, 1, 1.0), (-inf, -inf, -inf)],
    "maximum": [(nan, 1, nan), (1, nan, nan), (inf, 1, inf), (-inf, 1, 1.0)],
    "minimum": [(nan, 1, nan), (1, nan, nan), (inf, 1, 1.0), (-inf, 1, -inf)],
    "multiply": [(nan, 1, nan), (inf, 0.0, nan), (-0.0, -inf, nan), (inf, -2, -inf), (-0.0, 2, -0.0), (-0.0, -2, 0.0)],
    "nextafter": [(nan, 1, nan), (1, nan, nan), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (inf, inf, inf)],
    "pow": [
        (2, 0.0, 1.0), (nan, 0.0, 1.0), (nan, -0.0, 1.0), (inf, 0.0, 1.0), (1, nan, 1.0), (1, inf, 1.0), (nan, 2, nan),
        (2, nan, nan), (2, inf, inf), (-2, inf, inf), (2, -inf, 0.0), (-2, -inf, 0.0), (-1, inf, 1.0), (-1, -inf, 1.0),
        (0.5, inf, 0.0), (-0.5, inf, 0.0), (0.5, -inf, inf), (inf, 2, inf), (inf, -2, 0.0), (-inf, 3, -inf), (-inf, 2, inf),
        (-inf, 2.5, inf), (-inf, -3, -0.0), (-inf, -2, 0.0), (0.0, 2, 0.0), (0.0, -2, inf), (-0.0, 3, -0.0), (-0.0, 2, 0.0),
        (-0.0, 2.5, 0.0), (-0.0, -3, -inf), (-0.0, -2, inf), (-0.0, -2.5, inf), (-2, 0.5, nan), (0.0, inf, 0.0),
        (-0.0, -inf, inf),
    ],
    "remainder": [
        (nan, 1, nan), (1, nan, nan), (inf, 2, nan), (-inf, 2, nan), (inf, inf, nan), (2, 0.0, nan), (0.0, 0.0, nan),
        (0.0, 2, 0.0), (-0.0, 2, 0.0), (0.0, -2, -0.0), (-0.0, -2, -0.0), (2, inf, 2.0), (2, -inf, -inf), (-2, inf, inf),
        (-2, -inf, -2.0), (5, 3, 2.0), (-5, 3, 1.0), (5, -3, -1.0), (4, 2, 0.0), (-4, 2, 0.0), (4, -2, -0.0),
    ],
    "subtract": [(inf, inf, nan), (inf, -inf, inf), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (nan, 1, nan)],
}  # fmt: skip

# conj(f(z)) = f(conj z) for all of these, so rows with a negative imaginary part follow.
COMPLEX = {
    "acos": [
        ((0.0, 0.0), (pi / 2, -0.0)), ((-0.0, nan), (pi / 2, nan)), ((1.0, inf), (pi / 2, -inf)), ((1.0, nan), (nan, nan)),
        ((-inf, 1.0), (pi, -inf)), ((inf, 1.0), (0.0, -inf)), ((-inf, inf), (3 * pi / 4, -inf)),
        ((inf, inf), (pi / 4, -inf)), ((inf, nan), (nan, "±inf")), ((-inf, nan), (nan, "±inf")), ((nan, 1.0), (nan, nan)),
        ((nan, inf), (nan, -inf)), ((nan, nan), (nan, nan)),
    ],
    "acosh": [
        ((0.0, 0.0), (0.0, pi / 2)), ((1.0, inf), (inf, pi / 2)), ((0.0, nan), (nan, "±π/2")), ((1.0, nan), (nan, nan)),
        ((-inf, 1.0), (inf, pi)), ((inf, 1.0), (inf, 0.0)), ((-inf, inf), (inf, 3 * pi / 4)), ((inf, inf), (inf, pi / 4)),
        ((inf, nan), (inf, nan)), ((-inf, nan), (inf, nan)), ((nan, 1.0), (nan, nan)), ((nan, inf), (inf, nan)),
        ((nan, nan), (nan, nan)),
    ],
    "asinh": [
        ((0.0, 0.0), (0.0, 0.0)), ((1.0, inf), (inf, pi / 2)), ((1.0, nan), (nan, nan)), ((inf, 1.0), (inf, 0.0)),
        ((inf, inf), (inf, pi / 4)), ((inf, nan), (inf, nan)), ((nan, 0.0), (nan, 0.0)), ((nan, 1.0), (nan, nan)),
        ((nan, inf), ("±inf", nan)), ((nan, nan), (nan, nan)),
    ],
    "atanh": [
        ((0.0, 0.0), (0.0, 0.0)), ((0.0, nan), (0.0, nan)), ((1.0, 0.0), (inf, 0.0)), ((1.0, inf), (0.0, pi / 2)),
        ((1.5, nan), (nan, nan)), ((inf, 1.0), (0.0, pi / 2)), ((inf, inf), (0.0, pi / 2)), ((inf, nan), (0.0, nan)),
        ((nan, 1.0), (nan, nan)), ((nan, inf), ("±0", pi / 2)), ((nan, nan), (nan, nan)),
    ],
    "cosh": [
        ((0.0, 0.0), (1.0, 0.0)), ((0.0, inf), (nan, "±0")), ((0.0, nan), (nan, "±0")), ((1.0, inf), (nan, nan)),
        ((1.0, nan), (nan, nan)), ((inf, 0.0), (inf, 0.0)), ((inf, 1.0), (inf, inf)), ((inf, inf), ("±inf", nan)),
        ((inf, nan), (inf, nan)), ((nan, 0.0), (nan, "±0")), ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "sinh": [
        ((0.0, 0.0), (0.0, 0.0)), ((0.0, inf), ("±0", nan)), ((0.0, nan), ("±0", nan)), ((1.0, inf), (nan, nan)),
        ((1.0, nan), (nan, nan)), ((inf, 0.0), (inf, 0.0)), ((inf, 1.0), (inf, inf)), ((inf, inf), ("±inf", nan)),
        ((inf, nan), ("±inf", nan)), ((nan, 0.0), (nan, 0.0)), ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "tanh": [
        ((0.0, 0.0), (0.0, 0.0)), ((1.0, inf), (nan, nan)), ((0.0, inf), (0.0, nan)), ((1.0, nan), (nan, nan)),
        ((0.0, nan), (0.0, nan)), ((inf, 1.0), (1.0, 0.0)), ((inf, inf), (1.0, "±0")), ((inf, nan), (1.0, "±0")),
        ((nan, 0.0), (nan, 0.0)), ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "exp": [
        ((0.0, 0.0), (1.0, 0.0)), ((-0.0, 0.0), (1.0, 0.0)), ((1.0, inf), (nan, nan)), ((1.0, nan), (nan, nan)),
        ((inf, 0.0), (inf, 0.0)), ((-inf, 1.0), (0.0, 0.0)), ((inf, 1.0), (inf, inf)), ((-inf, inf), ("±0", "±0")),
        ((inf, inf), ("±inf", nan)), ((-inf, nan), ("±0", "±0")), ((inf, nan), ("±inf", nan)), ((nan, 0.0), (nan, 0.0)),
        ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "expm1": [
        ((0.0, 0.0), (0.0, 0.0)), ((-0.0, 0.0), (0.0, 0.0)), ((1.0, inf), (nan, nan)), ((1.0, nan), (nan, nan)),
        ((inf, 0.0), (inf, 0.0)), ((-inf, 1.0), (-1.0, 0.0)), ((inf, 1.0), (inf, inf)), ((-inf, inf), (-1.0, "±0")),
        ((inf, inf), ("±inf", nan)), ((-inf, nan), (-1.0, "±0")), ((inf, nan), ("±inf", nan)), ((nan, 0.0), (nan, 0.0)),
        ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "log": [
        ((-0.0, 0.0), (-inf, pi)), ((0.0, 0.0), (-inf, 0.0)), ((1.0, inf), (inf, pi / 2)), ((1.0, nan), (nan, nan)),
        ((-inf, 1.0), (inf, pi)), ((inf, 1.0), (inf, 0.0)), ((-inf, inf), (inf, 3 * pi / 4)), ((inf, inf), (inf, pi / 4)),
        ((inf, nan), (inf, nan)), ((-inf, nan), (inf, nan)), ((nan, 1.0), (nan, nan)), ((nan, inf), (inf, nan)),
        ((nan, nan), (nan, nan)),
    ],
    "log1p": [
        ((-1.0, 0.0), (-inf, 0.0)), ((1.0, inf), (inf, pi / 2)), ((1.0, nan), (nan, nan)), ((-inf, 1.0), (inf, pi)),
        ((inf, 1.0), (inf, 0.0)), ((-inf, inf), (inf, 3 * pi / 4)), ((inf, inf), (inf, pi / 4)), ((inf, nan), (inf, nan)),
        ((-inf, nan), (inf, nan)), ((nan, 1.0), (nan, nan)), ((nan, inf), (inf, nan)), ((nan, nan), (nan, nan)),
    ],
    "sqrt": [
        ((0.0, 0.0), (0.0, 0.0)), ((-0.0, 0.0), (0.0, 0.0)), ((1.0, inf), (inf, inf)), ((nan, inf), (inf, inf)),
        ((1.0, nan), (nan, nan)), ((-inf, 1.0), (0.0, inf)), ((inf, 1.0), (inf, 0.0)), ((-inf, nan), (nan, "±inf")),
        ((inf, nan), (inf, nan)), ((nan, 1.0), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "sign": [((0.0, 0.0), ("±0", "±0")), ((3.0, 4.0), (0.6, 0.8)), ((nan, 1.0), (nan, nan)), ((1.0, nan), (nan, nan))],
}  # fmt: skip
UNARY_ROWS = [(name, *row) for name, rows in REAL.items() for row in rows]
BINARY_ROWS = [(name, *row) for name, rows in BINARY.items() for row in rows]
COMPLEX_ROWS = [(name, *row) for name, rows in COMPLEX.items() for row in rows]


def assert_is(found, want, tolerance):
    if isinstance(want, str):
        found, want = abs(found), EITHER[want]
    assert np.isnan(found) == np.isnan(want), f"{found}, not {want}"
    if not np.isnan(want):
        np.testing.assert_allclose(found, want, tolerance)
        assert np.signbit(found) == np.signbit(want), f"{found}, not {want}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "x", "want"), UNARY_ROWS)
def test_one_real_operand(name, x, want, dtype):
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    for size in (1, 17):  # NumPy's loops treat long arrays and their ends by other code
        found = np.asarray(getattr(xp, name)(lucid.tensor(np.full(size, x, dtype))))
        for value in found:
            if found.dtype == bool:
                assert value == want
            else:
                assert_is(value, want, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "x", "y", "want"), BINARY_ROWS)
def test_two_real_operands(name, x, y, want, dtype):
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    function, a, b = getattr(xp, name), *[lucid.tensor(np.full(17, v, dtype)) for v in (x, y)]
    for found in (function(a, b), function(a, float(y)), function(float(x), b)):
        for value in np.asarray(found):
            assert_is(value, want, tolerance)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("name", "z", "want"), COMPLEX_ROWS)
def test_one_complex_operand(name, z, want, dtype):
    tolerance = 1e-6 if dtype == "complex64" else 1e-14
    for sign in (1, -1):
        x = np.empty(1, dtype)
        x.real, x.imag = z[0], sign * z[1]
        found = np.asarray(getattr(xp, name)(lucid.tensor(x)))[0]
        assert_is(found.real, want[0], tolerance)
        imag = want[1] if isinstance(want[1], str) else sign * want[1]
        assert_is(found.imag, imag, tolerance)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "trunc", "sign"])
def test_integers(name):
    x, y = lucid.tensor([7, -7, 7, -7, 0]), lucid.tensor([2, 2, -2, -2, 3])
    wanted = {"floor_divide": [3, -4, -4, 3, 0], "remainder": [1, 1, -1, -1, 0], "trunc": [7, -7, 7, -7, 0],
              "sign": [1, -1, 1, -1, 0], "pow": [49, 49, 49, 49, 0]}  # fmt: skip
    if name in ("trunc", "sign"):
        found = getattr(xp, name)(x)
    else:
        found = getattr(xp, name)(x, y if name != "pow" else 2)
    assert found.tolist() == wanted[name] and found.dtype is lucid.int64


# --- numbers beside arrays -----------------------------------------------------------------------

THIRD = {"float64": 1 / 3, "complex128": 1 / 3 + 0.1j}
TAKES_NUMBERS = [
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder",
    "subtract",
]  # fmt: skip
OF_COMPLEX = {"add", "divide", "equal", "multiply", "not_equal", "pow", "subtract"}
OTHERS = {
    "where": lambda x, v: xp.where(xp.asarray([True, False, True]), x, v),
    "where first": lambda x, v: xp.where(xp.asarray([True, False, True]), v, x),
    "clip min": lambda x, v: xp.clip(x, v),
    "clip max": lambda x, v: xp.clip(x, None, v),
    "full_like": lambda x, v: xp.full_like(x, v),
    "full": lambda x, v: xp.full((3,), v, dtype=x.dtype),
    "asarray": lambda x, v: xp.asarray([v, v, v], dtype=x.dtype),
    "setitem": lambda x, v: _written(x, v),
    "searchsorted": lambda x, v: xp.searchsorted(xp.sort(x), v),
}


def _written(x, v):
    out = xp.asarray(x, copy=True)
    out[1] = v
    return out


ALSO_COMPLEX = OF_COMPLEX | {"where", "where first", "full_like", "full", "asarray", "setitem"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in [*TAKES_NUMBERS, *OTHERS] for d in THIRD if d != "complex128" or n in ALSO_COMPLEX],
)
def test_numbers_are_exact(name, dtype):
    number = THIRD[dtype]
    x = lucid.tensor(np.array([0.5, 1 / 3, -0.7], dtype) * (1 if dtype == "float64" else 1 + 0.2j))
    exact = lucid.tensor(np.asarray(number, dtype))
    if name in OTHERS:
        calls = [OTHERS[name]]
    else:
        function = getattr(xp, name)
        calls = [function, lambda x, v: function(v, x)]
    for call in calls:
        if name == "asarray":
            want = lucid.tensor(np.full(3, number, dtype))
        else:
            want = call(x, exact)
        got = call(x, number)
        assert got.dtype is want.dtype
        np.testing.assert_array_equal(got, want)


def test_every_function_of_two_arrays_is_walked():
    names = {n for n in vars(elementwise) if n in xp.__dict__ and callable(vars(elementwise)[n])}
    binary = {n for n in names if "x2" in inspect.signature(vars(elementwise)[n]).parameters}
    left = {n for n in binary if not n.startswith(("bitwise", "logical"))} - set(TAKES_NUMBERS)
    assert not left and {"add", "pow"} <= binary
