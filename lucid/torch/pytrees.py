"""`torch.utils._pytree`: nests of values, by Lucid's own."""

from collections.abc import Callable
from typing import Any

from lucid.core import tree
from lucid.core.tree import Structure as TreeSpec
from lucid.core.tree import tree_map

PyTree = Any


def tree_flatten(tree_: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a nest, and its structure.

    >>> from lucid.torch.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": 1, "b": [2, 3]})
    >>> leaves, tree_unflatten([10, 20, 30], spec)
    ([1, 2, 3], {'a': 10, 'b': [20, 30]})
    """
    return tree.flatten(tree_, is_leaf)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> PyTree:
    """The nest with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree_: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves alone."""
    return tree.flatten(tree_, is_leaf)[0]


def tree_map_only(kind: Any, function: Callable[[Any], Any], tree_: PyTree) -> PyTree:
    """The nest with a function applied to the leaves of a type."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf, tree_)


def tree_all(predicate: Callable[[Any], bool], tree_: PyTree) -> bool:
    """Whether something holds for all leaves."""
    return all(map(predicate, tree_leaves(tree_)))


def tree_any(predicate: Callable[[Any], bool], tree_: PyTree) -> bool:
    """Whether something holds for a leaf."""
    return any(map(predicate, tree_leaves(tree_)))


__all__ = [
    "PyTree",
    "TreeSpec",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
]
