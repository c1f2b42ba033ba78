"""Nested containers of tensors: dicts, lists, tuples, named tuples, dataclasses, None, and types that are registered."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from lucid.core.levels import INNERMOST
from lucid.core.tensor import Tensor

# A type that is a container too -> how it is taken apart, into children and the rest, and made again of the rest and children.
REGISTERED: dict[type, tuple[Callable[[Any], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {}
MAX_DEPTH = 300  # every walk is recursive, at two frames a level where the sources run; Python allows 1000


class Structure:
    """The shape of a nest: what to build, and from how many leaves."""

    __slots__ = ("build", "children", "count", "key")

    def __init__(self, key: Any, children: list["Structure"], build: Callable[[list[Any]], Any]) -> None:
        self.key = key
        self.children = children
        self.build = build
        self.count: int = 1 if key is LEAF else 0
        for child in children:
            self.count += child.count

    @property
    def num_leaves(self) -> int:
        """How many leaves the nest has."""
        return self.count

    def unflatten(self, leaves: Any) -> Any:
        """The nest with these leaves."""
        return self._take(iter(leaves))

    def _take(self, supply: Iterator[Any]) -> Any:
        if self.key is LEAF:
            return next(supply)
        return self.build([c._take(supply) for c in self.children])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or self.key != other.key or len(self.children) != len(other.children):
            return False
        for mine, its in zip(self.children, other.children, strict=True):
            if mine is not its and mine != its:
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.key is LEAF:
            return "*"
        kind, names = self.key[:2]
        inner = ", ".join(
            f"{n}: {c!r}" if names else repr(c) for n, c in zip(names or self.children, self.children, strict=True)
        )
        return f"{kind.__name__}({inner})"


LEAF = object()
_LEAF = Structure(LEAF, [], lambda leaves: None)


def flatten(nest: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """The leaves of a nest in a fixed order (dicts by sorted key), and its structure."""
    leaves: list[Any] = []
    return leaves, _walk(nest, leaves, is_leaf, 0)


def _walk(nest: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None, depth: int) -> Structure:
    if isinstance(nest, Tensor) or (is_leaf is not None and is_leaf(nest)):
        if isinstance(nest, Tensor) and nest._level == INNERMOST:
            return _walk_sparse(nest, leaves)
        leaves.append(nest)
        return _LEAF
    if depth > MAX_DEPTH and _parts(nest):
        raise too_deep(nest)
    kind = type(nest)
    if nest is None:
        return Structure((kind, ()), [], lambda parts: None)
    if isinstance(nest, dict) and kind not in REGISTERED:
        keys = _sorted(nest)
        return Structure(
            (kind, tuple(keys)), [_walk(nest[k], leaves, is_leaf, depth + 1) for k in keys], _dict_of(nest, keys)
        )
    if isinstance(nest, (list, tuple)) and kind not in REGISTERED:
        children = [_walk(n, leaves, is_leaf, depth + 1) for n in nest]
        named = hasattr(nest, "_fields")
        return Structure((kind, ()), children, (lambda parts: kind(*parts)) if named else kind)
    if kind in REGISTERED:
        apart, together = REGISTERED[kind]
        children, rest = apart(nest)
        walked = [_walk(c, leaves, is_leaf, depth + 1) for c in children]
        return Structure((kind, (), rest), walked, lambda parts: together(rest, parts))
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        names = [f.name for f in dataclasses.fields(nest)]
        return Structure(
            (kind, tuple(names)),
            [_walk(getattr(nest, n), leaves, is_leaf, depth + 1) for n in names],
            lambda parts: dataclasses.replace(nest, **dict(zip(names, parts, strict=True))),
        )
    leaves.append(nest)
    return _LEAF


def _dict_of(nest: Any, keys: list[Any]) -> Callable[[list[Any]], Any]:
    """How to make a dict like `nest` of values for its sorted keys, in the order of `nest`: programs zip their values."""
    kind, order = type(nest), list(nest)
    first = (nest.default_factory,) if isinstance(nest, defaultdict) else ()

    def build(parts: list[Any]) -> Any:
        items: Any = zip(keys, parts, strict=True)
        if order != keys:
            found = dict(items)
            items = [(k, found[k]) for k in order]
        return kind(*first, items)

    return build


def _walk_sparse(nest: Any, leaves: list[Any]) -> Structure:
    """A sparse tensor is a container of its values; where they stand is part of the structure."""
    leaves.append(nest._array)
    return Structure((type(nest), ("values",), nest._aux), [_LEAF], lambda parts: nest.with_values(parts[0]))


def too_deep(below: Any, most: int = MAX_DEPTH) -> ValueError:
    """What is wrong with a nest that goes on below the deepest level that is followed."""
    what = "contains itself" if contains_itself(below) else f"is nested more than {most} deep"
    return ValueError(f"a structure of dicts, lists, tuples or dataclasses {what}, which is not supported")


def contains_itself(nest: Any) -> bool:
    """Whether a container is reached again on a way down from itself."""
    done: set[int] = set()
    above = {id(nest)}
    way = [(nest, iter(_parts(nest)))]
    while way:
        last, rest = way[-1]
        part = next((p for p in rest if id(p) not in done and _parts(p)), None)
        if part is None:
            way.pop()
            above.remove(id(last))
            done.add(id(last))
        elif id(part) in above:
            return True
        else:
            above.add(id(part))
            way.append((part, iter(_parts(part))))
    return False


def _parts(nest: Any) -> list[Any]:
    if type(nest) in REGISTERED:
        return list(REGISTERED[type(nest)][0](nest)[0])
    if isinstance(nest, dict):
        return list(nest.values())
    if isinstance(nest, (list, tuple)):
        return list(nest)
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        return [getattr(nest, f.name) for f in dataclasses.fields(nest)]
    return []


def paths(nest: Any) -> list[str]:
    """How to reach each leaf, as Python writes it: `[0]['weight']`."""
    return _paths(nest, 0)


def _paths(nest: Any, depth: int) -> list[str]:
    if depth > MAX_DEPTH and _parts(nest):
        raise too_deep(nest)
    below = depth + 1
    if type(nest) in REGISTERED:
        return [f"<{i}>{p}" for i, part in enumerate(_parts(nest)) for p in _paths(part, below)]
    if isinstance(nest, dict):
        return [f"[{k!r}]{p}" for k in _sorted(nest) for p in _paths(nest[k], below)]
    if isinstance(nest, (list, tuple)):
        names = [f".{f}" for f in nest._fields] if hasattr(nest, "_fields") else [f"[{i}]" for i in range(len(nest))]
        return [f"{name}{p}" for name, part in zip(names, nest, strict=True) for p in _paths(part, below)]
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        return [f".{f.name}{p}" for f in dataclasses.fields(nest) for p in _paths(getattr(nest, f.name), below)]
    return [] if nest is None else [""]


def _sorted(mapping: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def tree_map(
    function: Callable[..., Any], nest: Any, *others: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply a function to corresponding leaves."""
    leaves, structure = flatten(nest, is_leaf)
    columns = [leaves]
    for other in others:
        more, same = flatten(other, is_leaf)
        if same != structure:
            raise ValueError(f"the nests differ: {structure} and {same}")
        columns.append(more)
    return structure.unflatten([function(*row) for row in zip(*columns, strict=True)])
