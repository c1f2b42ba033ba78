"""`jax.tree_util`: nests of arrays, by `lucid.tree`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lucid import tree
from lucid.jax.absences import missing as _missing
from lucid.tree import Structure as PyTreeDef
from lucid.tree import all as tree_all
from lucid.tree import flatten as tree_flatten
from lucid.tree import leaves as tree_leaves
from lucid.tree import map as tree_map
from lucid.tree import reduce as tree_reduce
from lucid.tree import register as register_pytree_node
from lucid.tree import register_class as register_pytree_node_class
from lucid.tree import structure as tree_structure
from lucid.tree import transpose as tree_transpose
from lucid.tree import unflatten as tree_unflatten

tree_multimap = tree_map


def Partial(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function with some of its arguments, as a nest of these."""
    return _Partial(function, *args, **kwargs)


class _Partial(partial[Any]):
    pass


tree.register(
    _Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda function, parts: _Partial(function, *parts[0], **parts[1]),
)


def tree_map_with_path(function: Callable[..., Any], nest: Any, *others: Any, is_leaf: Any = None) -> Any:
    """A nest of what a function makes of each leaf's path, as a string, and the leaf."""
    paths = iter(tree.paths(nest))
    return tree_map(lambda *leaves: function(next(paths), *leaves), nest, *others, is_leaf=is_leaf)


def tree_flatten_with_path(nest: Any, is_leaf: Any = None) -> tuple[list[tuple[str, Any]], PyTreeDef]:
    """Each leaf with its path, as a string, and the structure.

    >>> import lucid.jax as jax
    >>> jax.tree_util.tree_flatten_with_path({"a": [1, 2]})[0]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    leaves, structure = tree_flatten(nest, is_leaf)
    return list(zip(tree.paths(nest), leaves, strict=True)), structure


def tree_leaves_with_path(nest: Any, is_leaf: Any = None) -> list[tuple[str, Any]]:
    """Each leaf with its path."""
    return tree_flatten_with_path(nest, is_leaf)[0]


def keystr(path: str, **settings: Any) -> str:
    """A path as a string, which it is."""
    return path


def register_dataclass(nodetype: Any, data_fields: Any = None, meta_fields: Any = None, **settings: Any) -> Any:
    """Nothing to do for a dataclass all of whose fields are data; one with others is registered."""
    if meta_fields:
        data, rest = tuple(data_fields), tuple(meta_fields)
        register_pytree_node(
            nodetype,
            lambda v: (tuple(getattr(v, n) for n in data), tuple(getattr(v, n) for n in rest)),
            lambda values, parts: nodetype(
                **dict(zip(data, parts, strict=True)), **dict(zip(rest, values, strict=True))
            ),
        )
    return nodetype


__all__ = [
    "Partial",
    "PyTreeDef",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "tree_all",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_multimap",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
]


def __getattr__(name: str) -> Any:
    raise _missing("jax.tree_util", name)
