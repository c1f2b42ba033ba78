"""Backward passes that users ask for, and functions that hooks want to be called as one ends.

Not compiled: a pass needs a frame, by which NumPy's warnings are filtered, as `native.framed` gives one.
"""

from collections.abc import Callable
from threading import get_ident
from typing import Any

from lucid.tape import engine

watched: set[int] = set()  # the ids of what may ask for the end of a pass: without any, passes cost nothing more
_under_way: dict[int, list[list[Callable[[bool], Any]]]] = {}  # by thread, for each of the passes inside each other


def run(*args: Any, **kwargs: Any) -> Any:
    """A pass: `engine.run`."""
    if not watched:
        return engine.run(*args, **kwargs)
    passes = _under_way.setdefault(get_ident(), [])
    passes.append([])
    succeeded = False
    try:
        found = engine.run(*args, **kwargs)
        succeeded = True
    finally:
        endings = passes.pop()
        if not passes:
            del _under_way[get_ident()]
        for function in endings:
            function(succeeded)
    return found


def is_under_way() -> bool:
    """Whether a pass of this thread tells of its end."""
    return get_ident() in _under_way


def at_the_end(function: Callable[[bool], Any]) -> None:
    """Call a function at the end of the pass that is under way, of which the caller is a hook, with whether it succeeded."""
    if is_under_way():
        _under_way[get_ident()][-1].append(function)
