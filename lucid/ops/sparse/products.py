"""Products with sparse matrices in compressed rows (CSR): `col` has the columns of their entries, row by row, and those of
row i are the entries from `crow[i]` to `crow[i + 1]`.

Three products are one trilinear form Σₖ valuesₖ Σ_c x[rowₖ, c] · y[colₖ, c], by the operand that is left out: the matrix
times y, its transpose times x, and the product of x and y at the entries alone. So each is the derivative of the others.
"""

from typing import Any

from lucid.core.arrays import full, steps
from lucid.core.dtypes import INT64
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, common
from lucid.ops.rules import P, add_all, batched_to_front, conj, np_dtype

REASON = "what is summed depends on positions"  # why primitives here are in no other category


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The product rule by the last two operands."""
    (crow, col, x, y), (_, _, tx, ty) = primals, tangents
    terms = [] if tx is None else [prim(crow, col, tx, y, **params)]
    return add_all(terms if ty is None else [*terms, prim(crow, col, x, ty, **params)])


def side_by_side(x: Any) -> Any:
    """A batch of matrices as one matrix with more columns."""
    return P.reshape(P.permute(x, dims=(1, 0, 2)), shape=(x.shape[1], x.shape[0] * x.shape[2]))


def taken_apart(x: Any, size: int) -> Any:
    """The batch that such a matrix is."""
    return P.permute(P.reshape(x, shape=(x.shape[0], size, x.shape[1] // max(size, 1))), dims=(1, 0, 2))


def one_below_another(x: Any) -> Any:
    """A batch as one tensor with more rows."""
    return P.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def stacked_rows(crow: Any, col: Any, size: int, columns: int) -> tuple[Any, Any]:
    """The rows of a batch of matrices as those of one matrix, each example `columns` further to the right."""
    crow, col = (P.cast(i, dtype=INT64, source=np_dtype(i)) for i in (crow, col))
    places = Tensor._wrap(steps(size, (1,)))
    entries = col.shape[1]
    starts = one_below_another(P.slice(crow, index=(slice(None), slice(0, -1))) + places * entries)
    end = Tensor._wrap(full((1,), size * entries, INT64))
    return P.cat(starts, end, dim=0), one_below_another(col + places * columns)


def _batch_product(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    crow, col, entries, dense = values
    if not any(batched[:3]):
        return taken_apart(prim(crow, col, entries, side_by_side(dense), **params), size)
    crow, col, entries = batched_to_front((crow, col, entries), batched[:3], size)
    back = "columns" in params
    if back and not batched[3]:
        (dense,) = batched_to_front([dense], [False], size)
    apart = back or batched[3]  # otherwise the examples share the dense factor
    width = params["columns"] if back else dense.shape[1] if apart else 0
    crow, col = stacked_rows(crow, col, size, width)
    factor = one_below_another(dense) if apart else dense
    out = prim(crow, col, one_below_another(entries), factor, **({"columns": size * width} if back else {}))
    return P.reshape(out, shape=(size, out.shape[0] // max(size, 1), out.shape[1]))


def _batch_sample(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    crow, col, x, y = values
    entries = col.shape[-1]
    crow, col, x = batched_to_front((crow, col, x), batched[:3], size)
    crow, col = stacked_rows(crow, col, size, y.shape[1] if batched[3] else 0)
    return P.reshape(prim(crow, col, one_below_another(x), one_below_another(y) if batched[3] else y),
                     shape=(size, entries))  # fmt: skip


# The matrix times a dense one: out[i] = Σ valuesₖ · dense[colₖ] over the entries k of row i.
csr_matmul = Primitive(
    "csr_matmul",
    operands=("crow", "col", "values", "dense"),
    rules=(
        None,
        None,
        lambda ct, crow, col, dense: P.csr_sample(crow, col, ct, conj(dense)),
        lambda ct, crow, col, values, dense_shape: P.csr_matmul_back(
            crow, col, conj(values), ct, columns=dense_shape[0]
        ),
    ),
    jvp=_push,
    batch=_batch_product,
    abstract=lambda crow, col, values, dense: Abstract((crow.shape[0] - 1, dense.shape[1]), common(values, dense)),
    reason=REASON,
    multiply_adds=lambda shapes, out, params: shapes[1][0] * out[-1],
    is_polynomial=True,
)

# Its transpose, of `columns` rows, times a dense one: out[colₖ] += valuesₖ · dense[i].
csr_matmul_back = Primitive(
    "csr_matmul_back",
    operands=("crow", "col", "values", "dense"),
    rules=(
        None,
        None,
        lambda ct, crow, col, dense: P.csr_sample(crow, col, conj(dense), ct),
        lambda ct, crow, col, values: P.csr_matmul(crow, col, conj(values), ct),
    ),
    jvp=_push,
    batch=_batch_product,
    abstract=lambda crow, col, values, dense, columns: Abstract((columns, dense.shape[1]), common(values, dense)),
    reason=REASON,
    multiply_adds=lambda shapes, out, params: shapes[1][0] * out[-1],
    is_polynomial=True,
)

# The product of x and the transpose of y at the entries: outₖ = Σ x[i] · y[colₖ].
csr_sample = Primitive(
    "csr_sample",
    operands=("crow", "col", "x", "y"),
    rules=(
        None,
        None,
        lambda ct, crow, col, y: P.csr_matmul(crow, col, ct, conj(y)),
        lambda ct, crow, col, x, y_shape: P.csr_matmul_back(crow, col, ct, conj(x), columns=y_shape[0]),
    ),
    jvp=_push,
    batch=_batch_sample,
    abstract=lambda crow, col, x, y: Abstract(col.shape, common(x, y)),
    reason=REASON,
    multiply_adds=lambda shapes, out, params: shapes[1][0] * shapes[2][1],
    is_polynomial=True,
)

# The order in which entries at these rows and columns are those of compressed rows, and where the rows begin.
coo_order = Primitive(
    "coo_order",
    operands=("row", "col"),
    results=("order", "crow"),
    abstract=lambda row, col, rows, columns: (Abstract(row.shape, INT64), Abstract((rows + 1,), INT64)),
    reason=REASON,
)
