"""Inspection: what this implementation of the standard has."""

from typing import Any

import lucid
from lucid.array_api.data_types import KINDS, isdtype
from lucid.array_api.methods import VERSIONS
from lucid.core import dtypes
from lucid.core.device import CPU, as_device, device

__array_api_version__ = VERSIONS[-1]
# The standard's own types; lucid has float16 and bfloat16 besides.
TYPES = [d for d in dtypes.ALL if d.name not in ("float16", "bfloat16")]


class NamespaceInfo:
    """What `__array_namespace_info__()` gives."""

    def capabilities(self) -> dict[str, Any]:
        """What depends on values or sizes: masks as indices, results such as those of `unique_values`, most dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """Where arrays are made when no device is given."""
        return CPU

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.dtype]:
        """The types of results when none is given."""
        as_device(device)
        real = lucid.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": lucid.int64,
            "indexing": lucid.int64,
        }

    def devices(self) -> list[device]:
        """Where arrays can be."""
        return [CPU]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.dtype]:
        """The types of a kind by their names, of all kinds if none is given."""
        as_device(device)
        return {d.name: d for d in TYPES if isdtype(d, tuple(KINDS) if kind is None else kind)}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  (the name is the standard's)
    """The devices, types and defaults of this implementation of the standard.

    >>> import lucid
    >>> lucid.__array_namespace_info__().default_dtypes()["real floating"]
    lucid.float32
    """
    return NamespaceInfo()
