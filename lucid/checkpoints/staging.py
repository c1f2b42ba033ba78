"""Replacing files so that a crash at any moment leaves the old or the new ones.

New files are written in a hidden directory beside the old ones, brought to disk, and renamed into place. If the process
is killed, that directory stays behind; the next save there removes it. Locks, where the system has them, tell the
directories of writers that are at work from those of writers that are gone.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PREFIX, _SUFFIX = ".lucid-save-", ".tmp"


@contextmanager
def staging(parent: str) -> Iterator[str]:
    """A directory in `parent` for files that are being written; it is removed at the end."""
    _remove_leftovers(parent)
    directory, lock = _locked_directory(parent)
    try:
        yield directory
    finally:
        _remove(directory)
        _unlock(lock)


def install(new: str, target: str) -> None:
    """Let a file that was written in a staging directory take the place of `target`."""
    with suppress(PermissionError):  # some file systems have no permissions to set
        os.chmod(new, _mode_of(target, os.path.dirname(new)))
    with open(new, "r+b") as file:
        os.fsync(file.fileno())
    os.replace(new, target)
    sync_directory(os.path.dirname(target))


def sync_directory(directory: str) -> None:
    """Bring the names in a directory to disk."""
    if os.name != "posix":
        return  # Windows cannot open directories
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # network file systems that cannot, or need not
            raise
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(directory: str) -> Iterator[None]:
    """A time in which no other writer changes what is in `directory`, where the system has locks."""
    lock = _lock(directory, wait=True)
    try:
        yield
    finally:
        _unlock(lock)


def _mode_of(target: str, directory: str) -> int:
    """The permissions of the file to be replaced, or those that a new file gets here."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(os.stat(target).st_mode)
    probe = os.path.join(directory, "permissions")
    os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o666))
    return stat.S_IMODE(os.stat(probe).st_mode)


def _locked_directory(parent: str) -> tuple[str, int | None]:
    while True:
        directory = os.path.join(parent, f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}")
        os.mkdir(directory, 0o700)
        lock = _lock(directory, wait=False)
        if os.path.exists(directory):
            return directory, lock
        _unlock(lock)  # another writer took it for a leftover before it was locked


def _remove_leftovers(parent: str) -> None:
    for name in os.listdir(parent):
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            directory = os.path.join(parent, name)
            lock = _lock(directory, wait=False)
            if lock is not None:
                _remove(directory)
                _unlock(lock)


def _remove(directory: str) -> None:
    """Remove a directory of files. What cannot be removed now stays for the next save to try."""
    with suppress(OSError):
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _lock(directory: str, wait: bool) -> int | None:
    """A descriptor that holds the lock of a directory; None if another has it, or if there are no locks here."""
    try:
        import fcntl  # not on Windows
    except ImportError:
        return None
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


__all__ = ["exclusive", "install", "staging", "sync_directory"]
