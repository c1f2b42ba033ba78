"""Matrices, by LAPACK."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy/linalg")

for _name in (
    "determinants",
    "eigen",
    "factorizations",
    "gauge",
    "indefinite",
    "least_squares",
    "orthogonal",
    "powers",
    "scales",
    "solvers",
    "spectral",
    "triangular",
):
    import_module(f"lucid.backends.numpy.linalg.{_name}")
