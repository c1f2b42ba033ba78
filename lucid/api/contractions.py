"""Products that sum over shared dimensions: einsum, tensordot and their relatives."""

import math
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.api import contractions
from lucid.api.shaping import broadcast_tensors, expand
from lucid.core import modes
from lucid.core.inplace import write
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops import binary, unary
from lucid.ops.contractions import LETTERS
from lucid.ops.dims import numpy_names, one_dim
from lucid.ops.out import takes_out
from lucid.ops.products import matmul as matmul
from lucid.ops.promotion import KEEP, beside, lift_all, promote
from lucid.ops.rules import P

_autocast = modes.autocast.get


_MOST_OPERANDS = 8  # of one product


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
    if (casting := _autocast()) is not None:
        operands = tuple(casting.low(*operands))
    tensors: list[Tensor] = promote("einsum", lift_all(*operands), KEEP)
    return _contracted(tensors, _explicit(equation, [t.shape for t in tensors]))


def _contracted(tensors: list[Tensor], spec: str) -> Tensor:
    """The sum of products, of the first two operands by themselves while there are too many for one.

    Each derivative of n operands is a product of all the others; in pairs, n derivatives take n steps.
    """
    inputs, output = spec.split("->")
    labels = inputs.split(",")
    uses = Counter(output + "".join(labels))
    left, mine = tensors[0], labels[0]
    first = max(1, len(tensors) - _MOST_OPERANDS + 1)
    for x, other in zip(tensors[1:first], labels[1:first], strict=True):
        uses.subtract(mine + other)
        both = "".join(c for c in dict.fromkeys(mine + other) if uses[c])
        left, mine = P.einsum(left, x, spec=f"{mine},{other}->{both}"), both
        uses.update(mine)
    return P.einsum(left, *tensors[first:], spec=",".join([mine, *labels[first:]]) + "->" + output)


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


def _explicit(equation: str, shapes: list[tuple[int, ...]]) -> str:
    """The equation with every dimension labelled and the result spelled out."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    labels = inputs.split(",")
    if len(labels) != len(shapes):
        raise ValueError(f"einsum: {equation!r} has {len(labels)} operands, but {len(shapes)} were given")
    unused = [c for c in LETTERS if c not in text]
    ranks = [len(s) - len(l.replace("...", "")) for s, l in zip(shapes, labels, strict=True) if "..." in l]
    dots = "".join(unused[: max(ranks, default=0)])
    spread = []
    for l, s in zip(labels, shapes, strict=True):
        rank = len(s) - len(l.replace("...", ""))
        if rank < 0 or (rank and "..." not in l):
            raise ValueError(f"einsum: {l!r} in {equation!r} does not fit an operand of shape {s}")
        spread.append(l.replace("...", dots[len(dots) - rank :]))
    for l in spread:
        if any(c not in LETTERS for c in l):
            raise ValueError(f"einsum: {equation!r} may contain letters, commas, '...' and '->' only")
    if arrow:
        result = output.replace("...", dots)
    else:
        once = sorted(c for c in set("".join(spread)) if "".join(spread).count(c) == 1 and c not in dots)
        result = dots + "".join(once)
    _check_labels(equation, spread, result, shapes)
    return ",".join(spread) + "->" + result


def _check_labels(equation: str, labels: list[str], result: str, shapes: list[tuple[int, ...]]) -> None:
    if len(set(result)) != len(result):
        raise ValueError(f"einsum: the result of {equation!r} has a label twice")
    sizes: dict[str, int] = {}
    for l, s in zip(labels, shapes, strict=True):
        for c, n in zip(l, s, strict=True):
            if sizes.get(c, n) not in (n, 1) and n != 1:
                raise RuntimeError(f"einsum: label {c!r} has sizes {sizes[c]} and {n} in {equation!r}")
            sizes[c] = max(n, sizes.get(c, n)) if n != 0 else 0
    missing = set(result) - set(sizes)
    if missing:
        raise ValueError(f"einsum: {equation!r} has {', '.join(sorted(missing))} in the result but in no operand")


def _expect(name: str, x: Tensor, ndim: int) -> None:
    if x.ndim != ndim:
        raise RuntimeError(f"{name}: expected a tensor with {ndim} dimensions, not shape {x.shape}")


def mm(input: Any, mat2: Any) -> Tensor:
    """Product of two matrices.

    >>> import lucid
    >>> lucid.mm(lucid.tensor([[1.0, 2.0]]), lucid.tensor([[3.0], [4.0]]))
    Tensor([[11.]])
    """
    x, y = lift_all(input, mat2)
    _expect("mm", x, 2)
    _expect("mm", y, 2)
    return matmul(x, y)


def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of two stacks of matrices.

    >>> import lucid
    >>> lucid.bmm(lucid.ones(5, 2, 3), lucid.ones(5, 3, 4)).shape
    (5, 2, 4)
    """
    x, y = lift_all(input, mat2)
    _expect("bmm", x, 3)
    _expect("bmm", y, 3)
    if x.shape[0] != y.shape[0]:
        raise RuntimeError(f"bmm: {x.shape[0]} matrices against {y.shape[0]}")
    return matmul(x, y)


def mv(input: Any, vec: Any) -> Tensor:
    """Product of a matrix and a vector.

    >>> import lucid
    >>> lucid.mv(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1.0, -1.0]))
    Tensor([-1., -1.])
    """
    x, y = lift_all(input, vec)
    _expect("mv", x, 2)
    _expect("mv", y, 1)
    return matmul(x, y)


def dot(input: Any, tensor: Any) -> Tensor:
    """Sum of the products of two vectors' elements.

    >>> import lucid
    >>> lucid.dot(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor(11.)
    """
    x, y = lift_all(input, tensor)
    _expect("dot", x, 1)
    _expect("dot", y, 1)
    if x.shape != y.shape:
        raise RuntimeError(f"dot: vectors of {x.shape[0]} and {y.shape[0]} elements")
    return matmul(x, y)


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
    _expect("outer", x, 1)
    _expect("outer", y, 1)
    return binary.mul(P.reshape(x, shape=(x.shape[0], 1)), y)


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
    x = _summed_where_alone(x, [i for i, j in pairs if y.shape[j] == 1])
    y = _summed_where_alone(y, [j for i, j in pairs if x.shape[i] == 1])
    free_x = [d for d in range(x.ndim) if d not in left]
    free_y = [d for d in range(y.ndim) if d not in right]
    shared = math.prod(x.shape[d] for d in left)
    rows, columns = [x.shape[d] for d in free_x], [y.shape[d] for d in free_y]
    flat_x = P.reshape(P.permute(x, dims=(*free_x, *left)), shape=(math.prod(rows), shared))
    flat_y = P.reshape(P.permute(y, dims=(*right, *free_y)), shape=(shared, math.prod(columns)))
    return P.reshape(matmul(flat_x, flat_y), shape=(*rows, *columns))


def _summed_where_alone(x: Tensor, dims: list[int]) -> Tensor:
    """Elements that all meet the same one on the other side, added up first."""
    alone = tuple(d for d in dims if x.shape[d] != 1)
    return P.sum(x, dims=alone, keepdim=True).to(x.np_dtype) if alone else x


def kron(input: Any, other: Any) -> Tensor:
    """Kronecker product: each element of `input` times all of `other`, as blocks.

    >>> import lucid
    >>> lucid.kron(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 10.0]))
    Tensor([ 1., 10.,  2., 20.])
    """
    x, y = lift_all(input, other)
    rank = max(x.ndim, y.ndim)
    a = (1,) * (rank - x.ndim) + x.shape
    b = (1,) * (rank - y.ndim) + y.shape
    spread_x = P.reshape(x, shape=tuple(n for pair in zip(a, (1,) * rank, strict=True) for n in pair))
    spread_y = P.reshape(y, shape=tuple(n for pair in zip((1,) * rank, b, strict=True) for n in pair))
    return P.reshape(binary.mul(spread_x, spread_y), shape=tuple(m * n for m, n in zip(a, b, strict=True)))


@numpy_names
def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """Vector product along `dim`, which has size 3 (by default the first such dimension).

    >>> import lucid
    >>> lucid.cross(lucid.tensor([1.0, 0.0, 0.0]), lucid.tensor([0.0, 1.0, 0.0]))
    Tensor([0., 0., 1.])
    """
    x, y = promote("cross", lift_all(input, other), KEEP)
    x, y = broadcast_tensors(x, y)
    if dim is None:
        dim = next((d for d, n in enumerate(x.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension of {x.shape} has size 3")
    d = one_dim(dim, x.ndim, "cross")
    if x.shape[d] != 3:
        raise RuntimeError(f"cross: dimension {d} of {x.shape} must have size 3")
    return x.roll(-1, d) * y.roll(1, d) - x.roll(1, d) * y.roll(-1, d)


def trace(input: Any) -> Tensor:
    """Sum of the diagonal of a matrix.

    >>> import lucid
    >>> lucid.trace(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor(5.)
    """
    x = lift(input)
    _expect("trace", x, 2)
    return P.diagonal(x, offset=0, dim1=0, dim2=1).sum()


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
    if (casting := _autocast()) is not None:
        (input,) = casting.low(input)
    input = beside(input, product.np_dtype)
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
    return scaled_sum(input, contractions.mv(mat, vec), beta, alpha)


@takes_out
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addr(lucid.ones(2, 2), lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([[4., 5.],
            [7., 9.]])
    """
    return scaled_sum(input, contractions.outer(vec1, vec2), beta, alpha)


@takes_out
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * Σ batch1ᵢ @ batch2ᵢ, summed over the matrices of the stacks.

    With a `beta` of 0, `input` is not read.

    >>> import lucid
    >>> lucid.addbmm(lucid.ones(1, 1), lucid.ones(5, 1, 3), lucid.ones(5, 3, 1))
    Tensor([[16.]])
    """
    x, y = lift_all(batch1, batch2)
    if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(f"addbmm: stacks of shapes {x.shape} and {y.shape} do not fit")
    # The sum over the stack is part of one large product.
    (count, rows, inner), columns = x.shape, y.shape[2]
    flat = P.reshape(P.permute(x, dims=(1, 0, 2)), shape=(rows, count * inner))
    product = contractions.matmul(flat, P.reshape(y, shape=(count * inner, columns)))
    return scaled_sum(input, product, beta, alpha)


@takes_out
def vdot(input: Any, other: Any) -> Tensor:
    """Σ conj(input) · other of two vectors.

    >>> import lucid
    >>> lucid.vdot(lucid.tensor([1 + 1j, 2.0]), lucid.tensor([1 + 1j, 1.0]))
    Tensor(4.+0.j, dtype=lucid.complex64)
    """
    x = lift(input)
    return contractions.dot(unary.conj(x) if x.is_complex() else x, other)


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
