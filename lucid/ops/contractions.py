"""Sums of products over labelled dimensions."""

from typing import Any

from lucid.ops.abstract import Abstract, common
from lucid.ops.products import matmul as matmul
from lucid.ops.rules import P, Variadic, add_all, each, sum_to


def _einsum_pull(i: int, ct: Any, args: Any, shapes: Any, params: Any) -> Any:
    """Swap the labels of operand and result; labels that only the operand has are spread."""
    inputs, output = params["spec"].split("->")
    labels = inputs.split(",")
    mine = labels[i]
    others = [P.conj(a) if a.dtype.kind == "c" else a for k, a in enumerate(args or ()) if k != i]
    known = set(output).union(*[set(s) for k, s in enumerate(labels) if k != i])
    unique = "".join(dict.fromkeys(mine))
    reachable = "".join(c for c in unique if c in known)
    sizes = dict(zip(mine, shapes[i], strict=True))
    spec = ",".join([output, *[s for k, s in enumerate(labels) if k != i]]) + "->" + reachable
    g = P.einsum(ct, *others, spec=spec)
    if reachable != unique:
        g = P.reshape(g, shape=tuple(sizes[c] if c in known else 1 for c in unique))
        g = P.broadcast_to(g, shape=tuple(sizes[c] for c in unique))
    # Sizes of 1 that the others broadcast against come back summed.
    g = sum_to(g, tuple(sizes[c] for c in unique))
    return _onto_diagonals(g, unique, mine, sizes)


def _onto_diagonals(g: Any, unique: str, labels: str, sizes: dict[str, int]) -> Any:
    """A label that occurs twice read a diagonal: put the cotangent back onto it."""
    have = unique
    for c in unique:
        for _ in range(labels.count(c) - 1):
            at = have.index(c)
            shape = (*(sizes[h] for h in have), sizes[c])
            # The diagonal of dims (at, last) is the last dimension of what is put back.
            order = (*(d for d in range(len(have)) if d != at), at)
            g = P.diagonal_back(P.permute(g, dims=order), shape=shape, offset=0, dim1=at, dim2=len(have))
            have += c
    remaining = list(have)
    places: list[int] = []
    for c in labels:
        at = remaining.index(c)
        places.append(at)
        remaining[at] = ""
    return P.permute(g, dims=tuple(places))


def _einsum_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return add_all(
        [P.einsum(*primals[:i], t, *primals[i + 1 :], **params) for i, t in enumerate(tangents) if t is not None]
    )


def _batch_einsum(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """One more label on every batched operand and on the result."""
    inputs, output = params["spec"].split("->")
    free = next(c for c in LETTERS if c not in params["spec"])
    labels = [free + s if b else s for s, b in zip(inputs.split(","), batched, strict=True)]
    return P.einsum(*values, spec=",".join(labels) + "->" + free + output)


def _einsum_abstract(*xs: Abstract, spec: str) -> Abstract:
    """Of the sizes that a label stands for, those of 1 are broadcast."""
    inputs, output = spec.split("->")
    sizes: dict[str, int] = {}
    for labels, x in zip(inputs.split(","), xs, strict=True):
        sizes |= {c: n for c, n in zip(labels, x.shape, strict=True) if n != 1 or c not in sizes}
    return Abstract(tuple([sizes[c] for c in output]), common(*xs))


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

einsum_primitive = Variadic(
    "einsum",
    each(_einsum_pull),
    jvp=_einsum_jvp,
    batch=_batch_einsum,
    # All but itself: with two that need a gradient, all.
    reads=lambda needed, count: range(count) if len(needed) > 1 else [k for k in range(count) if k != needed[0]],
    abstract=_einsum_abstract,
)
