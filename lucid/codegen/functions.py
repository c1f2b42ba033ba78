"""The elementary functions by name, each written for vectors of float and of double.

In float they are within 2 units in the last place, in double within 4, over the whole range, and exact where C's are:
at infinities, nan, zeros with their signs. Nothing in them depends on the number of lanes or on the processor.
"""

from collections.abc import Callable

from . import exponentials, logarithms, powers, trigonometry
from .vectors import Value

_NAMES = {
    exponentials: "exp exp2 expm1 tanh sigmoid sinh cosh erf erfc",
    logarithms: "log log2 log10 log1p softplus log_sigmoid asinh acosh atanh",
    trigonometry: "sin cos tan asin acos atan atan2",
    powers: "pow rsqrt cbrt hypot",
}

FUNCTIONS: dict[str, Callable[..., Value]] = {
    name: getattr(module, name) for module, names in _NAMES.items() for name in names.split()
}
