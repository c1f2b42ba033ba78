"""What is required of every row of the table in `samples`: each check takes a row and raises AssertionError.

Derivatives are compared with central differences of the row's reference in double precision. For complex operands
the gradient is dL/dRe + i·dL/dIm of a real L, and inner products are Re<a, b>, so that one text serves both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, combinations, islice
from typing import Any
from zlib import crc32

import numpy as np
from samples import Make, Row, Sample

from lucid import autograd, func
from lucid.api.creation import from_numpy
from lucid.autograd.modes import no_grad
from lucid.compiler.executable import Executable
from lucid.core import dtypes, kernels
from lucid.core.kernels import WithBackward, load_all, resolved
from lucid.core.tensor import Tensor
from lucid.func import make_graph
from lucid.kinds.kind import NeedsValueError

Array = np.ndarray
STEP = 1e-5
BATCH = 4  # no sample has a dimension of this size, so a batch cannot pass for one
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError)
# Relative and absolute; half precision has 3 and 2 digits, and functions may lose one of them.
TOLERANCES = {
    "float64": (1e-10, 1e-11), "complex128": (1e-10, 1e-11), "float32": (2e-5, 2e-5), "complex64": (2e-5, 2e-5),
    "float16": (1e-2, 1e-2), "bfloat16": (6e-2, 6e-2),
}  # fmt: skip
NARROW = {"float16", "bfloat16", "float32", "complex64"}


class Slot(int):
    """The place of an array in a sample that was taken apart."""


def take_apart(nest: Any, arrays: list[Array]) -> Any:
    if isinstance(nest, Array):
        arrays.append(nest)
        return Slot(len(arrays) - 1)
    if type(nest) in (list, tuple):
        return type(nest)(take_apart(n, arrays) for n in nest)
    return nest


def put_together(nest: Any, values: Sequence[Any]) -> Any:
    if isinstance(nest, Slot):
        return values[nest]
    if type(nest) in (list, tuple):
        return type(nest)(put_together(n, values) for n in nest)
    return nest


def flat(result: Any) -> list[Any]:
    """Results as a list, whatever nest of tuples they came in."""
    if isinstance(result, list | tuple):
        return [leaf for r in result for leaf in flat(r)]
    return [result]


def is_float(value: Any) -> bool:
    array_type = value.np_dtype if isinstance(value, Tensor) else np.asarray(value).dtype
    return array_type in dtypes.DIFFERENTIABLE


class Case:
    """A sample taken apart: its arrays, and how to call the op and the reference with others in their place."""

    def __init__(self, row: Row, sample: Sample, dtype: str, squares: bool = False) -> None:
        self.row, self.sample, self.dtype, self.squares = row, sample, dtype, squares
        self.arrays: list[Array] = []
        self._args = take_apart(sample.args, self.arrays)
        self.floats = [k for k, a in enumerate(self.arrays) if is_float(a)]
        self.rng = np.random.default_rng(crc32(row.name.encode()))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in self.arrays)
        return f"{self.row.name}({shapes}; {self._args}, {self.sample.kwargs})"

    def op(self, *values: Any) -> list[Any]:
        outs = flat(self.row.op(*put_together(self._args, values), **self.sample.kwargs))
        return [o * o if is_float(o) else o for o in outs] if self.squares else outs

    def ref(self, *arrays: Array) -> list[Array]:
        with np.errstate(all="ignore"):
            outs = [np.asarray(r) for r in flat(self.row.ref(*put_together(self._args, arrays), **self.sample.kwargs))]
            return [o * o if is_float(o) else o for o in outs] if self.squares else outs

    def float_outs(self, *arrays: Array) -> list[Array]:
        return [out for out in self.ref(*arrays) if is_float(out)]

    def like(self, arrays: Sequence[Any]) -> list[Array]:
        """Random arrays of the same shapes and types: weights, tangents, directions."""
        return [self._random(np.shape(a), np.asarray(a).dtype) for a in arrays]

    def _random(self, shape: tuple[int, ...], dtype: Any) -> Array:
        values = np.asarray(self.rng.uniform(-1, 1, shape))
        if dtype.kind == "c":
            values = values + 1j * self.rng.uniform(-1, 1, shape)
        return np.asarray(values).astype(dtype)

    def moved(self, directions: Sequence[Array], step: float) -> list[Array]:
        """The arrays with the float operands moved along `directions`."""
        arrays = list(self.arrays)
        for k, d in zip(self.floats, directions, strict=True):
            arrays[k] = np.asarray(arrays[k] + step * d)
        return arrays

    def operands(self, arrays: Sequence[Array] | None = None, requires_grad: bool = True) -> list[Tensor]:
        tensors = [from_numpy(np.asarray(a)) for a in (self.arrays if arrays is None else arrays)]
        for k in self.floats if requires_grad else ():
            tensors[k].requires_grad_()
        return tensors


def cases(row: Row, dtype: str, seed: int = 0) -> Iterator[Case]:
    for sample in row.samples(Make(dtype, row.domain, seed)):
        yield Case(row, sample, dtype)


def smooth(row: Row, dtype: str) -> Iterator[Case]:
    return (c for c in cases(row, dtype) if c.sample.smooth)


def array(x: Any) -> Array:
    found: Array = x._concrete("a test") if isinstance(x, Tensor) else np.asarray(x)
    return found


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Re<a, b>, summed over all arrays."""
    return float(sum(np.sum(np.conj(array(x)) * array(y)).real for x, y in zip(a, b, strict=True)))


def assert_close(got: Sequence[Any], want: Sequence[Any], case: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    assert len(got) == len(want), f"{case}: {len(got)} results, expected {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        a, b = array(g), np.asarray(w)
        assert a.shape == b.shape, f"{case}: result {k} has shape {a.shape}, expected {b.shape}"
        exact = a.dtype.kind in "biu" and b.dtype.kind in "biu"
        wide = complex if "c" in (a.dtype.kind, b.dtype.kind) else a.dtype if exact else float
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol, atol, err_msg=f"{case}: result {k}")


def widened(case: Case) -> list[Array]:
    """Operands as the reference wants them: in double precision; integers too where floats come out."""

    def wide(a: Array) -> Array:
        if a.dtype.name in NARROW:
            return a.astype(complex if a.dtype.kind == "c" else float)
        return a.astype(float) if "float" in case.row.result and a.dtype.kind in "biu" else a

    return [wide(a) for a in case.arrays]


def expected_type(policy: str, operand: str) -> str:
    """The type of a result, by PyTorch's rules, for operands that all have one type."""
    integral = dtypes.as_dtype(operand).category < dtypes.CATEGORY_FLOAT
    is_complex = dtypes.as_dtype(operand).is_complex
    for word in policy.split():
        if word == "float":
            operand = "float32" if integral else operand
        elif word == "sum":
            operand = "int64" if integral else operand
        elif word == "real":
            operand = {"complex128": "float64", "complex64": "float32"}.get(operand, operand)
        elif word == "double":
            operand = "complex128" if is_complex else "float64"
        elif word != "keep":
            operand = word
    return operand


def check_values(row: Row, dtype: str) -> None:
    """Values and types are the reference's, and the operands stay as they were."""
    rtol, atol = TOLERANCES.get(dtype, TOLERANCES["float32"] if "float" in row.result else (0, 0))
    for case in cases(row, dtype):
        before = [a.copy() for a in case.arrays]
        got, want = case.op(*case.operands(requires_grad=False)), case.ref(*widened(case))
        assert_close(got, want, case, rtol, atol)
        policies = [row.result] * len(got) if isinstance(row.result, str) else row.result
        for k, (g, policy) in enumerate(zip(got, policies, strict=True)):
            name = g.dtype.name if isinstance(g, Tensor) else type(g).__name__
            assert name == expected_type(policy, dtype), f"{case}: result {k} is {name}"
        for a, b in zip(case.arrays, before, strict=True):
            assert a.tobytes() == b.tobytes(), f"{case}: the op changed its operand"


def check_refused(row: Row, dtype: str) -> None:
    """A type that the row does not list is refused with words."""
    for case in cases(row, dtype):
        if not any(a.size and a.dtype.name == dtype for a in case.arrays):
            continue
        try:
            got = case.op(*case.operands(requires_grad=False))
        except REFUSALS as error:
            assert str(error), f"{case}: an error without a message"
            continue
        raise AssertionError(f"{case}: gave {got} but the table says that {dtype} is not supported")


def reverse(case: Case, weights: Sequence[Any], arrays: Sequence[Array] | None = None) -> list[Array]:
    """The gradients of Re<weights, op> by the float operands, from the tape."""
    inputs = case.operands(arrays)
    return [array(g) for g in pulled(case.op(*inputs), weights, [inputs[k] for k in case.floats])]


def pulled(outs: Sequence[Any], weights: Sequence[Any], inputs: Sequence[Tensor], **how: Any) -> list[Tensor]:
    """Gradients on the tape, zeros where there is no connection."""
    pairs = [(o, w) for o, w in zip([o for o in outs if is_float(o)], weights, strict=True) if o.requires_grad]
    if not pairs or not inputs:
        return [from_numpy(np.zeros(x.shape, x.np_dtype)) for x in inputs]
    live, seeds = zip(*pairs, strict=True)
    found = autograd.grad(live, inputs, grad_outputs=list(seeds), allow_unused=True, **how)
    return [from_numpy(np.zeros(x.shape, x.np_dtype)) if g is None else g for g, x in zip(found, inputs, strict=True)]


def numeric_gradient(case: Case, weights: Sequence[Array]) -> list[Array]:
    """Central differences of Re<weights, reference> by each element, and by each imaginary part."""
    gradients = []
    for k in case.floats:
        x = np.array(case.arrays[k])
        g = np.zeros(x.shape, x.dtype)
        for i in np.ndindex(x.shape):
            for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                losses = []
                for step in (STEP, -STEP):
                    moved = x.copy()
                    moved[i] += step * unit
                    losses.append(inner(weights, case.float_outs(*[*case.arrays[:k], moved, *case.arrays[k + 1 :]])))
                g[i] += unit * (losses[0] - losses[1]) / (2 * STEP)
        gradients.append(g)
    return gradients


def check_reverse(row: Row, dtype: str) -> None:
    """Reverse mode agrees with finite differences."""
    for case in smooth(row, dtype):
        weights = case.like(case.float_outs(*case.arrays))
        got, want = reverse(case, weights), numeric_gradient(case, weights)
        for g, k in zip(got, case.floats, strict=True):
            assert g.dtype == case.arrays[k].dtype, f"{case}: operand {k} has a gradient of {g.dtype}"
        assert_close(got, want, case)


def shown_before(x: Tensor) -> Tensor:
    """A view of memory into which `x` was written, with its history, after the view was taken."""
    base = from_numpy(np.zeros(x.shape, x.np_dtype))
    view: Tensor = base.view_as(base)
    base.copy_(x)
    return view


def check_late(row: Row, dtype: str) -> None:
    """Operands that are views taken before what they show got its history have the same gradients, each alone too."""
    for case in smooth(row, dtype):
        weights = case.like(case.float_outs(*case.arrays))
        want = reverse(case, weights)
        for asked in dict.fromkeys((tuple(case.floats), *[(k,) for k in case.floats])):
            inputs = case.operands(requires_grad=False)
            given = [shown_before(x.requires_grad_()) if k in asked else x for k, x in enumerate(inputs)]
            got = pulled(case.op(*given), weights, [inputs[k] for k in asked])
            kept = [want[i] for i, k in enumerate(case.floats) if k in asked]
            assert_close([array(g) for g in got], kept, f"{case}, operands {asked}")


def spoil(x: Tensor) -> None:
    """Write over memory without a word to the tape."""
    with autograd.no_grad():
        x.copy_(x.logical_not() if x.np_dtype.kind == "b" else from_numpy(np.full(x.shape, 3, x.np_dtype)))


def check_overwritten(row: Row, dtype: str) -> None:
    """What is written over memory of operands and results is noticed where a gradient needs it, and else has no part in it."""
    for case in smooth(row, dtype):
        weights = case.like(case.float_outs(*case.arrays))
        want = dict(zip(case.floats, reverse(case, weights), strict=True))
        for asked in dict.fromkeys((tuple(case.floats), *[(k,) for k in case.floats])):
            for place in range(len(case.arrays) + 1):  # an operand, or all results
                inputs = case.operands([np.array(a) for a in case.arrays], requires_grad=False)
                for k in asked:
                    inputs[k].requires_grad_()
                outs = case.op(*inputs)
                for x in [inputs[place]] if place < len(inputs) else outs:
                    if isinstance(x, Tensor) and array(x).flags.writeable:  # unlike expanded ones
                        spoil(x)
                try:
                    got = pulled(outs, weights, [inputs[k] for k in asked])
                except RuntimeError as error:
                    assert "overwr" in str(error), error
                    continue
                assert_close([array(g) for g in got], [want[k] for k in asked], f"{case}, operands {asked}, {place}")


def pushed(case: Case, tangents: Sequence[Array]) -> list[Array]:
    """The tangents of the float results, by forward mode."""

    def of_floats(*floats: Any) -> tuple[Any, ...]:
        values: list[Any] = case.operands(requires_grad=False)
        for k, f in zip(case.floats, floats, strict=True):
            values[k] = f
        return tuple(o for o in case.op(*values) if is_float(o))

    primals = tuple(from_numpy(case.arrays[k]) for k in case.floats)
    _, changes = func.jvp(of_floats, primals, tuple(from_numpy(t) for t in tangents))
    return [array(c) for c in changes]


def check_forward(row: Row, dtype: str) -> None:
    """Forward mode agrees with finite differences, and with reverse mode as its transpose."""
    for case in cases(row, dtype):
        if not case.floats:
            continue
        tangents = case.like([case.arrays[k] for k in case.floats])
        got = pushed(case, tangents)
        if case.sample.smooth:
            ahead, behind = (case.float_outs(*case.moved(tangents, s)) for s in (STEP, -STEP))
            want = [(a - b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
            # The mean of nothing is nan, which has no differences.
            nothing = not all(case.arrays[k].size for k in case.floats)
            known = [np.isfinite(o) | (not nothing) for o in case.float_outs(*case.arrays)]
            assert_close(*[[np.where(k, x, 0) for k, x in zip(known, xs, strict=True)] for xs in (got, want)], case)
        weights = case.like(got)
        gradients = reverse(case, weights)
        if all(np.isfinite(v).all() for v in (*got, *gradients)):
            assert_close([inner(weights, got)], [inner(gradients, tangents)], f"{case} transposed", 1e-9, 1e-9)


def gradient_function(
    case: Case, weights: Sequence[Array], asked: tuple[int, ...]
) -> Callable[..., tuple[Tensor, ...]]:
    """The gradient by some of the float operands as a differentiable function of all."""

    def gradient(*floats: Any) -> tuple[Tensor, ...]:
        def loss(*inner_floats: Any) -> Any:
            values: list[Any] = case.operands(requires_grad=False)
            for k, f in zip(case.floats, inner_floats, strict=True):
                values[k] = f
            outs = [o for o in case.op(*values) if is_float(o)]
            terms = [(from_numpy(np.asarray(np.conj(w))) * o).sum() for w, o in zip(weights, outs, strict=True)]
            total = terms[0]
            for t in terms[1:]:
                total = total + t
            return total.real

        found: tuple[Tensor, ...] = func.grad(loss, argnums=asked)(*floats)
        return found

    return gradient


def check_second(row: Row, dtype: str) -> None:
    """Reverse over reverse and forward over reverse agree with finite differences of the gradient.

    The first pass asks for each operand alone, for each pair, and for all; the second one always for all.
    Results are squared, so that linear operations have a second derivative too.
    """
    for plain in smooth(row, dtype):
        case = Case(row, plain.sample, dtype, squares=True)
        outs = case.float_outs(*case.arrays)
        if not case.floats or not outs:
            continue
        weights, v = case.like(outs), case.like([case.arrays[k] for k in case.floats])
        for asked in asked_for(len(case.floats)):
            _check_second_of(case, weights, [d if i in asked else np.zeros_like(d) for i, d in enumerate(v)], asked)


def asked_for(count: int) -> list[tuple[int, ...]]:
    """Each of so many operands alone, each pair, and all."""
    found = [s for n in (1, 2) for s in combinations(range(count), n)]
    return found if count < 3 else [*found, tuple(range(count))]


def _check_second_of(case: Case, weights: Sequence[Array], v: Sequence[Array], asked: tuple[int, ...]) -> None:
    """The derivative along `v` of the gradient: by all operands, also if only those in `asked` were asked for first.

    Second derivatives are symmetric, so <v, gradient> has as its gradient what differences along `v` give.
    """
    where = f"{case}, asking for {asked}"
    ahead, behind = (reverse(case, weights, case.moved(v, s)) for s in (STEP, -STEP))
    want = [(a - b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
    by_reverse, by_weights = reverse_of_reverse(case, weights, v, asked)
    assert_close(by_reverse, want, f"{where}: reverse over reverse", 1e-5, 1e-5)
    assert_close(by_weights, pushed(case, v), f"{where}: reverse by the cotangent", 1e-8, 1e-8)
    gradient, directions = gradient_function(case, weights, asked), tuple(from_numpy(v[i]) for i in asked)
    primals = tuple(from_numpy(case.arrays[k]) for k in case.floats)
    _, pull = func.vjp(gradient, *primals)
    assert_close(pull(directions), want, f"{where}: vjp of grad", 1e-5, 1e-5)
    if len(asked) == len(case.floats):
        _, changes = func.jvp(gradient, primals, directions)
        assert_close(changes, want, f"{where}: forward over reverse", 1e-5, 1e-5)


def reverse_of_reverse(
    case: Case, weights: Sequence[Array], v: Sequence[Array], asked: Sequence[int]
) -> tuple[list[Array], list[Array]]:
    """The gradients of Re<v, gradient> by the operands and by the cotangents; the gradient is by those asked for."""
    inputs = case.operands()
    seeds = [from_numpy(w).requires_grad_() for w in weights]
    everything = [inputs[k] for k in case.floats]
    first = pulled(case.op(*inputs), seeds, [everything[i] for i in asked], create_graph=True)
    found = pulled(first, [v[i] for i in asked], [*everything, *seeds])
    return [array(g) for g in found[: len(everything)]], [array(g) for g in found[len(everything) :]]


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(1, len(items) + 1))


def variants(row: Row, dtype: str) -> Iterator[list[Case]]:
    """Each sample with other random numbers for every example; operands that are not random are rotated instead."""
    for versions in zip(*[list(cases(row, dtype, seed)) for seed in range(BATCH)], strict=True):
        for i, case in enumerate(versions):
            for k, a in enumerate(case.arrays):
                if i and a.size and np.array_equal(a, versions[0].arrays[k], equal_nan=is_float(a)):
                    case.arrays[k] = np.roll(a.reshape(-1), i).reshape(a.shape)
        yield list(versions)


def outermost_first(a: Array) -> list[int]:
    return sorted(range(a.ndim), key=lambda d: (-abs(a.strides[d]), d))


def in_memory_as(a: Array, arrays: Sequence[Array]) -> Array:
    """Stacked, each in the order in which `a` lies in memory."""
    order = outermost_first(a)
    return np.stack([b.transpose(order) for b in arrays]).transpose(0, *(1 + np.argsort(order)))


def check_vmap(row: Row, dtype: str) -> None:
    """vmap agrees with a loop, in values and in gradients through it and inside it, for all choices of operands."""
    for versions in variants(row, dtype):
        case = versions[0]
        batchable = [k for k, a in enumerate(case.arrays) if a.dtype.kind not in row.unbatched]
        for chosen in subsets(batchable):
            if row.inplace and 0 not in chosen:
                continue
            examples = [[v.arrays[k] if k in chosen else a for k, a in enumerate(case.arrays)] for v in versions]
            _check_one_vmap(case, chosen, examples, row.differentiable)


def _check_one_vmap(case: Case, chosen: tuple[int, ...], examples: list[list[Array]], gradients: bool) -> None:
    where = f"{case} with operands {chosen} batched"
    arrays = [in_memory_as(a, [e[k] for e in examples]) if k in chosen else a for k, a in enumerate(case.arrays)]
    in_dims = tuple(0 if k in chosen else None for k in range(len(arrays)))
    inputs = case.operands(arrays)
    orders: list[list[bool]] = []

    def batched(*values: Any) -> tuple[Any, ...]:
        outs = case.op(*values)
        orders.append([o.is_contiguous() for o in outs])
        return tuple(outs)

    outs = func.vmap(batched, in_dims=in_dims)(*inputs)
    loop = [[array(o) for o in case.op(*case.operands(e, requires_grad=False))] for e in examples]
    assert_close(outs, [np.stack(o) for o in zip(*loop, strict=True)], where, 1e-9, 1e-9)
    if all(a.transpose(outermost_first(a)).flags.c_contiguous for a in case.arrays):
        # So the same operations give views of a result, and those who write to them reach it.
        alone = [o.flags.c_contiguous for o in loop[0]]
        assert orders[0] == alone, f"{where}: results in row-major order {orders[0]}, by itself {alone}"
    if not gradients or not case.floats:
        return
    weights = case.like([array(o) for o in outs if is_float(o)])
    each = [reverse(case, [w[i] for w in weights], e) for i, e in enumerate(examples)]
    stacked = [np.stack(g) for g in zip(*each, strict=True)]
    through = pulled(outs, weights, [inputs[k] for k in case.floats])
    summed = [g if k in chosen else g.sum(0) for g, k in zip(stacked, case.floats, strict=True)]
    assert_close(through, summed, f"{where}, gradient of vmap", 1e-8, 1e-8)
    inside = func.vmap(lambda *v: _gradient_inside(case, v), in_dims=(*in_dims, *(0 for _ in weights)))
    assert_close(
        inside(*case.operands(arrays, False), *map(from_numpy, weights)), stacked, f"{where}, vmap of grad", 1e-8, 1e-8
    )


def _gradient_inside(case: Case, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    values, weights = list(values[: len(case.arrays)]), values[len(case.arrays) :]

    def of_floats(*floats: Tensor) -> tuple[Tensor, ...]:
        for k, f in zip(case.floats, floats, strict=True):
            values[k] = f
        return tuple(o for o in case.op(*values) if is_float(o))

    _, pull = func.vjp(of_floats, *[values[k] for k in case.floats])
    found: tuple[Tensor, ...] = pull(tuple(weights))
    return found


def _note_type(sent: dict[int, Any], operand: int, gradient: Tensor) -> None:
    sent[operand] = gradient.np_dtype


def check_types(row: Row, dtype: str) -> None:
    """Gradients have the type and shape of their operands, and in single precision nearly the values of double."""
    for case in smooth(row, dtype):
        inputs = [t.clone() if t.requires_grad else t for t in case.operands()]
        # What the rule itself sends back, before it is added to other gradients and converted.
        sent: dict[int, Any] = {}
        for k in case.floats:
            inputs[k].register_hook(partial(_note_type, sent, k))
        outs = case.op(*inputs)
        weights = case.like([array(o) for o in outs if is_float(o)])
        got = pulled(outs, weights, [inputs[k] for k in case.floats])
        for g, k in zip(got, case.floats, strict=True):
            assert g.np_dtype == case.arrays[k].dtype, f"{case}: operand {k} has a gradient of {g.np_dtype}"
            # NumPy multiplies bfloat16 by Python numbers in float32, and what it gives is converted at the leaf only.
            is_whole = dtype == "bfloat16" or sent.get(k, g.np_dtype) == g.np_dtype
            assert is_whole, f"{case}: operand {k} is sent a cotangent of {sent[k]}"
            assert g.shape == case.arrays[k].shape, f"{case}: operand {k} has a gradient of shape {g.shape}"
        if dtype in ("float32", "complex64"):
            wide = [w.astype(complex if w.dtype.kind == "c" else float) for w in weights]
            double = Case(row, case.sample, dtype)
            double.arrays = [a.astype(np.result_type(a, float)) if is_float(a) else a for a in case.arrays]
            assert_close(got, reverse(double, wide), case, 1e-3, 1e-3)


def check_pins(row: Row, dtype: str) -> None:
    """At points where the derivative is a convention, it is the one that the row states, in both directions."""
    for args, want in row.pins:
        values = tuple(np.asarray(a, dtype) if isinstance(a, list) else a for a in args)
        case = Case(row, Sample(values, {}), dtype)
        ones = [np.ones(o.shape, o.dtype) for o in case.float_outs(*case.arrays)]
        assert_close(reverse(case, ones), [np.asarray(w, dtype) for w in want], case)
        tangents = case.like([case.arrays[k] for k in case.floats])
        assert_close([inner(ones, pushed(case, tangents))], [inner(want, tangents)], f"{case} forward")


def check_undifferentiable(row: Row, dtype: str) -> None:
    """Results of rows that are not differentiable are on no tape."""
    for case in cases(row, dtype):
        for out in case.op(*case.operands()):
            assert not (isinstance(out, Tensor) and out.requires_grad), f"{case}: the result requires grad"


# Where shapes degenerate, copies easily become views: sizes of 1, no elements, no dimensions; further arguments of 1, 0.
def _degenerate(case: Case) -> Iterator[Case]:
    """The case itself, and versions of it in which operands or arguments are as small as they can be."""
    yield case
    shrinks: tuple[Callable[[Array], Array], ...] = (
        lambda a: a[(slice(0, 1),) * a.ndim],
        lambda a: a[:1] if a.ndim else a,
        lambda a: a[..., :1] if a.ndim else a,
        lambda a: a[:0] if a.ndim else a,
        lambda a: a[(0,) * a.ndim + (...,)] if a.size else a,
    )
    numbers = (None, 0, 1)
    for shrink in (lambda a: a, *shrinks):
        for number in numbers:
            twin = Case(case.row, case.sample, case.dtype)
            twin.arrays = [np.array(shrink(a)) if is_float(a) else np.zeros_like(shrink(a)) for a in case.arrays]
            twin._args = twin._args if number is None else _with_numbers(twin._args, number)
            yield twin


def _with_numbers(nest: Any, number: int) -> Any:
    """A nest of arguments with another number in the place of each integer."""
    if type(nest) in (list, tuple):
        return type(nest)(_with_numbers(n, number) for n in nest)
    return number if type(nest) is int else nest


def memory_of(x: Any) -> Any:
    """What stands for the memory of a tensor: its version counter, shared by all its views."""
    return None if x._meta is None else x._meta.storage


def check_aliasing(row: Row, dtype: str) -> None:
    """A result that shares memory is a view that the tape follows, and a view shares memory; all else is fresh."""
    for case in cases(row, dtype):
        for twin in _degenerate(case):
            inputs = twin.operands([a.copy() for a in twin.arrays], requires_grad=False)
            outs = []
            with suppress(*REFUSALS):
                outs = [o for o in twin.op(*inputs) if type(o) is Tensor]
            for k, out in enumerate(outs):
                shared = [t for t in (*inputs, *outs[:k]) if t is not out and np.shares_memory(array(t), array(out))]
                for other in shared:
                    assert memory_of(out) is not None and memory_of(out) is memory_of(other), (
                        f"{twin}: result {k} of shape {out.shape} shares memory, but is no view"
                    )
                # A view of a temporary that nobody else has is as good as a copy.
                if out.is_view() and any(out._base is t for t in inputs) and array(out).size:
                    assert shared, f"{twin}: result {k} of shape {out.shape} is called a view, but shares no memory"


@contextmanager
def computing_with(backend: str) -> Iterator[None]:
    """Compute with the kernels of a backend, and of those after it."""
    before = kernels.in_use[0]
    kernels.use(backend)
    try:
        yield
    finally:
        kernels.use(before)


def _results_and_gradients(row: Row, dtype: str) -> Iterator[tuple[Case, list[Any], list[Array]]]:
    for case in cases(row, dtype):
        outs = case.op(*case.operands(requires_grad=False))
        gradients: list[Array] = []
        if row.differentiable and "reverse" not in row.without:
            gradients = reverse(case, case.like([array(o) for o in outs if is_float(o)]))
        yield case, [array(o).copy() if isinstance(o, Tensor) else o for o in outs], gradients


def check_generated(row: Row, dtype: str) -> None:
    """Results and first gradients of generated and compiled kernels are those of the reference."""
    load_all()
    rtol, atol = TOLERANCES.get(dtype, TOLERANCES["float32"])
    here = list(_results_and_gradients(row, dtype))
    with computing_with(kernels.REFERENCE):
        there = list(_results_and_gradients(row, dtype))
    for (case, outs, gradients), (_, wanted, wanted_gradients) in zip(here, there, strict=True):
        for got, want in ((outs, wanted), (gradients, wanted_gradients)):
            assert [np.asarray(g).dtype for g in got] == [np.asarray(w).dtype for w in want], f"{case}: other types"
            assert_close(got, want, case, rtol, atol)


_SUMS = ("contraction", "reduction", "scan", "fused", "other")


def check_compiled(row: Row, dtype: str, most: int = 2) -> None:
    """A program of a call, with its gradients, gives as machine code what it gives instruction by instruction."""
    for case in islice(cases(row, dtype), most):
        program = _program(case)
        if program is None:
            continue
        inputs = case.operands(requires_grad=False)
        captured = [tensor for _, tensor in program.captured]
        with no_grad():
            want = program.run(inputs, captured)
        got = Executable(program).run(inputs, captured)
        # Sums of elements that lie in memory in another order have another order.
        exactly = not any(getattr(i.primitive, "category", "other") in _SUMS for i in program.instructions)
        for g, w in zip(got, want, strict=True):
            if isinstance(w, Tensor):
                assert g.np_dtype == w.np_dtype and g.shape == w.shape, (
                    f"{case}: {g.dtype}{g.shape}, not {w.dtype}{w.shape}"
                )
        tensors = [(g, w) for g, w in zip(got, want, strict=True) if isinstance(w, Tensor)]
        if exactly:
            for g, w in tensors:
                assert np.array_equal(array(g), array(w), equal_nan=is_float(w)), f"{case}: {array(g)}, not {array(w)}"
        else:
            assert_close(
                [g for g, _ in tensors], [array(w) for _, w in tensors], case, *TOLERANCES.get(dtype, (1e-5, 1e-6))
            )


def _program(case: Case) -> Any:
    """The program of the results of a case and, where it has some, of its gradients; None where values are needed."""
    is_differentiated = case.row.differentiable and "reverse" not in case.row.without and bool(case.floats)

    def call(*operands: Any) -> Any:
        outs = case.op(*operands)
        if not is_differentiated:
            return outs
        roots = [o for o in outs if isinstance(o, Tensor) and o.requires_grad]
        weights = [from_numpy(w) for w in case.like([np.empty(o.shape, o.np_dtype) for o in roots])]
        wanted = [operands[k] for k in case.floats]
        return [*outs, *autograd.grad(roots, wanted, weights, allow_unused=True)] if roots else outs

    try:
        return make_graph(call)(*case.operands(requires_grad=is_differentiated))
    except (NeedsValueError, *REFUSALS):
        return None


FLOATS = ("float64", "float32", "float16", "bfloat16")
REFUSABLE = ("int64", "complex128", "float64")


def taken(row: Row) -> tuple[str, ...]:
    """The types of operands that the row lists."""
    floats = (FLOATS if row.halves else FLOATS[:2]) if row.floats else ()
    return (*floats, *row.ints, *(("complex128", "complex64") if row.complex else ()))


def plan(row: Row) -> Iterator[tuple[str, Callable[[Row, str], None], str]]:
    """The checks that apply to a row: name, check, type of the operands."""
    fields = (("float64",) if row.floats else ()) + (("complex128",) if row.complex else ())
    for dtype in taken(row):
        yield "values", check_values, dtype
        yield "generated", check_generated, dtype
        yield "compiled", check_compiled, dtype
    refusable = REFUSABLE if row.halves else (*REFUSABLE, "float16")
    for dtype in (d for d in refusable if d not in taken(row)):
        yield "refused", check_refused, dtype
    derivatives = (
        ("reverse", check_reverse), ("late", check_late), ("overwritten", check_overwritten), ("forward", check_forward), ("second", check_second),
    )  # fmt: skip
    for dtype in fields:
        yield from ((name, check, dtype) for name, check in derivatives if row.differentiable)
        if not row.differentiable:
            yield "undifferentiable", check_undifferentiable, dtype
    for dtype in fields or row.ints[:1]:
        yield "vmap", check_vmap, dtype
    for dtype in taken(row) if row.differentiable else ():
        if dtype not in FLOATS[1:] and dtype != "complex64":
            continue
        yield "types", check_types, dtype
    for dtype in fields or row.ints[:1]:
        yield "aliasing", check_aliasing, dtype
    if row.pins:
        yield "pins", check_pins, "float64"


def planned(row: Row) -> list[tuple[str, Callable[[Row, str], None], str]]:
    return [(name, check, dtype) for name, check, dtype in plan(row) if name not in row.without]


RULES = ("kernel", "vjp", "jvp", "batch")


def exercise(primitives: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """Run rows until every rule of every primitive was used; what remains, as `primitive.rule`.

    First the rules alone on some samples; then, for what is left, the checks of the rows of that name, and in the end
    those of all, which take much longer.
    """
    wanted = {(name, rule) for name, prim in primitives.items() for rule in RULES if _has(prim, rule)}

    def left() -> set[str]:
        return {name for name, _ in wanted}

    def run(function: Callable[[Row, str], None], chosen: Callable[[Row], bool] = lambda row: True) -> None:
        for row in filter(chosen, rows):
            for dtype in ("float64",) * row.floats + ("complex128",) * row.complex or row.ints[:1]:
                if wanted:
                    function(row, dtype)

    with spying(primitives, wanted):
        run(partial(run_rules, most=3))
        run(_run_checks, lambda row: row.name in left())
        run(run_rules)
        run(_run_checks)
    return sorted(".".join(w) for w in wanted)


def _run_checks(row: Row, dtype: str) -> None:
    for name, check, checked in planned(row):
        if checked == dtype and name in ("values", "reverse", "forward", "second", "vmap"):
            with suppress(*REFUSALS, AssertionError):  # they have tests of their own
                check(row, dtype)


def run_rules(row: Row, dtype: str, most: int | None = None) -> None:
    """Each sample once: by itself, pulled back, pushed forward, twice, and in a batch of one with its gradient."""
    checks = {name for name, _, checked in planned(row) if checked == dtype}
    for plain in islice(cases(row, dtype), most):
        case = Case(row, plain.sample, dtype, squares="second" in checks)
        weights: list[Array] = []
        with suppress(*REFUSALS):
            weights = case.like([array(o) for o in case.op(*case.operands(requires_grad=False)) if is_float(o)])
        directions, asked = case.like([case.arrays[k] for k in case.floats]), tuple(range(len(case.floats)))
        if "reverse" in checks:
            with suppress(*REFUSALS):
                reverse_of_reverse(case, weights, directions, asked)
        if "forward" in checks and case.floats:
            with suppress(*REFUSALS):
                pushed(case, directions)
                primals = tuple(from_numpy(case.arrays[k]) for k in case.floats)
                func.jvp(gradient_function(case, weights, asked), primals, tuple(map(from_numpy, directions)))
        if "vmap" in checks:
            with suppress(*REFUSALS):
                _run_batched(case, weights if "reverse" in checks else [])


def _run_batched(case: Case, weights: list[Array]) -> None:
    dims = tuple(0 if a.dtype.kind not in case.row.unbatched else None for a in case.arrays)
    batch = [a[None] if d == 0 else a for a, d in zip(case.arrays, dims, strict=True)]
    for requires_grad in (False, True):  # some are recorded by ways of their own
        func.vmap(lambda *v: tuple(case.op(*v)), in_dims=dims)(*case.operands(batch, requires_grad))
    if weights and case.floats:
        gradients = func.vmap(lambda *v: _gradient_inside(case, v), in_dims=(*dims, *(None for _ in weights)))
        gradients(*case.operands(batch, False), *map(from_numpy, weights))


def _has(prim: Any, rule: str) -> bool:
    if rule in ("vjp", "jvp"):
        return bool(prim.differentiable)
    return getattr(prim, rule) is not None


def _own(prim: Any, rule: str) -> Any:
    """A rule as the primitive itself has it: None for a method of its class."""
    return vars(prim).get(rule) if rule == "vjp" else getattr(prim, rule)


@contextmanager
def spying(primitives: Mapping[str, Any], wanted: set[tuple[str, str]]) -> Iterator[None]:
    """Take rules out of `wanted` as they are used."""
    load_all()
    before = {(name, rule): _own(primitives[name], rule) for name, rule in wanted}

    def spy(key: tuple[str, str], function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            wanted.discard(key)
            return function(*args, **kwargs)

        if isinstance(function, WithBackward):
            return WithBackward(spy(key, function.forward), function.backward)
        return call

    for name, rule in before:
        prim = primitives[name]
        function = resolved(prim) if rule == "kernel" else getattr(prim, rule)
        if function is not None:
            setattr(prim, rule, spy((name, rule), function))
    try:
        yield
    finally:
        for (name, rule), function in before.items():
            setattr(primitives[name], rule, function)
            if function is None and rule == "vjp":
                delattr(primitives[name], rule)  # a method of the class
