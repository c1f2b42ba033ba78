# cython: annotation_typing=True
"""The kind of tensor inside `vmap`: one example as seen by the user, all of them in memory."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lucid.core.fields import TensorFields, new_tensor
from lucid.core.kernels import table
from lucid.core.primitive import P, Primitive, apply
from lucid.core.source_lines import here
from lucid.core.storage import DETACHED, new_view, storage_of
from lucid.core.tensor import Tensor, shape_of
from lucid.kinds.kind import Kind, NeedsValueError


class Batch:
    """One application of vmap."""

    __slots__ = ("drawn", "level", "randomness", "size")

    def __init__(self, level: int, size: int, randomness: str, drawn: dict[int, Any]) -> None:
        self.level, self.size, self.randomness = level, size, randomness
        self.drawn = drawn  # generators from which all examples share their numbers, as they were at first

    def lifted(self, tensor: Tensor) -> "Batched":
        return Batched.shared(tensor, self.level, self.size)

    def settled(self, gradient: Tensor) -> Tensor:
        """A gradient that is the same for all examples, for a leaf from outside: each example adds it."""
        return gradient * self.size


class Batched(Kind):
    """Holds a tensor whose dimension 0 is the batch; its shape is that of one example.

    Or it is *shared*: `_aux` is the size of the batch, and the tensor inside has no batch dimension and stands for all
    examples. That is what a variable is that is differentiated inside vmap but is the same in all examples: what is
    recorded about it belongs inside, and its memory is not repeated.
    """

    __slots__ = ()
    transform_name = "vmap"

    @staticmethod
    def make(value: Tensor, level: int) -> "Batched":
        out: Batched = new_tensor(Batched, value, None, level)
        return out

    @staticmethod
    def shared(value: Tensor, level: int, size: int) -> "Batched":
        out: Batched = new_tensor(Batched, value, size, level)
        return out

    def shell(self) -> "Batched":
        out: Batched = new_tensor(Batched, self._array, self._aux, self._level)
        return out

    def _detached_contents(self) -> "Batched":
        out = self.shell()
        out._array = self._array.detach()
        out._meta = new_view(None, None, {}, storage_of(self), DETACHED)
        out._meta.storage.show(out, self)
        return out

    def sever(self) -> None:
        self._array = self._array.detach()

    @property
    def batch_size(self) -> int:
        return shape_of(self._array)[0] if self._aux is None else self._aux

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self._array)[1:] if self._aux is None else shape_of(self._array)

    def _held_array(self, wanted_by: str) -> NoReturn:
        raise NeedsValueError(
            f"{wanted_by} needs one concrete value, but inside vmap this tensor stands for {self.batch_size} examples "
            f"at once (at {here()}). Instead of `if`, use lucid.where or lucid.cond; instead of `while`, "
            "lucid.while_loop; instead of Python numbers, tensor operations."
        )

    def settled(self) -> Tensor:
        # Each example adds its own.
        return P.sum(self._array, dims=(0,), keepdim=False) if self._aux is None else self._array * self._aux

    def _copy_contents(self) -> None:
        self._array = self._array.clone()

    def absorb(self, target: Tensor) -> None:
        size = self.batch_size
        if isinstance(target, Batched) and target._level == self._level:
            inner = target._array
        else:
            inner = target.shell()
            inner._node, inner._requires_grad = target._node, target._requires_grad
        spread = P.broadcast_to(inner, shape=(size, *inner.shape))
        target.__class__ = Batched
        target._array, target._level, target._aux = spread.clone(), self._level, None

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is."""
        if not isinstance(new, Batched) or new._level != self._level:
            return getattr(new, "_level", 0) < self._level
        return self._aux is None or new._aux is not None

    def _write(self, new: Tensor, name: str) -> None:
        self._array.copy_(new._array if isinstance(new, Batched) and new._level == self._level else new)

    def describe_contents(self, prefix: str) -> str:
        what = "examples of shape" if self._aux is None else "examples share one of shape"
        return f"{self.batch_size} {what} {self.shape}: {self._array!r}"

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        super()._raise_unless_replaceable(value)
        self._aux = value._aux  # whether the examples share the contents goes with these

    def interpret(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on all examples at once, by its batching rule."""
        prim: Primitive = primitive
        level = self._level
        values: list[Any] = []
        batched: list[bool] = []
        size = 0
        any_batched = False
        for a in args:
            if type(a) is Batched:
                of_ours: TensorFields = a
                if of_ours._level == level:
                    values.append(of_ours._array)
                    batched.append(of_ours._aux is None)
                    if of_ours._aux is None and not any_batched:
                        any_batched = True
                        size = of_ours._array.shape[0]
                    continue
            values.append(a)
            batched.append(False)
        if not any_batched:
            out = apply(prim, values, params)
            size = self.batch_size
            if prim.multi:
                return tuple([Batched.shared(o, level, size) for o in out])
            return Batched.shared(out, level, size)
        rule = primitive.batch or _one_by_one  # that of a user's function is a method
        if prim.is_call:
            primitive.called_in(level, args)
        out = rule(prim, values, batched, size, params)
        if prim.multi:
            return tuple([Batched.make(_in_order(prim, o), level) for o in out])
        return new_tensor(Batched, out if prim.is_view else _in_order(prim, out), None, level)


def _in_order(prim: Primitive, result: Any) -> Any:
    """Rules move the batch to where it suits them; in memory it is outside, so that each example lies as by itself."""
    fields: TensorFields = result
    while isinstance(fields._array, TensorFields):
        fields = fields._array
    array = fields._array
    if table["is_contiguous"](array) or prim.is_view or not array.size:
        return result
    outer = array.ndim - len(result.shape)  # batches of vmaps further out
    if array.shape[outer] == 1:
        return result
    step = array.strides[outer]
    inside = zip(array.shape[outer + 1 :], array.strides[outer + 1 :], strict=True)
    return P.clone(result) if any(n > 1 and s > step for n, s in inside) else result


def _one_by_one(prim: Primitive, values: list[Any], batched: list[bool], size: int, params: dict[str, Any]) -> Any:
    """A primitive without a batching rule runs once for each example."""

    def example(i: int) -> Any:
        picked = [P.slice(v, index=(i,)) if b else v for v, b in zip(values, batched, strict=True)]
        return prim(*picked, **params)

    results = [example(i) for i in range(size)]
    return tuple(stacked(column) for column in zip(*results, strict=True)) if prim.multi else stacked(results)


def stacked(tensors: Sequence[Any]) -> Any:
    """One tensor with one more dimension in front."""
    return P.cat(*[P.reshape(t, shape=(1, *t.shape)) for t in tensors], dim=0)


def pick(tensor: Any, level: int, i: Any) -> Any:
    """One example of the vmap with this number, whatever later transforms have put around it."""
    if not isinstance(tensor, Kind) or tensor._level < level:
        return tensor
    if tensor._level == level:
        return tensor._array if tensor._aux is not None else tensor._array[i]
    return _inside(tensor, lambda inner, _: pick(inner, level, i))


def enclose(tensor: Tensor, level: int) -> Tensor:
    """Make dimension 0 the batch of the vmap with this number, below whatever later transforms have put around it."""
    if not isinstance(tensor, Kind) or tensor._level < level:
        return Batched.make(tensor, level)
    return _inside(tensor, lambda inner, batch: enclose(inner.movedim(1, 0) if batch else inner, level))


def reveal(tensor: Any, level: int, size: int) -> Any:
    """The reverse of `enclose`; what is the same for all examples repeats."""
    if isinstance(tensor, Kind) and tensor._level > level:
        return _inside(
            tensor,
            lambda inner, batch: reveal(inner, level, size).movedim(0, 1) if batch else reveal(inner, level, size),
        )
    if isinstance(tensor, Batched) and tensor._level == level:
        if tensor._aux is None:
            return tensor._array
        tensor = tensor._array
    return P.broadcast_to(tensor, shape=(size, *tensor.shape))


def _inside(tensor: Any, change: Callable[[Any, bool], Any]) -> Any:
    """A tensor of the same kind around other contents; `change` is told whether they have a batch in front."""
    out = tensor.shell()
    is_batch = isinstance(tensor, Batched) and tensor._aux is None
    out._array = change(tensor._array, is_batch)
    if isinstance(tensor._aux, Tensor):
        out._aux = change(tensor._aux, is_batch)
    return out
