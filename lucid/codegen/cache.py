"""Machine code on disk, from one process to the next.

An entry is a file whose name says from what it was made, and begins with a checksum. It is written beside its place and
moved there, so that others see all of it or nothing; what is damaged is made again. The folder belongs to the user
alone, since what it holds is executed. `LUCID_CACHE` names another folder, or turns the cache off if it is 0.

What is imported here is paid for by the first kernel of a process.
"""

import os
import stat
import sys
from contextlib import suppress
from typing import NamedTuple

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL besides, which takes longer than all that is done here
except ImportError:
    from hashlib import blake2b

_MOST_BYTES = 256 << 20
_CHECKSUM = 32
_SUFFIX = ".kernel"
_folder: str | bool | None = None  # not looked for yet; False if there is none


def digest(data: bytes) -> bytes:
    """A number that belongs to these bytes alone."""
    return blake2b(data, digest_size=_CHECKSUM).digest()


def chosen() -> str:
    """The folder that the user wants, or that is the usual one; empty if the cache is turned off."""
    wanted = os.environ.get("LUCID_CACHE", "")
    if wanted:
        return "" if wanted == "0" else wanted
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA", home), "lucid", "kernels")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "lucid", "kernels")


def folder() -> str | None:
    """Where entries are, or None if there is no place that only the user can write to."""
    global _folder
    if _folder is None:
        _folder = _usable(chosen()) or False
    return _folder or None  # type: ignore[return-value]


def _usable(place: str) -> str | None:
    with suppress(OSError):
        if not place:
            return None
        os.makedirs(place, mode=0o700, exist_ok=True)
        if hasattr(os, "getuid"):
            status = os.stat(place)
            if status.st_uid != os.getuid():
                return None
            if stat.S_IMODE(status.st_mode) != 0o700:
                os.chmod(place, 0o700)
        return place
    return None


def sealed(data: bytes) -> bytes:
    """Data behind its checksum."""
    return digest(data) + data


def opened(found: bytes) -> bytes | None:
    """The data of what was sealed, or None if it is damaged."""
    data = found[_CHECKSUM:]
    return data if digest(data) == found[:_CHECKSUM] else None


def read(key: str) -> bytes | None:
    """The data of an entry, or None if it is not there or damaged."""
    place = folder()
    if place is None:
        return None
    try:
        with open(os.path.join(place, key + _SUFFIX), "rb") as file:
            return opened(file.read())
    except OSError:
        return None


def write(key: str, data: bytes) -> None:
    """Add an entry. What cannot be written is made again by the next process."""
    place = folder()
    if place is None:
        return
    import tempfile

    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=place, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sealed(data))
            os.replace(name, os.path.join(place, key + _SUFFIX))
        except OSError:
            os.unlink(name)
            raise
        if key.startswith("00"):  # one in 256
            shrink()


class Entry(NamedTuple):
    """A file of the cache: how large it is, and when it was written and last used, in seconds as `time` counts them."""

    path: str
    size: int
    written: float
    used: float


def entries() -> list[Entry]:
    """The files of the cache, the one that was used last first."""
    place = folder()
    found = []
    for name in os.listdir(place) if place else ():
        with suppress(OSError):
            if name.endswith(_SUFFIX):
                status = os.stat(path := os.path.join(str(place), name))
                found.append(Entry(path, status.st_size, status.st_mtime, max(status.st_atime, status.st_mtime)))
    return sorted(found, key=lambda entry: -entry.used)


def remove(entry: Entry) -> None:
    with suppress(OSError):
        os.unlink(entry.path)


def shrink(most: int = _MOST_BYTES) -> None:
    """Remove the entries that were used least recently until the others take at most so many bytes."""
    total = 0
    for entry in entries():
        total += entry.size
        if total > most:
            remove(entry)


def clear() -> int:
    """Remove all entries; how many there were."""
    found = entries()
    for entry in found:
        remove(entry)
    return len(found)
