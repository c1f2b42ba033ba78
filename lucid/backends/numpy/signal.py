"""What `lucid.signal` needs of its own."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill

_LEAST_OVERLAP = 1e-11


def _reciprocal_array(x: Any) -> Any:
    """1/x for sums of squared windows, refused where they vanish."""
    least = np.abs(x).min(initial=np.inf)
    if not least > _LEAST_OVERLAP:
        raise RuntimeError(
            f"istft: window overlap add min: {least:.3g}; the squared windows must not add up to zero anywhere in the "
            "result. Use a smaller hop_length, center=True, or a window that is not zero at its ends"
        )
    return 1 / x


fill({"overlap_reciprocal": _reciprocal_array})
