"""`torch.futures`: results that somebody sets later, over Python's own futures."""

from collections.abc import Callable
from concurrent import futures
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Future(Generic[T]):
    """A result that is set once; `wait` gives it when it is there.

    >>> import lucid.torch as torch
    >>> future = torch.futures.Future()
    >>> later = future.then(lambda done: done.value() + 1)
    >>> future.set_result(2)
    >>> future.done(), later.wait()
    (True, 3)
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._future: futures.Future[T] = futures.Future()

    def done(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._future.done()

    def wait(self) -> T:
        """The result, once it is there."""
        return self._future.result()

    def value(self) -> T:
        """The result, which must be there."""
        if not self.done():
            raise RuntimeError("the result of this future is not there yet; use wait()")
        return self._future.result()

    def set_result(self, result: T) -> None:
        """Give the result."""
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Give an error, which `wait` raises."""
        self._future.set_exception(result)

    def add_done_callback(self, callback: Callable[["Future[T]"], None]) -> None:
        """Call a function with this future when the result is there."""
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[["Future[T]"], Any]) -> "Future[Any]":
        """The future of what a function makes of this one."""
        later: Future[Any] = Future()

        def go_on(done: "Future[T]") -> None:
            try:
                later.set_result(callback(done))
            except Exception as error:
                later.set_exception(error)

        self.add_done_callback(go_on)
        return later


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, which is there when all results are."""
    together: Future[list[Future[Any]]] = Future()
    if not futures:
        together.set_result([])

    def check(_: Future[Any]) -> None:
        if not together.done() and all(f.done() for f in futures):
            together.set_result(futures)

    for future in futures:
        future.add_done_callback(check)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all futures."""
    return [future.wait() for future in futures]


__all__ = ["Future", "collect_all", "wait_all"]
