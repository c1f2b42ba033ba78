"""Nests of tensors: dicts, lists, tuples, named tuples, dataclasses, None, and types that are registered.

Every transform and every front door takes such nests; here are the functions on them.

>>> import lucid
>>> params = {"w": lucid.ones(2, 2), "b": [lucid.zeros(2), 3.0]}
>>> lucid.tree.map(lambda leaf: 2 * leaf, params)["b"]
[Tensor([0., 0.]), 6.0]
>>> leaves, structure = lucid.tree.flatten(params)
>>> len(leaves), structure
(3, dict(b: list(*, *), w: *))
"""

import builtins
from collections.abc import Callable, Sequence
from functools import reduce as _reduced
from typing import Any, TypeVar

from lucid.api import joining, shaping
from lucid.core import tree as _tree
from lucid.core.primitive import lift
from lucid.core.tree import Structure, paths
from lucid.core.tree import flatten as _flatten

IsLeaf = Callable[[Any], bool] | None
_Type = TypeVar("_Type", bound=type)
_MISSING = object()


def map(function: Callable[..., Any], nest: Any, *others: Any, is_leaf: IsLeaf = None) -> Any:
    """A nest of what a function makes of the leaves, or of corresponding leaves of several nests.

    Other nests may go on below the leaves of the first; the function then gets what is there.

    >>> import lucid
    >>> lucid.tree.map(lambda a, b: a - b, {"x": 3, "y": (1, 2)}, {"x": 1, "y": (1, 1)})
    {'x': 2, 'y': (0, 1)}
    """
    found, structure = _flatten(nest, is_leaf)
    columns = [found, *(_aligned(structure, other) for other in others)]
    return structure.unflatten([function(*row) for row in zip(*columns, strict=True)])


def _aligned(structure: Structure, nest: Any) -> list[Any]:
    """The parts of a nest that stand where another one has its leaves."""
    if structure.key is _tree.LEAF:
        return [nest]
    children: list[Any] = []
    own = _flatten(nest, lambda part: part is not nest)  # one level
    if own[1].key != structure.key or len(own[0]) != len(structure.children):
        raise ValueError(f"the nests differ: {structure} and {_flatten(nest)[1]}")
    for child, part in zip(structure.children, own[0], strict=True):
        children += _aligned(child, part)
    return children


def flatten(nest: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """The leaves of a nest in a fixed order (dicts by sorted key), and its structure.

    >>> import lucid
    >>> lucid.tree.flatten({"b": 1, "a": [2, None]})
    ([2, 1], dict(a: list(*, NoneType()), b: *))
    """
    return _flatten(nest, is_leaf)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The nest of a structure with these leaves.

    >>> import lucid
    >>> leaves, structure = lucid.tree.flatten((1, {"a": 2}))
    >>> lucid.tree.unflatten(structure, ["x", "y"])
    ('x', {'a': 'y'})
    """
    found = list(leaves)
    if len(found) != structure.count:
        raise ValueError(f"unflatten: {structure} has {structure.count} leaves, but {len(found)} are given")
    return structure.unflatten(found)


def leaves(nest: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a nest.

    >>> import lucid
    >>> lucid.tree.leaves({"b": 1, "a": (2, 3)})
    [2, 3, 1]
    """
    return _flatten(nest, is_leaf)[0]


def structure(nest: Any, is_leaf: IsLeaf = None) -> Structure:
    """The structure of a nest, with which others can be compared.

    >>> import lucid
    >>> lucid.tree.structure([1, 2]) == lucid.tree.structure([3, 4])
    True
    """
    return _flatten(nest, is_leaf)[1]


def reduce(function: Callable[[Any, Any], Any], nest: Any, initializer: Any = _MISSING, is_leaf: IsLeaf = None) -> Any:
    """The leaves, put together one after the other.

    >>> import lucid
    >>> lucid.tree.reduce(lambda a, b: a + b, {"x": 1, "y": [2, 3]})
    6
    """
    found = leaves(nest, is_leaf)
    return _reduced(function, found) if initializer is _MISSING else _reduced(function, found, initializer)


def all(nest: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true.

    >>> import lucid
    >>> lucid.tree.all({"x": 1, "y": [2, 0]})
    False
    """
    return builtins.all(leaves(nest, is_leaf))


def transpose(outer: Structure, inner: Structure, nest: Any) -> Any:
    """A nest of the structure `outer`, of nests of the structure `inner`, turned inside out.

    >>> import lucid
    >>> pairs = {"a": (1, 2), "b": (3, 4)}
    >>> lucid.tree.transpose(lucid.tree.structure({"a": 0, "b": 0}), lucid.tree.structure((0, 0)), pairs)
    ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})
    """
    rows = [leaves(part) for part in _aligned(outer, nest)]
    return inner.unflatten([outer.unflatten(column) for column in zip(*rows, strict=True)])


def ravel(nest: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All numbers in a nest as one vector, and a function that makes such a nest of a vector again; both differentiable.

    >>> import lucid
    >>> vector, unravel = lucid.tree.ravel({"w": lucid.ones(2, 2), "b": lucid.zeros(1)})
    >>> vector, unravel(vector * 3)["w"]
    (Tensor([0., 1., 1., 1., 1.]), Tensor([[3., 3.],
            [3., 3.]]))
    """
    found, nested = _flatten(nest)
    tensors = [lift(leaf) for leaf in found]
    shapes, kinds = [tuple(t.shape) for t in tensors], [t.np_dtype for t in tensors]
    sizes = [t.numel() for t in tensors]
    vector = joining.cat([shaping.reshape(t, -1) for t in tensors]) if tensors else lift([])

    def unravel(flat: Any) -> Any:
        x = lift(flat)
        if tuple(x.shape) != (sum(sizes),):
            raise ValueError(f"unravel: expected a vector of {sum(sizes)} numbers, not shape {tuple(x.shape)}")
        parts, start = [], 0
        for size, shape, kind in zip(sizes, shapes, kinds, strict=True):
            part = shaping.reshape(x[start : start + size], shape)
            parts.append(part if part.np_dtype == kind else part.to(kind))
            start += size
        return nested.unflatten(parts)

    return vector, unravel


def register(kind: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a type a container: `flatten(value)` gives its children and the rest, `unflatten(rest, children)` a value again.

    Two values have the same structure if what is left beside the children is equal.

    >>> import lucid
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> lucid.tree.register(Point, lambda p: ((p.x, p.y), None), lambda rest, children: Point(*children))
    >>> lucid.tree.leaves(lucid.tree.map(lambda leaf: leaf + 1, Point(1, 2)))
    [2, 3]
    """
    if not isinstance(kind, type):
        raise TypeError(f"register takes a class, not {kind!r}")
    if kind in _tree.REGISTERED:
        raise ValueError(f"{kind.__name__} is registered already")
    _tree.REGISTERED[kind] = (flatten, unflatten)


def register_class(kind: _Type) -> _Type:
    """A decorator that registers a class by its methods `tree_flatten(self)` and `tree_unflatten(cls, rest, children)`.

    >>> import lucid
    >>> @lucid.tree.register_class
    ... class Pair:
    ...     def __init__(self, *items):
    ...         self.items = items
    ...     def tree_flatten(self):
    ...         return self.items, None
    ...     @classmethod
    ...     def tree_unflatten(cls, rest, children):
    ...         return cls(*children)
    >>> lucid.tree.leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    made: Any = kind
    register(kind, lambda value: value.tree_flatten(), made.tree_unflatten)
    return kind


__all__ = [
    "Structure",
    "all",
    "flatten",
    "leaves",
    "map",
    "paths",
    "ravel",
    "reduce",
    "register",
    "register_class",
    "structure",
    "transpose",
    "unflatten",
]
