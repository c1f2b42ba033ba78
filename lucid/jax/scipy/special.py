"""`jax.scipy.special`: SciPy's functions, by `lucid.special`.

>>> import lucid.jax as jax
>>> jax.scipy.special.gammaln(5.0).round(3), jax.scipy.special.expit(0.0)
(Array(3.178, dtype=float32), Array(0.5, dtype=float32))
"""

from functools import wraps
from typing import Any

from lucid.api import names
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.jax.nn import log_softmax as log_softmax
from lucid.jax.nn import logsumexp as logsumexp
from lucid.jax.nn import softmax as softmax
from lucid.ops import binary, unary

_ROWS = {**names.special(), **names.of_scipy()}
_OWN = "factorial kl_div log_softmax logsumexp multigammaln poch polygamma rel_entr softmax".split()
__all__ = sorted({*_ROWS, *_OWN})


def __getattr__(name: str) -> Any:
    if name not in _ROWS:
        raise AttributeError(f"module 'jax.scipy.special' has no attribute {name!r}")
    function = _ROWS[name].function()

    @wraps(function)
    def call(*args: Any) -> Any:
        return DOOR.adopted(function(*(lift(DOOR.array(a)) for a in args)))

    globals()[name] = call
    return call


def polygamma(n: Any, x: Any) -> Any:
    """A derivative of digamma."""
    return DOOR.adopted(unary.polygamma(int(n), lift(DOOR.array(x))))


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the gamma function of matrices."""
    return DOOR.adopted(names.special()["multigammaln"].function()(lift(DOOR.array(a)), d))


def rel_entr(p: Any, q: Any) -> Any:
    """p · log(p / q), 0 where p is."""
    x, y = (lift(DOOR.array(v)) for v in (p, q))
    return binary.xlogy(x, x) - binary.xlogy(x, y)


def kl_div(p: Any, q: Any) -> Any:
    """p · log(p / q) - p + q."""
    x, y = (lift(DOOR.array(v)) for v in (p, q))
    return rel_entr(x, y) - x + y


def factorial(n: Any, exact: bool = False) -> Any:
    """The gamma function of n + 1."""
    return unary.exp(unary.lgamma(lift(DOOR.array(n)) + 1.0))


def poch(z: Any, m: Any) -> Any:
    """The quotient of the gamma functions of z + m and z."""
    x = lift(DOOR.array(z))
    return unary.exp(unary.lgamma(x + m) - unary.lgamma(x))


def __dir__() -> list[str]:
    return __all__
