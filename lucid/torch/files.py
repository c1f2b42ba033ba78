"""`torch.save` and `torch.load`: paths and file objects, in PyTorch's format."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import lucid
from lucid.checkpoints import CheckpointError
from lucid.torch.pickling import write
from lucid.torch.tensors import adopted
from lucid.torch.unpickling import TRUSTED, read

_LEGACY = (
    "this is a pickle, which PyTorch wrote before version 1.6 or for whole objects; reading it would run what it "
    "names. Convert it once where PyTorch is installed: torch.save(torch.load(path, weights_only=True), path)"
)


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, **_: Any) -> None:
    """Write a nest of tensors and plain data to a path or an open file, as PyTorch does and reads.

    >>> import io
    >>> import lucid.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    with nullcontext(f) if hasattr(f, "write") else open(f, "wb") as file:
        write(obj, file)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: Any = None,
    **_: Any,
) -> Any:
    """Read a checkpoint of PyTorch, or of `lucid.save`, from a path or an open file.

    Nothing in it is run, so `weights_only=False` reads no more: files with other objects than tensors and plain data are
    refused, and the error names the object; `add_safe_globals` names classes that a program trusts. Everything is put on the CPU, which is what `map_location` may say.
    """
    if isinstance(map_location, (str, lucid.device)):
        lucid.device(map_location)
    with nullcontext(f) if hasattr(f, "read") else open(f, "rb") as file:
        start = file.tell()
        head = file.read(9)
        file.seek(start)
        name = "the file" if hasattr(f, "read") else os.fspath(f)
        try:
            if head[:2] == b"PK":
                return read(file)
            if head[:1] == b"\x80" and not _is_safetensors(head):
                raise CheckpointError(_LEGACY)
            if not _is_safetensors(head):
                raise CheckpointError("neither a checkpoint of PyTorch nor of Lucid")
        except CheckpointError as error:
            raise CheckpointError(f"{name}: {error}") from None
    return adopted(lucid.load(f))


def _is_safetensors(head: bytes) -> bool:
    """Those begin with the length of a header in JSON."""
    return len(head) == 9 and head[8:] == b"{"


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Name classes of the program whose objects files may hold: they are made and filled as their pickles say.

    >>> import io
    >>> from fractions import Fraction
    >>> import lucid.torch as torch
    >>> file = io.BytesIO()
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.save({"part": Fraction(1, 3)}, file)
    ...     torch.load(io.BytesIO(file.getvalue()))
    {'part': Fraction(1, 3)}
    """
    TRUSTED.update(_by_name(safe_globals))


def get_safe_globals() -> list[Any]:
    """The classes that the program has named."""
    return list(TRUSTED.values())


def clear_safe_globals() -> None:
    """Forget the classes that the program has named."""
    TRUSTED.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A context in which files may hold objects of these classes."""
    before = dict(TRUSTED)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        TRUSTED.clear()
        TRUSTED.update(before)


def _by_name(classes: list[Any]) -> dict[str, Any]:
    """Classes by the names that pickles have them under: their own, or one that is given in a pair."""
    pairs = [kind if isinstance(kind, tuple) else (kind, f"{kind.__module__}.{kind.__qualname__}") for kind in classes]
    return {name: kind for kind, name in pairs}
