"""numpy.linalg on tensors: NumPy's values, named tuples and errors, with lucid's derivatives."""

import subprocess
import sys

import numpy as np
import pytest

import lucid
from lucid import func
from lucid.interop.numpy_linalg import LINALG

rng = np.random.default_rng(7)
SQUARE = rng.normal(size=(3, 3)) + 3 * np.eye(3)
SYMMETRIC = SQUARE + SQUARE.T
POSITIVE = SQUARE @ SQUARE.T
STACK = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = rng.normal(size=(2, 4, 3))
COMPLEX = SQUARE + 1j * rng.normal(size=(3, 3))
DEFICIENT = np.outer([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
TURNING = np.array([[0.0, -4.0], [1.0, 0.0]])
VECTOR = rng.normal(size=3)

CALLS = {
    "svd": (np.linalg.svd, TALL),
    "svd-reduced": (lambda a: np.linalg.svd(a, full_matrices=False), TALL),
    "svd-values": (lambda a: np.linalg.svd(a, compute_uv=False), TALL),
    "svd-hermitian": (lambda a: np.linalg.svd(a, hermitian=True), SYMMETRIC - 4 * np.eye(3)),
    "svd-hermitian-values": (lambda a: np.linalg.svd(a, compute_uv=False, hermitian=True), SYMMETRIC - 4 * np.eye(3)),
    "svdvals": (lambda a: np.linalg.svdvals(a), TALL),
    "qr": (np.linalg.qr, TALL),
    "qr-complete": (lambda a: np.linalg.qr(a, "complete"), TALL),
    "qr-r": (lambda a: np.linalg.qr(a, mode="r"), TALL),
    "qr-raw": (lambda a: np.linalg.qr(a, mode="raw"), TALL),
    "eig-real": (np.linalg.eig, POSITIVE),
    "eig-turning": (np.linalg.eig, TURNING),
    "eig-complex": (np.linalg.eig, COMPLEX),
    "eigvals-real": (np.linalg.eigvals, POSITIVE),
    "eigvals-turning": (np.linalg.eigvals, TURNING),
    "eigh": (np.linalg.eigh, SYMMETRIC),
    "eigh-upper": (lambda a: np.linalg.eigh(a, UPLO="U"), SQUARE),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(a, "U"), SQUARE),
    "inv": (np.linalg.inv, STACK),
    "det": (np.linalg.det, STACK),
    "slogdet": (np.linalg.slogdet, STACK),
    "slogdet-complex": (np.linalg.slogdet, COMPLEX),
    "cholesky": (np.linalg.cholesky, POSITIVE),
    "cholesky-upper": (lambda a: np.linalg.cholesky(a, upper=True), POSITIVE),
    "pinv": (np.linalg.pinv, TALL),
    "pinv-deficient": (lambda a: np.linalg.pinv(a, rcond=1e-10), DEFICIENT),
    "pinv-each": (lambda a: np.linalg.pinv(a, rcond=np.array([0.5, 1e-10])), TALL),
    "pinv-hermitian": (lambda a: np.linalg.pinv(a, hermitian=True), SYMMETRIC),
    "pinv-rtol": (lambda a: np.linalg.pinv(a, rtol=0.5), TALL),
    "matrix_rank": (np.linalg.matrix_rank, DEFICIENT),
    "matrix_rank-tol": (lambda a: np.linalg.matrix_rank(a, tol=1.5), TALL),
    "matrix_rank-vector": (np.linalg.matrix_rank, VECTOR),
    "matrix_power": (lambda a: np.linalg.matrix_power(a, 3), STACK),
    "matrix_power-negative": (lambda a: np.linalg.matrix_power(a, -2), STACK),
    "matrix_power-0": (lambda a: np.linalg.matrix_power(a, 0), STACK),
    "cond": (np.linalg.cond, TALL),
    "cond-1": (lambda a: np.linalg.cond(a, 1), STACK),
    "cond-fro": (lambda a: np.linalg.cond(a, "fro"), STACK),
    "norm-nuc": (lambda a: np.linalg.norm(a, "nuc"), SQUARE),
    "norm-2": (lambda a: np.linalg.norm(a, 2), SQUARE),
    "norm--2-axes": (lambda a: np.linalg.norm(a, -2, axis=(0, 1), keepdims=True), TALL),
    "norm-1-axes": (lambda a: np.linalg.norm(a, 1, axis=(2, 0)), TALL),
    "norm-axis": (lambda a: np.linalg.norm(a, axis=-1), TALL),
    "norm-3": (lambda a: np.linalg.norm(a, 3, 1), TALL),
    "norm-all": (np.linalg.norm, TALL),
    "norm-axes": (lambda a: np.linalg.norm(a, axis=(0, 2)), TALL),
    "matrix_norm": (lambda a: np.linalg.matrix_norm(a, ord="nuc", keepdims=True), TALL),
    "vector_norm": (lambda a: np.linalg.vector_norm(a, axis=(0, 2), ord=3), TALL),
    "vector_norm-all": (np.linalg.vector_norm, TALL),
    "matrix_transpose": (np.linalg.matrix_transpose, TALL),
    "diagonal": (lambda a: np.linalg.diagonal(a, offset=-1), TALL),
    "trace": (lambda a: np.linalg.trace(a, offset=1), STACK),
    "solve-vector": (lambda a: np.linalg.solve(a, np.arange(3.0)), STACK),
    "solve-matrix": (lambda a: np.linalg.solve(STACK, a), SQUARE),
    "solve-as-matrix": (lambda a: np.linalg.solve(np.stack([SQUARE] * 3), a), SQUARE),
    "tensorinv": (lambda a: np.linalg.tensorinv(a.reshape(3, 3, 1), ind=1), SQUARE),
    "tensorsolve": (lambda a: np.linalg.tensorsolve(a.reshape(3, 1, 3), np.arange(3.0).reshape(3, 1)), SQUARE),
    "tensorsolve-axes": (lambda a: np.linalg.tensorsolve(a.reshape(1, 3, 3), np.arange(3.0), axes=(0, 2)), SQUARE),
    "multi_dot": (lambda a: np.linalg.multi_dot([a, SQUARE, a, VECTOR]), SQUARE),
    "cross": (lambda a: np.linalg.cross(a, VECTOR), SQUARE),
    "cross-axis": (lambda a: np.linalg.cross(a, a * a, axis=0), SQUARE),
    "outer": (lambda a: np.linalg.outer(a, [1, 2]), VECTOR),
    "vecdot": (lambda a: np.linalg.vecdot(a, VECTOR), COMPLEX),
    "vecdot-axis": (lambda a: np.linalg.vecdot(a, a[:1] * 1j, axis=-2), SQUARE.reshape(1, 3, 3)),
    "tensordot": (lambda a: np.linalg.tensordot(a, SQUARE, axes=1), TALL),
    "matmul": (lambda a: np.linalg.matmul(a, VECTOR), TALL),
    "lstsq": (lambda a: np.linalg.lstsq(a, np.arange(4.0)), TALL[0]),
    "lstsq-deficient": (lambda a: np.linalg.lstsq(a, np.ones((3, 2)), rcond=1e-10), DEFICIENT),
    "lstsq-precise": (lambda a: np.linalg.lstsq(a, np.ones(3), rcond=-1), SQUARE),
}  # fmt: skip


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", CALLS)
def test_values_types_and_names(name):
    call, a = CALLS[name]
    got, want = call(lucid.tensor(a)), call(a)
    assert type(got) is type(want) if hasattr(want, "_fields") else isinstance(got, tuple) == isinstance(want, tuple)
    for g, w in zip(parts(got), parts(want), strict=True):
        w = np.asarray(w)
        assert isinstance(g, lucid.Tensor) and g.shape == w.shape
        assert g.np_dtype == w.dtype or w.dtype.kind in "iu"
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in CALLS if "rank" not in n and n != "matrix_power-0"])
def test_derivatives(name):
    """Against central differences of NumPy's own function, of a loss that signs and phases do not enter."""
    call, a = CALLS[name]

    def loss(result):
        return sum((abs(r) ** 2).sum() for r in parts(result) if np.asarray(r).dtype.kind in "fc" and np.size(r))

    x = lucid.tensor(a, requires_grad=True)
    result = call(x)
    live = [r for r in parts(result) if r.requires_grad]
    got = lucid.autograd.grad(sum((r.abs() ** 2).sum() for r in live), x)
    direction = rng.normal(size=a.shape)
    if "eigh" in name or "hermitian" in name or "eigvalsh" in name or "cholesky" in name:
        direction = direction + np.swapaxes(direction, -1, -2)
    if "deficient" in name:
        direction = DEFICIENT @ direction  # keeps the rank
    step = 1e-6
    kept = [k for k, r in enumerate(parts(result)) if r.requires_grad]

    def of(array):
        found = parts(call(array))
        return loss(tuple(found[k] for k in kept))

    want = (of(a + step * direction) - of(a - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(np.conj(np.asarray(got)) * direction).real, want, rtol=1e-5, atol=1e-5)


def test_every_function_of_numpy_linalg_is_known():
    assert {getattr(np.linalg, n) for n in np.linalg.__all__ if n != "LinAlgError"} == set(LINALG)


def test_integers_and_mixed_types():
    whole = lucid.tensor([[2, 1], [1, 3]])
    assert np.linalg.matrix_power(whole, 2).dtype == lucid.int64
    assert np.linalg.inv(whole).dtype == lucid.float32
    assert np.linalg.solve(whole, np.array([1.0, 2.0])).dtype == lucid.float64
    assert np.linalg.multi_dot([whole, np.ones((2, 2)), whole]).dtype == lucid.float64
    np.testing.assert_allclose(np.linalg.det(whole), 5.0)


def test_errors_are_those_of_numpy():
    singular = lucid.zeros(2, 2)
    for call in (np.linalg.inv, lambda a: np.linalg.solve(a, np.ones(2)), np.linalg.cholesky):
        with pytest.raises(np.linalg.LinAlgError):
            call(singular)
    with pytest.raises(np.linalg.LinAlgError, match="lstsq"):
        np.linalg.lstsq(lucid.ones(2, 2, 2), np.ones(2))
    with pytest.raises(ValueError, match="3 elements"):
        np.linalg.cross(lucid.ones(2), lucid.ones(2))
    with pytest.raises(ValueError, match="an order needs"):
        np.linalg.norm(lucid.ones(2, 2, 2), 2)


def test_inside_transforms():
    stack = lucid.tensor(STACK)
    np.testing.assert_allclose(func.vmap(np.linalg.inv)(stack), np.linalg.inv(STACK))
    np.testing.assert_allclose(
        func.vmap(lambda a: np.linalg.svd(a, hermitian=True).S)(stack + stack.mT),
        np.linalg.svd(STACK + STACK.swapaxes(-1, -2)).S,
    )
    # Whether all eigenvalues are real is not known in a batch.
    assert func.vmap(np.linalg.eigvals)(stack).is_complex()
    hessian = func.hessian(lambda a: np.linalg.slogdet(a).logabsdet)(lucid.tensor(POSITIVE))
    inverse = np.linalg.inv(POSITIVE)
    np.testing.assert_allclose(hessian, -np.einsum("jk,li->ijkl", inverse, inverse), rtol=1e-9, atol=1e-12)


def test_out():
    target = lucid.zeros(3, 3, dtype=lucid.float64)
    assert np.linalg.multi_dot([lucid.tensor(SQUARE), SQUARE], out=target) is target
    np.testing.assert_allclose(target, SQUARE @ SQUARE)


def test_importing_lucid_does_not_import_scipy():
    code = "import sys, lucid; assert 'scipy' not in sys.modules and 'lucid.linalg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
