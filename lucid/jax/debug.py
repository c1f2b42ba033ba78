"""`jax.debug`: what a program shows while it runs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core.kind import Kind
from lucid.core.levels import trace
from lucid.core.tensor import Tensor, is_plain
from lucid.ops.tree import tree_map


def _shown(leaf: Any) -> Any:
    """An array as NumPy's, where it is known; inside `vmap` all examples, inside `grad` the value."""
    while isinstance(leaf, Kind) and not is_plain(leaf):
        leaf = leaf._array
    return np.asarray(leaf.detach()) if isinstance(leaf, Tensor) else leaf


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a function with values; inside `vmap` with those of all examples at once.

    >>> import lucid.jax as jax
    >>> seen = []
    >>> jax.debug.callback(seen.append, jax.numpy.ones(2))
    >>> seen
    [array([1., 1.], dtype=float32)]
    """
    if trace.get() is not None:
        raise RuntimeError(
            "jax.debug: while a program is traced its values are not known; leave jit out with jax.disable_jit()"
        )
    given, named = tree_map(_shown, (args, kwargs))
    callback(*given, **named)


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values in a string with places for them.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.debug.print("x = {x}, {}", 5, x=jnp.arange(3))
    x = [0 1 2], 5
    """
    import builtins

    callback(lambda *a, **k: builtins.print(fmt.format(*a, **k)), *args, **kwargs)


def breakpoint(**hints: Any) -> None:
    """Stop here in Python's debugger."""
    import builtins

    builtins.breakpoint()


__all__ = ["breakpoint", "callback", "print"]
