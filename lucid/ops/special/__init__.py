"""Special functions, most of which SciPy computes.

`lucid.special` loads these declarations, and has the functions that users call.
"""

from lucid.ops.special import bessel as bessel
from lucid.ops.special import entropy as entropy
from lucid.ops.special import gamma_functions as gamma_functions
from lucid.ops.special import normal as normal
from lucid.ops.special import polynomials as polynomials
