"""`save` and `load`, by pickles, as Sorix has them."""

import os
import pickle
from typing import Any, BinaryIO


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Pickle anything, whole modules too, to a path or an open binary file.

    >>> import os, tempfile
    >>> import sorix
    >>> path = os.path.join(tempfile.mkdtemp(), "layer")
    >>> sorix.save(sorix.nn.Linear(2, 1), path)
    >>> sorix.load(path)
    Linear(in_features=2, out_features=1, bias=True)
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "wb") as file:
            pickle.dump(obj, file)
    else:
        pickle.dump(obj, f)


def load(f: str | os.PathLike[str] | BinaryIO) -> Any:
    """Read what `save` wrote. A pickle can run anything when it is read: load files of people whom you trust.

    `lucid.save` and `lucid.load` write and read files that run nothing.
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return pickle.load(file)
    return pickle.load(f)


__all__ = ["load", "save"]
