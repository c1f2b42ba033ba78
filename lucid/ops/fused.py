"""Fused operations: a composite says what they compute, kernels compute it fast on plain arrays.

The composite is an ordinary function over other operations, so forward mode, batching and derivatives of derivatives
follow from it. The kernels serve what is done most: a result, and a first gradient on the tape.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.arguments.promotion import cast, raise_mixed
from lucid.core import dtypes, modes
from lucid.core.arrays import ARRAY, copy, shares_memory
from lucid.core.kernels import WithBackward, declared, has_own, reference
from lucid.core.levels import new_level
from lucid.core.node import Node, array_of, raise_if_freed, tensor_of
from lucid.core.primitive import Primitive, bare, element_type, lift, registry, variable
from lucid.core.tensor import Tensor
from lucid.kinds.batched import Batched
from lucid.kinds.dual import Dual
from lucid.kinds.kind import Kind
from lucid.ops.abstract import same
from lucid.ops.rules import zeros_like
from lucid.tape.engine import run

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_recording = modes.recording.get


def _apart(grads: list[Any]) -> list[Any]:
    """Cotangents of which no two share memory: a kernel may give one for several operands."""
    seen: list[Any] = []
    for i, g in enumerate(grads):
        if type(g) is ARRAY:
            if any(shares_memory(other, g) for other in seen):
                grads[i] = g = copy(g)
            seen.append(g)
    return grads


class Fused(Primitive):
    """A primitive with a definition, `composite(*operands, **params)`, and kernels for plain arrays.

    The kernels are those of `core.kernels.WithBackward`. Operands may be None. All of them are kept, for derivatives by
    the composite, and the residuals of the kernel where it has run.
    """

    composite: Callable[..., Any]

    def __init__(
        self,
        name: str,
        composite: Callable[..., Any],
        *,
        operands: Sequence[str],
        results: Sequence[str] = ("out",),
        batch: Callable[..., Any] | None = None,
        abstract: Callable[..., Any] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(
            name,
            operands=operands,
            results=results,
            jvp=_push_through_composite,
            batch=batch_by_composite if batch is None else batch,
            abstract=abstract,
            category="fused",
            composite=composite,
            **facts,
        )
        self.only_plan = self.plan_of(range(len(operands)))
        self.differentiable = self.gives_residuals = self.pulls_arrays = self.pulls_new = True

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        raise_if_freed(node)
        edges, residuals = node.edges, node.saved[len(self.names) :]
        cts = [ct.get(i) for i in range(len(self.results))] if self.multi else [ct]
        on_arrays = not any(isinstance(c, Tensor) for c in cts)
        if on_arrays and residuals:
            operands = [array_of(node, s) for s in node.saved[: len(edges)]]
            needs = [e is not None for e in edges]
            known = [array_of(node, s) for s in residuals]
            grads = self.kernel.backward(cts, operands, known, needs, **node.params)
            return _apart([g if need else None for g, need in zip(grads, needs)])
        if not on_arrays and has_own(self) and all(_is_flat(c) for c in cts):
            # A primitive too: one node, or one instruction, which the kernels compute.
            asked = tuple([e is not None for e in edges])
            operands = [tensor_of(node, s) for s in node.saved[: len(edges)]]
            gradients = iter(gradient_of(self, asked)(*cts, *operands, **node.params))
            return [next(gradients) if need else None for need in asked]
        found = self._pull_through_composite(node, cts)
        return _apart([bare(g) if on_arrays else g for g in found])

    def _pull_through_composite(self, node: Node, cts: Sequence[Any]) -> list[Any]:
        """Run the composite again, on the tape, and go back through it."""
        create = bool(_recording())
        lead = next((c for c in cts if isinstance(c, Tensor)), None)
        tensors = [tensor_of(node, s) for s in node.saved[: len(node.edges)]]
        recording = modes.recording.set(modes.recording_state(True))
        try:
            # Operands that nobody asks for now keep their history: where the pass is recorded, somebody may ask later.
            inputs: list[Any] = [
                _followed(t, lead) if edge is None else variable(_followed(t if create else _without_history(t), lead))
                for t, edge in zip(tensors, node.edges, strict=True)
            ]
            out = self.composite(*inputs, **node.params)
            pairs = [
                (o, lift(c)) for o, c in zip(out if self.multi else (out,), cts, strict=True)
                if c is not None and o.requires_grad
            ]  # fmt: skip
            wanted = [i for i, edge in zip(inputs, node.edges, strict=True) if edge is not None]
            outs, seeds = [o for o, _ in pairs], [c for _, c in pairs]
            found = run(outs, seeds, wanted, retain_graph=create, create_graph=create, accumulate=False)
        finally:
            modes.recording.reset(recording)
        # What does not depend on an operand changes by 0 with it.
        given = iter([zeros_like(i) if g is None else g for g, i in zip(found, wanted, strict=True)])
        return [None if edge is None else next(given) for edge in node.edges]


def _is_flat(ct: Any) -> bool:
    """Whether a cotangent is a plain tensor, or one of a program, and no batch or pair of tensors."""
    return not isinstance(ct, Kind) or getattr(ct, "writes_down", False)


class Gradient(Fused):
    """The first derivative of a fused primitive as a primitive of its own: cotangents and operands give cotangents.

    It stands in programs. Its kernel is that of the derivative; its own derivatives are those of the composite.
    """

    def __init__(self, of: Fused, needs: tuple[bool, ...]) -> None:
        asked = [name for name, need in zip(of.operands, needs) if need]
        super().__init__(
            f"{of.name}_gradient_by_{'_and_'.join(asked)}",  # kernels are found by it
            self._composed,
            operands=(*[f"ct_{r}" for r in of.results], *of.operands),
            results=[f"ct_{name}" for name in asked],
            abstract=self._abstract,
        )
        registry.pop(self.name)  # it belongs to programs, and is no operation that anybody calls by name
        declared.pop(self.name)  # it keeps its kernel, whatever backends get under this name
        self.of, self.needs = of, needs
        self.multi = True
        self.kernel = WithBackward(self._forward, self._backward)

    def _abstract(self, *operands: Any, **params: Any) -> tuple[Any, ...]:
        values = operands[len(self.of.results) :]
        return tuple([same(x) for x, need in zip(values, self.needs, strict=True) if need])

    def _composed(self, *given: Any, **params: Any) -> tuple[Any, ...]:
        return self.pulled(self.of.composite, *given, **params)

    def pulled(self, composite: Callable[..., Any], *given: Any, **params: Any) -> tuple[Any, ...]:
        """A composite, and back through it; recorded if somebody wants to go back through that."""
        count = len(self.of.results)
        cts, operands = given[:count], given[count:]
        recording = modes.recording.set(modes.recording_state(True))
        try:
            inputs = [variable(o) if need else o for o, need in zip(operands, self.needs, strict=True)]
            out = composite(*inputs, **params)
            pairs = [(o, c) for o, c in zip(out if self.of.multi else (out,), cts) if c is not None and o.requires_grad]
            wanted = [i for i, need in zip(inputs, self.needs) if need]
            outs, seeds = [o for o, _ in pairs], [c for _, c in pairs]
            found = run(outs, seeds, wanted, retain_graph=True, create_graph=True, accumulate=False)
        finally:
            modes.recording.reset(recording)
        return tuple([zeros_like(i) if g is None else g for g, i in zip(found, wanted)])

    def _forward(self, *arrays: Any, **params: Any) -> tuple[Any, tuple[()]]:
        count = len(self.of.results)
        cts, operands = arrays[:count], arrays[count:]
        _, residuals = self.of.kernel.forward(*operands, **params)
        return self.from_residuals(cts, operands, residuals, params), ()

    def from_residuals(self, cts: Any, operands: Any, residuals: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        """The cotangents of arrays, with what the kernel has kept."""
        if not residuals:
            found: tuple[Any, ...] = reference(self).forward(*cts, *operands, **params)[0]
            return found
        grads = self.of.kernel.backward(list(cts), list(operands), residuals, list(self.needs), **params)
        return tuple(_apart([g for g, need in zip(grads, self.needs, strict=True) if need]))

    def _backward(self, *given: Any, **params: Any) -> Any:
        raise AssertionError("without residuals, the derivative is the composite's")


_gradients: dict[tuple[str, tuple[bool, ...]], Gradient] = {}


def gradient_of(primitive: Fused, needs: tuple[bool, ...]) -> Gradient:
    """The derivative of a fused primitive by those of its operands that are needed, as a primitive."""
    key = (primitive.name, needs)
    found = _gradients.get(key)
    if found is None:
        found = _gradients.setdefault(key, Gradient(primitive, needs))
    return found


def _without_history(operand: Any) -> Any:
    """The same memory without history."""
    out = operand.shell()
    out._born = operand._born
    return out


def _followed(operand: Any, ct: Any) -> Any:
    """An operand as the cotangent's kind wants it: a program then has all that the composite makes of it."""
    return operand if operand is None or ct is None or operand._requires_grad else ct.seeded(operand)


def _push_through_composite(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """Forward mode: the composite on dual tensors."""
    level = new_level()
    duals = [p if t is None else Dual.make(p, t, level) for p, t in zip(primals, tangents, strict=True)]
    found = prim.composite(*duals, **params)
    changes = [
        o._aux if isinstance(o, Dual) and o._level == level else None for o in (found if prim.multi else (found,))
    ]
    return tuple(changes) if prim.multi else changes[0]


def batch_by_composite(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """Batching: the composite on batched tensors."""
    level = new_level()
    found = prim.composite(
        *[Batched.make(v, level) if b else v for v, b in zip(values, batched, strict=True)], **params
    )
    wholes = [_whole(o, level, size) for o in (found if prim.multi else (found,))]
    return tuple(wholes) if prim.multi else wholes[0]


def _whole(out: Any, level: int, size: int) -> Any:
    if isinstance(out, Batched) and out._level == level:
        if out._aux is None:
            return out._array
        out = out._array
    return out.expand(size, *out.shape)


def in_working_type(name: str, *args: Any) -> tuple[list[Any], np.dtype[Any]]:
    """Operands in the type to compute in, and the type of the result, which is that of the first.

    Double precision stands alone; all else is computed in single precision. None stays None.
    """
    tensors: list[Any] = [a if a is None or isinstance(a, Tensor) else lift(a) for a in args]
    kind: np.dtype[Any] = element_type(tensors[0])
    working = _F64 if kind == _F64 else _F32
    for k, t in enumerate(tensors):
        own = working if t is None else element_type(t)
        if own is working or own == working:
            continue
        if working is _F64 or own == _F64 or own not in dtypes.FLOATING:
            raise_mixed(name, tensors)
        tensors[k] = cast(t, working)
    return tensors, kind


def given_back(out: Any, kind: np.dtype[Any]) -> Any:
    """A result in the type that the operands had."""
    own = element_type(out)
    return out if own is kind or own == kind else cast(out, kind)
