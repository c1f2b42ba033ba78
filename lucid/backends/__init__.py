"""How operations are computed: for each kind of memory, its kernels.

`numpy` is the reference: slow and obviously right. `cpu` has compiled loops, BLAS and threads, and takes its place
where it has more to offer.
"""

from lucid.backends import numpy as numpy
from lucid.backends.cpu import contraction as contraction
from lucid.backends.cpu import elementwise as elementwise
from lucid.backends.cpu import softmax as softmax
from lucid.core import kernels

# For programs that take operations from `lucid.ops` by themselves. The families load their kernels with themselves: a
# process that is forked while another thread imports may wait for that import forever.
kernels.on_demand += [
    "lucid.backends.cpu.nn",
    "lucid.backends.numpy.fft",
    "lucid.backends.numpy.signal",
    "lucid.backends.numpy.special",
    "lucid.backends.numpy.linalg",
]
