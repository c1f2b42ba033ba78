"""The threads of the BLAS library that came with NumPy: how many it would use, and how to hold it to one."""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lucid.forks import after_fork


class Blas(NamedTuple):
    """The BLAS library, and its functions that ask for and set its number of threads."""

    threads: Callable[[], int]
    set_threads: Callable[[int], Any]
    file: Any = None


@cache
def library() -> Blas | None:
    """The OpenBLAS that NumPy's wheels bring along, if it is there."""
    home = os.path.dirname(np.__file__)
    for folder in (os.path.join(os.path.dirname(home), "numpy.libs"), os.path.join(home, ".dylibs")):
        for file in os.listdir(folder) if os.path.isdir(folder) else ():
            if "openblas" not in file:
                continue
            found = ctypes.CDLL(os.path.join(folder, file))
            for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
                if hasattr(found, name.format("set")):
                    return Blas(getattr(found, name.format("get")), getattr(found, name.format("set")), found)
    return None


@cache
def function(name: str) -> int:
    """Where a function of CBLAS is that counts in 64 bits, such as "sgemm"; 0 if it is not known."""
    blas = library()
    for known in (f"scipy_cblas_{name}64_", f"cblas_{name}64_"):
        if blas is not None and hasattr(blas.file, known):
            return ctypes.cast(getattr(blas.file, known), ctypes.c_void_p).value or 0
    return 0


@cache
def cores() -> int:
    """How many cores this process may use, as far as the system tells; two threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    found = set()
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                found.add(file.read())
        except OSError:
            return len(os.sched_getaffinity(0))
    return len(found)


@cache
def threads_share_cores() -> bool:
    """Whether BLAS has more threads than this process has cores."""
    blas = library()
    return blas is not None and blas.threads() > cores()


class OneThread:
    """Holds BLAS to one thread as long as somebody is inside."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.before = 1
        self.said = 0  # by the user

    def enter(self, blas: Blas) -> int:
        """The number of threads that BLAS would use."""
        with self.lock:
            if not self.inside:
                self.before = blas.threads()
                blas.set_threads(1)
            self.inside += 1
            return self.before

    def set(self, blas: Blas | None, count: int) -> None:
        """Set the number of threads for those outside."""
        with self.lock:
            self.before = self.said = count
            if blas is not None and not self.inside:
                blas.set_threads(count)

    def leave(self, blas: Blas) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # a fork in between has let everybody out
            if not self.inside:
                blas.set_threads(self.before)


one_thread = OneThread()


@after_fork
def _nobody_inside() -> None:
    """Who was inside is gone; BLAS gets back the threads that it had."""
    one_thread.lock = Lock()
    blas = library() if one_thread.inside else None
    if blas is not None:
        one_thread.inside = 0
        blas.set_threads(one_thread.before)


def threads() -> int:
    """How many threads should work on one operation: as many as BLAS would use, or as there are cores."""
    blas = library()
    if blas is not None:
        return one_thread.before if one_thread.inside else blas.threads()
    said = os.environ.get("OMP_NUM_THREADS", "")
    return one_thread.said or (int(said) if said.isdecimal() and int(said) > 0 else cores())


def set_threads(count: int) -> None:
    """Change that number, for BLAS too."""
    one_thread.set(library(), count)
    threads_share_cores.cache_clear()


def in_one_thread(product: Callable[..., Any], *operands: Any) -> Any:
    """The result of `product(*operands)`, in which BLAS uses no threads of its own."""
    blas = library()
    if blas is None:
        return product(*operands)
    one_thread.enter(blas)
    try:
        return product(*operands)
    finally:
        one_thread.leave(blas)
