"""Products with logarithms, and their limits at 0."""

from lucid.backends.numpy.special.precision import in_double, special
from lucid.core.kernels import fill

fill(
    {
        "entr": in_double("entr", special.entr),
        "xlog1py": in_double("xlog1py", special.xlog1py),
    }
)
