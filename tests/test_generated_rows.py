"""Functions of rows by generated loops, against NumPy in double precision."""

import ml_dtypes
import numpy as np
import pytest

import lucid
import lucid.nn
from lucid.backends.cpu.generated import support
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

TOLERANCE = {
    np.dtype(np.float64): 1e-13,
    np.dtype(np.float32): 3e-6,
    np.dtype(np.float16): 4e-3,
    np.dtype(ml_dtypes.bfloat16): 3e-2,
}
SHAPES = [
    ((5,), 0),
    ((1,), 0),
    ((3, 7), 1),
    ((3, 7), 0),
    ((4, 1029), 1),
    ((40, 70), 0),
    ((3, 50, 33), 1),
    ((600, 18), 0),
    ((130, 201), 0),
    ((2, 65, 129), 1),
]


def forms(x):
    """The same numbers in memory of other strides."""
    yield x
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, -1)[..., ::2]
    yield x[::-1].copy()[::-1]


def centred(row, x, weight, eps):
    """A normalisation with results of rows, shared operands and a parameter."""
    mean = row.mean(x)
    x = x - mean
    scale = 1 / P.sqrt(row.mean(x * x) + eps)
    return x * scale * weight, mean, scale


def kernel(function):
    from lucid.backends.cpu.generated.rows import row_kernel

    return row_kernel(function)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_results_of_elements_and_of_rows(shape, dim, dtype):
    rng = np.random.default_rng(0)
    run = kernel(centred).run
    weight_shape = [1] * len(shape)
    weight_shape[dim] = shape[dim]
    weight = rng.uniform(0.5, 2, weight_shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    wide = x.astype(np.float64)
    mean = wide.mean(dim, keepdims=True)
    scale = 1 / np.sqrt(wide.var(dim, keepdims=True) + 1e-3)
    for form in forms(x):
        y, found_mean, found_scale = run((form, weight), dim, {"eps": 1e-3})
        assert y.dtype == dtype and y.flags.c_contiguous
        assert found_mean.shape == mean.shape
        tolerance = TOLERANCE[dtype] * (10 if shape[dim] == 1 else 4)
        np.testing.assert_allclose(found_mean.astype(float), mean, atol=tolerance)
        np.testing.assert_allclose(found_scale.astype(float), scale, rtol=tolerance)
        expected = (wide - mean) * scale * weight.astype(float)
        np.testing.assert_allclose(y.astype(float), expected, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_softmax_of_any_strides(shape, dim, dtype):
    rng = np.random.default_rng(1)
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    wide = x.astype(float)
    e = np.exp(wide - wide.max(dim, keepdims=True))
    expected = e / e.sum(dim, keepdims=True)
    for form in forms(x):
        y = lucid.softmax(lucid.from_numpy(form), dim)
        np.testing.assert_allclose(y.double().numpy(), expected, atol=TOLERANCE[dtype])
        z = lucid.log_softmax(lucid.from_numpy(form), dim)
        np.testing.assert_allclose(
            z.double().numpy(), np.log(expected), atol=10 * TOLERANCE[dtype], rtol=TOLERANCE[dtype]
        )


def test_a_place_in_the_row_is_an_element_like_others():
    run = kernel(lambda row, x, k: row.sum(P.where(row.index == k, x, 0.0))).run
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    k = np.array([[1], [19], [7]], np.int32)
    np.testing.assert_array_equal(run((x, k), 1, {})[:, 0], [1, 39, 47])
    np.testing.assert_array_equal(run((np.asfortranarray(x).T, k.T), 0, {})[0], [1, 39, 47])


@pytest.mark.parametrize("dim", [0, 1])
def test_bits_do_not_depend_on_threads_or_neighbours(dim):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((700, 600)).astype(np.float32)
    whole = lucid.softmax(lucid.tensor(x), dim).numpy()
    before = lucid.get_num_threads()
    try:
        lucid.set_num_threads(1)
        np.testing.assert_array_equal(lucid.softmax(lucid.tensor(x), dim).numpy(), whole)
    finally:
        lucid.set_num_threads(before)
    alone = np.concatenate([lucid.softmax(lucid.tensor(row), 0).numpy()[None] for row in (x if dim else x.T)[:9]])
    if dim:
        np.testing.assert_array_equal(alone, whole[:9])


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = lucid.tensor([[inf, 1.0], [-inf, 1.0], [nan, 1.0], [-inf, -inf], [1e30, -1e30]])
    expected = [[nan, nan], [0, 1], [nan, nan], [nan, nan], [1, 0]]
    np.testing.assert_array_equal(lucid.softmax(x, 1).numpy(), np.array(expected, np.float32))


def test_empty_rows_and_no_rows():
    assert lucid.softmax(lucid.zeros(0, 3), 1).shape == (0, 3)
    assert lucid.softmax(lucid.zeros(3, 0), 1).shape == (3, 0)


def test_code_for_another_processor():
    from lucid.codegen.columns import columns
    from lucid.codegen.loops import module
    from lucid.codegen.machine import Compiler
    from lucid.codegen.rows import RowPlan, rows

    plan = RowPlan.of(centred, [np.dtype(np.float32), np.dtype(np.float16)], {"eps": 1e-3})
    text = module([rows(plan, "rows", (1,)), columns(plan, "columns", (1,))])
    assert "rows:" in Compiler("aarch64-unknown-linux-gnu", "generic", "").assembly(text)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", [1, 5, 16, 64, 100, 1029])
def test_operands_with_one_number_for_a_row(length, dtype):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 1, (7, length)).astype(dtype)
    factor = rng.uniform(0.5, 1, (7, 1)).astype(dtype)
    wide = x.astype(np.float64) * factor.astype(np.float64)

    def shares(row, x, factor):
        return x * factor / row.sum(x * factor)

    run = kernel(shares).run
    for given in ((x, factor), (x.T, factor.T), (np.repeat(x, 2, 1)[:, ::2], np.broadcast_to(factor, x.shape))):
        dim = 1 if given[0].shape == x.shape else 0
        found = np.asarray(run(given, dim, {}), np.float64)
        expected = wide / wide.sum(1, keepdims=True)
        np.testing.assert_allclose(found if dim else found.T, expected, TOLERANCE[np.dtype(dtype)], 0)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", [1, 3, 8, 16, 17, 63, 64, 100, 530])
def test_rows_that_are_done_together_have_the_bits_of_rows_alone(length, dtype):
    rng = np.random.default_rng(4)
    many = rng.standard_normal((9, 75, length + 1)).astype(dtype)
    weight = rng.uniform(0.5, 2, (9, 1, length)).astype(dtype)
    run = kernel(centred).run
    for x in (many[..., 1:], many[:, ::3, :-1], np.ascontiguousarray(many[..., 1:])):
        together = run((x, weight), 2, {"eps": 1e-3})
        for i, j in ((0, 0), (3, 7), (8, x.shape[1] - 1)):
            for found, alone in zip(together, run((x[i, j], weight[i, 0]), 0, {"eps": 1e-3})):
                assert found[i, j].tobytes() == alone.tobytes()


def test_nothing_is_written_beyond_a_short_row():
    """Sums of rows lie side by side: what one writes beyond its end is another's."""
    run = kernel(lambda row, x, sums: (x - row.sum(x), sums + x)).run
    for length in (1, 5, 15, 17, 33):
        x = np.random.default_rng(5).standard_normal((130, length)).astype(np.float32)
        sums = np.zeros((3, length), np.float32)
        run((x, sums), 1, {}, totals=1)
        expected = [np.add.accumulate(x[k : k + 64])[-1] for k in (0, 64, 128)]
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_how_operands_lie_in_memory(dtype):
    rng = np.random.default_rng(0)
    x, y = [rng.standard_normal((130, 201)).astype(dtype) for _ in range(2)]
    calls = {
        "softmax": lambda x, y: lucid.softmax(x, 0),
        "log_softmax": lambda x, y: lucid.log_softmax(x, 1),
        "logsumexp": lambda x, y: lucid.logsumexp(x, 1),
        "mse_loss": lucid.nn.functional.mse_loss,
        "layer_norm": lambda x, y: lucid.nn.functional.layer_norm(x, x.shape[1:]),
        "batch_norm": lambda x, y: lucid.nn.functional.batch_norm(x, None, None, training=True),
    }
    for name, call in calls.items():
        wanted = call(lucid.from_numpy(x), lucid.from_numpy(y)).numpy()
        across = call(lucid.from_numpy(np.asfortranarray(x)), lucid.from_numpy(y)).numpy()
        np.testing.assert_array_equal(across, wanted, err_msg=name)


def test_a_few_thousand_elements_are_work_for_one_thread():
    from lucid.codegen.rows import RowPlan

    least = 60000  # what threads share at least: see launch/elementwise.pxd
    for name in ("softmax", "log_softmax", "logsumexp"):
        cost = RowPlan.of(getattr(P, name).row_body, [np.dtype(np.float32)], {}).cost
        assert 64 * 64 * cost < least < 128 * 128 * cost, name
