"""`jax.scipy.optimize`: the minimum of a function, by `lucid.optim.minimize`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.optim.minimization import minimize as _minimize


class OptimizeResults(NamedTuple):
    """Where the search has ended, and how: `status` is SciPy's number, 0 for success."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A minimum of a function of a vector, from `x0`; `method` is "BFGS" or "l-bfgs-experimental-do-not-rely-on-this".

    The search is SciPy's, in double precision and with exact gradients: it runs outside of `jit` and `vmap`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> found = jax.scipy.optimize.minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(2), method="BFGS")
    >>> bool(found.success), found.x.round(3)
    (True, Array([1., 1.], dtype=float32))
    """
    names = {"bfgs": "BFGS", "l-bfgs-experimental-do-not-rely-on-this": "L-BFGS-B"}
    if method.lower() not in names:
        raise ValueError(f"minimize: method must be one of {[*names]}, not {method!r}")
    start = lift(DOOR.array(x0))
    if start.ndim != 1:
        raise ValueError(
            f"minimize: x0 must be a vector, not of shape {start.shape}; see jax.flatten_util.ravel_pytree"
        )
    found = _minimize(fun, start, tuple(args), names[method.lower()], tol=tol, **(options or {}))
    inverse = found.hess_inv if isinstance(found.hess_inv, np.ndarray) else found.hess_inv.todense()
    numbers = [found.success, found.status, found.fun, found.jac, inverse, found.nfev, found.njev, found.nit]
    return OptimizeResults(DOOR.array(found.x), *[DOOR.array(np.asarray(n)) for n in numbers])


__all__ = ["OptimizeResults", "minimize"]
