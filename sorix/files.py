"""`save` and `load`: Lucid's checkpoints, to and from paths and open files."""

import os
import shutil
import tempfile
from typing import Any, BinaryIO

import lucid


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write state (nests of tensors and plain values, such as `model.state_dict()`) to a path or an open binary file.

    The file is a checkpoint of `lucid.save`, which runs no code when it is read. A module itself would have to be
    pickled for that, so it is refused: save its `state_dict()`.

    >>> import os, tempfile
    >>> import sorix
    >>> path = os.path.join(tempfile.mkdtemp(), "layer")
    >>> layer = sorix.nn.Linear(2, 1)
    >>> sorix.save(layer.state_dict(), path)
    >>> sorix.nn.Linear(2, 1).load_state_dict(sorix.load(path))
    <All keys matched successfully>
    """
    if isinstance(obj, lucid.nn.Module):
        raise TypeError(
            f"save: a {type(obj).__name__} cannot be stored as a whole without code that runs when it is read; "
            "save model.state_dict(), and load it into a new model with load_state_dict"
        )
    if isinstance(f, str | os.PathLike):
        lucid.save(obj, f)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        lucid.save(obj, path)
        with open(path, "rb") as source:
            shutil.copyfileobj(source, f)


def load(f: str | os.PathLike[str] | BinaryIO) -> Any:
    """Read what `sorix.save` wrote, from a path or an open binary file.

    >>> import os, tempfile
    >>> import sorix
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> sorix.save({"steps": 3, "x": sorix.tensor([1.0, 2.0])}, path)
    >>> sorix.load(path)
    {'steps': 3, 'x': Tensor([1., 2.])}
    """
    if isinstance(f, str | os.PathLike):
        return lucid.load(f)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        with open(path, "wb") as copy:
            shutil.copyfileobj(f, copy)
        return lucid.load(path)


__all__ = ["load", "save"]
