"""Whole Jacobians, Hessians and their products, against finite differences and closed forms."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid.func import grad, hessian, hvp, jacfwd, jacobian, jacobians, jacrev, jvp, make_graph, vjp, vmap

rng = np.random.default_rng(2)
A = np.array([0.5, -1.2, 2.0])
B = np.array([1.5, 0.3])
M = rng.standard_normal((2, 3))
EPS = 1e-5


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-9):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


def differences(f, x):
    """The Jacobian of f by central differences, with the dimensions of the result before those of x."""
    columns = []
    for i in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[i] += EPS
        behind[i] -= EPS
        columns.append((f(t(ahead)).detach().numpy() - f(t(behind)).detach().numpy()) / (2 * EPS))
    columns = np.stack(columns, axis=-1)
    return columns.reshape((*columns.shape[:-1], *x.shape))


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    weight: Any
    bias: Any = None


FUNCTIONS = {
    "elementwise": lambda x: x.sin() * x,
    "matrix": lambda x: t(M) @ x.exp(),
    "outer": lambda x: x.outer(x**2),
    "number": lambda x: (x**3).sum() * x[0],
    "one element": lambda x: (x**3).sum().reshape(1, 1),
    "long": lambda x: lucid.cat([x, x**2, x.sin(), x.cumsum(0)]),
    "sorted": lambda x: x.sort()[0] * x,
    "linear": lambda x: x.flip(0) * 2,
    "constant in part": lambda x: lucid.cat([x[:1] ** 2, lucid.ones(2, dtype=lucid.float64)]),
    "writes": lambda x: lucid.zeros(2, 3, dtype=lucid.float64).index_copy(0, lucid.tensor([1]), (x**2)[None]),
}
INPUTS = {"vector": A, "matrix": M, "number": np.array(0.7)}
MODES = {"jacrev": jacrev, "jacfwd": jacfwd, "jacobian": jacobian}
modes = pytest.mark.parametrize("jac", MODES.values(), ids=MODES)


@modes
@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_finite_differences(jac, name):
    f = FUNCTIONS[name]
    close(jac(f)(t(A)), differences(f, A), 1e-6)


@modes
@pytest.mark.parametrize("name", INPUTS)
def test_shapes_of_arguments(jac, name):
    x = INPUTS[name]
    for f in (lambda x: x**3, lambda x: (x**2).sum(), lambda x: lucid.stack([x, x.exp()], dim=-1)):
        close(jac(f)(t(x)), differences(f, x), 1e-6)


@modes
@pytest.mark.parametrize("how", [{"chunk_size": 1}, {"chunk_size": 2}, {"chunk_size": 50}, {"chunk_size": "auto"}, {"chunk_size": "auto", "memory": 1}], ids=str)  # fmt: skip
def test_chunks(jac, how):
    f = FUNCTIONS["long"]
    close(jac(f, **how)(t(A)), differences(f, A), 1e-6)
    close(hessian(lambda x: (x**3).sum() * x[0], **how)(t(A)), hessian(lambda x: (x**3).sum() * x[0])(t(A)).numpy())


@modes
def test_argnums(jac):
    def f(x, y):
        return x[:2] ** 2 * y

    dx, dy = np.concatenate([np.diag(2 * A[:2] * B), np.zeros((2, 1))], axis=1), np.diag(A[:2] ** 2)
    close(jac(f)(t(A), t(B)), dx)
    close(jac(f, argnums=1)(t(A), t(B)), dy)
    close(jac(f, argnums=-1)(t(A), t(B)), dy)
    got = jac(f, argnums=(1, 0))(t(A), t(B))
    assert type(got) is tuple
    close(got[0], dy)
    close(got[1], dx)
    (only,) = jac(f, argnums=(0,))(t(A), t(B))
    close(only, dx)


@modes
def test_nests(jac):
    def f(d):
        return Pair({"p": d["a"] * 2, "q": [d["r"].weight.sum(), None]}, d["a"].outer(d["r"].weight))

    got = jac(f)({"a": t(A), "r": Record(t(B))})
    assert type(got) is Pair
    close(got.first["p"]["a"], 2 * np.eye(3))
    close(got.first["p"]["r"].weight, np.zeros((3, 2)))
    close(got.first["q"][0]["a"], np.zeros(3))
    close(got.first["q"][0]["r"].weight, np.ones(2))
    assert got.first["q"][1] is None and type(got.first["p"]["r"]) is Record and got.first["p"]["r"].bias is None
    close(got.second["a"], np.einsum("ik,j->ijk", np.eye(3), B))
    close(got.second["r"].weight, np.einsum("jk,i->ijk", np.eye(2), A))


@modes
def test_has_aux(jac):
    got, aux = jac(lambda x: (x**2, {"sum": x.sum(), "twice": x * 2}), has_aux=True)(t(A))
    close(got, np.diag(2 * A))
    close(aux["sum"], A.sum())
    close(aux["twice"], 2 * A)
    with pytest.raises(TypeError, match="pair"):
        jac(lambda x: x, has_aux=True)(t(A))


@modes
def test_aux_of_any_kind(jac):
    _, aux = jac(lambda x: (x**2, "text"), has_aux=True)(t(A))
    assert aux == "text"


@modes
def test_keyword_arguments(jac):
    close(jac(lambda x, *, k: x**k)(t(A), k=3), np.diag(3 * A**2))


@modes
def test_several_results(jac):
    got = jac(lambda x: (x**2, x.sum(), x[:0]))(t(A))
    assert type(got) is tuple
    close(got[0], np.diag(2 * A))
    close(got[1], np.ones(3))
    close(got[2], np.zeros((0, 3)))


@modes
def test_empty_arguments(jac):
    close(jac(lambda x: x * 2)(t(np.zeros(0))), np.zeros((0, 0)))
    close(jac(lambda x: lucid.ones(2, dtype=lucid.float64) * x.sum())(t(np.zeros(0))), np.zeros((2, 0)))


@modes
def test_integer_results_are_refused(jac):
    with pytest.raises(TypeError, match="int64"):
        jac(lambda x: x.argsort())(t(A))


@modes
def test_results_must_be_tensors(jac):
    with pytest.raises(TypeError):
        jac(lambda x: 1.0)(t(A))


@modes
def test_complex(jac):
    """The Jacobian of a holomorphic function is its derivative, in every mode."""
    z = np.array([1 + 2j, 0.5 - 1j])
    close(jac(lambda z: z**3)(lucid.tensor(z)), np.diag(3 * z**2))
    close(jac(lambda z: z.sum() ** 2)(lucid.tensor(z)), np.full(2, 2 * z.sum()))


@modes
def test_complex_functions_of_real_numbers(jac):
    """Nothing of the result is lost."""
    close(jac(lambda x: x**2 * (1 + 2j))(t(A)), np.diag(2 * A * (1 + 2j)))


@modes
def test_composes(jac):
    f = lambda x: x**3 * x[0]
    want = differences(f, A)
    close(vmap(jac(f))(t(np.stack([A, 2 * A]))), np.stack([want, 8 * want]), 1e-5)
    close(grad(lambda x: jac(f)(x).sum())(t(A)), differences(lambda x: jac(f)(x).sum(), A), 1e-5)
    close(jvp(jac(f), (t(A),), (t(A),))[1], differences(jac(f), A) @ A, 1e-5)
    close(make_graph(jac(f))(t(2 * A))(t(A)), want, 1e-6)
    for other in MODES.values():
        close(other(jac(f))(t(A)), differences(jac(f), A), 1e-5)


@modes
def test_differentiable_by_what_is_closed_over(jac):
    w = t(A, requires_grad=True)
    jac(lambda x: x**2 * w)(t(A)).sum().backward()
    close(w.grad, 2 * A)


@modes
def test_the_function_runs_once_or_batched(jac):
    calls = []

    def f(x):
        calls.append(x.shape)
        return x**2

    jac(f)(t(A))
    assert len(calls) == (1 if jac is not jacobian else len(calls)) and len(calls) <= 2


@pytest.mark.parametrize(("outputs", "rows"), [(2, 2), (5, 5), (6, 6), (20, 6)])
def test_jacobian_takes_the_cheaper_mode(monkeypatch, outputs, rows):
    """With 6 elements in the arguments, never more than 6 derivatives in a batch."""
    sizes = []

    def spy(f, *args, **kwargs):
        batched = vmap(f, *args, **kwargs)

        def call(*tensors):
            sizes.append(tensors[0].shape[0])
            return batched(*tensors)

        return call

    monkeypatch.setattr(jacobians, "vmap", spy)
    m, x = rng.standard_normal((outputs, 6)), rng.standard_normal((2, 3))
    close(jacobian(lambda x: t(m) @ x.reshape(6))(t(x)), m.reshape(outputs, 2, 3))
    assert sizes == [rows]


def test_jacobian_of_a_number_needs_no_batch(monkeypatch):
    monkeypatch.setattr(jacobians, "vmap", lambda *a, **k: pytest.fail("one row needs no batch"))
    close(jacobian(lambda x: (x**2).sum())(t(A)), 2 * A)
    close(jacrev(lambda x: (x**2).sum().reshape(1))(t(A)), 2 * A[None])


def test_the_batches_are_chunked(monkeypatch):
    sizes = []

    def f(x):
        y = x * 2
        if hasattr(y._array, "shape") and type(y).__name__ != "Tensor":
            sizes.append(y.shape)
        return lucid.cat([y, y])

    close(jacfwd(f, chunk_size=2)(t(A)), 2 * np.concatenate([np.eye(3), np.eye(3)]))
    assert len(sizes) == 2


# Hessians.

SCALARS = {
    "cubic": (lambda x: (x**3).sum(), lambda x: np.diag(6 * x)),
    "product": (lambda x: x.prod(), lambda x: np.array([[0, x[2], x[1]], [x[2], 0, x[0]], [x[1], x[0], 0]])),
    "exp of sum": (lambda x: x.sum().exp(), lambda x: np.full((3, 3), np.exp(x.sum()))),
    "quadratic": (lambda x: x @ t(M.T @ M) @ x, lambda x: 2 * M.T @ M),
    "logsumexp": (lambda x: x.logsumexp(0), lambda x: np.diag(s(x)) - np.outer(s(x), s(x))),
    "linear": (lambda x: x.sum(), lambda x: np.zeros((3, 3))),
    "norm": (lambda x: x.norm(), lambda x: np.eye(3) / np.linalg.norm(x) - np.outer(x, x) / np.linalg.norm(x) ** 3),
    "max": (lambda x: (x**2).max() * x[0], lambda x: np.array([[0, 0, 2 * x[2]], [0, 0, 0], [2 * x[2], 0, 2 * x[0]]])),
}


def s(x):
    return np.exp(x) / np.exp(x).sum()


scalars = pytest.mark.parametrize("name", SCALARS)


@scalars
def test_hessian(name):
    f, want = SCALARS[name]
    close(hessian(f)(t(A)), want(A))


@scalars
@pytest.mark.parametrize("inner", MODES.values(), ids=MODES)
@pytest.mark.parametrize("outer", MODES.values(), ids=MODES)
def test_hessian_in_every_pair_of_modes(name, outer, inner):
    f, want = SCALARS[name]
    close(outer(inner(f))(t(A)), want(A))


@scalars
def test_hvp(name):
    f, want = SCALARS[name]
    v = np.array([1.0, -0.5, 2.0])
    close(hvp(f, (t(A),), (t(v),)), want(A) @ v)
    close(vjp(grad(f), t(A))[1](t(v))[0], want(A) @ v)


@scalars
def test_third_derivatives(name):
    f, want = SCALARS[name]
    got = jacfwd(hessian(f))(t(A))
    steps = [(want(A + EPS * e) - want(A - EPS * e)) / (2 * EPS) for e in np.eye(3)]
    close(got, np.stack(steps, axis=-1), 1e-5)


def test_hessian_of_several_arguments():
    f = lambda x, y: (x[:2] ** 2 * y).sum() + y.prod()
    got = hessian(f, argnums=(0, 1))(t(A), t(B))
    xx = np.diag([2 * B[0], 2 * B[1], 0])
    xy = np.array([[2 * A[0], 0], [0, 2 * A[1]], [0, 0]])
    close(got[0][0], xx)
    close(got[0][1], xy)
    close(got[1][0], xy.T)
    close(got[1][1], [[0, 1], [1, 0]])
    close(hessian(f, argnums=1)(t(A), t(B)), [[0, 1], [1, 0]])


def test_hessian_of_nests():
    got = hessian(lambda d: (d["a"] ** 2).sum() * d["b"].sum())({"a": t(A), "b": t(B)})
    close(got["a"]["a"], 2 * B.sum() * np.eye(3))
    close(got["a"]["b"], np.outer(2 * A, np.ones(2)))
    close(got["b"]["a"], np.outer(np.ones(2), 2 * A))
    close(got["b"]["b"], np.zeros((2, 2)))


def test_hessians_of_a_vector_function():
    got = hessian(lambda x: lucid.stack([(x**3).sum(), x.prod()]))(t(A))
    close(got, np.stack([SCALARS["cubic"][1](A), SCALARS["product"][1](A)]))


def test_hessian_of_a_batch():
    close(vmap(hessian(SCALARS["product"][0]))(t(np.stack([A, 2 * A]))), np.stack([SCALARS["product"][1](A), SCALARS["product"][1](2 * A)]))  # fmt: skip


def test_hvp_of_several_arguments_and_nests():
    f = lambda x, y: (x[:2] ** 2 * y).sum()
    gx, gy = hvp(f, (t(A), t(B)), (t(np.ones(3)), t(np.ones(2))))
    close(gx, [2 * B[0] + 2 * A[0], 2 * B[1] + 2 * A[1], 0])
    close(gy, 2 * A[:2])
    got = hvp(lambda d: (d["a"] ** 3).sum(), ({"a": t(A)},), ({"a": t(A)},))
    close(got["a"], 6 * A * A)


def test_hvp_refusals():
    with pytest.raises(TypeError, match="tuple"):
        hvp(lambda x: (x**2).sum(), t(A), t(A))
    with pytest.raises((TypeError, ValueError), match=r"hvp|tangent|primals"):
        hvp(lambda x: (x**2).sum(), (t(A),), (t(B),))
    with pytest.raises(ValueError, match="one number"):
        hvp(lambda x: x**2, (t(A),), (t(A),))


def test_large_jacobians_agree():
    """More rows than a chunk, and a function with every category of operation."""
    w = rng.standard_normal((7, 9))

    def f(x):
        h = (t(w) @ x).tanh()
        return lucid.cat([h.cumsum(0), (h[:, None] * x).sum(1), h.max(0, keepdim=True)[0], x[1:] * x[:-1]])

    x = rng.standard_normal(9)
    want = jacfwd(f)(t(x)).numpy()
    np.testing.assert_allclose(want, differences(f, x), atol=1e-6)
    for jac in (jacrev, jacobian, lambda f: jacrev(f, chunk_size=4), lambda f: jacfwd(f, chunk_size=4)):
        close(jac(f)(t(x)), want)


def test_a_real_result_beside_a_complex_one_has_the_jacobian_it_has_alone():
    z, x = (lucid.tensor(v) for v in (np.array([1.0 + 2.0j, -0.5 + 0.3j]), np.array([0.5, 2.0])))
    for argnum in (0, 1):
        both = jacrev(lambda z, x: ((z.abs() * x).cumsum(0), z * x), argnums=argnum)(z, x)
        alone = jacrev(lambda z, x: (z.abs() * x).cumsum(0), argnums=argnum)(z, x)
        assert both[0].dtype == alone.dtype
        np.testing.assert_array_equal(both[0].numpy(), alone.numpy())
        np.testing.assert_array_equal(both[1].numpy(), np.diag((x if argnum == 0 else z).numpy()))
