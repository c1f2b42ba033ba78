"""Products of matrices of integers and of half precision, which are computed in floating-point types that have them exactly."""

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.contraction import _exact_type

SPECS = {
    "ij,jk->ik": ((70, 80), (80, 90)),
    "ij,kj->ik": ((70, 80), (90, 80)),
    "bij,bjk->bik": ((4, 70, 80), (4, 80, 9)),
    "ij,j->i": ((70, 80), (80,)),
    "ij,ij->i": ((100, 80), (100, 80)),
    "ij,ij->": ((100, 80), (100, 80)),
    "i,i->": ((5000,), (5000,)),
    "ia,aj->ij": ((80, 0), (0, 90)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("spec", SPECS)
def test_products_of_integers_are_exact_and_wrap_around(spec, dtype):
    rng = np.random.default_rng(0)
    for most in (5, 100, 10**9, 2**62):
        end = min(most, np.iinfo(dtype).max)
        start = -end if dtype[0] == "i" else 0
        x, y = [rng.integers(start, end, shape, dtype=dtype, endpoint=True) for shape in SPECS[spec]]
        found = lucid.einsum(spec, lucid.tensor(x), lucid.tensor(y)).numpy()
        wanted = np.einsum(spec, x, y)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_the_type_in_which_sums_of_products_have_no_error():
    def found(dtype, most, count):
        x = np.array([0, most, -1 if dtype[0] == "i" else 0], dtype)
        return _exact_type(x, x, count)

    assert found("int8", 1, 1024) == np.float32
    assert found("int8", 1, 1025) == np.float32  # the type alone does not say so, but the elements do
    assert found("int8", 127, 2000) == np.float64
    assert found("int64", 2**26, 2) == np.float64
    assert found("int64", 2**26, 3) is None
    assert found("uint64", 2**63, 1) is None
    least = np.array([np.iinfo(np.int64).min])
    assert _exact_type(least, least, 1) is None


def test_half_precision_is_multiplied_in_single_and_rounded_once():
    rng = np.random.default_rng(1)
    for kind in (lucid.float16, lucid.bfloat16):
        for spec, shapes in SPECS.items():
            x, y = [lucid.tensor(rng.standard_normal(s)).to(kind) for s in shapes]
            wanted = lucid.einsum(spec, x.float(), y.float()).to(kind)
            assert lucid.equal(lucid.einsum(spec, x, y), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left, right", [("ij", "jk"), ("ij", "j"), ("j", "jk"), ("j", "j"), ("bij", "bjk")])
def test_small_products_have_the_bits_of_numpy(left, right, dtype):
    rng = np.random.default_rng(0)
    layouts = [lambda a: a, lambda a: np.ascontiguousarray(a.swapaxes(0, -1)).swapaxes(0, -1), lambda a: a[::-1]]
    multiply = np.matmul if "b" in left else np.dot
    for high, deep, wide in ((2, 2, 2), (1, 5, 3), (3, 1, 2), (16, 16, 16), (7, 19, 33), (40, 3, 0)):
        sizes = {"b": 3, "i": high, "j": deep, "k": wide}
        shapes = [tuple(sizes[c] for c in labels) for labels in (left, right)]
        for lie_left, lie_right in [(a, b) for a in layouts for b in layouts]:
            x, y = [lie(rng.normal(size=s).astype(dtype)) for s, lie in zip(shapes, (lie_left, lie_right), strict=True)]
            wanted = np.asarray(multiply(x, y))
            assert np.array_equal(lucid.matmul(lucid.from_numpy(x), lucid.from_numpy(y)).numpy(), wanted)
            for out in (lucid.empty(wanted.shape, dtype=dtype), lucid.empty(wanted.shape[::-1], dtype=dtype).T):
                if out.shape == wanted.shape:
                    assert lucid.matmul(lucid.from_numpy(x), lucid.from_numpy(y), out=out) is out
                    assert np.array_equal(out.numpy(), wanted)
    zeros = lucid.full((5,), -0.0, dtype=dtype)
    assert not np.signbit(lucid.dot(zeros, lucid.ones(5, dtype=dtype)).numpy())


def test_a_product_is_not_written_over_its_factors():
    x, y = lucid.rand(8, 8), lucid.rand(8, 8)
    wanted = (x @ y).numpy()
    for out in (x, y):
        first, second = x.clone(), y.clone()
        target = first if out is x else second
        assert lucid.mm(first, second, out=target) is target
        assert np.array_equal(target.numpy(), wanted)


@pytest.mark.parametrize("shape", [(1200, 3), (900, 40), (3, 400, 20), (40, 900)])
def test_products_of_a_matrix_and_its_transpose(shape):
    """NumPy is not to take half of them; views that begin where the matrix does are other matrices."""
    x = np.random.default_rng(0).standard_normal(shape)
    t = lucid.from_numpy(x)
    np.testing.assert_allclose((t @ t.mT).numpy(), x @ np.swapaxes(x.copy(), -1, -2), 1e-10, 1e-10)
    np.testing.assert_allclose((t.mT @ t).numpy(), np.swapaxes(x.copy(), -1, -2) @ x, 1e-10, 1e-10)
    part = t[..., : shape[-2] // 2, :]
    np.testing.assert_allclose((t @ part.mT).numpy(), x @ np.swapaxes(part.numpy().copy(), -1, -2), 1e-10, 1e-10)
