"""SciPy's minimizers with exact derivatives."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from lucid.autograd.modes import no_grad
from lucid.core import tree
from lucid.core.dtypes import float64
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.func import grad as gradient_of
from lucid.func import hessian, jacrev, jvp, value_and_grad

# What each method is given: only values, gradients too, and products with the Hessian or all of it.
_VALUES_ONLY = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
_HESSIAN_PRODUCTS = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
_WHOLE_HESSIAN = frozenset({"dogleg", "trust-exact"})


def _scipy() -> Any:
    """SciPy's minimizers, loaded when they are needed."""
    return import_module("scipy.optimize")


class _Flattening:
    """A nest of tensors as one vector of doubles, and back."""

    def __init__(self, nest: Any) -> None:
        leaves, self.structure = tree.flatten(nest)
        tensors = [lift(leaf) for leaf in leaves]
        if not tensors:
            raise ValueError("minimize: x0 contains no tensors")
        for t in tensors:
            if t.is_complex():
                raise TypeError(
                    "minimize: x0 must be real; minimize over the real and imaginary parts of complex values"
                )
        self.shapes = [t.shape for t in tensors]
        self.types = [t.dtype if t.is_floating_point() else float64 for t in tensors]
        self.bounds = np.cumsum([0, *(t.numel() for t in tensors)]).tolist()
        self.start = self.joined([t._concrete("minimize") for t in tensors])

    def joined(self, arrays: list[Any]) -> Any:
        return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in arrays])

    def pieces(self, vector: Any) -> list[Any]:
        """The stretches of a vector, an array or a tensor, in the shapes of the leaves."""
        ends = zip(self.bounds, self.bounds[1:], self.shapes, strict=False)
        return [vector[a:b].reshape(shape) for a, b, shape in ends]

    def nest(self, vector: Any) -> Any:
        """A vector in the structure that was given, in doubles."""
        pieces = self.pieces(vector)
        return self.structure.unflatten(
            pieces if isinstance(vector, Tensor) else [Tensor._wrap(np.array(p, np.float64)) for p in pieces]
        )

    def result(self, vector: Any) -> Any:
        """A vector in the structure and the types that were given."""
        tensors = [Tensor._wrap(np.array(p, np.float64)) for p in self.pieces(vector)]
        return self.structure.unflatten([t.to(kind) for t, kind in zip(tensors, self.types, strict=True)])

    def vector(self, nest: Any) -> Any:
        """A nest of tensors as one array."""
        return self.joined([t._concrete("minimize") for t in tree.flatten(nest)[0]])


class _Objective:
    """A function of a nest as functions of a vector: its value, gradient, Hessian, and products with that."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], flat: _Flattening) -> None:
        self.flat = flat
        self._function, self._args = function, args
        self.last: tuple[Any, float] | None = None

    def function(self, nest: Any) -> Tensor:
        """The value as a double."""
        value = lift(self._function(nest, *self._args))
        if value.numel() != 1:
            raise ValueError(f"minimize: the function must return one number, but its result has shape {value.shape}")
        return value.reshape(()).to(float64)

    def _noted(self, x: Any, value: Tensor) -> float:
        self.last = np.array(x), float(value.item())
        return self.last[1]

    def value(self, x: Any) -> float:
        with no_grad():
            return self._noted(x, self.function(self.flat.nest(x)))

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        value, gradient = value_and_grad(self.function)(self.flat.nest(x))
        return self._noted(x, value.detach()), self.flat.vector(gradient)

    def hessian_times(self, x: Any, direction: Any) -> Any:
        _, product = jvp(gradient_of(self.function), (self.flat.nest(x),), (self.flat.nest(direction),))
        return self.flat.vector(product)

    def hessian(self, x: Any) -> Any:
        whole = hessian(lambda vector: self.function(self.flat.nest(vector)))
        return np.array(whole(Tensor._wrap(np.array(x, np.float64))).detach())

    def value_seen(self, x: Any) -> float:
        """The value at a place, without computing it again if it was the last one."""
        if self.last is not None and np.array_equal(self.last[0], x):
            return self.last[1]
        return self.value(x)


class _Constraint:
    """A function of a nest that gives one or more numbers, as functions of a vector: values, Jacobian, Hessian."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], flat: _Flattening) -> None:
        self.flat = flat
        self._function, self._args = function, args

    def function(self, vector: Tensor) -> Tensor:
        return lift(self._function(self.flat.nest(vector), *self._args)).reshape(-1).to(float64)

    def values(self, x: Any) -> Any:
        with no_grad():
            return np.array(self.function(_vector(x)).detach())

    def jacobian(self, x: Any) -> Any:
        return np.array(jacrev(self.function)(_vector(x)).detach())

    def hessian(self, x: Any, weights: Any) -> Any:
        """The sum of the Hessians of all values, weighted."""
        factors = _vector(weights)
        return np.array(hessian(lambda vector: (self.function(vector) * factors).sum())(_vector(x)).detach())


def _vector(x: Any) -> Tensor:
    return Tensor._wrap(np.array(x, np.float64))


def _with_derivatives(constraint: Any, method: Any, flat: _Flattening) -> Any:
    """One of SciPy's constraints on a nest as a constraint on a vector, with its derivatives."""
    if isinstance(constraint, dict):
        known = _Constraint(constraint["fun"], tuple(constraint.get("args", ())), flat)
        return {"type": constraint["type"], "fun": known.values, "jac": known.jacobian}
    if isinstance(constraint, _scipy().NonlinearConstraint):
        known = _Constraint(constraint.fun, (), flat)
        given = {"jac": known.jacobian, "keep_feasible": constraint.keep_feasible}
        if _name(method) == "trust-constr":  # the others warn that they have no use for it
            given["hess"] = known.hessian
        return _scipy().NonlinearConstraint(known.values, constraint.lb, constraint.ub, **given)
    return constraint


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    method: str | Callable[..., Any] | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """Find a minimum of `fun` with `scipy.optimize.minimize`, which gets exact derivatives.

    `x0` is a tensor or any nest of tensors, and `fun` takes such a nest and returns one number. Inside everything is in
    double precision. Methods that use gradients, products with the Hessian, or the whole Hessian get those; `options`
    go to the method. The functions in `constraints` (SciPy's dictionaries or NonlinearConstraint) take a nest too, and
    their derivatives are computed as well; bounds and linear constraints are for the elements in the order of the
    flattened nest. `callback` is called after each iteration with a result that has `x` and `fun` so far; it may raise
    StopIteration to end the search.

    Returns SciPy's result, with `x` as a nest like `x0`.

    >>> import lucid
    >>> def rosenbrock(p):
    ...     return (1 - p["a"]) ** 2 + 100 * (p["b"] - p["a"] ** 2) ** 2
    >>> start = {"a": lucid.tensor(-1.0), "b": lucid.tensor(2.0)}
    >>> found = lucid.optim.minimize(rosenbrock, start, method="Newton-CG")
    >>> {name: round(value.item(), 3) for name, value in found.x.items()}
    {'a': 1.0, 'b': 1.0}
    """
    flat = _Flattening(x0)
    objective = _Objective(fun, args, flat)
    listed = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    found = _scipy().minimize(
        x0=flat.start,
        method=method,
        bounds=bounds,
        constraints=[_with_derivatives(c, method, flat) for c in listed],
        tol=tol,
        callback=None if callback is None else _progress(callback, objective),
        options=options or None,
        **_derivatives(objective, method),
    )
    found.x = flat.result(found.x)
    return found


def _name(method: Any) -> str:
    return method.lower() if isinstance(method, str) else ""


def _derivatives(objective: _Objective, method: Any) -> dict[str, Any]:
    """The function with those of its derivatives that a method uses."""
    name = _name(method)
    if name in _VALUES_ONLY:
        return {"fun": objective.value}
    given: dict[str, Any] = {"fun": objective.value_and_gradient, "jac": True}
    if name in _HESSIAN_PRODUCTS or callable(method):
        given["hessp"] = objective.hessian_times
    elif name in _WHOLE_HESSIAN:
        given["hess"] = objective.hessian
    return given


def _progress(callback: Callable[[Any], Any], objective: _Objective) -> Callable[..., Any]:
    def call(xk: Any, *state: Any) -> Any:
        return callback(_scipy().OptimizeResult(x=objective.flat.result(xk), fun=objective.value_seen(xk)))

    return call


__all__ = ["minimize"]
