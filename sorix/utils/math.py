"""Elementary functions. Given tensors they give tensors; given arrays or numbers, arrays or numbers of NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid
from sorix.tensor import Plain, Tensor, no_grad, operand, operation

_UNARY = ("sin", "cos", "tanh", "exp", "log", "sqrt", "abs")
_FLAT = ("sign", "round", "floor", "ceil")  # whose derivative is 0: results require no grad
_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "matmul": np.matmul, "pow": np.power,
}  # fmt: skip


def has_tensor(values: Any) -> bool:
    """Whether there is a tensor among values."""
    return any(isinstance(v, Plain) for v in values)


def _differentiable(name: str) -> Callable[..., Any]:
    on_tensors, on_arrays = operation(name, getattr(lucid, name)), getattr(np, name)

    def function(X: Any) -> Any:  # noqa: N803  # Sorix's name, here and below
        return on_tensors(X) if isinstance(X, Plain) else on_arrays(X)

    return _described(function, name, f"{name}(x) of each element.")


def _constant(name: str) -> Callable[..., Any]:
    on_tensors, on_arrays = getattr(lucid, name), getattr(np, name)

    def function(X: Any) -> Any:  # noqa: N803
        with no_grad():
            return on_tensors(X) if isinstance(X, Plain) else on_arrays(X)

    return _described(function, name, f"{name}(x) of each element, which requires no grad.")


def _binary(name: str, on_arrays: Callable[..., Any]) -> Callable[..., Any]:
    on_tensors = operation(name, getattr(lucid, name))

    def function(input: Any, other: Any) -> Any:
        if not has_tensor((input, other)):
            return on_arrays(input, other)
        return on_tensors(operand(input), operand(other))

    return _described(function, name, f"`{name}` of two operands, with NumPy's broadcasting and promotion.")


def _described(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


sin, cos, tanh, exp, log, sqrt, abs = (_differentiable(name) for name in _UNARY)
sign, round, floor, ceil = (_constant(name) for name in _FLAT)
add, sub, mul, div, matmul, _power = (_binary(name, f) for name, f in _BINARY.items())


def pow(input: Any, exponent: Any) -> Any:
    """The elements to the power of a number.

    >>> import sorix
    >>> sorix.pow(sorix.tensor([2.0, 3.0]), 2), int(sorix.pow(2, 3))
    (tensor([4., 9.]), 8)
    """
    return input.pow(exponent) if isinstance(input, Tensor) else _power(input, exponent)


def mean(X: Any, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: N803
    """The mean of all elements, or along axes."""
    return X.mean(axis=axis, keepdims=keepdims) if isinstance(X, Tensor) else np.mean(X, axis=axis, keepdims=keepdims)


def sum(X: Any, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: N803
    """The sum of all elements, or along axes.

    >>> import numpy as np
    >>> import sorix
    >>> sorix.sum(sorix.tensor([[1.0, 2.0]]), axis=0), sorix.sum(np.ones((2, 2)), axis=0)
    (tensor([1., 2.]), array([2., 2.]))
    """
    return X.sum(axis=axis, keepdims=keepdims) if isinstance(X, Tensor) else np.sum(X, axis=axis, keepdims=keepdims)


__all__ = [*_UNARY, *_FLAT, *_BINARY, "mean", "sum"]
