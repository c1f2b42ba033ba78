"""`jax.flatten_util`: all numbers of a nest as one vector."""

from typing import Any

from lucid import tree
from lucid.core.tree import tree_map
from lucid.jax.arrays import DOOR


def ravel_pytree(pytree: Any) -> tuple[Any, Any]:
    """All numbers of a nest as one vector, and a function that makes such a nest of a vector again.

    >>> import lucid.jax.numpy as jnp
    >>> from lucid.jax.flatten_util import ravel_pytree
    >>> vector, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
    >>> vector, unravel(2 * vector)["b"]
    (Array([1., 1., 3.], dtype=float32), Array(6., dtype=float32))
    """
    vector, unravel = tree.ravel(tree_map(DOOR.array, pytree))
    return DOOR.adopted(vector), unravel


__all__ = ["ravel_pytree"]
