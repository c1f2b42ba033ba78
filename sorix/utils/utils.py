"""Functions that make tensors, and those that change shapes, join, and choose.

All random numbers are those of NumPy's global generator. Types without `dtype=` are NumPy's: floats have 64 bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid
from sorix.cupy.cupy import _cupy_available as _cupy_available
from sorix.devices import get_xp as get_xp
from sorix.element_types import as_numpy
from sorix.files import load as load
from sorix.files import save as save
from sorix.tensor import Plain, Tensor, one_shape, operand, operation, tensor
from sorix.utils.math import has_tensor

# --- factories -----------------------------------------------------------------------------------


def _maker(name: str, make: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def function(*size: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
        return Tensor(_cast(make(one_shape(size)), dtype), device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _cast(array: Any, dtype: Any) -> Any:
    return np.asarray(array, as_numpy(dtype))


zeros = _maker("zeros", np.zeros, "Zeros of a shape, which is given by sizes or one sequence.")
ones = _maker("ones", np.ones, "Ones of a shape.")
empty = _maker("empty", np.empty, "Whatever is in memory, in a shape.")
rand = _maker("rand", lambda size: np.random.rand(*size), "Numbers uniform in [0, 1), of NumPy's global generator.")
randn = _maker("randn", lambda size: np.random.randn(*size), "Numbers of the standard normal distribution.")


def full(size: Any, fill_value: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """One number in a shape, in its type.

    >>> import sorix
    >>> sorix.full((2,), 7), sorix.zeros(2)
    (tensor([7, 7]), tensor([0., 0.], dtype=sorix.float64))
    """
    return Tensor(np.full(size, fill_value, as_numpy(dtype)), device, requires_grad)


def eye(n: int, m: int | None = None, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """The identity matrix."""
    return Tensor(_cast(np.eye(n, m), dtype), device, requires_grad)


def diag(input: Any, diagonal: int = 0, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix; outside of the graph."""
    return Tensor(
        np.diag(tensor(input).data, diagonal).astype(as_numpy(dtype) or tensor(input).data.dtype), device, requires_grad
    )


def arange(
    start: Any, end: Any = None, step: Any = 1, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None
) -> Tensor:
    """Numbers from `start` up to, but without, `end`."""
    low, high = (0, start) if end is None else (start, end)
    return Tensor(np.arange(low, high, step, dtype=as_numpy(dtype)), device, requires_grad)


def linspace(
    start: Any, end: Any, steps: int = 100, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None
) -> Tensor:
    """Numbers at equal distances, both ends among them."""
    return Tensor(np.linspace(start, end, steps, dtype=as_numpy(dtype)), device, requires_grad)


def logspace(
    start: Any, end: Any, steps: int = 100, base: float = 10.0, device: Any = "cpu", requires_grad: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Powers of `base` whose exponents are at equal distances."""
    return Tensor(np.logspace(start, end, steps, base=base, dtype=as_numpy(dtype)), device, requires_grad)


def randint(
    low: int, high: int, size: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None
) -> Tensor:
    """Integers from `low` up to, but without, `high`."""
    return Tensor(_cast(np.random.randint(low, high, size), dtype), device, requires_grad)


def randperm(n: int, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """The numbers below `n` in a random order."""
    return Tensor(_cast(np.random.permutation(n).astype(np.int64), dtype), device, requires_grad)


def _like(name: str, make: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def function(
        input: Any, *fill: Any, device: Any = None, requires_grad: bool = False, dtype: Any = None, **named: Any
    ) -> Tensor:
        return Tensor(make(_array(input), *fill, dtype=as_numpy(dtype), **named), device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _array(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else np.asarray(value)


zeros_like = _like("zeros_like", np.zeros_like, "Zeros in the shape and type of something.")
ones_like = _like("ones_like", np.ones_like, "Ones in the shape and type of something.")
empty_like = _like("empty_like", np.empty_like, "Whatever is in memory, in the shape and type of something.")
full_like = _like("full_like", np.full_like, "One number in the shape and type of something.")


def as_tensor(x: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor as it is, or a new one, which shares an array.

    >>> import sorix
    >>> x = sorix.zeros(2)
    >>> sorix.as_tensor(x) is x
    True
    """
    return x if isinstance(x, Tensor) else Tensor(x, device, requires_grad, dtype)


from_numpy = as_tensor


def manual_seed(seed: int) -> None:
    """Seed NumPy's global generator, from which all random numbers come."""
    np.random.seed(seed)


# --- functions -----------------------------------------------------------------------------------


def _on_both(name: str, function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    """A function of a tensor that gives arrays for arrays, and numbers for numbers."""

    def call(input: Any, *args: Any, **options: Any) -> Any:
        if isinstance(input, Plain):
            return function(input, *args, **options)
        return _as_arrays(function(Tensor(np.asarray(input)), *args, **options))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _as_arrays(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return type(found)(_as_arrays(f) for f in found)
    return found.data if found.ndim else found.data[()]


def _softmax(X: Any, axis: int = -1, dim: int | None = None) -> Any:  # noqa: N803
    return X.softmax(axis, dim)


def _argmax(X: Any, axis: int | None = 1, dim: int | None = None, keepdims: bool = True) -> Any:  # noqa: N803
    return lucid.argmax(X, axis if dim is None else dim, keepdims)


def _argmin(X: Any, axis: int | None = 1, keepdims: bool = True) -> Any:  # noqa: N803
    return lucid.argmin(X, axis, keepdims)


def _transpose(input: Any, dim0: int, dim1: int) -> Any:
    order = list(range(input.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return input.permute(order)


def _flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    sizes = input.data.shape
    first, last = start_dim % len(sizes), end_dim % len(sizes)
    return input.reshape(*sizes[:first], -1, *sizes[last + 1 :])


def _squeeze(input: Any, dim: Any = None) -> Any:
    return input.squeeze(dim)


def _unsqueeze(input: Any, dim: int) -> Any:
    return input.unsqueeze(dim)


def _split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    return tensor.split(split_size_or_sections, dim)


def _reshape(input: Any, shape: Any) -> Any:
    return input.reshape(shape if hasattr(shape, "__len__") else (shape,))


sigmoid = _on_both("sigmoid", Tensor.sigmoid, "1 / (1 + exp(-x)) of each element.")
softmax = _on_both("softmax", _softmax, "exp(x) / Σ exp(x) along `axis`, which may also be called `dim`.")
argmax = _on_both("argmax", _argmax, "The places of the maxima along `axis`, by default of each row, as a column.")
argmin = _on_both("argmin", _argmin, "The places of the minima along `axis`, by default of each row, as a column.")
reshape = _on_both("reshape", _reshape, "The elements in another shape.")
transpose = _on_both("transpose", _transpose, "Two dimensions exchanged.")
squeeze = _on_both("squeeze", _squeeze, "Without dimensions of size 1, or without the one given.")
unsqueeze = _on_both("unsqueeze", _unsqueeze, "With one more dimension, of size 1.")
flatten = _on_both("flatten", _flatten, "With some dimensions, or all, made one.")
t = _on_both("t", Tensor.t, "A matrix with its dimensions exchanged.")
unbind = _on_both("unbind", Tensor.unbind, "The slices along a dimension, as a tuple.")
split = _on_both("split", _split, "Pieces of one size, or of the sizes given, as a list.")
chunk = _on_both("chunk", Tensor.chunk, "So many pieces, the last of which may be smaller, as a list.")
repeat = _on_both("repeat", Tensor.repeat, "Copies beside each other, so many along each dimension.")
permute = _on_both("permute", Tensor.permute, "The dimensions in another order.")
clamp = _on_both("clamp", Tensor.clamp, "Not less than `min` and not more than `max`.")


def _joined(name: str, tensors: Any, dim: int, out: Any) -> Any:
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"{name}: tensors must be tuple or list, not {type(tensors).__name__}")
    if not tensors:
        raise ValueError(f"{name}: expected a non-empty list of tensors")
    if out is not None:
        raise NotImplementedError(f"{name}: out= is not there")
    parts = [as_tensor(x) for x in tensors]
    return operation(name, lambda *xs: getattr(lucid, name)(xs, dim))(*parts)


def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one behind the other along a dimension; arrays may be among them.

    >>> import numpy as np
    >>> import sorix
    >>> sorix.cat([sorix.tensor([1, 2]), np.array([3])])
    tensor([1, 2, 3])
    """
    return _joined("cat", tensors, dim, out)


def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors side by side along a new dimension; arrays may be among them."""
    return _joined("stack", tensors, dim, out)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where a condition holds, of `y` elsewhere."""
    choice = as_tensor(np.asarray(condition) if not isinstance(condition, Plain) else condition)
    if not has_tensor((x, y)):
        x = Tensor(x)
    return operation("where", lambda c, a, b: lucid.where(c, a, b))(choice, operand(x), operand(y))


def gather(input: Any, dim: int, index: Any) -> Any:
    """The elements at the places that `index` names along a dimension."""
    return operation("gather", lambda a, i: lucid.gather(a, dim, i))(as_tensor(input), as_tensor(index))


FACTORIES = (
    "arange as_tensor diag empty empty_like eye from_numpy full full_like linspace logspace ones ones_like rand randint "
    "randn randperm zeros zeros_like"
).split()
FUNCTIONS = (
    "argmax argmin cat chunk clamp flatten gather permute repeat reshape sigmoid softmax split squeeze stack t transpose "
    "unbind unsqueeze where"
).split()
__all__ = [*FACTORIES, *FUNCTIONS, "load", "manual_seed", "save"]
