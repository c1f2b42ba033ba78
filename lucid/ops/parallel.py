"""Work on arrays in several threads, for what NumPy does in one: NumPy gives up the interpreter lock while it computes.

Products of matrices have threads of their own, which would only be in the way. While parts of some work run side by
side, the BLAS library that came with NumPy is held to one thread for each; where it cannot be, there are no parts.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

from lucid.ops.blas import library, one_thread

# Handing work to a thread takes about 0.05 ms; a core multiplies so much in twice that time.
_LEAST_WORK = 10_000_000


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so every process has its own."""
    return ThreadPoolExecutor(thread_name_prefix="lucid")


def in_parts(work: Callable[[slice], Any], count: int, multiplications: float) -> list[Any]:
    """The results of `work` on slices that together cover `count` items, one slice for each thread if that pays."""
    blas = library() if multiplications > _LEAST_WORK and count > 1 else None
    if blas is None or (not one_thread.inside and blas.threads() < 2):
        return [work(slice(0, count))]
    threads = min(one_thread.enter(blas), count)
    try:
        edges = [count * k // threads for k in range(threads + 1)]
        parts = [slice(a, b) for a, b in pairwise(edges)]
        others = [_pool(os.getpid()).submit(work, part) for part in parts[1:]]
        return [work(parts[0]), *(other.result() for other in others)]
    finally:
        one_thread.leave(blas)
