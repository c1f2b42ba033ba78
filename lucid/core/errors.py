"""Errors that two habits expect: NumPy's programs catch ValueError and TypeError where PyTorch's catch RuntimeError."""


class ArgumentError(ValueError, RuntimeError):
    """Arguments whose values or shapes do not fit."""


class ElementTypeError(TypeError, RuntimeError):
    """Tensors of types that an operation does not take."""


class PositionError(IndexError, RuntimeError):
    """Positions outside of a tensor, or in one without elements."""
