"""Reductions and normalisations of the elements that a mask lets take part."""

from lucid.masked.normalization import (
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    normalize,
    softmax,
    softmin,
)
from lucid.masked.reductions import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    mean,
    median,
    norm,
    prod,
    std,
    sum,
    var,
)

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
