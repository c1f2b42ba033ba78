"""Work that threads share: the same results for any number of them, from any thread, after a fork and after errors."""

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid
from lucid import native, optim
from lucid.backends.cpu import attention as attention_kernels
from lucid.backends.cpu import blas, gemm, thread_pool
from lucid.backends.cpu.parallel import in_parts
from lucid.backends.cpu.rowwise import column_sums
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.nn import functional as F

compiled = pytest.mark.skipif(not native.in_use, reason="without compiled loops there is one thread")
ROOT = Path(native.PACKAGE).parent


@pytest.fixture(autouse=True)
def same_team_after():
    before = thread_pool.size()
    yield
    thread_pool.set_size(before)


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- products ----------------------------------------------------------------


def close(found, x, y, bias=None):
    expected = x.astype(np.float64) @ y.astype(np.float64)
    if bias is not None:
        expected += bias
    eps = np.finfo(found.dtype).eps
    scale = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64) + (0 if bias is None else np.abs(bias))
    assert found.dtype == x.dtype
    assert found.shape == expected.shape
    assert found.flags.c_contiguous
    assert (np.abs(found - expected) <= 4 * eps * (scale + 1e-30) * (1 + np.log2(1 + x.shape[1]))).all()


def laid_out(x, layout):
    """The same matrix, differently in memory."""
    if layout == "transposed":
        return np.ascontiguousarray(x.T).T
    if layout == "every other":
        wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        wide[::2, ::3] = x
        return wide[::2, ::3]
    if layout == "backwards":
        return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    return x


LAYOUTS = st.sampled_from(["in order", "transposed", "every other", "backwards"])
SIZE = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 127, 128, 130, 255, 256, 257, 300, 600]))


@settings(deadline=None, max_examples=200)
@given(SIZE, SIZE, SIZE, LAYOUTS, LAYOUTS, st.booleans(), st.sampled_from([np.float32, np.float64]), st.integers(1, 5))
def test_products_of_all_shapes(rows, depth, columns, layout_x, layout_y, has_bias, dtype, threads):
    thread_pool.set_size(threads)
    x = laid_out(numbers(rows, depth, dtype=dtype), layout_x)
    y = laid_out(numbers(depth, columns, dtype=dtype, seed=1), layout_y)
    bias = numbers(columns, dtype=dtype, seed=2) if has_bias else None
    close(gemm.product(x, y, bias, True), x, y, bias)


STACKS = st.sampled_from([(), (0,), (1,), (3,), (2, 3), (2, 1, 4)])
SMALL = st.integers(0, 90)


@settings(deadline=None, max_examples=100)
@given(STACKS, SMALL, SMALL, SMALL, st.booleans(), st.sampled_from([np.float32, np.float64]), st.integers(1, 4))
def test_products_of_stacks(stack, rows, depth, columns, turned, dtype, threads):
    thread_pool.set_size(threads)
    x, y = numbers(*stack, rows, depth, dtype=dtype), numbers(*stack, depth, columns, dtype=dtype, seed=1)
    if turned:  # in memory, the axes lie the other way round
        x, y = np.ascontiguousarray(x.T).T, np.ascontiguousarray(y.T).T
    found = gemm.product(x, y, None, True)
    assert found.shape == (*stack, rows, columns)
    for place in np.ndindex(*stack):
        close(found[place], x[place], y[place])


def test_a_matrix_for_a_whole_stack():
    x, y = numbers(6, 40, 50), numbers(50, 60)
    close(gemm.product(x, np.broadcast_to(y, (6, 50, 60)), None, True)[5], x[5], y)
    assert gemm.product(x, numbers(5, 50, 60), None, True) is None
    a, b = lucid.tensor(numbers(3, 1, 70, 64)), lucid.tensor(numbers(4, 64, 80))
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-4)


def test_the_measure_of_these_tests_can_fail():
    x, y = numbers(40, 50), numbers(50, 60)
    wrong = gemm.product(x, y, None, True)
    wrong[39, 59] += 1e-3
    with pytest.raises(AssertionError):
        close(wrong, x, y)


def test_what_is_no_product_of_two_fitting_matrices_is_left_to_others():
    x = numbers(64, 64)
    for a, b in [
        (x, x[:63]),
        (x, x.astype(np.float64)),
        (x, x[0]),
        (x[None], x),
        (x.astype(complex), x.astype(complex)),
    ]:
        assert gemm.product(a, b, None, True) is None


def test_products_of_what_is_not_finite():
    x, y = numbers(70, 80), numbers(80, 90)
    x[3, 4], x[5, 6], y[7, 8] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(gemm.product(x, y, None, True), x @ y, rtol=1e-4, atol=1e-4)


def test_errors_of_shapes_are_the_same_where_products_are_large():
    with pytest.raises(RuntimeError, match=r"linear: input \(512, 128\)"):
        F.linear(lucid.zeros(512, 128), lucid.zeros(256, 129), lucid.zeros(256))
    with pytest.raises((RuntimeError, ValueError)):
        lucid.zeros(512, 128) @ lucid.zeros(129, 256)


# --- results do not depend on the number of threads --------------------------------


def product_of_matrices():
    """Divided by panels and by rows, in one group of panels and several, and in parts of the depth; in all layouts."""
    found = []
    for rows, depth, columns in ((300, 200, 150), (100, 900, 610), (270, 410, 610)):
        x, y = numbers(rows, depth), numbers(depth, columns, seed=1)
        of_layouts = [gemm.product(a, b, None, True) for a in (x, turned(x)) for b in (y, turned(y))]
        assert all(np.array_equal(of_layouts[0], other) for other in of_layouts)
        found.append(of_layouts[0])
    return found


def turned(x):
    """The same matrix, with its columns side by side in memory."""
    return np.ascontiguousarray(x.T).T


def attention():
    q, k, v, g = (numbers(4, 8, 70, 32, seed=s) for s in range(4))
    out, p = attention_kernels.forward(q, k, v, 0.2, True)
    return [out, *attention_kernels.backward(g, q, k, v, p, 0.2, True, (True, True, True))]


def activation():
    x, g = numbers(200_000), numbers(200_000, seed=1)
    return [kernels.resolved(P.gelu)(x), kernels.resolved(P.gelu_back)(g, x), kernels.resolved(P.sum)(x, (0,), False)]


def layer_norm():
    x, g, w, b = numbers(700, 130), numbers(700, 130, seed=1), numbers(130, seed=2), numbers(130, seed=3)
    rows, params = kernels.resolved(P.row_norm), {"ndim": 1, "eps": 1e-5, "centred": True}
    y, known = rows.forward(x, w, b, **params)
    return [y, *rows.backward([g], [x, w, b], known, [True] * 3, **params), column_sums(x)]


def adam():
    p = lucid.tensor(numbers(100_003), requires_grad=True)
    p.grad = lucid.tensor(numbers(100_003, seed=1))
    optimizer = optim.AdamW([p])
    optimizer.step()
    state = optimizer.state[p]
    return [t.detach().numpy().copy() for t in (p, state["exp_avg"], state["exp_avg_sq"])]


@compiled
@pytest.mark.parametrize("work", [product_of_matrices, attention, activation, layer_norm, adam])
def test_threads_give_what_one_gives(work):
    thread_pool.set_size(1)
    expected = work()
    for count in (2, 3, 7):
        thread_pool.set_size(count)
        for _ in range(5):
            np.testing.assert_equal(work(), expected)


@compiled
def test_column_sums_of_any_shape():
    for shape in [(0, 5), (5, 0), (1, 1), (3, 7), (1000, 3), (3, 20_000), (257, 129)]:
        x = numbers(*shape)
        np.testing.assert_allclose(column_sums(x), x.astype(np.float64).sum(0), rtol=1e-5, atol=1e-3)


# --- from several threads, and in children --------------------------------------------


def test_many_threads_bring_work_at_once():
    thread_pool.set_size(3)
    works = [product_of_matrices, attention, activation, layer_norm, adam]
    expected = [work() for work in works]
    wrong = []

    def run(start):
        for i in range(20):
            which = (start + i) % len(works)
            try:
                np.testing.assert_equal(works[which](), expected[which])
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


MUCH = 1e9  # multiplications


@pytest.fixture
def two_threads():
    before = lucid.get_num_threads()
    lucid.set_num_threads(2)
    yield blas.library()
    lucid.set_num_threads(before)


@pytest.mark.parametrize("each", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_parts_are_all_there_in_order(two_threads, count, each):
    found = in_parts(lambda some: list(range(count))[some], count, MUCH, each)
    assert [k for part in found for k in part] == list(range(count))
    assert len(found) <= 2 * each
    assert two_threads is None or two_threads.threads() == 2


@pytest.mark.parametrize("bad", [0, 3])
def test_errors_in_parts_arrive_when_all_are_done(two_threads, bad):
    done = []

    def work(some):
        if some.start == bad:
            raise KeyError("bad part")
        done.append(some.start)

    with pytest.raises(KeyError, match="bad part"):
        in_parts(work, 4, MUCH, 2)
    assert len(done) < 4
    assert two_threads is None or two_threads.threads() == 2
    assert in_parts(lambda some: some.start, 2, MUCH) in ([0, 1], [0])


def output(program, **variables):
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


FORK = """
import os, warnings
warnings.simplefilter("ignore")
import numpy as np
from lucid.backends.cpu import gemm, thread_pool
thread_pool.set_size(3)
x = np.ones((500, 500), np.float32)
assert (gemm.product(x, x, None, True) == 500).all()
child = os.fork()
good = (gemm.product(x, x, None, True) == 500).all()
if child == 0:
    os._exit(0 if good else 1)
assert good and os.waitpid(child, 0)[1] == 0
print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_threads_after_a_fork():
    assert output(FORK).split() == ["both"]


COUNT = "import lucid; from lucid.backends.cpu import thread_pool; print(lucid.get_num_threads(), thread_pool.size())"


@compiled
def test_the_environment_says_how_many_threads():
    assert output(COUNT, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1").split() == ["1", "1"]


# --- settings ---------------------------------------------------------------------------


def test_number_of_threads():
    before = lucid.get_num_threads()
    try:
        lucid.set_num_threads(1)
        assert lucid.get_num_threads() == thread_pool.size() == 1
        found = blas.library()
        assert found is None or found.threads() == 1
        if found is not None:
            blas.one_thread.enter(found)
            lucid.set_num_threads(2)
            assert lucid.get_num_threads() == 2
            assert found.threads() == 1
            blas.one_thread.leave(found)
            assert found.threads() == 2
    finally:
        lucid.set_num_threads(before)
    assert lucid.get_num_threads() == before


@pytest.mark.parametrize("count", [-1, 1.0, True, "2", None])
def test_numbers_of_threads_that_are_none(count):
    before = lucid.get_num_threads()
    with pytest.raises(ValueError, match="whole number"):
        lucid.set_num_threads(count)
    assert lucid.get_num_threads() == before


def test_workers_of_loaders_have_one_thread():
    loader = lucid.data.DataLoader(range(2), num_workers=1, collate_fn=partial(_threads, lucid))
    assert list(loader) == [1, 1]


def _threads(module, _):
    return module.get_num_threads()


def test_more_threads_are_asked_for_than_the_pool_can_have():
    script = (
        "from lucid.backends.cpu import thread_pool\n"
        "done = []\n"
        "thread_pool.call_parts(done.append, 500, 300)\n"
        "assert sorted(done) == list(range(500))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
