"""Forward mode as a function: jvp."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core import tree
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.dual import Dual
from lucid.core.levels import new_level
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor


def _dual(primal: Any, tangent: Any, level: int) -> Dual:
    x, t = lift(primal), lift(tangent)
    if x.np_dtype not in DIFFERENTIABLE:
        raise TypeError(f"jvp: a primal has dtype {x.dtype}; tangents need floating-point or complex tensors")
    if x.shape != t.shape:
        raise ValueError(f"jvp: a tangent has shape {t.shape}, but its primal has {x.shape}")
    return Dual.make(x, t.to(x.np_dtype), level)


def split(value: Any, level: int) -> tuple[Any, Any]:
    """The primals and tangents in a nest of results."""
    leaves, structure = tree.flatten(value)
    primals, tangents = [], []
    for leaf in leaves:
        dual = isinstance(leaf, Dual) and leaf._level == level
        primal = leaf._array if dual else leaf
        tangent = leaf._aux if dual else None
        if tangent is None and isinstance(primal, Tensor):
            tangent = Tensor._wrap(np.zeros(primal.shape, primal.np_dtype))
        primals.append(primal)
        tangents.append(tangent)
    return structure.unflatten(primals), structure.unflatten(tangents)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of `func` at `primals` and its change along `tangents`, in one pass.

    >>> import lucid
    >>> lucid.func.jvp(lambda x: x**2, (lucid.tensor([3.0]),), (lucid.tensor([1.0]),))
    (Tensor([9.]), Tensor([6.]))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError("jvp: primals and tangents are tuples with one entry for each argument")
    if len(primals) != len(tangents):
        raise ValueError(f"jvp: {len(primals)} primals and {len(tangents)} tangents")
    level = new_level()
    duals = [tree.tree_map(lambda p, t: _dual(p, t, level), p, t) for p, t in zip(primals, tangents, strict=True)]
    result = func(*duals)
    value, aux = result if has_aux else (result, None)
    out, change = split(value, level)
    return (out, change, split(aux, level)[0]) if has_aux else (out, change)
