# cython: annotation_typing=True
"""The categories of primitives: what each derives from its declaration."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core import kernels
from lucid.core.arrays import ARRAY
from lucid.core.fields import TensorFields
from lucid.core.levels import new_level
from lucid.core.node import ABSENT, Node, Plan, saved_at, unpack
from lucid.core.primitive import P, Primitive, Rule, apply, bare
from lucid.core.tensor import wrapped
from lucid.kinds.dual import Dual
from lucid.kinds.kind import NeedsValueError
from lucid.ops.abstract import Abstract, broadcast, common, reduced
from lucid.ops.expressions import NotScalarError, Source, types_of
from lucid.ops.rules import (
    add_all,
    align,
    broadcast_to,
    chained,
    chained_both,
    conjugate_for,
    conjugated,
    expand_reduced,
    is_complex,
    kept_shape,
    ones_like,
    shift,
    sum_to,
    times,
    zeros_like,
)

# Elementwise: a body. Movement: the same elements in other places. Reduction and scan: a fold. Contraction: labels.
# Gather and scatter: elements at positions. Source: made from nothing. Fused: a composite and kernels for it. Other:
# rules of its own, and a reason.
CATEGORIES = (
    "elementwise", "movement", "reduction", "scan", "contraction", "gather", "scatter", "source", "fused", "other",
)  # fmt: skip

Impl = Callable[..., Any]
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


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


class Derivative:
    """The partial derivative of a body by one operand, as a function of the operands and parameters."""

    def __init__(self, body: Callable[..., Any], place: int) -> None:
        self.body, self.place = body, place
        self.names = body.__code__.co_varnames[: body.__code__.co_argcount]

    def __call__(self, *given: Any) -> Any:
        level = new_level()
        x = given[self.place]
        out = self.body(*given[: self.place], Dual.make(x, ones_like(x), level), *given[self.place + 1 :])
        return out._aux if isinstance(out, Dual) and out._level == level else zeros_like(x)


DERIVED = "derived"  # instead of a partial derivative: that of the body
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
        self.back: Any = None  # the kernel for arrays
        self.refused: set[Any] = set()  # types for which the rule is not one of single elements
        self.parameters: tuple[str, ...] = ()
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
        if self.kind == SAME:
            return ct
        if not isinstance(ct, TensorFields):
            return self._pull_array(node, ct)
        return self.passed(ct, self.rule.read(node, ct))

    def passed(self, ct: Any, read: Any) -> Any:
        """What becomes of a cotangent, a tensor or an expression, with the values that the derivative reads."""
        kind = self.kind
        if kind == SAME:
            return ct
        if kind == HANDED_ON:
            return chained(ct, conjugate_for(ct, read[0]))
        if kind == NEGATED:
            return P.neg(ct)
        if kind == NONE:
            return zeros_like(ct)
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
        """The same for an array: by a kernel made of the rule, if that is one of single elements."""
        if self.kind == HANDED_ON:
            derivative = saved_at(node, self.rule.picks[0], ct)
            dtype = ct.dtype
            is_real = dtype is _F32 or dtype is _F64 or dtype.kind != "c"
            if self.chain is None:
                self.chain = P.chain
            return self.chain.kernel(ct, derivative if is_real else conjugated(derivative))
        if self.back is None:
            self.back = self._made_of_rule(f"pull of {node.prim.name}")
        if not self.refused or ct.dtype not in self.refused:
            values = [saved_at(node, k, ct) for k in self.rule.picks if type(k) is int]
            try:
                if not self.parameters:
                    return self.back(ct, *values)
                return self.back(ct, *values, **{k: node.params[k] for k in self.parameters})
            except (NotScalarError, NeedsValueError):
                if not [v for v in (ct, *values) if type(v) is not ARRAY]:  # others say nothing of arrays
                    self.refused.add(ct.dtype)
        return bare(self.pull(node, wrapped(ct)))

    def _made_of_rule(self, name: str) -> Any:
        """A kernel of the cotangent, the saved values that the rule reads, and parameters."""
        picks = self.rule.picks
        self.parameters = tuple([k for k in picks if type(k) is not int])

        def pulled(ct: Any, *values: Any, **params: Any) -> Any:
            given = iter(values)
            return self.passed(ct, [next(given) if type(k) is int else params[k] for k in picks])

        count = 1 + len(picks) - len(self.parameters)
        return kernels.scalar(Source(pulled, name), count, len(self.parameters) > 0)

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
    """`out[i] = f(x[i], y[i], …)` with broadcasting, declared by its body and its partial derivatives.

    The body is a function over other elementwise primitives. Without one it is a base function, which each backend has;
    `calls` then names what computes it where that is a library's. A `real` function takes no complex numbers.
    """

    def __init__(
        self,
        name: str,
        partials: Sequence[Partial | None],
        operands: Sequence[str],
        abstract: Callable[..., Any] | None = None,
        body: Callable[..., Any] | None = None,
        real: bool = False,
        calls: str = "",
        **facts: Any,
    ) -> None:
        if body is not None:
            partials = [Derivative(body, k) if p == DERIVED else p for k, p in enumerate(partials)]
        functions = [_reader(p) for p in partials]
        super().__init__(
            name,
            operands=operands,
            rules=functions,
            jvp=elementwise_jvp,
            batch=elementwise_batch,
            abstract=abstract or (elementwise_abstract if body is None else self._typed),
            category="elementwise",
            **facts,
        )
        self.broadcasts = self.pulls_arrays = self.pulls_new = self.is_scalar = True
        self.has_condition = operands[0] == "cond"  # truth values, of which the type of the result does not depend
        self.body, self.real, self.calls = body, real, calls
        self.source = Source(body or self, name)
        self.ways = tuple(
            None if p is None or r is None else Way(p, r) for p, r in zip(partials, self.rules, strict=True)
        )

    @property
    def is_product(self) -> bool:
        """Whether it is the product of its two operands."""
        return [w is not None and w.kind in (HANDED_ON, CHANGE) for w in self.ways] == [True, True]

    def _typed(self, *values: Any, **params: Any) -> Abstract:
        """Broadcast, and of the type that the body has."""
        return Abstract(broadcast(*values), self.source.body(types_of(values), params).dtype)

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
    if shape is not None and way.kind == NEGATED and ct.shape != shape:
        return way.pull(node, _summed(ct, shape))  # of which there is less to negate
    out = way.pull(node, ct)
    return out if shape is None or out.shape == shape else _summed(out, shape)


def _summed(ct: Any, shape: Any) -> Any:
    return sum_to(ct, shape) if isinstance(ct, TensorFields) else bare(sum_to(wrapped(ct), shape))


def elementwise_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    values = (*primals, out)
    total = None
    for t, way in zip(tangents, prim.ways):
        if t is not None and way is not None:
            term = way.push(t, values, params)
            if term is not None:
                total = term if total is None else total + term
    return None if total is None else broadcast_to(total, out.shape)


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
    category: str = "movement",
    **facts: Any,
) -> Primitive:
    """A linear map of one operand: `transpose(ct, …)` reverses it, `batch(x, size, …)` leaves dimension 0 alone."""

    def batch_rule(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        return batch(values[0], size, **params)

    prim = LinearMap(
        name,
        rules=(transpose,),
        jvp=linear_jvp,
        batch=batch_rule,
        is_view=is_view,
        abstract=abstract,
        category=category,
        linear_in=(0,),
        pulls_arrays=back is not None,
        pulls_new=True,
        **facts,
    )
    prim.back = back
    return prim


def view(name: str, transpose: Impl, batch: Impl, **declared: Any) -> Primitive:
    """A linear map whose result shows the memory of its operand."""
    return linear(name, transpose, batch, is_view=True, **declared)


class Check(NamedTuple):
    """What a kernel checks of values, and raises for: always, or if `applies(dtype, params)` for the result's type."""

    what: str
    applies: Callable[[np.dtype[Any], dict[str, Any]], bool] = lambda dtype, params: True


def of_integers(dtype: np.dtype[Any], params: dict[str, Any]) -> bool:
    return dtype.kind in "iu"


def asked_by(param: str) -> Callable[[np.dtype[Any], dict[str, Any]], bool]:
    """Whether a parameter asks for the check."""
    return lambda dtype, params: bool(params[param])


class Fold(NamedTuple):
    """How elements are put together one by one, in any grouping: states are tuples of numbers.

    `lift(x, place)` is the state of one element, `combine(a, b)` that of two parts, in order, `unit(dtype)` that of none,
    and `finish(*state)` the result.
    """

    combine: Impl
    unit: Callable[[np.dtype[Any]], tuple[Any, ...]]
    lift: Impl = lambda x, place: (x,)
    finish: Impl = lambda value: value


class Reduction(Primitive):
    """A fold over `dims` with a derivative by each element.

    `weight(x, out, **params)`, where it is there, is a function of single elements; `out` has all dimensions of x. Where
    there is a `tally(x, out)`, it also takes the sums of that over `dims`.
    """

    weight: Impl | None = None
    tally: Impl | None = None
    back: Any = None  # the kernels for arrays
    count: Any = None
    refused: frozenset[Any] = frozenset()  # types for which the weight is not one of single elements

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        if isinstance(ct, TensorFields):
            return super().vjp(node, ct)
        if ct.dtype.kind != "c" and ct.dtype not in self.refused:
            try:
                return (self._pull_array(node, ct, **node.params),)
            except (NotScalarError, NeedsValueError):
                self.refused |= {ct.dtype}
        found = super().vjp(node, wrapped(ct))
        return [bare(g) for g in found]

    def _pull_array(self, node: Node, ct: Any, dims: tuple[int, ...], keepdim: bool, **params: Any) -> Any:
        """The cotangent of x by one loop, made of the weight."""
        if self.back is None:
            weight: Any = self.weight
            source = Source(lambda ct, x, out, *sums, **params: chained(ct, weight(x, out, *sums, **params)))
            self.back = kernels.scalar(source, 3 + (self.tally is not None), bool(params))
            self.count = None if self.tally is None else kernels.scalar(Source(self.tally), 2, False)
        rule: Any = self.rules[0]
        x, out = [saved_at(node, k, ct) for k in rule.picks if type(k) is int]
        if not keepdim:
            shape = kept_shape(x.shape, dims)
            ct, out = P.reshape.kernel(ct, shape=shape), P.reshape.kernel(out, shape=shape)
        sums = () if self.count is None else (P.sum.kernel(self.count(x, out), dims=dims, keepdim=True),)
        return self.back(ct, x, out, *sums, **params)


def reduction(
    name: str,
    weight: Impl,
    fold: Fold,
    abstract: Impl = reduced,
    by_element: bool = False,
    tally: Impl | None = None,
    kind: type[Reduction] = Reduction,
) -> Primitive:
    """A fold over `dims`; `weight(x, out, dims)` is its derivative by each element, `out` with kept dims.

    `by_element` says that this is a function of single elements. With a `tally(x, out)` it is `weight(x, out, sums)`, of
    single elements and of the sums of that over `dims`.
    """

    def weights(x: Any, out: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        kept = out if keepdim else P.reshape(out, shape=kept_shape(x.shape, dims))
        if tally is not None:
            return weight(x, kept, P.sum(tally(x, kept), dims=dims, keepdim=True))
        return weight(x, kept, dims)

    def pull(ct: Any, x: Any, out: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return times(expand_reduced(ct, x.shape, dims, keepdim), weights(x, out, dims, keepdim))

    def push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        return P.sum(chained(tangents[0], weights(primals[0], out, **params)), **params)

    def batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        return prim(values[0], **{**params, "dims": shift(params["dims"])})

    prim = kind(name, rules=(pull,), jvp=push, batch=batch, abstract=abstract, category="reduction", fold=fold)
    prim.pulls_new = True
    if by_element or tally is not None:
        prim.weight = weight if tally is not None else lambda x, out: weight(x, out, ())
        prim.tally = tally
        prim.pulls_arrays = True
    return prim


# --- many operands -----------------------------------------------------------------------------


class Variadic(Primitive):
    """A primitive with any number of operands and one rule for all of them.

    `pull(needed, ct, args, shapes, params)` gives the cotangents of the operands with the numbers in `needed`, all at
    once: a rule for each by itself would look at all the others n times. `reads` is the first of the operands whose
    values it needs ("args"), None for none of them; it has the shapes of all. A scatter names the function of two
    numbers that puts a value together with what is there (`combine`).
    """

    def __init__(
        self,
        name: str,
        pull: Impl,
        *,
        jvp: Impl,
        batch: Impl,
        reads: int | None,
        abstract: Impl | None = None,
        category: str = "movement",
        combine: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(name, operands=(), jvp=jvp, batch=batch, abstract=abstract, category=category, **facts)
        self.pull = pull
        self.combine = combine
        self.only_plan = Plan((), 0, -1 if reads is None else reads)
        self.differentiable = self.is_variadic = self.pulls_new = True

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
