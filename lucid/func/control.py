"""Control flow that transforms can follow: cond, while_loop and scan.

On concrete values they are Python's own `if`, `while` and `for`. Where a condition differs between the examples of a
vmap, both ways are taken and each example keeps its own; where it is traced, it becomes an instruction with programs.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lucid.api.creation import zeros
from lucid.api.joining import stack
from lucid.autograd.function import Function
from lucid.core import tree
from lucid.core.arrays import all_nonzero, any_nonzero
from lucid.core.dtypes import DIFFERENTIABLE, of_numpy
from lucid.core.levels import active, captured, trace
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.func.batching import vmap
from lucid.func.forward import jvp
from lucid.func.reverse import vjp
from lucid.ir.effects import moved_streams, of_instruction, of_programs
from lucid.ir.program import Program
from lucid.ir.rehearsal import drawing_again
from lucid.ir.trace import Traced, traced
from lucid.ir.values import Name
from lucid.kinds.batched import Batched, pick
from lucid.kinds.dual import Dual
from lucid.kinds.kind import Kind
from lucid.ops.abstract import Abstract
from lucid.ops.binary import where

_UNROLLED = 4  # steps of a scan that become instructions of a program one by one


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`; differentiable, and each example of a vmap has its own.

    Inside vmap an example is never computed with values that only the other branch allows, as far as these come
    through `operands`: so derivatives stay finite where the branch that was not taken has none.

    >>> import lucid
    >>> f = lambda x: lucid.cond(x > 0, lambda x: x.sqrt(), lambda x: x * 0, x)
    >>> lucid.func.vmap(lucid.func.grad(f))(lucid.tensor([4.0, -1.0]))
    Tensor([0.25, 0.  ])
    """
    operands = _spread(true_fn, operands)
    truth = _condition(pred, "cond")
    if isinstance(truth, bool):
        return (true_fn if truth else false_fn)(*operands)
    if isinstance(truth, Traced):
        return _traced_cond(truth, true_fn, false_fn, operands)
    known = _values(truth)
    if known is not None and (all_nonzero(known) or not any_nonzero(known)):
        return (true_fn if all_nonzero(known) else false_fn)(*operands)
    with _no_draws(known is None):
        yes = true_fn(*_guarded(operands, truth))
        no = false_fn(*_guarded(operands, ~truth))
    _raise_unless_alike("cond", "the results of true_fn", yes, "the results of false_fn", no)
    return _selected(truth, yes, no)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init_val: Any) -> Any:
    """Apply `body_fn` to a value, beginning with `init_val`, for as long as `cond_fn` of it is true.

    The value is a tensor or a nest of tensors. Inside vmap each example stops for itself.

    >>> import lucid
    >>> collatz = lambda s: (lucid.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    >>> steps = lambda n: lucid.while_loop(lambda s: s[0] != 1, collatz, (n, lucid.tensor(0)))[1]
    >>> lucid.func.vmap(steps)(lucid.tensor([1, 6, 27]))
    Tensor([  0,   8, 111])
    """
    value = tree.tree_map(lift, init_val)
    running: Any = True
    while True:
        truth = _condition(cond_fn(value), "while_loop")
        if isinstance(truth, Traced) and truth.is_known:
            truth = bool(truth)
        if isinstance(truth, Traced):
            if running is not True:
                raise RuntimeError("while_loop: a condition cannot become traced while the loop runs")
            return _traced_loop(cond_fn, body_fn, value)
        if isinstance(truth, bool):
            if not truth:
                return value
        else:
            running = truth if running is True else running & truth
            known = _values(running)
            if known is None:
                raise RuntimeError(
                    "while_loop: inside make_graph a condition that differs between examples cannot be known; put the "
                    "vmap around make_graph, or use scan"
                )
            if not any_nonzero(known):
                return value
        given = value if running is True else _guarded((value,), running)[0]
        new = tree.tree_map(lift, body_fn(given))
        _raise_unless_alike("while_loop", "the value", value, "what body_fn made of it", new)
        value = new if running is True else _selected(running, new, value)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a value along the first dimension of `xs`: `carry, y = f(carry, x)` for each; gives the last carry and all ys.

    `init`, `xs` and the ys may be nests of tensors. Without `xs`, give the `length`. `reverse` goes from the end.

    >>> import lucid
    >>> total, sums = lucid.scan(lambda c, x: (c + x, c + x), lucid.tensor(0.0), lucid.tensor([1.0, 2.0, 3.0]))
    >>> total, sums
    (Tensor(6.), Tensor([1., 3., 6.]))
    """
    count = _length(xs, length)
    leaves, structure = tree.flatten(tree.tree_map(_followed, xs))
    carry = tree.tree_map(_followed, init)
    if not count:
        return carry, _no_results(f, carry, leaves, structure)
    if count > _UNROLLED and leaves and _is_traced([*tree.flatten(carry)[0], *leaves]):
        return _traced_scan(f, carry, leaves, structure, reverse)
    rows = []
    held: Any = None  # what carries are like
    for i in range(count - 1, -1, -1) if reverse else range(count):
        returned = f(carry, structure.unflatten([x[i] for x in leaves]))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError("scan: the function must return a pair (carry, y)")
        new, found = tree.flatten(returned[0])
        new = [lift(leaf) for leaf in new]
        like = [(t.shape, t.np_dtype) for t in new], found
        if like != held:
            _raise_unless_alike("scan", "the carry", carry, "the next one", found.unflatten(new))
        carry, held = found.unflatten(new), like
        rows.append(tree.flatten(returned[1]))
    if reverse:
        rows.reverse()
    if any(s is not rows[0][1] and s != rows[0][1] for _, s in rows):
        raise ValueError(
            f"scan: the ys differ in structure: {rows[0][1]} and {next(s for _, s in rows if s != rows[0][1])}"
        )
    columns = zip(*[[lift(y) for y in r] for r, _ in rows], strict=True)
    return carry, rows[0][1].unflatten([stack(list(c)) for c in columns])


def _followed(x: Any) -> Tensor:
    """A tensor; one from outside whose values a trace may not see as the trace's own."""
    tensor = lift(x)
    if not isinstance(tensor, Kind) and not is_plain(tensor):
        (tensor,) = captured((tensor,))
    return tensor


def _selected(chosen: Any, yes: Any, no: Any) -> Any:
    return tree.tree_map(lambda a, b: where(chosen, a, b), yes, no)


def _length(xs: Any, length: int | None) -> int:
    lengths = {x.shape[0] if x.ndim else None for x in map(lift, tree.flatten(xs)[0])}
    if None in lengths:
        raise ValueError("scan: xs must have a dimension to go along; a 0-d tensor has none")
    if length is not None:
        lengths.add(length)
    if len(lengths) != 1:
        known = sorted(n for n in lengths if n is not None)
        found = f"they have {known}" if known else "there are no xs and no length"
        raise ValueError(f"scan: all xs must have the same number of elements, the length if that is given; {found}")
    count = lengths.pop()
    assert count is not None
    return count


def _no_results(f: Any, carry: Any, leaves: list[Any], structure: Any) -> Any:
    """The empty ys of a scan over nothing: of which shape, a traced call tells."""
    one = structure.unflatten([zeros(x.shape[1:], dtype=x.dtype) for x in leaves])
    ys = traced(lambda c, x: f(c, x)[1], (carry, one), {})
    return ys._results.unflatten([zeros((0, *o.shape), dtype=o.dtype) for o in ys.outputs])


def _spread(function: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands may come as one tuple, if the branches take its entries."""
    if len(operands) != 1 or not isinstance(operands[0], (tuple, list)):
        return operands
    try:
        inspect.signature(function).bind(*operands[0])
    except (TypeError, ValueError):
        return operands
    return tuple(operands[0])


def _condition(pred: Any, name: str) -> Any:
    """A truth value: a bool, or a batched or traced tensor that stands for several."""
    if not isinstance(pred, Tensor):
        return bool(pred)
    if pred.numel() != 1:
        raise ValueError(
            f"{name}: the condition must be one truth value, but has shape {pred.shape}; use .any() or .all()"
        )
    if pred.ndim:
        pred = pred.reshape(())
    while isinstance(pred, Dual) or (isinstance(pred, Batched) and pred._aux is not None):
        pred = pred._array  # neither a tangent nor the examples that share it matter to a truth value
    if not isinstance(pred, Kind):
        if is_plain(pred):
            return bool(pred.item())
        (pred,) = captured((pred,))
    return pred if pred.np_dtype == np.bool_ else pred != 0


def _values(tensor: Any) -> Any:
    """The array of all truth values, or None if it is being traced."""
    while isinstance(tensor, Tensor):
        if isinstance(tensor, Traced):
            return None
        tensor = tensor._array
    return tensor


def _guarded(operands: Any, chosen: Batched) -> Any:
    """The operands of a branch: examples that do not take it see what one that takes it sees."""
    first = chosen._array.to(np.dtype(np.int64)).argmax(0)
    if is_plain(first):
        first = first.item()

    def guard(leaf: Any) -> Any:
        one = pick(leaf, chosen._level, first)
        return leaf if one is leaf else where(chosen, leaf, one)

    return tree.tree_map(guard, operands)


def _raise_unless_alike(name: str, this: str, a: Any, that: str, b: Any) -> None:
    """Values that take each other's place must have the same structure, shapes and types."""
    (xs, first), (ys, second) = tree.flatten(a), tree.flatten(b)
    if first != second:
        raise ValueError(f"{name}: {this} and {that} differ in structure: {first} and {second}")
    for path, x, y in zip(tree.paths(a), xs, ys, strict=True):
        x, y = lift(x), lift(y)
        if x.shape != y.shape or x.np_dtype != y.np_dtype:
            raise ValueError(
                f"{name}: {this}{path} is {x.dtype} of shape {x.shape}, but {that} is {y.dtype} of shape {y.shape}"
            )


@contextmanager
def _no_draws(forbidden: bool) -> Iterator[None]:
    """A context in which a program may not draw: a branch that no example takes would not."""
    written = trace.get().instructions if forbidden and trace.get() is not None else []
    start = len(written)
    yield
    if any(kind == "draw" for i in written[start:] for kind, _ in of_instruction(i)):
        raise RuntimeError(
            "cond: inside make_graph, whether some example of a vmap takes a branch is not known, and so neither is how "
            "many random numbers are drawn; draw them before, or put the vmap around make_graph"
        )


def _states(*programs: Program) -> list[tuple[Any, Any]]:
    """The generators from which programs draw, and where they are now."""
    generators = [stream.generator for stream in moved_streams(of_programs(*programs))]
    return [(generator, generator.get_state()) for generator in generators]


def _types(names: Sequence[Any]) -> list[Abstract]:
    return [Abstract(n.shape, n.dtype.numpy) for n in names]


class _Branch:
    """An instruction that runs one of two programs."""

    name = "cond"
    multi = True
    of_programs = True

    def __init__(self, yes: Program, no: Program) -> None:
        self.yes, self.no = yes, no
        self.results = yes.outputs

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.yes, self.no

    def effects(self) -> list[tuple[str, Any]]:
        return of_programs(self.yes, self.no)

    def abstract(self, pred: Abstract, *values: Abstract) -> list[Abstract]:
        """What both programs give; they take the same inputs, and each what it captured."""
        yes, no = self.yes, self.no
        given = _types([*yes.inputs, *[n for n, _ in (*yes.captured, *no.captured)]])
        if math.prod(pred.shape) != 1 or list(values) != given or _types(yes.inputs) != _types(no.inputs):
            raise ValueError("a branch with other operands than its programs take")
        if _types(yes.outputs) != _types(no.outputs):
            raise ValueError("a branch whose programs give different results")
        return _types(yes.outputs)

    def split(self, tensors: Sequence[Any]) -> tuple[Any, Any, Any]:
        count, held = len(self.yes.inputs), len(self.yes.captured)
        return tensors[:count], tensors[count : count + held], tensors[count + held :]

    def taken(self, tensors: Sequence[Any]) -> list[Any]:
        inputs, first, _ = self.split(tensors)
        return self.yes.run(inputs, first)

    def not_taken(self, tensors: Sequence[Any]) -> list[Any]:
        inputs, _, second = self.split(tensors)
        return self.no.run(inputs, second)

    def __call__(self, pred: Any, *tensors: Any, **params: Any) -> tuple[Any, ...]:
        return tuple(cond(pred, lambda *a: self.taken(a), lambda *a: self.not_taken(a), *tensors))


def _of_some(program_of: Callable[..., Any], values: Sequence[Any], places: list[int]) -> tuple[Any, tuple[Any, ...]]:
    """A program of the values at some places, the others fixed, and these values."""

    def run(*chosen: Any) -> Any:
        given = list(values)
        for k, v in zip(places, chosen, strict=True):
            given[k] = v
        return tuple(program_of(given))

    return run, tuple(values[k] for k in places)


class _TracedCond(Function):
    """A branch that is being traced, with the derivative that it has: a branch of derivatives."""

    is_transparent = True

    @staticmethod
    def forward(ctx: Any, branch: _Branch, pred: Any, *tensors: Any) -> Any:
        ctx.branch, ctx.states = branch, _states(branch.yes, branch.no)
        ctx.save_for_backward(pred, *tensors)
        batches = [t for t in tensors if isinstance(t, Batched) and t._level > pred._level]
        if not batches:
            return _instruction(branch, (pred, *tensors))
        # A vmap inside of the trace: the branches run on whole batches.
        level = max(t._level for t in batches)
        own = [isinstance(t, Batched) and t._level == level for t in tensors]
        dims = tuple(0 if o and t._aux is None else None for t, o in zip(tensors, own, strict=True))
        inner = [t._array if o else t for t, o in zip(tensors, own, strict=True)]
        mode = next(b.randomness for b in active.get() if b.level == level)
        outs = _traced_cond(
            pred,
            vmap(lambda *xs: tuple(branch.taken(xs)), in_dims=dims, randomness=mode),
            vmap(lambda *xs: tuple(branch.not_taken(xs)), in_dims=dims, randomness=mode),
            tuple(inner),
        )
        return tuple(Batched.make(o, level) for o in outs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        pred, *tensors = ctx.saved_tensors
        branch = ctx.branch
        count = len(tensors)
        floats = [k for k, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]

        def pull(program_of: Callable[..., Any]) -> Callable[..., Any]:
            def of(*args: Any) -> Any:
                run, chosen = _of_some(program_of, args[:count], floats)
                return vjp(run, *chosen)[1](tuple(args[count:]))

            return of

        with drawing_again(ctx.states):
            found = cond(pred, pull(branch.taken), pull(branch.not_taken), *tensors, *cotangents)
        grads: list[Any] = [None] * count
        for k, g in zip(floats, found, strict=True):
            grads[k] = g
        return (None, None, *grads)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        pred, *tensors = ctx.saved_tensors
        count = len(tensors)
        floats = [k for k, t in enumerate(tangents) if t is not None]

        def push(program_of: Callable[..., Any]) -> Callable[..., Any]:
            def of(*args: Any) -> Any:
                run, chosen = _of_some(program_of, args[:count], floats)
                return jvp(run, chosen, args[count:])[1]

            return of

        rates = [tangents[k] for k in floats]
        with drawing_again(ctx.states):
            return cond(pred, push(ctx.branch.taken), push(ctx.branch.not_taken), *tensors, *rates)


def _traced_cond(pred: Traced, true_fn: Any, false_fn: Any, operands: tuple[Any, ...]) -> Any:
    yes, no = traced(true_fn, operands, {}), traced(false_fn, operands, {})
    _raise_unless_alike(
        "cond",
        "the results of true_fn",
        yes._results.unflatten([_sample(o) for o in yes.outputs]),
        "the results of false_fn",
        no._results.unflatten([_sample(o) for o in no.outputs]),
    )
    tensors = [lift(x) for x in tree.flatten(operands)[0] if isinstance(x, (Tensor, np.ndarray))]
    held = [t for _, t in (*yes.captured, *no.captured)]
    out = _TracedCond.apply(_Branch(yes, no), pred, *tensors, *held)
    return yes._results.unflatten(out)


def _sample(name: Any) -> Any:
    """Something of the shape and type of a program's value."""
    return zeros(name.shape, dtype=name.dtype) if hasattr(name, "dtype") else name


class _Loop:
    """An instruction that runs a program for as long as another one says so."""

    name = "while_loop"
    multi = True
    of_programs = True

    def __init__(self, test: Program, body: Program) -> None:
        self.test, self.body = test, body
        self.results = body.outputs

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.test, self.body

    def effects(self) -> list[tuple[str, Any]]:
        return of_programs(self.test, self.body)

    def abstract(self, *values: Abstract) -> list[Abstract]:
        """What the body gives, which is like what it takes."""
        test, body = self.test, self.body
        given = _types([*body.inputs, *[n for n, _ in (*test.captured, *body.captured)]])
        truth = _types(test.outputs)
        if (
            list(values) != given
            or _types(test.inputs) != _types(body.inputs)
            or _types(body.outputs) != _types(body.inputs)
        ):
            raise ValueError("a loop with other operands than its programs take and give")
        if len(truth) != 1 or math.prod(truth[0].shape) != 1:
            raise ValueError("a loop whose condition is not one truth value")
        return _types(body.outputs)

    def __call__(self, *tensors: Any, **params: Any) -> tuple[Any, ...]:
        count, held = len(self.body.inputs), len(self.test.captured)
        first, second = tensors[count : count + held], tensors[count + held :]
        return while_loop(
            lambda value: self.test.run(value, first)[0],
            lambda value: tuple(self.body.run(value, second)),
            tuple(tensors[:count]),
        )


class _TracedLoop(Function):
    """A loop that is being traced. Forward mode is a loop too; reverse mode would have to know how long it will run."""

    is_transparent = True

    @staticmethod
    def forward(ctx: Any, loop: _Loop, *tensors: Any) -> Any:
        ctx.loop, ctx.states = loop, _states(loop.test, loop.body)
        ctx.save_for_forward(*tensors)
        if any(isinstance(t, Batched) for t in tensors):
            raise RuntimeError(
                "while_loop: inside make_graph, a loop whose length is not known cannot run inside vmap; put the vmap "
                "around make_graph, or use scan"
            )
        return _instruction(loop, tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise RuntimeError(
            "while_loop: reverse mode through a traced while_loop is not possible, since how often it runs is not known; "
            "use lucid.scan, which has a fixed length, or forward mode"
        )

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        loop, tensors = ctx.loop, ctx.saved_tensors
        count, held = len(loop.body.inputs), len(loop.test.captured)
        first, second = tensors[count : count + held], tensors[count + held :]
        changes = tangents[count + held :]

        def step(pair: Any) -> Any:
            values, rates = pair
            return jvp(
                lambda inner, outer: tuple(loop.body.run(inner, outer)),
                (values, tuple(second)),
                (rates, tuple(changes)),
            )

        start = (tuple(tensors[:count]), tuple(tangents[:count]))
        with drawing_again(ctx.states):
            return while_loop(lambda pair: loop.test.run(pair[0], first)[0], step, start)[1]


def _traced_loop(cond_fn: Any, body_fn: Any, value: Any) -> Any:
    leaves, structure = tree.flatten(value)
    test = traced(lambda *xs: cond_fn(structure.unflatten(xs)), tuple(leaves), {})
    body = traced(lambda *xs: body_fn(structure.unflatten(xs)), tuple(leaves), {})
    made = body._results.unflatten([_sample(o) for o in body.outputs])
    _raise_unless_alike("while_loop", "the value", value, "what body_fn made of it", made)
    held = [t for _, t in (*test.captured, *body.captured)]
    return structure.unflatten(_TracedLoop.apply(_Loop(test, body), *leaves, *held))


def _is_traced(tensors: Sequence[Any]) -> bool:
    """Whether some tensors are values of a program, and none is a batch or a pair inside of it."""
    kinds = [t for t in tensors if isinstance(t, Kind)]
    return bool(kinds) and all(isinstance(t, Traced) for t in kinds)


class _Scan:
    """An instruction that runs a program once for each element of the first dimension of some tensors.

    The program takes carries, elements and what it captures, and gives carries and ys. The results are the last carries, all
    ys, and the carries before each step, which derivatives need.
    """

    name = "scan"
    multi = True
    of_programs = True

    def __init__(self, body: Program, carries: int, count: int, reverse: bool) -> None:
        self.body, self.carries, self.count, self.reverse = body, carries, count, reverse
        values: list[Any] = [o if isinstance(o, Name) else lift(o) for o in body.outputs]
        self.ys = len(values) - carries
        stacked = [*values[carries:], *body.inputs[:carries]]
        self.results = [
            *[Name(-1, v.shape, _type_of(v)) for v in values[:carries]],
            *[Name(-1, (count, *v.shape), _type_of(v)) for v in stacked],
        ]

    def effects(self) -> list[tuple[str, Any]]:
        return of_programs(self.body)

    def split(self, tensors: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The operands: carries, what is gone along, and what the program captures."""
        given, stop = list(tensors), len(self.body.inputs)
        return given[: self.carries], given[self.carries : stop], given[stop:]

    def step(self, carry: Sequence[Any], x: Sequence[Any], held: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """One step: the next carries, and the ys."""
        outs = [lift(o) for o in self.body.run([*carry, *x], held)]
        return outs[: self.carries], outs[self.carries :]

    def __call__(self, *tensors: Any, **params: Any) -> tuple[Any, ...]:
        start, xs, held = self.split(tensors)

        def step(carry: Any, x: Any) -> Any:
            new, ys = self.step(carry, x, held)
            return new, (ys, list(carry))

        last, (ys, before) = scan(step, start, xs, self.count, self.reverse)
        return (*last, *ys, *before)


class _TracedScan(Function):
    """A scan that is being traced. Its derivative is a scan from the other end."""

    is_transparent = True

    @staticmethod
    def forward(ctx: Any, what: _Scan, *tensors: Any) -> Any:
        ctx.what, ctx.states = what, _states(what.body)
        out = _instruction(what, tensors)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *out[len(out) - what.carries :])
        return out

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        what: _Scan = ctx.what
        saved, count = ctx.saved_tensors, len(ctx.saved_tensors) - what.carries
        start, xs, held = what.split(saved[:count])
        before, n = list(saved[count:]), what.carries
        carried, elements, shared = [_floats(part) for part in (start, xs, held)]
        given = [*carried, *[n + k for k in elements], *[n + len(xs) + k for k in shared]]
        final = [_or_zeros(cotangents[k], start[k]) for k in carried]
        samples = what.results[n : n + what.ys]
        outs = _floats(samples)
        of_ys = [_or_zeros(cotangents[n + k], samples[k]) for k in outs]
        of_before = [_or_zeros(cotangents[n + what.ys + k], before[k]) for k in carried]

        def pull(carry: Any, x: Any) -> Any:
            cts, totals = carry
            old, here, ct_ys, ct_before = x

            def run(values: Sequence[Any]) -> Any:
                new, ys = what.step(values[:n], values[n : n + len(xs)], values[n + len(xs) :])
                return [*[new[k] for k in carried], *[ys[k] for k in outs]]

            call, chosen = _of_some(run, [*old, *here, *held], given)
            found = list(vjp(call, *chosen)[1]((*cts, *ct_ys)))
            split = len(carried) + len(elements)
            last = [g + more for g, more in zip(found[: len(carried)], ct_before, strict=True)]
            sums = [total + g for total, g in zip(totals, found[split:], strict=True)]
            return (last, sums), found[len(carried) : split]

        zero = [zeros(held[k].shape, dtype=held[k].dtype) for k in shared]
        along = (before, xs, of_ys, of_before)
        with drawing_again(ctx.states):
            (first, totals), of_xs = scan(pull, (final, zero), along, what.count, not what.reverse)
        grads: list[Any] = [None] * count
        for k, g in zip(given, [*first, *of_xs, *totals], strict=True):
            grads[k] = g
        return (None, *grads)

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        what: _Scan = ctx.what
        tensors = ctx.saved_tensors[: len(ctx.saved_tensors) - what.carries]
        start, xs, held = what.split(tensors)
        rates = [
            None if not _floats([t]) else _or_zeros(r, t) for t, r in zip(tensors, tangents, strict=True)
        ]  # of all that have some
        moving, along, outside = what.split(rates)
        n, size = what.carries, len(xs)
        places = [k for k, r in enumerate(rates) if r is not None]

        def push(carry: Any, x: Any) -> Any:
            (values, changes), (here, slopes) = carry, x
            given = [*values, *here, *held]
            known = [*changes, *slopes, *[r for r in outside if r is not None]]
            run, chosen = _of_some(lambda v: _flat(what.step(v[:n], v[n : n + size], v[n + size :])), given, places)
            outs, slopes_of = jvp(run, chosen, tuple(known))
            new = [slopes_of[k] for k in _floats(outs[:n])]
            return (list(outs[:n]), new), (slopes_of[n:], list(changes))

        given = (start, [r for r in moving if r is not None]), (xs, [r for r in along if r is not None])
        with drawing_again(ctx.states):
            (_, last), (ys, before) = scan(push, *given, what.count, what.reverse)
        carried = _floats(start)
        full: list[Any] = [None] * (2 * n + what.ys)
        for k, rate, old in zip(carried, last, before, strict=True):
            full[k], full[n + what.ys + k] = rate, old
        full[n : n + what.ys] = ys
        return tuple(full)


def _flat(pair: tuple[list[Any], list[Any]]) -> list[Any]:
    return [*pair[0], *pair[1]]


def _floats(values: Sequence[Any]) -> list[int]:
    """The places of those that have derivatives."""
    return [k for k, v in enumerate(values) if _type_of(v).numpy in DIFFERENTIABLE]


def _type_of(value: Any) -> Any:
    """The type of a tensor, whatever its class says of it, or of a value of a program."""
    return value.dtype if isinstance(value, Name) else of_numpy(value.np_dtype)


def _or_zeros(ct: Any, like: Any) -> Any:
    return zeros(like.shape, dtype=like.dtype) if ct is None else ct


def _traced_scan(f: Any, carry: Any, leaves: list[Any], structure: Any, reverse: bool) -> tuple[Any, Any]:
    starts, whole = tree.flatten(carry)
    count, n = leaves[0].shape[0] if leaves else 0, len(starts)
    kept: list[Any] = []

    def body(*tensors: Any) -> Any:
        returned = f(whole.unflatten(tensors[:n]), structure.unflatten(tensors[n:]))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError("scan: the function must return a pair (carry, y)")
        new = tree.tree_map(lift, returned[0])
        _raise_unless_alike("scan", "the carry", carry, "the next one", new)
        ys, of_ys = tree.flatten(returned[1])
        kept[:] = [of_ys]
        return [*tree.flatten(new)[0], *[lift(y) for y in ys]]

    samples = [*starts, *[x[0] for x in leaves]]
    program = traced(body, tuple(samples), {})
    held = program.release_captured()
    what = _Scan(program, n, count, reverse)
    out = _TracedScan.apply(what, *starts, *leaves, *held)
    return whole.unflatten(out[:n]), kept[0].unflatten(out[n : n + what.ys])


def _instruction(what: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Write a branch or loop into the innermost trace among the operands."""
    top = max((t for t in operands if isinstance(t, Traced)), key=lambda t: t._level)
    return tuple(top.write_down(what, operands))


FLOW = {kind.name: kind for kind in (_Branch, _Loop)}

__all__ = ["FLOW", "cond", "scan", "while_loop"]
