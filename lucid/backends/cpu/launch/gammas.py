"""Quantiles of gamma distributions and their slopes, by compiled loops over vectors (gammas.pyx).

Generation does not reach them: each element takes as many steps as a series has terms and an iteration has turns.
"""

from typing import Any

import numpy as np


def quantiles(a: Any, log_factorial: Any, p: Any, log_p: Any) -> Any:
    """x with P(a, x) = p, and nan where that is to be found in another way; `log_factorial` is log Γ(a + 1).

    Operands are flat, in double precision, of one size or, those of `a`, of one element.
    """
    return np.full(p.shape, np.nan)


def slopes(a: Any, digamma: Any, x: Any, log_x: Any) -> Any:
    """The derivatives of quantiles x by a, and nan where they are to be found in another way; `digamma` is ψ(a + 1)."""
    return np.full(x.shape, np.nan)
