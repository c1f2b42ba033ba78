"""The kind of tensor inside `jvp`: a value together with its tangent."""

from collections.abc import Sequence
from typing import Any

from lucid.core import modes
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.kind import Kind
from lucid.core.primitive import Primitive, lift, variable
from lucid.core.tensor import Tensor

_new = object.__new__


class Dual(Kind):
    """Holds a primal tensor and its tangent, which may be None for zero."""

    __slots__ = ()

    @staticmethod
    def make(primal: Tensor, tangent: Tensor | None, level: int) -> "Dual":
        out = _new(Dual)
        out._array = primal
        out._aux = tangent
        out._level = level
        out._requires_grad = False
        out._grad = out._node = out._meta = None
        return out

    def shell(self) -> "Dual":
        return Dual.make(self._array, self._aux, self._level)

    def _detached(self) -> Tensor:
        detached: Tensor = self._array.detach()
        return detached

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._array.shape
        return shape

    def _concrete(self, wanted_by: str) -> Any:
        return self._array._concrete(wanted_by)

    def _copy_contents(self) -> None:
        self._array = self._array.clone()
        self._aux = None if self._aux is None else self._aux.clone()

    def _write(self, new: Tensor, name: str) -> None:
        if isinstance(new, Dual) and new._level == self._level:
            self._write_tangent(new._aux)
            self._array.copy_(new._array)
        elif getattr(new, "_level", 0) < self._level:
            self._write_tangent(None)
            self._array.copy_(new)
        else:
            new._raise_escape(self, name)

    def _write_tangent(self, tangent: Tensor | None) -> None:
        if self._aux is not None:
            self._aux.copy_(0 if tangent is None else tangent)
        elif tangent is not None:
            self._aux = tangent.clone()

    def describe_contents(self, prefix: str) -> str:
        return f"primal={self._array!r}, tangent={self._aux!r}"

    def interpret(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on the primals, and its forward rule on the tangents."""
        level = self._level
        duals = [isinstance(a, Dual) and a._level == level for a in args]
        primals = [a._array if d else a for a, d in zip(args, duals, strict=True)]
        tangents = [a._aux if d else None for a, d in zip(args, duals, strict=True)]
        out = prim(*primals, **params)
        if all(t is None for t in tangents) or not prim.differentiable:
            changes: Any = [None] * len(out) if prim.multi else None
        elif prim.jvp is not None:
            rule_args = [p if isinstance(p, Tensor) or not hasattr(p, "dtype") else lift(p) for p in primals]
            changes = prim.jvp(prim, rule_args, tangents, out, params)
        else:
            changes = _by_transposing(prim, primals, tangents, params)
        if prim.multi:
            return tuple(_dual(o, c, level) for o, c in zip(out, changes, strict=True))
        return _dual(out, changes, level)


def _dual(out: Tensor, tangent: Any, level: int) -> Dual:
    return Dual.make(out, tangent if out.np_dtype in DIFFERENTIABLE else None, level)


def _by_transposing(prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
    """Forward mode of a primitive that has only a reverse rule: transpose its transpose.

    The pulled-back cotangent is linear in the cotangent, so differentiating <pull(u), t> by u gives the tangent.
    """
    from lucid.core.engine import run

    token = modes.recording.set(modes.recording_state(True))
    arrays = modes.on_arrays.set(False)
    try:
        inputs = [variable(p) if t is not None else p for p, t in zip(primals, tangents, strict=True)]
        wanted = [i for i, t in zip(inputs, tangents, strict=True) if t is not None]
        outs = prim(*inputs, **params)
        outs = list(outs) if prim.multi else [outs]
        live = [o for o in outs if o.requires_grad]
        seeds = [(o.detach() * 0).requires_grad_() for o in live]
        pulled = run(live, seeds, wanted, retain_graph=True, create_graph=True, accumulate=False)
        pairs = [(g, t) for g, t in zip(pulled, [t for t in tangents if t is not None], strict=True) if g is not None]
        results = run(
            [g for g, _ in pairs], [t for _, t in pairs], seeds, retain_graph=False, create_graph=True, accumulate=False
        )
    finally:
        modes.on_arrays.reset(arrays)
        modes.recording.reset(token)
    found = iter(results)
    changes = [next(found) if o.requires_grad else None for o in outs]
    return changes if prim.multi else changes[0]
