"""Whether tensors can be arrays of CuPy: no."""

_cupy_available = False
