"""The types of elements, under the name that the original Lucid has for them; `lucid` has them all.

>>> import lucid
>>> lucid.dtypes.float is lucid.float32, lucid.dtypes.bool_
(True, lucid.bool)
"""

from lucid.core.dtypes import _BY_NAME
from lucid.core.dtypes import dtype as dtype

globals().update(_BY_NAME)
__all__ = ["dtype"]
__all__ += _BY_NAME
