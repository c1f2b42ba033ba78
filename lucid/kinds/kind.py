# cython: annotation_typing=True
"""What the kinds of tensor that hold another tensor have in common."""

from copy import deepcopy
from typing import Any

from lucid.core.fields import TensorFields, users_attributes
from lucid.core.primitive import apply, note_positions
from lucid.core.source_lines import here
from lucid.core.storage import DETACHED, View
from lucid.core.tensor import Tensor


class NeedsValueError(RuntimeError):
    """Something asked for the value of a tensor that stands for many, or for values not known yet."""


class Kind(Tensor):
    """A tensor around a tensor, made by a transform with the number `_level`.

    A kind says how a primitive is run on it (`interpret`), and how a tensor from further out becomes one of its
    own in place (`absorb`), which happens when a value of this kind is written into it.
    """

    __slots__ = ()
    _level = TensorFields._level  # which `Tensor` hides behind its 0

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._array.dtype

    @property
    def np_dtype(self) -> Any:
        """The numpy type of the elements."""
        return self._array.np_dtype

    def __copy__(self) -> Tensor:
        out = self._copied(deep=False)
        out.__setstate__(users_attributes(self) or {})
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        memo[id(self)] = out = self._copied(deep=True)
        out.__setstate__(deepcopy(users_attributes(self) or {}, memo))
        return out

    def _copied(self, deep: bool) -> Tensor:
        """A leaf of this kind with the same contents, in other memory if `deep`."""
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be copied or pickled; detach() the tensor first")
        out = self.shell()
        if deep:
            out._copy_contents()
        out._requires_grad = self._requires_grad
        return out

    def _raise_if_read_only(self, name: str) -> None:
        self._array._raise_if_read_only(name)

    def is_contiguous(self) -> bool:
        """Whether the elements of one example lie in row-major order without gaps."""
        shape, array = self.shape, bottom(self)
        expected = array.itemsize
        for n, step in zip(reversed(shape), reversed(array.strides)):
            if n > 1 and step != expected and array.size:
                return False
            expected *= n
        return True

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        """`.data = ` keeps derivatives of this tensor and drops those of the value: refuse where both are entangled."""
        other: Any = value
        if other._level != self._level:
            raise RuntimeError(".data: the tensors belong to different transforms; use copy_")
        for inner in (self._array, other._array):
            while isinstance(inner, Tensor):
                if inner.requires_grad or isinstance(inner, Kind):
                    raise RuntimeError(".data: another transform further out follows one of the tensors; use copy_")
                inner = inner._array

    # Whether tensors of this kind have other memory than what they absorb, so that what was detached must follow.
    splits_memory = True

    def _detached_alone(self) -> Tensor:
        """The same contents without history: where a view by positions lies below, read from the detached base."""
        how = self._meta
        if not isinstance(how, View) or how.status == DETACHED or not _by_positions(self):
            return self._detached_contents()
        base = how.base._detached()
        out: Tensor = apply(how.primitive, (base, *how.others), how.params)
        if how.others:
            note_positions(how.primitive, base, how.others, out)
        return out

    def _detached_contents(self) -> Tensor:
        raise AssertionError("each kind has its way")

    def seeded(self, seed: Any) -> Any:
        return self._array.seeded(seed)

    def show_again(self, fresh: Tensor) -> None:
        """Take over what a view by positions shows now."""
        self._write(fresh, "")

    def sever(self) -> None:
        """Forget the history of this tensor, also inside, in place."""
        raise AssertionError("each kind has its way")

    def absorb(self, target: Tensor) -> None:
        """Make `target`, which was made inside this kind's transform, a tensor of this kind with the same contents."""
        raise AssertionError("each kind has its way")

    def settled(self) -> Tensor:
        """What the `.grad` of a leaf from outside of the transform gets of a gradient of this kind."""
        raise AssertionError("each kind has its way")

    def _raise_escape(self, target: Tensor, name: str) -> None:
        raise RuntimeError(
            f"{name}: at {here()} a value that {self.transform_name} follows is written into a tensor of shape "
            f"{target.shape} that was made outside of the transformed function, where it means nothing. "
            "Write into a tensor made inside the function (as from x.clone()), or return the value."
        )

    transform_name = "a transform"


def bottom(tensor: Any) -> Any:
    """The array inside; that of a batched tensor has the batch in front."""
    while isinstance(tensor, TensorFields):
        tensor = tensor._array
    return tensor


def _by_positions(tensor: Tensor) -> bool:
    """Whether a tensor is a view by positions, or a view of one."""
    while tensor.is_view():
        if tensor._meta.others:
            return True
        tensor = tensor._meta.base
    return False
