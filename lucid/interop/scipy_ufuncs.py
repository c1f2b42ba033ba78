"""Which of these functions stands for which of SciPy's ufuncs, so that `scipy.special.gammainc(a, x)` takes tensors."""

from typing import Any

import numpy as np

from lucid import special as ours
from lucid.core.tensor import Tensor
from lucid.interop.numpy_functions import NoCounterpartError
from lucid.special.doors import Function
from lucid.special.doors import special as scipy

_SAME = (
    "beta betainc betaln entr erfcinv erfcx exp2 expm1 gamma gammainc gammaincc i0 i0e i1 i1e log1p log_ndtr ndtr ndtri "
    "xlog1py"
)
_RENAMED = {
    "j0": "bessel_j0",
    "j1": "bessel_j1",
    "y0": "bessel_y0",
    "y1": "bessel_y1",
    "k0": "modified_bessel_k0",
    "k1": "modified_bessel_k1",
    "k0e": "scaled_modified_bessel_k0",
    "k1e": "scaled_modified_bessel_k1",
}
_OF_SOME_ORDER = "iv ive jv kv kve yv"
_POLYNOMIALS = {
    "eval_chebyt": "chebyshev_polynomial_t",
    "eval_chebyu": "chebyshev_polynomial_u",
    "eval_sh_chebyt": "shifted_chebyshev_polynomial_t",
    "eval_sh_chebyu": "shifted_chebyshev_polynomial_u",
    "eval_hermite": "hermite_polynomial_h",
    "eval_hermitenorm": "hermite_polynomial_he",
    "eval_laguerre": "laguerre_polynomial_l",
    "eval_legendre": "legendre_polynomial_p",
}


def _number(value: Any) -> Any:
    """An order or degree that is one number; SciPy's functions of others have no counterpart here."""
    if isinstance(value, Tensor) or np.ndim(value):
        raise NoCounterpartError
    return np.asarray(value).item()


def _of_order(function: Function) -> Function:
    return lambda v, z: function(_number(v), z)


def _of_degree(function: Function) -> Function:
    def call(n: Any, x: Any) -> Any:
        degree = _number(n)
        # SciPy continues the polynomials to other degrees.
        if degree < 0 or degree != int(degree):
            raise NoCounterpartError
        return function(x, int(degree))

    return call


UFUNCS: dict[np.ufunc, Function] = {
    **{getattr(scipy, name): getattr(ours, name) for name in _SAME.split()},
    **{getattr(scipy, name): getattr(ours, own) for name, own in _RENAMED.items()},
    **{getattr(scipy, name): _of_order(getattr(ours, name)) for name in _OF_SOME_ORDER.split()},
    **{getattr(scipy, name): _of_degree(getattr(ours, own)) for name, own in _POLYNOMIALS.items()},
}
# What scipy.special.zeta, a Python function, calls.
if hasattr(scipy._ufuncs, "_zeta"):
    UFUNCS[scipy._ufuncs._zeta] = ours.zeta
