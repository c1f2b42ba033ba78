"""Errors that programs written for other libraries catch by several names."""


class ArgumentError(ValueError, RuntimeError):
    """Arguments that do not fit: NumPy's programs catch ValueError, and PyTorch's RuntimeError."""


class ResultError(ArgumentError, TypeError):
    """A function whose result has no gradient, or text that names no type: programs catch TypeError, too."""


class PositionError(IndexError, ValueError, RuntimeError):
    """A position outside of a tensor, or in one without elements: what NumPy's and PyTorch's programs catch."""


class ElementTypeError(TypeError, RuntimeError):
    """Tensors of types that an operation does not take: PyTorch's programs catch RuntimeError."""
