"""The kind of tensor inside `vmap`: one example as seen by the user, all of them in memory."""

from collections.abc import Sequence
from typing import Any, NoReturn

from lucid.core.kind import Kind
from lucid.core.place import here
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor

_new = object.__new__


class Batched(Kind):
    """Holds a tensor whose dimension 0 is the batch; its shape is that of one example."""

    __slots__ = ()

    @staticmethod
    def make(value: Tensor, level: int) -> "Batched":
        out = _new(Batched)
        out._array = value
        out._level = level
        out._requires_grad = False
        out._grad = out._node = out._meta = None
        return out

    def shell(self) -> "Batched":
        return Batched.make(self._array, self._level)

    def _detached(self) -> "Batched":
        return Batched.make(self._array.detach(), self._level)

    @property
    def batch_size(self) -> int:
        size: int = self._array.shape[0]
        return size

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._array.shape[1:]
        return shape

    def _concrete(self, wanted_by: str) -> NoReturn:
        raise RuntimeError(
            f"{wanted_by} needs one concrete value, but inside vmap this tensor stands for {self.batch_size} examples "
            f"at once (at {here()}). Use lucid.where instead of `if`, and tensor operations instead of Python numbers."
        )

    def _copy_contents(self) -> None:
        self._array = self._array.clone()

    def _write(self, new: Tensor, name: str) -> None:
        if isinstance(new, Batched) and new._level == self._level:
            self._array.copy_(new._array)
        elif getattr(new, "_level", 0) < self._level:
            self._array.copy_(new)
        else:
            new._raise_escape(self, name)

    def describe_contents(self, prefix: str) -> str:
        return f"{self.batch_size} examples of shape {self.shape}: {self._array!r}"

    def interpret(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on all examples at once, by its batching rule."""
        level, size = self._level, self.batch_size
        batched = [isinstance(a, Batched) and a._level == level for a in args]
        values = [a._array if b else a for a, b in zip(args, batched, strict=True)]
        if prim.batch is not None:
            out = prim.batch(prim, values, batched, size, params)
        else:
            out = _one_by_one(prim, values, batched, size, params)
        if prim.multi:
            return tuple(Batched.make(o, level) for o in out)
        return Batched.make(out, level)


def _one_by_one(prim: Primitive, values: list[Any], batched: list[bool], size: int, params: dict[str, Any]) -> Any:
    """A primitive without a batching rule runs once for each example."""
    from lucid.core.primitive import registry

    read, join, reshape = registry["slice"], registry["cat"], registry["reshape"]

    def example(i: int) -> Any:
        picked = [read(v, index=(i,)) if b else v for v, b in zip(values, batched, strict=True)]
        return prim(*picked, **params)

    results = [example(i) for i in range(size)]
    columns = list(zip(*results, strict=True)) if prim.multi else [results]
    stacked = [join(*[reshape(r, shape=(1, *r.shape)) for r in column], dim=0) for column in columns]
    return tuple(stacked) if prim.multi else stacked[0]
