"""Linear algebra: norms, factorizations, solvers and eigenvalues, all with derivatives."""

from lucid.api.contractions import inner as inner
from lucid.api.contractions import outer as outer
from lucid.api.names import public as _public
from lucid.backends.numpy import linalg as _kernels  # noqa: F401 -- they fill the table
from lucid.native import compiled_first as _compiled_first
from lucid.ops.contraction import dot as dot

_compiled_first(__path__, "linalg")

from lucid.arguments.out import takes_out as _takes_out
from lucid.linalg.determinants import *
from lucid.linalg.eigen import *
from lucid.linalg.factorizations import *
from lucid.linalg.indefinite import *
from lucid.linalg.least_squares import *
from lucid.linalg.norms import *
from lucid.linalg.operands import *
from lucid.linalg.orthogonal import *
from lucid.linalg.powers import *
from lucid.linalg.products import *
from lucid.linalg.solvers import *
from lucid.linalg.triangular import *
from lucid.ops import linalg as _declared  # noqa: F401 -- as primitives, by name

# Those to which PyTorch gives no `out=`.
_WITHOUT_OUT = "LinAlgError diagonal lstsq matrix_exp vander"

__all__ = _public(globals())

globals().update({_name: _takes_out(globals()[_name]) for _name in __all__ if _name not in _WITHOUT_OUT.split()})
