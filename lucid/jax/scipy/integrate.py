"""`jax.scipy.integrate`: sums of samples.

>>> import lucid.jax as jax, lucid.jax.numpy as jnp
>>> jax.scipy.integrate.trapezoid(jnp.array([1.0, 2.0, 3.0]), dx=2.0)
Array(8., dtype=float32)
"""

from lucid.jax.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]
