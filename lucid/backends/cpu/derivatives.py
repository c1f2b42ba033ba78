"""Products that derivatives of tanh and of the logistic function consist of, each in one pass over memory.

They are compiled (derivatives.pyx); where nothing is, their bodies serve.

To be replaced by generated code.
"""

from typing import Any

KERNELS: dict[str, Any] = {}
