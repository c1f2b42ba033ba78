"""Work on arrays in several threads, for what NumPy does in one: NumPy gives up the interpreter lock while it computes.

Products of matrices have threads of their own, which would only be in the way. While parts of some work run side by
side, the BLAS library that came with NumPy is held to one thread for each; where it cannot be, or where nothing is
compiled, there are no parts.
"""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import numpy as np

from lucid.backends.cpu.blas import library, one_thread
from lucid.backends.cpu.thread_pool import call_parts, size
from lucid.native import in_use

# Waking a thread takes up to 0.05 ms; a core multiplies so much in twice that time.
LEAST_WORK = 10_000_000
_LEAST_ELEMENTS = 20_000  # of a library's function, which takes some 30 ns for each


def in_parts(work: Callable[[slice], Any], count: int, multiplications: float, each: int = 1) -> list[Any]:
    """The results of `work` on slices that together cover `count` items, `each` for each thread if threads pay.

    With several for each, who is done takes the next one, so that nobody waits long for a slower thread.
    """
    blas = library() if in_use and multiplications > LEAST_WORK and count > 1 else None
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


def of_elements(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of single elements that calls a library: on large arrays by several threads."""

    def call(*arrays: Any, **params: Any) -> Any:
        x, threads = arrays[0], size()
        is_small = threads < 2 or not isinstance(x, np.ndarray) or x.size < _LEAST_ELEMENTS
        if is_small or not all(_are_alike(x, a) for a in arrays):
            return function(*arrays, **params)
        flat = [a.reshape(-1) for a in arrays]
        pieces = 4 * threads
        ends = [x.size * k // pieces for k in range(pieces + 1)]
        contexts = [copy_context() for _ in range(pieces)]  # what is to be done about overflow is said there
        results: list[Any] = [None] * pieces
        errors: list[BaseException] = []

        def one(k: int) -> None:
            try:
                part = [a[ends[k] : ends[k + 1]] for a in flat]
                results[k] = contexts[k].run(function, *part, **params)
            except BaseException as error:
                errors.append(error)

        call_parts(one, pieces, threads)
        if errors:
            raise errors[0]
        return np.concatenate(results).reshape(x.shape)

    return call


def _are_alike(x: Any, y: Any) -> bool:
    return isinstance(y, np.ndarray) and y.shape == x.shape and y.flags.c_contiguous
