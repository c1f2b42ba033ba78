"""`jax.dtypes`: types, and questions about them.

>>> import lucid.jax as jax
>>> key = jax.random.key(0)
>>> jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key), jax.dtypes.issubdtype(key.dtype, jax.numpy.floating)
(True, False)
"""

from typing import Any

import numpy as np

from lucid.core.dtypes import bfloat16 as _bfloat16
from lucid.jax.config import canonical
from lucid.jax.keys import KeyType
from lucid.jax.numpy import issubdtype as issubdtype
from lucid.jax.numpy import result_type as result_type

bfloat16 = _bfloat16.numpy
prng_key = extended = KeyType


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The type that arrays have which are asked for in this one.

    >>> import lucid.jax as jax
    >>> jax.dtypes.canonicalize_dtype("int64")
    dtype('int32')
    """
    return dtype if isinstance(dtype, KeyType) else canonical(np.dtype(dtype))
