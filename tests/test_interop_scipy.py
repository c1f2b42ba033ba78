"""SciPy with tensors: optimizers fed by lucid's derivatives, and functions that take arrays of any library."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy_cases

import lucid
from lucid.func import grad, hessian, jacrev, jvp

FLOATS = {"dtype": lucid.float64}


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def on_arrays(function):
    """A function of tensors as SciPy calls it."""
    return lambda x, *rest: np.asarray(function(lucid.from_numpy(np.array(x)), *rest))


START = np.array([-1.2, 1.0, 0.8])


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "SLSQP"])
def test_minimize_with_gradients(method):
    found = scipy.optimize.minimize(on_arrays(rosenbrock), START, jac=on_arrays(grad(rosenbrock)), method=method)
    np.testing.assert_allclose(found.x, 1, atol=1e-3)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-exact", "trust-ncg"])
def test_minimize_with_hessians(method):
    settings = {"jac": on_arrays(grad(rosenbrock)), "hess": on_arrays(hessian(rosenbrock)), "method": method}
    np.testing.assert_allclose(scipy.optimize.minimize(on_arrays(rosenbrock), START, **settings).x, 1, atol=1e-3)


def test_minimize_with_hessian_products():
    def product(x, v):
        return jvp(grad(rosenbrock), (x,), (lucid.from_numpy(np.array(v)),))[1]

    found = scipy.optimize.minimize(
        on_arrays(rosenbrock), START, jac=on_arrays(grad(rosenbrock)), hessp=on_arrays(product), method="trust-krylov"
    )
    np.testing.assert_allclose(found.x, 1, atol=1e-3)


def test_value_and_gradient_together():
    def both(x):
        t = lucid.tensor(x, requires_grad=True)
        loss = rosenbrock(t)
        loss.backward()
        return loss.item(), np.asarray(t.grad)

    np.testing.assert_allclose(scipy.optimize.minimize(both, START, jac=True).x, 1, atol=1e-4)


def test_least_squares_and_root():
    t = lucid.linspace(0, 1, 20, **FLOATS)
    data = 2.0 * lucid.exp(-1.5 * t) + 0.3

    def residuals(p):
        return p[0] * lucid.exp(-p[1] * t) + p[2] - data

    found = scipy.optimize.least_squares(on_arrays(residuals), [1.0, 1.0, 0.0], jac=on_arrays(jacrev(residuals)))
    np.testing.assert_allclose(found.x, [2.0, 1.5, 0.3], rtol=1e-6)
    assert found.njev < 50

    def system(x):
        return lucid.stack([x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1, 0.5 * (x[1] - x[0]) ** 3 + x[1]])

    solved = scipy.optimize.root(on_arrays(system), [0.0, 0.0], jac=on_arrays(jacrev(system)))
    np.testing.assert_allclose(system(lucid.tensor(solved.x)), 0, atol=1e-10)


def test_tensors_as_arguments():
    """Where SciPy asks for arrays, tensors are arrays."""
    found = scipy.optimize.minimize(on_arrays(rosenbrock), lucid.tensor(START), jac=on_arrays(grad(rosenbrock)))
    np.testing.assert_allclose(found.x, 1, atol=1e-4)
    a, b = lucid.tensor([[3.0, 1.0], [1.0, 2.0]], **FLOATS), lucid.tensor([9.0, 8.0], **FLOATS)
    np.testing.assert_allclose(scipy.linalg.solve(a, b), [2, 3])
    path = scipy.integrate.solve_ivp(lambda t, y: -lucid.tensor(y), (0, 1), lucid.tensor([1.0]), rtol=1e-8)
    np.testing.assert_allclose(path.y[0, -1], np.exp(-1), rtol=1e-6)


# --- functions that take arrays of any library ----------------------------------------------------


@pytest.fixture(scope="module")
def reports():
    return scipy_cases.reports_of(scipy_cases.__file__)


@pytest.mark.parametrize("name", sorted(scipy_cases.CASES))
def test_function_of_any_array(name, reports):
    assert reports[name] == "ok"


def test_a_wrong_gradient_is_noticed():
    with pytest.raises(AssertionError):
        scipy_cases.check_gradient(lambda xp, a: a([1.0, 2.0]).detach() * a([3.0, 4.0]))
    with pytest.raises(AssertionError):
        scipy_cases.check_values(lambda xp, a: a([1.0]) * (1 if xp is np else 2))
