"""`jax.tree`: nests of arrays, by `lucid.tree`."""

from lucid.jax.tree_util import tree_flatten_with_path as flatten_with_path
from lucid.jax.tree_util import tree_leaves_with_path as leaves_with_path
from lucid.jax.tree_util import tree_map_with_path as map_with_path
from lucid.tree import all, flatten, leaves, map, reduce, structure, transpose, unflatten

__all__ = [
    "all",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "structure",
    "transpose",
    "unflatten",
]
