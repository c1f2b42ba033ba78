"""Switches that hold for a thread or task: whether operations are recorded, and how saved values are kept."""

from contextvars import ContextVar
from typing import Any

# One variable answers the hot path's only question. False: don't record; True: record;
# SILENT (falsy too): don't record, and nobody is to be told, since it is the library that switched recording off.
# HOOKED (truthy too): record, and look at each node for saved-tensor hooks and anomalies.
HOOKED, SILENT = "hooked", None
recording: ContextVar[Any] = ContextVar("recording", default=True)
recording.set(True)  # a default is searched for each time, a value that was set is found at once
saved_hooks: ContextVar[tuple[Any, ...]] = ContextVar("saved_hooks", default=())
# Whether nothing can be recorded. MARKING: and what is made is marked. UNMARKED (falsy): no, but what was marked may be needed.
MARKING, UNMARKED = "marking", None
inference: ContextVar[Any] = ContextVar("inference", default=False)
autocast: ContextVar[Any] = ContextVar("autocast", default=None)  # what lucid.amp.autocast makes of operands
anomaly: ContextVar[Any] = ContextVar("anomaly", default=None)  # what looks at each node of a backward pass
# A list of the tensors whose values NumPy code was given, while the derivative of a custom function runs.
given_away: ContextVar[list[Any] | None] = ContextVar("given_away", default=None)


def recording_state(enabled: bool) -> Any:
    """The value of `recording` that means `enabled` in the present context."""
    if not enabled or inference.get():
        return False
    return HOOKED if saved_hooks.get() or anomaly.get() else True
