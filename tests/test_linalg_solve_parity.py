"""Solvers, norms and functions of matrices against PyTorch: values, gradients, shapes, types and errors."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lucid  # noqa: E402

INF = math.inf


def arrays(shapes, type, seed=0):
    """Matrices with large diagonals, so that none is nearly singular."""
    rng = np.random.default_rng(seed)
    out = []
    for shape in shapes:
        x = rng.normal(size=shape)
        if type.startswith("complex"):
            x = x + 1j * rng.normal(size=shape)
        if len(shape) > 1:
            x = x + 3 * np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)
        out.append(x.astype(type))
    return out


SQUARE, STACK, TALL, WIDE = (3, 3), (2, 3, 3), (2, 5, 3), (2, 3)
CASES = {
    "det": (lambda t, a: t.linalg.det(a), [SQUARE], [STACK]),
    "slogdet": (lambda t, a: t.linalg.slogdet(a), [SQUARE], [STACK]),
    "logdet": (lambda t, a: t.logdet(a @ a.mH), [SQUARE], [STACK]),
    "inv": (lambda t, a: t.linalg.inv(a), [SQUARE], [STACK], [(2, 0, 0)]),
    "inv_ex": (lambda t, a: t.linalg.inv_ex(a), [SQUARE], [STACK]),
    "solve vector": (lambda t, a, b: t.linalg.solve(a, b), [SQUARE, (3,)], [STACK, (2, 3)], [STACK, (3,)]),
    "solve matrix": (lambda t, a, b: t.linalg.solve(a, b), [SQUARE, WIDE[::-1]], [STACK, (3, 1)]),
    "solve right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [SQUARE, WIDE], [STACK, (5, 1, 2, 3)]),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b), [SQUARE, (3,)], [STACK, (2, 3)]),
    "pinv": (lambda t, a: t.linalg.pinv(a), [SQUARE], [TALL], [WIDE], [(0, 3)]),
    # PyTorch's derivative is that of a matrix whose other singular values are 0.
    "pinv cut": (lambda t, a: t.linalg.pinv(a.detach(), rtol=0.5) + 0 * a.mT, [SQUARE], [TALL]),
    "pinv hermitian": (lambda t, a: t.linalg.pinv(a + a.mH, hermitian=True), [SQUARE]),
    "pinverse": (lambda t, a: t.pinverse(a), [WIDE]),
    "matrix_rank": (lambda t, a: t.linalg.matrix_rank(a, atol=4.0), [SQUARE], [TALL]),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b), [TALL, (2, 5, 2)], [WIDE, (2, 1)], [TALL, (2, 5)]),
    "lstsq gels": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gels"), [TALL, (2, 5, 2)], [WIDE, (2, 1)]),
    "lstsq gelsd": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd"), [TALL, (2, 5, 2)], [WIDE, (2, 1)]),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a * 0.3), [SQUARE], [STACK]),
    **{f"power {n}": (lambda t, a, n=n: t.linalg.matrix_power(a, n), [SQUARE], [STACK]) for n in (0, 1, 2, 5, -1, -3)},
    **{
        f"matrix_norm {o}": (lambda t, a, o=o: t.linalg.matrix_norm(a, o), [SQUARE], [TALL], [WIDE])
        for o in ("fro", "nuc", INF, -INF, 1, -1, 2, -2)
    },
    **{
        f"cond {p}": (lambda t, a, p=p: t.linalg.cond(a, p), [SQUARE], [STACK])
        for p in (None, "fro", "nuc", INF, -INF, 1, -1, 2, -2)
    },
    **{
        f"vector_norm {o}": (lambda t, a, o=o: t.linalg.vector_norm(a, o, dim=-1, keepdim=True), [(3,)], [TALL])
        for o in (0, 0.5, 1, 2, 3.5, INF, -INF, -1)
    },
    "norm": (lambda t, a: t.linalg.norm(a), [SQUARE], [STACK]),
    "norm dims": (lambda t, a: t.linalg.norm(a, "nuc", (2, 0)), [TALL]),
    "norm vector": (lambda t, a: t.linalg.norm(a, 3, 0), [SQUARE]),
    "multi_dot": (lambda t, *a: t.linalg.multi_dot(a), [(3,), (3, 5), (5, 2), (2,)], [WIDE, SQUARE]),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a.reshape(2, 3, 6)), [(6, 6)]),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 6, 3), b, dims=(1,)), [(6, 6), WIDE]),
    "linalg.vander": (lambda t, a: t.linalg.vander(a, N=5), [(3,)], [WIDE]),
    "vander": (lambda t, a: t.vander(a, 2), [(3,)]),
    "vecdot": (lambda t, a, b: t.linalg.vecdot(a, b), [WIDE, (3,)]),
    "cross": (lambda t, a, b: t.linalg.cross(a, b), [WIDE, (1, 3)]),
    "diagonal": (lambda t, a: t.linalg.diagonal(a, offset=1), [TALL]),
}


# Where PyTorch 2.13 has no gradient to compare with: its backward fails on an operand that it overwrote itself, or
# the result is a constant to one of the two.
VALUES_ONLY = {*(f"cond {p}" for p in ("fro", INF, -INF, 1, -1)), "vander", "power 0", "vector_norm 0"}


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def numbers(x):
    return x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else x.detach().numpy()


@pytest.mark.parametrize("type", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, type):
    function, *groups = CASES[name]
    for shapes in groups:
        given = arrays(shapes, type)
        theirs = [torch.tensor(x, requires_grad=True) for x in given]
        ours = [lucid.tensor(x, requires_grad=True) for x in given]
        want, got = flat(function(torch, *theirs)), flat(function(lucid, *ours))
        tolerance = 2e-3 if type == "float32" else 1e-9
        assert len(want) == len(got)
        for w, g in zip(want, got, strict=True):
            assert tuple(w.shape) == g.shape and str(w.dtype).split(".")[1] == g.dtype.name
            np.testing.assert_allclose(numbers(g), numbers(w), tolerance, tolerance)
        if name in VALUES_ONLY:
            continue
        weights = [np.random.default_rng(1).normal(size=g.shape).astype(numbers(g).real.dtype) for g in got]
        loss = [
            sum(
                (o.abs() if o.is_complex() else o).mul(library.tensor(w)).sum()
                for o, w in zip(outs, weights, strict=True)
                if o.requires_grad and o.numel()
            )
            for library, outs in ((torch, want), (lucid, got))
        ]
        if isinstance(loss[0], int):
            continue
        for x in loss:
            x.backward()
        for x, y in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(numbers(y.grad), numbers(x.grad), tolerance * 5, tolerance * 5)


def test_named_results():
    a, b = lucid.eye(3), lucid.ones(3, 2)
    x, y = torch.eye(3), torch.ones(3, 2)
    for ours, theirs in (
        (lucid.linalg.slogdet(a), torch.linalg.slogdet(x)),
        (lucid.linalg.inv_ex(a), torch.linalg.inv_ex(x)),
        (lucid.linalg.solve_ex(a, b), torch.linalg.solve_ex(x, y)),
        (lucid.linalg.lstsq(a, b), torch.linalg.lstsq(x, y)),
    ):
        for name in ours._fields:
            np.testing.assert_allclose(numbers(getattr(ours, name)), numbers(getattr(theirs, name)), 1e-5, 1e-5)


REFUSED = [
    lambda t: t.linalg.inv(t.ones(2, 3)),
    lambda t: t.linalg.inv(t.zeros(2, 2)),
    lambda t: t.linalg.inv(t.ones(2, 2, dtype=t.float16)),
    lambda t: t.linalg.solve(t.zeros(2, 2), t.ones(2)),
    lambda t: t.linalg.solve(t.eye(2), t.ones(2), left=False),
    lambda t: t.linalg.solve(t.eye(2), t.ones(2, dtype=t.float64)),
    lambda t: t.linalg.det(t.ones(2, 2, dtype=t.int64)),
    lambda t: t.linalg.matrix_norm(t.ones(2, 2), 3),
    lambda t: t.linalg.matrix_norm(t.ones(2, 2), "x"),
    lambda t: t.linalg.matrix_norm(t.ones(2, 2), dim=0),
    lambda t: t.linalg.matrix_norm(t.zeros(0, 3), -2),
    lambda t: t.linalg.norm(t.ones(2, 2, 2), "nuc"),
    lambda t: t.linalg.norm(t.ones(2, 2), "fro", dim=0),
    lambda t: t.linalg.vector_norm(t.ones(2), "fro"),
    lambda t: t.linalg.vector_norm(t.ones(0), INF),
    lambda t: t.linalg.vector_norm(t.ones(2), dtype=t.float16),
    lambda t: t.linalg.cond(t.ones(2, 2), 3),
    lambda t: t.linalg.matrix_power(t.ones(2, 2), 0.5),
    lambda t: t.linalg.matrix_power(t.zeros(2, 2), -1),
    lambda t: t.linalg.multi_dot([t.ones(2)]),
    lambda t: t.linalg.vander(t.ones(3), N=1),
    lambda t: t.linalg.tensorinv(t.ones(2, 3)),
    lambda t: t.linalg.lstsq(t.ones(3, 2), t.ones(3, 1), driver="gels"),
    lambda t: t.linalg.lstsq(t.ones(3, 2), t.ones(3, 1), driver="x"),
    lambda t: t.linalg.cross(t.ones(2, 3), t.ones(3)),
]


@pytest.mark.parametrize("call", REFUSED)
def test_errors_have_the_same_class(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    kind = theirs.type
    if issubclass(kind, torch.linalg.LinAlgError):
        kind = lucid.linalg.LinAlgError
    with pytest.raises(kind):
        call(lucid)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_gradient_of_the_determinant_of_singular_matrices(rank):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, rank)) @ rng.normal(size=(rank, 3))
    x, y = torch.tensor(a, requires_grad=True), lucid.tensor(a, requires_grad=True)
    torch.linalg.det(x).backward()
    lucid.linalg.det(y).backward()
    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), 1e-9, 1e-12)
