"""What the kinds of tensor that hold another tensor have in common."""

from typing import Any

from lucid.core.tensor import Tensor


class Kind(Tensor):
    """A tensor around a tensor, made by a transform with the number `_level`."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._array.dtype

    @property
    def np_dtype(self) -> Any:
        """The numpy type of the elements."""
        return self._array.np_dtype

    def _raise_if_read_only(self, name: str) -> None:
        self._array._raise_if_read_only(name)
