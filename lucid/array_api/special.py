"""Special functions under SciPy's names: an extension that the standard plans, and that SciPy looks for already.

Through it, SciPy's functions on tensors, such as the p-values of `scipy.stats`, keep their gradients.
"""

from collections.abc import Callable
from typing import Any

import lucid
from lucid.array_api.promotion import same_type
from lucid.core.tensor import Tensor

Function = Callable[..., Tensor]

_SAME = (
    "beta betainc betaln digamma entr erf erfc erfcinv erfcx erfinv exp2 expit expm1 gamma gammainc gammaincc gammaln "
    "i0 i0e i1 i1e log1p log_ndtr logit ndtr ndtri psi sinc xlog1py xlogy"
)
_RENAMED = {
    "j0": "bessel_j0",
    "j1": "bessel_j1",
    "k0": "modified_bessel_k0",
    "k0e": "scaled_modified_bessel_k0",
    "k1": "modified_bessel_k1",
    "k1e": "scaled_modified_bessel_k1",
    "y0": "bessel_y0",
    "y1": "bessel_y1",
}


def _of(name: str, source: str) -> Function:
    compute = getattr(lucid.special, source)

    def function(*x: Any) -> Tensor:
        return compute(*same_type(name, *x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (compute.__doc__ or "").replace(f"lucid.special.{source}(", f"lucid.array_api.special.{name}(")
    return function


globals().update({name: _of(name, name) for name in _SAME.split()})
globals().update({name: _of(name, source) for name, source in _RENAMED.items()})


def _parts(dfn: Any, dfd: Any, x: Any) -> tuple[Tensor, Tensor, Tensor]:
    a, b, found = (lucid.as_tensor(p) for p in same_type("fdtr", dfn, dfd, x))
    return a / 2, b / 2, a * found


def fdtr(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """The probability that an F-distributed variable is at most `x`.

    >>> import lucid
    >>> lucid.array_api.special.fdtr(lucid.tensor(1.0), lucid.tensor(2.0), lucid.tensor(3.0))
    Tensor(0.7746)
    """
    a, b, scaled = _parts(dfn, dfd, x)
    return lucid.special.betainc(a, b, scaled / (2 * b + scaled))


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """The probability that an F-distributed variable is larger than `x`.

    >>> import lucid
    >>> lucid.array_api.special.fdtrc(lucid.tensor(1.0), lucid.tensor(2.0), lucid.tensor(3.0))
    Tensor(0.2254)
    """
    a, b, scaled = _parts(dfn, dfd, x)
    return lucid.special.betainc(b, a, 2 * b / (2 * b + scaled))


__all__ = ["fdtr", "fdtrc", *_SAME.split(), *_RENAMED]
