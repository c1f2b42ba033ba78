"""Functions of `jax.numpy` that NumPy has not, or that take other arguments there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api import counting, shaping, sorting
from lucid.api.dlpack import from_dlpack as _from_dlpack
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.jax.keys import KeyType
from lucid.jax.transforms import vmap
from lucid.numpy.creation import makers
from lucid.ops import binary


class ScalarType:
    """A type of numbers: called, it makes an array of one number; elsewhere it is NumPy's type.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.float32(2), jnp.float32 == jnp.ones(2).dtype
    (Array(2., dtype=float32), True)
    """

    def __init__(self, kind: Any) -> None:
        self.dtype = np.dtype(kind)
        self.__name__ = self.dtype.name

    def __call__(self, value: Any = 0) -> Any:
        return asarray(value, self.dtype)

    def __eq__(self, other: object) -> bool:
        try:
            return self.dtype == np.dtype(other)  # type: ignore[call-overload]  # whatever it is
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"jax.numpy.{self.__name__}"


def _typed(dtype: Any) -> Any:
    return None if dtype is None else canonical(np.dtype(dtype))


_MADE = makers(DOOR)


def array(object: Any, dtype: Any = None, copy: bool = True, order: Any = "K", ndmin: int = 0, **hints: Any) -> Any:
    """An array of numbers, arrays and tensors in nested lists.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.array([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    return _MADE["array"](object, _typed(dtype), copy=True, ndmin=ndmin)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, **hints: Any) -> Any:
    """The same; an array that is one already stays what it is.

    >>> import lucid.jax.numpy as jnp
    >>> x = jnp.ones(2)
    >>> jnp.asarray(x) is x
    True
    """
    if type(a) is DOOR.kind and dtype is None:
        return a.clone() if copy else a
    return _MADE["asarray" if isinstance(a, Tensor) else "array"](a, _typed(dtype))


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """The array in another type."""
    return asarray(x).astype(dtype)


def from_dlpack(x: Any, /, **hints: Any) -> Any:
    """An array over the memory of another library's."""
    return DOOR.adopted(_from_dlpack(x))


def _counted(find: Callable[[Any], Any], size: int | None, fill_value: Any) -> Callable[[Any], Any]:
    """Positions, as many as there are, or a number of them that is known before."""

    def call(x: Any) -> Any:
        if size is None:
            return find(x)
        flat = shaping.reshape(x, -1)
        there = (flat != 0).to(np.dtype(np.int64)) if flat.np_dtype != np.bool_ else flat.to(np.dtype(np.int64))
        # True places first, in their order.
        order = sorting.argsort(1 - there, 0, stable=True)
        count = min(size, flat.shape[0])
        places = order[:count]
        known = lift(np.arange(count)) < there.sum()
        if count < size:
            places = DOOR.function(np.pad)(places, (0, size - count))
            known = DOOR.function(np.pad)(known, (0, size - count))
        found = []
        for length in reversed(tuple(x.shape)):
            found.append(binary.where(known, places % length, 0 if fill_value is None else fill_value))
            places = places // length
        return tuple(reversed(found))

    return call


def sort(a: Any, axis: int | None = -1, *, descending: bool = False, **settings: Any) -> Any:
    """The array sorted along an axis, or all elements of it if that is None.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.sort(jnp.array([2, 3, 1]), descending=True)
    Array([3, 2, 1], dtype=int32)
    """
    return asarray(a).sort(axis, descending=descending)


def argsort(a: Any, axis: int | None = -1, *, stable: bool = True, descending: bool = False, **settings: Any) -> Any:
    """The places from which `sort` takes the elements; equal ones stay in their order.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.argsort(jnp.array([2, 3, 2]), descending=True)
    Array([1, 0, 2], dtype=int32)
    """
    x = asarray(a)
    x = x.reshape(-1) if axis is None else x
    return DOOR.adopted(sorting.argsort(x, -1 if axis is None else axis, descending=descending, stable=stable))


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy whose diagonal is `val`; JAX asks for `inplace=False`, since arrays cannot be written.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 3.0, inplace=False)
    Array([[3., 0.],
           [0., 3.]], dtype=float32)
    """
    if inplace or wrap:
        raise NotImplementedError("fill_diagonal: arrays cannot be written; give inplace=False, and no wrap")
    x = asarray(a)
    places = np.arange(min(x.shape))
    return x.at[(places,) * x.ndim].set(val)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Where the elements are not 0; with `size`, that many places, also inside of transforms.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 5, 7]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    """
    find = _counted(lambda x: counting.nonzero(x, as_tuple=True), size, fill_value)
    return DOOR.adopted(find(asarray(a)))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The same in row-major order."""
    return nonzero(asarray(a).reshape(-1), size=size, fill_value=fill_value)[0]


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere; without them, the places where it holds.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1.0, 2.0)
    Array([1., 2.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    return DOOR.function(np.where)(asarray(condition).astype(bool), x, y)


def clip(
    arr: Any = None, /, min: Any = None, max: Any = None, *, a: Any = None, a_min: Any = None, a_max: Any = None
) -> Any:
    """Elements, none below `min` or above `max`."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    return DOOR.function(np.clip)(asarray(a if arr is None else arr), low, high)


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str | None = None, **hints: Any) -> Any:
    """Elements at places along an axis; a `mode` says what places outside mean: "clip", "wrap" or "fill".

    >>> import lucid.jax.numpy as jnp
    >>> jnp.take(jnp.arange(3.0), jnp.array([0, 7]), mode="clip")
    Array([0., 2.], dtype=float32)
    """
    x, places = asarray(a), asarray(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    size = x.shape[axis]
    if mode == "clip":
        return DOOR.function(np.take)(x, places.clip(0, size - 1), axis)
    if mode == "wrap":
        return DOOR.function(np.take)(x, places % size, axis)
    if mode != "fill":
        return DOOR.function(np.take)(x, places, axis)
    rows: Any = shaping.movedim(x, axis, 0)
    found = rows.at[places].get(mode="fill", fill_value=hints.get("fill_value"))
    return shaping.movedim(found, tuple(range(places.ndim)), tuple(range(axis % x.ndim, axis % x.ndim + places.ndim)))


def vectorize(pyfunc: Any, *, excluded: Any = frozenset(), signature: str | None = None) -> Any:
    """A function of arrays of few dimensions on arrays of more: by vmap over those in front.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.vectorize(jnp.dot, signature="(n),(n)->()")(jnp.ones((4, 3)), jnp.ones(3)).shape
    (4,)
    """

    def ranks(count: int) -> list[int]:
        if signature is None:
            return [0] * count
        inputs = signature.partition("->")[0].replace(" ", "").strip("()").split("),(")
        return [len([n for n in part.split(",") if n]) for part in inputs]

    def call(*args: Any) -> Any:
        chosen = [n for n in range(len(args)) if n not in excluded]
        arrays = [asarray(args[n]) for n in chosen]
        cores = ranks(len(arrays))
        leads = [tuple(a.shape[: a.ndim - c]) for a, c in zip(arrays, cores, strict=True)]
        batch = np.broadcast_shapes(*leads)
        spread = [
            DOOR.function(np.broadcast_to)(a, batch + tuple(a.shape[a.ndim - c :]))
            for a, c in zip(arrays, cores, strict=True)
        ]

        def run(*values: Any) -> Any:
            given = list(args)
            for n, v in zip(chosen, values, strict=True):
                given[n] = v
            return pyfunc(*given)

        for _ in batch:
            run = vmap(run)
        return run(*spread)

    return call


def unique(ar: Any, *settings: Any, size: int | None = None, fill_value: Any = None, **named: Any) -> Any:
    """The different elements in order; with `size`, that many of them, also inside of transforms."""
    if size is None:
        return DOOR.function(np.unique)(asarray(ar), *settings, **named)
    if settings or named:
        raise TypeError("unique: with a size only the elements themselves are given")
    x = sorting.sort(asarray(ar).reshape(-1), 0).values
    first = DOOR.function(np.concatenate)([DOOR.wrapped(np.ones(1, bool)), x[1:] != x[:-1]])
    (places,) = nonzero(first, size=size, fill_value=0)
    known = lift(np.arange(size)) < first.sum()
    return binary.where(known, x[places], x[0] if fill_value is None else fill_value)


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Where the elements are not 0, one place in each row."""
    return DOOR.function(np.stack)(nonzero(a, size=size, fill_value=fill_value), -1)


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """How often each number occurs, from 0; with `length`, up to that, also inside of transforms."""
    numbers = asarray(x).reshape(-1)
    if length is None and is_plain(numbers):
        return DOOR.function(np.bincount)(numbers, weights, minlength)
    counts = asarray(
        np.zeros(length or minlength, np.int32) if weights is None else np.zeros(length or minlength, np.float32)
    )
    return counts.at[numbers].add(1 if weights is None else weights, mode="drop")


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None, **hints: Any
) -> Any:
    """Each element several times; with `total_repeat_length`, as many in all, also inside of transforms.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.repeat(jnp.arange(3), jnp.array([1, 0, 2]), total_repeat_length=4)
    Array([0, 2, 2, 2], dtype=int32)
    """
    x = asarray(a)
    if total_repeat_length is None:
        return DOOR.function(np.repeat)(x, repeats, axis)
    if axis is None:
        x, axis = x.reshape(-1), 0
    size = x.shape[axis]
    ends = DOOR.function(np.cumsum)(DOOR.function(np.broadcast_to)(asarray(repeats), (size,)))
    places = DOOR.function(np.searchsorted)(ends, asarray(np.arange(total_repeat_length)), side="right")
    return take(x, places, axis, mode="clip")


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Each element by the function of the last condition that holds there. As in JAX, functions see every element, one by one.

    >>> import lucid.jax.numpy as jnp
    >>> x = jnp.array([-2.0, 0.0, 3.0])
    >>> jnp.piecewise(x, [x < 0, x > 0], [jnp.square, 7.0, 1.0])
    Array([4., 1., 7.], dtype=float32)
    """
    x = asarray(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else list(asarray(condlist))
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"piecewise: {len(conditions)} conditions need as many functions, or one more")
    functions = list(funclist) + [0] * (len(conditions) + 1 - len(funclist))
    out = functions.pop()

    def values(function: Any) -> Any:
        if callable(function):
            return vmap(lambda v: function(v, *args, **kw))(x.reshape(-1)).reshape(x.shape).astype(x.dtype)
        return DOOR.function(np.full_like)(x, function)

    out = values(out)
    for condition, function in zip(conditions, functions, strict=True):
        out = DOOR.function(np.where)(condition, values(function), out)
    return out


def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None) -> Any:
    """How many elements lie in each bin, as floats, and the edges of the bins.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.histogram(jnp.array([0.0, 1.0, 1.0]), 2)
    (Array([1., 2.], dtype=float32), Array([0. , 0.5, 1. ], dtype=float32))
    """
    counts, edges = DOOR.function(np.histogram)(asarray(a), bins, range, density, weights)
    return asarray(counts).astype(asarray(edges).dtype), edges


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close, as an array."""
    return DOOR.function(np.isclose)(asarray(a), asarray(b), rtol, atol, equal_nan).all()


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have the same shape and elements, as an array.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.array_equal(jnp.ones(2), jnp.ones(3))
    Array(False, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return asarray(False)
    same = x == y
    if equal_nan and x.dtype.kind in "fc" and y.dtype.kind in "fc":
        same = same | ((x != x) & (y != y))
    return same.all()


def permute_dims(a: Any, /, axes: Any) -> Any:
    """The dimensions in another order."""
    return DOOR.function(np.transpose)(asarray(a), axes)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The arrays one after the other along an axis."""
    return DOOR.function(np.concatenate)(arrays, axis)


def iscomplexobj(x: Any) -> bool:
    """Whether the type is one of complex numbers."""
    return bool(asarray(x).is_complex())


def result_type(*values: Any) -> Any:
    """The type in which arrays, types and numbers meet.

    >>> import lucid.jax.numpy as jnp
    >>> jnp.result_type(jnp.int32, jnp.float16), jnp.result_type(1, jnp.float32)
    (dtype('float16'), dtype('float32'))
    """
    numbers = [v for v in values if isinstance(v, (bool, int, float, complex, np.generic))]
    kinds = [
        np.dtype(getattr(v, "dtype", v)) for v in values if not isinstance(v, (bool, int, float, complex, np.generic))
    ]
    lattice: Any = DOOR.kind.lattice
    return lattice.result_type(kinds, numbers)


promote_types = result_type


def names() -> set[str]:
    """The names that are found here."""
    own = {n for n, v in globals().items() if callable(v) and getattr(v, "__module__", None) == __name__}
    return (own | _MADE.keys()) - {"names", "found", "ScalarType", "require", "asarray_chkfinite"} | {"promote_types"}


def found(name: str) -> Any:
    """What a name stands for."""
    return globals()[name] if name in globals() else _MADE[name]


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a type is one of a kind: of NumPy's, or of keys.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jnp.issubdtype(jnp.float32, jnp.floating), jnp.issubdtype(jax.random.key(0).dtype, jax.dtypes.prng_key)
    (True, True)
    """
    if isinstance(arg1, KeyType) or arg2 is KeyType:
        return isinstance(arg1, KeyType) and arg2 in (KeyType, np.generic)
    return bool(np.issubdtype(arg1, arg2))
