"""The special functions of `lucid.special`, most of them SciPy's."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy/special")

for _name in ("bessel", "gamma_functions", "normal", "polynomials"):
    import_module(f"lucid.backends.numpy.special.{_name}")
