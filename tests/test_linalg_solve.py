"""Solvers, norms and functions of matrices: what the table of operations cannot say.

Singular matrices, derivatives of high order, tolerances and drivers, the order of chains, errors.
"""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import scipy.linalg

import lucid
from lucid import func, linalg
from lucid.linalg import least_squares, products


def random(*shape, seed=0, complex=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    return lucid.tensor(values + 1j * rng.normal(size=shape) if complex else values)


def close(got, want, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), tolerance, tolerance)


# --- singular matrices -----------------------------------------------------------------------------

PARTLY_SINGULAR = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2))])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (linalg.inv, "linalg.inv"),
        (lambda a: linalg.solve(a, a), "linalg.solve"),
        (lambda a: linalg.matrix_power(a, -2), "linalg.inv"),
        (lambda a: linalg.inv_ex(a, check_errors=True), "linalg.inv"),
        (lambda a: linalg.solve_ex(a, a, check_errors=True), "linalg.solve"),
    ],
)
def test_singular_matrices_are_named(call, name):
    with pytest.raises(linalg.LinAlgError, match=rf"{name}: \(batch element 1\) .* pivot 2 .* is 0"):
        call(lucid.tensor(PARTLY_SINGULAR))
    with pytest.raises(RuntimeError, match=f"{name}: the matrix is singular: pivot 1"):
        call(lucid.zeros(2, 2))


def test_a_singular_example_of_vmap_is_named():
    with pytest.raises(linalg.LinAlgError, match="batch element 1"):
        func.vmap(linalg.inv)(lucid.tensor(PARTLY_SINGULAR))


def test_ex_functions_report_singular_matrices():
    a = lucid.tensor(PARTLY_SINGULAR)
    inverse, info = linalg.inv_ex(a)
    assert info.tolist() == [0, 2, 1] and info.dtype == lucid.int32
    close(inverse[0], np.eye(2))
    assert np.isnan(inverse[1:].numpy()).all()
    result, info = linalg.solve_ex(a, lucid.ones(3, 2).double())
    assert info.tolist() == [0, 2, 1]
    close(result[0], [1, 1])
    assert np.isnan(result[1:].numpy()).all()
    inside, info = func.vmap(lambda m: tuple(linalg.inv_ex(m)))(a)
    close(inside, inverse)
    assert info.tolist() == [0, 2, 1]


def test_good_matrices_of_a_partly_singular_stack_have_gradients():
    a = lucid.tensor(PARTLY_SINGULAR, requires_grad=True)
    linalg.inv_ex(a).inverse[0].sum().backward()
    close(a.grad[0], -np.ones((2, 2)))


def test_determinant_of_singular_matrices():
    sign, size = linalg.slogdet(lucid.tensor(PARTLY_SINGULAR))
    assert sign.tolist() == [1, 0, 0] and size.tolist() == [0, -math.inf, -math.inf]
    close(linalg.det(lucid.tensor(PARTLY_SINGULAR)), [1, 0, 0])
    assert lucid.logdet(lucid.zeros(2, 2)).item() == -math.inf
    assert math.isnan(lucid.logdet(-lucid.eye(3)).item())
    close(lucid.logdet(-lucid.eye(3).to(lucid.complex128)), 1j * math.pi)


def parity(order):
    return (-1) ** sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinant_has_all_derivatives_whatever_the_rank(rank):
    """The third derivative of a determinant of three rows is the same everywhere: the signs of permutations."""
    a = random(3, rank) @ random(rank, 3, seed=1) if rank else lucid.zeros(3, 3).double()
    third = func.jacfwd(func.jacrev(func.jacrev(linalg.det)))(a)
    want = np.zeros((3,) * 6)
    for rows in permutations(range(3)):
        for columns in permutations(range(3)):
            (i, j, k), (p, q, r) = rows, columns
            want[i, p, j, q, k, r] = parity(rows) * parity(columns)
    close(third, want)


def test_fourth_derivative_of_a_determinant_vanishes():
    a = random(2, 2)
    changes = func.jacrev(func.jacrev(func.jacrev(linalg.det)))(a)
    close(changes, np.zeros((2,) * 6), 1e-12)


def test_gradient_of_a_determinant_with_nan_is_nan():
    a = lucid.tensor([[[math.nan, 1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
    out = linalg.det(a)
    assert math.isnan(out[0].item())
    out.sum().backward()
    assert np.isnan(a.grad[0].numpy()).all()
    close(a.grad[1], [[4, -3], [-2, 1]], 1e-5)


def with_flags(function):
    """A function of NumPy on a processor that sets every floating-point flag on the way."""

    def call(x):
        if set(np.geterr().values()) != {"ignore"}:
            raise FloatingPointError("divide by zero encountered in det")
        return function(x)

    return call


@pytest.mark.parametrize("name", ["det", "slogdet", "logdet"])
def test_determinants_do_not_depend_on_floating_point_flags(name, monkeypatch):
    for function in ("det", "slogdet"):
        monkeypatch.setattr(np.linalg, function, with_flags(getattr(np.linalg, function)))
    determinant = {"slogdet": lambda a: linalg.slogdet(a).logabsdet, "logdet": lucid.logdet}.get(name, linalg.det)
    for x in (PARTLY_SINGULAR, np.full((2, 2), math.nan), PARTLY_SINGULAR + 0j):
        func.vmap(determinant)(lucid.tensor(x)) if x.ndim > 2 else determinant(lucid.tensor(x))
        func.jvp(determinant, (lucid.tensor(x),), (lucid.tensor(x),))
        if x.dtype == float:
            func.jvp(func.grad(lambda a: determinant(a).sum()), (lucid.tensor(x),), (lucid.tensor(x),))


@pytest.mark.parametrize("function", [linalg.inv, linalg.matrix_exp, lambda a: linalg.solve(a, a), linalg.det])
def test_nan_goes_through(function):
    assert np.isnan(function(lucid.full((2, 2), math.nan)).numpy()).all()


@pytest.mark.parametrize(
    "function",
    [
        linalg.pinv,
        linalg.matrix_rank,
        linalg.cond,
        lambda a: linalg.lstsq(a, lucid.ones(2, 2)),
        lambda a: linalg.matrix_norm(a, "nuc"),
        lambda a: linalg.matrix_norm(a, 2),
    ],
)
def test_singular_values_of_nan_are_refused(function):
    with pytest.raises(linalg.LinAlgError, match="inf or nan"):
        function(lucid.full((2, 2), math.nan))


# --- solve -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "left", "out"),
    [
        ((3, 3), (3,), True, (3,)),
        ((2, 3, 3), (2, 3), True, (2, 3)),
        ((2, 3, 3), (3,), True, (2, 3)),
        ((2, 3, 3), (3, 2), True, (2, 3, 2)),
        ((3, 3, 3), (3, 3), True, (3, 3)),  # one vector for each matrix comes before one matrix for all
        ((3, 3), (5, 3, 2), True, (5, 3, 2)),
        ((5, 1, 3, 3), (2, 3, 1), True, (5, 2, 3, 1)),
        ((3, 3), (2, 3), False, (2, 3)),
        ((2, 3, 3), (1, 3), False, (2, 1, 3)),
    ],
)
def test_right_hand_sides(a, b, left, out):
    matrix, right = random(*a) + 4 * lucid.eye(3), random(*b, seed=1)
    x = linalg.solve(matrix, right, left=left)
    assert x.shape == out
    if left and (len(b) == 1 or b == a[:-1]):
        close((matrix @ x.unsqueeze(-1)).squeeze(-1), np.broadcast_to(right.numpy(), out))
    else:
        product = matrix @ x if left else x @ matrix
        close(product, np.broadcast_to(right.numpy(), out))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linalg.solve(random(2, 3), random(2)), RuntimeError, "square"),
        (lambda: linalg.solve(random(2, 2), random(3)), RuntimeError, r"\(2, 2\) and B of shape \(3,\) do not fit"),
        (lambda: linalg.solve(random(2, 2), random(2), left=False), RuntimeError, "matrix of one row"),
        (lambda: linalg.solve(random(2, 2), random(2).float()), RuntimeError, "one type"),
        (lambda: linalg.solve(random(5, 2, 2), random(4, 2, 1)), RuntimeError, "broadcast"),
        (lambda: linalg.inv(random(3)), RuntimeError, "at least 2 dimensions"),
        (lambda: linalg.inv(lucid.eye(2).long()), RuntimeError, "int64"),
        (lambda: linalg.det(lucid.eye(2).half()), RuntimeError, "float16"),
        (lambda: linalg.matrix_power(random(2, 2), 1.5), TypeError, "integer"),
        (lambda: linalg.matrix_power(random(2, 3), 2), RuntimeError, "square"),
        (lambda: linalg.matrix_exp(lucid.eye(2).long()), RuntimeError, "int64"),
        (lambda: linalg.tensorinv(random(6, 2, 2), 1), RuntimeError, "6 by 4"),
        (lambda: linalg.tensorinv(random(6, 2, 3), 0), RuntimeError, "positive"),
        (lambda: linalg.tensorsolve(random(2, 3), random(2)), RuntimeError, "2 by 3"),
        (lambda: linalg.pinv(random(2, 3), hermitian=True), RuntimeError, "square"),
        (lambda: linalg.pinv(random(3, 2, 2), rtol=random(2).abs()), RuntimeError, r"shape \(2,\)"),
        (lambda: linalg.lstsq(random(3, 2), random(2)), RuntimeError, "rows"),
        (lambda: linalg.lstsq(random(3, 2), random(3), driver="best"), RuntimeError, "gelsd"),
        (lambda: linalg.multi_dot([random(3)]), RuntimeError, "at least 2"),
        (lambda: linalg.multi_dot([random(2, 3), random(2, 3)]), RuntimeError, "tensors 0 and 1"),
        (lambda: linalg.multi_dot([random(2, 3), random(3), random(3, 2)]), RuntimeError, "tensor 1 must have 2"),
        (lambda: linalg.multi_dot([random(2, 3), random(3, 2).float()]), RuntimeError, "one type"),
        (lambda: lucid.chain_matmul(random(3), random(3, 3)), RuntimeError, "must be a matrix"),
        (lambda: linalg.vander(random(3), N=1), RuntimeError, "greater than 1"),
        (lambda: lucid.vander(random(2, 3)), RuntimeError, "one dimension"),
        (lambda: lucid.vander(random(3), -1), RuntimeError, "negative"),
        (lambda: linalg.vecdot(random(3), random(3).float()), RuntimeError, "one type"),
        (lambda: linalg.vecdot(lucid.ones(3).long(), lucid.ones(3).long()), RuntimeError, "int64"),
        (lambda: linalg.cross(random(2, 3), random(3)), RuntimeError, "number of dimensions"),
        (lambda: linalg.cross(random(3, 2), random(3, 2)), RuntimeError, "size 3"),
        (lambda: linalg.vector_norm(random(3), "fro"), TypeError, "number"),
        (lambda: linalg.vector_norm(random(0), math.inf), RuntimeError, "no elements"),
        (lambda: linalg.vector_norm(lucid.ones(3).long()), RuntimeError, "int64"),
        (lambda: linalg.vector_norm(random(3), dtype=lucid.float32), RuntimeError, "narrower"),
        (lambda: linalg.vector_norm(random(3), dtype=lucid.complex128), RuntimeError, "floating-point"),
        (lambda: linalg.matrix_norm(random(3)), RuntimeError, "at least 2"),
        (lambda: linalg.matrix_norm(random(2, 3), 3), RuntimeError, "unsupported ord 3"),
        (lambda: linalg.matrix_norm(random(2, 3), dim=(0, -2)), RuntimeError, "distinct"),
        (lambda: linalg.matrix_norm(random(2, 3), dim=1), TypeError, "two dimensions"),
        (lambda: linalg.matrix_norm(lucid.ones(2, 2).half(), "nuc"), RuntimeError, "float16"),
        (lambda: linalg.norm(random(2, 3, 2), 2), RuntimeError, "1-D or 2-D"),
        (lambda: linalg.norm(random(2, 3, 2), dim=(0, 1, 2)), RuntimeError, "one or two"),
        (lambda: linalg.cond(random(2, 2), 3), RuntimeError, "not 3|ord 3"),
        (lambda: linalg.cond(random(2, 3), 1), RuntimeError, "square"),
    ],
)
def test_errors_have_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- pseudo-inverses, ranks and least squares ------------------------------------------------------


CUT_OFF = {
    "pinv": lambda x: linalg.pinv(x, rtol=0.5),
    "pinv by atol": lambda x: linalg.pinv(x, atol=0.9),
    "pinv of hermitian": lambda x: linalg.pinv(x + x.mH, rtol=0.5, hermitian=True),
    "lstsq": lambda x: linalg.lstsq(x, x * 0.5 + 1, rcond=0.5).solution,
}


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (2, 4, 3), (11, 3), (3, 11)])
@pytest.mark.parametrize("name", CUT_OFF)
def test_singular_values_that_are_cut_off(name, shape, kind):
    """These are not 0, so that a change of the matrix turns the space of the others into theirs."""
    if "hermitian" in name:
        shape = (*shape[:-2], min(shape[-2:]), min(shape[-2:]))
    rng = np.random.default_rng(3)
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind == np.complex128 else 0)
    u, sizes, v = np.linalg.svd(a, full_matrices=False)
    x = lucid.tensor(u * np.array([3, 2, 0.8, 0.5, 0.2])[: sizes.shape[-1]] @ v, requires_grad=True)
    assert lucid.autograd.gradcheck(CUT_OFF[name], (x,), check_forward_ad=True)
    assert lucid.autograd.gradgradcheck(CUT_OFF[name], (x,))


def test_a_tall_matrix_takes_memory_in_proportion():
    """A square matrix of its length would take 3 GB. Where nothing is cut off, the derivative is that of `pinv` alone."""
    x = random(20_000, 3)
    found, want = (func.grad(lambda a, r=r: (linalg.pinv(a, rtol=r) ** 2).sum())(x) for r in (0.1, None))
    close(found, want.numpy())


def test_pinv_at_equal_singular_values():
    """For orthogonal Q and small E the pseudo-inverse changes by -Qᵀ E Qᵀ, and its second change is finite."""
    q = linalg.qr(random(3, 3)).Q
    e = random(3, 3, seed=1)
    _, change = func.jvp(linalg.pinv, (q,), (e,))
    close(change, -(q.T @ e @ q.T))
    _, second = func.jvp(lambda a: func.jvp(linalg.pinv, (a,), (e,))[1], (q,), (e,))
    close(second, 2 * (q.T @ e @ q.T @ e @ q.T))


def test_tolerances_for_each_matrix():
    a = lucid.tensor(np.stack([np.diag([1.0, 0.1]), np.diag([1.0, 0.01])]))
    limits = lucid.tensor([0.05, 0.05])
    assert linalg.matrix_rank(a, rtol=limits).tolist() == [2, 1]
    assert linalg.matrix_rank(a, atol=lucid.tensor([0.5, 0.0])).tolist() == [1, 2]
    assert linalg.matrix_rank(a, 0.05).tolist() == [2, 1]
    close(linalg.pinv(a, rtol=limits), np.stack([np.diag([1, 10]), np.diag([1, 0])]))
    inside = func.vmap(lambda m, t: linalg.pinv(m, atol=t))(a, limits)
    close(inside, np.stack([np.diag([1, 10]), np.diag([1, 0])]))
    assert func.vmap(lambda t: linalg.matrix_rank(a[0], atol=t))(lucid.tensor([0.05, 0.5, 2.0])).tolist() == [2, 1, 0]


def test_hermitian_matrices_may_have_negative_eigenvalues():
    a = lucid.tensor([[0.0, 2.0], [2.0, 0.0]])
    close(linalg.pinv(a, hermitian=True), [[0, 0.5], [0.5, 0]], 1e-6)
    assert linalg.matrix_rank(a, hermitian=True).item() == 2


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
@pytest.mark.parametrize("type", [lucid.float64, lucid.complex128, lucid.float32])
def test_drivers_of_lstsq(driver, shape, type):
    a, b = (random(2, shape[0], n, seed=n, complex=type == lucid.complex128).to(type) for n in (shape[1], 2))
    found = linalg.lstsq(a, b, driver=driver)
    tolerance = 1e-3 if type == lucid.float32 else 1e-9
    want = np.linalg.pinv(a.numpy()) @ b.numpy()
    close(found.solution, want, tolerance)
    assert found.solution.dtype == type
    if driver == "gels":
        assert found.rank.shape == (0,)
    else:
        assert found.rank.tolist() == [3, 3]
    if driver in ("gelsd", "gelss"):
        close(found.singular_values, np.linalg.svd(a.numpy(), compute_uv=False), tolerance)
    else:
        assert found.singular_values.shape == (0,)
    if shape == (5, 3) and driver != "gelsy":
        close(found.residuals, (np.abs(a.numpy() @ want - b.numpy()) ** 2).sum(-2), tolerance)
    else:
        assert found.residuals.shape == (0,)


def test_lstsq_without_full_rank():
    a, b = lucid.ones(3, 2).double(), random(3, 2)
    with pytest.raises(linalg.LinAlgError, match="full rank"):
        linalg.lstsq(a, b, driver="gels")
    with pytest.raises(linalg.LinAlgError, match="batch element 1"):
        linalg.lstsq(lucid.stack([a + random(3, 2), a]), b, driver="gels")
    for driver in DRIVERS[1:]:
        found = linalg.lstsq(a, b, driver=driver)
        assert found.rank.item() == 1
        close(found.solution, np.linalg.pinv(a.numpy()) @ b.numpy())


@pytest.mark.parametrize("driver", DRIVERS[1:])
def test_derivatives_of_lstsq_where_the_rank_stays(driver):
    """Along a path of matrices of rank 2 the solution changes as finite differences say."""
    left, right, b = random(5, 2), random(2, 3, seed=1), random(5, 2, seed=2)

    def solution(x):
        return linalg.lstsq(x @ right, b, rcond=1e-8, driver=driver).solution

    assert lucid.autograd.gradcheck(solution, (left.requires_grad_(),))
    assert lucid.autograd.gradgradcheck(solution, (left,))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (6, 6), (3, 9, 4), (150, 140)], ids=str)
def test_what_counts_does_not_depend_on_how_it_is_found(shape):
    """A QR factorization does where all singular values clearly count, and singular values themselves elsewhere."""
    rng = np.random.default_rng(11)
    short = min(shape[-2:])
    u, _, v = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    b = lucid.tensor(rng.standard_normal((*shape[:-1], 2)))
    for least in (1e-1, 1e-5, 1e-9, 1e-12, 1e-17, 0.0):
        sizes = np.geomspace(1, 0.2, short)
        sizes[-1] = least
        a = lucid.tensor((u * sizes) @ v)
        rank = np.full(shape[:-2], short - (least < 1e-13))
        inverse = np.swapaxes(v, -1, -2) * np.where(sizes > 1e-13, 1 / np.where(sizes > 0, sizes, 1), 0)
        inverse = inverse @ np.swapaxes(u, -1, -2)
        tolerance = 1e-13 / least if least > 1e-13 else 1e-13
        for driver in ("gelsy", "gelsd"):
            found = linalg.lstsq(a, b, driver=driver)
            np.testing.assert_array_equal(found.rank.numpy(), rank)
            close(found.solution, inverse @ b.numpy(), tolerance * 300 * np.abs(inverse).max())
        close(linalg.pinv(a), inverse, tolerance * 300 * np.abs(inverse).max())


def test_ranks_of_lstsq_in_vmap():
    a, b = random(3, 2), random(5, 3, 2, seed=1)
    found = least_squares.LstsqResult(*func.vmap(lambda y: tuple(linalg.lstsq(a, y, driver="gelsd")))(b))
    assert found.solution.shape == (5, 2, 2) and found.rank.tolist() == [2] * 5
    close(found.singular_values, np.broadcast_to(np.linalg.svd(a.numpy(), compute_uv=False), (5, 2)))
    assert linalg.lstsq(a, b, driver="gelss").rank.shape == (5,)


def test_residuals_have_derivatives():
    a, b = random(3, 2).requires_grad_(), random(3, seed=1).requires_grad_()
    assert lucid.autograd.gradcheck(lambda x, y: linalg.lstsq(x, y, driver="gels").residuals, (a, b))


# --- powers and products ---------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 0.3, 1.0, 6.0, 40.0])
def test_exponentials_of_all_sizes(scale):
    a = random(3, 5, 5).numpy() * scale * np.array([0.01, 1.0, 0.2]).reshape(3, 1, 1)
    a = a - a.swapaxes(-1, -2)
    got = linalg.matrix_exp(lucid.tensor(a)).numpy()
    close(got, np.stack([scipy.linalg.expm(m) for m in a]), 1e-11 * max(scale, 1))
    close(got @ got.swapaxes(-1, -2), np.broadcast_to(np.eye(5), (3, 5, 5)), 1e-11 * max(scale, 1))


def test_exponentials_that_are_known():
    quarter = lucid.tensor([[0.0, -math.pi / 2], [math.pi / 2, 0.0]]).double()
    close(linalg.matrix_exp(quarter), [[0, -1], [1, 0]], 1e-6)
    assert linalg.matrix_exp(lucid.tensor([[1000.0]])).item() == math.inf
    assert linalg.matrix_exp(lucid.tensor([[-1000.0]])).item() == 0
    stack = lucid.tensor([[[math.nan]], [[1.0]]])
    assert np.isnan(linalg.matrix_exp(stack)[0].numpy()).all()
    close(linalg.matrix_exp(stack)[1], [[math.e]], 1e-6)


def test_derivatives_of_the_exponential():
    a, e = random(3, 3), random(3, 3, seed=1)
    _, change = func.jvp(linalg.matrix_exp, (a,), (e,))
    close(change, scipy.linalg.expm_frechet(a.numpy(), e.numpy(), compute_expm=False))
    value = lucid.tensor(np.array([[0.7]]))
    derivative = linalg.matrix_exp
    for _ in range(3):
        derivative = func.jacfwd(derivative)
    close(derivative(value).reshape(()), math.exp(0.7))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_exponential_is_differentiated_as_well_along_long_and_short_directions(scale):
    a, e = random(3, 3), random(3, 3, seed=1)
    _, change = func.jvp(linalg.matrix_exp, (a,), (e * scale,))
    close(change / scale, scipy.linalg.expm_frechet(a.numpy(), e.numpy(), compute_expm=False), 1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_derivatives_of_determinants_of_any_scale(scale):
    a, e = random(3, 3), random(3, 3, seed=1)
    _, want = func.jvp(func.grad(linalg.det), (a,), (e,))
    _, got = func.jvp(func.grad(linalg.det), (a * scale,), (e,))
    close(got / scale, want)


def test_powers():
    a = random(2, 3, 3) + 3 * lucid.eye(3)
    for n in range(-4, 8):
        want = np.linalg.matrix_power(a.numpy(), n)
        close(linalg.matrix_power(a, n), want, 1e-9)
    integers = lucid.tensor([[1, 1], [1, 0]])
    assert linalg.matrix_power(integers, 10).tolist() == [[89, 55], [55, 34]]
    assert func.vmap(lambda m: linalg.matrix_power(m, 0))(random(5, 2, 2)).shape == (5, 2, 2)


def cheapest(sizes):
    """The fewest multiplications, by trying every order."""
    if len(sizes) == 2:
        return 0
    return min(
        cheapest(sizes[: k + 1]) + cheapest(sizes[k:]) + sizes[0] * sizes[k] * sizes[-1]
        for k in range(1, len(sizes) - 1)
    )


@pytest.mark.parametrize("seed", range(5))
def test_chains_are_multiplied_in_the_cheapest_order(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 9, 7)]
    spent = []
    original = products.contractions.matmul

    def counted(x, y):
        spent.append(x.shape[0] * x.shape[1] * y.shape[1])
        return original(x, y)

    factors = [random(m, n, seed=i) for i, (m, n) in enumerate(pairwise(sizes))]
    monkeypatch.setattr(products.contractions, "matmul", counted)
    close(linalg.multi_dot(factors), np.linalg.multi_dot([f.numpy() for f in factors]))
    assert sum(spent) == cheapest(sizes)


def test_ends_of_chains_may_be_vectors():
    a, m, b = random(3), random(3, 2), random(2)
    assert linalg.multi_dot([a, m, b]).shape == ()
    assert linalg.multi_dot([a, m]).shape == (2,)
    assert linalg.multi_dot([m, b]).shape == (3,)
    close(linalg.multi_dot([a, a]), a @ a)
    close(lucid.chain_matmul(m), m)


def test_vander_at_zero_has_exact_derivatives():
    x = lucid.zeros(2).requires_grad_()
    linalg.vander(x, N=3)[:, 1].sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert lucid.vander(lucid.tensor([True, False]), 2).dtype == lucid.int64


# --- norms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ord", ["fro", 1, math.inf])
@pytest.mark.parametrize("complex", [False, True])
def test_gradient_of_a_norm_at_zero(ord, complex):
    x = lucid.zeros(2, 2, dtype=lucid.complex128 if complex else lucid.float64).requires_grad_()
    linalg.matrix_norm(x, ord).backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("ord", [2, 1, 3, 0.5, 0, math.inf])
def test_gradient_of_a_vector_norm_at_zero(ord):
    x = lucid.zeros(3).requires_grad_()
    linalg.vector_norm(x, ord).backward()
    assert (x.grad == 0).all()


def test_norms_with_nan():
    x = lucid.tensor([[1.0, math.nan], [2.0, 3.0]])
    for ord in ("fro", 1, math.inf):
        assert math.isnan(linalg.matrix_norm(x, ord).item())
    for ord in (2, math.inf, -math.inf, 1):
        assert np.isnan(linalg.vector_norm(x, ord, dim=1).numpy()).tolist() == [True, False]


def test_types_of_norms():
    x = lucid.tensor([3.0, 4.0])
    assert linalg.vector_norm(x, dtype=lucid.float64).dtype == lucid.float64
    assert linalg.norm(x.to(lucid.complex64), dtype=lucid.complex128).dtype == lucid.float64
    assert linalg.matrix_norm(x.half().reshape(1, 2)).dtype == lucid.float16


@pytest.mark.parametrize("ord", [1, math.inf, 2, "nuc", "fro"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_norms_of_matrices_without_elements(ord, shape):
    assert linalg.matrix_norm(lucid.zeros(2, *shape), ord).tolist() == [0, 0]


def test_condition_of_singular_matrices():
    a = lucid.tensor(PARTLY_SINGULAR)
    for p in ("fro", 1, math.inf):
        got = linalg.cond(a, p)
        assert got[0].item() == linalg.matrix_norm(a[0], p).item() ** 2 and got[1:].tolist() == [math.inf] * 2
    assert linalg.cond(lucid.tensor([[2.0, 0.0], [0.0, 0.0]])).item() == math.inf


# --- results written into tensors ------------------------------------------------------------------


def test_out():
    a = random(3, 3) + 4 * lucid.eye(3)
    target = lucid.zeros(3, 3).double()
    assert linalg.inv(a, out=target) is target
    close(target, np.linalg.inv(a.numpy()))
    sign, size = lucid.zeros(()).double(), lucid.zeros(()).double()
    result = linalg.slogdet(a, out=(sign, size))
    assert result.logabsdet is size and size.item() == linalg.slogdet(a).logabsdet.item()
    assert lucid.inverse(a, out=target) is target


def test_methods():
    a = random(3, 3) + 4 * lucid.eye(3)
    want = a.numpy()
    close(a.det(), np.linalg.det(want))
    close(a.slogdet().logabsdet, np.linalg.slogdet(want)[1])
    close(a.logdet(), np.log(np.linalg.det(want)))
    close(a.inverse(), np.linalg.inv(want))
    close(a.pinverse(), np.linalg.inv(want))
    close(a.matrix_power(2), want @ want)
    close(a.matrix_exp(), scipy.linalg.expm(want), 1e-8)


def test_lstsq_goes_back_to_the_right_side_alone():
    rng = np.random.default_rng(0)
    a = lucid.tensor(rng.standard_normal((4, 3)))
    b = lucid.tensor(rng.standard_normal((4, 2)), requires_grad=True)
    lucid.linalg.lstsq(a, b).solution.sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.pinv(a.numpy()).T @ np.ones((3, 2)))


def test_pinv_with_more_tolerances_than_matrices():
    x = lucid.tensor(np.random.default_rng(0).standard_normal((4, 3)), requires_grad=True)
    one = lucid.autograd.grad(lucid.linalg.pinv(x, atol=0.01).sum(), x)
    two = lucid.autograd.grad(lucid.linalg.pinv(x, atol=lucid.tensor([0.01, 0.02])).sum(), x)
    np.testing.assert_allclose(two.numpy(), 2 * one.numpy())


def test_hermitian_matrices_are_read_in_their_lower_triangle():
    x = lucid.tensor([[4.0, lucid.nan], [1.0, 5.0]], dtype=lucid.float64)
    want = np.linalg.inv([[4.0, 1.0], [1.0, 5.0]])
    np.testing.assert_allclose(lucid.linalg.pinv(x, hermitian=True).numpy(), want)
    assert lucid.linalg.matrix_rank(x, hermitian=True).item() == 2


def test_power_of_0_has_a_gradient_of_0():
    x = lucid.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    lucid.linalg.matrix_power(x, 0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 2)))


# --- large matrices, which LAPACK is handed one by one ------------------------------------------------

ROUNDING = {"float32": 2e-3, "float64": 1e-10, "complex64": 2e-3, "complex128": 1e-10}


@pytest.mark.parametrize("shape", [(130, 130), (2, 130, 130), (2, 0, 130, 130)])
@pytest.mark.parametrize("dtype", ROUNDING)
def test_large_matrices_agree_with_numpy(dtype, shape):
    tolerance, kind = ROUNDING[dtype], getattr(lucid, dtype)
    x = random(*shape, complex="complex" in dtype)
    b, given = random(*shape[:-1], 5, seed=1), x.to(kind)
    wide = given.numpy().astype(np.result_type(dtype, np.float64))
    close(linalg.inv(given), np.linalg.inv(wide), tolerance)
    close(linalg.solve(given, b.to(kind)), np.linalg.solve(wide, b.numpy()), tolerance)
    close(linalg.det(given / 10), np.linalg.det(wide / 10), tolerance)
    for got, want in zip(linalg.slogdet(given), np.linalg.slogdet(wide), strict=True):
        close(got, want, tolerance)
    for mode, part in (("reduced", given), ("complete", given), ("complete", given[..., :128])):
        q, r = linalg.qr(part, mode=mode)
        assert q.dtype == r.dtype == kind
        close(q @ r, part, tolerance)
        close(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape), tolerance)


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
def test_large_singular_matrices(dtype):
    x = lucid.stack([lucid.eye(130, dtype=dtype), lucid.ones(130, 130, dtype=dtype)])
    for call in (linalg.inv, lambda a: linalg.solve(a, a)):
        with pytest.raises(linalg.LinAlgError, match=r"\(batch element 1\) .* pivot 2 .* is 0"):
            call(x)
    found, info = linalg.inv_ex(x)
    assert info.tolist() == [0, 2] and lucid.equal(found[0], x[0])
    close(linalg.det(x), [1, 0])
    close(linalg.slogdet(x)[1], [0, -math.inf])
