"""How many threads compute."""

from lucid.backends.cpu import blas, thread_pool
from lucid.core.kernels import fill

_first: list[int] = []  # how many there were before the first change


def set_num_threads(num_threads: int) -> None:
    """Let at most so many threads work on one operation. Those of NumPy's BLAS library are as many, for all who use it.

    At first there are as many as BLAS would use, which is one for each processor, or what the variables
    OPENBLAS_NUM_THREADS or OMP_NUM_THREADS of the environment say; 0 goes back to that.

    >>> import lucid
    >>> before = lucid.get_num_threads()
    >>> lucid.set_num_threads(1)
    >>> lucid.get_num_threads()
    1
    >>> lucid.set_num_threads(before)
    """
    if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 0:
        raise ValueError(f"set_num_threads: a whole number of at least 1 is needed, or 0, not {num_threads!r}")
    _first.append(blas.threads())
    count = num_threads or _first[0]
    del _first[1:]
    blas.set_threads(count)
    thread_pool.set_size(min(count, blas.cores()))


def get_num_threads() -> int:
    """How many threads may work on one operation.

    >>> import lucid
    >>> lucid.get_num_threads() >= 1
    True
    """
    return blas.threads()


fill({"threads": blas.threads}, "cpu")
