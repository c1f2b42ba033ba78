"""Special functions: SciPy's values, under PyTorch's names, with derivatives of every order by every operand.

>>> import lucid
>>> a = lucid.tensor([2.0], requires_grad=True)
>>> lucid.autograd.grad(lucid.special.gammainc(a, lucid.tensor([3.0])), a)
Tensor([-0.1974])
"""

from lucid.api.reductions import logsumexp as _logsumexp
from lucid.backends.numpy import special as _kernels  # noqa: F401 -- they fill the table
from lucid.ops.nn.softmax import log_softmax, softmax
from lucid.ops.out import takes_out as _takes_out
from lucid.ops.unary import exp2, expm1, log1p, sinc
from lucid.ops.unary import logit as _logit
from lucid.ops.unary import polygamma as _polygamma
from lucid.ops.unary import round as _round
from lucid.ops.unary import sigmoid as expit
from lucid.special.bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    jv,
    kv,
    kve,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    yv,
)
from lucid.special.entropy import entr, xlog1py, xlogy
from lucid.special.gamma_functions import (
    beta,
    betainc,
    betaln,
    digamma,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    multigammaln,
    psi,
    zeta,
)
from lucid.special.normal import erf, erfc, erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri
from lucid.special.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)

logit, logsumexp, polygamma, round = (_takes_out(f) for f in (_logit, _logsumexp, _polygamma, _round))

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "beta", "betainc", "betaln",
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp2", "expit", "expm1", "gamma", "gammainc",
    "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "iv", "ive",
    "jv", "kv", "kve", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0",
    "xlog1py", "xlogy", "yv", "zeta",
]  # fmt: skip
