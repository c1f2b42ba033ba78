"""Reverse mode as functions of functions: grad, value_and_grad, vjp."""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from lucid.api.creation import ones_like
from lucid.arguments.promotion import exact
from lucid.autograd.dependencies import carries_grad, leads_outside
from lucid.core import modes, tree
from lucid.core.arrays import full, zeros
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.errors import ResultError
from lucid.core.levels import active
from lucid.core.primitive import lift, variable
from lucid.core.tensor import Tensor, is_plain
from lucid.func.arguments import named, numbers_of, raise_if_not_differentiable
from lucid.native import framed
from lucid.tape import engine

_run = framed(engine.run)


class _OnTheTape:
    """A context in which operations are recorded, whatever holds outside."""

    __slots__ = ("inference", "recording")

    def __enter__(self) -> None:
        self.inference = modes.inference.set(modes.UNMARKED)
        self.recording = modes.recording.set(modes.recording_state(True))

    def __exit__(self, *error: object) -> None:
        modes.recording.reset(self.recording)
        modes.inference.reset(self.inference)


class Pulled:
    """A function run on fresh variables: its results, and how to pull cotangents back."""

    running: ContextVar["Pulled | None"] = ContextVar("running", default=None)

    def __init__(
        self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any
    ) -> None:
        self.outer = bool(modes.recording.get())
        self.bare = isinstance(argnums, int)
        self.structures: list[Any] = []
        self.variables: list[Tensor] = []
        self.inside: list[Tensor] = []  # the variables of other calls in between
        self._open: bool | None = None
        around = Pulled.running.get()
        token = Pulled.running.set(self)
        try:
            self.output = self._run(name, func, args, kwargs, argnums)
        finally:
            Pulled.running.reset(token)
        if around is not None:
            around.inside += [v for v in self.variables if v._node is None]
            around.inside += self.inside

    def _run(
        self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any
    ) -> Any:
        new = list(args)
        with _OnTheTape():
            for number in numbers_of(name, func, argnums, args):
                leaves, structure = tree.flatten(args[number])
                fresh = []
                for leaf in leaves:
                    x = lift(leaf)
                    if x.np_dtype not in DIFFERENTIABLE:
                        raise_if_not_differentiable(x, name, named(func, number))
                    # What is on a tape already stays where that tape can follow it.
                    inner = x if x.requires_grad else _lifted(x)
                    if inner is x:
                        inner = variable(x)
                    inner._requires_grad = True
                    fresh.append(inner)
                self.structures.append(structure)
                self.variables += fresh
                new[number] = structure.unflatten(fresh)
            return func(*new, **kwargs)

    def pull(self, outputs: Sequence[Tensor], cotangents: Sequence[Any], retain: bool) -> list[Tensor]:
        """The cotangents of the variables; zeros where there is no connection."""
        live = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
        create = self.outer and (
            self._leads_outside([o for o, _ in live])
            or any(isinstance(c, Tensor) and (c.requires_grad or carries_grad(c)) for _, c in live)
        )
        found: list[Tensor | None] = [None] * len(self.variables)
        if live:
            found = _run(
                [o for o, _ in live],
                [c._array if not create and is_plain(c) and is_plain(o) else c for o, c in live],
                self.variables,
                retain_graph=retain or create,
                create_graph=create,
                accumulate=False,
            )
        return [
            Tensor._wrap(zeros(v.shape, v.np_dtype)) if g is None else g
            for g, v in zip(found, self.variables, strict=True)
        ]

    def _leads_outside(self, outputs: list[Tensor]) -> bool:
        """Whether somebody else could differentiate the outputs. They are the same in every pass."""
        if self._open is None:
            self._open = leads_outside(outputs, self.variables, self.inside)
        return self._open

    def arranged(self, leaves: list[Tensor]) -> Any:
        """Leaves in the structure of the arguments."""
        out, start = [], 0
        for structure in self.structures:
            out.append(structure.unflatten(leaves[start : start + structure.count]))
            start += structure.count
        return out[0] if self.bare else tuple(out)

    def released(self, value: Any, is_value: bool = True) -> Any:
        """A result without the history that was only needed here; `is_value` unless it is something handed on."""

        def release(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.requires_grad:
                return leaf
            if is_value and self._open is False:
                return leaf.shell()
            return leaf if self.outer and leads_outside([leaf], self.variables, self.inside) else leaf.shell()

        return tree.tree_map(release, value)


def _lifted(x: Tensor) -> Any:
    """The tensor as one of the innermost transform's own kind, if it comes from further out."""
    transforms = active.get()
    return transforms[-1].lifted(x) if transforms and x._level < transforms[-1].level else x


def _seed_of(value: Any) -> Tensor:
    """The cotangent of a result that is one real number; others have no gradient."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"grad: the function must return one tensor, not {type(value).__name__}; "
            "if it returns more than the value to differentiate, say has_aux=True"
        )
    shape, kind = value.shape, value.np_dtype
    if math.prod(shape) != 1:
        raise ResultError(
            f"grad: the function must return one number, but its result has shape {shape}; "
            "reduce it, as with .sum(), or use jacrev or vjp"
        )
    if kind not in DIFFERENTIABLE:
        raise_if_not_differentiable(value, "grad", "the result")
    if kind.kind == "c":
        raise ResultError(
            f"grad: the function must return a real number, but its result is {value.dtype}, which has no gradient; "
            "take its .real or .abs(), or use vjp with a cotangent"
        )
    return Tensor._wrap(full(shape, 1, kind))


def _value_and_aux(name: str, output: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    if not isinstance(output, tuple) or len(output) != 2:
        raise ResultError(f"{name}: with has_aux=True the function must return a pair (value, aux)")
    return output


def _differentiated(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: Any
) -> tuple[Pulled, Any, Any, Any]:
    pulled = Pulled("grad", func, args, kwargs, argnums)
    value, aux = _value_and_aux("grad", pulled.output, has_aux)
    return pulled, value, aux, pulled.arranged(pulled.pull([value], [_seed_of(value)], retain=False))


def value_and_grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the value of `func` and its gradient by the arguments in `argnums`.

    With `has_aux`, `func` returns a pair, and the second entry is handed on: `((value, aux), gradient)`.

    >>> import lucid
    >>> lucid.func.value_and_grad(lambda x: (x**2).sum())(lucid.tensor([1.0, 2.0]))
    (Tensor(5.), Tensor([2., 4.]))
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        pulled, value, aux, gradient = _differentiated(func, argnums, has_aux, args, kwargs)
        value = pulled.released(value)
        return ((value, pulled.released(aux, False)), gradient) if has_aux else (value, gradient)

    return call


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like `value_and_grad`, the gradient first: `(gradient, value)`, or `(gradient, (value, aux))`.

    >>> import lucid
    >>> lucid.func.grad_and_value(lambda x: (x**2).sum())(lucid.tensor([1.0, 2.0]))
    (Tensor([2., 4.]), Tensor(5.))
    """
    both = value_and_grad(func, argnums, has_aux)

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return call


def grad(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is one number, by the arguments in `argnums`.

    Arguments may be nests of tensors; the gradient has their structure. With `has_aux`, `func` returns a pair, and
    the second entry is handed on: `(gradient, aux)`.

    >>> import lucid
    >>> lucid.func.grad(lambda x: (x**3).sum())(lucid.tensor([1.0, 2.0]))
    Tensor([ 3., 12.])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        pulled, _, aux, gradient = _differentiated(func, argnums, has_aux, args, kwargs)
        return (gradient, pulled.released(aux, False)) if has_aux else gradient

    return call


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func` at `primals`, and a function that takes cotangents of it back to the primals.

    >>> import lucid
    >>> value, pull = lucid.func.vjp(lambda x: x * x, lucid.tensor([1.0, 2.0]))
    >>> pull(lucid.tensor([1.0, 10.0]))
    (Tensor([ 2., 40.]),)
    """
    pulled = Pulled("vjp", func, primals, {}, tuple(range(len(primals))))
    value, aux = _value_and_aux("vjp", pulled.output, has_aux)
    outputs, structure = tree.flatten(value)
    for n, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            path = tree.paths(value)[n]
            raise TypeError(f"vjp: the function must return tensors, but value{path} is a {type(o).__name__}")
    if pulled.outer:
        pulled._leads_outside([o for o in outputs if o.requires_grad])

    def pull(cotangents: Any = None) -> Any:
        if cotangents is None and len(outputs) == 1 and outputs[0].numel() == 1:
            cotangents = structure.unflatten([ones_like(outputs[0])])  # as for backward(), of one number
        cts, given = tree.flatten(cotangents)
        if given != structure:
            raise ValueError(f"vjp: the cotangents have structure {given}, but the value has {structure}")
        seeds = []
        for n, (o, c) in enumerate(zip(outputs, cts, strict=True)):
            ct = exact(c)
            if ct.shape != o.shape:
                raise ValueError(
                    f"vjp: cotangents{tree.paths(value)[n]} has shape {ct.shape}, but the value it belongs to has {o.shape}"
                )
            seeds.append(ct.to(o.np_dtype))
        return pulled.arranged(pulled.pull(outputs, seeds, retain=True))

    value = pulled.released(value)
    return (value, pull, pulled.released(aux, False)) if has_aux else (value, pull)
