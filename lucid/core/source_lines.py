"""Places in the user's code: who called an operation, found cheaply and shown readably."""

import linecache
import os
from types import CodeType, FrameType
from typing import Any

from lucid.native import PACKAGE, PyFrame_GetCode, PyFrame_GetLasti, caller_of, current_frame, filename_of

_PACKAGES = tuple(os.path.join(os.path.dirname(PACKAGE), name) + os.sep for name in ("lucid", "sorix"))
# Filename -> whether it belongs to this package. Strings keep their hash, so a look-up costs 30 ns.
known_files: dict[str, bool] = {}


def is_internal(filename: str) -> bool:
    known = known_files.get(filename)
    if known is None:
        known = known_files[filename] = filename.startswith(_PACKAGES)
    return known


class Place:
    """A bytecode position; the line is worked out only when somebody asks."""

    __slots__ = ("code", "offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.offset = offset

    @property
    def filename(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        for start, stop, line in self.code.co_lines():
            if start <= self.offset < stop and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def source(self) -> str:
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        source = self.source
        return f"{self.filename}:{self.line}" + (f": {source}" if source else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.code is other.code and self.offset == other.offset

    def __hash__(self) -> int:
        return hash((id(self.code), self.offset))


def climb(frame: FrameType) -> FrameType:
    """The nearest frame at or above `frame` that is not the library's own."""
    found: Any = frame
    known = known_files
    while found is not None:
        name = filename_of(PyFrame_GetCode(found))
        if not (known[name] if name in known else is_internal(name)):
            return found
        found = caller_of(found)
    return frame


def here() -> Place:
    """Where the user's code is now. Asked at every write, so without a constructor's call."""
    frame = climb(current_frame())
    place = Place.__new__(Place)
    place.code, place.offset = PyFrame_GetCode(frame), PyFrame_GetLasti(frame)
    return place
