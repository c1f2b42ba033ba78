"""The check that a loss does not depend on what a factorization leaves open."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill

# How far a loss may depend on what a factorization leaves open before it is called ill-defined.
GAUGE_TOLERANCE = 1e-2


def _within_gauge_array(x: Any, name: str, freedom: str) -> Any:
    if (np.abs(x) > GAUGE_TOLERANCE).any():
        raise RuntimeError(
            f"{name}: {freedom}. The loss depends on this choice, so it has no derivative; "
            "make it of values that do not, such as absolute values or products in which the choice cancels"
        )
    return x


fill({"within_gauge": _within_gauge_array})
