"""How operations are computed: for each kind of memory, its kernels.

`numpy` is the reference: slow and obviously right. `cpu` has compiled loops, BLAS and threads, and takes its place
where it has more to offer. LUCID_BACKEND=numpy in the environment leaves the reference alone.
"""

from functools import partial
from importlib import import_module

from lucid.backends import numpy as numpy
from lucid.core import kernels

# The families of operations whose kernels are not loaded with the package.
_FAMILIES = {"numpy": ("nn", "fft", "linalg", "special", "sparse"), "cpu": ("nn", "sparse")}


def in_use() -> tuple[str, ...]:
    """The backends that compute, each with the kernels that those before it lack.

    >>> from lucid import backends
    >>> backends.in_use()[-1]
    'numpy'
    """
    return kernels.in_use


def load(family: str) -> None:
    """Load the kernels of a family of operations."""
    for backend in in_use():
        if family in _FAMILIES[backend]:
            import_module(f"lucid.backends.{backend}.{family}")


if "cpu" in in_use():
    import_module("lucid.backends.cpu.kernels")

# For programs that take operations from `lucid.ops` by themselves. The families load their kernels with themselves: a
# process that is forked while another thread imports may wait for that import forever.
kernels.on_demand += [partial(load, family) for family in _FAMILIES["numpy"]]
