"""Switching the recording of operations on and off: contexts that are also decorators."""

import inspect
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, Self, TypeVar

from lucid.core import modes

F = TypeVar("F", bound=Callable[..., Any])


class _Context:
    """A context manager that can be entered again and again, and used as a decorator."""

    def __init__(self) -> None:
        self._outer: list[Any] = []

    def _inside(self) -> Any:
        """The state of recording inside the context."""
        raise AssertionError("each context says what it sets")

    def __enter__(self) -> Self:
        self._outer.append(modes.recording.get())
        modes.recording.set(self._inside())
        return self

    def __exit__(self, *exc: object) -> None:
        modes.recording.set(self._outer.pop())

    def _fresh(self) -> Self:
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)  # type: ignore[return-value]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Only the generator's own code runs inside the context, not the code between its steps."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = lambda: next(generator)  # noqa: E731  # reassigned below
            while True:
                try:
                    with self._fresh():
                        item = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield item
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    step = lambda error=error: generator.throw(error)  # type: ignore[misc]  # noqa: E731
                else:
                    step = lambda sent=sent: generator.send(sent)  # type: ignore[misc]  # noqa: E731

        return call


class _Decorating(type):
    """`@no_grad` means the same as `@no_grad()`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and inspect.isfunction(args[0]):
            return super().__call__()(args[0])
        return super().__call__(*args, **kwargs)


class no_grad(_Context, metaclass=_Decorating):
    """Inside, nothing is recorded: results require no gradient. A context and a decorator.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> with lucid.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def _inside(self) -> Any:
        return False


class enable_grad(_Context, metaclass=_Decorating):
    """Inside, operations are recorded, also within `no_grad`. A context and a decorator.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> with lucid.no_grad(), lucid.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def _inside(self) -> Any:
        return modes.recording_state(True)


class set_grad_enabled(_Context):
    """Switch recording on or off: from now on, for a `with` block, or as a decorator.

    >>> import lucid
    >>> with lucid.set_grad_enabled(False):
    ...     lucid.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled takes True or False, not {mode!r}")
        self.mode = mode
        self._before = modes.recording.get()
        modes.recording.set(self._inside())

    def _inside(self) -> Any:
        return modes.recording_state(self.mode)

    def __enter__(self) -> Self:
        self._outer.append(self._before)
        modes.recording.set(self._inside())
        return self

    def __call__(self, function: F) -> F:
        modes.recording.set(self._before)
        return super().__call__(function)

    def _fresh(self) -> Self:
        return type(self)(self.mode)


class inference_mode(_Context, metaclass=_Decorating):
    """As `no_grad`, for code that will never be differentiated: `enable_grad` inside has no effect.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> with lucid.inference_mode(), lucid.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode
        self._were: list[bool] = []

    def _inside(self) -> Any:
        return False if self.mode else modes.recording_state(True)

    def __enter__(self) -> Self:
        self._were.append(modes.inference.get())
        modes.inference.set(self.mode)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__()
        modes.inference.set(self._were.pop())

    def _fresh(self) -> Self:
        return type(self)(self.mode)


def is_grad_enabled() -> bool:
    """Whether operations are recorded here.

    >>> import lucid
    >>> lucid.is_grad_enabled()
    True
    """
    return bool(modes.recording.get())


def is_inference_mode_enabled() -> bool:
    """Whether this code runs inside `inference_mode`.

    >>> import lucid
    >>> lucid.is_inference_mode_enabled()
    False
    """
    return modes.inference.get()


class detect_anomaly(_Context):
    """Inside, a backward pass that meets nan or inf raises an error with the line of the operation that made it.

    >>> import lucid
    >>> x = lucid.tensor([0.0], requires_grad=True)
    >>> with lucid.autograd.detect_anomaly():
    ...     x.sqrt().sum().backward()
    Traceback (most recent call last):
    RuntimeError: the derivative of `sqrt` for its operand 0 is inf; the operation ran at ...
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode
        self._were: list[bool] = []

    def _inside(self) -> Any:
        return modes.recording_state(bool(modes.recording.get()))

    def __enter__(self) -> Self:
        self._were.append(modes.anomaly.get())
        modes.anomaly.set(self.mode)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__()
        modes.anomaly.set(self._were.pop())

    def _fresh(self) -> Self:
        return type(self)(self.mode)
