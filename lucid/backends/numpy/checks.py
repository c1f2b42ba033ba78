"""What kernels refuse."""

from typing import Any

import numpy as np


def real_only(name: str, impl: Any) -> Any:
    """Refuse complex numbers, for functions of ordered numbers; NumPy would compare real parts first."""

    def checked(*arrays: Any, **params: Any) -> Any:
        # Operands were promoted to one type; numbers among them have none.
        if (arrays[0] if isinstance(arrays[0], np.ndarray) else arrays[-1]).dtype.kind == "c":
            raise TypeError(f"{name} takes real tensors, not complex ones; take abs(), real or imag first")
        return impl(*arrays, **params)

    return checked
