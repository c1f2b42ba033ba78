"""The normal distribution and the error functions."""

from lucid.ops.rules import P
from lucid.special.functions import one

erfcx = one(P.erfcx, "exp(x²) erfc(x), without overflow. | [0.0, 10.0] -> Tensor([1.    , 0.0561])")
erfcinv = one(P.erfcinv, "The inverse of erfc, accurate near 0. | [0.5, 1e-6] -> Tensor([0.4769, 3.4589])")
ndtr = one(
    P.ndtr,
    "The normal distribution function, the area under the bell curve below x. | [0.0, 1.0] -> Tensor([0.5   , 0.8413])",
)
ndtri = one(
    P.ndtri,
    "The inverse of ndtr: the quantiles of the normal distribution. | [0.5, 0.975] -> Tensor([0.  , 1.96])",
)
log_ndtr = one(P.log_ndtr, "log(ndtr(x)), accurate in both tails. | [-30.0, 0.0] -> Tensor([-454.3213,   -0.6931])")
