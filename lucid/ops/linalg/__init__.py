"""Linear algebra: what LAPACK computes, and how it is differentiated.

`lucid.linalg` loads these declarations, and has the functions that users call.
"""

from lucid.ops.linalg import determinants as determinants
from lucid.ops.linalg import eigen as eigen
from lucid.ops.linalg import factorizations as factorizations
from lucid.ops.linalg import indefinite as indefinite
from lucid.ops.linalg import least_squares as least_squares
from lucid.ops.linalg import orthogonal as orthogonal
from lucid.ops.linalg import powers as powers
from lucid.ops.linalg import solvers as solvers
from lucid.ops.linalg import spectral as spectral
from lucid.ops.linalg import triangular as triangular
