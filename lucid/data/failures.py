"""Errors on their way from a worker to the main process."""

import pickle
import traceback
from typing import Any


class _Verbatim(str):
    """A text that is its own repr: KeyError shows the repr of its argument, which would run lines together."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An error in a worker: itself and its type, as far as they can be pickled, and its trace as text."""

    __slots__ = ("packed", "text")

    def __init__(self, error: Exception, worker: int) -> None:
        where = f"in worker process {worker} of the DataLoader:"
        self.text = f"{type(error).__name__} {where}\n\n{''.join(traceback.format_exception(error))}"
        self.packed = [p for p in (_pickled(error), _pickled(type(error))) if p is not None]

    def rebuilt(self) -> Exception:
        """An error of the same type whose message holds the worker's trace.

        A type that does not take one text is raised as it was, with the trace as a note; one that does not travel
        between processes becomes a RuntimeError.
        """
        known = [found for found in map(_unpickled, self.packed) if found is not None]
        for found in known:
            error = self._retold(found)
            if error is not None:
                return error
        for found in known:
            if isinstance(found, Exception):
                found.add_note(self.text)
                return found
        return RuntimeError(self.text)

    def _retold(self, found: Any) -> Exception | None:
        kind: Any = found if isinstance(found, type) else type(found)
        if issubclass(kind, StopIteration | StopAsyncIteration):
            return RuntimeError(self.text)  # raised as it is, it would end the loop in silence
        text = _Verbatim(self.text)
        try:
            if isinstance(found, OSError) and found.errno is not None:
                error = kind(found.errno, text, found.filename)
            else:
                error = kind(text)
            return error if self.text in str(error) else None
        except Exception:
            return None


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # whatever a type of the user's raises, the trace must arrive
        return None


def _unpickled(packed: bytes) -> Any:
    try:
        return pickle.loads(packed)
    except Exception:
        return None


__all__ = ["Failure"]
