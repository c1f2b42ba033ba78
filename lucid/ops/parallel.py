"""Work on arrays in several threads, for what NumPy does in one: NumPy gives up the interpreter lock while it computes.

Products of matrices have threads of their own, which would only be in the way. While parts of some work run side by
side, the BLAS library that came with NumPy is held to one thread for each; where it cannot be, there are no parts.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any

from lucid.ops.blas import library, one_thread

# Handing work to a thread takes about 0.05 ms; a core multiplies so much in twice that time.
_LEAST_WORK = 10_000_000


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so every process has its own."""
    return ThreadPoolExecutor(thread_name_prefix="lucid")


def in_parts(work: Callable[[slice], Any], count: int, multiplications: float, each: int = 1) -> list[Any]:
    """The results of `work` on slices that together cover `count` items, `each` for each thread if threads pay.

    With several for each, who is done takes the next one, so that nobody waits long for a slower thread.
    """
    blas = library() if multiplications > _LEAST_WORK and count > 1 else None
    if blas is None or (not one_thread.inside and blas.threads() < 2):
        return [work(slice(0, count))]
    threads = min(one_thread.enter(blas), count)
    pieces = min(threads * each, count)
    edges = [count * k // pieces for k in range(pieces + 1)]
    parts = enumerate(slice(a, b) for a, b in pairwise(edges))
    results: list[Any] = [None] * pieces
    lock = Lock()

    def some() -> None:
        while True:
            with lock:
                k, part = next(parts, (pieces, None))
            if part is None:
                return
            results[k] = work(part)

    others: list[Any] = []
    try:
        others += [_pool(os.getpid()).submit(some) for _ in range(threads - 1)]
        some()
    finally:
        wait(others)
        one_thread.leave(blas)
    for other in others:
        other.result()
    return results
