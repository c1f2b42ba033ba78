"""Powers and exponentials of matrices, and matrices of powers."""

from math import comb, perm
from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.solvers import solutions
from lucid.core.kernels import fill

# Degrees of Padé approximants, each with the 1-norm up to which it is good to rounding, in double and single precision.
_REACH = {
    8: {3: 0.01495585, 5: 0.2539398, 7: 0.9504178, 9: 2.097847, 13: 5.37192},
    4: {3: 0.4258730, 5: 1.880152, 7: 3.925724},
}


def _matrix_exp_array(x: Any) -> Any:
    """exp(A) = exp(A / 2ˢ)^(2ˢ), with an s for each matrix."""
    if x.dtype.itemsize == 2:
        return _matrix_exp_array(x.astype(np.float32)).astype(x.dtype)
    finite = np.isfinite(x).all(axis=(-2, -1), keepdims=True)
    a = np.where(finite, x, 0)
    with np.errstate(over="ignore"):
        size = np.abs(a).sum(-2, keepdims=True).max(-1, keepdims=True, initial=0)
    reach = _REACH[size.dtype.itemsize]
    largest = size.max(initial=0)
    degree = next((d for d, r in reach.items() if largest <= r), max(reach))
    # Sums of finite elements may be infinite, the elements halved so often are not.
    most = np.finfo(size.dtype).maxexp
    doublings = np.minimum(np.ceil(np.log2(np.maximum(size / reach[degree], 1))), most).astype(int)
    out = _pade(a * np.exp2(-doublings).astype(size.dtype), degree)
    with np.errstate(all="ignore"):
        for step in range(int(doublings.max(initial=0))):
            out = np.where(step < doublings, out @ out, out)
    return np.where(finite, out, np.nan).astype(x.dtype)


def _pade(a: Any, degree: int) -> Any:
    """p(A) / p(-A), where p has the coefficients (2m - j)! m! / (2m)! j! (m - j)!."""
    coefficients = [comb(degree, j) / perm(2 * degree, j) for j in range(degree + 1)]
    powers = [np.eye(a.shape[-1], dtype=a.dtype), a @ a]
    while len(powers) < (degree // 2 + 1 if degree < 13 else 4):
        powers.append(powers[-1] @ powers[1])

    def sums(start: int) -> Any:
        """The terms from `start` on, in steps of two, of the polynomial; where powers run out, they are multiplied."""
        terms = coefficients[start::2]
        low = sum(c * p for c, p in zip(terms, powers, strict=False))
        high = terms[len(powers) :]
        return low + powers[-1] @ sum(c * p for c, p in zip(high, powers[1:], strict=False)) if high else low

    even, odd = sums(0), a @ sums(1)
    return solutions(even - odd, even + odd)


fill(
    {
        "matrix_exp": _matrix_exp_array,
    }
)
