"""The thread pool: for loops over memory, which are handed their work in less than a microsecond, and for Python's calls.

It belongs to compiled code (thread_pool.pyx); the loops of NumPy that stand for it here run in one thread.
"""

from collections.abc import Callable


def size() -> int:
    """How many threads work together, counting the one that brings the work."""
    return 1


def set_size(count: int) -> None:
    """Change that."""


def call_parts(task: Callable[[int], object], parts: int, most: int) -> None:
    """`task(part)` for each part, by at most so many threads; the task must not raise."""
    for part in range(parts):
        task(part)
