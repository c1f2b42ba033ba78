"""Which elements of a derivative can differ from 0, read off the program that computes it.

A derivative is linear in its direction: `t ↦ J t` for `jvp`, `t ↦ H t` for `jvp` of `grad`. In the program of such a map
everything that depends on `t` is linear in it, whatever the function itself did; the rules of derivatives have seen to
that. So each instruction that `t` reaches has, for each operand, a matrix of truth values that says which elements of
its result can depend on which elements of the operand, and the product of these matrices along the program is the
pattern. It holds for all values of what else the program reads from `x`, as nothing is asked of them.

Values that depend neither on `x` nor on `t` are known: indices, masks, coefficients, and zeros among them. Of values that
depend on `x` it is noted where they are 0 for every `x`, as where a gradient was put back into zeros.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.primitive import Primitive
from lucid.core.source_lines import Place
from lucid.core.tensor import Tensor
from lucid.func.control import _Branch, _Loop
from lucid.func.sparse.coloring import Matrix, Product, gather, movement, probed, scatter, scipy_sparse
from lucid.ir.program import Program
from lucid.ir.values import Instruction, Name
from lucid.ops.categories import Elementwise, bilinear_jvp
from lucid.ops.contraction import contract
from lucid.ops.rules import P, kept_shape

# Matrices to multiply a pattern by, one after the other; None if nothing is passed on.
Steps = list[Matrix] | None
Shape = tuple[int, ...]

MOST_ENTRIES = 1 << 28
_MOST_TURNS = 64  # of a loop, before everything in it counts as mixed up


class Fact(NamedTuple):
    """What is known of a value of a program."""

    pattern: Matrix | None = None  # where it depends on the direction
    value: Any = None
    support: np.ndarray | None = None  # where it can differ from 0, unless everywhere
    choices: Matrix | None = None  # for positions: the elements that each can stand for


UNKNOWN = Fact()


class Application(NamedTuple):
    """One instruction, with what is known of its operands."""

    prim: Any
    params: dict[str, Any]
    operands: tuple[Any, ...]
    values: list[Any]  # None for those that are not known
    supports: list[Any]
    directed: list[int]  # the operands that depend on the direction
    out: Name
    place: Place

    def shape(self, k: int) -> Shape:
        return getattr(self.operands[k], "shape", ())


def linear_pattern(program: Program, direction: int) -> Matrix:
    """Where the one result of a program (rows) depends on the elements of one of its inputs, in which it is linear."""
    width = math.prod(program.inputs[direction].shape)
    facts = [UNKNOWN] * len(program.inputs)
    facts[direction] = Fact(scipy_sparse().eye_array(width, dtype=bool).tocsr())
    # What somebody may differentiate by is not a constant, even if it is not `x`.
    held = [UNKNOWN if t.requires_grad else Fact(value=_array(t)) for _, t in program.captured]
    # Numbers are put through the operations, some of them where these overflow or are not defined.
    with np.errstate(all="ignore"):
        ((pattern, *_),) = _Propagation(program, width, facts, held).run()
    if pattern is None:
        return scipy_sparse().csr_array((math.prod(program.outputs[0].shape), width), dtype=bool)
    pattern.sum_duplicates()
    return pattern


def _array(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor._concrete("a sparsity pattern"))


def _union(a: Matrix | None, b: Matrix | None) -> Matrix | None:
    if a is None or a is b:
        return b
    return a if b is None else a + b


class _Propagation:
    """Carries facts along a program, from its inputs and what it holds to its outputs."""

    def __init__(self, program: Program, width: int, inputs: Sequence[Fact], held: Sequence[Fact]) -> None:
        self.program, self.width = program, width
        self.facts = {n.number: fact for n, fact in zip(program.inputs, inputs, strict=True)}
        self.facts.update((n.number, fact) for (n, _), fact in zip(program.captured, held, strict=True))
        self.facts.update((n.number, Fact(value=_array(t))) for n, t in program.constants)

    def run(self) -> list[Fact]:
        for place, instruction in enumerate(self.program.instructions):
            facts = [self._fact(o) for o in instruction.operands]
            for name, fact in zip(instruction.results, self._follow(instruction, facts), strict=True):
                self.facts[name.number] = fact
            for number in self.program._last_use[place]:
                self.facts.pop(number, None)
        return [self._fact(o) for o in self.program.outputs]

    def _fact(self, operand: Any) -> Fact:
        return self.facts.get(operand.number, UNKNOWN) if isinstance(operand, Name) else Fact(value=operand)

    def _follow(self, instruction: Instruction, facts: list[Fact]) -> Sequence[Fact]:
        prim, operands, params, results, place = instruction
        if not any(isinstance(o, Name) and f.value is None for o, f in zip(operands, facts, strict=True)):
            found = prim(*[_lifted(f.value) for f in facts], **params)
            return [Fact(value=o._array) for o in (found if prim.multi else (found,))]
        if isinstance(prim, _Branch):
            return self._either(prim, facts)
        if isinstance(prim, _Loop):
            return self._repeatedly(prim, facts, place)
        directed = [k for k, f in enumerate(facts) if f.pattern is not None]
        out = []
        for name in results:
            application = Application(
                prim, params, operands, [f.value for f in facts], [_support(f) for f in facts], directed, name, place
            )
            if name.dtype.numpy not in DIFFERENTIABLE:
                out.append(Fact(choices=_choices(application, facts)))
            elif directed:
                out.append(self._passed_on(application, facts))
            else:
                out.append(_with_support(name, support(application)) if _may_have_zeros(application) else UNKNOWN)
        return out

    def _passed_on(self, application: Application, facts: list[Fact]) -> Fact:
        total = None
        for k in application.directed:
            steps = _chosen(application, facts) or transfer(application, k)
            if steps is not None:
                pattern = facts[k].pattern
                for matrix in steps:
                    pattern = _product(matrix, pattern, application.prim.name, application.place)
                total = _union(total, pattern)
        if total is None or not total.nnz:
            return Fact(value=np.zeros(application.out.shape, application.out.dtype.numpy))
        return Fact(total)

    def _either(self, branch: _Branch, facts: list[Fact]) -> list[Fact]:
        """What one of two programs gives: what is true of both."""
        inputs, first, second = branch.split(facts[1:])
        ways = [(branch.yes, first), (branch.no, second)]
        found = [_Propagation(program, self.width, inputs, held).run() for program, held in ways]
        return [Fact(_union(a.pattern, b.pattern), support=_joined(a, b)) for a, b in zip(*found, strict=True)]

    def _repeatedly(self, loop: _Loop, facts: list[Fact], place: Place) -> list[Fact]:
        """What a program gives that is run any number of times: patterns grow until they stay as they are."""
        count, held = len(loop.body.inputs), len(loop.test.captured)
        patterns = [f.pattern for f in facts[:count]]
        for _ in range(_MOST_TURNS):
            given = [Fact(p) for p in patterns]
            found = _Propagation(loop.body, self.width, given, facts[count + held :]).run()
            grown = [_union(p, f.pattern) for p, f in zip(patterns, found, strict=True)]
            if [getattr(p, "nnz", 0) for p in grown] == [getattr(p, "nnz", 0) for p in patterns]:
                return given
            patterns = grown
        total = sum(fold((p.shape[0],), (0,)) @ p for p in patterns if p is not None)
        sizes = [math.prod(n.shape) for n in loop.body.inputs]
        return [Fact(_product(gather(np.zeros(n, np.int64), 1), total, loop.name, place)) for n in sizes]


def _support(fact: Fact) -> np.ndarray | None:
    if fact.value is None:
        return fact.support
    differs = np.asarray(fact.value) != 0
    return None if differs.all() else differs


def _joined(a: Fact, b: Fact) -> np.ndarray | None:
    """Where one of two values can differ from 0."""
    one, other = _support(a), _support(b)
    return None if one is None or other is None else one | other


def _with_support(name: Name, found: np.ndarray | None) -> Fact:
    if found is None or found.all():
        return UNKNOWN
    return Fact(support=found) if found.any() else Fact(value=np.zeros(name.shape, name.dtype.numpy))


def _product(matrix: Matrix, pattern: Matrix, name: str, place: Place) -> Matrix:
    entries = int(np.diff(pattern.indptr)[matrix.indices].sum())
    if min(entries, matrix.shape[0] * pattern.shape[1]) > MOST_ENTRIES:
        raise ValueError(
            f"the derivative is not sparse: after {name} at {place}, about {entries:.1e} of the pairs of {matrix.shape[0]} "
            f"elements there and {pattern.shape[1]} inputs depend on each other. Give pattern= if you know that there "
            "are fewer, or use jacrev, jacfwd or hessian"
        )
    return matrix @ pattern


def transfer(application: Application, k: int) -> Steps:
    """How the result of an instruction depends on its operand k."""
    prim = application.prim
    if prim.multi:
        return everything(application, k)
    if isinstance(prim, Elementwise):
        return _elementwise(application, k)
    if prim is contract:
        return _contraction(application, k)
    if prim.category == "elementwise":
        return []
    if prim.category == "scan":
        return _scan(application, k)
    if prim.category == "reduction" and k == 0 and "dims" in application.params:
        return [fold(application.shape(0), application.params["dims"])]
    if prim.positions is not None:
        return _at_positions(application, k)
    return _linear(application, k)


def _at_positions(application: Application, k: int) -> Steps:
    """A gather or a scatter."""
    prim = application.prim
    if prim in (P.plane_take, P.plane_put):
        return _along_planes(application, k)
    if prim.category == "gather":
        return _reads(application.shape(0), *_positions(application, prim.positions))
    return _index_put(application, k) if "accumulate" in application.params else _writes(application, k, prim.positions)


def _numbers(shape: Shape) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _moves(sources: np.ndarray, size: int) -> list[Matrix]:
    """As `gather`; no steps if every element stays where it is."""
    if sources.size == size and np.array_equal(sources.reshape(-1), np.arange(size)):
        return []
    return [gather(sources, size)]


def fold(shape: Shape, dims: Sequence[int]) -> Matrix:
    """Each element of the result depends on all elements along some dimensions."""
    dims = tuple(d % len(shape) for d in dims) if shape else ()
    kept = kept_shape(shape, dims)
    return scatter(np.broadcast_to(_numbers(kept), shape), math.prod(kept))


def everything(application: Application, k: int) -> Steps:
    """Every element of the result depends on every element of the operand: what can be said of any operation."""
    size, width = math.prod(application.out.shape), math.prod(application.shape(k))
    return [scatter(np.zeros(width, np.int64), 1), gather(np.zeros(size, np.int64), 1)]


def _spread(application: Application, k: int, shape: Shape) -> list[Matrix]:
    """The operand broadcast to a shape."""
    own = application.shape(k)
    return _moves(np.broadcast_to(_numbers(own), shape), math.prod(own))


def _may_have_zeros(application: Application) -> bool:
    """Whether there are zeros among the operands, or the operation may put them in itself."""
    prim: Primitive = application.prim
    if prim.multi:
        return False
    if any(s is not None for s in application.supports):
        return True
    adds_zeros = prim.linear_in is None or len(prim.linear_in) > 0
    return adds_zeros and not prim.is_view and not isinstance(prim, Elementwise)


def support(application: Application) -> np.ndarray | None:
    """Where the result of an instruction can differ from 0, given where its operands can; None for everywhere."""
    prim, out = application.prim, application.out
    if _is_product(prim):
        factors = [np.ones((), bool) if s is None else s for s in application.supports]
        return np.broadcast_to(factors[0] & factors[1], out.shape)
    terms = _linear_operands(application)
    if not terms:
        return None
    values = [None if k in terms else v for k, v in enumerate(application.values)]
    directed = [k for k in terms if isinstance(application.operands[k], Name)]
    unknown = application._replace(values=values, directed=directed)
    total = np.zeros(math.prod(out.shape), bool)
    for k in terms:
        filled = application.supports[k]
        if k not in directed:
            total |= filled is None  # a number
            continue
        filled = np.ones(application.shape(k), bool) if filled is None else filled
        steps = transfer(unknown, k)
        if steps is not None:
            column = gather(np.where(filled, 0, -1), 1)
            for matrix in steps:
                column = matrix @ column
            total |= np.diff(column.indptr) > 0
    return total.reshape(out.shape)


def _linear_operands(application: Application) -> tuple[int, ...]:
    linear_in: tuple[int, ...] | None = application.prim.linear_in
    if application.prim is contract:
        return (min(range(len(application.operands)), key=lambda k: _share(application.supports[k])),)
    return tuple(range(len(application.operands))) if linear_in is None else linear_in


def _is_product(prim: Any) -> bool:
    return isinstance(prim, Elementwise) and prim.is_product


def _share(filled: np.ndarray | None) -> float:
    return 1.0 if filled is None else np.count_nonzero(filled) / max(filled.size, 1)


def _choices(application: Application, facts: list[Fact]) -> Matrix | None:
    """The elements that positions can stand for, where more is known than that they are inside."""
    if application.prim.name == "reshape":
        return facts[0].choices
    if application.prim.name != "max_pool_indices":
        return None
    # A maximum is one of those elements that a sum over the same windows adds.
    steps = transfer(application._replace(prim=P.resample, directed=[0]), 0)
    return steps[0] if steps is not None and len(steps) == 1 else None


def _chosen(application: Application, facts: list[Fact]) -> Steps:
    """Reading or writing at such positions."""
    if application.prim.name not in ("plane_take", "plane_put") or facts[1].choices is None:
        return None
    choices = facts[1].choices
    return [choices if application.prim.name == "plane_take" else choices.T.tocsr()]


def _along_planes(application: Application, k: int) -> Steps:
    """Elements that go anywhere along the last dimension, if it is not known where."""
    if application.values[1] is not None:
        return _linear(application, k)
    out = application.out.shape
    planes = np.broadcast_to(_numbers(out[:-1])[..., None], out)
    return [fold(application.shape(k), (-1,)), gather(planes, math.prod(out[:-1]))]


def _elementwise(application: Application, k: int) -> Steps:
    """Each element depends on its own in the operand, unless the partial derivative is known to be 0 there."""
    out, own = application.out.shape, application.shape(k)
    differs = _differs(application, k)
    if not differs.any():
        return None
    sources = np.broadcast_to(_numbers(own), out)
    return _moves(sources if differs.all() else np.where(differs, sources, -1), math.prod(own))


def _differs(application: Application, k: int) -> np.ndarray:
    """Where a partial derivative differs from 0: everywhere, unless all that it reads is known."""
    prim: Any = application.prim
    way, rule = prim.ways[k], prim.rules[k]
    if way is None:
        return np.zeros((), bool)
    if _is_product(prim) and application.supports[1 - k] is not None:
        return np.broadcast_to(application.supports[1 - k], application.out.shape)
    values = [None if v is None else _lifted(v) for v in application.values]
    values += [None] * (len(prim.names) - len(values))
    if any(type(pick) is int and values[pick] is None for pick in rule.picks):
        return np.ones((), bool)
    found = way.push(Tensor._wrap(np.ones((), application.operands[k].dtype.numpy)), values, application.params)
    return np.zeros((), bool) if found is None else np.broadcast_to(found._array != 0, application.out.shape)


def _lifted(value: Any) -> Any:
    return Tensor._wrap(value) if isinstance(value, np.ndarray) else value


def _scan(application: Application, k: int) -> Steps:
    """Each element depends on those before it along a dimension: two at a time, then four, then eight …"""
    shape, dim = application.out.shape, application.params["dim"]
    steps = _spread(application, k, shape)
    size = math.prod(shape)
    order = -1 if application.params.get("reverse") else 1
    numbers = np.moveaxis(_numbers(shape), dim, -1)[..., ::order]
    distance = 1
    while distance < shape[dim]:
        earlier = np.full(shape, -1)
        np.moveaxis(earlier, dim, -1)[..., ::order][..., distance:] = numbers[..., :-distance]
        steps.append(gather(_numbers(shape), size) + gather(earlier, size))
        distance *= 2
    return steps


def _reads(shape: Shape, positions: Sequence[Any], shapes: Sequence[Shape]) -> list[Matrix]:
    """Reading a tensor of this shape at positions along its first dimensions; unknown ones may be anywhere."""
    free = tuple(d for d, p in enumerate(positions) if p is None)
    kept = kept_shape(shape, free)
    at = tuple(np.zeros(s, np.int64) if p is None else p for p, s in zip(positions, shapes, strict=True))
    read = gather(_numbers(kept)[at], math.prod(kept))
    return [fold(shape, free), read] if free else [read]


def _positions(application: Application, first: int) -> tuple[list[Any], list[Shape]]:
    """The operands from `first` on: their values, or None, and their shapes."""
    return application.values[first:], [application.shape(i) for i in range(first, len(application.operands))]


def _writes(application: Application, k: int, first: int) -> Steps:
    """Adding operand k to zeros at the positions that begin with operand `first`: the transpose of reading them."""
    out = application.out.shape
    positions, shapes = _positions(application, first)
    spread = _spread(application, k, (*np.broadcast_shapes(*shapes), *out[len(shapes) :]))
    return spread + [matrix.T.tocsr() for matrix in reversed(_reads(out, positions, shapes))]


def _index_put(application: Application, k: int) -> Steps:
    adds = application.params["accumulate"]
    if not adds and all(v is not None for v in application.values[2:]):
        return _linear(application, k)  # of several writes to a place the last counts
    return [] if k == 0 else _writes(application, k, 2)


class _Side(NamedTuple):
    """A tensor in a contraction: the labels of its dimensions, and their sizes."""

    labels: Shape
    shape: Shape

    def strides(self) -> list[tuple[int, int]]:
        """How far apart elements with neighbouring values of a label are; 0 where there is only one."""
        return [(c, math.prod(self.shape[d + 1 :]) if n > 1 else 0) for d, (c, n) in enumerate(zip(*self, strict=True))]


def _contraction(application: Application, k: int) -> Steps:
    """Sums of products over labels: those that an operand and the result have in common run together."""
    labels = application.params["labels"]
    sides = [_Side(tuple(map(ord, s)), application.shape(i)) for i, s in enumerate((labels.left, labels.right))]
    out = _Side(tuple(map(ord, labels.out)), application.out.shape)
    sizes = {label: n for side in sides for label, n in zip(*side, strict=True)}
    sparse = _fewest_entries(application, k)
    if sparse is not None:
        return [_through_entries(application, sides[sparse], application.supports[sparse], sides[k], out, sizes)]
    shared = [c for c in sides[k].labels if c in out.labels]
    extents = tuple(sizes[c] for c in shared)
    strides = dict(_Side(tuple(shared), extents).strides())
    size = math.prod(extents)
    return [scatter(_places(sides[k], strides), size), gather(_places(out, strides), size)]


def _fewest_entries(application: Application, k: int) -> int | None:
    """The other operand with the largest share of zeros, if any has zeros."""
    others = [i for i in range(len(application.operands)) if i != k and application.supports[i] is not None]
    return min(others, key=lambda i: _share(application.supports[i]), default=None)


def _places(side: _Side, strides: dict[int, int]) -> np.ndarray:
    """For each element its place among the values of some labels."""
    places = np.zeros(side.shape, np.int64)
    for label, coordinates in zip(side.labels, np.indices(side.shape, sparse=True), strict=True):
        places += coordinates * strides.get(label, 0)
    return places


def _through_entries(
    application: Application, met: _Side, filled: np.ndarray, operand: _Side, out: _Side, sizes: dict[int, int]
) -> Matrix:
    """One entry for each non-zero element of another operand and each value of the labels that it does not have."""
    found = dict(zip(met.labels, np.nonzero(filled), strict=True))
    entries = int(np.count_nonzero(filled))
    free = [c for c in dict.fromkeys((*operand.labels, *out.labels)) if c not in found]
    number = math.prod(sizes[c] for c in free)
    if entries * number > MOST_ENTRIES:
        raise ValueError(
            f"{application.prim.name} at {application.place} joins {entries * number:.1e} pairs of elements, too many "
            "to look at each"
        )
    running = (
        dict(zip(free, np.unravel_index(np.arange(number), [sizes[c] for c in free]), strict=True)) if free else {}
    )
    places = []
    for side in (out, operand):
        at = np.zeros((entries, number), np.int64)
        for label, stride in side.strides():
            at += running[label] * stride if label in running else found[label][:, None] * stride
        places.append(at.reshape(-1))
    shape = math.prod(out.shape), math.prod(operand.shape)
    return scipy_sparse().csr_array((np.ones(places[0].size, bool), tuple(places)), shape=shape)


def _linear(application: Application, k: int) -> Steps:
    """An operation of which nothing is known but that it is linear in the operand: numbers put through it tell."""
    if not _is_fixed(application):
        return everything(application, k)
    size, width = math.prod(application.out.shape), math.prod(application.shape(k))
    run = _on_numbers(application, k)
    sources = None if _has_coefficients(application) else movement(run, width, size)
    if sources is not None:
        return _moves(sources, width)
    found = probed(run, width, size)
    return everything(application, k) if found is None else [found]


def _others(application: Application) -> list[tuple[Name, Any]]:
    """The operands that do not depend on the direction, less numbers, and their values if these are known."""
    pairs = enumerate(zip(application.operands, application.values, strict=True))
    return [(o, v) for k, (o, v) in pairs if k not in application.directed and isinstance(o, Name)]


def _is_fixed(application: Application) -> bool:
    """Whether the operation does the same to its operand for every `x`."""
    prim = application.prim
    free = prim.is_polynomial or prim.jvp is bilinear_jvp
    return all(v is not None or (free and o.dtype.numpy in DIFFERENTIABLE) for o, v in _others(application))


def _has_coefficients(application: Application) -> bool:
    """Whether there are numbers to multiply by, of which small ones might be lost beside large ones."""
    return any(o.dtype.numpy in DIFFERENTIABLE and (v is None or np.any(v)) for o, v in _others(application))


def _on_numbers(application: Application, k: int) -> Product:
    """The operation as a function of the numbers in operand k; other directions are 0."""
    rng = np.random.default_rng(0)
    others: list[Any] = list(application.values)
    for i, operand in enumerate(application.operands):
        if i in application.directed:
            others[i] = np.zeros(operand.shape, operand.dtype.numpy)
        elif isinstance(operand, Name) and others[i] is None:
            others[i] = rng.uniform(0.5, 1.5, operand.shape)
    operand = application.operands[k]
    unit = 1 + 1j if operand.dtype.kind == "c" else 1.0

    def run(numbers: np.ndarray) -> np.ndarray:
        others[k] = (numbers * unit).reshape(operand.shape)
        return _magnitude(application.prim.kernel(*others, **application.params))

    return run


def _magnitude(out: Any) -> np.ndarray:
    out = np.asarray(out).reshape(-1)
    return np.where(out.real != 0, out.real, out.imag) if out.dtype.kind == "c" else out
