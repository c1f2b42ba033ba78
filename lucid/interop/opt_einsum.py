"""What opt_einsum has to know of tensors: it takes them to NumPy's functions, which Lucid computes."""

import sys
from typing import Any

dispatch: Any = sys.modules.get("opt_einsum.backends.dispatch")  # there when this is imported in its wake
if dispatch is not None:
    dispatch._aliases["lucid"] = "numpy"
