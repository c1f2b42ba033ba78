"""Factorizations, eigenvalues and singular values give what PyTorch gives: values, conventions and gradients."""

# ruff: noqa: N806 -- matrices have the names that PyTorch gives them

import numpy as np
import pytest

import lucid

torch = pytest.importorskip("torch")

# PyTorch calls its older names deprecated, and what its forward mode is made of.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]

RNG = np.random.default_rng(3)
KINDS = ["real", "complex"]


def random(*shape, kind="real"):
    values = RNG.standard_normal(shape)
    return values + 1j * RNG.standard_normal(shape) if kind == "complex" else values


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


def compare(ours, theirs, **tolerance):
    for a, b in zip(parts(ours), parts(theirs), strict=True):
        assert a.shape == tuple(b.shape)
        assert a.dtype.name == str(b.dtype).removeprefix("torch.")
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().resolve_conj().numpy(), **{"rtol": 1e-9, "atol": 1e-10, **tolerance}
        )


def both(function, *arrays):
    """The function with each library, and gradients of its floating-point results under fixed weights."""
    found = []
    for library in (lucid, torch):
        inputs = [library.from_numpy(a.copy()) for a in arrays]
        floats = [x.requires_grad_() for x in inputs if x.is_floating_point() or x.is_complex()]
        results = parts(function(library, *inputs))
        rng = np.random.default_rng(11)
        loss = 0
        for r in results:
            if r.requires_grad:
                loss = loss + (r * library.from_numpy(rng.standard_normal(tuple(r.shape)))).sum().real
        loss.backward()
        found.append((tuple(results), tuple(x.grad for x in floats)))
    (ours, our_grads), (theirs, their_grads) = found
    compare(ours, theirs)
    compare(our_grads, their_grads)


def positive(x):
    return x @ x.mH + 1


SQUARE = {
    "cholesky": lambda lib, x: lib.linalg.cholesky(positive(x)),
    "cholesky_upper": lambda lib, x: lib.linalg.cholesky(positive(x), upper=True),
    "cholesky_ex": lambda lib, x: tuple(lib.linalg.cholesky_ex(positive(x))),
    "old_cholesky": lambda lib, x: lib.cholesky(positive(x)),
    "cholesky_inverse": lambda lib, x: lib.cholesky_inverse(lib.linalg.cholesky(positive(x))),
    "cholesky_solve": lambda lib, x: lib.cholesky_solve(x, lib.linalg.cholesky(positive(x))),
    "eigvalsh": lambda lib, x: lib.linalg.eigvalsh(x + x.mH),
    "eigh": lambda lib, x: _eigh(lib, x + x.mH),
    "eigh_read": lambda lib, x: _eigh(lib, x),
    "eigh_upper": lambda lib, x: lib.linalg.eigh(x, UPLO="U").eigenvalues,
    "eig": lambda lib, x: _eig(lib, x),
    "eigvals": lambda lib, x: lib.linalg.eigvals(x).abs().sum(-1),
    "lu_solve": lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(x), x.mT.clone(), adjoint=True),
    "lu_solve_right": lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(x), x.mT.clone(), left=False),
    "old_lu_solve": lambda lib, x: lib.lu_solve(x.mT.clone(), *lib.lu(x)),
    "solve_triangular": lambda lib, x: lib.linalg.solve_triangular(x, x.mT.clone(), upper=True),
    "triangular_solve": lambda lib, x: tuple(lib.triangular_solve(x.mT.clone(), x, transpose=True)),
}


def _eigh(lib, x):
    values, vectors = lib.linalg.eigh(x)
    return values, vectors.abs()


def _eig(lib, x):
    values, vectors = lib.linalg.eig(x)
    return values.abs(), vectors.abs()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (7, 2, 2)], ids=str)
@pytest.mark.parametrize("name", SQUARE)
def test_of_square_matrices(name, shape, kind):
    both(SQUARE[name], random(*shape, kind=kind))


def _svd(lib, x, full):
    U, S, Vh = lib.linalg.svd(x, full_matrices=full)
    k = min(x.shape[-2:])
    return S, (U[..., :k] * S[..., None, :]) @ Vh[..., :k, :], U[..., :k].abs(), Vh[..., :k, :].abs()


RECTANGULAR = {
    "qr": lambda lib, x: tuple(lib.linalg.qr(x)),
    "old_qr": lambda lib, x: tuple(lib.qr(x)),
    "lu": lambda lib, x: tuple(lib.linalg.lu(x)),
    "lu_factor": lambda lib, x: tuple(lib.linalg.lu_factor(x)),
    "lu_factor_ex": lambda lib, x: tuple(lib.linalg.lu_factor_ex(x)),
    "lu_unpack": lambda lib, x: tuple(lib.lu_unpack(*lib.lu(x))),
    "svd": lambda lib, x: _svd(lib, x, False),
    "svd_full": lambda lib, x: _svd(lib, x, True),
    "svdvals": lambda lib, x: lib.linalg.svdvals(x),
    "old_svd": lambda lib, x: tuple(r.abs() for r in lib.svd(x)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 2)], ids=str)
@pytest.mark.parametrize("name", RECTANGULAR)
def test_of_rectangular_matrices(name, shape, kind):
    both(RECTANGULAR[name], random(*shape, kind=kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 2)], ids=str)
def test_reflections(shape, kind):
    x = random(*shape, kind=kind)
    compare(lucid.geqrf(lucid.from_numpy(x)), tuple(torch.geqrf(torch.from_numpy(x))))
    compare(lucid.linalg.qr(lucid.from_numpy(x), mode="r"), tuple(torch.linalg.qr(torch.from_numpy(x), mode="r")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (2, 4, 2)], ids=str)
def test_products_of_reflections(shape, kind):
    a, tau = random(*shape, kind=kind), random(*shape[:-2], shape[-1], kind=kind)
    other = random(*shape[:-2], shape[-2], 2, kind=kind)
    both(lambda lib, a, tau: lib.linalg.householder_product(a, tau), a, tau)
    for left, transpose in ((True, False), (True, True), (False, False), (False, True)):
        right = other if left else np.swapaxes(other, -1, -2).copy()
        operands = [lucid.from_numpy(v.copy()) for v in (a, tau, right)], [torch.from_numpy(v) for v in (a, tau, right)]
        compare(lucid.ormqr(*operands[0], left, transpose), torch.ormqr(*operands[1], left, transpose))


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_indefinite(kind, hermitian):
    x = random(3, 5, 5, kind=kind)
    x = x + np.swapaxes(np.conj(x) if hermitian else x, -1, -2)
    ours = lucid.linalg.ldl_factor(lucid.from_numpy(x), hermitian=hermitian)
    theirs = torch.linalg.ldl_factor(torch.from_numpy(x), hermitian=hermitian)
    compare(ours, tuple(theirs))
    b = random(3, 5, 2, kind=kind)
    compare(
        lucid.linalg.ldl_solve(*ours, lucid.from_numpy(b), hermitian=hermitian),
        torch.linalg.ldl_solve(*theirs, torch.from_numpy(b), hermitian=hermitian),
    )


ERRORS = {
    "indefinite": lambda lib: lib.linalg.cholesky(-lib.eye(3)),
    "rectangle": lambda lib: lib.linalg.eigh(lib.ones(2, 3)),
    "vector": lambda lib: lib.linalg.svd(lib.ones(3)),
    "integers": lambda lib: lib.linalg.qr(lib.ones(3, 3, dtype=lib.int64)),
    "mode": lambda lib: lib.linalg.qr(lib.ones(3, 3), mode="x"),
    "triangle": lambda lib: lib.linalg.eigh(lib.ones(3, 3), UPLO="x"),
    "nan": lambda lib: lib.linalg.svd(lib.full((2, 2), float("nan"))),
    "infinity": lambda lib: lib.linalg.eig(lib.full((2, 2), float("inf"))),
    "singular": lambda lib: lib.linalg.lu_factor(lib.ones(3, 3)),
    "misfit": lambda lib: lib.linalg.solve_triangular(lib.ones(3, 3), lib.ones(2, 1), upper=True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_same_class(name):
    for lib in (lucid, torch):
        with pytest.raises(RuntimeError):
            ERRORS[name](lib)
    if name == "indefinite":
        with pytest.raises(lucid.linalg.LinAlgError):
            ERRORS[name](lucid)


def test_forward_mode():
    x, t = random(2, 4, 3), random(2, 4, 3)

    def invariants(lib):
        def function(a):
            U, S, Vh = lib.linalg.svd(a, full_matrices=False)
            Q, R = lib.linalg.qr(a)
            L = lib.linalg.cholesky(a.mT @ a)
            return S, U @ Vh, Q, R, L

        return function

    ours = lucid.func.jvp(invariants(lucid), (lucid.from_numpy(x),), (lucid.from_numpy(t),))
    theirs = torch.func.jvp(invariants(torch), (torch.from_numpy(x),), (torch.from_numpy(t),))
    for a, b in zip(ours, theirs, strict=True):
        compare(a, b)
