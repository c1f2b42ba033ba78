"""Memory seen through sizes and strides, and copies with one part of them replaced.

`as_strided` is a view like others: it is declared on the elements in row-major order, which those of any dense tensor
are after a permutation.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api import joining, shaping, splitting
from lucid.api.indexing import are_alone
from lucid.api.splitting import narrow
from lucid.arguments.dims import numpy_names, one_dim, real_dim, shape_from
from lucid.arguments.out import takes_out
from lucid.backends.numpy.strides import Ints, seen_array
from lucid.core import dtypes
from lucid.core.arrays import offset
from lucid.core.device import as_device
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain, of_class, shape_of, wrapped
from lucid.ops.rules import P, np_dtype
from lucid.tape.geometry import overlaps


def _numbers(size: Any, stride: Any, name: str) -> tuple[Ints, Ints]:
    sizes, strides = shape_from((size,), name), shape_from((stride,), name)
    if len(sizes) != len(strides):
        raise RuntimeError(f"{name}: {len(sizes)} sizes but {len(strides)} strides")
    if min(*sizes, *strides, 0, 0) < 0:
        raise RuntimeError(f"{name}: sizes and strides must not be negative, got {sizes} and {strides}")
    return sizes, strides


def _reach(size: Ints, stride: Ints) -> int:
    """How far the last element lies behind the first; -1 if there is none."""
    return -1 if 0 in size else sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _layout(x: Tensor) -> tuple[Any, tuple[int, ...] | None]:
    """The array at the bottom, and the order of dimensions in which its elements lie in memory without gaps."""
    array: Any = x
    while isinstance(array, Tensor):
        array = array.shell()._array
    steps = array.strides[array.ndim - x.ndim :]
    order = tuple(sorted(range(x.ndim), key=lambda d: (-abs(steps[d]), d)))
    expected = array.itemsize
    for d in reversed(order):
        if x.shape[d] > 1 and steps[d] != expected and x.numel():
            return array, None
        expected *= x.shape[d]
    return array, order


def _bottom(x: Tensor) -> Tensor | None:
    """The tensor that `x` is a view of, by way of others perhaps, whose memory is counted in the same elements."""
    root = None
    below = x
    while below.is_view() and below._meta.base.np_dtype == x.np_dtype:
        root = below = below._meta.base
    return root


def _offset(x: Tensor) -> int:
    """How many elements lie before `x` in the memory that it shows; in that of one example, inside a transform."""
    if is_plain(x):
        return x.storage_offset()
    root = x._base
    if root is None:
        return 0
    array, below = _layout(x)[0], _layout(root)[0]
    return int((array.ctypes.data - below.ctypes.data) // array.itemsize)


def _dense(x: Tensor, size: Ints, stride: Ints, offset: int | None, name: str) -> tuple[Tensor, int]:
    """A tensor whose row-major elements are the memory to be seen, and where in it to begin."""
    if is_plain(x) and x.is_contiguous():
        start = 0 if offset is None else offset - _offset(x)
        if start >= 0 and start + _reach(size, stride) < math.prod(shape_of(x)):
            return x, start
    own = _offset(x)
    first = own if offset is None else offset
    # A leaf that shows the memory of another tensor has no history that leads there.
    root = None if x._requires_grad and x._node is None else _bottom(x)
    for t in (x,) if root is None else (x, root):
        order, start = _layout(t)[1], first - (own if t is x else _offset(t))
        if order is not None and start >= 0 and start + _reach(size, stride) < t.numel():
            return (t if order == tuple(range(t.ndim)) else P.permute(t, dims=order)), start
    raise RuntimeError(
        f"{name}: size {size}, stride {stride} and offset {first} reach outside the memory of a tensor of shape "
        f"{x.shape}{'' if _layout(x)[1] else ', which does not lie in one piece; clone() makes it do so'}"
    )


def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the memory of a tensor: element i stands at storage_offset + Σ iₖ·strideₖ.

    Elements may be seen several times; their gradients add up. Where the view reaches beyond the tensor into memory
    that it is itself a view of, the gradient goes to that tensor.

    >>> import lucid
    >>> lucid.as_strided(lucid.arange(5), (3, 3), (1, 1))
    Tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    sizes, strides = _numbers(size, stride, "as_strided")
    x, start = _dense(lift(input), sizes, strides, storage_offset, "as_strided")
    return P.as_strided(x, size=sizes, stride=strides, offset=start, lead=0)


def _replaced(x: Tensor, src: Any, read: Any, back: Any, name: str) -> Tensor:
    """A copy of `x` with `src` in the place that `read` shows; `back` puts it there among zeros."""
    source = lift(src)
    alone = are_alone(x, source)
    mask: Any = P.clone.kernel(x._array) if alone else np.zeros(x.shape, bool)
    part = read(mask)
    if source.np_dtype != x.np_dtype:
        raise RuntimeError(f"{name}: src is of {source.dtype} and the input of {x.dtype}; the types must agree")
    if source.shape != part.shape:
        raise RuntimeError(f"{name}: src has shape {source.shape}, but the place for it has shape {part.shape}")
    if alone:
        part[...] = source._array
        return of_class((x, source), wrapped(mask))
    part[...] = True
    return P.where(Tensor._wrap(mask), back(source), x)


@takes_out
@numpy_names
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """A copy with `src` in the place of `select(input, dim, index)`.

    >>> import lucid
    >>> lucid.select_scatter(lucid.zeros(2, 2), lucid.ones(2), 0, 1)
    Tensor([[0., 0.],
            [1., 1.]])
    """
    x = lift(input)
    d = real_dim(x, dim, "select_scatter")
    if not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select_scatter: index {index} is out of range for dimension {d} of size {x.shape[d]}")
    return _sliced(x, src, d, int(index), "select_scatter")


def _sliced(x: Tensor, src: Any, dim: int, item: Any, name: str) -> Tensor:
    index = (*(slice(None),) * dim, item, ...)
    return _replaced(
        x, src, lambda mask: mask[index], lambda source: P.slice_back(source, index=index, shape=x.shape), name
    )


@takes_out
@numpy_names
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with `src` in the place of the elements from `start` to `end`, `step` apart, along `dim`.

    >>> import lucid
    >>> lucid.slice_scatter(lucid.zeros(5), lucid.ones(2), 0, 1, 5, 2)
    Tensor([0., 1., 0., 1., 0.])
    """
    x = lift(input)
    d = real_dim(x, dim, "slice_scatter")
    if step < 1:
        raise RuntimeError(f"slice_scatter: the step must be positive, got {step}")
    return _sliced(x, src, d, slice(start, end, step), "slice_scatter")


@takes_out
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with `src` in the place of `diagonal(input, offset, dim1, dim2)`.

    >>> import lucid
    >>> lucid.diagonal_scatter(lucid.zeros(2, 2), lucid.ones(2))
    Tensor([[1., 0.],
            [0., 1.]])
    """
    x = lift(input)
    if x.ndim < 2:
        raise RuntimeError(f"diagonal_scatter: expected at least 2 dimensions, not shape {x.shape}")
    where = {
        "offset": offset,
        "dim1": one_dim(dim1, x.ndim, "diagonal_scatter"),
        "dim2": one_dim(dim2, x.ndim, "diagonal_scatter"),
    }
    if where["dim1"] == where["dim2"]:
        raise RuntimeError(f"diagonal_scatter: dim1 and dim2 are both {where['dim1']}")
    return _replaced(
        x,
        src,
        lambda mask: P.diagonal.kernel(mask, **where),
        lambda source: P.diagonal_back(source, shape=x.shape, **where),
        "diagonal_scatter",
    )


@takes_out
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy with `src` in the place of `as_strided(input, size, stride, storage_offset)`, which must not overlap.

    The input counts as lying in memory in row-major order.

    >>> import lucid
    >>> lucid.as_strided_scatter(lucid.zeros(5), lucid.ones(2), (2,), (2,), 1)
    Tensor([0., 1., 0., 1., 0.])
    """
    x = lift(input)
    sizes, strides = _numbers(size, stride, "as_strided_scatter")
    start = 0 if storage_offset is None else int(storage_offset)
    if start < 0 or start + _reach(sizes, strides) >= x.numel():
        raise RuntimeError(
            f"as_strided_scatter: size {sizes}, stride {strides} and offset {start} reach outside shape {x.shape}"
        )
    if overlaps(sizes, strides):
        raise RuntimeError(f"as_strided_scatter: with strides {strides}, sizes {sizes} would name elements twice")
    where: dict[str, Any] = {"size": sizes, "stride": strides, "offset": start}
    return _replaced(
        x,
        src,
        lambda mask: seen_array(mask, **where),
        lambda source: P.as_strided_back(source, shape=x.shape, **where),
        "as_strided_scatter",
    )


@takes_out
@numpy_names
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Tensor:
    """What `narrow` gives, in memory of its own.

    >>> import lucid
    >>> lucid.narrow_copy(lucid.tensor([1, 2, 3, 4]), 0, 1, 2)
    Tensor([2, 3])
    """
    return P.clone(narrow(input, dim, start, length))


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of whatever was in memory, with these strides.

    >>> import lucid
    >>> lucid.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    as_device(device)
    sizes, strides = _numbers(size, stride, "empty_strided")
    kind = dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)
    memory = np.empty(_reach(sizes, strides) + 1, kind)
    out = Tensor._wrap(seen_array(memory, sizes, strides, 0))
    return out.requires_grad_() if requires_grad else out


def new_empty_strided(
    self: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of whatever was in memory, with these strides and this tensor's type.

    >>> import lucid
    >>> lucid.tensor([1, 2]).new_empty_strided((2, 3), (1, 2)).dtype
    lucid.int64
    """
    kind = np_dtype(self) if dtype is None else dtype
    return of_class((self,), empty_strided(size, stride, dtype=kind, device=device, requires_grad=requires_grad))


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of whatever was in memory, whose dimensions lie there in the order given, the outermost first.

    >>> import lucid
    >>> lucid.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    sizes, order = shape_from((size,), "empty_permuted"), shape_from((physical_layout,), "empty_permuted")
    if sorted(order) != list(range(len(sizes))):
        raise RuntimeError(f"empty_permuted: {order} does not name each of the {len(sizes)} dimensions once")
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d], step = step, step * sizes[d]
    return empty_strided(sizes, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def _in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that lies in order; NumPy has none where there are no elements."""
    return tuple(math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))


def stride(input: Tensor, dim: int | None = None) -> Any:
    """How many elements apart neighbours are along each dimension, or one of them.

    >>> import lucid
    >>> x = lucid.zeros(2, 3)
    >>> x.stride(), x.t().stride()
    ((3, 1), (1, 3))
    """
    array = input._held_array("stride()")
    strides = tuple(s // array.itemsize for s in array.strides) if array.size else _in_order(array.shape)
    return strides if dim is None else strides[one_dim(dim, input.ndim, "stride")]


def storage_offset(input: Tensor) -> int:
    """How many elements lie before the first one in the memory that is shared.

    >>> import lucid
    >>> lucid.zeros(2, 3)[1].storage_offset()
    3
    """
    array = input._held_array("storage_offset()")
    return int(offset(array) // array.itemsize)


# --- views as copies: what a function that shows memory gives, in memory of its own ---------------


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    x = lift(input)
    return x.movedim(dim, 0)[slice(start, end, step)].movedim(0, dim)


def _in_own_memory(found: Any) -> Any:
    return P.clone(found) if isinstance(found, Tensor) else tuple(P.clone(piece) for piece in found)


def _copying(name: str, view: Callable[..., Any], call: str, value: str) -> Callable[..., Any]:
    """The function `name_copy`, with an example: how it is called on [[1, 2], [3, 4]], and the value."""

    def copy(input: Any, *args: Any, **kwargs: Any) -> Any:
        return _in_own_memory(view(input, *args, **kwargs))

    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"""What `{name}` gives, in memory of its own.

    >>> import lucid
    >>> x = lucid.tensor([[1, 2], [3, 4]])
    >>> lucid.{name}_copy{call}.tolist()
    {value}
    """
    return takes_out(copy)


alias_copy = _copying("alias", lift, "(x)", "[[1, 2], [3, 4]]")
as_strided_copy = _copying("as_strided", as_strided, "(x, (3,), (1,))", "[1, 2, 3]")
detach_copy = _copying("detach", shaping.detach, "(x)", "[[1, 2], [3, 4]]")
diagonal_copy = _copying("diagonal", splitting.diagonal, "(x)", "[1, 4]")
expand_copy = _copying("expand", shaping.expand, "(x[:1], (2, 2))", "[[1, 2], [1, 2]]")
permute_copy = _copying("permute", shaping.permute, "(x, (1, 0))", "[[1, 3], [2, 4]]")
select_copy = _copying("select", splitting.select, "(x, 0, 1)", "[3, 4]")
slice_copy = _copying("slice", _slice, "(x, 1, 1, 2)", "[[2], [4]]")
split_copy = _copying("split", splitting.split, "(x, 1)[0]", "[[1, 2]]")
split_with_sizes_copy = _copying("split_with_sizes", joining.split_with_sizes, "(x, (1, 1))[1]", "[[3, 4]]")
squeeze_copy = _copying("squeeze", shaping.squeeze, "(x[:1], 0)", "[1, 2]")
t_copy = _copying("t", shaping.t, "(x)", "[[1, 3], [2, 4]]")
transpose_copy = _copying("transpose", shaping.transpose, "(x, 0, 1)", "[[1, 3], [2, 4]]")
unbind_copy = _copying("unbind", splitting.unbind, "(x)[0]", "[1, 2]")
unfold_copy = _copying("unfold", splitting.unfold, "(x, 1, 2, 1)", "[[[1, 2]], [[3, 4]]]")
unsqueeze_copy = _copying("unsqueeze", shaping.unsqueeze, "(x, 0)", "[[[1, 2], [3, 4]]]")
view_copy = _copying("view", shaping.view, "(x, (4,))", "[1, 2, 3, 4]")
