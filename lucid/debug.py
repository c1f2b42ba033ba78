"""What a function shows while it runs, also where it is transformed or compiled."""

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core.levels import trace
from lucid.core.tensor import Tensor, is_plain
from lucid.core.tree import flatten, tree_map
from lucid.ir.trace import UserCode
from lucid.kinds.kind import Kind


def _shown(leaf: Any) -> Any:
    """An array as NumPy's, where it is known; inside `vmap` all examples, inside `grad` the value."""
    while isinstance(leaf, Kind) and not is_plain(leaf):
        leaf = leaf._array
    return np.asarray(leaf.detach()) if isinstance(leaf, Tensor) else leaf


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a function with values, at each run of a program; inside `vmap` with those of all examples at once.

    >>> import lucid
    >>> seen = []
    >>> double = lucid.compile(lambda x: lucid.debug.callback(seen.append, x) or x * 2)
    >>> double(lucid.ones(2)), double(lucid.zeros(2))
    (Tensor([2., 2.]), Tensor([0., 0.]))
    >>> seen
    [array([1., 1.], dtype=float32), array([0., 0.], dtype=float32)]
    """
    program = trace.get()
    if program is not None:
        leaves, structure = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        program.write(_Callback(callback, leaves, structure), [program.refer(t.detach()) for t in tensors], ())
        return
    given, named = tree_map(_shown, (args, kwargs))
    callback(*given, **named)


class _Callback(UserCode):
    """The call of a function in a program, at each run."""

    lasting, results = True, ()
    name = "debug.callback"

    def __init__(self, function: Callable[..., Any], leaves: list[Any], structure: Any) -> None:
        self.function, self.leaves, self.structure = function, leaves, structure

    def __call__(self, *tensors: Any, **params: Any) -> tuple[Any, ...]:
        given = iter(tensors)
        leaves = [_shown(next(given)) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        args, kwargs = self.structure.unflatten(leaves)
        self.function(*args, **kwargs)
        return ()


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values in a string with places for them, at each run of a program.

    >>> import lucid
    >>> lucid.debug.print("x = {x}, {}", 5, x=lucid.arange(3))
    x = [0 1 2], 5
    """
    callback(lambda *a, **k: builtins.print(fmt.format(*a, **k)), *args, **kwargs)


def breakpoint(**hints: Any) -> None:
    """Stop here in Python's debugger."""
    builtins.breakpoint()


__all__ = ["breakpoint", "callback", "print"]
