"""A team of threads for loops over memory, which are handed their work in less than a microsecond.

It belongs to compiled code (team.pyx); the loops of NumPy that stand for it here run in one thread.
"""


def size() -> int:
    """How many threads work together, counting the one that brings the work."""
    return 1


def set_size(count: int) -> None:
    """Change that."""
