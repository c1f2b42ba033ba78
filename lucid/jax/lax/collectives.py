"""Examples of a vmap that meet: functions of all examples along an axis that has a name.

Two linear maps are enough: `all_gather` shows every example all of them, and `psum_scatter`, its transpose, gives each the sum
of what all have for it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api import reductions
from lucid.autograd import Function
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.core.tree import tree_map
from lucid.jax.arrays import DOOR
from lucid.jax.transforms import named_axis
from lucid.kinds.batched import enclose, reveal


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, axis: Any) -> Any:
        ctx.axis = axis
        return reveal(x, axis.level, axis.size)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return _Scatter.apply(ct, ctx.axis), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return _Gather.apply(tangent, ctx.axis)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, axis: Any) -> Any:
        ctx.axis = axis
        return enclose(reductions.sum(reveal(x, axis.level, axis.size), 0), axis.level)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return _Gather.apply(ct, ctx.axis), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return _Scatter.apply(tangent, ctx.axis)


def _over(x: Any, axis_name: Any, fold: Callable[[Any], Any]) -> Any:
    """A nest folded over one named axis, or over several."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        axis = named_axis(name)
        x = tree_map(lambda leaf, axis=axis: fold(_Gather.apply(lift(DOOR.array(leaf)), axis)), x)
    return x


def psum(x: Any, axis_name: Any, **hints: Any) -> Any:
    """The sum of all examples.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.vmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([3., 3., 3.], dtype=float32)
    """
    return _over(x, axis_name, lambda all: reductions.sum(all, 0))


def pmean(x: Any, axis_name: Any, **hints: Any) -> Any:
    """The mean of all examples."""
    return _over(x, axis_name, lambda all: reductions.mean(all, 0))


def pmax(x: Any, axis_name: Any, **hints: Any) -> Any:
    """The greatest of all examples."""
    return _over(x, axis_name, lambda all: reductions.amax(all, 0))


def pmin(x: Any, axis_name: Any, **hints: Any) -> Any:
    """The smallest of all examples."""
    return _over(x, axis_name, lambda all: reductions.amin(all, 0))


def all_gather(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False, **hints: Any) -> Any:
    """All examples, for each of them.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.vmap(lambda x: jax.lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2.0))
    Array([[0., 1.],
           [0., 1.]], dtype=float32)
    """

    def gather(leaf: Any) -> Any:
        found = _Gather.apply(lift(DOOR.array(leaf)), named_axis(axis_name)).movedim(0, axis)
        if not tiled:
            return found
        place = axis % (found.ndim - 1)
        return found.reshape((*found.shape[:place], -1, *found.shape[place + 2 :]))

    return tree_map(gather, x)


def psum_scatter(x: Any, axis_name: Any, **hints: Any) -> Any:
    """Of the sum of all examples, each one's part along the first dimension."""
    return tree_map(lambda leaf: _Scatter.apply(lift(DOOR.array(leaf)), named_axis(axis_name)), x)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """What other examples send: pairs say from whom to whom; those to whom nobody sends get 0."""
    size = named_axis(axis_name).size
    sender = np.full(size, size)
    for source, target in perm:
        sender[target] = source

    def permute(leaf: Any) -> Any:
        found = all_gather(leaf, axis_name)
        padded = DOOR.function(np.concatenate)([found, found[:1] * 0])
        return padded[lift(sender)[axis_index(axis_name)]]

    return tree_map(permute, x)


def axis_index(axis_name: Any) -> Any:
    """Which example this is.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.vmap(lambda x: jax.lax.axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    axis = named_axis(axis_name)
    return enclose(Tensor._wrap(np.arange(axis.size, dtype=np.int32)), axis.level)


def axis_size(axis_name: Any) -> int:
    """How many examples there are."""
    return int(named_axis(axis_name).size)
