"""Switching the recording of operations on and off: contexts that are also decorators."""

import inspect
from collections.abc import Callable, Generator
from contextvars import ContextVar
from functools import wraps
from typing import Any, Self, TypeVar

from lucid.autograd.anomalies import raise_on_anomaly
from lucid.core import modes
from lucid.core.levels import capturing, trace

F = TypeVar("F", bound=Callable[..., Any])


# What was set outside each context that this thread or task has entered, innermost last. Not on the context
# objects: one object may be entered by several threads.
_outer: ContextVar[tuple[Any, ...]] = ContextVar("outer", default=())


class _Context:
    """A context manager that can be entered again and again, and used as a decorator."""

    def _enter(self) -> Any:
        """Switch, and return what `_leave` needs to switch back."""
        raise AssertionError("each context says what it sets")

    def _leave(self, before: Any) -> None:
        modes.recording.set(before)

    def __enter__(self) -> Self:
        _outer.set((*_outer.get(), self._enter()))
        return self

    def __exit__(self, *exc: object) -> None:
        *rest, before = _outer.get()
        _outer.set(tuple(rest))
        self._leave(before)

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
                    with self._fresh():
                        generator.close()
                    raise
                except BaseException as error:
                    step = lambda error=error: generator.throw(error)  # type: ignore[misc]  # noqa: E731
                else:
                    step = lambda sent=sent: generator.send(sent)  # type: ignore[misc]  # noqa: E731

        return call


def _switch(state: Any) -> Any:
    """Set the state of recording; returns the one before."""
    before = modes.recording.get()
    modes.recording.set(state)
    return before


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

    def _enter(self) -> Any:
        return _switch(False)


class enable_grad(_Context, metaclass=_Decorating):
    """Inside, operations are recorded, also within `no_grad`. A context and a decorator.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> with lucid.no_grad(), lucid.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def _enter(self) -> Any:
        return _switch(modes.recording_state(True))


class set_grad_enabled(_Context):
    """Switch recording on or off: from now on, for a `with` block, or as a decorator.

    >>> import lucid
    >>> with lucid.set_grad_enabled(False):
    ...     lucid.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled takes True or False, not {mode!r}")
        self.mode = mode
        self._before = _switch(modes.recording_state(mode))

    def _enter(self) -> Any:
        _switch(modes.recording_state(self.mode))
        return self._before

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

    _on: Any = True  # what the mode is set to

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def _enter(self) -> Any:
        before = modes.inference.get(), modes.recording.get()
        modes.inference.set(self._on if self.mode else False)
        modes.recording.set(modes.recording_state(not self.mode))
        return before

    def _leave(self, before: Any) -> None:
        inference, recording = before
        modes.inference.set(inference)
        modes.recording.set(recording)

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
    return bool(modes.inference.get())


class detect_anomaly(_Context):
    """Inside, a backward pass that meets nan or inf raises an error with the line of the operation that made it.

    >>> import lucid
    >>> x = lucid.tensor([0.0], requires_grad=True)
    >>> with lucid.autograd.detect_anomaly():
    ...     x.sqrt().sum().backward()
    Traceback (most recent call last):
    RuntimeError: the derivative of `sqrt` for its operand 0 is inf; the operation ran at ...
    """

    def __init__(self, mode: bool = True, check_nan: bool = True) -> None:
        self.mode = mode

    def _enter(self) -> Any:
        before = modes.anomaly.get(), modes.recording.get()
        if self.mode and capturing():
            trace.get().eager = "anomaly detection looks at each operation"
        modes.anomaly.set(raise_on_anomaly if self.mode else None)
        modes.recording.set(modes.recording_state(bool(modes.recording.get())))
        return before

    def _leave(self, before: Any) -> None:
        anomaly, recording = before
        modes.anomaly.set(anomaly)
        modes.recording.set(recording)

    def _fresh(self) -> Self:
        return type(self)(self.mode)


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> None:
    """Switch the search for nan and inf on or off, for this thread: see `detect_anomaly`.

    >>> import lucid
    >>> lucid.autograd.set_detect_anomaly(True)
    >>> lucid.autograd.is_anomaly_enabled()
    True
    >>> lucid.autograd.set_detect_anomaly(False)
    """
    detect_anomaly(mode)._enter()


def is_anomaly_enabled() -> bool:
    """Whether nan and inf are searched for.

    >>> import lucid
    >>> lucid.autograd.is_anomaly_enabled()
    False
    """
    return bool(modes.anomaly.get())
