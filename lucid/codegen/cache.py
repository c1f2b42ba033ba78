"""Machine code on disk, from one process to the next.

An entry is a file whose name says from what it was made, and begins with a checksum. It is written beside its place and
moved there, so that others see all of it or nothing; what is damaged is made again. The folder belongs to the user
alone, since what it holds is executed. `LUCID_CACHE` names another folder, or turns the cache off if it is 0.
"""

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_MOST_BYTES = 256 << 20
_CHECKSUM = 32
_SUFFIX = ".o"
_folder: Path | bool | None = None  # not looked for yet; False if there is none


def folder() -> Path | None:
    """Where entries are, or None if there is no place that only the user can write to."""
    global _folder
    if _folder is None:
        _folder = _usable() or False
    return _folder or None  # type: ignore[return-value]


def _usable() -> Path | None:
    chosen = os.environ.get("LUCID_CACHE", "")
    if chosen == "0":
        return None
    if chosen:
        place = Path(chosen)
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "lucid" / "kernels"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lucid" / "kernels"
    with suppress(OSError, RuntimeError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid"):
            status = place.stat()
            if status.st_uid != os.getuid():
                return None
            if stat.S_IMODE(status.st_mode) != 0o700:
                place.chmod(0o700)
        return place
    return None


def read(key: str) -> bytes | None:
    """The code of an entry, or None if it is not there or damaged."""
    place = folder()
    if place is None:
        return None
    try:
        found = (place / (key + _SUFFIX)).read_bytes()
    except OSError:
        return None
    code = found[_CHECKSUM:]
    return code if hashlib.sha256(code).digest() == found[:_CHECKSUM] else None


def write(key: str, code: bytes) -> None:
    """Add an entry. What cannot be written is made again by the next process."""
    place = folder()
    if place is None:
        return
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=place, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(name, place / (key + _SUFFIX))
        except OSError:
            os.unlink(name)
            raise
        if key.startswith("00"):  # one in 256
            shrink()


def entries() -> list[Path]:
    """The files of the cache."""
    place = folder()
    return [] if place is None else sorted(place.glob("*" + _SUFFIX))


def shrink(most: int = _MOST_BYTES) -> None:
    """Remove the entries that were used least recently until the others take at most so many bytes."""
    known = []
    for file in entries():
        with suppress(OSError):
            status = file.stat()
            known.append((max(status.st_atime, status.st_mtime), status.st_size, file))
    total = sum(size for _, size, _ in known)
    for _, size, file in sorted(known, key=lambda one: one[0]):
        if total <= most:
            break
        with suppress(OSError):
            file.unlink()
            total -= size


def clear() -> int:
    """Remove all entries; how many there were."""
    found = entries()
    for file in found:
        with suppress(OSError):
            file.unlink()
    return len(found)
