"""Sums of products over labelled dimensions: one primitive for products of matrices, vectors and stacks of them.

`ij,jk->ik` says which dimensions the factors and the product share. Labels of the product run along with it; the others
are summed over. The derivative by a factor is a contraction of the same kind, in which factor and product have changed
places, and a batch is one more label.
"""

import math
from collections.abc import Callable
from typing import Any

from lucid.arguments.out import one_primitive
from lucid.arguments.promotion import KEEP, answer, lift_all, promote
from lucid.core import modes
from lucid.core.errors import ArgumentError
from lucid.core.fields import TensorFields
from lucid.core.primitive import Primitive, apply, element_type
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.abstract import Abstract, common
from lucid.ops.categories import bilinear_jvp
from lucid.ops.rules import P, batched_to_front, conj, is_complex

_autocast = modes.autocast.get
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Labels:
    """The labels of two factors and their product, and which factors are conjugated.

    Each label stands once in a factor, and is also in the other factor or in the product. So it has one size, and
    contractions are closed under differentiation: sums over a label of one factor alone, diagonals and broadcasting are
    other operations. Made by `labelled`, once for each text, with the derived ones beside it.
    """

    def __init__(self, left: str, right: str, out: str, conj_left: bool, conj_right: bool) -> None:
        self.left, self.right, self.out = left, right, out
        self.conj_left, self.conj_right = conj_left, conj_right
        self.params = {"labels": self}
        self.steps: Any = None  # how a kernel computes it
        self._pulls: list[Any] = [None] * 4
        self._batched: list[Any] = [None] * 4

    def __repr__(self) -> str:
        return f"{self.left}{'*' * self.conj_left},{self.right}{'*' * self.conj_right}->{self.out}"

    def __reduce__(self) -> Any:
        return labelled, (self.left, self.right, self.out, self.conj_left, self.conj_right)

    def pull(self, operand: int, conjugate: bool) -> "Labels":
        """Those of the cotangent of a factor: of (ct, right) or (left, ct), with the other factor conjugated."""
        at = operand + 2 * conjugate
        found = self._pulls[at]
        if found is None:
            found = self._pulls[at] = _pulled(self, operand, conjugate)
        return found

    def batched(self, left: bool, right: bool) -> "Labels":
        """Those of factors of which some are batches."""
        at = left + 2 * right
        found = self._batched[at]
        if found is None:
            found = self._batched[at] = _with_batch(self, left, right)
        return found

    def sizes(self, left: tuple[int, ...], right: tuple[int, ...]) -> dict[str, int]:
        """How long the dimension of each label is."""
        return {**dict(zip(self.left, left, strict=True)), **dict(zip(self.right, right, strict=True))}


_known: dict[Any, Labels] = {}


def labelled(left: str, right: str, out: str, conj_left: bool = False, conj_right: bool = False) -> Labels:
    """The contraction of factors with these labels, each a letter for each dimension."""
    key = (left, right, out, conj_left, conj_right)
    found = _known.get(key)
    if found is None:
        found = _known.setdefault(key, Labels(left, right, out, conj_left, conj_right))
    return found


def _pulled(labels: Labels, operand: int, conjugate: bool) -> Labels:
    left, right, out = labels.left, labels.right, labels.out
    other = conjugate and labels.conj_left == labels.conj_right
    if operand:
        return labelled(left, out, right, other, labels.conj_right)
    return labelled(out, right, left, labels.conj_left, other)


def _with_batch(labels: Labels, left: bool, right: bool) -> Labels:
    free = next(c for c in LETTERS if c not in labels.left + labels.right)
    return labelled(
        free * left + labels.left,
        free * right + labels.right,
        free + labels.out,
        labels.conj_left,
        labels.conj_right,
    )


def pulled_left(ct: Any, right: Any, labels: Labels) -> Any:
    """The cotangent of the left factor of a contraction."""
    return multiplied(ct, right, labels.pull(0, _has_imaginary_part(ct)))


def pulled_right(ct: Any, left: Any, labels: Labels) -> Any:
    """The cotangent of the right factor."""
    return multiplied(left, ct, labels.pull(1, _has_imaginary_part(ct)))


def _has_imaginary_part(ct: Any) -> bool:
    return is_complex(ct) if isinstance(ct, TensorFields) else ct.dtype.kind == "c"


def multiplied(x: Any, y: Any, labels: Labels) -> Any:
    """The contraction of two tensors, or of two arrays."""
    if isinstance(x, TensorFields):
        return apply(contract, (x, y), labels.params)
    return contract.kernel(x, y, labels)


def _contract_abstract(x: Abstract, y: Abstract, labels: Labels) -> Abstract:
    sizes = labels.sizes(x.shape, y.shape)
    for label, size in zip(labels.left, x.shape, strict=True):
        if sizes[label] != size:
            raise ValueError(
                f"contract {labels}: {label} is {size} of the left factor and {sizes[label]} of the right one"
            )
    return Abstract(tuple([sizes[c] for c in list(labels.out)]), common(x, y))


# Σ x · y over the labels that the product does not have.
contract = Primitive(
    "contract",
    operands=("x", "y"),
    rules=(
        lambda ct, y, labels: pulled_left(ct, y, labels),
        lambda ct, x, labels: pulled_right(ct, x, labels),
    ),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: apply(prim, values, params["labels"].batched(*batched).params),
    abstract=_contract_abstract,
    category="contraction",
    multiply_adds=lambda shapes, out, params: math.prod(params["labels"].sizes(*shapes).values()),
    pulls_arrays=True,
)


# Vector products along a dimension of size 3 of operands of one shape.
cross = Primitive(
    "cross",
    operands=("x", "y"),
    rules=(lambda ct, y, dim: P.cross(conj(y), ct, dim=dim), lambda ct, x, dim: P.cross(ct, conj(x), dim=dim)),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: prim(
        *batched_to_front(values, batched, size), dim=params["dim"] + 1
    ),
    abstract=lambda x, y, dim: Abstract(x.shape, common(x, y)),
    category="other",
    reason="differences of products of components, each with the two others",
)


def mT(x: Any) -> Any:
    """The last two dimensions exchanged.

    >>> import lucid
    >>> lucid.zeros(5, 2, 3).mT.shape
    (5, 3, 2)
    """
    n = x.ndim
    return P.permute(x, dims=(*range(n - 2), n - 1, n - 2))


_of_ranks: dict[int, Labels] = {}


def _matmul_labels(rank: int, other_rank: int) -> Labels:
    """Those of the product of matrices, vectors where a rank is 1, and stacks of them."""
    key = rank << 8 | other_rank
    found = _of_ranks.get(key)
    if found is None:
        found = _of_ranks[key] = _labels_of_ranks(rank, other_rank)
    return found


def _labels_of_ranks(rank: int, other_rank: int) -> Labels:
    stack, other_stack = max(rank - 2, 0), max(other_rank - 2, 0)
    lead = "".join(c for c in LETTERS if c not in "ijk")[: max(stack, other_stack)]
    left = lead[len(lead) - stack :] + ("ij" if rank > 1 else "j")
    right = lead[len(lead) - other_stack :] + ("jk" if other_rank > 1 else "j")
    return labelled(left, right, lead + "i" * (rank > 1) + "k" * (other_rank > 1))


def _of_ranks_alone(rank: int = 0, other_rank: int = 0) -> Callable[[list[Any]], dict[str, Any] | None]:
    """What says how two arrays are contracted, if they have these ranks, where neither types nor stacks are adapted."""

    def settings(factors: list[Any]) -> dict[str, Any] | None:
        if len(factors) != 2 or _autocast() is not None:
            return None
        left, right = len(factors[0].shape), len(factors[1].shape)
        if not left or not right or (rank and (left != rank or right != other_rank)):
            return None
        return _matmul_labels(left, right).params

    return settings


@one_primitive(contract, settings=_of_ranks_alone())
def matmul(input: Any, other: Any) -> Tensor:
    """Matrix product with NumPy's rules: vectors count as rows or columns, stacks broadcast.

    >>> import lucid
    >>> a = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> lucid.matmul(a, lucid.tensor([1.0, 1.0]))
    Tensor([3., 7.])
    >>> lucid.matmul(a, lucid.zeros(5, 2, 3)).shape
    (5, 2, 3)
    """
    return product("matmul", input, other)


def product(name: str, input: Any, other: Any, rank: int = 0, other_rank: int = 0) -> Any:
    """The product of matrices, vectors or stacks of them, as users give them; ranks are those it must have, 0 for any."""
    if other_rank != 1 and (casting := _autocast()) is not None:  # mv and dot are as precise as their operands
        input, other = casting.low(input, other)
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        x, y = input, other
    elif (found := answer(name, (input, other))) is not NotImplemented:
        return found
    else:
        x, y = lift_all(input, other)
    if element_type(x) is not element_type(y):
        x, y = promote(name, (x, y), KEEP)
    left, right = shape_of(x), shape_of(y)
    if (rank and len(left) != rank) or (other_rank and len(right) != other_rank):
        raise_unless_of_rank(name, x, rank)
        raise_unless_of_rank(name, y, other_rank)
    broadcasts = not rank
    rank, other_rank = len(left), len(right)
    if not rank or not other_rank:
        raise RuntimeError(f"{name}: 0-d operands are not allowed; shapes {left} and {right}. Use * instead")
    rows = right[0 if other_rank == 1 else other_rank - 2]
    if left[rank - 1] != rows:
        raise ArgumentError(f"{name}: shapes {left} and {right} do not fit: {left[-1]} columns against {rows} rows")
    labels = _matmul_labels(rank, other_rank)
    if rank > 2 and other_rank > 2 and left[:-2] != right[:-2]:
        if not broadcasts:
            raise RuntimeError(f"{name}: {left[0]} matrices against {right[0]}")
        return _matmul_of_stacks(x, y, labels)
    return apply(contract, (x, y), labels.params)


def raise_unless_of_rank(name: str, x: Tensor, rank: int) -> None:
    if len(shape_of(x)) != rank:
        raise RuntimeError(f"{name}: expected a tensor with {rank} dimensions, not shape {x.shape}")


@one_primitive(contract, settings=_of_ranks_alone(2, 2))
def mm(input: Any, mat2: Any) -> Tensor:
    """Product of two matrices.

    >>> import lucid
    >>> lucid.mm(lucid.tensor([[1.0, 2.0]]), lucid.tensor([[3.0], [4.0]]))
    Tensor([[11.]])
    """
    return product("mm", input, mat2, 2, 2)


@one_primitive(contract, settings=_of_ranks_alone(3, 3))
def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of two stacks of matrices.

    >>> import lucid
    >>> lucid.bmm(lucid.ones(5, 2, 3), lucid.ones(5, 3, 4)).shape
    (5, 2, 4)
    """
    return product("bmm", input, mat2, 3, 3)


@one_primitive(contract, settings=_of_ranks_alone(2, 1))
def mv(input: Any, vec: Any) -> Tensor:
    """Product of a matrix and a vector.

    >>> import lucid
    >>> lucid.mv(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1.0, -1.0]))
    Tensor([-1., -1.])
    """
    return product("mv", input, vec, 2, 1)


@one_primitive(contract, settings=_of_ranks_alone(1, 1))
def dot(input: Any, tensor: Any) -> Tensor:
    """Sum of the products of two vectors' elements.

    >>> import lucid
    >>> lucid.dot(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor(11.)
    """
    return product("dot", input, tensor, 1, 1)


_stacks: dict[Any, tuple[Any, Any, Labels]] = {}
_MOST_STACKS = 1024


def _matmul_of_stacks(x: Tensor, y: Tensor, labels: Labels) -> Tensor:
    """Stacks that are broadcast: a dimension of size 1 beside a larger one is dropped, and so is its label."""
    found = _stacks.get((x.shape, y.shape))
    if found is None:
        found = _without_ones(x.shape, y.shape, labels)
        if len(_stacks) < _MOST_STACKS:
            _stacks[x.shape, y.shape] = found
    left, right, labels = found
    x = x if left == x.shape else P.reshape(x, shape=left)
    y = y if right == y.shape else P.reshape(y, shape=right)
    return apply(contract, (x, y), labels.params)


def _without_ones(left: tuple[int, ...], right: tuple[int, ...], labels: Labels) -> tuple[Any, Any, Labels]:
    """The shapes and labels of factors that are broadcast."""
    sizes, others = dict(zip(labels.left, left, strict=True)), dict(zip(labels.right, right, strict=True))
    differ = {c for c, n in sizes.items() if others.get(c, n) != n}
    if any(sizes[c] != 1 and others[c] != 1 for c in differ):
        raise RuntimeError(f"matmul: the leading dimensions of shapes {left} and {right} do not broadcast")
    mine = {c: n for c, n in sizes.items() if c not in differ or n != 1}
    theirs = {c: n for c, n in others.items() if c not in differ or n != 1}
    return tuple(mine.values()), tuple(theirs.values()), labelled("".join(mine), "".join(theirs), labels.out)
