"""Warnings of what the user's code does, at its own line."""

import warnings

from lucid.core.source_lines import climb
from lucid.native import current_frame


def warn(message: str) -> None:
    """Warn at the line of the user's code that runs now: compiled functions have no frames that could be counted."""
    frame = climb(current_frame())
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)
