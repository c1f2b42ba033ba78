"""Shapes by names: `rearrange`, `reduce` and `repeat` with patterns such as "b (h w) c -> b c h w", and `einsum`.

A pattern names the dimensions of a tensor, left of the arrow as they are and right of it as they are to be. Names in
parentheses share a dimension, the last one running fastest; `...` stands for any dimensions; a number says how large a
dimension is, and on the right it stands for the dimension of that number on the left. Everything is made of `reshape`, `permute`, `expand` and reductions, so it has all their
derivatives.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import lucid
from lucid import Tensor

__all__ = ["einsum", "rearrange", "reduce", "repeat"]

_REDUCTIONS = {"sum": lucid.sum, "mean": lucid.mean, "max": lucid.amax, "min": lucid.amin, "prod": None}
_Group = list[str]  # the names that share a dimension
_ELLIPSIS = "..."


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Dimensions in another order, split and joined. A list of tensors is stacked first.

    >>> import lucid
    >>> from lucid.einops import rearrange
    >>> rearrange(lucid.arange(6), "(a b) -> b a", a=2)
    Tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    return _Recipe(pattern, axes_lengths, "rearrange").apply(_stacked(tensor))


def reduce(tensor: Tensor | Sequence[Tensor], pattern: str, reduction: str, **axes_lengths: int) -> Tensor:
    """Reduce the dimensions that are missing on the right: by "sum", "mean", "max", "min" or "prod".

    >>> import lucid
    >>> from lucid.einops import reduce
    >>> reduce(lucid.arange(8.0).reshape(2, 4), "a (b 2) -> b", "mean")
    Tensor([2.5, 4.5])
    """
    if reduction not in _REDUCTIONS:
        raise RuntimeError(f"reduce: reduction must be one of {', '.join(_REDUCTIONS)}, not {reduction!r}")
    return _Recipe(pattern, axes_lengths, "reduce").apply(_stacked(tensor), reduction)


def repeat(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Repeat along the dimensions that are new on the right, whose lengths are given.

    >>> import lucid
    >>> from lucid.einops import repeat
    >>> repeat(lucid.tensor([1, 2]), "a -> a b", b=3)
    Tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return _Recipe(pattern, axes_lengths, "repeat").apply(_stacked(tensor))


def einsum(*args: Any) -> Tensor:
    """Products of tensors summed over the names that are missing in the result.

    The equation comes first, in letters, or last, in names: `einsum("ij,jk->ik", a, b)`, `einsum(a, b, "i j, j k -> i k")`.

    >>> import lucid
    >>> from lucid.einops import einsum
    >>> a, b = lucid.ones(2, 3), lucid.ones(3, 4)
    >>> einsum("ij,jk->ik", a, b).shape, einsum(a, b, "row inner, inner column -> row column").shape
    ((2, 4), (2, 4))
    """
    if args and isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    else:
        equation, operands = _letters(args[-1]), args[:-1]
    given = equation.partition("->")[0].count(",") + 1
    if given != len(operands):
        raise RuntimeError(f"einsum: {equation!r} is for {given} tensors, and {len(operands)} were given")
    try:
        return lucid.einsum(equation, *operands)
    except (ValueError, IndexError) as error:
        raise RuntimeError(f"einsum: {error}") from None


def _letters(equation: str) -> str:
    """An equation in names as one in letters."""
    known: dict[str, str] = {}

    def letters(side: str) -> str:
        found = [
            w
            if w == _ELLIPSIS
            else known.setdefault(w, chr((ord("a") if len(known) < 26 else ord("A") - 26) + len(known)))
            for w in side.split()
        ]
        return "".join(found)

    left, arrow, right = equation.partition("->")
    if not arrow:
        raise RuntimeError(f"einsum: {equation!r} has no arrow; names are separated by spaces, as in 'i j, j k -> i k'")
    return ",".join(letters(part) for part in left.split(",")) + "->" + letters(right)


def _stacked(tensor: Any) -> Tensor:
    if isinstance(tensor, (list, tuple)):
        return lucid.stack(list(tensor))
    return tensor if isinstance(tensor, Tensor) else lucid.as_tensor(tensor)


def _groups(side: str, pattern: str) -> list[_Group]:
    """The dimensions of one side of a pattern, each as the names that share it."""
    groups: list[_Group] = []
    inside: _Group | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if inside is not None:
                raise RuntimeError(f"{pattern!r}: parentheses do not nest")
            inside = []
        elif word == ")":
            if inside is None:
                raise RuntimeError(f"{pattern!r}: a parenthesis closes that was not opened")
            groups.append(inside)
            inside = None
        elif word != _ELLIPSIS and not word.isdigit() and not word.isidentifier():
            raise RuntimeError(f"{pattern!r}: {word!r} is no name of an axis")
        elif inside is None:
            groups.append([word])
        else:
            inside.append(word)
    if inside is not None:
        raise RuntimeError(f"{pattern!r}: a parenthesis is not closed")
    return groups


class _Recipe:
    """A pattern that was read, with the lengths that were given."""

    def __init__(self, pattern: str, lengths: dict[str, int], name: str) -> None:
        left, arrow, right = pattern.partition("->")
        if not arrow or "->" in right:
            raise RuntimeError(f"{name}: {pattern!r} needs one arrow, as in 'a b -> b a'")
        self.pattern, self.name = pattern, name
        self.lengths = dict(lengths)
        self.left = self._numbered(left)
        self.right = self._numbered(right, self._names(self.left))
        known, wanted = self._names(self.left), self._names(self.right)
        for names, side in ((known, "left"), (wanted, "right")):
            twice = next((n for n in names if names.count(n) > 1), None)
            if twice is not None:
                raise self._error(f"axis {twice!r} stands twice on the {side}")
        new = [n for n in wanted if n not in known]
        gone = [n for n in known if n not in wanted]
        if new and name != "repeat":
            raise self._error(f"axis {new[0]!r} on the right is unknown on the left")
        if gone and name != "reduce":
            raise self._error(f"axis {_shown(gone[0])!r} is missing on the right")
        unused = self.lengths.keys() - {*known, *wanted}
        if unused:
            raise self._error(f"axis {min(unused)!r} has a length and is not in the pattern")
        for missing in (n for n in new if n not in self.lengths):
            raise self._error(f"axis {missing!r} is new and needs a length")

    def _error(self, what: str) -> RuntimeError:
        return RuntimeError(f"{self.name}: {what}, in {self.pattern!r}")

    def _numbered(self, side: str, known: Sequence[str] | None = None) -> list[_Group]:
        """The groups of a side, with names for numbers; ones take no name.

        Equal numbers of both sides are one axis: the first on the right is the first on the left, and so on.
        """
        groups = _groups(side, self.pattern)
        out: list[_Group] = []
        seen: list[int] = []
        for group in groups:
            names = []
            for word in group:
                if word.isdigit():
                    length = int(word)
                    if length == 1:
                        continue
                    word = f"{seen.count(length)}:{length}"
                    if known is not None and word not in known and self.name != "repeat":
                        raise self._error(f"the axis {length} on the right is unknown on the left")
                    seen.append(length)
                    self.lengths[word] = length
                names.append(word)
            out.append(names)
        if sum(group.count(_ELLIPSIS) for group in groups) > 1:
            raise self._error("... stands twice on one side")
        return out

    @staticmethod
    def _names(groups: list[_Group]) -> list[str]:
        return [name for group in groups for name in group]

    def apply(self, x: Tensor, reduction: str = "") -> Tensor:
        left, sizes = self._expanded(x.shape)
        right: list[_Group] = []
        for group in self.right:
            if group == [_ELLIPSIS]:
                right += [[n] for n in _around(_ELLIPSIS, sizes)]
            else:
                right.append([n for name in group for n in _around(name, sizes)])
        names = self._names(left)
        wanted = self._names(right)
        out = x.reshape([sizes[n] for n in names])
        kept = [n for n in names if n in wanted]
        dims = [i for i, n in enumerate(names) if n not in wanted]
        if dims:
            out = _reduced(out, reduction, dims)
        order = sorted(range(len(kept)), key=lambda i: wanted.index(kept[i]))
        out = out.permute(order) if order != list(range(len(order))) else out
        new = [i for i, n in enumerate(wanted) if n not in kept]
        if new:
            for i in new:
                out = out.unsqueeze(i)
            out = out.expand([sizes[n] for n in wanted])
        return out.reshape([math.prod(sizes[n] for n in group) for group in right])

    def _expanded(self, shape: Sequence[int]) -> tuple[list[_Group], dict[str, int]]:
        """The left side with names for what `...` stands for, and the length of each name."""
        alone = [i for i, group in enumerate(self.left) if group == [_ELLIPSIS]]
        more = len(shape) - len(self.left) + len(alone)
        if more < 0 or (not alone and more):
            count = f"{len(self.left) - len(alone)} dimensions" + (" or more" if alone else "")
            raise self._error(f"a tensor of shape {tuple(shape)} was given where there are {count}")
        groups: list[_Group] = []
        for group in self.left:
            groups += [[f"...{i}"] for i in range(more)] if group == [_ELLIPSIS] else [group]
        sizes = dict(self.lengths)
        for group, size in zip(groups, shape, strict=True):
            if _ELLIPSIS in group:
                raise self._error("... in parentheses on the left has no known sizes")
            self._solve(group, size, sizes)
        return groups, sizes

    def _solve(self, group: _Group, size: int, sizes: dict[str, int]) -> None:
        """Find the one length that is missing in a group."""
        unknown = [n for n in group if n not in sizes]
        known = math.prod(sizes[n] for n in group if n in sizes)
        text = " ".join(map(_shown, group)) or "1"
        if len(unknown) > 1:
            raise self._error(
                f"the lengths of the axes {', '.join(map(repr, unknown))} in ({text}) cannot both be found"
            )
        if unknown:
            if known == 0 or size % known:
                raise self._error(f"a dimension of {size} does not divide into ({text}): {known} is given")
            sizes[unknown[0]] = size // known
        elif known != size:
            raise self._error(f"axis {text!r} has the length {known}, and the dimension {size}")


def _shown(name: str) -> str:
    """A name as the pattern has it: a number without its place."""
    return name.rpartition(":")[2]


def _around(name: str, sizes: dict[str, int]) -> Iterator[str]:
    """What a name on the right stands for."""
    if name != _ELLIPSIS:
        yield name
        return
    yield from sorted((n for n in sizes if n.startswith(_ELLIPSIS)), key=lambda n: int(n[3:]))


def _reduced(x: Tensor, reduction: str, dims: list[int]) -> Tensor:
    if reduction == "prod":
        for d in reversed(dims):
            x = x.prod(d)
        return x
    function: Any = _REDUCTIONS[reduction]
    out: Tensor = function(x, dims)
    return out
