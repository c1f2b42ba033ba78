# cython: annotation_typing=True
"""What each category of primitive derives from its declaration: reverse mode, forward mode, batching.

Rules are written in terms of primitives and work on whatever they are given: arrays compute, tensors
record, batched and dual tensors batch and push forward. `P.name` is the primitive called `name`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lucid.core import modes
from lucid.core.arithmetic import OWN, chain, chain_both, negative, sum_of_rows
from lucid.core.batched import Batched
from lucid.core.cuts import cut
from lucid.core.fields import TensorFields
from lucid.core.node import Freed, Node, array_of, save_input, tensor_of
from lucid.core.primitive import P, Primitive, Rule, element_type, unpack
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.bare import of_plain, of_two

Impl = Callable[..., Any]
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
ndarray = np.ndarray
_recording = modes.recording.get
_on_arrays = modes.on_arrays.get


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum `x` down to `shape`."""
    have = x.shape
    if have == shape:
        return x
    extra = len(have) - len(shape)
    dims = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and have[i + extra] != 1))
    if isinstance(x, ndarray):
        if dims:
            x = sum_of_rows(x) if dims == (0,) else np.add.reduce(x, axis=dims)
        return x.reshape(shape)
    if dims:
        x = P.sum(x, dims=dims, keepdim=False)
    return x if x.shape == shape else P.reshape(x, shape=shape)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    if x.shape == shape:
        return x
    return P.broadcast_to.impl(x, shape) if type(x) is ndarray else P.broadcast_to(x, shape=shape)


def zeros_like(x: Any) -> Any:
    """Zeros that are connected to nothing, for derivatives that vanish."""
    if isinstance(x, Tensor):
        return Tensor._wrap(np.zeros(x.shape, x.np_dtype))
    return np.zeros(x.shape, x.dtype)


def ones_like(x: Any) -> Any:
    """Ones that are connected to nothing."""
    if isinstance(x, Tensor):
        return Tensor._wrap(np.ones(x.shape, x.np_dtype))
    return np.ones(x.shape, x.dtype)


def np_dtype(x: Any) -> np.dtype[Any]:
    """The numpy type of an array or tensor."""
    found: np.dtype[Any] = x.np_dtype if isinstance(x, Tensor) else x.dtype
    return found


def is_complex(x: Any) -> bool:
    return bool((element_type(x) if isinstance(x, TensorFields) else x.dtype).kind == "c")


def conj(x: Any) -> Any:
    """The conjugate of what is complex."""
    return P.conj(x) if is_complex(x) else x


def chained(change: Any, derivative: Any) -> Any:
    """The product of the chain rule: exactly 0 where the change is 0, also if the derivative is infinite or nan.

    So the branch that `where` does not select contributes nothing. The product is bilinear and differentiated as one:
    by the change the derivative is `derivative` also where the change is 0.
    """
    return P.chain.public(change, derivative) if isinstance(change, TensorFields) else chain(change, derivative)


def chained_both(change: Any, other: Any) -> Any:
    """The same for a derivative that is a change itself: exactly 0 where either is 0."""
    return P.chain_both.public(change, other) if isinstance(change, TensorFields) else chain_both(change, other)


def times(ct: Any, derivative: Any) -> Any:
    """`ct` scaled for the reverse direction: complex derivatives enter conjugated."""
    return chained(ct, conjugate_for(ct, derivative))


def conjugate_for(ct: Any, derivative: Any) -> Any:
    """What a cotangent is multiplied by."""
    return derivative.conjugate() if ct.dtype.kind == "c" else derivative


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


Partial = Callable[..., Any] | Change | Selects | Pair | Linear | int


def _pull_and_push(partial: Partial, rule: Rule | None) -> tuple[Impl, Impl]:
    """How a cotangent and a tangent pass one operand with this partial derivative."""
    if partial == 1:
        return (lambda ct, values, params: ct), (lambda t, values, params: t)
    if partial == -1:
        return (lambda ct, values, params: -ct), (lambda t, values, params: -t)
    if partial == 0:
        return (lambda ct, values, params: zeros_like(ct)), (lambda t, values, params: None)
    assert rule is not None
    if isinstance(partial, Linear):
        function = partial.function

        def pull_linear(ct: Any, values: Any, params: Any) -> Any:
            read = rule.arguments(values, params)
            return function(ct, *(read if _is_real(ct) or not is_complex(ct) else [r.conjugate() for r in read]))

        return pull_linear, lambda t, values, params: function(t, *rule.arguments(values, params))
    if isinstance(partial, Pair):
        pull_fn, push_fn = partial.pull, partial.push
        return (
            lambda ct, values, params: pull_fn(ct, *rule.arguments(values, params)),
            lambda t, values, params: push_fn(t, *rule.arguments(values, params)),
        )
    if isinstance(partial, Selects):
        condition = partial.condition

        def select(ct: Any, values: Any, params: Any) -> Any:
            return P.where(condition(*rule.arguments(values, params)), ct, 0)

        return select, select
    if isinstance(partial, Change):
        read = partial.read
        return (
            lambda ct, values, params: chained_both(ct, conjugate_for(ct, read(*rule.arguments(values, params)))),
            lambda t, values, params: chained_both(t, read(*rule.arguments(values, params))),
        )
    assert callable(partial)
    fn = partial
    if len(rule.names) == 1 and isinstance(rule.picks[0], int):
        k = rule.picks[0]

        def pull_one(ct: Any, values: Any, params: Any) -> Any:
            derivative = fn(values[k])
            kind = ct.dtype
            if kind is not _F32 and kind is not _F64 and kind.kind == "c":
                derivative = derivative.conjugate()
            return chained(ct, derivative)

        return pull_one, lambda t, values, params: chained(t, fn(values[k]))

    def pull(ct: Any, values: Any, params: Any) -> Any:
        return times(ct, fn(*rule.arguments(values, params)))

    return pull, lambda t, values, params: chained(t, fn(*rule.arguments(values, params)))


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
    return partial


class Elementwise(Primitive):
    """`out[i] = f(x[i], y[i], …)` with broadcasting, declared by its partial derivatives."""

    def __init__(self, name: str, impl: Impl, partials: Sequence[Partial | None], operands: Sequence[str]) -> None:
        functions = [_reader(p) for p in partials]
        impl = OWN.get(impl, impl)
        super().__init__(name, impl, operands=operands, rules=functions, jvp=elementwise_jvp, batch=elementwise_batch)
        pairs = [(None, None) if p is None else _pull_and_push(p, r) for p, r in zip(partials, self.rules, strict=True)]
        self.pulls: tuple[Any, ...] = tuple(pull for pull, _ in pairs)
        self.pushes = tuple(push for _, push in pairs)
        lean = _lean_vjp(self, partials)
        if lean is not None:
            self.vjp = lean  # type: ignore[method-assign]  # found before the method, and calls it

    def __call__(self, *args: Any, **params: Any) -> Any:
        made = None
        if not params:
            if type(args[0]) is ndarray and type(args[-1]) is ndarray and len(args) <= 2 and _on_arrays():
                return self.impl(*args)
            if len(args) == 2 and (type(args[0]) is Batched or type(args[1]) is Batched):
                made = of_two(self.impl, args[0], args[1])
            else:
                made = of_plain(self.impl, args)
        if made is None:
            return super().__call__(*args, **params)
        needs = tuple([isinstance(a, TensorFields) and a._requires_grad for a in args])
        if self.differentiable and True in needs:
            if _recording():
                self.record(args, needs, made, params)
            else:
                cut("no_grad", args[needs.index(True)])
        return made

    def shapes(self, args: Sequence[Any], out: Any) -> Any:
        if len(args) == 1:
            return None
        shapes = tuple([shape_of(a) for a in args])
        shape = out.shape
        for s in shapes:
            if s != shape:
                return shapes
        return None

    def vjp(self, node: Any, ct: Any) -> Sequence[Any]:
        values = unpack(node, ct)
        shapes, params = node.shapes, node.params
        if len(node.edges) == 1:
            return (self.pulls[0](ct, values, params),)
        grads = [None if e is None else pull(ct, values, params) for e, pull in zip(node.edges, self.pulls)]
        if shapes is not None:
            grads = [None if g is None else sum_to(g, s) for g, s in zip(grads, shapes, strict=True)]
        return grads


def _lean_vjp(prim: Elementwise, partials: Sequence[Partial | None]) -> Impl | None:
    """A shorter `vjp` where each derivative reads one value: backward passes spend their time in it.

    It does what the method does for real arrays that were not broadcast, and leaves the rest to the method.
    """
    general = prim.vjp
    if partials[0] == 1 and len(partials) == 2 and partials[1] in (1, -1):
        minus = partials[1] == -1

        def signs(node: Node, ct: Any) -> Sequence[Any]:
            left, right, shapes = node.left, node.right, node.shapes
            if left is not None:
                left = ct if shapes is None else sum_to(ct, shapes[0])
            if right is not None:
                right = ct if shapes is None else sum_to(ct, shapes[1])
                if minus:
                    right = negative(right) if type(right) is ndarray else -right
            return left, right

        return signs
    if len(partials) == 1 and isinstance(partials[0], Pair):
        return _pulled_vjp(prim, partials[0].pull, False)
    if len(partials) == 1 and isinstance(partials[0], Linear):
        return _pulled_vjp(prim, partials[0].function, True)
    reads: list[tuple[int, Any]] = []
    for partial, rule in zip(partials, prim.rules, strict=True):
        if (
            rule is None
            or isinstance(partial, int | Selects | Pair | Linear)
            or len(rule.picks) != 1
            or type(rule.picks[0]) is str
        ):
            return None
        reads.append((rule.picks[0], partial))
    if len(reads) > 2:
        return None
    (k, d), (m, e) = reads[0], reads[-1]
    if len(reads) == 2 and _hands_on(d) and _hands_on(e):
        return _product_vjp(general, k, m, isinstance(d, Change), isinstance(e, Change))
    if isinstance(d, Change) or isinstance(e, Change):
        return None

    def one(node: Node, ct: Any) -> Sequence[Any]:
        value = node.saved
        if isinstance(ct, TensorFields) and _is_real(ct) and type(value) is not Freed:
            return (chained(ct, d(tensor_of(node, value if node.place_of_saved >= 0 else value[k]))),)
        if type(ct) is not ndarray or type(value) is Freed or (ct.dtype is not _F32 and ct.dtype is not _F64):
            return general(node, ct)
        if node.place_of_saved < 0:
            value = value[k]
        value = value._array if type(value) is Tensor and value._meta is None else array_of(node, value)
        return (chain(ct, d(value)),)

    def two(node: Node, ct: Any) -> Sequence[Any]:
        saved = node.saved
        if (
            node.shapes is not None
            or type(ct) is not ndarray
            or type(saved) is Freed
            or (ct.dtype is not _F32 and ct.dtype is not _F64)
        ):
            return general(node, ct)
        left, right = node.left, node.right
        alone = node.place_of_saved >= 0
        if left is not None:
            value = saved if alone else saved[k]
            value = value._array if type(value) is Tensor and value._meta is None else array_of(node, value)
            left = chain(ct, d(value))
        if right is not None:
            value = saved if alone else saved[m]
            value = value._array if type(value) is Tensor and value._meta is None else array_of(node, value)
            right = chain(ct, e(value))
        return left, right

    return one if len(reads) == 1 else two


def _pulled_vjp(prim: Elementwise, pull: Impl, real_only: bool) -> Impl | None:
    """The same for one operand and a derivative that is spelled out and reads one value."""
    general, rule = prim.vjp, prim.rules[0]
    if rule is None or len(rule.picks) != 1 or type(rule.picks[0]) is str:
        return None
    k = rule.picks[0]

    def pulled(node: Node, ct: Any) -> Sequence[Any]:
        value = node.saved
        if type(value) is Freed or (real_only and not _is_real(ct)):
            return general(node, ct)
        if node.place_of_saved < 0:
            value = value[k]
        return (pull(ct, array_of(node, value) if type(ct) is ndarray else tensor_of(node, value)),)

    return pulled


def _hands_on(partial: Any) -> bool:
    """Whether a derivative is the value that it reads."""
    probe = object()
    try:
        return (partial.read if isinstance(partial, Change) else partial)(probe) is probe
    except (TypeError, AttributeError):
        return False


def _is_real(ct: Any) -> bool:
    while isinstance(ct, TensorFields):
        tensor: TensorFields = ct
        ct = tensor._array
    kind = ct.dtype
    return kind is _F32 or kind is _F64


def _factor(node: Any, saved: Any) -> Any:
    """A saved operand of a product as a tensor, or as the number that it was."""
    return saved.item() if type(saved) is ndarray else tensor_of(node, saved)


def _product_vjp(general: Impl, k: int, m: int, left_is_change: bool, right_is_change: bool) -> Impl:
    """The same where each derivative is a saved value: no calls but the product's."""
    to_left, to_right = (chain_both if change else chain for change in (left_is_change, right_is_change))
    of_left, of_right = (chained_both if change else chained for change in (left_is_change, right_is_change))

    def product(node: Node, ct: Any) -> Sequence[Any]:
        if type(ct) is not ndarray:
            return product_of_tensors(node, ct)
        saved = node.saved
        kind = ct.dtype
        if node.shapes is not None or type(saved) is Freed or (kind is not _F32 and kind is not _F64):
            return general(node, ct)
        if node.place_of_saved >= 0:  # one operand needs a gradient, and the other is what was saved
            value = saved._array if type(saved) is Tensor and saved._meta is None else array_of(node, saved)
            return (to_left(ct, value), None) if node.right is None else (None, to_right(ct, value))
        return (
            None if node.left is None else to_left(ct, array_of(node, saved[k])),
            None if node.right is None else to_right(ct, array_of(node, saved[m])),
        )

    def product_of_tensors(node: Node, ct: Any) -> Sequence[Any]:
        saved = node.saved
        if not isinstance(ct, TensorFields) or node.shapes is not None or type(saved) is Freed or not _is_real(ct):
            return general(node, ct)
        left, right = node.left, node.right
        alone = node.place_of_saved >= 0
        return (
            None if left is None else of_left(ct, _factor(node, saved if alone else saved[k])),
            None if right is None else of_right(ct, _factor(node, saved if alone else saved[m])),
        )

    return product


def elementwise_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    values = (*primals, out)
    total = None
    for t, push in zip(tangents, prim.pushes):
        if t is not None and push is not None:
            term = push(t, values, params)
            if term is not None:
                total = term if total is None else total + term
    return None if total is None else broadcast_to(total, out.shape)


def align(values: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """Give batched values equal ranks, so that the batch dimension is the outermost of the broadcast."""
    if len(values) == 1:
        return list(values)
    rank = max([len(shape_of(v)) - b for v, b in zip(values, batched)])
    return [
        _spread_rank(v, (size, *(1,) * (rank - v.ndim + 1), *v.shape[1:])) if b and v.ndim - 1 < rank else v
        for v, b in zip(values, batched)
    ]


def _spread_rank(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape) if type(x) is ndarray else P.reshape(x, shape=shape)


def elementwise_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    first = values[0]
    if type(first) is ndarray and (
        len(values) == 1 or (len(values) == 2 and batched[0] and batched[1] and first.ndim == values[1].ndim)
    ):
        return prim.impl(*values, **params)  # nothing to align, and bare arrays
    return prim(*align(values, batched, size), **params)


_SMALL = 1 << 24  # whole numbers below this are exact in every type from float32 up


def of_one_type(args: Sequence[Any]) -> bool:
    """Whether all tensors have one floating-point type, beside numbers that leave it as it is: the common case."""
    kind = None
    for a in args:
        if isinstance(a, TensorFields):
            fields = a
            while type(fields._array) is not ndarray:  # down through the kinds, without a property call for each
                fields = fields._array
            own = fields._array.dtype
            if kind is None:
                kind = own
            elif own is not kind:
                return False
        elif type(a) is not float and (type(a) is not int or not -_SMALL < a < _SMALL):
            return False
    return kind is _F32 or kind is _F64


# --- linear, views, reductions -----------------------------------------------------------------


def linear_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The derivative of a linear map is the map itself."""
    return prim(*[zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)], **params)


def bilinear_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The product rule for a map that is linear in each of two operands."""
    (x, y), (tx, ty) = primals, tangents
    terms = ([] if tx is None else [prim(tx, y, **params)]) + ([] if ty is None else [prim(x, ty, **params)])
    return add_all(terms)


def linear(
    name: str, impl: Impl, transpose: Impl, batch: Impl, is_view: bool = False, back: Impl | None = None
) -> Primitive:
    """A linear map of one operand: `transpose(ct, …)` reverses it, `batch(x, size, …)` leaves dimension 0 alone.

    `back(ct, x_shape, **params)` is the transpose for bare arrays, where backward passes should not wait for dispatch.
    """

    def batch_rule(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        return batch(values[0], size, **params)

    prim = Primitive(name, impl, rules=(transpose,), jvp=linear_jvp, batch=batch_rule, is_view=is_view)
    if back is not None:
        general = prim.vjp

        def vjp(node: Any, ct: Any) -> Sequence[Any]:
            if type(ct) is not ndarray:
                return general(node, ct)
            return (back(ct, node.saved[2], **node.params),)

        prim.vjp = vjp  # type: ignore[method-assign]  # found before the method, and calls it
    return prim


def view(name: str, impl: Impl, transpose: Impl, batch: Impl, back: Impl | None = None) -> Primitive:
    """A linear map whose result shows the memory of its operand."""
    return linear(name, impl, transpose, batch, is_view=True, back=back)


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


def reduction(name: str, impl: Impl, weight: Impl) -> Primitive:
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

    return Primitive(name, impl, rules=(pull,), jvp=push, batch=batch)


# --- many operands -----------------------------------------------------------------------------


class Variadic(Primitive):
    """A primitive with any number of operands and one rule for all of them.

    `pull(needed, ct, args, shapes, params)` gives the cotangents of the operands with the numbers in `needed`, all at
    once: a rule for each by itself would look at all the others n times. `reads(needed, count)` gives the numbers of the
    operands whose values it needs ("args"); it has the shapes of all.
    """

    is_variadic = True

    def __init__(
        self,
        name: str,
        impl: Impl,
        pull: Impl,
        *,
        jvp: Impl,
        batch: Impl,
        reads: Callable[[list[int], int], Iterable[int]],
    ) -> None:
        super().__init__(name, impl, operands=(), jvp=jvp, batch=batch)
        self.pull = pull
        self.reads = reads
        self.differentiable = True

    def save(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any) -> Sequence[Any] | None:
        wanted = set(self.reads([i for i, need in enumerate(needs) if need], len(args)))
        return None if not wanted else tuple(save_input(a) if k in wanted else None for k, a in enumerate(args))

    def shapes(self, args: Sequence[Any], out: Any) -> Any:
        return tuple(shape_of(a) for a in args)

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
