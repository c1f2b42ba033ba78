"""A progress bar that needs nothing but a stream."""

import sys

WIDTH = 30


def progress(step: int, steps: int, note: str = "") -> None:
    """A bar that redraws itself on a terminal, and five lines elsewhere; `step` counts from 1 to `steps`."""
    updates = 100 if sys.stderr.isatty() else 5
    if updates * step // steps == updates * (step - 1) // steps:
        return
    done = WIDTH * step // steps
    line = f"[{'#' * done}{'.' * (WIDTH - done)}] {step}/{steps}{', ' if note else ''}{note}"
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
        return
    # A shorter line must wipe out the rest of a longer one.
    print(f"\r{line}\x1b[K", end="\n" if step == steps else "", file=sys.stderr, flush=True)
