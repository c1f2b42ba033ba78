"""`torch.multiprocessing`: Python's own, whose queues copy tensors, and `spawn`."""

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context
from typing import Any

__all__ = [
    *multiprocessing.__all__,
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
]


class ProcessRaisedException(RuntimeError):  # noqa: N818  # the name in PyTorch
    """A process that `spawn` started ended with an error."""


ProcessExitedException = ProcessException = ProcessRaisedException


class ProcessContext:
    """The processes of a call of `spawn`."""

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended; if one fails, end the others and raise."""
        for process in self.processes:
            process.join(timeout)
            if process.exitcode:
                for other in self.processes:
                    other.terminate()
                raise ProcessRaisedException(f"process {process.name} ended with exit code {process.exitcode}")
        return all(p.exitcode is not None for p in self.processes)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, i from 0 up, and wait for them."""
    context: Any = get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes)
    if not join:
        return started
    started.join()
    return None


start_processes = spawn


def get_all_sharing_strategies() -> set[str]:
    """How tensors reach other processes: they are copied."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """How tensors reach other processes: they are copied."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """A hint: tensors are copied."""
