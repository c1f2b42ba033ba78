"""Kernels in terms of NumPy."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy")

for _name in (
    "binary",
    "complex_parts",
    "counting",
    "floating",
    "indexing",
    "integers",
    "norms",
    "random",
    "reductions",
    "scatter",
    "sorting",
    "strides",
    "unary",
    "views",
):
    import_module(f"lucid.backends.numpy.{_name}")
