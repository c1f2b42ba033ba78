"""The transforms at work: each application of vmap, jvp or make_graph has a number, inner ones higher ones."""

from contextvars import ContextVar
from itertools import count
from typing import Any

from lucid.core.fields import begin
from lucid.forks import lock_after_fork

OUTERMOST, INNERMOST = 1, 1 << 62  # of no transform: those of expressions, and of tensors made of others (sparse ones)
_numbers = count(OUTERMOST + 1)
_lock: Any = lock_after_fork(globals())

# The transforms around the code that runs now, the innermost last. Each has `level`, and
# `lifted` and `settled` for tensors from further out.
active: ContextVar[tuple[Any, ...]] = ContextVar("active", default=())

_traces = 0  # how many programs are being traced, in any thread
trace: ContextVar[Any] = ContextVar("trace", default=None)  # the innermost of those around the code that runs now


def new_level() -> int:
    """A number higher than all given before, in any thread."""
    with _lock:
        level = next(_numbers)
        begin(level)
        return level


def tracing() -> int:
    """How many programs are being traced, in any thread: mostly none, and then an operation asks no further."""
    return _traces


def capturing() -> int:
    """The level of the trace around the code that runs now, if gradients of tensors from outside are part of it; else 0."""
    if not _traces:
        return 0
    innermost = trace.get()
    return innermost.level if innermost is not None and innermost.captures else 0


def count_traces(change: int) -> None:
    """Say that a program begins (1) or ends (-1) to be traced."""
    global _traces
    with _lock:
        _traces += change


def captured(operands: tuple[Any, ...]) -> Any:
    """The operands of an operation as the innermost trace takes those from outside; None if there are none for it."""
    innermost = trace.get()
    return None if innermost is None else innermost.captured_operands(operands)


class Inside:
    """A context in which a transform is the innermost."""

    __slots__ = ("token", "transform")

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __enter__(self) -> Any:
        self.token = active.set((*active.get(), self.transform))
        return self.transform

    def __exit__(self, *error: object) -> None:
        active.reset(self.token)
