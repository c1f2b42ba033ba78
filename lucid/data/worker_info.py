"""What code that runs in a worker process can know about its place among the workers."""

from typing import Any


class WorkerInfo:
    """The number of this worker (`id`), how many there are, its seed, and its copy of the dataset.

    >>> from lucid.data import WorkerInfo
    >>> WorkerInfo(id=0, num_workers=2, seed=7, dataset=[])
    WorkerInfo(id=0, num_workers=2, seed=7)
    """

    __slots__ = ("dataset", "id", "num_workers", "seed")

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.id = id
        self.num_workers = num_workers
        self.seed = seed
        self.dataset = dataset

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


_here: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader, what it needs to know to do its share; None in the main process.

    The seed of worker i is the base seed of the epoch plus i. The generators of Lucid, of `random` and of
    `numpy.random` are seeded with it, or from it, before `worker_init_fn` is called.

    >>> from lucid.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _here


def set_worker_info(info: WorkerInfo) -> None:
    """Make this process known as a worker."""
    global _here
    _here = info


__all__ = ["WorkerInfo", "get_worker_info"]
