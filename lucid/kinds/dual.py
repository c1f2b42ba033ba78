# cython: annotation_typing=True
"""The kind of tensor inside `jvp`: a value together with its tangent."""

from collections.abc import Sequence
from typing import Any

from lucid.core.arrays import ARRAY, assign, copy, empty_in_order, owns_memory, zeros
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import new_tensor
from lucid.core.primitive import lift
from lucid.core.storage import Storage, View, storage_of
from lucid.core.tensor import Tensor, shape_of
from lucid.kinds.kind import Kind, bottom

_wrap = Tensor._wrap


class Dual(Kind):
    """Holds a primal tensor and its tangent, which may be None for zero."""

    __slots__ = ()
    transform_name = "jvp"

    @staticmethod
    def make(primal: Tensor, tangent: Tensor | None, level: int) -> "Dual":
        out: Dual = new_tensor(Dual, primal, tangent, level)
        return out

    def shell(self) -> "Dual":
        return Dual.make(self._array, self._aux, self._level)

    splits_memory = False

    def _new_storage(self) -> Storage:
        # What is detached is the primal: writes to it count as writes to this tensor.
        return storage_of(self._array)

    def _detached_contents(self) -> Tensor:
        storage_of(self)
        detached: Tensor = self._array.detach()
        detached._meta.storage.show(detached, self)
        return detached

    def sever(self) -> None:
        self._array, self._aux = self._array.detach(), None

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self._array)

    def _held_array(self, wanted_by: str) -> Any:
        return self._array._held_array(wanted_by)

    def settled(self) -> Tensor:
        primal: Tensor = self._array
        return primal

    def _copy_contents(self) -> None:
        self._array = self._array.clone()
        self._aux = None if self._aux is None else self._aux.clone()

    def absorb(self, target: Tensor) -> None:
        inner = target._array
        if not isinstance(target, Dual) or target._level != self._level:
            inner = target.shell()
            inner._node, inner._requires_grad = target._node, target._requires_grad
            inner._meta = storage_of(target)
            target.__class__ = Dual
        tangent = Tensor._wrap(zeros(inner.shape, inner.np_dtype))
        target._array, target._aux, target._level = inner, tangent, self._level

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is; if views of it may have to see a tangent, not."""
        if not isinstance(new, Dual) or new._level != self._level:
            return getattr(new, "_level", 0) < self._level
        return self._aux is not None or new._aux is None or self._meta is None

    def _write(self, new: Tensor, name: str) -> None:
        if isinstance(new, Dual) and new._level == self._level:
            self._write_tangent(new._aux)
            self._array.copy_(new._array)
        else:
            self._write_tangent(None)
            self._array.copy_(new)

    def _write_tangent(self, tangent: Tensor | None) -> None:
        if self._aux is not None:
            self._aux.copy_(0 if tangent is None else tangent)
        elif tangent is not None:
            self._aux = tangent.clone()

    def describe_contents(self, prefix: str) -> str:
        return f"primal={self._array!r}, tangent={self._aux!r}"

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        super()._raise_unless_replaceable(value)
        if self._aux is not None and value.shape != self.shape:
            raise RuntimeError(
                f".data: a tensor with a tangent keeps its shape {self.shape}, which is not {value.shape}"
            )

    def interpret(self, prim: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on the primals, and its forward rule on the tangents."""
        level = self._level
        primals: list[Any] = []
        tangents: list[Any] = []
        live = False
        for a in args:
            if isinstance(a, Dual) and a._level == level:
                if prim.is_view and a._aux is not None and not (a.is_view() and not a._meta.others):
                    a._aux = _laid_out_like(a._array, a._aux)
                primals.append(a._array)
                tangents.append(a._aux)
                live = live or a._aux is not None
            else:
                primals.append(a)
                tangents.append(None)
        if not live or not prim.differentiable:
            out = prim(*primals, **params)
            changes: Any = [None] * len(out) if prim.multi else None
        else:
            out = prim(*primals, **params)
            rule_args = [p if isinstance(p, Tensor) or not hasattr(p, "dtype") else lift(p) for p in primals]
            changes = prim.jvp(prim, rule_args, tangents, out, params)
            if not prim.is_view or not isinstance(out._meta, View):
                changes = [_own(c, tangents) for c in changes] if prim.multi else _own(changes, tangents)
        if prim.multi:
            return tuple([_dual(o, c, level) for o, c in zip(out, changes, strict=True)])
        return _dual(out, changes, level)


def _laid_out_like(primal: Tensor, tangent: Tensor) -> Tensor:
    """The tangent with its elements in the order of the primal's, so that both are seen through views alike.

    Either may have batches in front of the dimensions that the other has too.
    """
    shape = shape_of(primal)
    rank = len(shape)
    given, other = bottom(primal), bottom(tangent)
    steps, lead = given.strides[given.ndim - rank :], other.ndim - rank
    own = other.strides[lead:]
    order = sorted(range(rank), key=lambda d: (-abs(steps[d]), d))
    if 0 in steps or all(n == 1 or a == b for n, a, b in zip(shape, own, steps)) or _is_dense(shape, own, order):
        return tangent
    out = tangent.clone()
    inside: Any = out
    while inside._level:
        inside = inside._array
    dims = [*range(lead), *[lead + d for d in order]]
    inside._array = empty_in_order(other.shape, other.dtype, dims)
    assign(inside._array, other)
    return out


def _is_dense(shape: tuple[int, ...], steps: tuple[int, ...], order: list[int]) -> bool:
    """Whether elements lie without gaps, the last of these dimensions innermost."""
    expected = 0
    for d in reversed(order):
        if shape[d] == 1:
            continue
        if expected and steps[d] != expected:
            return False
        expected = steps[d] * shape[d]
    return True


def _own(change: Any, tangents: list[Any]) -> Any:
    """A tangent in memory of its own: rules may hand on what they were given, and a result may be written to."""
    if change is None:
        return None
    if isinstance(change, Tensor):
        shared = isinstance(change._meta, View) or any(change is t for t in tangents)
        return change.clone() if shared else change
    shared = type(change) is ARRAY and (not owns_memory(change) or any(change is t for t in tangents))
    return _wrap(copy(change) if shared else change)


def _dual(out: Tensor, tangent: Any, level: int) -> Dual:
    return Dual.make(out, tangent if out.np_dtype in DIFFERENTIABLE else None, level)
