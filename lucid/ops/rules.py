# cython: annotation_typing=True
"""What each category of primitive derives from its declaration: reverse mode, forward mode, batching.

Rules are written in terms of primitives and work on tensors of every kind: plain ones compute or
record, batched and dual ones batch and push forward. `P.name` is the primitive called `name`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lucid.core.fields import TensorFields
from lucid.core.node import ABSENT, Node, save_input
from lucid.core.primitive import P, Primitive, Rule, apply, bare, element_type, saved_at, unpack, wrapped
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.abstract import Abstract, broadcast, common, reduced

Impl = Callable[..., Any]
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum `x` down to `shape`."""
    have = x.shape
    if have == shape:
        return x
    extra = len(have) - len(shape)
    dims = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and have[i + extra] != 1))
    if dims:
        x = P.sum(x, dims=dims, keepdim=False)
    return x if x.shape == shape else P.reshape(x, shape=shape)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else P.broadcast_to(x, shape=shape)


def zeros_like(x: Any) -> Any:
    """Zeros that are connected to nothing, for derivatives that vanish."""
    return Tensor._wrap(np.zeros(x.shape, x.np_dtype))


def ones_like(x: Any) -> Any:
    """Ones that are connected to nothing."""
    return Tensor._wrap(np.ones(x.shape, x.np_dtype))


def np_dtype(x: Any) -> np.dtype[Any]:
    """The NumPy type of a tensor."""
    found: np.dtype[Any] = element_type(x)
    return found


def is_complex(x: Any) -> bool:
    return bool(element_type(x).kind == "c")


def conj(x: Any) -> Any:
    """The conjugate of what is complex."""
    return P.conj(x) if is_complex(x) else x


def chained(change: Any, derivative: Any) -> Any:
    """The product of the chain rule: exactly 0 where the change is 0, also if the derivative is infinite or nan.

    So the branch that `where` does not select contributes nothing. The product is bilinear and differentiated as one:
    by the change the derivative is `derivative` also where the change is 0.
    """
    return P.chain.public(change, derivative)


def chained_both(change: Any, other: Any) -> Any:
    """The same for a derivative that is a change itself: exactly 0 where either is 0."""
    return P.chain_both.public(change, other)


def times(ct: Any, derivative: Any) -> Any:
    """`ct` scaled for the reverse direction: complex derivatives enter conjugated."""
    return chained(ct, conjugate_for(ct, derivative))


def conjugate_for(ct: Any, derivative: Any) -> Any:
    """What a cotangent is multiplied by."""
    return derivative.conjugate() if is_complex(ct) else derivative


def add_all(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


# --- elementwise -------------------------------------------------------------------------------


class Change:
    """A partial derivative that is a change, as in the product of the chain rule by its derivative; `read` gives it."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self.read = read


class Selects:
    """A partial derivative that is 1 where the condition holds and exactly 0 elsewhere."""

    def __init__(self, condition: Callable[..., Any]) -> None:
        self.condition = condition


class Pair:
    """Both directions spelled out, for maps that are linear over the reals only or must select exactly.

    `pull(ct, …)` and `push(t, …)` read the same values.
    """

    def __init__(self, pull: Callable[..., Any], push: Callable[..., Any] | None = None) -> None:
        self.pull = pull
        self.push = pull if push is None else push


class Linear:
    """A map `function(change, …)` that is linear in the change: the same in both directions, but for complex values.

    In the reverse direction these enter conjugated.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


# By the simplest: 1, -1 or 0, or the name of the value that it is.
Partial = Callable[..., Any] | Change | Selects | Pair | Linear | int | str
_VALUES: dict[str, Impl] = {"x": lambda x: x, "y": lambda y: y, "out": lambda out: out}


def _reader(partial: Partial | None) -> Callable[..., Any] | None:
    """The function whose parameter names say what the derivative reads."""
    if isinstance(partial, Selects):
        return partial.condition
    if isinstance(partial, Pair):
        return partial.pull
    if isinstance(partial, Linear):
        return partial.function
    if isinstance(partial, Change):
        return partial.read
    if isinstance(partial, int):
        return lambda ct: ct
    if isinstance(partial, str):
        return _VALUES[partial]
    return partial


# How a change passes an operand, from the simplest derivative to the most general.
SAME, NEGATED, NONE, HANDED_ON, FACTOR, CHANGE, SELECTED, LINEAR, PAIR = range(9)


class Way:
    """How cotangents and tangents pass one operand, by its partial derivative."""

    def __init__(self, partial: Partial, rule: Rule) -> None:
        self.rule = rule
        self.fn: Any = None
        self.push_fn: Any = None
        self.chain: Any = None  # the primitive, once it is declared
        if isinstance(partial, int):
            self.kind = {1: SAME, -1: NEGATED, 0: NONE}[partial]
        elif isinstance(partial, Pair):
            self.kind, self.fn, self.push_fn = PAIR, partial.pull, partial.push
        elif isinstance(partial, Linear):
            self.kind, self.fn = LINEAR, partial.function
        elif isinstance(partial, Selects):
            self.kind, self.fn = SELECTED, partial.condition
        elif isinstance(partial, Change):
            self.kind, self.fn = CHANGE, partial.read
        else:
            self.kind, self.fn = HANDED_ON if isinstance(partial, str) else FACTOR, partial

    def pull(self, node: Node, ct: Any) -> Any:
        """The cotangent of the operand, before broadcasting is undone."""
        kind = self.kind
        if kind == SAME:
            return ct
        if not isinstance(ct, TensorFields):
            return self._pull_array(node, ct)
        if kind == HANDED_ON:
            return chained(ct, conjugate_for(ct, saved_at(node, self.rule.picks[0], ct)))
        if kind == NEGATED:
            return P.neg(ct)
        if kind == NONE:
            return zeros_like(ct)
        read = self.rule.read(node, ct)
        if kind == FACTOR:
            return chained(ct, conjugate_for(ct, self.fn(*read)))
        if kind == PAIR:
            return self.fn(ct, *read)
        if kind == SELECTED:
            return P.where(self.fn(*read), ct, 0)
        if kind == CHANGE:
            return chained_both(ct, conjugate_for(ct, self.fn(*read)))
        return self.fn(ct, *([r.conjugate() for r in read] if is_complex(ct) else read))

    def _pull_array(self, node: Node, ct: Any) -> Any:
        """The same for an array: the products of the chain rule need no tensors."""
        if self.chain is None:
            self.chain = P.chain
        if self.kind == HANDED_ON:
            derivative = saved_at(node, self.rule.picks[0], ct)
        elif self.kind == FACTOR and ct.dtype.kind != "c":
            derivative = bare(self.fn(*self.rule.read(node, wrapped(ct))))
        else:
            return bare(self.pull(node, wrapped(ct)))
        dtype = ct.dtype
        is_real = dtype is _F32 or dtype is _F64 or dtype.kind != "c"
        return self.chain.kernel(ct, derivative if is_real else derivative.conjugate())

    def push(self, t: Any, values: Any, params: dict[str, Any]) -> Any:
        """What the tangent of the operand adds to that of the result, before broadcasting; None for nothing."""
        kind = self.kind
        if kind == SAME:
            return t
        if kind == NEGATED:
            return -t
        if kind == NONE:
            return None
        read = self.rule.arguments(values, params)
        if kind == HANDED_ON:
            return chained(t, read[0])
        if kind == FACTOR:
            return chained(t, self.fn(*read))
        if kind == PAIR:
            return self.push_fn(t, *read)
        if kind == SELECTED:
            return P.where(self.fn(*read), t, 0)
        if kind == CHANGE:
            return chained_both(t, self.fn(*read))
        return self.fn(t, *read)


class Elementwise(Primitive):
    """`out[i] = f(x[i], y[i], …)` with broadcasting, declared by its partial derivatives."""

    def __init__(
        self,
        name: str,
        partials: Sequence[Partial | None],
        operands: Sequence[str],
        abstract: Callable[..., Any] | None = None,
    ) -> None:
        functions = [_reader(p) for p in partials]
        super().__init__(
            name,
            operands=operands,
            rules=functions,
            jvp=elementwise_jvp,
            batch=elementwise_batch,
            abstract=abstract or elementwise_abstract,
        )
        self.broadcasts = self.pulls_arrays = self.pulls_new = True
        self.ways = tuple(
            None if p is None or r is None else Way(p, r) for p, r in zip(partials, self.rules, strict=True)
        )

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        shapes = node.shapes
        if node.right is ABSENT:
            return (pass_back(self.ways[0], node, ct, None),)
        if node.others is None:
            return (
                None if node.left is None else pass_back(self.ways[0], node, ct, shapes and shapes[0]),
                None if node.right is None else pass_back(self.ways[1], node, ct, shapes and shapes[1]),
            )
        return [
            None if edge is None else pass_back(way, node, ct, shapes and shapes[i])
            for i, (edge, way) in enumerate(zip(node.others, self.ways))
        ]


def elementwise_abstract(*values: Any, **params: Any) -> Abstract:
    """Broadcast, and of the operands' type."""
    return Abstract(broadcast(*values), common(*values))


def pass_back(way: Any, node: Node, ct: Any, shape: Any) -> Any:
    """The cotangent of an operand, which had this shape if it was broadcast."""
    out = way.pull(node, ct)
    if shape is None or out.shape == shape:
        return out
    return sum_to(out, shape) if isinstance(out, TensorFields) else bare(sum_to(wrapped(out), shape))


def elementwise_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    values = (*primals, out)
    total = None
    for t, way in zip(tangents, prim.ways):
        if t is not None and way is not None:
            term = way.push(t, values, params)
            if term is not None:
                total = term if total is None else total + term
    return None if total is None else broadcast_to(total, out.shape)


def align(values: Any, batched: Any, size: Any) -> Any:
    """Give batched values equal ranks, so that the batch dimension is the outermost of the broadcast."""
    if len(values) == 1:
        return values
    rank = 0
    for i, v in enumerate(values):
        rank = max(rank, _rank(v) - batched[i])
    return [
        P.reshape(v, shape=(size, *(1,) * (rank - _rank(v) + 1), *v.shape[1:]))
        if batched[i] and _rank(v) <= rank
        else v
        for i, v in enumerate(values)
    ]


def _rank(value: Any) -> Any:
    """The number of dimensions of a tensor, an array or a number."""
    if isinstance(value, TensorFields):
        fields: TensorFields = value
        if not fields._level:
            return fields._array.ndim
    return len(shape_of(value))


def elementwise_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return apply(prim, align(values, batched, size), params)


# --- linear, views, reductions -----------------------------------------------------------------


def linear_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The derivative of a linear map is the map itself."""
    return prim(*[zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)], **params)


def bilinear_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The product rule for a map that is linear in each of two operands."""
    (x, y), (tx, ty) = primals, tangents
    terms = ([] if tx is None else [prim(tx, y, **params)]) + ([] if ty is None else [prim(x, ty, **params)])
    return add_all(terms)


class LinearMap(Primitive):
    """A linear map of one operand. `back(ct, x_shape, **params)` is its transpose for bare arrays, if it has one."""

    back: Impl | None

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        if self.back is None or isinstance(ct, TensorFields):
            return super().vjp(node, ct)
        return (self.back(ct, node.saved[2], **node.params),)


def linear(
    name: str,
    transpose: Impl,
    batch: Impl,
    is_view: bool = False,
    back: Impl | None = None,
    abstract: Impl | None = None,
) -> Primitive:
    """A linear map of one operand: `transpose(ct, …)` reverses it, `batch(x, size, …)` leaves dimension 0 alone."""

    def batch_rule(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        return batch(values[0], size, **params)

    prim = LinearMap(name, rules=(transpose,), jvp=linear_jvp, batch=batch_rule, is_view=is_view, abstract=abstract)
    prim.back = back
    prim.pulls_arrays = back is not None
    prim.pulls_new = True
    return prim


def view(name: str, transpose: Impl, batch: Impl, back: Impl | None = None, abstract: Impl | None = None) -> Primitive:
    """A linear map whose result shows the memory of its operand."""
    return linear(name, transpose, batch, is_view=True, back=back, abstract=abstract)


def shift(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The same dimensions behind a batch dimension."""
    return tuple(d + 1 for d in dims)


def kept_shape(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i in dims else n for i, n in enumerate(shape))


def expand_reduced(ct: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Any:
    """Spread a reduced value over the dimensions that were reduced."""
    if not keepdim and ct.ndim:
        ct = P.reshape(ct, shape=kept_shape(x_shape, dims))
    return broadcast_to(ct, x_shape)


def reduction(name: str, weight: Impl, abstract: Impl = reduced) -> Primitive:
    """A fold over `dims`, declared by `weight(x, out)`: the derivative by each element, `out` with kept dims."""

    def weights(x: Any, out: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        kept = out if keepdim else P.reshape(out, shape=kept_shape(x.shape, dims))
        return weight(x, kept, dims)

    def pull(ct: Any, x: Any, out: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return times(expand_reduced(ct, x.shape, dims, keepdim), weights(x, out, dims, keepdim))

    def push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        return P.sum(chained(tangents[0], weights(primals[0], out, **params)), **params)

    def batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        return prim(values[0], **{**params, "dims": shift(params["dims"])})

    return Primitive(name, rules=(pull,), jvp=push, batch=batch, abstract=abstract)


# --- many operands -----------------------------------------------------------------------------


class Variadic(Primitive):
    """A primitive with any number of operands and one rule for all of them.

    `pull(needed, ct, args, shapes, params)` gives the cotangents of the operands with the numbers in `needed`, all at
    once: a rule for each by itself would look at all the others n times. `reads(needed, count)` gives the numbers of the
    operands whose values it needs ("args"); it has the shapes of all.
    """

    def __init__(
        self,
        name: str,
        pull: Impl,
        *,
        jvp: Impl,
        batch: Impl,
        reads: Callable[[list[int], int], Iterable[int]],
        abstract: Impl | None = None,
    ) -> None:
        super().__init__(name, operands=(), jvp=jvp, batch=batch, abstract=abstract)
        self.pull = pull
        self.reads = reads
        self.differentiable = self.is_variadic = True

    def save(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any) -> Sequence[Any] | None:
        wanted = set(self.reads([i for i, need in enumerate(needs) if need], len(args)))
        return None if not wanted else tuple(save_input(a) if k in wanted else None for k, a in enumerate(args))

    def vjp(self, node: Any, ct: Any) -> Sequence[Any]:
        args = unpack(node, ct)
        edges = node.edges
        needed = [i for i, edge in enumerate(edges) if edge is not None]
        grads: list[Any] = [None] * len(edges)
        for i, g in zip(needed, self.pull(needed, ct, args, node.shapes, node.params), strict=True):
            grads[i] = g
        return grads


def each(pull: Impl) -> Impl:
    """All cotangents by a rule `pull(i, ct, args, shapes, params)` for one operand."""
    return lambda needed, *given: [pull(i, *given) for i in needed]


def batched_to_front(values: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """All values with the batch in dimension 0; unbatched ones repeat."""
    return [
        v if b else P.broadcast_to(P.reshape(v, shape=(1, *v.shape)), shape=(size, *v.shape))
        for v, b in zip(values, batched, strict=True)
    ]


__all__ = [
    "Change",
    "Elementwise",
    "P",
    "Pair",
    "Selects",
    "Variadic",
    "add_all",
    "align",
    "batched_to_front",
    "bilinear_jvp",
    "broadcast_to",
    "chained",
    "conj",
    "each",
    "expand_reduced",
    "is_complex",
    "kept_shape",
    "linear",
    "linear_jvp",
    "np_dtype",
    "ones_like",
    "reduction",
    "shift",
    "sum_to",
    "times",
    "view",
    "zeros_like",
]  # fmt: skip
