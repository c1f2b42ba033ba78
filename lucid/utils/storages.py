"""The memory of tensors, as programs of PyTorch ask about it."""

from typing import Any

from lucid.core.tensor import Tensor


class UntypedStorage:
    """The memory of a tensor: its address and its size in bytes.

    >>> import lucid.torch as torch
    >>> x = torch.ones(4)
    >>> x.untyped_storage().nbytes(), x[2:].untyped_storage().data_ptr() == x.data_ptr()
    (16, True)
    """

    def __init__(self, tensor: Any) -> None:
        array = tensor._held_array("untyped_storage")
        while getattr(array.base, "strides", None) is not None:  # up to the array that has the memory
            array = array.base
        self._array = array
        self.device = tensor.device

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._array.__array_interface__["data"][0])

    def nbytes(self) -> int:
        """The size in bytes."""
        return int(self._array.nbytes)

    size = __len__ = nbytes

    def tolist(self) -> list[int]:
        """The bytes."""
        return list(self._array.tobytes())


class TypedStorage(UntypedStorage):
    """The memory of a tensor, counted in elements.

    >>> import lucid.torch as torch
    >>> len(torch.ones(4).storage()), torch.ones(4)[1:].storage()[0]
    (4, 1.0)
    """

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor)
        self.dtype = tensor.dtype

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def __getitem__(self, index: int) -> Any:
        return self._array.reshape(-1)[index].item()

    def tolist(self) -> list[Any]:
        """The elements."""
        return list(self._array.reshape(-1).tolist())


def untyped_storage(self: Tensor) -> Any:
    """The memory of the tensor: its address and size in bytes.

    >>> import lucid
    >>> lucid.zeros(3)[1:].untyped_storage().nbytes()
    12
    """
    return UntypedStorage(self)


def eval(input: Tensor) -> Tensor:
    """The tensor: nothing of it is pending.

    >>> import lucid
    >>> lucid.ones(2).eval()
    Tensor([1., 1.])
    """
    return input


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: there is no other memory to copy to."""
    return self


def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself: other processes get copies."""
    return self
