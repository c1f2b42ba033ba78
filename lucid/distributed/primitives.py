"""Collectives as primitives: linear, with another collective as transpose, and with an effect, so that in a program they
are neither dropped nor moved past each other.

Derivatives are those of the sum of what the members differentiate: each member asks for the gradient of its own loss, and
gets the derivative of the sum of all losses by what it has. `all_reduce`, a sum that every member uses, therefore has itself
as transpose. The pair `replicate` and `reduce_once` is for values that are the same everywhere and counted once: what is
computed of a replicated value differs between members, so its cotangents are summed; a sum whose users all do the same
hands its cotangent on.

    all_reduce ↔ itself            broadcast ↔ reduce       replicate ↔ reduce_once
    all_gather ↔ reduce_scatter    gather ↔ scatter         permute ↔ the inverse permutation
    all_to_all ↔ itself

Where members have an operand or result of several parts, one for each member, they are along dimension 0.
"""

from collections.abc import Callable
from typing import Any

from lucid.core.arrays import copy, empty, zeros
from lucid.core.kernels import fill
from lucid.core.primitive import P, Primitive, registry
from lucid.distributed.calls import MOST_TAG, started
from lucid.distributed.engines.engine import Pending, ReduceOp
from lucid.distributed.groups import ProcessGroup, chosen
from lucid.distributed.memory import described
from lucid.ops.abstract import Abstract, same

_TAG = MOST_TAG + 4


class Collective(Primitive):
    """A linear function of what all members have: it must run in each of them, and in order."""

    lasting = True

    def __init__(self, name: str, kernel: Any, transpose: Callable[..., Any], batch: Any, abstract: Any) -> None:
        fill({name: kernel})
        super().__init__(
            name,
            rules=(transpose,),
            jvp=lambda prim, primals, tangents, out, params: prim(tangents[0], **params),
            batch=batch,
            abstract=abstract,
            reason="other processes",
            linear_in=(0,),
        )
        registry.pop(name)  # what it gives depends on other processes, so it is none of the operations that are sampled

    def effects(self, group: ProcessGroup, **params: Any) -> tuple[tuple[str, Any], ...]:
        return (("exchange", group),)


def _called(name: str, array: Any, group: ProcessGroup, start: Callable[[], Pending], root: int | None = None) -> None:
    whom = "" if root is None else f", {group.ranks[root]}"
    started(f"functional.{name}({described(array)}{whom})", chosen(group), start)


def _same_shape(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(values[0], **params)


def _swapped(x: Any) -> Any:
    return P.permute(x, dims=(1, 0, *range(2, x.ndim)))


def _parts_out(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return _swapped(prim(values[0], **params))


def _parts_in(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(_swapped(values[0]), **params)


def _parts_through(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return _swapped(prim(_swapped(values[0]), **params))


def _gathered(x: Abstract, group: ProcessGroup, **params: Any) -> Abstract:
    return Abstract((group.size(), *x.shape), x.dtype)


def _one_part(x: Abstract, group: ProcessGroup, **params: Any) -> Abstract:
    return Abstract(x.shape[1:], x.dtype)


def _flat(array: Any) -> Any:
    """The elements of an array in row-major order: its own memory if they lie so."""
    return array.reshape(-1)


def _all_reduce(x: Any, group: ProcessGroup) -> Any:
    out = copy(x)
    _called("all_reduce", x, group, lambda: group.engine.all_reduce(_flat(out), ReduceOp.SUM))
    return out


def _all_gather(x: Any, group: ProcessGroup) -> Any:
    out = empty((group.size(), *x.shape), x.dtype)
    _called("all_gather", x, group, lambda: group.engine.all_gather(_flat(x), _flat(out)))
    return out


def _reduce_scatter(x: Any, group: ProcessGroup) -> Any:
    out = empty(x.shape[1:], x.dtype)
    _called("reduce_scatter", x, group, lambda: group.engine.reduce_scatter(_flat(x), _flat(out), ReduceOp.SUM))
    return out


def _all_to_all(x: Any, group: ProcessGroup) -> Any:
    out = empty(x.shape, x.dtype)
    _called("all_to_all", x, group, lambda: group.engine.all_to_all(_flat(x), _flat(out)))
    return out


def _broadcast(x: Any, root: int, group: ProcessGroup) -> Any:
    out = copy(x)
    _called("broadcast", x, group, lambda: group.engine.broadcast(_flat(out), root), root)
    return out


def _reduce(x: Any, root: int, group: ProcessGroup) -> Any:
    out = copy(x)
    _called("reduce", x, group, lambda: group.engine.reduce(_flat(out), ReduceOp.SUM, root), root)
    return out if group.rank() == root else zeros(x.shape, x.dtype)


def _gather(x: Any, root: int, group: ProcessGroup) -> Any:
    out = zeros((group.size(), *x.shape), x.dtype)
    target = _flat(out) if group.rank() == root else None
    _called("gather", x, group, lambda: group.engine.gather(_flat(x), target, root), root)
    return out


def _scatter(x: Any, root: int, group: ProcessGroup) -> Any:
    out = empty(x.shape[1:], x.dtype)
    source = _flat(x) if group.rank() == root else None
    _called("scatter", x, group, lambda: group.engine.scatter(source, _flat(out), root), root)
    return out


class _All(Pending):
    """Several messages."""

    def __init__(self, parts: list[Pending]) -> None:
        self.parts = parts

    def done(self) -> bool:
        self.parts = [p for p in self.parts if not p.done()]
        return not self.parts


def _permute(x: Any, pairs: tuple[tuple[int, int], ...], group: ProcessGroup) -> Any:
    out, rank, engine = zeros(x.shape, x.dtype), group.rank(), group.engine

    def start() -> Pending:
        taken: list[Pending] = [engine.recv(_flat(out), a, _TAG) for a, b in pairs if b == rank]
        return _All(taken + [engine.send(_flat(x), b, _TAG) for a, b in pairs if a == rank])

    started(f"functional.permute({described(x)}, {list(pairs)})", chosen(group), start)
    return out


all_reduce: Collective = Collective(
    "all_reduce", _all_reduce, lambda ct, group: all_reduce(ct, group=group), _same_shape, same
)
all_gather: Collective = Collective(
    "all_gather", _all_gather, lambda ct, group: reduce_scatter(ct, group=group), _parts_out, _gathered
)
reduce_scatter: Collective = Collective(
    "reduce_scatter", _reduce_scatter, lambda ct, group: all_gather(ct, group=group), _parts_in, _one_part
)
all_to_all: Collective = Collective(
    "all_to_all", _all_to_all, lambda ct, group: all_to_all(ct, group=group), _parts_through, same
)
broadcast: Collective = Collective(
    "broadcast_from", _broadcast, lambda ct, root, group: reduce(ct, root=root, group=group), _same_shape, same
)
reduce: Collective = Collective(
    "reduce_to", _reduce, lambda ct, root, group: broadcast(ct, root=root, group=group), _same_shape, same
)
gather: Collective = Collective(
    "gather_to", _gather, lambda ct, root, group: scatter(ct, root=root, group=group), _parts_out, _gathered
)
scatter: Collective = Collective(
    "scatter_from", _scatter, lambda ct, root, group: gather(ct, root=root, group=group), _parts_in, _one_part
)
permute: Collective = Collective(
    "permute_members",
    _permute,
    lambda ct, pairs, group: permute(ct, pairs=tuple((b, a) for a, b in pairs), group=group),
    _same_shape,
    same,
)


# Not an exchange by itself, but its transpose is one.
replicate: Collective = Collective(
    "replicate", lambda x, group: copy(x), lambda ct, group: reduce_once(ct, group=group), _same_shape, same
)
reduce_once: Collective = Collective(
    "reduce_once", _all_reduce, lambda ct, group: replicate(ct, group=group), _same_shape, same
)
