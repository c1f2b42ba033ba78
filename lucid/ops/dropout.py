"""Random masks for dropout, made from random bits without numbers in between."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.rng import Generator, _halves
from lucid.core.tensor import Tensor
from lucid.ops.random import _filled

_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy


def mask(shape: tuple[int, ...], p: float, dtype: Any, kept: float = 1.0) -> Tensor:
    """0 with probability p, else `kept`: from 32 random bits for each element, drawn as `lucid.rand` draws.

    >>> import lucid
    >>> from lucid.ops.dropout import mask
    >>> sorted(set(mask((1000,), 0.25, lucid.float32, kept=4.0).tolist()))
    [0.0, 4.0]
    """
    target = dtypes.as_numpy(dtype)
    kind = _F64 if target in (_F64, dtypes.complex128.numpy) else _F32
    bound, number = np.uint32(min(round(p * 2**32), 2**32 - 1)), kind.type(kept)

    def make(stream: Generator, count: int, _: Any) -> Any:
        return stream.draw(count, kind, lambda words: np.multiply(_halves(words) >= bound, number), 2)

    out = _filled(make, shape, kind, None, None, False, "dropout")
    return out if kind == target else out.to(target)
