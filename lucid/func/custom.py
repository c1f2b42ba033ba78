"""Functions with derivatives of their own, declared as in JAX: custom_vjp and custom_jvp."""

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any

import numpy as np

from lucid.arguments.promotion import beside
from lucid.autograd.function import Function
from lucid.core import tree
from lucid.core.arrays import zeros
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor


class _Rules:
    """What both decorators do: take a call apart into tensors and the rest, and put it together again."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] | int = ()) -> None:
        self.fun = fun
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        update_wrapper(self, fun)  # type: ignore[arg-type]  # it is called through __call__

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments as the signature orders them, with its defaults."""
        if not kwargs:
            return args
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{self.__name__}: keyword-only arguments cannot be differentiated: {list(bound.kwargs)}")
        return bound.args

    __name__: str


class _Arguments:
    """One call: its structure, what in it is no tensor, and, once it has run, the structure of the result."""

    def __init__(self, rules: Any, args: tuple[Any, ...]) -> None:
        self.rules = rules
        self.args = args
        chosen = [n for n in range(len(args)) if n not in rules.nondiff_argnums]
        self.numbers = chosen
        self.leaves, self.structure = tree.flatten(tuple(args[n] for n in chosen))
        self.is_tensor = [isinstance(x, (Tensor, np.ndarray, float, complex, np.floating)) for x in self.leaves]
        self.tensors = [lift(x) for x, t in zip(self.leaves, self.is_tensor, strict=True) if t]
        self.result: Any = None
        self.residuals: Any = None

    def nest(self, tensors: Sequence[Any], others: Any = ...) -> tuple[Any, ...]:
        """The differentiable arguments with these tensors; `others` stands for the rest, if given."""
        supply = iter(tensors)
        rest = [x if others is ... else others for x in self.leaves]
        filled = [next(supply) if t else x for x, t in zip(rest, self.is_tensor, strict=True)]
        nest: tuple[Any, ...] = self.structure.unflatten(filled)
        return nest

    def call(self, function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        args = list(self.args)
        for number, arg in zip(self.numbers, self.nest(tensors), strict=True):
            args[number] = arg
        return function(*args)

    @property
    def nondiff(self) -> list[Any]:
        return [self.args[n] for n in sorted(self.rules.nondiff_argnums)]

    def flat_result(self, value: Any) -> tuple[Any, ...]:
        leaves, self.result = tree.flatten(value)
        return tuple(lift(x) for x in leaves)


# The functions whose forward rules run: called from there, they are what they compute.
_inside: ContextVar[tuple[Any, ...]] = ContextVar("inside", default=())


class _CustomVjp(Function):
    @staticmethod
    def forward(ctx: Any, call: _Arguments, *tensors: Any) -> Any:
        rules = call.rules
        if not any(ctx.needs_input_grad) or rules in _inside.get():
            return call.flat_result(call.call(rules.fun, tensors))
        token = _inside.set((*_inside.get(), rules))
        try:
            returned = call.call(rules.fwd, tensors)
        finally:
            _inside.reset(token)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"{rules.__name__}: the forward rule must return a pair (value, residuals)")
        leaves, structure = tree.flatten(returned[1])
        ctx.save_for_backward(*[x if isinstance(x, Tensor) else None for x in leaves])
        ctx.others = [None if isinstance(x, Tensor) else x for x in leaves]
        ctx.structure, ctx.call = structure, call
        return call.flat_result(returned[0])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        call = ctx.call
        kept = [o if t is None else t for t, o in zip(ctx.saved_tensors, ctx.others, strict=True)]
        value = call.result.unflatten(cotangents)
        found = call.rules.bwd(*call.nondiff, ctx.structure.unflatten(kept), value)
        return (None, *_gradients(call, found))


def _gradients(call: _Arguments, found: Any) -> list[Any]:
    """What the backward rule returned, as one gradient for each tensor."""
    name = call.rules.__name__
    if not isinstance(found, tuple) or len(found) != len(call.numbers):
        given = f"{len(found)} entries" if isinstance(found, tuple) else type(found).__name__
        raise TypeError(
            f"{name}: the backward rule must return a tuple with one entry for each of the {len(call.numbers)} "
            f"differentiable arguments, not {given}"
        )
    gradients: list[Any] = []
    for number, part, arg in zip(call.numbers, found, call.nest(call.tensors), strict=True):
        leaves, structure = tree.flatten(arg)
        parts = [None] * len(leaves)
        if part is not None:
            parts, shape = tree.flatten(part, is_leaf=lambda x: x is None)
            if len(parts) != len(leaves):
                raise ValueError(f"{name}: the gradient of argument {number} has structure {shape}, not {structure}")
        gradients += parts
    wanted = [g for g, is_tensor in zip(gradients, call.is_tensor, strict=True) if is_tensor]
    return [None if g is None else beside(g, x.np_dtype) for g, x in zip(wanted, call.tensors, strict=True)]


class custom_vjp(_Rules):
    """A function with a reverse rule of its own, used in every transform.

    `f.defvjp(fwd, bwd)`: `fwd(*args)` gives the value and residuals; `bwd(residuals, cotangent)` gives a tuple with the
    cotangent of each argument, None for zero. Arguments in `nondiff_argnums` come first to `bwd` and get no gradient.
    Forward mode works too, by transposing the rule.

    >>> import lucid
    >>> @lucid.func.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(lambda x: (x * 1.0, ()), lambda residuals, ct: (ct.clamp(-1, 1),))
    >>> lucid.func.grad(lambda x: (clipped(x) * 100).sum())(lucid.tensor([3.0]))
    Tensor([1.])
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Declare the two halves of the reverse rule."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None:
            raise RuntimeError(
                f"{self.__name__} has no derivative yet: declare it with {self.__name__}.defvjp(fwd, bwd)"
            )
        call = _Arguments(self, self.positional(args, kwargs))
        out = _CustomVjp.apply(call, *call.tensors)
        return call.result.unflatten(out)


class _CustomJvp(Function):
    @staticmethod
    def forward(ctx: Any, call: _Arguments, *tensors: Any) -> Any:
        ctx.save_for_forward(*tensors)
        ctx.call = call
        return call.flat_result(call.call(call.rules.fun, tensors))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        call = ctx.call
        primals = call.nest(ctx.saved_tensors)
        returned = call.rules.rule(*call.nondiff, primals, call.nest(tangents, others=None))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"{call.rules.__name__}: the rule must return a pair (value, tangent)")
        leaves, structure = tree.flatten(returned[1])
        if len(leaves) != call.result.count:
            raise ValueError(f"{call.rules.__name__}: the tangent has structure {structure}, not {call.result}")
        return tuple(lift(x) for x in leaves)


class custom_jvp(_Rules):
    """A function with a forward rule of its own, used in every transform; reverse mode transposes it.

    `f.defjvp(rule)`: `rule(primals, tangents)` gives the value and its tangent, which must be linear in the tangents.
    Arguments in `nondiff_argnums` come first to the rule.

    >>> import lucid
    >>> @lucid.func.custom_jvp
    ... def safe_sqrt(x):
    ...     return x.sqrt()
    >>> @safe_sqrt.defjvp
    ... def _(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     root = safe_sqrt(x)
    ...     return root, lucid.where(x > 0, t / (2 * lucid.where(x > 0, root, 1.0)), 0.0)
    >>> lucid.func.grad(lambda x: safe_sqrt(x).sum())(lucid.tensor([0.0, 4.0]))
    Tensor([0.  , 0.25])
    """

    rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the forward rule; can be used as a decorator."""
        self.rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Declare one rule for each argument: `rule(tangent, value, *primals)`, or None for a derivative of zero."""

        def whole(*args: Any) -> tuple[Any, Any]:
            *nondiff, primals, tangents = args
            value = self(*self._restored(nondiff, primals))
            terms = [r(t, value, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            zero = tree.tree_map(lambda v: Tensor._wrap(zeros(v.shape, v.np_dtype)), value)
            for term in terms:
                zero = tree.tree_map(lambda a, b: a + b, zero, term)
            return value, zero

        self.rule = whole

    def _restored(self, nondiff: list[Any], primals: tuple[Any, ...]) -> list[Any]:
        """All arguments in the order of the signature."""
        fixed, rest = iter(nondiff), iter(primals)
        count = len(nondiff) + len(primals)
        return [next(fixed) if n in self.nondiff_argnums else next(rest) for n in range(count)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            raise RuntimeError(f"{self.__name__} has no derivative yet: declare it with {self.__name__}.defjvp(rule)")
        call = _Arguments(self, self.positional(args, kwargs))
        out = _CustomJvp.apply(call, *call.tensors)
        return call.result.unflatten(out)
