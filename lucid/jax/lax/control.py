"""Control flow: JAX's arguments for `lucid.cond`, `lucid.while_loop` and `lucid.scan`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.api import joining, shaping
from lucid.arguments.promotion import promote_pair
from lucid.core import tree
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.core.tree import tree_map
from lucid.func import control
from lucid.jax.arrays import DOOR
from lucid.jax.transforms import vmap

_MISSING = object()


def _arrays(nest: Any) -> Any:
    return tree_map(DOOR.array, nest)


def _made(nest: Any) -> Any:
    return tree_map(DOOR.adopted, nest)


def _begun(init: Any, loop: Callable[[Any, Callable[[Any], Any]], Any]) -> Any:
    """What a loop makes of its first value. A number of Python's among that takes the type that the loop gives it.

    The loop is given arrays, and a function that notes what one step made of them.
    """
    leaves, structure = tree.flatten(init)
    made: list[Any] = []

    def note(value: Any) -> Any:
        made[:] = tree.flatten(value)[0]
        return value

    try:
        return loop(_arrays(init), note)
    except ValueError:
        if len(made) != len(leaves):
            raise
        typed = [_typed_as(leaf, new) for leaf, new in zip(leaves, made, strict=True)]
        if all(new is old for new, old in zip(typed, leaves, strict=True)):
            raise
    return loop(_arrays(structure.unflatten(typed)), note)


def _typed_as(leaf: Any, made: Any) -> Any:
    """A number of Python's in the type of what was made of it, if that is a wider one."""
    if not isinstance(leaf, (bool, int, float)) or not isinstance(made, Tensor):
        return leaf
    own = DOOR.array(leaf)
    wider = promote_pair(own.np_dtype, made.np_dtype)
    return leaf if wider != made.np_dtype or wider == own.np_dtype else own.astype(wider)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
    **hints: Any,
) -> tuple[Any, Any]:
    """Carry a value along the first dimension of `xs`: `carry, y = f(carry, x)`; gives the last carry and all ys.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 2., 9.], dtype=float32))
    """

    def loop(begin: Any, note: Callable[[Any], Any]) -> Any:
        def step(carry: Any, x: Any) -> Any:
            returned = f(carry, x)
            if not isinstance(returned, tuple) or len(returned) != 2:
                return returned
            new, y = _arrays(returned)
            return note(new), y

        return control.scan(step, begin, _arrays(xs), length, reverse)

    return _made(_begun(init, loop))


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each part of `xs` along the first dimension, one after the other, or `batch_size` at a time.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.map(lambda x: x**2, jnp.arange(3.0))
    Array([0., 1., 4.], dtype=float32)
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    leaves = tree.flatten(_arrays(xs))[0]
    count = leaves[0].shape[0]
    parts = [vmap(f)(tree_map(lambda x, i=i: x[i : i + batch_size], _arrays(xs))) for i in range(0, count, batch_size)]
    return tree_map(lambda *rows: joining.cat(list(rows)), *parts)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Apply `body_fun` for as long as `cond_fun` is true.

    >>> import lucid.jax as jax
    >>> jax.lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int32)
    """

    def loop(begin: Any, note: Callable[[Any], Any]) -> Any:
        return control.while_loop(cond_fun, lambda value: note(_arrays(body_fun(value))), begin)

    return _made(_begun(init_val, loop))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, **hints: Any) -> Any:
    """`value = body_fun(i, value)` for i from `lower` up to but not including `upper`.

    Bounds that are known give a loop that reverse mode goes through.

    >>> import lucid.jax as jax
    >>> jax.lax.fori_loop(0, 4, lambda i, x: x + i, 10)
    Array(16, dtype=int32)
    """
    ends = [b.item() if is_plain(b) else b for b in (lower, upper)]
    if not any(isinstance(b, Tensor) for b in ends):
        indices = DOOR.wrapped(np.arange(*ends, dtype=np.int32))
        return scan(lambda value, i: (body_fun(i, value), None), init_val, indices, indices.shape[0])[0]
    start = DOOR.array(lift(lower).to(np.dtype(np.int32)))
    return while_loop(lambda s: s[0] < upper, lambda s: (s[0] + 1, body_fun(*s)), (start, init_val))[1]


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _MISSING,
    **hints: Any,
) -> Any:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)`.

    >>> import lucid.jax as jax
    >>> jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
    Array(6, dtype=int32)
    """
    given = operands if operand is _MISSING else (operand,)
    if len(operands) == 3 and callable(operands[1]) and not callable(false_fun):
        # The form of old: cond(pred, true_operand, true_fun, false_operand, false_fun).
        raise TypeError("cond: give both functions the same operands, as in cond(pred, true_fun, false_fun, *operands)")

    def branch(function: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda packed: _arrays(function(*packed["operands"]))

    packed = {"operands": tuple(_arrays(o) for o in given)}
    return _made(control.cond(pred, branch(true_fun), branch(false_fun), packed))


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _MISSING) -> Any:
    """The branch of a number, which counts as the nearest one if there is none of it.

    >>> import lucid.jax as jax
    >>> jax.lax.switch(1, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5.0)
    Array(10., dtype=float32)
    """
    if not branches:
        raise ValueError("switch: there must be at least one branch")
    given = operands if operand is _MISSING else (operand,)
    if len(branches) == 1:
        return _arrays(branches[0](*_arrays(given)))
    place = lift(DOOR.array(index))
    return cond(place <= 0, branches[0], lambda *rest: switch(place - 1, branches[1:], *rest), *given)


def stop_gradient(x: Any) -> Any:
    """The same values, of which no derivative is taken.

    >>> import lucid.jax as jax
    >>> jax.grad(lambda x: x * jax.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32)
    """
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, x)


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """What a function that associates makes of the first elements, for each number of them, in a logarithmic number of steps.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.associative_scan(jnp.add, jnp.arange(5.0))
    Array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    leaves, structure = tree.flatten(_arrays(elems))
    first = [shaping.movedim(leaf, axis, 0) for leaf in leaves]
    if reverse:
        first = [shaping.flip(leaf, 0) for leaf in first]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.flatten(fn(structure.unflatten(a), structure.unflatten(b)))[0]

    found = _scanned(combine, first)
    if reverse:
        found = [shaping.flip(leaf, 0) for leaf in found]
    return _made(structure.unflatten([shaping.movedim(leaf, 0, axis) for leaf in found]))


def _scanned(combine: Callable[[list[Any], list[Any]], list[Any]], elems: list[Any]) -> list[Any]:
    """Pairs are put together, their scan gives every second result, and one more step each of the others."""
    count = elems[0].shape[0]
    if count < 2:
        return elems
    pairs = combine([e[: count - 1 : 2] for e in elems], [e[1::2] for e in elems])
    odd = _scanned(combine, pairs)
    before = odd if count % 2 else [o[:-1] for o in odd]
    even = combine(before, [e[2::2] for e in elems]) if count > 2 else [e[:0] for e in elems]
    even = [joining.cat([e[:1], later]) for e, later in zip(elems, even, strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    count = odd.shape[0]
    both = shaping.reshape(joining.stack([even[:count], odd], 1), (2 * count, *odd.shape[1:]))
    return both if even.shape[0] == count else joining.cat([both, even[count:]])
