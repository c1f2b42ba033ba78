"""`jax.scipy`: special functions, distributions, linear algebra, signals, images, sums and minima."""

from lucid.jax.scipy import integrate as integrate
from lucid.jax.scipy import linalg as linalg
from lucid.jax.scipy import ndimage as ndimage
from lucid.jax.scipy import optimize as optimize
from lucid.jax.scipy import signal as signal
from lucid.jax.scipy import special as special
from lucid.jax.scipy import stats as stats

__all__ = ["integrate", "linalg", "ndimage", "optimize", "signal", "special", "stats"]
