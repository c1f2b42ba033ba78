"""Elements written to, added to or folded into places that integers name."""

from collections.abc import Callable, Sequence
from typing import Any

from lucid.core import dtypes
from lucid.core.arrays import as_array
from lucid.core.tensor import Tensor
from lucid.ops.abstract import same
from lucid.ops.categories import Variadic, each
from lucid.ops.indexing import batch_put
from lucid.ops.rules import P, np_dtype, sum_to, times, zeros_like

Weights = Callable[..., tuple[Any, Any]]


def _fold(name: str, combine: str, weights: Weights) -> Variadic:
    """A fold of `source` into `x`, declared by `weights(prim, args, params)`: the derivative by each element."""

    def pull(i: int, ct: Any, args: Any, shapes: Any, params: Any) -> Any:
        weight = weights(prim, args, params)[i]
        return times(ct, weight) if i == 0 else sum_to(times(P.index(ct, *args[2:]), weight), shapes[1])

    def push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        shares = [
            zeros_like(w) if t is None else t * w
            for t, w in zip(tangents[:2], weights(prim, primals, params), strict=True)
        ]
        return P.index_put(*shares, *primals[2:], accumulate=True)

    prim = Variadic(
        name, each(pull), jvp=push, batch=batch_put, reads=0, abstract=same, category="scatter", combine=combine
    )
    return prim


def _other_factors(prim: Any, args: Any, params: Any) -> tuple[Any, Any]:
    """The product of all other factors at the same place. Zeros are counted apart, so that it is exact with them."""
    x, source, *positions = args
    dtype = np_dtype(x)
    flags = [P.cast(v == 0, dtype=dtype, source=dtypes.BOOL) for v in (x, source)]
    zeros = _added(flags, positions)
    rest = prim(P.where(x == 0, 1, x), P.where(source == 0, 1, source), *positions)
    # One zero among the others stands for itself, two for their product (p² - q) / 2 from the sums p of zeros and q of
    # their squares: they are 0, but not their derivatives, which higher orders ask for.
    own = [P.where(v == 0, v, 0) for v in (x, source)] if isinstance(x, Tensor) else None
    sums = None if own is None else (_added(own, positions), _added([o * o for o in own], positions))

    def others(k: int, factor: Any, at: Callable[[Any], Any]) -> Any:
        left = at(zeros) - flags[k]
        alone = P.cast(left == 0, dtype=dtype, source=dtypes.BOOL)
        if own is not None and sums is not None:
            single = at(sums[0]) - own[k]
            pair = (single * single - at(sums[1]) + own[k] * own[k]) / 2
            alone = alone + P.where(left == 1, single, P.where(left == 2, pair, 0))
        return alone * at(rest) / P.where(factor == 0, 1, factor)

    return others(0, x, lambda v: v), others(1, source, lambda v: P.index(v, *positions))


def _added(parts: Sequence[Any], positions: Sequence[Any]) -> Any:
    """What stands at each place and what goes there, added up."""
    return P.index_put(parts[0], parts[1], *positions, accumulate=True)


index_prod = _fold("index_prod", "mul", _other_factors)


def _tie_shares(prim: Any, args: Any, params: Any) -> tuple[Any, Any]:
    """One over the number of elements that are the extreme of their place, for those; 0 for the others."""
    x, source, *positions = args
    out = prim(*args, **params)
    mine, theirs = _equals(x, out), _equals(source, P.index(out, *positions))
    if not params["include_self"]:
        mine = overwritten(mine, positions, 0)
    count = P.index_put(mine, theirs, *positions, accumulate=True)
    return mine / count, theirs / P.index(count, *positions)


def _equals(x: Any, out: Any) -> Any:
    return P.cast((x == out) | ((x != x) & (out != out)), dtype=np_dtype(x), source=dtypes.BOOL)


def overwritten(x: Any, positions: Sequence[Any], value: Any) -> Any:
    return P.index_put(x, Tensor._wrap(as_array(value, np_dtype(x))), *positions, accumulate=False)


index_amax = _fold("index_amax", "maximum", _tie_shares)

index_amin = _fold("index_amin", "minimum", _tie_shares)
