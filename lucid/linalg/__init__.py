"""Linear algebra: norms, factorizations, solvers and eigenvalues, all with derivatives."""

from lucid.backends.numpy import linalg as _kernels  # noqa: F401 -- they fill the table
from lucid.linalg.determinants import det, slogdet
from lucid.linalg.eigen import eig, eigh, eigvals, eigvalsh, svd, svdvals
from lucid.linalg.factorizations import (
    cholesky,
    cholesky_ex,
    cholesky_inverse,
    cholesky_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    lu_unpack,
)
from lucid.linalg.indefinite import ldl_factor, ldl_factor_ex, ldl_solve
from lucid.linalg.least_squares import lstsq, matrix_rank, pinv
from lucid.linalg.matrices import LinAlgError
from lucid.linalg.norms import cond, matrix_norm, norm, vector_norm
from lucid.linalg.orthogonal import householder_product, qr
from lucid.linalg.powers import matrix_exp, matrix_power, vander
from lucid.linalg.products import cross, diagonal, matmul, multi_dot, vecdot
from lucid.linalg.solvers import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
from lucid.linalg.triangular import solve_triangular
from lucid.ops.out import takes_out as _takes_out

# Those to which PyTorch gives no `out=`.
_WITHOUT_OUT = "LinAlgError diagonal lstsq matrix_exp vander"

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "lu_unpack",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

globals().update({_name: _takes_out(globals()[_name]) for _name in __all__ if _name not in _WITHOUT_OUT.split()})
