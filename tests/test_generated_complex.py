"""Complex numbers, and Python numbers beside arrays, as generated code, against NumPy's."""

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.generated import support
from lucid.core import kernels
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not support.in_use, reason="needs generated code")
TYPES = pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
OF_ONE = ["neg", "conj", "exp", "abs", "isnan", "isinf", "isfinite", "sigmoid", "sgn", "angle", "square"]
OF_TWO = ["add", "sub", "mul", "div", "eq", "ne", "chain"]
PARTS = [0.0, -0.0, 1, -1, 2.5, -40, np.inf, -np.inf, np.nan]


def close(got, expected):
    """Parts are as near as the whole is large; what is infinite or nan is so in both."""
    tolerance = 40 * np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    size = np.where(np.isfinite(expected), np.maximum(np.abs(expected.real), np.abs(expected.imag)), 0)
    if expected.dtype.kind != "c":
        return np.isclose(got, expected, 0, tolerance * size, equal_nan=True)
    parts = [(got.real, expected.real), (got.imag, expected.imag)]
    return np.logical_and(*[np.isclose(g, e, 0, tolerance * size, equal_nan=True) for g, e in parts])


def check(name, *arrays):
    primitive = getattr(P, name)
    with np.errstate(all="ignore"):
        got, expected = kernels.resolved(primitive)(*arrays), kernels.reference(primitive)(*arrays)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    wrong = np.argwhere(~close(got, expected))
    assert not len(wrong), [(got[tuple(i)], expected[tuple(i)], i) for i in wrong[:4]]


def numbers(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 3 + 1j * rng.standard_normal(shape) * 3).astype(dtype)


@TYPES
@pytest.mark.parametrize("name", OF_ONE + OF_TWO)
def test_values_in_any_shape(name, dtype):
    count = 1 + (name in OF_TWO)
    x, y = numbers(dtype, (37, 45)), numbers(dtype, (37, 45), 1)
    check(name, *(x, y)[:count])
    check(name, *(x.T, y.T[:, ::-1])[:count])
    check(name, *(x[::3, 1::2], y[::3, 1::2])[:count])
    check(name, *(x[:0], y[:0])[:count])
    if count == 2:
        check(name, x, y[0])
        check(name, x[:, :1], y)
        check(name, x[0, 0], y)


@TYPES
@pytest.mark.parametrize(
    "name", ["add", "sub", "div", "eq", "ne", "neg", "conj", "exp", "abs", "isnan", "isinf", "isfinite"]
)
def test_special_values(name, dtype):
    x = np.array([complex(a, b) for a in PARTS for b in PARTS], dtype)
    check(name, *([x] if name in OF_ONE else np.broadcast_arrays(x[:, None], x)))


@TYPES
def test_exponentials_near_the_ends_of_the_range(dtype):
    """The size alone would be infinite."""
    end = np.log(float(np.finfo(dtype).max))
    x = np.array([complex(end + 0.3, 0.785), complex(end + 0.2, -2.4), complex(end - 1, 3)], dtype)
    check("exp", x)
    assert np.isfinite(P.exp.kernel(x)).all()


@TYPES
def test_where_and_numbers_beside(dtype):
    x, y = numbers(dtype, 300), numbers(dtype, 300, 1)
    check("where", x.real > 0, x, y)
    for number in (2, 2.5, 1 - 2j):
        for name in ("add", "mul", "div"):
            check(name, x, number)
            check(name, number, x)


@TYPES
def test_threads_do_not_change_bits(dtype):
    x, y = numbers(dtype, (600, 500)), numbers(dtype, (600, 500), 1)
    before, found = lucid.get_num_threads(), []
    try:
        for threads in (1, 2):
            lucid.set_num_threads(threads)
            found.append([P.exp.kernel(x), P.div.kernel(x, y.reshape(500, 600).T)])
    finally:
        lucid.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found[0][0][3, 7:9], P.exp.kernel(x[3, 7:9].copy()))


def test_functions_that_have_code_are_computed_by_it():
    x = lucid.linspace(0.1, 2, 1000)
    for function in (lucid.sigmoid, lucid.rsqrt, lucid.nn.functional.logsigmoid):
        name = {"logsigmoid": "log_sigmoid"}.get(function.__name__, function.__name__)
        assert f"{name}(x0)" in lucid.kernels.source(function, x, parts="expression")


def test_the_loops_are_generated():
    x = lucid.tensor(numbers(np.complex64, 100))
    for call in (lucid.exp, lambda x: x * x, lambda x: x / 2.5, lucid.abs, lambda x: 3 - x):
        assert "elementwise" in lucid.kernels.source(call, x, parts="expression")


NUMBERS = (2, 2.5, 300, -1, 1e6, np.inf, np.nan, 2 + 1j, True)
UFUNCS = {"add": np.add, "mul": np.multiply, "gt": np.greater, "eq": np.equal, "maximum": np.maximum, "div": np.divide}


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "int8", "uint8", "complex64", "bool"])
@pytest.mark.parametrize("name", UFUNCS)
def test_python_numbers_beside_arrays_count_as_in_numpy(name, dtype):
    x = np.array([0, 1, 2, 3, 100], dtype)
    kernel = getattr(P, name).kernel
    for number in NUMBERS:
        for operands in ((x, number), (number, x)):
            with np.errstate(all="ignore"):
                try:
                    expected = UFUNCS[name](*operands)
                except OverflowError:
                    with pytest.raises(OverflowError):
                        kernel(*operands)
                    continue
                got = kernel(*operands)
            assert got.dtype == expected.dtype
            tolerance = 0 if expected.dtype.kind in "biu" else 2 * np.finfo(expected.dtype).eps
            np.testing.assert_allclose(got, expected, tolerance)


@pytest.mark.parametrize(
    ("triple", "cpu"), [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64-v3")]
)
def test_code_for_other_processors(triple, cpu, monkeypatch):
    from lucid.codegen import bodies, loops
    from lucid.codegen.machine import Compiler

    monkeypatch.setattr(bodies, "level", cpu)
    compiler = Compiler(triple, cpu, "")
    for name, dtype in [("exp", "complex64"), ("div", "complex128"), ("mul", "complex64"), ("remainder", "int64")]:
        primitive = getattr(P, name)
        plan = bodies.Plan(primitive.source, [np.dtype(dtype)] * len(primitive.operands), {})
        code = compiler.object_code(loops.module([loops.elementwise(plan, "elementwise")]))
        assert code.startswith(b"\x7fELF")


FOLDS = ("sum", "prod", "all", "any", "count_nonzero")
SHAPES = [
    ((3, 7), (1,)),
    ((50, 130), (0,)),
    ((50, 130), (0, 1)),
    ((9, 9000), (1,)),
    ((4, 5, 6), (0, 2)),
    ((5000, 3), (0,)),
]


def views(dtype, shape):
    """Numbers of size 1, whose products are neither large nor small, that lie in memory in several ways."""
    x = numbers(dtype, shape)
    x = x / np.abs(x)
    part = x.real.itemsize
    loose = np.zeros(x.nbytes + part, np.uint8)[part:].view(dtype).reshape(shape)  # as aligned as parts are
    loose[...] = x
    return x, loose, x.T.copy().T, np.repeat(x, 2, 0)[::2], x[::-1].copy()[::-1], x[:, ::-1].copy()[:, ::-1]


@TYPES
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(("shape", "dims"), SHAPES)
def test_reductions(name, shape, dims, dtype):
    primitive = getattr(P, name)
    for view in views(dtype, shape):
        for x in (view, np.where(np.arange(shape[-1]) % 5 == 0, 0, view).astype(dtype)):
            got, expected = [k(x, dims=dims, keepdim=False) for k in (primitive.kernel, kernels.reference(primitive))]
            assert got.dtype == expected.dtype and got.shape == expected.shape
            near = 2000 * np.finfo(dtype).eps if name in ("sum", "prod") else 0
            np.testing.assert_allclose(got, expected, near, near)


@TYPES
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(name, reverse, dtype):
    primitive = getattr(P, name)
    for shape in ((3, 70), (70, 40), (5, 1), (4, 30, 2), (2, 5, 33)):
        for x in views(dtype, shape):
            for dim in range(x.ndim):
                given = {"dim": dim, "reverse": reverse}
                got, expected = primitive.kernel(x, **given), kernels.reference(primitive)(x, **given)
                assert got.dtype == expected.dtype
                np.testing.assert_allclose(got, expected, 200 * np.finfo(dtype).eps, 200 * np.finfo(dtype).eps)


@TYPES
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_bits_of_reductions_depend_on_shapes_alone(dims, dtype):
    x = numbers(dtype, (600, 500))
    before, found = lucid.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            lucid.set_num_threads(threads)
            found.append(P.sum.kernel(x, dims=dims, keepdim=False))
    finally:
        lucid.set_num_threads(before)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    loose = np.zeros(x.nbytes + x.real.itemsize, np.uint8)[x.real.itemsize :].view(dtype).reshape(x.shape)
    loose[...] = x
    assert np.array_equal(found[0], P.sum.kernel(loose, dims=dims, keepdim=False))
    if dims == (1,):
        assert all(np.array_equal(found[0][k], P.sum.kernel(x[k], dims=(0,), keepdim=False)) for k in (0, 7, 599))


@TYPES
def test_reductions_and_scans_are_generated(dtype):
    x = lucid.tensor(numbers(dtype, (20, 30)))
    for call in (lucid.sum, lambda x: x.prod(1), lambda x: x.any(0)):
        assert "reduction" in lucid.kernels.source(call, x, parts="expression")
    assert "scan" in lucid.kernels.source(lambda x: lucid.cumsum(x, 1), x, parts="expression")


@TYPES
def test_numbers_without_order_have_no_loops_of_it(dtype):
    """The reference computes it."""
    x = numbers(dtype, (20, 30))
    expected = np.log(np.exp(x.astype(np.complex128)).sum(1))
    np.testing.assert_allclose(lucid.logsumexp(lucid.tensor(x), 1).numpy(), expected, 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_complex_numbers_have_their_parts_as_they_are(dtype):
    special = np.array(PARTS, dtype)
    x = np.random.default_rng(0).standard_normal((37, 45)).astype(dtype)
    for real, imag in ((special[:, None], special), (x, x[::-1]), (x.T, x[:, 0]), (x[0, 0], x)):
        found, wanted = P.complex.kernel(real, imag), kernels.reference(P.complex)(real, imag)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()
    tensor = lucid.tensor(x)
    assert "complex(x0, x1)" in lucid.kernels.source(lambda x: lucid.complex(x, x), tensor, parts="expression")
