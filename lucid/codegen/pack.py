"""The pack: machine code of common kernels, which is built with the package for a level of processors.

It is one file beside the compiled modules of that level. A first line says from which code generator it was made: the
pack of another one is not used. Then come the names, places and sizes of entries, which look like those of the cache.
"""

import os
from collections.abc import Mapping
from contextlib import suppress

from lucid import native
from lucid.codegen import cache

_entries: dict[str, tuple[int, int]] | None = None  # not looked for yet
_path = ""


def path_of(level: str) -> str:
    """The pack of a level of processors."""
    return os.path.join(native.FOLDER, "" if level == native.ANY else level, "kernels.pack")


def sources(place: str = os.path.dirname(__file__)) -> str:
    """What changes with the files of a folder, those of the code generator, by which names of entries do."""
    if place not in _sources:
        paths = [
            os.path.join(at, n) for at, _, names in sorted(os.walk(place)) for n in sorted(names) if n.endswith(".py")
        ]
        stamp = cache.digest(repr([(p, (s := os.stat(p)).st_size, s.st_mtime_ns) for p in paths]).encode()).hex()
        _sources[place] = _read_before().get(stamp) or _noted(stamp, cache.digest(b"\0".join(map(_read, paths))).hex())
    return _sources[place]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read_before() -> dict[str, str]:
    """Digests of files that other processes have read, by what their sizes and times were."""
    with suppress(OSError, ValueError):
        return dict(line.split() for line in _read(_READ_BEFORE).decode().splitlines())
    return {}


def _noted(stamp: str, digest: str) -> str:
    """The digest, noted for the next processes where the package can be written to."""
    with suppress(OSError):
        lines = [" ".join(known) for known in (*list(_read_before().items())[-7:], (stamp, digest))]
        new = f"{_READ_BEFORE}.{os.getpid()}"
        with open(new, "w") as file:
            file.write("\n".join(lines))
        os.replace(new, _READ_BEFORE)
    return digest


_READ_BEFORE = os.path.join(native.FOLDER, "sources.txt")
_sources: dict[str, str] = {}


def read_index(path: str) -> dict[str, tuple[int, int]]:
    """Places and sizes of the entries of a pack; none if it is not there or belongs to other sources."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        made_from, count = file.readline().decode().split()
        if made_from != sources():
            return {}
        lines = [file.readline().decode().split() for _ in range(int(count))]
        first = file.tell()
        return {key: (first + int(place), int(size)) for key, place, size in lines}
    return {}


def _index() -> dict[str, tuple[int, int]]:
    """The index of the pack of this processor."""
    global _entries, _path
    if _entries is None:
        _path = path_of(native.level or native.ANY)
        _entries = read_index(_path)
    return _entries


def has(key: str) -> bool:
    """Whether the pack of this processor has an entry."""
    return key in _index()


def read(key: str) -> bytes | None:
    """The data of an entry of the pack of this processor, or None if it is not there or damaged."""
    found = _index().get(key)
    return None if found is None else entry_of(_path, *found)


def entry_of(path: str, place: int, size: int) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        file.seek(place)
        return cache.opened(file.read(size))
    return None


def write(path: str, entries: Mapping[str, bytes]) -> None:
    """Make the pack of these entries, in place of the one that is there."""
    sealed = {key: cache.sealed(data) for key, data in sorted(entries.items())}
    lines, place = [f"{sources()} {len(sealed)}"], 0
    for key, data in sealed.items():
        lines.append(f"{key} {place} {len(data)}")
        place += len(data)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "wb") as file:
        file.write("\n".join([*lines, ""]).encode())
        file.writelines(sealed.values())
    os.replace(path + ".new", path)
