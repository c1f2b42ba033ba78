"""Lucid beside the libraries its users would pick instead: `python -m benchmarks`."""

import os

# Two threads for everybody, whatever the machine has; it must be said before NumPy is imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")
