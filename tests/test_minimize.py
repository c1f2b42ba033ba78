"""lucid.optim.minimize: all of SciPy's methods, on nests, with constraints whose derivatives nobody has to write."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, OptimizeResult

import lucid
from lucid.optim import minimize

METHODS = [
    "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP", "trust-constr",
    "dogleg", "trust-ncg", "trust-exact", "trust-krylov",
]  # fmt: skip


def bowl(x):
    """Convex, with its minimum at (1, -2, 0.5)."""
    d = x - lucid.tensor([1.0, -2.0, 0.5], dtype=lucid.float64)
    return (d**2 * lucid.tensor([1.0, 3.0, 2.0], dtype=lucid.float64)).sum() + (d**4).sum()


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def start():
    return lucid.tensor([0.3, -1.0, 2.0], dtype=lucid.float64)


@pytest.mark.parametrize("method", [*METHODS, None])
def test_every_method_finds_the_minimum(method):
    found = minimize(bowl, start(), method=method, tol=1e-8)
    assert found.success
    assert isinstance(found, OptimizeResult)
    assert isinstance(found.x, lucid.Tensor)
    np.testing.assert_allclose(found.x.numpy(), [1.0, -2.0, 0.5], atol=1e-2)
    assert found.fun == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-exact", "trust-ncg", "BFGS", "L-BFGS-B"])
def test_exact_derivatives_lead_through_a_narrow_valley(method):
    found = minimize(rosenbrock, lucid.tensor([-1.2, 1.0], dtype=lucid.float64), method=method, tol=1e-10)
    np.testing.assert_allclose(found.x.numpy(), 1.0, atol=1e-5)


def test_second_derivatives_are_exact():
    """On a quadratic, one Newton step is enough; and the Hessian is evaluated by nobody else."""
    matrix = lucid.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=lucid.float64)
    line = lucid.tensor([1.0, -1.0], dtype=lucid.float64)
    found = minimize(
        lambda x: 0.5 * x @ matrix @ x - line @ x,
        lucid.tensor([5.0, 5.0]),
        method="trust-exact",
        initial_trust_radius=99,
    )
    assert found.nit <= 2
    np.testing.assert_allclose(found.hess, matrix.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found.x.numpy(), np.linalg.solve(matrix.numpy(), line.numpy()), rtol=1e-6)


def test_no_gradient_is_estimated_by_differences():
    calls = []

    def counted(x):
        calls.append(1)
        return bowl(x)

    found = minimize(counted, start(), method="BFGS")
    assert len(calls) == found.nfev == found.njev


class Line(NamedTuple):
    slope: lucid.Tensor
    offset: lucid.Tensor


def test_nests_keep_their_structure_and_types():
    x = lucid.tensor([0.0, 1.0, 2.0, 3.0])
    y = 2.0 * x - 1.0
    nest = {"line": Line(lucid.tensor(0.0), lucid.tensor([0.0], dtype=lucid.float64)), "bias": [0, np.zeros((1, 2))]}

    def loss(p):
        assert p["line"].slope.dtype is lucid.float64
        fit = p["line"].slope * x + p["line"].offset
        return ((fit - y) ** 2).mean() + (p["bias"][0] - 3) ** 2 + ((p["bias"][1] - 4) ** 2).sum()

    found = minimize(loss, nest, method="BFGS").x
    assert isinstance(found["line"], Line)
    assert found["line"].slope.dtype is lucid.float32
    assert found["line"].offset.dtype is lucid.float64 and found["line"].offset.shape == (1,)
    assert found["line"].slope.item() == pytest.approx(2.0, abs=1e-4)
    assert found["line"].offset.item() == pytest.approx(-1.0, abs=1e-4)
    assert found["bias"][0].item() == pytest.approx(3.0, abs=1e-4)
    np.testing.assert_allclose(found["bias"][1].numpy(), [[4.0, 4.0]], atol=1e-4)
    assert nest["line"].slope.item() == 0.0


@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC", "SLSQP", "trust-constr", "Nelder-Mead", "Powell", "COBYQA"])
@pytest.mark.parametrize("bounds", [[(0, 0.5), (None, None), (1.0, 2.0)], Bounds([0, -9, 1.0], [0.5, 9, 2.0])])
def test_bounds(method, bounds):
    found = minimize(bowl, lucid.tensor([0.2, -1.0, 1.5], dtype=lucid.float64), method=method, bounds=bounds)
    np.testing.assert_allclose(found.x.numpy(), [0.5, -2.0, 1.0], atol=1e-2)


def on_the_circle(p):
    return p["x"] ** 2 + p["y"] ** 2 - 2


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYQA"])
@pytest.mark.parametrize(
    "constraint",
    [
        {"type": "eq", "fun": on_the_circle},
        NonlinearConstraint(on_the_circle, 0, 0),
        [{"type": "eq", "fun": lambda p, r: p["x"] ** 2 + p["y"] ** 2 - r, "args": (2,)}],
    ],
    ids=["dict", "NonlinearConstraint", "args"],
)
def test_constraints_on_nests(method, constraint):
    nest = {"x": lucid.tensor(2.0, dtype=lucid.float64), "y": lucid.tensor(0.5, dtype=lucid.float64)}
    found = minimize(lambda p: p["x"] + p["y"], nest, method=method, constraints=constraint)
    assert found.x["x"].item() == pytest.approx(-1.0, abs=1e-3)
    assert found.x["y"].item() == pytest.approx(-1.0, abs=1e-3)


def test_linear_constraints_pass_through():
    found = minimize(bowl, start(), method="SLSQP", constraints=LinearConstraint([[1.0, 1.0, 1.0]], 2.0, 2.0))
    assert found.x.sum().item() == pytest.approx(2.0, abs=1e-6)


def test_several_values_in_one_constraint():
    def inside(x):
        return lucid.stack([1 - x[0], x[1] + 1])

    found = minimize(bowl, start(), method="SLSQP", constraints={"type": "ineq", "fun": inside})
    np.testing.assert_allclose(found.x.numpy(), [1.0, -1.0, 0.5], atol=1e-3)


@pytest.mark.parametrize("method", ["BFGS", "Nelder-Mead", "TNC", "SLSQP", "trust-constr", "COBYLA", "Newton-CG"])
def test_progress_is_reported_in_the_users_structure(method):
    seen = []
    minimize(lambda p: bowl(p["x"]), {"x": start()}, method=method, callback=seen.append)
    assert len(seen) > 1
    assert seen[-1].x["x"].shape == (3,)
    assert seen[-1].fun == pytest.approx(bowl(seen[-1].x["x"]).item())
    assert seen[-1].fun <= seen[0].fun


def test_a_callback_can_end_the_search():
    def stop(intermediate):
        raise StopIteration

    found = minimize(rosenbrock, start(), method="BFGS", callback=stop)
    assert found.nit == 1


def test_arguments_and_options_are_passed_on():
    found = minimize(lambda x, a: ((x - a) ** 2).sum(), lucid.zeros(2), (3.0,), "BFGS")
    np.testing.assert_allclose(found.x.numpy(), 3.0, rtol=1e-5)
    assert minimize(rosenbrock, start(), method="BFGS", maxiter=2).nit == 2


def test_what_is_trained_elsewhere_is_left_alone():
    x = start().requires_grad_()
    found = minimize(bowl, x)
    assert x.grad is None and not found.x.requires_grad
    with lucid.no_grad():
        assert minimize(bowl, x, method="trust-ncg").success


def test_functions_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"must return one number, but its result has shape \(3,\)"):
        minimize(lambda x: x, start())
    with pytest.raises(ValueError, match="x0 contains no tensors"):
        minimize(lambda x: 0.0, {})
    with pytest.raises(TypeError, match="x0 must be real"):
        minimize(lambda x: abs(x).sum(), lucid.tensor([1j]))
    with pytest.raises(ValueError, match="Unknown solver"):
        minimize(bowl, start(), method="guess")


def test_constant_functions_are_fine():
    assert minimize(lambda x: 3.0, start()).fun == 3.0
