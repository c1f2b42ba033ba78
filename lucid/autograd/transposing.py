"""Forward mode of custom functions that have only a backward."""

from collections.abc import Sequence
from typing import Any

from lucid.autograd.dependencies import leads_outside
from lucid.core import modes
from lucid.core.arrays import unit, zeros
from lucid.core.fields import TensorFields
from lucid.core.primitive import P, edge_of, synced, variable
from lucid.core.tensor import Tensor
from lucid.tape.engine import run


def _present(tangents: list[Any]) -> list[Any]:
    return [t for t in tangents if t is not None]


def _reaches(gradient: Any, seeds: list[Any]) -> bool:
    """Whether a gradient leads back to one of the seeds that it was made from."""
    ends = {id(s) for s in seeds}
    frontier = [edge_of(gradient)] if gradient.requires_grad else []
    seen: set[int] = set()
    while frontier:
        edge = frontier.pop()
        if id(edge) in ends:
            return True
        if id(edge) not in seen and edge._seq and not hasattr(edge.prim, "refuses"):
            seen.add(id(edge))
            frontier.extend([e for e in edge.edges if e is not None])
    return False


def _total(a: Any, b: Any) -> Any:
    return b if a is None else a + b


def _element_by_element(outs: list[Any], pairs: list[Any], create_graph: bool) -> list[Any]:
    """The tangents by one backward pass for each element, for a backward that goes through NumPy."""
    changes = []
    for out in outs:
        found = []
        for i in range(out.numel()):
            seed = Tensor._wrap(unit(out.shape, i, out.np_dtype))
            inputs = [w for w, _ in pairs]
            rows = run([out], [seed], inputs, retain_graph=True, create_graph=create_graph, accumulate=False)
            terms = [(r.conj() * t).sum() for r, (_, t) in zip(rows, pairs, strict=True) if r is not None]
            found.append(sum(terms[1:], terms[0]).reshape(1) if terms else Tensor._wrap(zeros(1, out.np_dtype)))
        changes.append(
            P.cat(*found, dim=0).reshape(out.shape) if found else Tensor._wrap(zeros(out.shape, out.np_dtype))
        )
    return changes


def by_transposing(prim: Any, primals: list[Any], tangents: list[Any], out: Any, params: dict[str, Any]) -> Any:
    """Forward mode by transposing the transpose.

    The pulled-back cotangent is linear in the cotangent, so differentiating <pull(u), t> by u gives the tangent.
    """
    prim.raise_if_dirty("in forward mode, unless the Function has a jvp")
    outer = bool(modes.recording.get()) and not _plain_arrays([*primals, *tangents])
    token = modes.recording.set(modes.recording_state(True))
    try:
        inputs = [variable(p) if t is not None else p for p, t in zip(primals, tangents, strict=True)]
        wanted = [i for i, t in zip(inputs, tangents, strict=True) if t is not None]
        outs = prim(*inputs, **params)
        live = [o for o in outs if o.requires_grad]
        seeds = [(o.detach() * 0).requires_grad_() for o in live]
        pulled = run(live, seeds, wanted, retain_graph=True, create_graph=True, accumulate=False)
        pairs = [(g, t) for g, t in zip(pulled, _present(tangents), strict=True) if g is not None]
        linked = [(g, t) for g, t in pairs if _reaches(g, seeds)]
        results: list[Any] = [None] * len(live)
        if linked:
            results = run(
                [g for g, _ in linked],
                [t for _, t in linked],
                seeds,
                retain_graph=True,
                create_graph=True,
                accumulate=False,
            )
        if len(linked) < len(pairs):
            heads = [g for g, _ in linked]
            apart = [
                (w, t)
                for w, g, t in zip(wanted, pulled, _present(tangents), strict=True)
                if g is not None and not any(g is h for h in heads)
            ]
            results = [_total(r, e) for r, e in zip(results, _element_by_element(live, apart, outer), strict=True)]
    finally:
        modes.recording.reset(token)
    found = iter(results)
    changes = [next(found) if o.requires_grad else None for o in outs]
    # The variables and seeds were only needed here.
    return [c if c is None or leads_outside([c], [*wanted, *seeds]) else c.shell() for c in changes]


def _plain_arrays(values: Sequence[Any]) -> bool:
    """Whether nothing among the values is recorded or of another kind, so that rules may run on bare arrays."""
    for v in values:
        if isinstance(v, TensorFields):
            fields: TensorFields = v
            if fields._level:
                return False
            if fields._meta is not None:
                synced(v)  # a view's history depends on what was written to its memory
            if fields._requires_grad:
                return False
    return True
