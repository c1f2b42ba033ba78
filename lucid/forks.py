"""What a forked child must do before it goes on: threads that held a lock are gone there, and would hold it forever."""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any

_functions: list[Callable[[], Any]] = []


def after_fork(function: Callable[[], Any]) -> Callable[[], Any]:
    """Have a function called in every child process that is forked from now on; it makes new locks."""
    _functions.append(function)
    return function


def lock_after_fork(namespace: dict[str, Any], make: Callable[[], Any] = Lock) -> Any:
    """A lock for the `_lock` of a module, in which every forked child puts a new one: `lock_after_fork(globals())`."""

    @after_fork
    def renew() -> None:
        namespace["_lock"] = make()

    return make()


def _in_child() -> None:
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)
