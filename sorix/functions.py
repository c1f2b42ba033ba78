"""Functions whose arguments, defaults or results differ between Sorix and Lucid."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

import lucid
from lucid.nn import functional

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Functions that Sorix also applies to NumPy's arrays and to numbers, giving such again.
ALSO_ON_ARRAYS = (
    "abs add ceil cos div exp floor log matmul mean mul pow round sigmoid sign sin sqrt sub sum tanh".split()
)


def also_on_arrays(function: _Function) -> _Function:
    """The function, such that operands without a tensor among them give an array of NumPy or a number.

    >>> import lucid
    >>> also_on_arrays(lucid.exp)(0.0)
    1.0
    """

    @wraps(function)
    def on_both(*args: Any, **options: Any) -> Any:
        for value in args:
            if isinstance(value, lucid.Tensor):
                return function(*args, **options)
        if not args or any(isinstance(value, lucid.Tensor) for value in options.values()):
            return function(*args, **options)
        found = function(np.asarray(args[0]), *args[1:], **options).numpy()
        return found if found.ndim else found.item()

    return on_both  # type: ignore[return-value]  # wraps() keeps what callers see


def tensor(data: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> lucid.Tensor:
    """A new tensor with a copy of `data`: a number, nested lists, an array, a data frame or a tensor.

    >>> import sorix
    >>> sorix.tensor([1.0, 2.0], requires_grad=True)
    Tensor([1., 2.], requires_grad=True)
    """
    return lucid.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def from_numpy(array: Any) -> lucid.Tensor:
    """A tensor that shares memory with an array; a tensor is returned as it is.

    >>> import numpy as np
    >>> import sorix
    >>> sorix.from_numpy(np.arange(3))
    Tensor([0, 1, 2])
    """
    return array if isinstance(array, lucid.Tensor) else lucid.from_numpy(array)


@also_on_arrays
def softmax(input: Any, axis: int = -1, *, dim: int | None = None) -> Any:
    """exp(x) / Σ exp(x) along `axis`, which may also be called `dim`.

    >>> import sorix
    >>> sorix.softmax(sorix.tensor([1.0, 1.0]))
    Tensor([0.5, 0.5])
    """
    return functional.softmax(input, dim=axis if dim is None else dim)


def _position(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(lucid, name)

    @also_on_arrays
    def position(input: Any, axis: int | None = 1, keepdims: bool = True, **names: Any) -> Any:
        dim, keep = names.pop("dim", axis), names.pop("keepdim", keepdims)
        if names:
            raise TypeError(f"{name}() got an unexpected argument {next(iter(names))!r}")
        return found(input, dim, keep)

    position.__name__ = position.__qualname__ = name
    position.__doc__ = f"""The places of the {name[3:]}ima along `axis`, by default of each row, as a column.

    >>> import sorix
    >>> sorix.{name}(sorix.tensor([[1.0, 5.0], [4.0, 0.0]]))
    Tensor([[{int(name == "argmax")}],
            [{int(name == "argmin")}]])
    """
    return position


argmax, argmin = _position("argmax"), _position("argmin")


def repeat(input: lucid.Tensor, *sizes: Any) -> lucid.Tensor:
    """The tensor repeated `sizes` times along its dimensions.

    >>> import sorix
    >>> sorix.repeat(sorix.tensor([1, 2]), 2)
    Tensor([1, 2, 1, 2])
    """
    return input.repeat(*sizes)


__all__ = ["argmax", "argmin", "from_numpy", "repeat", "softmax", "tensor"]
