"""Computations that only look what they would give: generators that they draw from are put back afterwards."""

from contextvars import ContextVar
from typing import Any

# Generators that were moved in the computation around the code that runs now, with their states before.
moved: ContextVar[dict[Any, Any] | None] = ContextVar("moved", default=None)
