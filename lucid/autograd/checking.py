"""Checking derivatives against central differences, (f(x + ε) - f(x - ε)) / 2ε.

Complex numbers are pairs of reals here: a Jacobian has a row for each real component of the outputs and a
column for each real component of an input. In the gradient convention ∂L/∂Re + i ∂L/∂Im, the row of Re(y) is
the pullback of 1 and the row of Im(y) the pullback of i, so one code path serves real and complex functions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.autograd.calls import Call
from lucid.autograd.differentiate import grad
from lucid.autograd.forward_ad import dual_level, make_dual, unpack_dual
from lucid.autograd.function import Function
from lucid.autograd.modes import enable_grad
from lucid.core import tree
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import next_seq
from lucid.core.primitive import edge_of, variable
from lucid.core.tensor import Tensor

Array = np.ndarray[Any, Any]


class GradcheckError(RuntimeError):
    """A derivative is not what central differences say.

    >>> import lucid
    >>> class Wrong(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 3
    >>> try:
    ...     lucid.autograd.gradcheck(Wrong.apply, (lucid.tensor([1.0]),))
    ... except lucid.autograd.GradcheckError:
    ...     print("the backward is wrong")
    the backward is wrong
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_forward_ad: bool = False,
    *,
    check_batched_grad: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare the derivatives of `func(*inputs)` with central differences of step `eps`.

    Checked are the inputs that require grad, or all floating-point and complex ones if none does; other arguments
    are passed on as they are. Everything runs in double precision on copies, so the tensors given and their
    `.grad` stay as they are. Derivatives a and n agree if |a - n| <= atol + rtol |n|. Also checked: that `func`
    is not random, that the backward is repeatable within `nondet_tol` and linear in the incoming gradient, that
    gradients have the shapes and types of their inputs, with `check_forward_ad`, that forward mode agrees, and with
    `check_batched_grad`, that many gradients at once do. `check_undefined_grad`, `check_grad_dtypes` and `fast_mode` are
    PyTorch's, to check less: they change nothing.

    At a kink (relu at 0, clamp at a bound, max with ties) central differences give the mean of the slopes on both
    sides, which no backward returns: choose inputs that are further than `eps` from kinks.

    Failure raises GradcheckError, which names the input, the output and the element; with
    `raise_exception=False` it returns False.

    >>> import lucid
    >>> x = lucid.tensor([0.5, -2.0], requires_grad=True)
    >>> lucid.autograd.gradcheck(lambda x, k: (x * k).sin(), (x, 3.0))
    True
    """
    if not eps > 0:
        raise ValueError(f"gradcheck: eps must be positive, not {eps}")
    problem = _Problem(func, inputs, "gradcheck")
    with enable_grad():
        return _passes(
            lambda: _check(problem, eps, atol, rtol, nondet_tol, check_forward_ad, check_batched_grad), raise_exception
        )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_forward_ad: bool = False,
    *,
    check_batched_grad: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare second derivatives with central differences of the gradients: `gradcheck` of the gradient of `func`.

    The gradient is a function of the inputs and of `grad_outputs`, one for each differentiable output; omitted,
    they are random numbers, the same in each run.

    >>> import lucid
    >>> x = lucid.tensor([0.5, -2.0], requires_grad=True)
    >>> lucid.autograd.gradgradcheck(lambda x: x**3, x)
    True
    """
    first = _Problem(func, inputs, "gradgradcheck")
    with enable_grad():
        outputs, _ = first.call(first.arrays)
        live = [i for i, out in enumerate(outputs) if out.requires_grad]
        if not live:
            return _passes(lambda: _raise(f"gradgradcheck: no output of {first.name} requires grad"), raise_exception)
        seeds = _seeds_for([outputs[i] for i in live], grad_outputs)
        arguments = [Tensor.from_data(a) for a in (*first.arrays, *seeds)]
        second = _Problem(first.gradient(live), arguments, "gradgradcheck")
        second.name = f"the gradient of {first.name}"
        second.inputs = [*first.inputs, *(f"grad_output {i}" for i in live)]
        second.outputs = [f"the gradient by {name}" for name in first.inputs]
        return _passes(
            lambda: _check(second, eps, atol, rtol, nondet_tol, check_forward_ad, check_batched_grad), raise_exception
        )


def _passes(check: Callable[[], None], raise_exception: bool) -> bool:
    try:
        check()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _raise(message: str) -> None:
    raise GradcheckError(message)


class _Problem:
    """A function of double-precision arrays, and the names of its inputs and outputs."""

    def __init__(self, fn: Callable[..., Any], inputs: Any, caller: str) -> None:
        args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        self.fn = fn
        self.caller = caller
        self.name = _name_of(fn)
        self.leaves, self.structure = tree.flatten(args)
        self.places = _checked_places(self.leaves, caller)
        self.arrays = [_double(self.leaves[p]) for p in self.places]
        self.inputs = [f"input {p}" for p in self.places]
        self.outputs: list[str] = []

    def evaluate(self, variables: Sequence[Tensor]) -> list[Tensor]:
        """The differentiable outputs for these tensors in the places of the checked inputs."""
        leaves = [_copied(leaf) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        for place, x in zip(self.places, variables, strict=True):
            leaves[place] = x
        outputs = tree.flatten(self.fn(*self.structure.unflatten(leaves)))[0]
        found = [out for out in outputs if isinstance(out, Tensor) and out.np_dtype in DIFFERENTIABLE]
        if not found:
            raise GradcheckError(f"{self.caller}: {self.name} returned no floating-point or complex tensor")
        return found

    def call(self, arrays: Sequence[Array]) -> tuple[list[Tensor], list[Tensor]]:
        """The differentiable outputs at `arrays`, and the leaves they depend on."""
        variables = [Tensor.from_data(a, requires_grad=True) for a in arrays]
        return self.evaluate(variables), variables

    def values(self, arrays: Sequence[Array]) -> Array:
        """All outputs at `arrays` as one vector of real components."""
        return _joined([_parts(_double(out)) for out in self.call(arrays)[0]])

    def gradient(self, live: list[int]) -> Callable[..., Any]:
        """The gradients as a function of the checked inputs and the seeds of the `live` outputs."""

        def gradients(*args: Tensor) -> tuple[Any, ...]:
            variables, seeds = [variable(x) for x in args[: len(self.places)]], args[len(self.places) :]
            outputs = self.evaluate(variables)
            found = grad([outputs[i] for i in live], variables, seeds, create_graph=True, materialize_grads=True)
            return tuple(found)

        return gradients

    def output_name(self, i: int) -> str:
        return self.outputs[i] if self.outputs else f"output {i}"


def _name_of(fn: Any) -> str:
    if isinstance(getattr(fn, "__self__", None), type):  # a class method, as Function.apply
        return f"{fn.__self__.__name__}.{fn.__name__}"
    return str(getattr(fn, "__qualname__", type(fn).__name__))


def _checked_places(leaves: list[Any], caller: str) -> list[int]:
    possible = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.np_dtype in DIFFERENTIABLE]
    places = [i for i in possible if leaves[i].requires_grad] or possible
    if not places:
        raise ValueError(f"{caller}: there is no floating-point or complex tensor among the inputs to check")
    return places


def _double(value: Any) -> Array:
    """A copy of a tensor's elements in double precision."""
    array = value._concrete("gradcheck") if isinstance(value, Tensor) else value
    return np.array(array, np.complex128 if array.dtype.kind == "c" else np.float64)


def _copied(tensor: Tensor) -> Tensor:
    """An input that is not checked: the same numbers, in double precision if they are not exact."""
    if tensor.np_dtype in DIFFERENTIABLE:
        return Tensor.from_data(_double(tensor))
    return Tensor.from_data(np.array(tensor._concrete("gradcheck")))


def _parts(array: Array) -> Array:
    """The real components of an array, flat: real and imaginary parts alternate."""
    return np.ascontiguousarray(array).reshape(-1).view(np.float64)


def _joined(pieces: Sequence[Array]) -> Array:
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _random(shape: tuple[int, ...], is_complex: bool, rng: np.random.Generator) -> Array:
    if is_complex:
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
    return np.asarray(rng.standard_normal(shape))


def _seeds_for(outputs: Sequence[Tensor], given: Any) -> list[Array]:
    if given is not None:
        seeds = [given] if isinstance(given, (Tensor, np.ndarray)) else list(given)
        if len(seeds) != len(outputs):
            raise ValueError(f"gradgradcheck: {len(seeds)} grad_outputs for {len(outputs)} differentiable outputs")
        return [_double(s) for s in seeds]
    rng = np.random.default_rng(0)
    return [_random(out.shape, out.is_complex(), rng) for out in outputs]


def _check(
    problem: _Problem, eps: float, atol: float, rtol: float, nondet_tol: float, forward: bool, batched: bool
) -> None:
    """All checks, the ones that would spoil others first."""
    mark = next_seq()
    outputs, variables = problem.call(problem.arrays)
    _raise_if_random(problem, outputs, nondet_tol)
    faults: list[str] = []
    _watch_functions(outputs, mark, faults)
    _watch_leaves(problem, variables, faults)

    seeds = _seeds_for(outputs, None)
    before = _pullback(outputs, variables, seeds)
    if faults:
        raise GradcheckError(f"{problem.caller}: {faults[0]}")
    numerical = [_numerical(problem, k, eps) for k in range(len(variables))]
    analytical = _reverse_jacobians(outputs, variables)
    tolerance = _Tolerance(eps, atol, rtol)
    for k, (a, n) in enumerate(zip(analytical, numerical, strict=True)):
        _compare(problem, outputs, k, a, n, tolerance, "backward")
    _raise_if_nonlinear(problem, seeds, before, analytical, tolerance)
    _raise_if_unrepeatable(problem, before, _pullback(outputs, variables, seeds), nondet_tol)
    if batched:
        for k, many in enumerate(_batched_jacobians(outputs, variables)):
            _compare(problem, outputs, k, many, numerical[k], tolerance, "batched backward")
    if forward:
        for k, n in enumerate(numerical):
            _compare(problem, outputs, k, _forward_jacobian(problem, k, n.shape[0]), n, tolerance, "jvp")


def _raise_if_random(problem: _Problem, outputs: Sequence[Tensor], tolerance: float) -> None:
    first = _joined([_parts(_double(out)) for out in outputs])
    again = problem.values(problem.arrays)
    if first.shape != again.shape:
        raise GradcheckError(f"{problem.caller}: {problem.name} returned other shapes when it was called again")
    difference = _largest(first, again)
    if difference > tolerance:
        raise GradcheckError(
            f"{problem.caller}: {problem.name} is not deterministic: called twice with the same inputs, its outputs "
            f"differ by up to {difference:.3g}. Seed the random numbers inside it, or switch them off"
        )


def _largest(a: Array, b: Array) -> float:
    """The largest difference; infinities and nans in the same places are no difference."""
    differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return float(np.max(np.abs(a[differs] - b[differs]), initial=0.0)) if differs.any() else 0.0


def _pullback(outputs: Sequence[Tensor], variables: Sequence[Tensor], seeds: Sequence[Array]) -> list[Array]:
    """The gradient of each variable for seeds at all outputs, as real components."""
    live = [i for i, out in enumerate(outputs) if out.requires_grad]
    if not live:
        return [np.zeros_like(_parts(v._array)) for v in variables]
    found = grad(
        [outputs[i] for i in live], variables, [seeds[i] for i in live], retain_graph=True, materialize_grads=True
    )
    return [_parts(_double(g)) for g in found]


def _unit(out: Tensor, component: int) -> Array:
    seed = np.zeros(out.shape, np.complex128 if out.is_complex() else np.float64)
    seed.reshape(-1).view(np.float64)[component] = 1
    return seed


def _reverse_jacobians(outputs: Sequence[Tensor], variables: Sequence[Tensor]) -> list[Array]:
    """For each variable the Jacobian of all outputs, row by row from pullbacks of unit vectors."""
    rows = []
    for out in outputs:
        for component in range(out.numel() * (2 if out.is_complex() else 1)):
            rows.append(_pullback([out], variables, [_unit(out, component)]))
    return [
        np.array([row[k] for row in rows]).reshape(len(rows), _parts(v._array).size) for k, v in enumerate(variables)
    ]


def _batched_jacobians(outputs: Sequence[Tensor], variables: Sequence[Tensor]) -> list[Array]:
    """The same, from one pullback of all unit vectors of an output at once."""
    found: list[list[Array]] = [[] for _ in variables]
    for out in outputs:
        count = out.numel() * (2 if out.is_complex() else 1)
        if not count:
            continue
        units = np.stack([_unit(out, component) for component in range(count)])
        rows: Any = [None] * len(variables)
        if out.requires_grad:
            rows = grad([out], variables, [units], retain_graph=True, is_grads_batched=True, allow_unused=True)
        for k, (v, g) in enumerate(zip(variables, rows, strict=True)):
            size = _parts(v._array).size
            found[k].append(np.zeros((count, size)) if g is None else _parts(_double(g)).reshape(count, size))
    return [np.concatenate([np.zeros((0, _parts(v._array).size)), *rows]) for v, rows in zip(variables, found)]


def _numerical(problem: _Problem, k: int, eps: float) -> Array:
    """The Jacobian of all outputs by input `k`, column by column from central differences."""
    columns = []
    for component in range(_parts(problem.arrays[k]).size):
        high, low = (problem.arrays[k].copy(), problem.arrays[k].copy())
        for array, step in ((high, eps), (low, -eps)):
            array.reshape(-1).view(np.float64)[component] += step
        width = high.reshape(-1).view(np.float64)[component] - low.reshape(-1).view(np.float64)[component]
        above, below = (problem.values(_replaced(problem.arrays, k, array)) for array in (high, low))
        # Rounding made the step slightly different from 2ε: the one that was taken counts.
        columns.append((above - below) / width)
    if not columns:
        return np.zeros((problem.values(problem.arrays).size, 0))
    return np.stack(columns, axis=1)


def _forward_jacobian(problem: _Problem, k: int, rows: int) -> Array:
    """The Jacobian of all outputs by input `k`, column by column from pushforwards of unit vectors."""

    def at(primal: Tensor) -> list[Tensor]:
        return problem.evaluate(
            [primal if i == k else Tensor.from_data(array) for i, array in enumerate(problem.arrays)]
        )

    primal = Tensor.from_data(problem.arrays[k])
    columns = []
    for component in range(_parts(problem.arrays[k]).size):
        with dual_level():
            outputs = at(make_dual(primal, Tensor.from_data(_unit(primal, component))))
            duals = [unpack_dual(out) for out in outputs]
        columns.append(_joined([_parts(_changes(*dual)) for dual in duals]))
    return np.array(columns).reshape(len(columns), rows).T


def _changes(primal: Tensor, tangent: Tensor | None) -> Array:
    """A tangent in double precision: zeros where there is none."""
    return np.zeros_like(_double(primal)) if tangent is None else _double(tangent)


def _replaced(arrays: Sequence[Array], k: int, array: Array) -> list[Array]:
    return [array if i == k else a for i, a in enumerate(arrays)]


def _watch_leaves(problem: _Problem, variables: Sequence[Tensor], faults: list[str]) -> None:
    """Look at the gradients that reach the inputs before the engine converts them."""
    for name, x in zip(problem.inputs, variables, strict=True):
        x.register_hook(_looking_at(name, x.shape, x.np_dtype, faults))


def _looking_at(name: str, shape: tuple[int, ...], dtype: Any, faults: list[str]) -> Callable[[Tensor], None]:
    def look(gradient: Tensor) -> None:
        if gradient.shape != shape:
            faults.append(f"the gradient of {name} has shape {gradient.shape}, but the input has shape {shape}")
        elif not _fits(gradient.np_dtype, dtype):
            faults.append(f"the gradient of {name} is {gradient.np_dtype}, but the input is {dtype}")

    return look


def _fits(found: Any, wanted: Any) -> bool:
    """A gradient has its input's type; for complex inputs a real gradient of equal precision will do."""
    return bool(found == wanted or (wanted.kind == "c" and found.kind == "f" and found.itemsize * 2 == wanted.itemsize))


def _watch_functions(outputs: Sequence[Tensor], mark: int, faults: list[str]) -> None:
    """Look at what the backward of each custom Function returns before it is converted to the input's type."""
    frontier: list[Any] = [edge_of(out) for out in outputs if out.requires_grad]
    seen: set[int] = set()
    while frontier:
        node = frontier.pop()
        if node._seq <= mark or node._seq in seen:
            continue
        seen.add(node._seq)
        if isinstance(node.prim, Call):
            node.prim.function = _watched(node.prim, faults)
        frontier.extend(edge for edge in node.edges if edge is not None)


def _watched(call: Any, faults: list[str]) -> Any:
    function, expected = call.function, dict(zip(call.places, call.shapes_in, strict=True))

    def backward(ctx: Any, *grads: Any) -> Any:
        result = function.backward(ctx, *grads)
        for i, g in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if isinstance(g, Tensor) and i in expected and not _fits(g.np_dtype, expected[i][1]):
                faults.append(
                    f"{call.name}.backward returned {g.np_dtype} for argument {i}, whose type is {expected[i][1]}"
                )
        return result

    if function.backward is Function.backward:  # which has a forward rule only, and that is transposed
        return function
    return type(call.name, (function,), {"backward": staticmethod(backward)})


class _Tolerance:
    def __init__(self, eps: float, atol: float, rtol: float) -> None:
        self.eps, self.atol, self.rtol = eps, atol, rtol

    def around(self, magnitude: Array) -> Array:
        return self.atol + self.rtol * magnitude


def _raise_if_nonlinear(
    problem: _Problem, seeds: Sequence[Array], found: Sequence[Array], jacobians: Sequence[Array], tolerance: _Tolerance
) -> None:
    """The pullback of a seed must be the sum of the rows, weighted by the seed."""
    seed = _joined([_parts(s) for s in seeds])
    for name, gradient, jacobian in zip(problem.inputs, found, jacobians, strict=True):
        if not (np.abs(gradient - seed @ jacobian) <= tolerance.around(np.abs(seed) @ np.abs(jacobian))).all():
            raise GradcheckError(
                f"{problem.caller}: the backward of {problem.name} for {name} is not linear in the gradient that comes "
                "in: it is right for unit vectors only. Does it multiply by the incoming gradient?"
            )


def _raise_if_unrepeatable(
    problem: _Problem, before: Sequence[Array], after: Sequence[Array], tolerance: float
) -> None:
    for name, a, b in zip(problem.inputs, before, after, strict=True):
        difference = _largest(a, b)
        if difference > tolerance:
            raise GradcheckError(
                f"{problem.caller}: the backward of {problem.name} for {name} is not deterministic: two passes with "
                f"the same gradient differ by up to {difference:.3g} (nondet_tol={tolerance:g})"
            )


def _compare(
    problem: _Problem,
    outputs: Sequence[Tensor],
    k: int,
    found: Array,
    numerical: Array,
    tolerance: _Tolerance,
    way: str,
) -> None:
    """Raise if the Jacobian of some output by input `k` is not what central differences say."""
    start = 0
    for i, out in enumerate(outputs):
        stop = start + out.numel() * (2 if out.is_complex() else 1)
        block = _Block(problem.output_name(i), out, problem.inputs[k], problem.arrays[k])
        text = block.disagreement(found[start:stop], numerical[start:stop], tolerance, way)
        if text:
            raise GradcheckError(f"{problem.caller}: {text}")
        start = stop


class _Block:
    """The part of a Jacobian that belongs to one output and one input."""

    def __init__(self, output: str, out: Tensor, name: str, array: Array) -> None:
        self.output, self.out = output, out
        self.name, self.array = name, array

    def disagreement(self, found: Array, numerical: Array, tolerance: _Tolerance, way: str) -> str:
        """The worst entries in words; empty if all agree."""
        excess = np.abs(found - numerical) - tolerance.around(np.abs(numerical))
        wrong = ~(excess <= 0)
        if not wrong.any():
            return ""
        order = sorted(
            zip(*np.nonzero(wrong), strict=True), key=lambda entry: -np.nan_to_num(excess[entry], nan=np.inf)
        )
        entries = [
            f"  {self._entry(r, c)}: {way} {found[r, c] + 0:.8g}, central differences {numerical[r, c] + 0:.8g}"
            for r, c in order[:3]
        ]
        hint = _hint(self.out, found, numerical, tolerance)
        return "\n".join([
            f"the derivative of {self.output} by {self.name} is wrong in {wrong.sum()} of {wrong.size} entries",
            *entries,
            f"  (allowed: {tolerance.atol:g} + {tolerance.rtol:g} |central difference|, eps={tolerance.eps:g})",
            *([f"  {hint}"] if hint else []),
        ])  # fmt: skip

    def _entry(self, row: int, column: int) -> str:
        above = _element(self.out.shape, self.out.is_complex(), row)
        below = _element(self.array.shape, self.array.dtype.kind == "c", column)
        return f"d {self.output}{above} / d {self.name}{below}"


def _element(shape: tuple[int, ...], is_complex: bool, component: Any) -> str:
    """`[1, 2]`, with `.real` or `.imag` for complex tensors."""
    element, part = divmod(int(component), 2) if is_complex else (int(component), 0)
    index = ", ".join(str(i) for i in np.unravel_index(element, shape)) if shape else ""
    return (f"[{index}]" if shape else "") + ((".real", ".imag")[part] if is_complex else "")


def _hint(out: Tensor, a: Array, n: Array, tolerance: _Tolerance) -> str:
    """What kind of mistake the numbers look like."""
    if not out.requires_grad:
        return "This output does not require grad; lucid.autograd.explain(output, input) says where it was cut off."
    if out.np_dtype.name not in ("float64", "complex128"):
        return f"This output is {out.dtype}, too coarse for eps={tolerance.eps:g}: keep to the type of the inputs."
    if not np.isfinite(n).all():
        return "The central differences are not finite: the function may be undefined near this input."
    if not a.any():
        return "All entries are zero."
    ratio = float((a * n).sum() / (n * n).sum()) if n.any() else 0.0
    if ratio and abs(ratio - 1) > tolerance.rtol and (np.abs(a - ratio * n) <= tolerance.around(np.abs(a))).all():
        return (
            "The sign is wrong."
            if abs(ratio + 1) < tolerance.rtol
            else f"All entries are {ratio:.6g} × the right ones."
        )
    return ""
