"""Products that sum over shared dimensions: einsum, tensordot and their relatives."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import numpy as np

from lucid.api import reductions
from lucid.api.shaping import broadcast_tensors, expand
from lucid.arguments.dims import numpy_names, one_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import KEEP, beside, in_single, lift_all, promote
from lucid.core import dtypes, modes
from lucid.core.errors import ArgumentError, ElementTypeError
from lucid.core.primitive import apply, element_type, lift
from lucid.core.tensor import Tensor, shape_of
from lucid.ops import binary, unary
from lucid.ops.contraction import LETTERS, Labels, bmm, contract, dot, labelled, mm, mv, raise_unless_of_rank
from lucid.ops.contraction import matmul as matmul
from lucid.ops.rules import P
from lucid.tape.inplace import write

_autocast = modes.autocast.get
Shape = tuple[int, ...]
_MOST_OPERANDS = 8  # among which the cheapest order is looked for


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum of products over labelled dimensions, with `...` and repeated labels.

    Labels that the result does not have are summed over. Without `->`, the result has the labels that occur once, in
    alphabetical order. Instead of an equation, each operand may be followed by the numbers of its labels, from 0 to 51,
    and all of them by those of the result: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    >>> import lucid
    >>> a, b = lucid.ones(2, 3), lucid.ones(3, 4)
    >>> lucid.einsum("ij,jk->ik", a, b).shape
    (2, 4)
    >>> lucid.einsum("ij->j", a)
    Tensor([2., 2., 2.])
    """
    if not isinstance(equation, str):
        equation, operands = _spelled(equation, *operands)
    elif len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    tensors = _factors("einsum", *operands)
    return _contracted(tensors, *_explicit(equation, tuple([t.shape for t in tensors])))


def _factors(name: str, *operands: Any) -> list[Tensor]:
    """Operands as tensors of one type."""
    if (casting := _autocast()) is not None:
        operands = tuple(casting.low(*operands))
    return promote(name, lift_all(*operands), KEEP)


class _Pair(NamedTuple):
    """Two operands to contract: their numbers, the dimensions to sum over first, the shapes to give them."""

    operands: tuple[int, int]
    sums: tuple[Shape, Shape]
    shapes: tuple[Shape | None, Shape | None]
    labels: Labels


class _Path(NamedTuple):
    """How a sum of products of any number of operands is made of operations on one and two of them."""

    diagonals: list[tuple[int, int, int]]  # operand and two of its dimensions, of which the diagonal becomes the last
    sums: list[tuple[int, Shape]]
    pairs: list[_Pair]
    order: Shape


def _contracted(tensors: Sequence[Tensor], labels: tuple[str, ...], output: str) -> Tensor:
    """The sum of products over the labels that the result does not have."""
    path = _path(labels, output, tuple([t.shape for t in tensors]))
    found = list(tensors)
    for i, dim1, dim2 in path.diagonals:
        found[i] = P.diagonal(found[i], offset=0, dim1=dim1, dim2=dim2)
    for i, dims in path.sums:
        found[i] = _summed(found[i], dims)
    for numbers, sums, shapes, pair in path.pairs:
        factors = tuple([_fitted(found[k], dims, shape) for k, dims, shape in zip(numbers, sums, shapes, strict=True)])
        found[numbers[0]] = apply(contract, factors, pair.params)
    return found[0] if path.pairs else P.permute(found[0], dims=path.order)


def _summed(x: Tensor, dims: Shape) -> Tensor:
    return P.sum(x, dims=dims, keepdim=False).to(x.np_dtype)


def _fitted(x: Tensor, dims: Shape, shape: Shape | None) -> Tensor:
    if dims:
        x = _summed(x, dims)
    return x if shape is None else P.reshape(x, shape=shape)


@lru_cache(maxsize=1024)
def _path(labels: tuple[str, ...], output: str, shapes: tuple[Shape, ...]) -> _Path:
    diagonals, sums, pairs = [], [], []
    uses = Counter("".join(["".join(dict.fromkeys(l)) for l in labels]) + output)
    mine: list[str] = []
    sizes: list[dict[str, int]] = []
    for i, (own, shape) in enumerate(zip(labels, shapes, strict=True)):
        sizes.append(dict(zip(own, shape, strict=True)))
        for c in dict.fromkeys(own):
            while own.count(c) > 1:
                first, second = own.index(c), own.rindex(c)
                diagonals.append((i, first, second))
                own = own[:first] + own[first + 1 : second] + own[second + 1 :] + c
        alone = tuple(d for d, c in enumerate(own) if uses[c] == 1 and c not in output)
        if alone:
            sums.append((i, alone))
        mine.append("".join(c for d, c in enumerate(own) if d not in alone))
    steps = _order(mine, output, sizes)
    for k, (i, j) in enumerate(steps):
        left, right = mine[i], mine[j]
        uses.subtract(left + right)
        out = "".join(c for c in dict.fromkeys(left + right) if uses[c] > 0)
        if k == len(steps) - 1:
            out = output
        uses.update(out)
        pairs.append(_pair((i, j), left, right, out, sizes))
        mine[i] = out
        sizes[i] = {c: max(sizes[i].get(c, 1), sizes[j].get(c, 1), key=_broadcast_size) for c in out}
    return _Path(diagonals, sums, pairs, () if pairs else tuple([mine[0].index(c) for c in output]))


def _broadcast_size(size: int) -> float:
    """For choosing the one of two sizes that is not 1."""
    return -1 if size == 1 else size


def _pair(numbers: tuple[int, int], left: str, right: str, out: str, sizes: list[dict[str, int]]) -> _Pair:
    """Of a label with different sizes one is 1: that factor loses it, and so does the other one if it is summed over."""
    own, other = (sizes[i] for i in numbers)
    differ = {c for c in left if c in right and own[c] != other[c]}
    kept, sums, shapes = [], [], []
    for labels, mine in ((left, own), (right, other)):
        sums.append(tuple(d for d, c in enumerate(labels) if c in differ and c not in out and mine[c] != 1))
        there = "".join(c for c in labels if c not in differ or (c in out and mine[c] != 1))
        drops = any(mine[c] == 1 for c in differ.intersection(labels))
        shapes.append(tuple(map(mine.__getitem__, there)) if drops else None)
        kept.append(there)
    return _Pair(numbers, (sums[0], sums[1]), (shapes[0], shapes[1]), labelled(kept[0], kept[1], out))


def _order(labels: list[str], output: str, sizes: list[dict[str, int]]) -> list[tuple[int, int]]:
    """Which operands to contract one after the other; the first of a pair has the result.

    Among a few operands NumPy finds the cheapest order. Of many the first ones are contracted from left to right.
    """
    first = max(0, len(labels) - _MOST_OPERANDS)
    pairs = [(0, i) for i in range(1, first + 1)]
    there = [0, *range(first + 1, len(labels))]
    if first or len(there) < 3:
        return pairs + [(0, i) for i in there[1:]]
    operands = [np.broadcast_to(np.zeros(()), [sizes[i][c] for c in labels[i]]) for i in there]
    path = np.einsum_path(",".join(labels) + "->" + output, *operands, optimize="greedy")[0][1:]
    for step in path:
        chosen = sorted(there[k] for k in step)
        pairs += [(chosen[0], i) for i in chosen[1:]]
        there = [i for i in there if i not in chosen] + [chosen[0]]
    return pairs


def _spelled(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """Operands and lists of labels as an equation and operands."""

    def text(labels: Any) -> str:
        return "".join("..." if k is Ellipsis else sorted(LETTERS)[k] for k in labels)

    count = len(given) // 2
    if len(given) < 2 or any(isinstance(g, Tensor) for g in (*given[1 : 2 * count : 2], *given[2 * count :])):
        raise ValueError(
            "einsum: expected an equation, or operands each followed by a list of the numbers of its labels"
        )
    equation = ",".join(text(labels) for labels in given[1 : 2 * count : 2])
    if len(given) % 2:
        equation += "->" + text(given[-1])
    return equation, given[: 2 * count : 2]


@lru_cache(maxsize=1024)
def _explicit(equation: str, shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], str]:
    """A label for every dimension of the operands, and of the result."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    labels = inputs.split(",")
    if len(labels) != len(shapes):
        raise ArgumentError(f"einsum: {equation!r} has {len(labels)} operands, but {len(shapes)} were given")
    unused = [c for c in LETTERS if c not in text]
    ranks = [len(s) - len(l.replace("...", "")) for s, l in zip(shapes, labels, strict=True) if "..." in l]
    dots = "".join(unused[: max(ranks, default=0)])
    spread = []
    for l, s in zip(labels, shapes, strict=True):
        rank = len(s) - len(l.replace("...", ""))
        if rank < 0 or (rank and "..." not in l):
            raise ArgumentError(f"einsum: {l!r} in {equation!r} does not fit an operand of shape {s}")
        spread.append(l.replace("...", dots[len(dots) - rank :]))
    for l in spread:
        if any(c not in LETTERS for c in l):
            raise ArgumentError(f"einsum: {equation!r} may contain letters, commas, '...' and '->' only")
    if arrow:
        result = output.replace("...", dots)
    else:
        once = sorted(c for c in set("".join(spread)) if "".join(spread).count(c) == 1 and c not in dots)
        result = dots + "".join(once)
    _check_labels(equation, spread, result, shapes)
    return tuple(spread), result


def _check_labels(equation: str, labels: list[str], result: str, shapes: tuple[Shape, ...]) -> None:
    if len(set(result)) != len(result):
        raise ArgumentError(f"einsum: the result of {equation!r} has a label twice")
    sizes: dict[str, int] = {}
    for l, s in zip(labels, shapes, strict=True):
        own: dict[str, int] = {}
        for c, n in zip(l, s, strict=True):
            if own.setdefault(c, n) != n:
                raise RuntimeError(f"einsum: label {c!r} has sizes {own[c]} and {n} in one operand of {equation!r}")
            if sizes.get(c, n) not in (n, 1) and n != 1:
                raise RuntimeError(f"einsum: label {c!r} has sizes {sizes[c]} and {n} in {equation!r}")
            sizes[c] = max(n, sizes.get(c, n)) if n != 0 else 0
    missing = set(result) - set(sizes)
    if missing:
        raise ArgumentError(f"einsum: {equation!r} has {', '.join(sorted(missing))} in the result but in no operand")


def inner(input: Any, other: Any) -> Tensor:
    """Sum of products over the last dimension of both.

    >>> import lucid
    >>> lucid.inner(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1.0, 1.0]))
    Tensor([3., 7.])
    """
    x, y = lift_all(input, other)
    if not x.ndim or not y.ndim:
        return binary.mul(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"inner: the last dimensions of {x.shape} and {y.shape} differ")
    return tensordot(x, y, ([-1], [-1]))


def outer(input: Any, vec2: Any) -> Tensor:
    """All products of an element of one vector with an element of another.

    >>> import lucid
    >>> lucid.outer(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = lift_all(input, vec2)
    raise_unless_of_rank("outer", x, 1)
    raise_unless_of_rank("outer", y, 1)
    return apply(contract, tuple(promote("outer", (x, y), KEEP)), _OUTER.params)


_OUTER = labelled("i", "j", "ij")


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Sum of products over `dims`: a number of trailing and leading dimensions, or a list for each operand.

    >>> import lucid
    >>> a, b = lucid.ones(2, 3, 4), lucid.ones(4, 3, 5)
    >>> lucid.tensordot(a, b, dims=1).shape
    (2, 3, 3, 5)
    >>> lucid.tensordot(a, b, dims=([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y = lift_all(a, b)
    if isinstance(dims, int):
        if not 0 <= dims <= min(x.ndim, y.ndim):
            raise RuntimeError(f"tensordot: shapes {x.shape} and {y.shape} do not have {dims} dimensions to sum over")
        left, right = list(range(x.ndim - dims, x.ndim)), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    left = [one_dim(d, x.ndim, "tensordot") for d in left]
    right = [one_dim(d, y.ndim, "tensordot") for d in right]
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        raise RuntimeError(f"tensordot: dims {dims} name a dimension twice")
    pairs = list(zip(left, right))
    if len(left) != len(right) or any(x.shape[i] != y.shape[j] and 1 not in (x.shape[i], y.shape[j]) for i, j in pairs):
        raise RuntimeError(f"tensordot: dims {left} of {x.shape} and {right} of {y.shape} do not match")
    labels = LETTERS[: x.ndim]
    others = list(LETTERS[x.ndim : x.ndim + y.ndim])
    for i, j in pairs:
        others[j] = labels[i]
    free = [c for d, c in enumerate(labels) if d not in left] + [c for d, c in enumerate(others) if d not in right]
    return _contracted(_factors("tensordot", x, y), (labels, "".join(others)), "".join(free))


def kron(input: Any, other: Any) -> Tensor:
    """Kronecker product: each element of `input` times all of `other`, as blocks.

    >>> import lucid
    >>> lucid.kron(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 10.0]))
    Tensor([ 1., 10.,  2., 20.])
    """
    x, y = lift_all(input, other)
    a, b = shape_of(x), shape_of(y)
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    rows, columns, out = [], [], []
    for m, n in zip(a, b, strict=True):
        rows += [m, 1]
        columns += [1, n]
        out.append(m * n)
    blocks = binary.mul(
        apply(P.reshape, (x,), {"shape": tuple(rows)}),
        apply(P.reshape, (y,), {"shape": tuple(columns)}),
    )
    return reductions.shown(P.reshape, blocks, {"shape": tuple(out)})


@numpy_names
def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """Vector product along `dim`, which has size 3 (by default the first such dimension).

    >>> import lucid
    >>> lucid.cross(lucid.tensor([1.0, 0.0, 0.0]), lucid.tensor([0.0, 1.0, 0.0]))
    Tensor([0., 0., 1.])
    """
    x, y = promote("cross", lift_all(input, other), KEEP)
    if shape_of(x) != shape_of(y):
        x, y = broadcast_tensors(x, y)
    shape = shape_of(x)
    if dim is None:
        if 3 not in shape:
            raise RuntimeError(f"cross: no dimension of {shape} has size 3")
        dim = shape.index(3)
    d = one_dim(dim, len(shape), "cross")
    if shape[d] != 3:
        raise RuntimeError(f"cross: dimension {d} of {shape} must have size 3")
    if element_type(x).kind == "b":
        raise ElementTypeError("cross does not take booleans; convert them, as in x.int()")
    return apply(P.cross, (x, y), {"dim": d})


def trace(input: Any) -> Tensor:
    """Sum of the diagonal of a matrix.

    >>> import lucid
    >>> lucid.trace(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor(5.)
    """
    x = in_single(lift(input))
    raise_unless_of_rank("trace", x, 2)
    if element_type(x) in dtypes.DIFFERENTIABLE:
        return reductions.in_steps(x, _TRACE)
    return reductions.sum_over(reductions.in_steps(x, _TRACE[:1]), (0,), False)


_TRACE = ((P.diagonal, {"offset": 0, "dim1": 0, "dim2": 1}), (P.sum, {"dims": (0,), "keepdim": False}))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addmm(lucid.ones(2), lucid.eye(2), lucid.ones(2, 2), alpha=10)
    Tensor([[11., 11.],
            [11., 11.]])
    """
    return scaled_sum(input, mm(mat1, mat2), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), for stacks of matrices.

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.baddbmm(lucid.ones(1, 1, 1), lucid.ones(1, 1, 3), lucid.ones(1, 3, 1), beta=0.5)
    Tensor([[[3.5]]])
    """
    return scaled_sum(input, bmm(batch1, batch2), beta, alpha)


def scaled_sum(input: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product, where `input` broadcasts to the product."""
    if (casting := _autocast()) is not None and product.np_dtype == casting.dtype.numpy:
        (input,) = casting.low(input)
    if not isinstance(input, Tensor):
        input = beside(input, element_type(product))
    if shape_of(input) != shape_of(product):
        expand(input, product.shape)  # raises if it does not fit
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return binary.plus(input if beta == 1 else binary.mul(input, beta), product)


@takes_out
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addmv(lucid.ones(2), lucid.eye(2), lucid.tensor([1.0, 2.0]), alpha=10)
    Tensor([11., 21.])
    """
    return scaled_sum(input, mv(mat, vec), beta, alpha)


@takes_out
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addr(lucid.ones(2, 2), lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([[4., 5.],
            [7., 9.]])
    """
    return scaled_sum(input, outer(vec1, vec2), beta, alpha)


@takes_out
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * Σ batch1ᵢ @ batch2ᵢ, summed over the matrices of the stacks.

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addbmm(lucid.ones(1, 1), lucid.ones(5, 1, 3), lucid.ones(5, 3, 1))
    Tensor([[16.]])
    """
    x, y = lift_all(batch1, batch2)
    left, right = shape_of(x), shape_of(y)
    if len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[2] != right[1]:
        raise RuntimeError(f"addbmm: stacks of shapes {left} and {right} do not fit")
    product = apply(contract, tuple(_factors("addbmm", x, y)), _SUM_OF_PRODUCTS.params)
    return scaled_sum(input, product, beta, alpha)


_SUM_OF_PRODUCTS = labelled("bij", "bjk", "ik")


@takes_out
def vdot(input: Any, other: Any) -> Tensor:
    """Σ conj(input) · other of two vectors.

    >>> import lucid
    >>> lucid.vdot(lucid.tensor([1 + 1j, 2.0]), lucid.tensor([1 + 1j, 1.0]))
    Tensor(4.+0.j, dtype=lucid.complex64)
    """
    x = lift(input)
    return dot(unary.conj(x) if x.is_complex() else x, other)


def _in_place(function: Callable[..., Tensor], example: str) -> Callable[..., Tensor]:
    """The form that writes into its first operand; `example` is a call and what it gives."""
    name = function.__name__ + "_"

    @wraps(function)
    def call(self: Tensor, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        return write(self, name, lambda x: function(x, first, second, beta=beta, alpha=alpha), (first, second))

    source, _, result = example.partition(" -> ")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"In-place form of `{function.__name__}`.\n\n    >>> import lucid\n    >>> lucid.{source}\n    {result}\n    "
    )
    return call


addmv_ = _in_place(addmv, "zeros(2).addmv_(lucid.eye(2), lucid.ones(2)) -> Tensor([1., 1.])")
addr_ = _in_place(addr, "zeros(1, 2).addr_(lucid.ones(1), lucid.ones(2)) -> Tensor([[1., 1.]])")
addbmm_ = _in_place(addbmm, "zeros(1, 1).addbmm_(lucid.ones(2, 1, 3), lucid.ones(2, 3, 1)) -> Tensor([[6.]])")
