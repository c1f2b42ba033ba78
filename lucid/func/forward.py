"""Forward mode as functions: jvp, and linearize, which keeps the derivative for many tangents."""

from collections.abc import Callable
from typing import Any

from lucid.arguments.promotion import exact
from lucid.autograd.forward_ad import Pushforward
from lucid.core import tree
from lucid.core.arrays import zeros
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.errors import ResultError
from lucid.core.levels import Inside, new_level
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.func.arguments import named, raise_if_not_differentiable
from lucid.ir.trace import traced
from lucid.kinds.dual import Dual


def _duals(name: str, func: Callable[..., Any], primals: Any, tangents: Any, level: int) -> list[Any]:
    """The arguments with their tangents."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"{name}: primals and tangents are tuples with one entry for each argument, as in "
            f"{name}(f, (x,), (t,)), not {type(primals).__name__} and {type(tangents).__name__}"
        )
    if len(primals) != len(tangents):
        raise ValueError(f"{name}: {len(primals)} primals and {len(tangents)} tangents")
    arguments = []
    for number, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        xs, structure = tree.flatten(primal)
        ts, given = tree.flatten(tangent)
        if given != structure:
            raise ValueError(
                f"{name}: the tangent of {named(func, number)} has structure {given}, but its primal has {structure}"
            )
        leaves = []
        for k, (leaf, change) in enumerate(zip(xs, ts, strict=True)):
            x, t = lift(leaf), exact(change)
            if x.np_dtype not in DIFFERENTIABLE or x.shape != t.shape:
                _raise_unfit(name, f"{named(func, number)}{tree.paths(primal)[k]}", x, t)
            leaves.append(Dual.make(x, t if t.np_dtype == x.np_dtype else t.to(x.np_dtype), level))
        arguments.append(structure.unflatten(leaves))
    return arguments


def _raise_unfit(name: str, what: str, x: Tensor, t: Tensor) -> None:
    raise_if_not_differentiable(x, name, what)
    raise ValueError(f"{name}: the tangent of {what} has shape {t.shape}, but its primal has {x.shape}")


def split(value: Any, level: int) -> tuple[Any, Any]:
    """The primals and tangents in a nest of results."""
    leaves, structure = tree.flatten(value)
    primals, tangents = [], []
    for leaf in leaves:
        dual = isinstance(leaf, Dual) and leaf._level == level
        primal = leaf._array if dual else leaf
        tangent = leaf._aux if dual else None
        if tangent is None and isinstance(primal, Tensor):
            tangent = Tensor._wrap(zeros(primal.shape, primal.np_dtype))
        primals.append(primal)
        tangents.append(tangent)
    return structure.unflatten(primals), structure.unflatten(tangents)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False, strict: bool = False) -> Any:
    """The value of `func` at `primals` and its change along `tangents`, in one pass.

    With `has_aux`, `func` returns a pair, and the second entry is handed on: `(value, change, aux)`. With `strict`, a value
    that does not depend on `primals` is an error; otherwise its change is 0.

    >>> import lucid
    >>> lucid.func.jvp(lambda x: x**2, (lucid.tensor([3.0]),), (lucid.tensor([1.0]),))
    (Tensor([9.]), Tensor([6.]))
    """
    level = new_level()
    duals = _duals("jvp", func, primals, tangents, level)
    with Inside(Pushforward(level)):
        result = func(*duals)
    if strict:
        _raise_if_independent(result[0] if has_aux else result, level)
    if not has_aux:
        return split(result, level)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ResultError("jvp: with has_aux=True the function must return a pair (value, aux)")
    return (*split(result[0], level), split(result[1], level)[0])


def _raise_if_independent(result: Any, level: int) -> None:
    for number, leaf in enumerate(tree.flatten(result)[0]):
        if not isinstance(leaf, Dual) or leaf._level != level:
            raise ValueError(f"jvp: result {number} does not depend on the primals, and strict=True asks that all do")


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `func` at `primals`, and the function that takes tangents of them to the change of the value.

    `func` runs once, here. What is kept is the program of its derivative alone, which is linear in the tangents.

    >>> import lucid
    >>> value, push = lucid.func.linearize(lambda x: x**3, lucid.tensor([1.0, 2.0]))
    >>> push(lucid.tensor([1.0, 0.0])), push(lucid.tensor([0.0, 1.0]))
    (Tensor([3., 0.]), Tensor([ 0., 12.]))
    """
    points = tree.tree_map(lift, primals)
    values: list[Any] = []

    def tangent(*changes: Any) -> Any:
        value, change = jvp(func, points, changes)
        values.append(value)
        return change

    # The primals are constants of the trace: only what depends on the tangents enters the program.
    starts = tree.tree_map(lambda x: Tensor._wrap(zeros(x.shape, x.np_dtype)), points)
    push = traced(tangent, starts, {}, Inside)
    push.name = "linearized"
    return values[0], push
