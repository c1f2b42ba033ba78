"""What this process is doing together with others, for whoever asks when something takes too long."""

import sys
import traceback
from typing import Any

__all__ = ["abandoned", "now", "where"]

# How many collectives and messages were waited for, the last of them, and for how many seconds it may be waited for now,
# or 0. Written before and after each wait, read by the thread that reports to the launcher.
now: list[Any] = [0, "nothing yet", 0]
abandoned: list[Any] = []  # what was given up after its time limit: MPI may still write to the buffers that it holds


def where(thread: int) -> list[str]:
    """The lines at which a thread of this process is, outermost first, outside of this library."""
    frame = sys._current_frames().get(thread)
    found = traceback.extract_stack(frame) if frame is not None else []
    return [f"{f.filename}:{f.lineno} in {f.name}: {f.line}" for f in found if not _is_inside(f.filename)]


def _is_inside(path: str) -> bool:
    return "<frozen" in path or path.startswith(__file__.rpartition("lucid")[0] + "lucid/")
