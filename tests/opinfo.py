"""PyTorch's own samples for its operations, brought to Lucid: one call made in both libraries and compared.

`op_db` holds for each operation of PyTorch a generator of sample inputs and what the operation supports. An entry is
comparable if Lucid has a function or a method of its name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

import lucid

MOST = 12  # samples of one operation and type
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError, ZeroDivisionError)
DTYPES = {name: getattr(torch, name) for name in ("float64", "complex128", "float32", "int64", "bool")}
SMOOTH = ("float64", "complex128")
TOLERANCE = {"float64": 1e-7, "complex128": 1e-7, "float32": 2e-4, "int64": 2e-5, "bool": 2e-5}
NARROW_TOLERANCE = 2e-4  # of results in single precision beside others in double
WIDTHS = {"f": 8, "c": 16}
Tensor = torch.Tensor | lucid.Tensor


def label(op: OpInfo) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


OPS: dict[str, OpInfo] = {label(op): op for op in op_db}


# --- from one library to the other ----------------------------------------------------------------


def at(home: Any, path: str) -> Any:
    """The public function of a dotted name, or None."""
    for name in path.split("."):
        home = getattr(home, name, None)
    return home


def counterpart(op: OpInfo) -> Callable[..., Any] | None:
    """What Lucid calls for an entry: the function of its name, its method, or PyTorch's adapter around either."""
    places = [at(lucid, op.name), getattr(lucid.Tensor, op.name, None)]
    if adapts(op.op):
        places.append(getattr(lucid.Tensor, op.name + "_", None))
    for ours in places:
        if isinstance(ours, property):
            return ours.fget
        if callable(ours):
            return rebound(op.op) if adapts(op.op) else ours
    return None


def adapts(function: Any) -> bool:
    return isinstance(function, FunctionType) and function.__module__.startswith("torch.testing")


def rebound(function: Any) -> Any:
    """A Python function of PyTorch's tests with Lucid in the place of `torch`."""
    if not isinstance(function, FunctionType):
        return function
    names = {**function.__globals__, "torch": Instead()}
    twin = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


class Instead:
    """Lucid as PyTorch's adapters want it: methods are functions of the package too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(lucid, name) if hasattr(lucid, name) else getattr(lucid.Tensor, name)


def ours_of(value: Any, leaves: dict[int, Any]) -> Any:
    """A nest of PyTorch's values with Lucid's in their places; `leaves` maps each tensor to its twin.

    Memory formats and layouts are left out: they say how PyTorch stores elements, and change no value.
    """
    if isinstance(value, torch.Tensor):
        twin = lucid.tensor(array(value))
        leaves[id(value)] = twin.requires_grad_() if value.requires_grad else twin
        return leaves[id(value)]
    if isinstance(value, torch.dtype):
        return getattr(lucid, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[ours_of(v, leaves) for v in value])
    if isinstance(value, list | tuple):
        return type(value)(ours_of(v, leaves) for v in value)
    if isinstance(value, dict):
        return {
            k: ours_of(v, leaves) for k, v in value.items() if not isinstance(v, torch.memory_format | torch.layout)
        }
    if isinstance(value, torch.nn.Module):
        return getattr(lucid.nn, type(value).__name__)()
    if callable(value):
        return rebound(value) if adapts(value) else at(lucid.nn.functional, value.__name__)
    return value


def array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        plain = x.detach().resolve_conj().resolve_neg()
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        return plain.float().numpy(force=True) if plain.dtype is torch.bfloat16 else np.array(plain.numpy(force=True))
    if isinstance(x, lucid.Tensor):
        plain = x.detach() if x.layout is lucid.strided else x.detach().to_dense()
        return np.array(plain.float() if plain.dtype is lucid.bfloat16 else plain)
    return np.asarray(x)


def tensors(nest: Any) -> Iterator[Any]:
    """The tensors of a nest, in order."""
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, dict):
        nest = list(nest.values())
    if isinstance(nest, list | tuple):
        for item in nest:
            yield from tensors(item)


def results(nest: Any) -> list[Any]:
    """Everything in a result that has a value: tensors and numbers."""
    if isinstance(nest, list | tuple):
        return [leaf for item in nest for leaf in results(item)]
    return [] if nest is None else [nest]


def dtype_name(x: Any) -> str:
    return str(x.dtype).split(".")[1] if isinstance(x, Tensor) else type(x).__name__


# --- one call in both libraries -------------------------------------------------------------------


class Call:
    """One sample in one library: its function of the tensors to differentiate by."""

    def __init__(self, library: Any, function: Callable[..., Any], sample: Any, finish: Callable[..., Any]) -> None:
        self.library, self.function, self.sample, self.finish = library, function, sample, finish
        self.inputs = [t for t in tensors(sample) if t.requires_grad]

    def __call__(self, *inputs: Any, by_gauge: bool = True) -> list[Any]:
        places = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)} if inputs else {}
        first, args, kwargs = replaced(self.sample, places)
        out = self.function(first, *args, **kwargs)
        return results(self.finish(out) if by_gauge else out)

    def live(self, *inputs: Any) -> list[Any]:
        """The results that have a derivative."""
        return [o for o in self(*inputs) if isinstance(o, Tensor) and o.requires_grad]

    def tensor(self, value: np.ndarray) -> Any:
        return torch.from_numpy(value) if self.library is torch else lucid.from_numpy(value)

    def pulled(self, outs: Sequence[Any], weights: Sequence[np.ndarray], graph: bool = False) -> list[Any]:
        """Gradients of Re<weights, outs>, zeros where nothing is connected."""
        pairs = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
        if not pairs or not self.inputs:
            return [self.tensor(np.zeros(tuple(x.shape), array(x).dtype)) for x in self.inputs]
        found = self.library.autograd.grad(
            [o for o, _ in pairs],
            self.inputs,
            [self.tensor(w) for _, w in pairs],
            allow_unused=True,
            create_graph=graph,
        )
        zero = [self.tensor(np.zeros(tuple(x.shape), array(x).dtype)) for x in self.inputs]
        return [z if g is None else g for g, z in zip(found, zero, strict=True)]

    def pushed(self, tangents: Sequence[np.ndarray], kept: Sequence[bool]) -> list[Any]:
        """The tangents of the results that are `kept`."""

        def of_inputs(*inputs: Any) -> tuple[Any, ...]:
            return tuple(o for o, keep in zip(self(*inputs), kept, strict=True) if keep)

        primals = tuple(x.detach() for x in self.inputs)
        _, found = self.library.func.jvp(of_inputs, primals, tuple(self.tensor(t) for t in tangents))
        return list(found)


def replaced(nest: Any, places: dict[int, Any]) -> Any:
    if isinstance(nest, Tensor):
        return places.get(id(nest), nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*[replaced(item, places) for item in nest])
    if isinstance(nest, list | tuple):
        return type(nest)(replaced(item, places) for item in nest)
    if isinstance(nest, dict):
        return {k: replaced(v, places) for k, v in nest.items()}
    return nest


def samples_of(op: OpInfo, dtype: str) -> list[Any]:
    """At most MOST samples, evenly chosen from PyTorch's."""
    requires_grad = dtype in SMOOTH and op.supports_autograd
    torch.manual_seed(0)
    found = list(islice(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=requires_grad), 400))
    return found[:: -(-len(found) // MOST)] if found else []


def twins(op: OpInfo, sample: Any, ours: Callable[..., Any], wrapped: bool = False) -> tuple[Call, Call]:
    """The same call in PyTorch and in Lucid; `wrapped` in what makes operands symmetric, triangular and so on."""
    theirs = (sample.input, tuple(sample.args), dict(sample.kwargs))
    finish, their_function = sample.output_process_fn_grad, op.op
    if wrapped:
        their_function, ours = partial(op.gradcheck_wrapper, op.op), partial(rebound(op.gradcheck_wrapper), ours)
    return (
        Call(torch, their_function, theirs, finish),
        Call(lucid, ours, ours_of(theirs, {}), rebound(finish)),
    )


# --- comparing ------------------------------------------------------------------------------------


def close(got: Sequence[Any], want: Sequence[Any], tolerance: float, what: str) -> None:
    assert len(got) == len(want), f"{what}: {len(got)} results, PyTorch has {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        a, b = array(g), array(w)
        assert a.shape == b.shape, f"{what}: result {k} has shape {a.shape}, PyTorch's {b.shape}"
        finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind in "fc" else np.zeros(0)
        size = max(1.0, float(finite.max())) if finite.size else 1.0
        within = max(tolerance, NARROW_TOLERANCE) if b.dtype.itemsize < WIDTHS.get(b.dtype.kind, 0) else tolerance
        if b.dtype.kind in "biu" and a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b, err_msg=f"{what}: result {k}")
            continue
        np.testing.assert_allclose(a, b, within, within * size, err_msg=f"{what}: result {k}")


def compare_types(got: Sequence[Any], want: Sequence[Any], what: str) -> None:
    assert len(got) == len(want), f"{what}: {len(got)} results, PyTorch has {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert dtype_name(g) == dtype_name(w), f"{what}: result {k} is {dtype_name(g)}, PyTorch's {dtype_name(w)}"
        assert np.shape(array(g)) == np.shape(array(w)), f"{what}: result {k} has shape {np.shape(array(g))}"


def like(rng: np.random.Generator, values: Sequence[Any]) -> list[np.ndarray]:
    found = []
    for value in map(array, values):
        draw = rng.uniform(-1, 1, value.shape)
        draw = draw + 1j * rng.uniform(-1, 1, value.shape) if value.dtype.kind == "c" else draw
        found.append(np.asarray(draw).astype(value.dtype))
    return found


def attempt(function: Callable[[], Any]) -> Any:
    """What PyTorch gives, or None where it refuses."""
    try:
        return function()
    except REFUSALS:
        return None


def compare_values(theirs: Call, ours: Call, tolerance: float | None, what: str, by_gauge: bool) -> bool:
    """Values (unless the tolerance is None), types and shapes; False if PyTorch refuses the sample."""
    want = attempt(lambda: theirs(by_gauge=by_gauge))
    if want is None:
        return False
    got = ours(by_gauge=by_gauge)
    compare_types(got, want, what)
    if tolerance is not None:
        close(got, want, tolerance, f"{what} values")
    return True


def compare_derivatives(op: OpInfo, theirs: Call, ours: Call, what: str, different: Mapping[str, str]) -> None:
    """Reverse mode, forward mode and second order, as far as PyTorch has them and they are not `different`."""
    outs = theirs()
    kept = [isinstance(o, torch.Tensor) and o.requires_grad for o in outs]
    rng = np.random.default_rng(0)
    narrow = any(array(x).dtype.itemsize < WIDTHS[array(x).dtype.kind] for x in theirs.inputs)
    first_order, second_order = (NARROW_TOLERANCE, 1e-3) if narrow else (1e-7, 1e-6)
    weights = like(rng, [o for o, keep in zip(outs, kept, strict=True) if keep])
    if not any(kept):
        assert not ours.live(), f"{what}: has a derivative, but not in PyTorch"
        return
    graph = op.supports_gradgrad
    live = [o for o, keep in zip(outs, kept, strict=True) if keep]
    first = attempt(lambda: theirs.pulled(live, weights, graph))
    if first is None:
        return
    found = ours()
    mine = [o for o, keep in zip(found, kept, strict=True) if keep]
    ours_first = ours.pulled(mine, weights, graph)
    close(ours_first, first, first_order, f"{what} reverse")
    tangents = like(rng, theirs.inputs)
    if op.supports_forward_ad and "forward" not in different:
        pushed = attempt(lambda: theirs.pushed(tangents, kept))
        if pushed is not None:
            close(ours.pushed(tangents, kept), pushed, first_order, f"{what} forward")
    if graph and "second order" not in different:
        second = attempt(lambda: theirs.pulled(first, tangents))
        if second is not None:
            close(ours.pulled(ours_first, tangents), second, second_order, f"{what} second order")


# --- other ways to call ---------------------------------------------------------------------------


def method_names(op: OpInfo) -> Iterator[str]:
    """The method of the operation and its form in place, where PyTorch's tensors have them under its own name."""
    for variant in (op.method_variant, op.inplace_variant):
        name = getattr(variant, "__name__", "")
        if name in (op.name, op.name + "_") and hasattr(torch.Tensor, name):
            yield name


def compare_method(theirs: Call, ours: Call, name: str, tolerance: float, what: str) -> None:
    """A method on a copy of the first operand."""
    if not isinstance(theirs.sample[0], torch.Tensor) or not isinstance(ours.sample[0], lucid.Tensor):
        return
    outs = []
    for call in (theirs, ours):
        first, args, kwargs = call.sample
        method = getattr(type(first), name)
        outs.append(lambda m=method, f=first, a=args, k=kwargs: results(m(f.clone(), *a, **k)))
    want = attempt(outs[0])
    # PyTorch lets some forms in place change the shape of their operand.
    if want is not None and not (name.endswith("_") and tuple(want[0].shape) != ours.sample[0].shape):
        got = outs[1]()
        compare_types(got, want, f"{what}.{name}")
        close(got, want, tolerance, f"{what}.{name}")


def compare_out(op: OpInfo, theirs: Call, ours: Call, tolerance: float, what: str) -> None:
    """`out=` gets the result and is returned."""
    first, args, kwargs = theirs.sample
    want = attempt(lambda: theirs(by_gauge=False))
    if want is None or len(want) != 1 or not isinstance(want[0], torch.Tensor):
        return
    target = torch.zeros_like(want[0].detach())
    with torch.no_grad():
        given = attempt(lambda: op.op(first, *args, **kwargs, out=target))
        if given is None or not torch.allclose(given, want[0], equal_nan=True):  # some do not write all of it
            return
    mine = lucid.tensor(np.zeros(target.shape, array(target).dtype))
    first, args, kwargs = ours.sample
    with lucid.no_grad():
        given = ours.function(first, *args, **kwargs, out=mine)
    assert given is mine, f"{what}: out= is not what is returned"
    close([mine], [target], tolerance, f"{what} out=")
