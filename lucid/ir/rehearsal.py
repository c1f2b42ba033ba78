"""Computations that only look what they would give: generators that they draw from are put back afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Generators that were moved in the computation around the code that runs now, with their states before.
moved: ContextVar[dict[Any, Any] | None] = ContextVar("moved", default=None)


@contextmanager
def drawing_again(states: list[tuple[Any, Any]]) -> Iterator[None]:
    """A context in which generators draw what they drew from these states on."""
    now = [generator.get_state() for generator, _ in states]
    for generator, state in states:
        generator.set_state(state)
    yield
    for (generator, _), state in zip(states, now, strict=True):
        generator.set_state(state)
