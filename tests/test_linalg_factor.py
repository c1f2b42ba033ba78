"""Factorizations, eigenvalues and singular values beyond the table: errors, degenerate matrices, conventions."""

# ruff: noqa: N806 -- matrices have the names that PyTorch gives them

import numpy as np
import pytest
from samples import Make
from samples_linalg_factor import LDL

import lucid
from lucid import autograd, func, linalg

RNG = np.random.default_rng(7)
SQUARE_ONLY = "cholesky cholesky_ex eig eigh eigvals eigvalsh ldl_factor ldl_factor_ex".split()
ALL = [*SQUARE_ONLY, *"lu lu_factor lu_factor_ex qr svd svdvals".split()]
ITERATIONS = "eig eigh eigvals eigvalsh svd svdvals".split()


def random(*shape, complex=False):
    values = RNG.standard_normal(shape)
    return lucid.tensor(values + 1j * RNG.standard_normal(shape) if complex else values)


def positive(n=3, **how):
    x = random(n, n, **how)
    return x @ x.mH + lucid.eye(n, dtype=x.dtype)


# --- operands and errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [lucid.int64, lucid.float16, lucid.bfloat16, lucid.bool])
def test_other_types_are_refused(name, dtype):
    with pytest.raises(RuntimeError, match=rf"linalg\.{name}: expected A of type float32.*not.*{dtype.name}"):
        getattr(linalg, name)(lucid.eye(3).to(dtype))


@pytest.mark.parametrize("name", ALL)
def test_vectors_are_refused(name):
    with pytest.raises(RuntimeError, match=rf"linalg\.{name}: A must have at least 2 dimensions, not shape \(3,\)"):
        getattr(linalg, name)(lucid.ones(3))


@pytest.mark.parametrize("name", SQUARE_ONLY)
def test_rectangles_are_refused(name):
    with pytest.raises(RuntimeError, match=rf"linalg\.{name}: .* its matrices are 2 by 3"):
        getattr(linalg, name)(lucid.ones(4, 2, 3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ITERATIONS)
def test_iterations_refuse_what_is_not_finite(name, value):
    x = np.stack([np.eye(3)] * 4).reshape(2, 2, 3, 3)
    x[1, 0, 2, 1] = value
    with pytest.raises(linalg.LinAlgError, match=r"\(batch element 2\) the matrix contains inf or nan"):
        getattr(linalg, name)(lucid.tensor(x))
    with pytest.raises(linalg.LinAlgError, match=r": the matrix contains inf or nan"):
        getattr(linalg, name)(lucid.tensor(x[1, 0]))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_precision_is_kept(name, dtype):
    results = getattr(linalg, name)(positive().to(dtype))
    for part in [results] if isinstance(results, lucid.Tensor) else results:
        if part.dtype != lucid.int32:
            assert lucid.finfo(part.dtype).bits == lucid.finfo(getattr(lucid, dtype)).bits


NAMED = {
    "cholesky_ex": ("L", "info"),
    "eig": ("eigenvalues", "eigenvectors"),
    "eigh": ("eigenvalues", "eigenvectors"),
    "ldl_factor": ("LD", "pivots"),
    "ldl_factor_ex": ("LD", "pivots", "info"),
    "lu": ("P", "L", "U"),
    "lu_factor": ("LU", "pivots"),
    "lu_factor_ex": ("LU", "pivots", "info"),
    "qr": ("Q", "R"),
    "svd": ("U", "S", "Vh"),
}


@pytest.mark.parametrize("name", NAMED)
def test_results_have_names_and_can_be_written_into_tensors(name):
    x = positive()
    results = getattr(linalg, name)(x)
    assert results._fields == NAMED[name]
    targets = tuple(lucid.empty(0, dtype=r.dtype) for r in results)
    written = getattr(linalg, name)(x, out=targets)
    assert all(w is t for w, t in zip(written, targets, strict=True))
    for t, r in zip(targets, results, strict=True):
        np.testing.assert_array_equal(t.numpy(), r.numpy())


# --- Cholesky ----------------------------------------------------------------------------------------


def indefinite(order):
    """A matrix whose leading minors are positive up to this order."""
    return np.diag([1.0 if i + 1 < order else -1.0 for i in range(3)])


def test_error_names_the_matrix_and_the_minor():
    assert issubclass(linalg.LinAlgError, RuntimeError)
    stack = lucid.tensor(np.stack([np.eye(3), np.eye(3), indefinite(2)]))
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.cholesky: \(batch element 2\) .* minor of order 2 "):
        linalg.cholesky(stack)
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.cholesky: the matrix .* minor of order 3 "):
        linalg.cholesky(lucid.tensor(indefinite(3)))
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.cholesky_ex: .* minor of order 1 "):
        linalg.cholesky_ex(lucid.tensor(indefinite(1)), check_errors=True)
    with pytest.raises(linalg.LinAlgError, match="not positive-definite"):
        linalg.cholesky(lucid.tensor([[np.nan]]))
    with pytest.raises(linalg.LinAlgError, match="not positive-definite"):
        func.vmap(linalg.cholesky)(stack)


def test_cholesky_ex_reports_instead():
    good = positive().numpy()
    L, info = linalg.cholesky_ex(lucid.tensor(np.stack([good, indefinite(2), indefinite(3)])))
    assert info.tolist() == [0, 2, 3]
    np.testing.assert_allclose(L[0].numpy(), np.linalg.cholesky(good))


@pytest.mark.parametrize("upper", [False, True])
def test_one_triangle_is_read(upper):
    x = positive(complex=True)
    half = x.triu() if upper else x.tril()
    np.testing.assert_allclose(linalg.cholesky(half, upper=upper).numpy(), linalg.cholesky(x, upper=upper).numpy())


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_gradient_of_cholesky_is_hermitian(upper, is_complex):
    x = positive(complex=is_complex).requires_grad_()
    weights = random(3, 3, complex=is_complex)
    (g,) = autograd.grad((linalg.cholesky(x, upper=upper) * weights).sum().real, [x])
    np.testing.assert_allclose(g.numpy(), g.mH.numpy(), atol=1e-14)


def test_log_determinant_has_the_known_derivatives():
    x = positive()

    def logdet(a):
        return 2 * linalg.cholesky(a).diagonal().log().sum()

    inverse = np.linalg.inv(x.numpy())
    np.testing.assert_allclose(func.grad(logdet)(x).numpy(), inverse, atol=1e-12)
    direction = random(3, 3)
    direction = direction + direction.mT
    _, change = func.jvp(func.grad(logdet), (x,), (direction,))
    np.testing.assert_allclose(change.numpy(), -inverse @ direction.numpy() @ inverse, atol=1e-10)


def test_factors_must_fit():
    with pytest.raises(RuntimeError, match=r"cholesky_solve: a factor of shape \(2, 2\) does not fit"):
        linalg.cholesky_solve(lucid.ones(3, 1), lucid.eye(2))
    with pytest.raises(RuntimeError, match="cholesky_solve: the operands are of"):
        linalg.cholesky_solve(lucid.ones(2, 1), lucid.eye(2, dtype=lucid.float64))
    with pytest.raises(RuntimeError, match="cholesky_solve: the stacks of shapes"):
        linalg.cholesky_solve(lucid.ones(2, 2, 1), lucid.ones(3, 2, 2))


# --- triangles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [(), (9,)])
def test_zero_on_the_diagonal_gives_infinities(stack):
    a = lucid.zeros(*stack, 2, 2)
    with np.errstate(all="ignore"):
        found = linalg.solve_triangular(a, lucid.ones(*stack, 2, 1), upper=True)
    assert not np.isfinite(found.numpy()).any()
    assert linalg.solve_triangular(a, lucid.ones(*stack, 2, 1), upper=True, unitriangular=True).tolist() == (
        lucid.ones(*stack, 2, 1).tolist()
    )


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_high_stacks_are_solved_as_single_matrices_are(upper, unit, is_complex):
    a, b = random(11, 3, 3, complex=is_complex), random(3, 2, complex=is_complex)
    found = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
    for i in range(11):
        one = linalg.solve_triangular(a[i], b, upper=upper, unitriangular=unit)
        np.testing.assert_allclose(found[i].numpy(), one.numpy(), rtol=1e-9)


def test_the_other_triangle_is_not_read():
    a = np.tril(RNG.standard_normal((3, 3))) + 3 * np.eye(3)
    spoiled = lucid.tensor(np.where(np.tri(3) > 0, a, np.nan)).requires_grad_()
    x = linalg.solve_triangular(spoiled, lucid.tensor(np.ones((3, 1))), upper=False)
    np.testing.assert_allclose(a @ x.numpy(), np.ones((3, 1)))
    (g,) = autograd.grad(x.sum(), [spoiled])
    assert np.isfinite(g.numpy()).all() and not np.triu(g.numpy(), 1).any()


def test_triangular_equations_must_fit():
    for a, b, how in [
        ((2, 3), (3, 1), {}),
        ((3, 3), (2, 1), {}),
        ((3, 3), (3, 1), {"left": False}),
        ((3, 3), (3,), {}),
    ]:
        with pytest.raises(RuntimeError, match=r"linalg\.solve_triangular: "):
            linalg.solve_triangular(lucid.ones(*a), lucid.ones(*b), upper=True, **how)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        linalg.solve_triangular(lucid.ones(2, 3, 3), lucid.ones(4, 3, 1), upper=True)


# --- LU ----------------------------------------------------------------------------------------------


def test_singular_matrices():
    ones = np.ones((2, 3, 3))
    ones[0] = np.eye(3)
    stack = lucid.tensor(ones)
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.lu_factor: \(batch element 1\) U\[2, 2\] is zero"):
        linalg.lu_factor(stack)
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.lu_factor_ex: .*U\[2, 2\] is zero"):
        linalg.lu_factor_ex(stack, check_errors=True)
    assert linalg.lu_factor_ex(stack).info.tolist() == [0, 2]
    p, lower, upper = linalg.lu(stack)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), ones)
    assert [r.shape for r in lucid.lu(stack, get_infos=True)] == [(2, 3, 3), (2, 3), (2,)]


def test_without_pivots():
    x = random(4, 3, 3) + 5 * lucid.eye(3, dtype=lucid.float64)
    p, lower, upper = linalg.lu(x, pivot=False)
    assert p.shape == (0,)
    np.testing.assert_allclose((lower @ upper).numpy(), x.numpy())
    assert linalg.lu_factor(x, pivot=False).pivots.tolist() == [[1, 2, 3]] * 4
    assert linalg.lu_factor_ex(lucid.tensor([[0.0, 1.0], [1.0, 0.0]]), pivot=False).info == 1


def test_unpacking_in_part():
    LU, pivots = linalg.lu_factor(random(3, 3))
    assert [part.shape for part in lucid.lu_unpack(LU, pivots, unpack_data=False)] == [(3, 3), (0,), (0,)]
    assert [part.shape for part in lucid.lu_unpack(LU, pivots, unpack_pivots=False)] == [(0,), (3, 3), (3, 3)]


def test_pivots_must_fit():
    LU, pivots = linalg.lu_factor(random(3, 3))
    with pytest.raises(RuntimeError, match=r"pivots of shape \(2,\) do not belong to factors of shape \(3, 3\)"):
        lucid.lu_unpack(LU, pivots[:2])
    with pytest.raises(RuntimeError, match="pivots must be integers"):
        linalg.lu_solve(LU, pivots.double(), random(3, 1))
    with pytest.raises(RuntimeError, match="pivots must lie between 1 and 3"):
        lucid.lu_unpack(LU, pivots + 5)
    with pytest.raises(RuntimeError, match=r"linalg\.lu_solve: factors of shape .* the equation A X = B"):
        linalg.lu_solve(LU, pivots, random(2, 1))


# --- LDL ---------------------------------------------------------------------------------------------


def test_rows_of_the_table_have_blocks_of_both_sizes():
    for r in LDL[:2]:
        pivots = [r.op(lucid.tensor(sample.args[0]))[1].numpy() for sample in r.samples(Make("float64", r.domain))]
        assert any((p < 0).any() and (p > 0).any() for p in pivots)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("is_complex", [False, True])
def test_indefinite_equations(hermitian, is_complex):
    x = random(5, 6, 6, complex=is_complex)
    x = x + (x.mH if hermitian else x.mT)
    x = x - 0.9 * lucid.diag_embed(x.diagonal(dim1=-2, dim2=-1))
    LD, pivots, info = linalg.ldl_factor_ex(x, hermitian=hermitian)
    assert not info.any() and not LD.triu(1).any()
    b = random(6, 2, complex=is_complex)
    found = linalg.ldl_solve(LD, pivots, b, hermitian=hermitian)
    np.testing.assert_allclose((x @ found).numpy(), np.broadcast_to(b.numpy(), found.shape), atol=1e-10)


def test_ldl_of_a_singular_matrix():
    x = lucid.tensor(np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])]))
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.ldl_factor: \(batch element 1\) D\[2, 2\] is zero"):
        linalg.ldl_factor(x)
    assert linalg.ldl_factor_ex(x).info.tolist() == [0, 2]
    LD, pivots = linalg.ldl_factor(x[0])
    with pytest.raises(RuntimeError, match=r"pivots must be integers of shape \(3,\)"):
        linalg.ldl_solve(LD, pivots[:2], random(3, 1))
    with pytest.raises(RuntimeError, match=r"are not pivots that linalg\.ldl_factor gives"):
        linalg.ldl_solve(LD, lucid.tensor([-3, 1, 1]), random(3, 1))


# --- QR ----------------------------------------------------------------------------------------------


def test_modes_of_qr():
    x = random(5, 3)
    assert [r.shape for r in linalg.qr(x, mode="r")] == [(0,), (3, 3)]
    assert [r.shape for r in linalg.qr(x, mode="complete")] == [(5, 5), (5, 3)]
    with pytest.raises(RuntimeError, match="mode must be 'reduced', 'complete' or 'r', not 'full'"):
        linalg.qr(x, mode="full")


@pytest.mark.parametrize("is_complex", [False, True])
def test_loss_of_an_arbitrary_basis_has_no_derivative(is_complex):
    x = random(5, 3, complex=is_complex).requires_grad_()
    tall_u, wide_v = linalg.svd(x).U, linalg.svd(x.mT).Vh.mH
    for full in (linalg.qr(x, mode="complete").Q, tall_u, wide_v):
        weights = random(5, 5, complex=is_complex)
        with pytest.raises(RuntimeError, match="any basis of the space that is left"):
            autograd.grad((full * weights).sum().real, [x], retain_graph=True)


def test_first_columns_of_complete_factors_have_the_derivatives_of_reduced_ones():
    x = random(5, 3).requires_grad_()
    weights = random(5, 3)

    def gradient(vectors):
        return autograd.grad((vectors[:, :3] * weights).sum(), [x])[0].numpy()

    np.testing.assert_allclose(gradient(linalg.qr(x, mode="complete").Q), gradient(linalg.qr(x).Q), atol=1e-12)
    np.testing.assert_allclose(gradient(linalg.svd(x).U), gradient(linalg.svd(x, full_matrices=False).U), atol=1e-12)


def test_reflections_must_fit():
    with pytest.raises(RuntimeError, match="must not have more columns than rows, but its matrices are 2 by 3"):
        linalg.householder_product(lucid.ones(2, 3), lucid.ones(2))
    for tau in (lucid.ones(3), lucid.ones(2, 2), lucid.ones(())):
        with pytest.raises(RuntimeError, match="tau must have shape"):
            linalg.householder_product(lucid.ones(3, 2), tau)
    with pytest.raises(RuntimeError, match="the operands are of"):
        linalg.householder_product(lucid.ones(3, 2), lucid.ones(2, dtype=lucid.float64))
    with pytest.raises(RuntimeError, match="ormqr: other of shape"):
        lucid.ormqr(lucid.ones(3, 2), lucid.ones(2), lucid.ones(2, 3))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_reflections_make_up_q(shape, is_complex):
    x = random(*shape, complex=is_complex)
    a, tau = lucid.geqrf(x)
    q, r = linalg.qr(x)
    k = min(shape)
    np.testing.assert_allclose(lucid.orgqr(a[:, :k], tau).numpy(), q.numpy(), atol=1e-13)
    np.testing.assert_allclose(a[:k].triu().numpy(), r.numpy(), atol=1e-13)


# --- eigenvectors and singular vectors ---------------------------------------------------------------


def test_losses_that_depend_on_a_phase_have_no_derivative():
    x = random(3, 3, complex=True).requires_grad_()
    cases = {
        "linalg.eigh: complex eigenvectors": linalg.eigh(x + x.mH).eigenvectors,
        "linalg.eig: complex eigenvectors": linalg.eig(x).eigenvectors,
        "linalg.svd: complex singular vectors": linalg.svd(x).U,
    }
    for message, vectors in cases.items():
        with pytest.raises(RuntimeError, match=f"{message} are determined up to a factor"):
            autograd.grad(vectors.sum().real, [x], retain_graph=True)
        (g,) = autograd.grad((vectors.abs() * random(3, 3)).sum(), [x], retain_graph=True)
        assert np.isfinite(g.numpy()).all()


def test_a_common_phase_of_both_singular_vectors_cancels():
    x = random(3, 3, complex=True).requires_grad_()
    U, _, Vh = linalg.svd(x)
    weights = random(3, 3, complex=True)
    (g,) = autograd.grad(((U @ Vh) * weights).sum().real, [x])
    step = 1e-6 * random(3, 3, complex=True)

    def loss(a):
        u, _, vh = np.linalg.svd(a)
        return ((u @ vh) * weights.numpy()).sum().real

    want = loss((x + step).numpy()) - loss((x - step).numpy())
    np.testing.assert_allclose(2 * (g.conj() * step).sum().real.item(), want, rtol=1e-6)


def test_gauge_is_checked_inside_vmap():
    x = random(4, 3, 3, complex=True)
    with pytest.raises(RuntimeError, match="exp"):
        func.vmap(func.grad(lambda a: linalg.eig(a).eigenvectors.sum().real))(x)


def test_equal_eigenvalues():
    x = lucid.eye(3, dtype=lucid.float64).requires_grad_()
    with np.errstate(all="ignore"):
        for vectors in (linalg.eigh(x).eigenvectors, linalg.svd(x).U, linalg.eig(x).eigenvectors.real):
            (g,) = autograd.grad(vectors.sum(), [x])
            assert not np.isfinite(g.numpy()).all()
    for values in (linalg.eigvalsh(x), linalg.svdvals(x), linalg.eigh(x).eigenvalues, linalg.svd(x).S):
        (g,) = autograd.grad(values.sum(), [x])
        np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-14)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_uplo(name):
    function = getattr(linalg, name)
    x = random(3, 3)
    for triangle, reference in (("L", x.tril() + x.tril(-1).mT), ("U", x.triu() + x.triu(1).mT)):
        for spelled in (triangle, triangle.lower()):
            found = function(x, UPLO=spelled)
            found = found if name == "eigvalsh" else found.eigenvalues
            np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(reference.numpy()))
    with pytest.raises(RuntimeError, match="it must be 'L' or 'U', not 'X'"):
        function(x, UPLO="X")


def test_eigenvalues_of_a_real_matrix_have_a_real_gradient():
    x = lucid.tensor([[0.0, -4.0], [1.0, 0.0]], requires_grad=True)
    (g,) = autograd.grad(linalg.eigvals(x).imag.abs().sum(), [x])
    assert g.dtype == lucid.float32
    # The eigenvalues are ±i√(-bc) for the elements b and c off the diagonal.
    np.testing.assert_allclose(g.numpy(), [[0, -0.5], [2, 0]], atol=1e-6)


def test_drivers_are_for_cuda():
    for function in (linalg.svd, linalg.svdvals):
        with pytest.raises(RuntimeError, match="driver='gesvd' names a method for CUDA"):
            function(lucid.eye(2), driver="gesvd")


def test_svd_without_vectors():
    U, S, V = lucid.svd(lucid.ones(2, 3), compute_uv=False)
    assert U.tolist() == [[0, 0]] * 2 and V.tolist() == [[0, 0, 0]] * 3
    np.testing.assert_allclose(S.numpy(), [6**0.5, 0], atol=1e-6)


def test_second_derivatives_of_eigenvalues_are_those_of_perturbation_theory():
    w = np.array([1.0, 2.0, 4.0])
    direction = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 2.0], [0.5, 2.0, 0.0]])

    def eigenvalues(t):
        return linalg.eigvalsh(lucid.tensor(np.diag(w)) + t * lucid.tensor(direction))

    gaps = w[:, None] - w
    second = 2 * np.sum(direction**2 / np.where(gaps == 0, np.inf, gaps), 1)
    zero = lucid.tensor(0.0, dtype=lucid.float64)
    np.testing.assert_allclose(func.jacfwd(func.jacrev(eigenvalues))(zero).numpy(), second, atol=1e-12)
    np.testing.assert_allclose(func.jacfwd(func.jacfwd(eigenvalues))(zero).numpy(), second, atol=1e-12)


# --- the tape ----------------------------------------------------------------------------------------


def test_factors_are_saved_through_hooks_and_freed():
    x = random(3, 3).requires_grad_()
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor

    with autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        S = linalg.svd(x, full_matrices=False).S
    loss = (S * S).sum()
    assert {(3, 3), (3,)} <= set(packed)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), atol=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_overwritten_factors_are_noticed():
    x = positive().requires_grad_()
    L = linalg.cholesky(x)
    L.mul_(2)
    with pytest.raises(RuntimeError, match="cholesky"):
        L.sum().backward()


def test_unused_results_need_no_gradient():
    x = random(3, 3).requires_grad_()
    values, vectors = linalg.eigh(x + x.mT)
    assert values.requires_grad and vectors.requires_grad
    assert not linalg.cholesky_ex(x @ x.mT + lucid.eye(3, dtype=lucid.float64)).info.requires_grad
    with lucid.no_grad():
        assert not linalg.qr(x).Q.requires_grad
