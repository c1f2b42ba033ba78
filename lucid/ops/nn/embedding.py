"""Rows of a table read by index, and the sums of rows that their gradients are.

A row may be skipped: row `skip` of every `period` rows, so that a batch of tables can stand in one.
"""

from collections.abc import Sequence
from typing import Any

from lucid.core.arrays import steps
from lucid.core.fields import TensorFields
from lucid.core.node import Node
from lucid.core.primitive import Primitive, apply, lift, pulled_by_tensors
from lucid.core.tensor import Tensor, of_class, shape_of, wrapped
from lucid.ops.abstract import Abstract
from lucid.ops.categories import Elementwise
from lucid.ops.indexing import in_range, nonzero_positions
from lucid.ops.rules import P, batched_to_front
from lucid.ops.sparse import rules as sparse_rules  # noqa: F401 -- by which sparse gradients are added up
from lucid.ops.sparse.tensor import Coo, Sparse


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return P.gather_rows(tangents[0], primals[1], **params)


def _pull(ct: Any, index: Any, table_shape: tuple[int, ...], skip: int | None, period: int) -> Any:
    return P.scatter_rows(ct, index, count=table_shape[0], skip=skip, period=period)


def _apart(index: Any, size: int, rows: int) -> Any:
    """Positions in the tables of all examples, one behind the other."""
    return index + Tensor._wrap(steps(size, (1,) * (index.ndim - 1))) * rows


def _batch_gather(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    table, index = values
    if not batched[0]:
        return prim(table, index, **params)
    if batched[1]:
        rows = table.shape[1]
        return prim(P.reshape(table, shape=(size * rows, *table.shape[2:])), _apart(index, size, rows), **params)
    # The examples share the positions: their tables side by side are one table with longer rows.
    out = prim(P.permute(table, dims=(1, 0, *range(2, table.ndim))), index, **params)
    k = index.ndim
    return P.permute(out, dims=(k, *range(k), *range(k + 1, out.ndim)))


def _batch_scatter(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    rows, index = batched_to_front(values, batched, size)
    count = params["count"]
    out = prim(rows, _apart(index, size, count), **{**params, "count": size * count})
    return P.reshape(out, shape=(size, count, *out.shape[1:]))


def _rows(table: Any, index: Any, skip: int | None, period: int) -> Abstract:
    """A row for each index."""
    return Abstract((*index.shape, *table.shape[1:]), table.dtype)


_TABLE_AND_INDEX = {
    "operands": ("table", "index"),
    "rules": (_pull, None),
    "jvp": _push,
    "batch": _batch_gather,
    "abstract": _rows,
    "category": "gather",
}

# table[index]; the row that is skipped counts as a constant, so that its gradient is 0.
embedding_primitive = Primitive("embedding", **_TABLE_AND_INDEX)  # type: ignore[arg-type]  # a mixed dict


class SparselyPulled(Primitive):
    """One whose table, if it is a leaf, gets a sparse gradient of the rows that were read.

    Where derivatives are recorded or transformed, or go on to what the table was made of, they are dense.
    """

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        if isinstance(ct, TensorFields):
            return super().vjp(node, ct)
        if node.left is None or node.left._seq:
            found: Sequence[Any] = pulled_by_tensors(node, ct)
            return found
        rule: Any = self.rules[0]
        index, shape, skip, _ = rule.read(node, ct)
        rows, places = (
            P.reshape(wrapped(ct), shape=(index.size, *shape[1:])),
            P.reshape(wrapped(index), shape=(index.size,)),
        )
        if skip is not None:
            (kept,) = (wrapped(p) for p in nonzero_positions((places != skip)._array, False))
            rows, places = P.index(rows, kept), P.index(places, kept)
        rows = of_class((node.left,), rows)
        return Sparse.make(rows, Coo(P.reshape(places, shape=(1, places.shape[0])), shape[:1], False)), None


# The same as `embedding` with a sparse gradient.
sparse_embedding = SparselyPulled(
    "sparse_embedding",
    **_TABLE_AND_INDEX,  # type: ignore[arg-type]  # a mixed dict
    pulls_arrays=True,
    pulls_new=True,
)
# The same with 0 for the row that is skipped, which makes it linear; and its transpose.
gather_rows = Primitive("gather_rows", **_TABLE_AND_INDEX)  # type: ignore[arg-type]  # a mixed dict
scatter_rows = Primitive(
    "scatter_rows",
    operands=("rows", "index"),
    rules=(lambda ct, index, skip, period: P.gather_rows(ct, index, skip=skip, period=period), None),
    jvp=lambda prim, primals, tangents, out, params: prim(tangents[0], primals[1], **params),
    batch=_batch_scatter,
    abstract=lambda rows, index, count, skip, period: Abstract((count, *rows.shape[index.ndim :]), rows.dtype),
    category="scatter",
)
# x with its gradient scaled.
scale_gradient = Elementwise(
    "scale_gradient",
    (lambda scale: scale, 0),
    ("x", "scale"),
    body=lambda x, scale: x,
)


def embedding(weight: Any, index: Any, padding: int | None = None, sparse: bool = False) -> Tensor:
    """The rows of `weight` at `index`; the row `padding` gets no gradient. That of the others is `sparse` if wanted.

    >>> import lucid
    >>> from lucid.ops.nn.embedding import embedding
    >>> weight = lucid.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> embedding(weight, lucid.tensor([1, 1, 0]), padding=0).sum().backward()
    >>> weight.grad
    Tensor([[0., 0.],
            [2., 2.]])
    """
    table = lift(weight)
    count = shape_of(table)[0]
    places = in_range(lift(index), count, "embedding", negative=False)
    read = P.sparse_embedding if sparse else embedding_primitive
    found: Tensor = apply(read, (table, places), {"skip": padding, "period": max(1, count)})
    return found


def with_scaled_gradient(x: Tensor, scale: Tensor) -> Tensor:
    """x, whose gradient is multiplied by `scale` on its way back.

    >>> import lucid
    >>> from lucid.ops.nn.embedding import with_scaled_gradient
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> with_scaled_gradient(x, lucid.tensor([0.5, 3.0])).sum().backward()
    >>> x.grad
    Tensor([0.5, 3. ])
    """
    return P.scale_gradient(x, scale)


def segment_sum(rows: Tensor, index: Tensor, count: int) -> Tensor:
    """`count` rows, each the sum of those rows whose index says so.

    >>> import lucid
    >>> from lucid.ops.nn.embedding import segment_sum
    >>> segment_sum(lucid.tensor([[1.0], [2.0], [4.0]]), lucid.tensor([0, 2, 0]), 3)
    Tensor([[5.],
            [0.],
            [2.]])
    """
    return P.scatter_rows(rows, in_range(index, count, "segment_sum", negative=False), count=count, skip=None, period=1)
