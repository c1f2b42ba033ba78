"""Systems of linear equations with a sparse matrix in compressed rows, solved by factorisation or by iteration.

With A x = b the derivative is A dx = db - dA x, and the cotangent of b is a solution of the adjoint system. It has the
same matrix, so what the backend knows of a factorisation serves both.
"""

from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.kinds.batched import _one_by_one
from lucid.ops.abstract import Abstract
from lucid.ops.categories import Check, asked_by
from lucid.ops.rules import P, batched_to_front, conj
from lucid.ops.sparse.products import one_below_another, side_by_side, stacked_rows, taken_apart

_INT32 = np.dtype(np.int32)


def _pulled_values(force: Any, out: Any, crow: Any, col: Any, transposed: bool) -> Any:
    """The cotangent of the entries, from the solution of the adjoint system."""
    x, y = (conj(out), force) if transposed else (force, conj(out))
    return -P.csr_sample(crow, col, x, y)


def _change(primals: Any, tangents: Any, out: Any, transposed: bool) -> Any:
    """db - dA x"""
    (crow, col), (da, db) = primals[:2], tangents[2:4]
    if da is None:
        return db
    moved = (
        P.csr_matmul_back(crow, col, da, out, columns=out.shape[0]) if transposed else P.csr_matmul(crow, col, da, out)
    )
    return -moved if db is None else db - moved


def _batch_solve(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """Right-hand sides stand side by side; matrices that differ are the blocks of one."""
    crow, col, entries, b = values
    if not any(batched[:3]):
        return taken_apart(prim(crow, col, entries, side_by_side(b), **params), size)
    crow, col, entries, b = batched_to_front(values, batched, size)
    crow, col = stacked_rows(crow, col, size, b.shape[1])
    return P.reshape(prim(crow, col, one_below_another(entries), one_below_another(b), **params), shape=b.shape)


# A x = b, or of the transpose of A, for each column of b.
csr_solve = Primitive(
    "csr_solve",
    operands=("crow", "col", "values", "b"),
    rules=(
        None,
        None,
        lambda ct, force, out, crow, col, transposed: _pulled_values(force, out, crow, col, transposed),
        lambda ct, force: force,
    ),
    shared={
        "force": lambda ct, crow, col, values, transposed: P.csr_solve(
            crow, col, conj(values), ct, transposed=not transposed
        )
    },
    jvp=lambda prim, primals, tangents, out, params: prim(
        *primals[:3], _change(primals, tangents, out, **params), **params
    ),
    batch=_batch_solve,
    abstract=lambda crow, col, values, b, transposed: Abstract(b.shape, b.dtype),
    reason="a factorisation by SuperLU",
    checks=Check("that matrices are not singular"),
)


def _batch_iterate(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    *matrix, b, start = values
    if any(batched[:3]):
        return _one_by_one(prim, values, batched, size, params)
    b, start = batched_to_front((b, start), batched[3:], size)
    out, steps = prim(*matrix, side_by_side(b), side_by_side(start), **params)
    return taken_apart(out, size), P.reshape(steps, shape=(size, steps.shape[0] // max(size, 1)))


def _push_iterate(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    if tangents[2] is None and tangents[3] is None:
        return None, None
    change = _change(primals, tangents, out[0], params["transposed"])
    return prim(*primals[:3], change, change * 0, **{**params, "strict": True})[0], None


# The same by iterations of `method` from `start` on; `info` has for each column 0, or after how many steps it gave up. If
# `strict`, as derivatives are, it must not.
csr_iterate = Primitive(
    "csr_iterate",
    operands=("crow", "col", "values", "b", "start"),
    results=("out", "info"),
    rules=(
        None,
        None,
        lambda cts, force, out, crow, col, transposed: _pulled_values(force, out, crow, col, transposed),
        lambda cts, force: force,
        None,
    ),
    shared={
        "force": lambda cts, crow, col, values, method, transposed: P.csr_iterate(
            crow, col, conj(values), cts[0], cts[0] * 0, method=method, transposed=not transposed, strict=True
        )[0]
    },
    jvp=_push_iterate,
    batch=_batch_iterate,
    abstract=lambda crow, col, values, b, start, method, transposed, strict: (
        Abstract(b.shape, b.dtype),
        Abstract((b.shape[1],), _INT32),
    ),
    reason="a loop that ends when the residual is small",
    checks=Check("that iterations converge", asked_by("strict")),
)
