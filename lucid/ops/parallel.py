"""Work on arrays in several threads, for what NumPy does in one: NumPy gives up the interpreter lock while it computes.

Products of matrices have threads of their own, which would only be in the way. While parts of some work run side by
side, the BLAS library that came with NumPy is held to one thread for each; where it cannot be, there are no parts.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

# Handing work to a thread takes about 0.05 ms; a core multiplies so much in twice that time.
_LEAST_WORK = 10_000_000


class Blas(NamedTuple):
    """The functions of the BLAS library that ask for and set its number of threads."""

    threads: Callable[[], int]
    set_threads: Callable[[int], Any]


@cache
def _blas() -> Blas | None:
    """The OpenBLAS that NumPy's wheels bring along, if it is there."""
    home = Path(np.__file__).parent
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for path in folder.glob("*openblas*"):
            library = ctypes.CDLL(str(path))
            for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
                if hasattr(library, name.format("set")):
                    return Blas(getattr(library, name.format("get")), getattr(library, name.format("set")))
    return None


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so every process has its own."""
    return ThreadPoolExecutor(thread_name_prefix="lucid")


class _OneThread:
    """Holds BLAS to one thread as long as somebody is inside."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.before = 1

    def enter(self, blas: Blas) -> int:
        """The number of threads that BLAS would use."""
        with self.lock:
            if not self.inside:
                self.before = blas.threads()
                blas.set_threads(1)
            self.inside += 1
            return self.before

    def leave(self, blas: Blas) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                blas.set_threads(self.before)


_one_thread = _OneThread()


def in_one_thread(product: Callable[[Any], Any], operand: Any) -> Any:
    """The result of `product(operand)`, in which BLAS uses no threads of its own."""
    blas = _blas()
    if blas is None:
        return product(operand)
    _one_thread.enter(blas)
    try:
        return product(operand)
    finally:
        _one_thread.leave(blas)


def in_parts(work: Callable[[slice], Any], count: int, multiplications: float) -> list[Any]:
    """The results of `work` on slices that together cover `count` items, one slice for each thread if that pays."""
    blas = _blas() if multiplications > _LEAST_WORK and count > 1 else None
    if blas is None or (not _one_thread.inside and blas.threads() < 2):
        return [work(slice(0, count))]
    threads = min(_one_thread.enter(blas), count)
    try:
        edges = [count * k // threads for k in range(threads + 1)]
        parts = [slice(a, b) for a, b in pairwise(edges)]
        others = [_pool(os.getpid()).submit(work, part) for part in parts[1:]]
        return [work(parts[0]), *(other.result() for other in others)]
    finally:
        _one_thread.leave(blas)
