"""In-place forms: `x.add_(y)` is `add` written into x."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.inplace import ufunc_write, write
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops import binary, indexing, unary
from lucid.ops.rules import Elementwise, P

# What an assignment does to the old elements: nothing of them is left, so their gradient is 0.
overwrite = Elementwise(
    "overwrite",
    lambda x, y: np.broadcast_to(y, np.broadcast_shapes(x.shape, y.shape)).astype(x.dtype),
    (0, 1),
    ("x", "y"),
)


def inplace(function: Callable[..., Any], ufunc: np.ufunc | None = None) -> Callable[..., Tensor]:
    """The in-place form of a function: the same arguments, the result written into the first."""
    name = function.__name__ + "_"
    reads_old = function not in (binary.add, binary.sub)

    def op(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if ufunc is not None and not kwargs and ufunc_write(self, name, ufunc, args):
            return self
        others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        return write(self, name, lambda old: function(old, *args, **kwargs), others, reads_old=reads_old)

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"In-place form of `{function.__name__}`."
    return op


def copy_(self: Tensor, src: Any) -> Tensor:
    """Overwrite with the elements of `src`, which broadcasts and is converted to this tensor's type.

    >>> import lucid
    >>> lucid.zeros(2, 2).copy_(lucid.tensor([1, 2]))
    Tensor([[1., 2.],
            [1., 2.]])
    """
    source = lift(src)
    try:
        fits = np.broadcast_shapes(source.shape, self.shape) == self.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"copy_: shape {source.shape} does not broadcast to {self.shape}")
    if source.np_dtype != self.np_dtype:
        source = source.to(self.np_dtype)

    def direct(array: Any) -> None:
        np.copyto(array, source._array)

    return write(
        self,
        "copy_",
        lambda old: P.overwrite(old, source),
        (source,),
        direct if type(source) is Tensor else None,
        reads_old=False,
    )


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one value.

    >>> import lucid
    >>> lucid.zeros(3).fill_(7)
    Tensor([7., 7., 7.])
    """
    dtypes.raise_if_outside(value, self.np_dtype, "fill_")
    source = lift(value)
    if source.ndim:
        raise RuntimeError(f"fill_: the value must have no dimensions, not shape {source.shape}")
    if dtypes.category(source.np_dtype) == dtypes.CATEGORY_COMPLEX and not self.is_complex():
        raise RuntimeError(f"fill_: a complex value cannot be written into a tensor of {self.dtype}")
    return copy_(self, source)


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.zero_() is x
    True
    >>> x
    Tensor([0., 0.])
    """
    return fill_(self, 0)


def detach_(self: Tensor) -> Tensor:
    """Forget the history of this tensor: it becomes a leaf that requires no gradient.

    >>> import lucid
    >>> y = lucid.tensor([1.0, 2.0], requires_grad=True) * 2
    >>> y.detach_()
    Tensor([2., 4.])
    """
    if self.is_view():
        raise RuntimeError("detach_: a view cannot be detached in place; use detach()")
    self._node, self._requires_grad = None, False
    return self


def random_fill(self: Tensor, source: Tensor, name: str) -> Tensor:
    """Overwrite with numbers drawn for this tensor's shape and type."""

    def direct(target: Any) -> None:
        np.copyto(target, source._array)

    return write(
        self,
        name,
        lambda old: P.overwrite(old, source),
        (),
        direct if type(source) is Tensor else None,
        reads_old=False,
    )


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    indexing.setitem(self, key, value)


ELEMENTWISE_INPLACE: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        *(
            inplace(getattr(unary, name))
            for name in (
                "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan "
                "sinh cosh tanh asinh acosh atanh sigmoid logit relu erf erfc erfinv lgamma digamma sinc floor ceil "
                "round trunc frac clamp nan_to_num sign sgn logical_not bitwise_not"
            ).split()
        ),
        *(
            inplace(getattr(binary, name))
            for name in (
                "floor_divide remainder fmod pow float_power atan2 hypot copysign xlogy lerp addcmul addcdiv "
                "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
                "bitwise_left_shift bitwise_right_shift"
            ).split()
        ),
        inplace(binary.add, np.add),
        inplace(binary.sub, np.subtract),
        inplace(binary.mul, np.multiply),
        inplace(binary.div, np.true_divide),
    )
}
