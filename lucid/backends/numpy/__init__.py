"""Kernels in terms of NumPy."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy")

for _name in (
    "scalars",
    "bodies",
    "arithmetic",
    "composites",
    "contraction",
    "complex_views",
    "counting",
    "indexing",
    "memory",
    "norms",
    "positions",
    "random",
    "reductions",
    "scatter",
    "softmax",
    "sorting",
    "strides",
    "views",
):
    import_module(f"lucid.backends.numpy.{_name}")
