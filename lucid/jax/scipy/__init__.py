"""`jax.scipy`: special functions, distributions and linear algebra."""

from lucid.jax.scipy import linalg as linalg
from lucid.jax.scipy import special as special
from lucid.jax.scipy import stats as stats

__all__ = ["linalg", "special", "stats"]
