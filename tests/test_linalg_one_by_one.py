"""Matrices that LAPACK gets one by one, alone or large, against those of stacks and the factors' definitions."""

import numpy as np
import pytest

import lucid
from lucid import linalg
from lucid.backends.numpy.linalg import routines

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
SMALL, LARGE = 5, routines.LARGE + 3


def numbers(dtype, *shape):
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0)
    return x.astype(dtype)


def layouts(x):
    """A stack of one, the matrix alone, by columns, every second column of a wider one, and backwards."""
    yield lucid.tensor(x[None])[0]
    yield lucid.from_numpy(np.asfortranarray(x))
    yield lucid.from_numpy(np.repeat(x, 2, -1)[..., ::2])
    yield lucid.from_numpy(np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1])


def near(got, want, dtype, n=SMALL):
    want = np.asarray(want)
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=scale * n * 30 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(SMALL, SMALL), (7, 4), (4, 7), (LARGE, LARGE), (LARGE + 9, LARGE), (LARGE, 3)])
def test_singular_values(shape, dtype):
    x = numbers(dtype, *shape)
    want = np.linalg.svd(x.astype(np.result_type(dtype, np.float64)), compute_uv=False)
    first = None
    for t in layouts(x):
        values = linalg.svdvals(t)
        near(values, want, dtype, max(shape))
        assert values.numpy().dtype == values.dtype.numpy == np.finfo(dtype).dtype
        first = values if first is None else first
        np.testing.assert_array_equal(values, first)
        for full in (False, True):
            u, s, v = linalg.svd(t, full_matrices=full)
            k = min(shape)
            near((u[:, :k] * s) @ v[:k], x, dtype, max(shape))
            near(u.mH @ u, np.eye(u.shape[1]), dtype, max(shape))
            near(v @ v.mH, np.eye(v.shape[0]), dtype, max(shape))
            assert u.numpy().dtype == dtype


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, SMALL, LARGE])
def test_hermitian_eigenvalues(n, dtype, uplo):
    x = numbers(dtype, n, n)
    x = x + x.conj().T
    want = np.linalg.eigvalsh(x.astype(np.result_type(dtype, np.float64)))
    read = np.where(np.tri(n).T > 0 if uplo == "U" else np.tri(n) > 0, x, np.nan)
    for t in layouts(read.astype(dtype)):
        w, v = linalg.eigh(t, UPLO=uplo)
        near(w, want, dtype, n)
        near(linalg.eigvalsh(t, UPLO=uplo), want, dtype, n)
        near(x @ v.numpy(), v.numpy() * w.numpy(), dtype, n)
        near(v.mH @ v, np.eye(n), dtype, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, SMALL, LARGE])
def test_other_eigenvalues(n, dtype):
    x = numbers(dtype, n, n)
    w, v = linalg.eig(lucid.tensor(x))
    near(x @ v.numpy(), v.numpy() * w.numpy(), dtype, n)
    near(np.linalg.norm(v.numpy(), axis=0), np.ones(n), dtype, n)
    near(np.sort_complex(linalg.eigvals(lucid.tensor(x)).numpy()), np.sort_complex(w.numpy()), dtype, 10 * n)
    assert w.numpy().dtype == v.numpy().dtype == np.result_type(dtype, np.complex64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(SMALL, SMALL), (7, 4), (4, 7), (1, 1), (LARGE + 9, LARGE), (LARGE, 3)])
def test_qr(shape, dtype):
    x = numbers(dtype, *shape)
    for t in layouts(x):
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(t, mode)
            near(q @ r, x, dtype, max(shape))
            near(q.mH @ q, np.eye(q.shape[1]), dtype, max(shape))
            np.testing.assert_array_equal(r, np.triu(r.numpy()))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, SMALL, LARGE])
def test_cholesky(n, dtype, upper):
    x = numbers(dtype, n, n)
    x = x @ x.conj().T + n * np.eye(n, dtype=dtype)
    read = np.where(np.tri(n).T > 0 if upper else np.tri(n) > 0, x, np.nan).astype(dtype)
    for t in layouts(read):
        factor = linalg.cholesky(t, upper=upper)
        near(factor.mH @ factor if upper else factor @ factor.mH, x, dtype, n)
        np.testing.assert_array_equal(factor, (np.triu if upper else np.tril)(factor.numpy()))


@pytest.mark.parametrize("n", [1, SMALL, LARGE])
@pytest.mark.parametrize("where", ["diagonal", "below"])
def test_cholesky_of_nan_and_indefinite_matrices(n, where):
    x = np.eye(n)
    at = (n // 2, n // 2) if where == "diagonal" else (n - 1, n // 2)
    x[at] = np.nan
    assert linalg.cholesky_ex(lucid.tensor(x)).info.item() == at[0] + 1
    x[at] = -3
    stack = lucid.tensor(np.stack([np.eye(n), x]))
    if where == "diagonal" or n > 1:
        assert linalg.cholesky_ex(lucid.tensor(x)).info.item() == at[0] + 1
        assert linalg.cholesky_ex(stack).info.tolist() == [0, at[0] + 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, SMALL, LARGE])
def test_equations(n, dtype):
    x, y = numbers(dtype, n, n) + n * np.eye(n, dtype=dtype), numbers(dtype, n, 3)
    for t in layouts(x):
        near(x @ linalg.solve(t, lucid.tensor(y)).numpy(), y, dtype, n)
        near(x @ linalg.solve(t, lucid.tensor(y[:, 0])).numpy(), y[:, 0], dtype, n)
        near(linalg.solve(t, lucid.tensor(y.T), left=False).numpy() @ x, y.T, dtype, n)
        solved = linalg.solve_triangular(t, lucid.tensor(y), upper=True)
        near(np.triu(x) @ solved.numpy(), y, dtype, n)
        assert solved.numpy().dtype == dtype
        near(linalg.solve_triangular(t, lucid.tensor(y.T), upper=False, left=False).numpy() @ np.tril(x), y.T, dtype, n)
    assert linalg.solve(lucid.tensor(x), lucid.zeros(n, 0, dtype=solved.dtype)).shape == (n, 0)
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.solve(lucid.tensor(x * 0), lucid.tensor(y))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (LARGE + 9, LARGE)])
def test_least_squares(shape, dtype, driver):
    x, y = numbers(dtype, *shape), numbers(dtype, shape[0], 2)
    want = np.linalg.pinv(x.astype(np.result_type(dtype, np.float64))) @ y
    got = linalg.lstsq(lucid.tensor(x), lucid.tensor(y), driver=driver).solution
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=np.abs(want).max() * 1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_determinants(n, dtype):
    x = numbers(dtype, n, n) / np.sqrt(n).astype(np.finfo(dtype).dtype)
    sign, size = np.linalg.slogdet(x.astype(np.result_type(dtype, np.float64)))
    for t in layouts(x):
        got = linalg.slogdet(t)
        near(got.sign, sign, dtype, 10 * n)
        near(got.logabsdet, size, dtype, 10 * n)
        near(linalg.det(t), sign * np.exp(size), dtype, 10 * n)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals"])
def test_iterations_that_do_not_converge(name, monkeypatch):
    from lucid.backends.numpy.linalg import eigen

    own = eigen.routine

    def failing(*args):
        function = own(*args)

        def call(*arrays, **options):
            return (*function(*arrays, **options)[:-1], 1)

        call.dtype = function.dtype
        return call

    monkeypatch.setattr(eigen, "routine", failing)
    with pytest.raises(linalg.LinAlgError, match=rf"linalg\.{name}: .* did not converge"):
        getattr(linalg, name)(lucid.eye(3))
