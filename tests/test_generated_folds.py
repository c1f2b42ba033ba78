"""Generated reductions against NumPy, and that their bits depend on nothing but the elements and their number."""

import numpy as np
import pytest
from scipy import special

import lucid
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.norms import sum_of_powers
from lucid.core import kernels
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

COUNTS = (1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 100, 127, 128, 1000, 4095, 4096, 4097, 9000)
TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool")
REFERENCES = {
    "sum": np.sum,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
    "logsumexp": special.logsumexp,
    "all": np.all,
    "any": np.any,
    "count_nonzero": np.count_nonzero,
}


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if dtype == "bool":
        return rng.random(shape) < 0.9
    if dtype[0] in "iu":
        return rng.integers(0, 3, shape).astype(dtype)
    return (1 + 0.01 * rng.standard_normal(shape)).astype(dtype)


def reduced(name: str, x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return getattr(lucid, name)(lucid.from_numpy(x), dims).numpy()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_rows_of_every_length(name: str, dtype: str) -> None:
    if name == "logsumexp" and dtype[0] != "f":
        pytest.skip("it is one of floats")
    for count in COUNTS:
        x = numbers((3, count), dtype)
        wide = x.astype(np.float64) if x.dtype.kind == "f" else x
        wanted = REFERENCES[name](wide, axis=1)
        tolerance = {"float16": 2e-2, "float32": 1e-4}.get(dtype, 1e-10)
        found = reduced(name, x, (1,))
        np.testing.assert_allclose(found.astype(wanted.dtype), wanted, tolerance, err_msg=str(count))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "logsumexp"])
def test_bits_of_a_row_do_not_depend_on_what_is_around_it(name: str, dtype: str) -> None:
    for count in COUNTS:
        x = numbers((130, count), dtype)
        together = reduced(name, x, (1,))
        for k in (0, 1, 63, 64, 129):
            np.testing.assert_array_equal(together[k], reduced(name, x[k].copy(), (0,)))


SHORT = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 28, 31, 33, 48, 63, 64)
EDGES = (0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3e38, 1e-45)


@pytest.mark.parametrize("name", [*REFERENCES, "argmax", "argmin", "norm"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64"])
def test_short_rows_side_by_side_have_the_bits_of_one_row(name: str, dtype: str) -> None:
    """Also of numbers that are not ordinary, and where parts of a result lie apart."""
    if dtype == "complex64" and name not in ("sum", "prod", "all", "norm"):
        pytest.skip("complex numbers have no order")
    if name in ("logsumexp", "norm") and dtype[0] not in "fc":
        pytest.skip("it is one of floats")
    f = {"norm": lambda x, d: lucid.linalg.norm(x, dim=d)}.get(name, getattr(lucid, name))
    rng = np.random.default_rng(len(name))
    for count in SHORT:
        x = numbers((37, count), dtype) if dtype != "complex64" else rng.standard_normal((37, 2 * count)).view("c16")
        x = x.astype(dtype)
        if dtype[0] == "f":
            with np.errstate(over="ignore"):
                edges = rng.choice(EDGES, (12, count)).astype(dtype)
            x[:12] = np.where(rng.random((12, count)) < 0.7, edges, x[:12])
        alone = np.stack([f(lucid.tensor(row), 0).numpy() for row in x])
        apart = np.zeros((37, 2 * count + 1), dtype)
        apart[:, 1::2] = x
        for view in (x, apart[:, 1::2], np.concatenate([x, x], 1)[:, :count]):
            assert f(lucid.from_numpy(view), 1).numpy().tobytes() == alone.tobytes(), count


@pytest.mark.parametrize("name", ["sum", "amax", "var"])
def test_short_blocks_of_one_result_are_taken_side_by_side(name: str) -> None:
    """In any order of dimensions, and with the same bits whoever takes them."""
    for count in SHORT[1:]:  # single elements are columns
        x = numbers((5, 37, 3, count), "float64")
        wanted = {"sum": np.sum, "amax": np.max, "var": lambda x, dims: np.var(x, dims, ddof=1)}[name]
        for dims in ((0, 1, 3), (1, 3), (0, 3)):
            found = reduced(name, x, dims)
            np.testing.assert_allclose(found, wanted(x, dims), 1e-10, 1e-12)
            for k in range(3):  # of which the parts lie elsewhere
                np.testing.assert_array_equal(found[..., k], reduced(name, x[..., k : k + 1, :], dims)[..., 0])
            by_step = np.stack([x, x], -1)[..., 1]
            np.testing.assert_array_equal(found, reduced(name, by_step, dims))


@pytest.mark.parametrize("name", ["sum", "amax", "logsumexp"])
def test_bits_do_not_depend_on_strides_and_alignment(name: str) -> None:
    for count in (5, 100, 4097):
        x = numbers((6, count), "float32")
        wanted = reduced(name, x, (1,))
        apart = np.zeros((6, 3 * count), np.float32)
        apart[:, ::3] = x
        shifted = np.zeros(6 * count + 1, np.float32)[1:].reshape(6, count)
        shifted[...] = x
        for view in (apart[:, ::3], shifted, np.repeat(x, 2, axis=0)[::2], x[::-1].copy()[::-1]):
            np.testing.assert_array_equal(reduced(name, view, (1,)), wanted)
        np.testing.assert_array_equal(reduced(name, x[:, ::-1][:, ::-1], (1,)), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["sum", "amax"])
def test_dimensions_in_any_order_are_taken_as_they_lie(name: str, dtype: str) -> None:
    """What is dense in memory is one row, however its dimensions are called; others are not what they seem."""
    for shape in ((70, 130), (5, 70, 33), (2, 3, 4, 700)):
        x = numbers(shape, dtype)
        everything, order = tuple(range(x.ndim)), tuple(reversed(range(x.ndim)))
        for axes in (order, (order[0], *range(x.ndim - 1)), (*range(1, x.ndim), 0)):
            np.testing.assert_array_equal(reduced(name, x.transpose(axes), everything), reduced(name, x, everything))
        for view in (x.T[::-1], x.T[..., ::2], np.broadcast_to(x[:1], x.shape).T, x[..., 1:].T):
            for dims in (everything, everything[:2], everything[-2:]):
                wanted = REFERENCES[name](view.astype(np.float64), axis=dims)
                np.testing.assert_allclose(reduced(name, view, dims), wanted, 1e-5)


@pytest.mark.parametrize("name", ["sum", "logsumexp", "amax"])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_bits_do_not_depend_on_threads(name: str, dims: tuple[int, ...]) -> None:
    x = numbers((40, 90, 70), "float32")
    before = lucid.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            lucid.set_num_threads(threads)
            found.append(reduced(name, x, dims))
    finally:
        lucid.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], REFERENCES[name](x.astype(np.float64), axis=dims), 1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name: str) -> None:
    for count in COUNTS:
        x = np.random.default_rng(count).integers(0, 5, (70, count)).astype(np.float32)
        np.testing.assert_array_equal(getattr(lucid, name)(lucid.tensor(x), 1).numpy(), getattr(np, name)(x, 1))
        across = getattr(lucid, name)(lucid.tensor(x.T.copy()), 0).numpy()
        np.testing.assert_array_equal(across, getattr(np, name)(x, 1))


@pytest.mark.parametrize("count", [3, 70])
def test_logsumexp_of_infinities(count: int) -> None:
    for pair in [
        (np.inf, 1.0),
        (-np.inf, -np.inf),
        (np.nan, np.inf),
        (-np.inf, 2.0),
        (-np.inf, np.nan),
        (np.inf, -np.inf),
    ]:
        x = np.resize(np.array(pair), count)
        for dtype in ("float32", "float64"):
            found = lucid.logsumexp(lucid.tensor(x.astype(dtype)), 0).item()
            np.testing.assert_allclose(found, special.logsumexp(x), 1e-6)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "int64", "bool"))
@pytest.mark.parametrize("name", ("sum", "amax", "logsumexp", "all"))
def test_few_rows_of_many_columns(name: str, dtype: str) -> None:
    if name == "logsumexp" and dtype[0] != "f":
        pytest.skip("it is one of floats")
    for rows in (2, 3, 64, 65):
        for columns in (1, 5, 15, 16, 17, 511, 512, 513, 2047, 2048, 2100, 4700):
            x = numbers((2, rows, columns), dtype)
            wide = x.astype(np.float64) if x.dtype.kind == "f" else x
            found, wanted = reduced(name, x, (1,)), REFERENCES[name](wide, axis=1)
            tolerance = {"float16": 2e-2, "float32": 1e-4}.get(dtype, 1e-10)
            np.testing.assert_allclose(found.astype(wanted.dtype), wanted, tolerance, err_msg=str((rows, columns)))
            alone = reduced(name, np.ascontiguousarray(x[:, :, :2]), (1,))
            assert columns < 2 or found[:, :2].tobytes() == alone.tobytes()


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_long_rows_of_logsumexp(dtype: str) -> None:
    for shape, dims in (((70_001,), (0,)), ((3, 40_000), (1,)), ((2, 5, 20_000), (0, 2))):
        x = numbers(shape, dtype)
        wanted = special.logsumexp(x.astype(np.float64), axis=dims)
        found = reduced("logsumexp", x, dims)
        np.testing.assert_allclose(found, wanted, 2e-6 if dtype == "float32" else 1e-13)
        apart = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
        apart[...] = x
        assert reduced("logsumexp", apart, dims).tobytes() == found.tobytes()


@pytest.mark.parametrize("name", ("sum", "amax", "argmax"))
def test_few_columns_read_no_further_than_their_array(name: str) -> None:
    """Vectors hold what is behind a row: here that is nothing, or belongs to others."""
    for columns in (1, 2, 3, 7, 15):
        for rows in (1, 2, 5, 64, 65, 300, 512, 1100):
            x = numbers((rows, columns), "float32")
            around = np.full((rows + 2, columns + 3), np.nan, np.float32)
            around[1:-1, 1 : columns + 1] = x
            inside = around[1:-1, 1 : columns + 1]
            for given in (x, inside, inside[::-1], x[::-1, ::-1]):
                dims = 0 if name == "argmax" else (0,)
                wanted = getattr(np, name)(given, axis=0)
                np.testing.assert_allclose(reduced(name, given, dims), wanted, 1e-5)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "int64", "bool"))
@pytest.mark.parametrize("name", ("sum", "prod", "amax", "all"))
def test_many_rows_of_a_few_columns(name: str, dtype: str) -> None:
    """Blocks that are taken at once give the bits of blocks one by one, as wide arrays have them."""
    for rows in (511, 512, 513, 1000, 1024, 1089):
        x = numbers((2, rows, 40), dtype)
        wanted = reduced(name, x, (1,))
        for columns in (2, 4, 5, 7, 8, 15):
            few = x[:, :, :columns]
            for given in (few, np.ascontiguousarray(few)):
                np.testing.assert_array_equal(reduced(name, given, (1,)), wanted[:, :columns])


@pytest.mark.parametrize(
    ("triple", "cpu"), [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64-v3")]
)
def test_code_for_other_processors(triple: str, cpu: str) -> None:
    from lucid.codegen import folds, loops
    from lucid.codegen.machine import Compiler

    compiler = Compiler(triple, cpu, "")
    for name, dtype, result in (
        ("sum", "float32", "float32"),
        ("amax", "float64", "float64"),
        ("argmax", "float32", "int64"),
    ):
        plan = folds.FoldPlan(getattr(P, name).fold, np.dtype(dtype), np.dtype(result))
        makers = [getattr(folds, name) for name in folds.FUNCTIONS_OF_A_FOLD]
        code = compiler.object_code(loops.module([make(plan, make.__name__) for make in makers]))
        assert code.startswith(b"\x7fELF")
    distances = P.sum.fold._replace(lift=lambda x, mean, place: (P.square(x - mean),))
    plan = folds.FoldPlan(distances, np.dtype("float32"), np.dtype("float32"), 2)
    code = compiler.object_code(
        loops.module([make(plan, make.__name__) for make in (folds.run, folds.columns, folds.beside)])
    )
    assert code.startswith(b"\x7fELF")


# --- numbers beside the elements -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((9,), (0,)), ((16, 16), (1,)), ((16, 16), (0,)), ((16, 16), (0, 1)), ((300, 400), (0, 1)), ((70, 2100), (0,)),
        ((7, 5, 9), (0, 2)), ((5000, 3), (0,)), ((3, 9000), (1,)), ((200, 3, 17), (0,)), ((40, 30, 5), (0, 1)),
    ],
)  # fmt: skip
def test_the_variance_has_the_bits_of_its_definition(shape: tuple[int, ...], dims: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    for each in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2], x[::-1]):
        given = lucid.from_numpy(each)
        for keepdim in (False, True):
            found = lucid.var(given, dims, keepdim=keepdim, correction=0)
            wanted = P.var.composite(given, dims, keepdim, float(x.size // lucid.sum(given, dims).numel()))
            if each.flags.forc:  # others are summed in another order than their differences, which lie side by side
                np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        np.testing.assert_allclose(
            found.numpy(), np.var(each.astype(np.float64), axis=dims, keepdims=True), 1e-3, 1e-12
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "complex128"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_norms_of_half_precision_and_of_complex_numbers(p: float, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for scale in (1.0, 0.0, 1e-4, 300.0):  # squares of small and large ones are out of range of half precision
        parts = rng.standard_normal((2, 60, 130)) * scale
        x = lucid.tensor(parts[0] + 1j * parts[1] if "complex" in dtype else parts[0]).to(getattr(lucid, dtype)).numpy()
        for dims in ((0,), (1,), (0, 1)):
            got, expected = [k(x, p, dims, False) for k in (P.norm.kernel, kernels.reference(P.norm))]
            assert got.dtype == expected.dtype
            tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "complex64": 1e-5}.get(dtype, 1e-12)
            np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), tolerance)
    whole = sum_of_powers(p)(x, (0, 1), False)
    assert whole is not None and whole.dtype == ("float64" if dtype == "complex128" else "float32")
