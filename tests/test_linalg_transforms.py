"""Linear algebra under nested transforms, partial batches, overwritten results and awkward matrices.

Each function from R^3 to R of the first part has a formula that is analytic in the complex plane (transposes where the
function has adjoints), so that the references of `nestings` apply: derivatives by Cauchy's integral.
"""

import gc
import itertools
import weakref

import numpy as np
import pytest
from nestings import MAIN, OTHERS, Nesting, X, nestings, tensor

import lucid
from lucid import autograd, func, linalg

rng = np.random.default_rng(0)
W3, W33, W43, W34, W32, W42, W44 = (rng.normal(size=s) for s in ((3,), (3, 3), (4, 3), (3, 4), (3, 2), (4, 2), (4, 4)))
OUTER, OUTER_TALL, OUTER_WIDE = rng.normal(size=(3, 3, 3)), rng.normal(size=(4, 3, 3)), rng.normal(size=(3, 4, 3))
SQUARE = np.array([[4.0, 0.3, -0.2], [0.5, -3.1, 0.4], [-0.3, 0.2, 2.2]])
TALL = np.array([[1.2, 0.3, -0.4], [0.2, 2.5, 0.1], [0.6, -0.3, 3.7], [-0.5, 0.8, 0.4]])
SYMMETRIC = np.diag([2.0, 3.3, 4.9])
EYE = np.eye(3)


# --- matrices made of x, and of complex points ---------------------------------------------------


def square(x):
    return tensor(SQUARE) + 0.2 * x.sin().outer(x) + 0.1 * x.outer(tensor(W3))


def square_ref(x):
    return SQUARE + 0.2 * np.sin(x)[..., :, None] * x[..., None, :] + 0.1 * x[..., :, None] * W3


def tall(x):
    return tensor(TALL) + 0.1 * (tensor(W43) * x.sin())


def tall_ref(x):
    return TALL + 0.1 * W43 * np.sin(x)[..., None, :]


def symmetric(x):
    m = x.outer(tensor(W3))
    return tensor(SYMMETRIC) + 0.15 * (m + m.mT)


def symmetric_ref(x):
    m = x[..., :, None] * W3
    return SYMMETRIC + 0.15 * (m + flip(m))


def flip(a):
    return np.swapaxes(a, -1, -2)


def dot(a, w):
    return (a * w).sum((-1, -2))


def weigh(a, w):
    return (a * tensor(w)).sum()


# --- factorizations of complex matrices without conjugation ----------------------------------------


def cholesky_of(a):
    n, out = a.shape[-1], np.zeros(a.shape, complex)
    for j in range(n):
        out[..., j, j] = np.sqrt(a[..., j, j] - (out[..., j, :j] ** 2).sum(-1))
        for i in range(j + 1, n):
            out[..., i, j] = (a[..., i, j] - (out[..., i, :j] * out[..., j, :j]).sum(-1)) / out[..., j, j]
    return out


def eliminated(a):
    out = np.array(a, complex)
    for j in range(min(a.shape[-2:])):
        out[..., j + 1 :, j] /= out[..., j, j][..., None]
        out[..., j + 1 :, j + 1 :] -= out[..., j + 1 :, j : j + 1] * out[..., j : j + 1, j + 1 :]
    return out


def eigen_of(a):
    """Eigenvalues by their real parts, and the projectors on their vectors."""
    w, v = np.linalg.eig(a)
    order = np.argsort(w.real, -1)
    w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)
    return w, np.einsum("...ik,...kj->...kij", v, np.linalg.inv(v))


def singular_of(a):
    """Singular values, descending, and u v^T for each."""
    w, projectors = eigen_of(flip(a) @ a)
    s = np.sqrt(w[..., ::-1])
    return s, a[..., None, :, :] @ projectors[..., ::-1, :, :] / s[..., None, None]


def reflections_of(a, tau):
    out = np.eye(4)
    for i in range(3):
        v = np.tril(a, -1)[..., :, i] + np.eye(4)[:, i]
        out = out @ (np.eye(4) - tau[..., i, None, None] * v[..., :, None] * v[..., None, :])
    return out


def complement_of(a):
    return np.eye(4) - a @ np.linalg.inv(flip(a) @ a) @ flip(a)


# --- the functions -----------------------------------------------------------------------------------


def svd(x):
    u, s, vh = linalg.svd(tall(x), full_matrices=False)
    return weigh(s, W3) + weigh(u.mT[:, :, None] * vh[:, None, :], OUTER_WIDE)


def svd_ref(x):
    s, pairs = singular_of(tall_ref(x))
    return (s * W3).sum(-1) + (pairs * OUTER_WIDE).sum((-1, -2, -3))


def full_svd(x):
    left, right = linalg.svd(tall(x)).U[:, 3:], linalg.svd(tall(x).mT).Vh[3:]
    return weigh(left @ left.mT, W44) + weigh(right.mT @ right, W44)


def qr(x):
    q, r = linalg.qr(tall(x))
    return weigh(q[:, :, None] * r, OUTER_TALL) + weigh(r * r, W33)


def qr_ref(x):
    a = tall_ref(x)
    r = flip(cholesky_of(flip(a) @ a))
    q = a @ np.linalg.inv(r)
    return (q[..., :, :, None] * r[..., None, :, :] * OUTER_TALL).sum((-1, -2, -3)) + dot(r * r, W33)


def complete_qr(x):
    q = linalg.qr(tall(x), "complete").Q[:, 3:]
    return weigh(q @ q.mT, W44)


def eigh(x):
    w, v = linalg.eigh(symmetric(x))
    return weigh(w, W3) + weigh(v.mT[:, :, None] * v.mT[:, None, :], OUTER)


def eigh_ref(x):
    w, projectors = eigen_of(symmetric_ref(x))
    return (w * W3).sum(-1) + (projectors * OUTER).sum((-1, -2, -3))


def eig(x):
    w, v = linalg.eig(square(x))
    return weigh((v.abs() ** 2) @ (w.real**2), W3)


def eig_ref(x):
    w, v = np.linalg.eig(square_ref(x))
    v = v / np.sqrt((v * v).sum(-2, keepdims=True))
    return (((v * v) @ (w**2)[..., None])[..., 0] * W3).sum(-1)


def lu(x):
    p, low, up = linalg.lu(square(x)[lucid.tensor([2, 0, 1])])
    return weigh(p @ low, W33) + weigh(up, W33)


def lu_ref(x):
    factors = eliminated(square_ref(x))
    return dot((np.tril(factors, -1) + EYE)[..., [2, 0, 1], :], W33) + dot(np.triu(factors), W33)


def lu_solve(x):
    factors, b = linalg.lu_factor(square(x)), tensor(W32) * x[:, None]
    across = linalg.lu_solve(*factors, b.mT, left=False)
    return weigh(linalg.lu_solve(*factors, b, adjoint=True), W32) + weigh(across, W32.T)


def lu_solve_ref(x):
    inverse, b = np.linalg.inv(square_ref(x)), W32 * x[..., :, None]
    return dot(flip(inverse) @ b, W32) + dot(flip(b) @ inverse, W32.T)


def triangular(x):
    a, b = square(x), tensor(W32) * x[:, None]
    upper = linalg.solve_triangular(a, b, upper=True)
    lower = linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True)
    return weigh(upper, W32) + weigh(lower, W32.T)


def triangular_ref(x):
    a, b = square_ref(x), W32 * x[..., :, None]
    lower = np.linalg.inv(np.tril(a, -1) + EYE)
    return dot(np.linalg.inv(np.triu(a)) @ b, W32) + dot(flip(b) @ lower, W32.T)


def householder(x):
    a, tau = tall(x), x * 0.3 + 0.5
    turned = lucid.ormqr(a, tau, tensor(W42), transpose=True)
    return weigh(linalg.householder_product(a, tau), W43) + weigh(turned, W42)


def householder_ref(x):
    q = reflections_of(tall_ref(x), x * 0.3 + 0.5)
    return dot(q[..., :3], W43) + dot(flip(q) @ W42, W42)


def geqrf(x):
    a, tau = lucid.geqrf(tall(x))
    return weigh(a[:3].triu() ** 2, W33) + weigh(
        linalg.householder_product(a, tau)[:, :, None] * a[:3].triu(), OUTER_TALL
    )


def geqrf_ref(x):
    return qr_ref(x)


SIGNS = np.array([[1.0, -1, 1], [-1, -1, -1], [1, -1, 1]])


def ldl(x):
    factors, b = linalg.ldl_factor(symmetric(x) * tensor(SIGNS)), tensor(W32) * x[:, None]
    return weigh(linalg.ldl_solve(*factors, b), W32) + lucid.diagonal(factors.LD).prod() * 0.1


def ldl_ref(x):
    m = symmetric_ref(x) * SIGNS
    return dot(np.linalg.inv(m) @ (W32 * x[..., :, None]), W32) + np.linalg.det(m) * 0.1


def cholesky_solve(x):
    factor = linalg.cholesky(symmetric(x))
    solved = lucid.cholesky_solve(tensor(W32) * x[:, None], factor)
    return weigh(solved, W32) + weigh(lucid.cholesky_inverse(factor.mT, upper=True), W33)


def cholesky_solve_ref(x):
    inverse = np.linalg.inv(symmetric_ref(x))
    return dot(inverse @ (W32 * x[..., :, None]), W32) + dot(inverse, W33)


def solve(x):
    return weigh(linalg.solve(square(x), x.exp()), W3) + weigh(linalg.inv(square(x)), W33)


def solve_ref(x):
    inverse = np.linalg.inv(square_ref(x))
    return ((inverse @ np.exp(x)[..., None])[..., 0] * W3).sum(-1) + dot(inverse, W33)


def determinants(x):
    sign, size = linalg.slogdet(square(x))
    return linalg.det(square(x)) * 0.1 + sign * size + linalg.det(x.outer(x))


def determinants_ref(x):
    det = np.linalg.det(square_ref(x))
    return det * 0.1 - np.log(-det)


def pinv(x):
    return weigh(linalg.pinv(tall(x)), W34) + weigh(linalg.pinv(x.exp().outer(x.cos())), W33)


def pinv_ref(x):
    a, left, right = tall_ref(x), np.exp(x), np.cos(x)
    size = (left * left).sum(-1) * (right * right).sum(-1)
    thin = dot(right[..., :, None] * left[..., None, :], W33) / size
    return dot(np.linalg.inv(flip(a) @ a) @ flip(a), W34) + thin


def least_squares(x):
    found = linalg.lstsq(tall(x), tensor(W42) * x[0].exp(), driver="gelsd")
    return weigh(found.solution, W32) + found.residuals.sum()


def least_squares_ref(x):
    a, b = tall_ref(x), W42 * np.exp(x[..., 0])[..., None, None]
    solution = np.linalg.inv(flip(a) @ a) @ flip(a) @ b
    return dot(solution, W32) + dot(b - a @ solution, b - a @ solution)


def exponential(x):
    return weigh(linalg.matrix_exp(square(x) * 0.3), W33) + weigh(linalg.matrix_power(square(x), -2), W33)


def exponential_ref(x):
    a = square_ref(x)
    total = term = EYE + 0 * a
    for k in range(1, 40):
        term = term @ a * (0.3 / k)
        total = total + term
    return dot(total, W33) + dot(np.linalg.matrix_power(a, -2), W33)


def norms(x):
    a = tall(x)
    return linalg.matrix_norm(a, "nuc") + linalg.matrix_norm(a, 2) * 2 + linalg.cond(a) + linalg.matrix_norm(a)


def norms_ref(x):
    s = singular_of(tall_ref(x))[0]
    return s.sum(-1) + 2 * s[..., 0] + s[..., 0] / s[..., 2] + np.sqrt((s * s).sum(-1))


PLAIN = {
    "cholesky": (lambda x: weigh(linalg.cholesky(symmetric(x)), W33), lambda x: dot(cholesky_of(symmetric_ref(x)), W33)),
    "full_svd": (full_svd, lambda x: 2 * dot(complement_of(tall_ref(x)), W44)),
    "complete_qr": (complete_qr, lambda x: dot(complement_of(tall_ref(x)), W44)),
    "eigvals": (
        lambda x: (linalg.eigvals(square(x)) ** 3).sum().real,
        lambda x: (np.linalg.eigvals(square_ref(x)) ** 3).sum(-1),
    ),
    "svdvals": (
        lambda x: weigh(linalg.svdvals(tall(x)), W3),
        lambda x: (singular_of(tall_ref(x))[0] * W3).sum(-1),
    ),
    "tall_lu": (
        lambda x: weigh(linalg.lu_factor(tall(x) * tensor([[3.0], [1], [1], [1]])).LU, W43),
        lambda x: dot(eliminated(tall_ref(x) * np.array([[3.0], [1], [1], [1]])), W43),
    ),
}  # fmt: skip
FUNCTIONS = {
    **PLAIN,
    **{
        f.__name__: (f, globals()[f"{f.__name__}_ref"])
        for f in (
            svd, qr, eigh, eig, lu, lu_solve, triangular, householder, geqrf, ldl, cholesky_solve, solve, determinants,
            pinv, least_squares, exponential, norms,
        )
    },
}  # fmt: skip

STEPS = {s.name: s for s in (*MAIN, *OTHERS)}
DEEP = [
    Nesting(STEPS[name] for name in names.split("("))
    for names in ("grad(vmap(jvp", "jvp(grad(vmap", "vmap(grad(grad", "grad(grad(grad", "backward(jvp(vmap", "vmap(jvp(grad",
                  "jacfwd(jacrev", "linearize(grad", "program(grad", "grad(program", "grad(checkpoint", "columns(tape",
                  "chunks(grad", "jacrev(chunks", "duals(vjp")
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nestings(name):
    f, formula = FUNCTIONS[name]

    def ref(points):
        return formula(points[0])

    np.testing.assert_allclose(f(tensor(X)).item(), np.real(formula(X.astype(complex))), rtol=1e-11)
    for nesting in (*nestings(MAIN, 1), *nestings(MAIN, 2), *DEEP):
        got = nesting.of_tensors(f)(tensor(X))
        assert got.shape == () and got.dtype == lucid.float64, nesting
        np.testing.assert_allclose(got.item(), nesting.expected(ref), rtol=1e-7, atol=1e-8, err_msg=str(nesting))


# --- stacks that broadcast, of which some are batched ------------------------------------------------


def matrices(*stack):
    return rng.normal(size=(*stack, 3, 3)) + 4 * EYE


def right_sides(*stack):
    return rng.normal(size=(*stack, 3, 2))


PAIRS = {
    "solve": lambda a, b: linalg.solve(a, b),
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, upper=True),
    "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b),
    "cholesky_solve": lambda a, b: lucid.cholesky_solve(b, a),
    "ldl_solve": lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(a + a.mT), b),
    "lstsq": lambda a, b: linalg.lstsq(a, b).solution,
}
STACKS = [((), ()), ((2,), (1,)), ((), (2,)), ((2,), ()), ((2, 1), (5,)), ((0,), (1,))]


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("stacks", STACKS, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_partly_batched_stacks(name, stacks, batched):
    f, made = PAIRS[name], (matrices, right_sides)
    arrays, dims = [], []
    for make, stack, is_batched, dim in zip(made, stacks, batched, (-1, 1), strict=True):
        arrays.append(np.stack([make(*stack) for _ in range(3)], dim) if is_batched else make(*stack))
        dims.append(dim if is_batched else None)
    operands = [lucid.tensor(a) for a in arrays]

    def loss(a, b):
        return (f(a, b) ** 2).sum()

    def example(k):
        return [lucid.tensor(a if d is None else np.take(a, k, d)) for a, d in zip(arrays, dims, strict=True)]

    got = func.vmap(f, in_dims=tuple(dims))(*operands)
    each = func.vmap(func.grad(loss, argnums=(0, 1)), in_dims=tuple(dims), chunk_size=2)(*operands)
    whole = func.grad(lambda *x: func.vmap(loss, in_dims=tuple(dims))(*x).sum(), argnums=(0, 1))(*operands)
    for k in range(3):
        np.testing.assert_allclose(got[k], f(*example(k)), rtol=1e-9, atol=1e-12)
        for g, w in zip(each, func.grad(loss, argnums=(0, 1))(*example(k)), strict=True):
            np.testing.assert_allclose(g[k], w, rtol=1e-8, atol=1e-11)
    for g, w, d in zip(whole, each, dims, strict=True):
        array = np.asarray(w)
        np.testing.assert_allclose(g, array.sum(0) if d is None else np.moveaxis(array, 0, d), rtol=1e-8, atol=1e-11)


# --- results that are overwritten, used twice, kept ------------------------------------------------

SEVERAL = {
    "svd": (lambda a: linalg.svd(a, False), TALL),
    "qr": (linalg.qr, TALL),
    "eigh": (linalg.eigh, SYMMETRIC + W33 + W33.T),
    "eig": (linalg.eig, SQUARE),
    "slogdet": (linalg.slogdet, SQUARE),
    "lu_factor_ex": (linalg.lu_factor_ex, SQUARE),
    "ldl_factor": (linalg.ldl_factor, SQUARE + SQUARE.T),
    "cholesky_ex": (linalg.cholesky_ex, SYMMETRIC),
    "geqrf": (lucid.geqrf, TALL),
}


def squares(outs):
    return sum((o.abs() ** 2).sum() for o in outs if o.requires_grad)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_result_written_to_before_the_backward_pass(name):
    """Each result written to, each one differentiated: the right gradient, or the error that names the write."""
    f, a = SEVERAL[name]
    count = len(f(tensor(a)))
    for written, used in itertools.product(range(count), repeat=2):
        x = tensor(a).requires_grad_()
        outs = f(x)
        if not outs[used].requires_grad or (name == "slogdet" and used == 0):
            continue
        fresh = tensor(a).requires_grad_()
        again = f(fresh)[used]
        want = autograd.grad(squares([again * 3 if written == used else again]), fresh)
        outs[written].mul_(3)
        try:
            got = autograd.grad(squares([outs[used]]), x)
        except RuntimeError as error:
            assert "in-place" in str(error)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SEVERAL)
def test_results_used_twice_alone_and_with_hooks(name):
    f, a = SEVERAL[name]
    x = tensor(a).requires_grad_()
    outs = [o for o in f(x) if o.requires_grad]
    loss = squares(outs)
    want = autograd.grad(loss, x, retain_graph=True)
    np.testing.assert_allclose(autograd.grad(loss + squares(outs), x, retain_graph=True), 2 * want)
    alone = [autograd.grad(squares([o]), x, retain_graph=True, allow_unused=True) for o in outs]
    np.testing.assert_allclose(sum(g for g in alone if g is not None), want, rtol=1e-9, atol=1e-12)
    for o in outs:
        o.register_hook(lambda g: g * 2)
    np.testing.assert_allclose(autograd.grad(loss, x), 2 * want)
    with pytest.raises(RuntimeError, match="second time"):
        autograd.grad(loss, x)


@pytest.mark.parametrize("name", SEVERAL)
def test_graphs_are_freed_without_the_garbage_collector(name):
    f, a = SEVERAL[name]
    gc.collect()
    gc.disable()
    try:
        x = tensor(a).requires_grad_()
        outs = [o for o in f(x) if o.requires_grad]
        slope = autograd.grad(squares(outs), x, create_graph=True)
        (slope * slope).sum().backward(inputs=[x])
        refs = [weakref.ref(t) for t in (x, slope, *outs)]
        del x, slope, outs
        assert [r() for r in refs] == [None] * len(refs)
    finally:
        gc.enable()


# --- awkward matrices ------------------------------------------------------------------------------


@pytest.mark.parametrize(("uplo", "row", "column"), [("L", 0, 2), ("U", 2, 0)])
def test_the_triangle_that_is_not_read_may_hold_anything(uplo, row, column):
    whole = SYMMETRIC + W33 + W33.T
    spoilt = whole.copy()
    spoilt[row, column] = np.nan
    for f in (linalg.eigvalsh, lambda a, u: linalg.eigh(a, u).eigenvalues):
        x = tensor(spoilt).requires_grad_()
        found = f(x, uplo)
        np.testing.assert_allclose(found.detach(), np.linalg.eigvalsh(whole))
        np.testing.assert_allclose(autograd.grad(found.sum(), x), EYE, atol=1e-12)
    with pytest.raises(linalg.LinAlgError, match="inf or nan"):
        linalg.eigvalsh(tensor(spoilt), "U" if uplo == "L" else "L")


def test_a_factor_with_a_zero_has_no_inverse():
    factor = lucid.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [5.0, 0.0]]])
    with pytest.raises(linalg.LinAlgError, match=r"batch element 1\) L\[2, 2\] is zero"):
        lucid.cholesky_inverse(factor)
    with pytest.raises(linalg.LinAlgError, match="zero"):
        func.vmap(lucid.cholesky_inverse)(factor)


@pytest.mark.parametrize(("scale", "dtype"), [(1e200, "float64"), (1e-200, "float64"), (1e25, "float32")])
def test_singular_vectors_at_the_ends_of_the_range(scale, dtype):
    """Vectors do not change with the scale, and squares of singular values would overflow."""

    def slope(factor, dtype):
        x = lucid.tensor((SQUARE * factor).astype(dtype)).requires_grad_()
        u, _, vh = linalg.svd(x)
        pair = (u[:, :1] @ vh[:1]) * lucid.tensor(W33.astype(dtype))
        return np.asarray(autograd.grad(pair.sum(), x)).astype(float) * factor

    np.testing.assert_allclose(slope(scale, dtype), slope(1.0, "float64"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_equal_eigenvalues(scale):
    """What does not depend on the choice of vectors has its derivative; the vectors have none."""
    x = (tensor(EYE) * scale).requires_grad_()
    for f in (linalg.eigvalsh, linalg.svdvals, lambda a: linalg.eigvals(a).real):
        np.testing.assert_allclose(autograd.grad(f(x).sum(), x), EYE, atol=1e-12)
    vectors = linalg.eigh(x).eigenvectors
    assert not np.isfinite(np.asarray(autograd.grad((vectors**2)[0].sum() * vectors[1, 0], x))).all()
