"""In-place forms: `x.add_(y)` is `add` written into x."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lucid.api import indexing
from lucid.api.names import ROWS, Row, having
from lucid.arguments import promotion
from lucid.arguments.out import computed_apart, computed_into, memory_for_numbers, note_write, put, the_one
from lucid.arguments.promotion import exact
from lucid.core import arrays, dtypes
from lucid.core.errors import ArgumentError
from lucid.core.levels import INNERMOST
from lucid.core.primitive import constant, element_type, lift
from lucid.core.tensor import Tensor, is_plain, shape_of, wrapped
from lucid.ops import binary, unary
from lucid.ops.rules import P
from lucid.tape.inplace import sever, write


# What an assignment does to the old elements: nothing of them is left, so their gradient is 0.
def inplace(function: Callable[..., Any], name: str = "") -> Callable[..., Tensor]:
    """The in-place form of a function: the same arguments, the result written into the first."""
    name = name or function.__name__ + "_"
    reads_old = function not in (binary.add, binary.sub)
    one = the_one(function)

    def op(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if "out" in kwargs:
            raise TypeError(f"{name} writes into the tensor itself and takes no out")
        if len(args) > 1:
            args, kwargs = self.in_order(name, args, kwargs) if hasattr(self, "in_order") else (args, kwargs)
        given = (self, *args)
        if one is not None:
            if computed_into(self, name, one, function, given, kwargs):
                return self
        elif computed_apart(self, name, function, given, kwargs):
            return self
        return _written(self, name, function, args, kwargs, reads_old)

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"In-place form of `{function.__name__}`.{_example(function, name)}"
    return op


def _written(
    self: Tensor,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reads_old: bool,
) -> Tensor:
    others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    if any(t._level == INNERMOST for t in (self, *others)):
        return _write_of_sparse(self, name, lambda old: function(old, *args, **kwargs), others)
    return write(self, name, lambda old: function(old, *args, **kwargs), others, reads_old=reads_old)


def _write_of_sparse(target: Any, name: str, compute: Callable[[Any], Any], others: list[Any]) -> Tensor:
    """A sparse tensor is written by itself; into a dense one goes the whole result."""
    if target._level == INNERMOST:
        written: Tensor = target.write(name, compute, others)
        return written
    return write(target, name, lambda old: compute(old).to_dense(), others)


def _example(function: Callable[..., Any], name: str) -> str:
    """The first call in the docstring of the function, in place, if its operand is written out there."""
    _, _, rest = (function.__doc__ or "").partition(f"{function.__name__}(lucid.tensor(")
    values, _, further = rest.partition("\n")[0][:-1].partition("), ")
    if not values:
        return ""
    made = f"lucid.tensor({values.removesuffix(')')})"
    return f"\n\n    >>> import lucid\n    >>> x = {made}\n    >>> x.{name}({further}) is x\n    True\n    "


def _raise_unless_broadcast(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    if len(given) > len(wanted) or [1 for n, size in pairs if n != size and n != 1]:
        raise ArgumentError(f"copy_: shape {given} does not broadcast to {wanted}")


def copy_(self: Tensor, src: Any) -> Tensor:
    """Overwrite with the elements of `src`, which broadcasts and is converted to this tensor's type.

    >>> import lucid
    >>> lucid.zeros(2, 2).copy_(lucid.tensor([1, 2]))
    Tensor([[1., 2.],
            [1., 2.]])
    """
    source = src if isinstance(src, Tensor) else exact(src)
    given, kind = shape_of(source), element_type(self)
    if given and given != shape_of(self):
        _raise_unless_broadcast(given, shape_of(self))
    if element_type(source) is not kind:
        source = source.to(kind)

    if self._level == INNERMOST:
        return _write_of_sparse(self, "copy_", lambda old: P.overwrite(old, source), [source])

    if put(self, source, "copy_"):
        return self
    return _overwritten(self, source, "copy_")


def _overwritten(self: Tensor, source: Tensor, name: str) -> Tensor:
    return write(self, name, lambda old: P.overwrite(old, source), (source,), reads_old=False)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one value.

    >>> import lucid
    >>> lucid.zeros(3).fill_(7)
    Tensor([7., 7., 7.])
    """
    kind = element_type(self)
    if indexing.is_common(value, kind):
        return _everywhere(self, constant(value, kind))
    promotion.raise_if_outside(value, kind, "fill_")
    source = exact(value)
    if source.ndim:
        raise RuntimeError(f"fill_: the value must have no dimensions, not shape {source.shape}")
    if dtypes.category(source.np_dtype) == dtypes.CATEGORY_COMPLEX and not self.is_complex():
        raise RuntimeError(f"fill_: a complex value cannot be written into a tensor of {self.dtype}")
    return copy_(self, source)


def fill(input: Any, value: Any) -> Tensor:
    """A tensor of the shape and type of `input` with one value everywhere.

    >>> import lucid
    >>> lucid.fill(lucid.zeros(3), 7)
    Tensor([7., 7., 7.])
    """
    return fill_(lift(input).clone(), value)


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.zero_() is x
    True
    >>> x
    Tensor([0., 0.])
    """
    return _everywhere(self, _zero(element_type(self)))


def _everywhere(self: Tensor, number: Any) -> Tensor:
    """Overwrite with a number of this tensor's type, an array without dimensions."""
    array = memory_for_numbers(self)
    if array is None:
        return copy_(self, wrapped(number))
    arrays.assign(array, number)
    note_write(self, "copy_")
    return self


@cache
def _zero(kind: Any) -> Any:
    return np.zeros((), kind)  # an array: to a trace, a tensor that it did not make is one to be found again


def cube_(self: Tensor) -> Tensor:
    """x·x·x in place, exact for integers.

    >>> import lucid
    >>> lucid.tensor([2, -3]).cube_()
    Tensor([  8, -27])
    """
    return self.pow_(3)


def detach_(self: Tensor) -> Tensor:
    """Forget the history of this tensor: it becomes a leaf that requires no gradient.

    >>> import lucid
    >>> y = lucid.tensor([1.0, 2.0], requires_grad=True) * 2
    >>> y.detach_()
    Tensor([2., 4.])
    """
    if self.is_view():
        raise RuntimeError("detach_: a view cannot be detached in place; use detach()")
    sever(self)
    return self


def random_fill(self: Tensor, source: Tensor, name: str) -> Tensor:
    """Overwrite with numbers drawn for this tensor's shape and type."""
    return self if put(self, source, name) else _overwritten(self, source, name)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    indexing.setitem(self, key, value)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Overwrite the main diagonal with a number; in tall matrices `wrap` begins it anew below each square.

    >>> import lucid
    >>> lucid.zeros(2, 3).fill_diagonal_(5)
    Tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    if self.ndim < 2:
        raise RuntimeError(f"fill_diagonal_ needs at least 2 dimensions, not shape {self.shape}")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(f"fill_diagonal_ needs dimensions of one size if there are more than 2, not {self.shape}")
    value = exact(fill_value)
    if not dtypes.can_cast(value.dtype, self.dtype):
        raise RuntimeError(f"fill_diagonal_: {fill_value} cannot be written into a tensor of {self.dtype}")
    promotion.raise_if_outside(fill_value, self.np_dtype, "fill_diagonal_")
    value = value.to(self.np_dtype)

    def mask() -> Any:
        found = np.zeros(self.shape, bool)
        if found.size:
            np.fill_diagonal(found, True, wrap)
        return found

    def fill_diagonal(array: Any) -> None:
        arrays.assign(P.diagonal.kernel(array, 0, 0, 1), value._array)

    direct = fill_diagonal if self.ndim == 2 and not wrap and is_plain(value) else None
    return write(self, "fill_diagonal_", lambda old: P.where(Tensor._wrap(mask()), value, old), (value,), direct)


def _by_element(self: Tensor, name: str, function: Callable[..., Any], tensors: tuple[Any, ...]) -> Tensor:
    """Overwrite with what a Python function gives for each element; no derivative is known of it."""
    operands = (self, *tensors)
    if any(t.requires_grad for t in operands):
        raise RuntimeError(
            f"{name}: a Python function of elements has no derivative; detach() tensors that require grad"
        )
    given = np.broadcast_arrays(*[t._concrete(name) for t in operands])
    if given[0].shape != self.shape:
        raise RuntimeError(f"{name}: shapes {[t.shape for t in operands]} do not broadcast to that of the first")
    values = np.empty(self.shape, self.np_dtype)
    for place in np.ndindex(self.shape):
        values[place] = function(*[a[place].item() for a in given])
    return copy_(self, Tensor._wrap(values))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Overwrite each element x with callable(x), a Python function of numbers. Slow; for trying things.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).apply_(lambda x: x + 10)
    Tensor([11., 12.])
    """
    return _by_element(self, "apply_", callable, ())


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Overwrite each element x with callable(x, y), where y is the element of `tensor` beside it.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).map_(lucid.tensor([3.0, 4.0]), lambda x, y: x * y)
    Tensor([3., 8.])
    """
    return _by_element(self, "map_", callable, (lift(tensor),))


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Overwrite each element with a Python function of it and the elements of `x` and `y` beside it.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).map2_(lucid.tensor([3.0, 4.0]), lucid.tensor([5.0, 6.0]), lambda a, b, c: a + b * c)
    Tensor([16., 26.])
    """
    return _by_element(self, "map2_", callable, (lift(x), lift(y)))


def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place form of `polygamma`.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).polygamma_(1)
    Tensor([1.6449, 0.6449])
    """
    return write(self, "polygamma_", lambda old: unary.polygamma(n, old))


def forms(rows: Iterable[Row] = ROWS) -> dict[str, Callable[..., Tensor]]:
    """The in-place forms that the table of names asks for, by their names."""
    table: dict[str, Callable[..., Tensor]] = {}
    for row in having("inplace", rows):
        form = inplace(row.function())
        for name in row.names:
            table[f"{name}_"] = form
    return table


FORMS = forms()
globals().update(FORMS)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Tensor]: ...


conj_physical_ = inplace(unary.conj, name="conj_physical_")
