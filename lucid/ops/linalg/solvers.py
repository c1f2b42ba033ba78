"""Systems of linear equations, and inverses."""

from typing import Any

from lucid.ops.abstract import same
from lucid.ops.categories import Check, asked_by
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import INT32, adjoint, for_each, lapack, product, solution
from lucid.ops.rules import P, sum_to

# For each matrix 0, or the number of the first pivot that is 0 in its elimination.
singularity = lapack("singularity", abstract=lambda x: for_each(x, dtype=INT32))

_SINGULAR = Check("that matrices are not singular", asked_by("strict"))

inverse = lapack(
    "inverse",
    rules=(lambda ct, out: -product(adjoint(out), ct, adjoint(out)),),
    jvp=lambda prim, primals, tangents, out, params: -product(out, tangents[0], out),
    abstract=same,
    checks=_SINGULAR,
)


def _push_solution(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a, _), (ta, tb) = primals, tangents
    if ta is None:
        change = tb
    else:
        change = -matmul(ta, out) if tb is None else tb - matmul(ta, out)
    return P.solve(a, change, **params)


# A X = B for matrices B.
solve = lapack(
    "solve",
    operands=("a", "b"),
    rules=(
        lambda ct, force, out, a_shape: sum_to(-matmul(force, adjoint(out)), a_shape),
        lambda ct, force, b_shape: sum_to(force, b_shape),
    ),
    shared={"force": lambda ct, a, strict: P.solve(adjoint(a), ct, strict=strict)},
    jvp=_push_solution,
    abstract=solution,
    checks=_SINGULAR,
)
