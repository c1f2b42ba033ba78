"""Work on arrays in several threads, for what NumPy does in one: NumPy gives up the interpreter lock while it computes.

Products of matrices have threads of their own, which would only be in the way. While parts of some work run side by
side, the BLAS library that came with NumPy is held to one thread for each; where it cannot be, or where nothing is
compiled, there are no parts.
"""

from collections.abc import Callable
from typing import Any

from lucid.backends.cpu.blas import library, one_thread
from lucid.backends.cpu.thread_pool import call_parts
from lucid.native import in_use

# Waking a thread takes up to 0.05 ms; a core multiplies so much in twice that time.
_LEAST_WORK = 10_000_000


def in_parts(work: Callable[[slice], Any], count: int, multiplications: float, each: int = 1) -> list[Any]:
    """The results of `work` on slices that together cover `count` items, `each` for each thread if threads pay.

    With several for each, who is done takes the next one, so that nobody waits long for a slower thread.
    """
    blas = library() if in_use and multiplications > _LEAST_WORK and count > 1 else None
    if blas is None or (not one_thread.inside and blas.threads() < 2):
        return [work(slice(0, count))]
    threads = min(one_thread.enter(blas), count)
    pieces = min(threads * each, count)
    results: list[Any] = [None] * pieces
    errors: list[BaseException] = []

    def one(k: int) -> None:
        try:
            results[k] = work(slice(count * k // pieces, count * (k + 1) // pieces))
        except BaseException as error:
            errors.append(error)

    try:
        call_parts(one, pieces, threads)
    finally:
        one_thread.leave(blas)
    if errors:
        raise errors[0]
    return results
