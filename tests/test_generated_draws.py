"""Random numbers by generated loops: those of the reference, wherever a draw begins and however it is divided."""

from functools import partial

import numpy as np
import pytest

import lucid
from lucid.api import rng
from lucid.api.random import mask
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.threads import get_num_threads, set_num_threads
from lucid.core import kernels
from lucid.nn import functional as F

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

COUNTS = (0, 1, 2, 7, 8, 9, 31, 33, 255, 256, 257, 511, 513, 8191, 8193, 32769, 100003)
SEED = (1 << 63) + 12345
EXACT = {
    "words": lambda g, n, dtype: rng.words(g, n),
    "uniform": rng.uniform,
    "open_uniform": rng.open_uniform,
    "integers": lambda g, n, dtype: rng.integers(g, n, -5, 1000),
}


@pytest.fixture
def reference():
    """A function as the reference computes it."""
    before = kernels.in_use[0]

    def run(function, *args):
        kernels.use("numpy")
        try:
            return function(*args)
        finally:
            kernels.use(before)

    return run


def drawn(sample, count, dtype, offset):
    generator = lucid.Generator()
    generator.set_state((SEED, offset))
    found = sample(generator, count, np.dtype(dtype))
    return found, generator.get_state()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", EXACT)
def test_bits_are_those_of_the_reference(name, dtype, reference):
    for count in COUNTS:
        for offset in (0, 7, (1 << 62) + 1):
            found, wanted = (run(drawn, EXACT[name], count, dtype, offset) for run in (lambda f, *a: f(*a), reference))
            assert found[1] == wanted[1] and found[0].dtype == wanted[0].dtype
            np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize(("dtype", "ulps"), [("f4", 8), ("f8", 12)])
def test_normal_numbers_are_those_of_the_reference_but_for_rounding(dtype, ulps, reference):
    for count in COUNTS:
        found, wanted = drawn(rng.normal, count, dtype, 3), reference(drawn, rng.normal, count, dtype, 3)
        assert found[1] == wanted[1]
        np.testing.assert_array_max_ulp(found[0], wanted[0], ulps)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("source", [rng.UNIFORM, rng.NORMAL])
def test_draws_of_any_shape_are_samples(source, dtype):
    for shape in ((), (0, 3), (1,), (7, 9), (2, 3, 5), (100, 101)):
        for offset in (0, 7, (1 << 62) + 1):
            found, wanted = (
                drawn(sample, count, dtype, offset)
                for sample, count in ((partial(rng.numbers_from, source), shape), (source.sample, int(np.prod(shape))))
            )
            assert found[1] == wanted[1] and found[0].shape == shape
            np.testing.assert_array_equal(found[0].reshape(-1), wanted[0])


def test_normal_numbers_are_normal():
    stats = pytest.importorskip("scipy.stats")
    for dtype in (lucid.float32, lucid.float64):
        x = lucid.randn(200_000, dtype=dtype, generator=lucid.Generator().manual_seed(1)).numpy()
        assert stats.kstest(x, "norm").pvalue > 1e-3 and np.isfinite(x).all()


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64, lucid.complex64])
def test_masks_and_narrow_numbers(dtype, reference):
    def made():
        lucid.manual_seed(5)
        return [t.to(lucid.complex128).numpy() for t in (mask((100, 33), 0.3, dtype, 4.0), lucid.rand(77, dtype=dtype))]

    for found, wanted in zip(made(), reference(made), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_extreme_chances():
    lucid.manual_seed(0)
    assert mask((1000,), 0.0, lucid.float32).min() == 1 and mask((1000,), 1.0, lucid.float32).sum() == 0


def test_draws_do_not_depend_on_threads_or_on_how_they_are_divided():
    before = get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            lucid.manual_seed(3)
            drawn = lucid.randn(300, 1001), lucid.rand(70_001), mask((99, 999), 0.5, "float32")
            found.append([t.numpy() for t in (*drawn, lucid.randint(-5, 1000, (70_001,)))])
    finally:
        set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    whole = lucid.randn(64 * 8, generator=lucid.Generator().manual_seed(9))
    generator = lucid.Generator().manual_seed(9)
    parts = [lucid.randn(8 * n, generator=generator) for n in (1, 20, 43)]
    np.testing.assert_array_equal(lucid.cat(parts).numpy(), whole.numpy())


def test_the_gradient_of_dropout_is_its_mask():
    lucid.manual_seed(2)
    x = lucid.full((200, 300), 2.0, requires_grad=True)
    out = F.dropout(x, 0.25)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy() * 2, out.detach().numpy())
    assert set(np.unique(x.grad.numpy())) == {np.float32(0), np.float32(1 / 0.75)}


@pytest.mark.parametrize(
    "target", [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64-v3")]
)
def test_code_for_other_processors(target):
    from lucid.codegen.draws import MAKERS, Draw, stream
    from lucid.codegen.loops import module
    from lucid.codegen.machine import Compiler

    compiler = Compiler(*target, "")
    for name in MAKERS:
        dtype = np.dtype({"words": np.uint64, "integers": np.int64}.get(name, np.float32))
        text = module([stream(Draw(name, dtype, 8 * dtype.itemsize, 24), "stream")])
        assert "stream:" in compiler.assembly(text)
