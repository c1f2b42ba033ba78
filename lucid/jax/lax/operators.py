"""Functions of arrays in `jax.lax`, whose arguments say more than those of `jax.numpy`."""

from collections.abc import Callable, Sequence
from enum import Enum
from string import ascii_letters
from typing import Any

import numpy as np

from lucid.api import contractions, reductions, shaping, sorting, splitting
from lucid.api.indexing import take_along_dim
from lucid.api.random import rand
from lucid.autograd import Function
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.core.tree import tree_map
from lucid.interop.numpy_updates import updated
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.ops import binary, unary


def _array(x: Any) -> Any:
    return lift(DOOR.array(x))


# --- types and shapes ------------------------------------------------------------------------------


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The array in another type."""
    return DOOR.adopted(_array(operand).to(canonical(np.dtype(new_dtype))))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The same bits, read as numbers of another type."""
    return Tensor.view(_array(operand), np.dtype(new_dtype))


def reshape(operand: Any, new_sizes: Any, dimensions: Any = None, **hints: Any) -> Any:
    """The array in another shape."""
    x = _array(operand)
    return shaping.reshape(x if dimensions is None else x.permute(tuple(dimensions)), tuple(new_sizes))


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """The dimensions in another order."""
    return _array(operand).permute(tuple(permutation))


def broadcast(operand: Any, sizes: Sequence[int], **hints: Any) -> Any:
    """The array with dimensions in front."""
    x = _array(operand)
    return shaping.broadcast_to(x, (*sizes, *x.shape))


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], **hints: Any) -> Any:
    """The array in a larger shape; where each of its dimensions goes is said."""
    x = _array(operand)
    sizes = [1] * len(shape)
    for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[dim] = size
    return shaping.broadcast_to(shaping.reshape(x, tuple(sizes)), tuple(shape))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """The array with dimensions of size 1."""
    return DOOR.function(np.expand_dims)(_array(array), tuple(dimensions))


def squeeze(array: Any, dimensions: Sequence[int] | None = None) -> Any:
    """The array without dimensions of size 1."""
    return DOOR.function(np.squeeze)(_array(array), None if dimensions is None else tuple(dimensions))


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """The array in reverse order along dimensions."""
    return shaping.flip(_array(operand), tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """The arrays one after the other."""
    return DOOR.function(np.concatenate)([_array(o) for o in operands], dimension)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """The array with a value before, behind and between its elements; negative widths cut off.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.pad(jnp.array([1.0, 2.0]), 0.0, [(1, 0, 2)])
    Array([0., 1., 0., 0., 2.], dtype=float32)
    """
    x = _array(operand)
    value = _array(padding_value).to(x.np_dtype)
    for dim, (low, high, interior) in enumerate(padding_config):
        if interior and x.shape[dim]:
            x = _spaced(x, dim, interior, value)
        cut = slice(max(-low, 0), x.shape[dim] - max(-high, 0))
        x = x[(slice(None),) * dim + (cut,)]
        widths = [(0, 0)] * x.ndim
        widths[dim] = (max(low, 0), max(high, 0))
        x = DOOR.function(np.pad)(x, widths, constant_values=value)
    return x


def _spaced(x: Any, dim: int, interior: int, value: Any) -> Any:
    """The array with `interior` values behind each element but the last."""
    rows = x.unsqueeze(dim + 1)
    widths = [(0, 0)] * rows.ndim
    widths[dim + 1] = (0, interior)
    spread = DOOR.function(np.pad)(rows, widths, constant_values=value)
    flat = shaping.reshape(spread, (*x.shape[:dim], -1, *x.shape[dim + 1 :]))
    return flat[(slice(None),) * dim + (slice(0, flat.shape[dim] - interior),)]


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Some dimensions as one."""
    x = _array(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    return shaping.reshape(x, (*x.shape[:start], int(np.prod(x.shape[start:stop])), *x.shape[stop:]))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Parts of given sizes along a dimension."""
    return list(splitting.split(_array(operand), list(sizes), axis))


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The array, again and again."""
    return shaping.tile(_array(operand), tuple(reps))


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """The arrays along a new dimension."""
    return DOOR.function(np.stack)([_array(o) for o in operands], axis)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which shapes broadcast."""
    return tuple(np.broadcast_shapes(*shapes))


class Precision(Enum):
    """How precise products are: as precise as their type."""

    DEFAULT, HIGH, HIGHEST = 0, 1, 2


def iota(dtype: Any, size: int) -> Any:
    """The numbers from 0."""
    return DOOR.wrapped(np.arange(size, dtype=canonical(np.dtype(dtype))))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, **hints: Any) -> Any:
    """The numbers from 0 along a dimension."""
    return broadcast_in_dim(iota(dtype, shape[dimension]), tuple(shape), (dimension,))


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, **hints: Any) -> Any:
    """An array of one number."""
    return DOOR.function(np.full)(tuple(shape), fill_value, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **hints: Any) -> Any:
    """An array of one number, in the shape and type of another."""
    like = _array(x)
    return full(like.shape if shape is None else shape, fill_value, like.np_dtype if dtype is None else dtype)


# --- parts -----------------------------------------------------------------------------------------


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """A part along one dimension."""
    x = _array(operand)
    return x[(slice(None),) * (axis % x.ndim) + (slice(start_index, limit_index, stride),)]


def slice_(operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None) -> Any:
    """A part along all dimensions."""
    steps = [1] * len(start_indices) if strides is None else strides
    return _array(operand)[tuple(slice(*t) for t in zip(start_indices, limit_indices, steps, strict=True))]


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """One place along a dimension."""
    x = _array(operand)
    found = x[(slice(None),) * (axis % x.ndim) + (index,)]
    return found.unsqueeze(axis % x.ndim) if keepdims else found


def _starts(x: Any, start_indices: Any, sizes: Sequence[int]) -> list[Any]:
    """Where parts begin that lie inside: Python's numbers where they are known."""
    given = list(start_indices) if not isinstance(start_indices, (Tensor, np.ndarray)) else list(_array(start_indices))
    if len(given) != x.ndim or len(sizes) != x.ndim:
        raise TypeError(f"{len(given)} start indices and {len(sizes)} sizes for an array of shape {tuple(x.shape)}")
    found = []
    for start, size, length in zip(given, sizes, x.shape, strict=True):
        known = start.item() if is_plain(start) else start
        if isinstance(known, Tensor):
            found.append(known.clamp(0, length - size))
        else:
            found.append(min(max(int(known), 0), length - size))
    return found


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Any:
    """A part of given sizes that begins where arrays say; it is moved so that it lies inside.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.dynamic_slice(jnp.arange(5.0), (jnp.array(3),), (3,))
    Array([2., 3., 4.], dtype=float32)
    """
    x = _array(operand)
    for dim, (start, size) in enumerate(zip(_starts(x, start_indices, slice_sizes), slice_sizes, strict=True)):
        whole = (slice(None),) * dim
        if isinstance(start, Tensor):
            x = x[(*whole, start + lift(np.arange(size)))]
        elif size != x.shape[dim]:
            x = x[(*whole, slice(start, start + size))]
    return x


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """The same along one dimension."""
    x = _array(operand)
    starts: list[Any] = [0] * x.ndim
    sizes = list(x.shape)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(x, starts, sizes)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """One place along a dimension, which an array says."""
    x = _array(operand)
    place = _array(index)
    found = dynamic_slice_in_dim(x, binary.where(place < 0, place + x.shape[axis], place), 1, axis)
    return found if keepdims else found.squeeze(axis)


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """The array with another one in its place where arrays say; that is moved so that it lies inside.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (jnp.array(1),))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    x, new = _array(operand), _array(update)
    starts = _starts(x, start_indices, new.shape)
    if not any(isinstance(s, Tensor) for s in starts):
        return updated(x, tuple(slice(s, s + n) for s, n in zip(starts, new.shape, strict=True)), new)
    index = []
    for dim, (start, size) in enumerate(zip(starts, new.shape, strict=True)):
        places = start + lift(np.arange(size))
        index.append(shaping.reshape(places, (-1,) + (1,) * (x.ndim - 1 - dim)))
    return updated(x, tuple(index), new)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """The same along one dimension."""
    x = _array(operand)
    starts: list[Any] = [0] * x.ndim
    starts[axis] = start_index
    return dynamic_update_slice(x, update, starts)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """The array with another one at a place along a dimension."""
    x, new = _array(operand), _array(update)
    return dynamic_update_slice_in_dim(x, new if new.ndim == x.ndim else new.unsqueeze(axis), index, axis)


# --- choices and order -----------------------------------------------------------------------------


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of one array or the other."""
    return binary.where(_array(pred), _array(on_true), _array(on_false))


def select_n(which: Any, *cases: Any) -> Any:
    """Elements of the array whose number `which` gives; False is the first."""
    place = _array(which)
    out = _array(cases[0])
    for number, case in enumerate(cases[1:], 1):
        out = binary.where(place == number, _array(case), out)
    return out


def clamp(min: Any, x: Any, max: Any) -> Any:
    """Elements, none below `min` or above `max`."""
    return binary.minimum(binary.maximum(_array(x), min), max)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The array sorted along a dimension; several arrays in the order of the first `num_keys` of them.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.sort((jnp.array([3, 1, 2]), jnp.array([0.0, 10.0, 20.0])))
    (Array([1, 2, 3], dtype=int32), Array([10., 20.,  0.], dtype=float32))
    """
    if not isinstance(operand, (tuple, list)):
        return sorting.sort(_array(operand), dimension, stable=is_stable).values
    arrays = [_array(o) for o in operand]
    order = sorting.argsort(arrays[num_keys - 1], dimension, stable=True)
    for earlier in reversed(arrays[: num_keys - 1]):
        again = sorting.argsort(take_along_dim(earlier, order, dimension), dimension, stable=True)
        order = take_along_dim(order, again, dimension)
    return tuple(take_along_dim(a, order, dimension) for a in arrays)


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in order, and values in the same."""
    return sort((keys, values), dimension)


def top_k(operand: Any, k: int, **hints: Any) -> list[Any]:
    """The largest elements of the last dimension, and where they stand.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.top_k(jnp.array([1.0, 3.0, 2.0]), 2)
    [Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    found = sorting.topk(_array(operand), k, -1)
    return [found.values, DOOR.adopted(found.indices.to(np.int32))]  # of 32 bits in JAX, also where x64 is on


approx_max_k = top_k


def argmax(operand: Any, axis: int, index_dtype: Any = np.int32) -> Any:
    """Where the largest element stands."""
    return reductions.argmax(_array(operand), axis).to(canonical(np.dtype(index_dtype)))


def argmin(operand: Any, axis: int, index_dtype: Any = np.int32) -> Any:
    """Where the smallest element stands."""
    return reductions.argmin(_array(operand), axis).to(canonical(np.dtype(index_dtype)))


# --- folds -----------------------------------------------------------------------------------------


def _folded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def fold(operand: Any, axes: Sequence[int], **hints: Any) -> Any:
        x = _array(operand)
        return x if not tuple(axes) else DOOR.adopted(function(x, tuple(axes)))

    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = f"`{function.__name__}` over dimensions."
    return fold


reduce_sum = _folded("reduce_sum", reductions.sum)
reduce_prod = _folded("reduce_prod", reductions.prod)
reduce_max = _folded("reduce_max", reductions.amax)
reduce_min = _folded("reduce_min", reductions.amin)
reduce_and = _folded("reduce_and", reductions.all)
reduce_or = _folded("reduce_or", reductions.any)


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int], **hints: Any
) -> Any:
    """The elements along dimensions, put together by a function that associates, beginning with a value.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.reduce(jnp.arange(6.0).reshape(2, 3), 0.0, jax.lax.add, (1,))
    Array([ 3., 12.], dtype=float32)
    """
    several = isinstance(operands, (tuple, list))
    arrays = [_array(o) for o in operands] if several else [_array(operands)]
    starts = [_array(i) for i in init_values] if several else [_array(init_values)]
    dims = tuple(d % arrays[0].ndim for d in dimensions)
    kept = [d for d in range(arrays[0].ndim) if d not in dims]
    rows = [shaping.reshape(a.permute((*dims, *kept)), (-1, *(a.shape[d] for d in kept))) for a in arrays]
    # Halves are put together, so that the number of steps is a logarithm.
    while rows[0].shape[0] > 1:
        count = rows[0].shape[0]
        half = count // 2
        first, second = [r[:half] for r in rows], [r[half : 2 * half] for r in rows]
        joined = _combined(computation, first, second)
        rest = [r[2 * half :] for r in rows]
        rows = [DOOR.function(np.concatenate)([j, t]) if count % 2 else j for j, t in zip(joined, rest, strict=True)]
    found = [
        shaping.broadcast_to(s.to(a.np_dtype), tuple(a.shape[d] for d in kept))
        for s, a in zip(starts, arrays, strict=True)
    ]
    if rows[0].shape[0]:
        found = _combined(computation, found, [r[0] for r in rows])
    return tuple(found) if several else found[0]


def _combined(computation: Callable[..., Any], first: list[Any], second: list[Any]) -> list[Any]:
    if len(first) == 1:
        return [computation(first[0], second[0])]
    return list(computation(tuple(first), tuple(second)))


def _scanned(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def scan(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        x = _array(operand)
        found = function(shaping.flip(x, axis) if reverse else x, axis)
        values = getattr(found, "values", found)
        return DOOR.adopted(shaping.flip(values, axis) if reverse else values)

    scan.__name__ = scan.__qualname__ = name
    scan.__doc__ = f"`{function.__name__}` along an axis, from the end if `reverse`."
    return scan


cumsum = _scanned("cumsum", reductions.cumsum)
cumprod = _scanned("cumprod", reductions.cumprod)
cummax = _scanned("cummax", reductions.cummax)
cummin = _scanned("cummin", reductions.cummin)
cumlogsumexp = _scanned("cumlogsumexp", reductions.logcumsumexp)


# --- products --------------------------------------------------------------------------------------


def dot(lhs: Any, rhs: Any, **hints: Any) -> Any:
    """The product of vectors and matrices."""
    return DOOR.function(np.dot)(_array(lhs), _array(rhs))


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, **hints: Any) -> Any:
    """The product over pairs of dimensions, for each place of pairs of others.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.dot_general(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    x, y = _array(lhs), _array(rhs)
    (left, right), (left_batch, right_batch) = dimension_numbers
    labels = iter(ascii_letters)
    of_x, of_y = [next(labels) for _ in x.shape], [next(labels) for _ in y.shape]
    for a, b in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        of_y[b] = of_x[a]
    batch = [of_x[a] for a in left_batch]
    used = {*batch, *(of_x[a] for a in left)}
    out = batch + [c for c in of_x if c not in used] + [c for c in of_y if c not in used]
    return contractions.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(out)}", x, y)


def batch_matmul(lhs: Any, rhs: Any, **hints: Any) -> Any:
    """The products of stacks of matrices."""
    return contractions.matmul(_array(lhs), _array(rhs))


# --- elements --------------------------------------------------------------------------------------


def integer_pow(x: Any, y: int) -> Any:
    """A whole power."""
    return binary.pow(_array(x), int(y))


def rem(x: Any, y: Any) -> Any:
    """The remainder of a quotient that is rounded towards 0."""
    return binary.fmod(_array(x), y)


def div(x: Any, y: Any) -> Any:
    """The quotient; of integers it is rounded towards 0."""
    a, b = _array(x), _array(y)
    if a.np_dtype.kind in "iu" and b.np_dtype.kind in "iu":
        return (a - binary.fmod(a, b)) // b
    return binary.true_divide(a, b)


def optimization_barrier(operand: Any) -> Any:
    """The same values: nothing is moved here."""
    return tree_map(lambda leaf: leaf, operand)


def square(x: Any) -> Any:
    """The square."""
    return unary.square(_array(x))


# --- bits, roots and other forms -------------------------------------------------------------------


def cbrt(x: Any, accuracy: Any = None) -> Any:
    """The cube root, of negative numbers too.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.cbrt(jnp.array([-8.0, 27.0])).round(4)
    Array([-2.,  3.], dtype=float32)
    """
    return DOOR.function(np.cbrt)(_array(x))


def unstack(operand: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along a dimension."""
    return tuple(splitting.unbind(_array(operand), axis))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """The array with dimensions of size 1 in front, up to a rank."""
    y = _array(x)
    return shaping.reshape(y, (1,) * (rank - y.ndim) + tuple(y.shape))


def population_count(x: Any) -> Any:
    """How many bits are set.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.population_count(jnp.array([0, 7, 8]))
    Array([0, 3, 1], dtype=int32)
    """
    return DOOR.function(np.bitwise_count)(_array(x)).astype(_array(x).np_dtype)


def shift_right_logical(x: Any, y: Any) -> Any:
    """The bits moved to the right, with zeros in front.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.shift_right_logical(jnp.array([-1]), jnp.array([28]))
    Array([15], dtype=int32)
    """
    value, steps = _array(x), _array(y)
    size = value.np_dtype.itemsize * 8
    kept = binary.where(steps > 0, (1 << (size - steps).clamp(0, size - 1)) - 1, -1)
    return binary.where(steps >= size, 0, (value >> steps) & kept).to(value.np_dtype)


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """The bits of all elements along dimensions, put together by exclusive or."""
    return DOOR.function(np.bitwise_xor).reduce(_array(operand), tuple(axes))


def _rounded(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Floats with as many bits as are said: ties to even, infinite above the largest, and 0 below the least normal number."""
    kind = x.dtype
    wide: Any = np.asarray(x, np.float64 if kind.itemsize == 8 else np.float32)
    info = np.finfo(wide.dtype)
    word, cut = np.dtype(f"u{wide.itemsize}"), info.nmant - mantissa_bits
    bits = wide.view(word)
    if cut > 0:
        one = word.type(1)
        odd = bits >> word.type(cut) & one
        bits = bits + ((one << word.type(cut - 1)) - one + odd) & ~((one << word.type(cut)) - one)
    found = np.where(np.isfinite(wide), bits.view(wide.dtype), wide)
    if exponent_bits < info.nexp:
        _, power = np.frexp(np.where(np.isfinite(found), found, 0))
        most = (1 << (exponent_bits - 1)) - 1
        found = np.where(power - 1 > most, np.copysign(np.inf, found), found)
        found = np.where((power - 1 < 1 - most) & (found != 0) & np.isfinite(found), np.copysign(0, found), found)
    return np.asarray(found, kind)


class _Reduced(Function):
    """Floats rounded to fewer bits, and their derivatives too."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
        return Tensor._wrap(_rounded(np.asarray(x), exponent_bits, mantissa_bits))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.bits = inputs[1:]

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return _Reduced.apply(ct, *ctx.bits), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *none: Any) -> Any:
        return _Reduced.apply(tangent, *ctx.bits)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Floats rounded to numbers of fewer bits, in the type that they have.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.reduce_precision(jnp.array([1.2345678, 1e6]), exponent_bits=5, mantissa_bits=10)
    Array([1.234375,      inf], dtype=float32)
    """
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(f"reduce_precision: there is no float with {exponent_bits} and {mantissa_bits} bits")
    return DOOR.adopted(_Reduced.apply(_array(operand), int(exponent_bits), int(mantissa_bits)))


def empty(shape: Sequence[int], dtype: Any, **hints: Any) -> Any:
    """An array of which only shape and type count; it holds zeros."""
    return DOOR.wrapped(np.zeros(tuple(shape), canonical(np.dtype(dtype))))


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Any:
    """Numbers drawn evenly from [a, b), of the generator of Lucid."""
    low, high = _array(a), _array(b)
    return rand(*shape, dtype=low.np_dtype) * (high - low) + low
