"""JAX's transforms, by those of `lucid.func`: arguments become arrays of the front door, and so do results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from inspect import signature
from typing import Any

import numpy as np

import lucid
from lucid import func
from lucid.autograd.checkpoint import checkpoint as _checkpoint
from lucid.core import levels, tree
from lucid.core.tensor import Tensor
from lucid.core.tree import tree_map
from lucid.func import custom
from lucid.jax.arrays import DOOR
from lucid.numpy.differentiation import conjugated

Argnums = int | Sequence[int]
Fun = Callable[..., Any]
_without_jit: ContextVar[bool] = ContextVar("without_jit", default=False)


def _made(result: Any) -> Any:
    """What a transform gave, as arrays of the front door."""
    return tree_map(DOOR.adopted, result)


def _numbers_too(result: Any) -> Any:
    """What a function gave, with arrays in the place of numbers."""
    return tree_map(DOOR.array, result)


def _given(args: Sequence[Any]) -> list[Any]:
    return [tree_map(DOOR.array, a) for a in args]


def _arrays_only(nest: Any) -> Any:
    return tree_map(lambda leaf: DOOR.array(leaf) if isinstance(leaf, (np.ndarray, Tensor)) else leaf, nest)


# --- jit -----------------------------------------------------------------------------------------


def _positions(fun: Fun, numbers: Any, names: Any) -> tuple[set[int], set[str]]:
    """Which arguments are meant, by number and by name."""
    found = {numbers} if isinstance(numbers, int) else set(numbers or ())
    named = {names} if isinstance(names, str) else set(names or ())
    try:
        parameters = list(signature(fun).parameters)
    except (TypeError, ValueError):
        return found, named
    named |= {parameters[n] for n in found if -len(parameters) <= n < len(parameters)}
    return found | {n for n, p in enumerate(parameters) if p in named}, named


def jit(
    fun: Fun | None = None,
    /,
    *,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    **hints: Any,
) -> Any:
    """The function, compiled for each signature with which it is called.

    Static arguments are Python values on which the program depends; all others become arrays. Memory of donated arguments may be
    used again, which changes no result.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> @jax.jit
    ... def selu(x, alpha=1.67, scale=1.05):
    ...     return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    >>> selu(jnp.arange(3.0)).round(3)
    Array([0.  , 1.05, 2.1 ], dtype=float32)
    """
    if fun is None:
        return partial(jit, static_argnums=static_argnums, static_argnames=static_argnames, **hints)
    numbers, names = _positions(fun, static_argnums, static_argnames)
    compiled: list[Fun] = []

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        static = {n % len(args) for n in numbers if -len(args) <= n < len(args)}
        given = [a if n in static else tree_map(DOOR.array, a) for n, a in enumerate(args)]
        named = {k: v if k in names else tree_map(DOOR.array, v) for k, v in kwargs.items()}
        if not compiled:
            compiled.append(lucid.compile(fun))
        run = fun if _without_jit.get() else compiled[0]
        with DOOR.inside():
            return _numbers_too(_made(run(*given, **named)))

    return call


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """A context in which functions run as they are written.

    >>> import lucid.jax as jax
    >>> with jax.disable_jit():
    ...     float(jax.jit(lambda x: x + 1)(1.0))
    2.0
    """
    token = _without_jit.set(disable)
    try:
        yield
    finally:
        _without_jit.reset(token)


# --- derivatives ---------------------------------------------------------------------------------


def _chosen(argnums: Argnums, args: Sequence[Any]) -> list[Any]:
    """The arguments, those to differentiate by with arrays in the place of numbers."""
    wanted = {argnums} if isinstance(argnums, int) else set(argnums)
    meant = {n % len(args) for n in wanted if args and -len(args) <= n < len(args)}
    return [tree_map(DOOR.array, a) if n in meant else _arrays_only(a) for n, a in enumerate(args)]


def _derivative(transform: Fun, fun: Fun, argnums: Argnums, has_aux: bool) -> Fun:
    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Made here, so that a compiler that looks for what the function closes over finds the function.
        transformed = transform(_returning_arrays(fun, has_aux), argnums, has_aux)
        return _made(transformed(*_chosen(argnums, args), **_arrays_only(kwargs)))

    return call


def _returning_arrays(fun: Fun, has_aux: bool = False) -> Fun:
    """The function, such that a number that it returns is an array; what it hands on beside stays what it is."""

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        if has_aux and isinstance(result, tuple) and len(result) == 2:
            return _numbers_too(result[0]), result[1]
        return _numbers_too(result)

    return call


def grad(fun: Fun, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, **hints: Any) -> Fun:
    """A function that gives the gradient of `fun`, whose result is one number.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.grad(lambda p, x: jnp.sum(p["w"] * x) ** 2)({"w": jnp.array([1.0, 2.0])}, 3.0)
    {'w': Array([54., 54.], dtype=float32)}
    """
    if holomorphic:  # the complex derivative is the Jacobian, which has one row
        return jacrev(fun, argnums, has_aux, holomorphic)
    return _derivative(_grad, fun, argnums, has_aux)


def _grad(fun: Fun, argnums: Argnums, has_aux: bool) -> Fun:
    def call(*args: Any, **kwargs: Any) -> Any:
        found = func.grad(fun, argnums, has_aux)(*args, **kwargs)
        return (conjugated(found[0]), found[1]) if has_aux else conjugated(found)

    return call


def value_and_grad(
    fun: Fun, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, **hints: Any
) -> Fun:
    """A function that gives the value of `fun` and its gradient.

    >>> import lucid.jax as jax
    >>> jax.value_and_grad(lambda x: (x**2, "aux"), has_aux=True)(3.0)
    ((Array(9., dtype=float32), 'aux'), Array(6., dtype=float32))
    """
    if holomorphic:
        raise ValueError("value_and_grad: use grad(..., holomorphic=True), and call the function for its value")
    return _derivative(_value_and_grad, fun, argnums, has_aux)


def _value_and_grad(fun: Fun, argnums: Argnums, has_aux: bool) -> Fun:
    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = func.value_and_grad(fun, argnums, has_aux)(*args, **kwargs)
        return value, conjugated(gradient)

    return call


def jacrev(fun: Fun, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, **hints: Any) -> Fun:
    """The Jacobian of `fun` by reverse mode.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.jacrev(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return _derivative(func.jacrev if holomorphic else _jacrev, fun, argnums, has_aux)


def _jacrev(fun: Fun, argnums: Argnums, has_aux: bool) -> Fun:
    """Rows are gradients."""

    @wraps(fun)
    def real(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        _raise_if_complex("jacrev", "results", "vjp", result[0] if has_aux else result)
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        found = func.jacrev(real, argnums, has_aux)(*args, **kwargs)
        return (conjugated(found[0]), found[1]) if has_aux else conjugated(found)

    return call


def _raise_if_complex(name: str, what: str, other: str, nest: Any) -> None:
    if any(isinstance(leaf, Tensor) and leaf.is_complex() for leaf in tree.flatten(nest)[0]):
        raise TypeError(
            f"{name}: complex {what} need holomorphic=True; where the function is not holomorphic, use jax.{other}"
        )


def jacfwd(fun: Fun, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, **hints: Any) -> Fun:
    """The Jacobian of `fun` by forward mode.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.jacfwd(jnp.sin)(0.0)
    Array(1., dtype=float32)
    """
    return _derivative(func.jacfwd if holomorphic else _jacfwd, fun, argnums, has_aux)


def _jacfwd(fun: Fun, argnums: Argnums, has_aux: bool) -> Fun:
    def call(*args: Any, **kwargs: Any) -> Any:
        for n in [argnums] if isinstance(argnums, int) else argnums:
            _raise_if_complex("jacfwd", "arguments", "jvp", args[n])
        return func.jacfwd(fun, argnums, has_aux)(*args, **kwargs)

    return call


jacobian = jacrev


def hessian(fun: Fun, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Fun:
    """The second derivatives of `fun`, by forward mode over reverse mode.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.hessian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def vjp(fun: Fun, *primals: Any, has_aux: bool = False, **hints: Any) -> Any:
    """The value of `fun`, and a function that takes cotangents of it back to the primals.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> value, pull = jax.vjp(jnp.sin, 0.0)
    >>> pull(2.0)
    (Array(2., dtype=float32),)
    """
    value, pull, *aux = func.vjp(_returning_arrays(fun, has_aux), *_given(primals), has_aux=has_aux)

    def of_cotangents(cotangents: Any) -> Any:
        return _made(conjugated(pull(conjugated(tree_map(DOOR.array, cotangents)))))

    return (_made(value), of_cotangents, *aux)


def jvp(fun: Fun, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and its change along tangents.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.jvp(jnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32), Array(2., dtype=float32))
    """
    found = func.jvp(_returning_arrays(fun, has_aux), _given(primals), _given(tangents), has_aux)
    return _made(found)


def linearize(fun: Fun, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and the function that takes tangents to its change, computed once.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> value, push = jax.linearize(jnp.sin, 0.0)
    >>> push(3.0)
    Array(3., dtype=float32)
    """
    aux: list[Any] = []

    def value_of(*args: Any) -> Any:
        result = fun(*args)
        if has_aux:
            aux[:] = [result[1]]
        return _numbers_too(result[0] if has_aux else result)

    with DOOR.inside():
        value, push = func.linearize(value_of, *_given(primals))

    def of_tangents(*tangents: Any) -> Any:
        return _made(push(*_given(tangents)))

    return (_made(value), of_tangents, *aux)


def linear_transpose(fun: Fun, *primals: Any) -> Fun:
    """The transpose of a function that is linear; only the shapes of the primals matter.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.linear_transpose(lambda x: 3.0 * x, jnp.zeros(2))(jnp.ones(2))
    (Array([3., 3.], dtype=float32),)
    """
    known = tree_map(lambda p: p if hasattr(p, "shape") else DOOR.array(p), primals)  # arrays, shapes or numbers
    zeros = tree_map(lambda p: DOOR.wrapped(np.zeros(p.shape, p.dtype)), known)
    return vjp(fun, *zeros)[1]


# --- vmap ----------------------------------------------------------------------------------------

# The named axes of the vmaps around: a name -> the vmap.
axes: ContextVar[dict[Any, Any]] = ContextVar("axes")


def vmap(
    fun: Fun,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    **hints: Any,
) -> Fun:
    """A function that applies `fun` to every example of a batch at once; examples can meet by the name of the axis.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.vmap(jnp.dot, in_axes=(0, None))(jnp.eye(2), jnp.array([5.0, 6.0]))
    Array([5., 6.], dtype=float32)
    >>> jax.vmap(lambda x: x / jax.lax.psum(x, "batch"), axis_name="batch")(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    dims = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        spread = dims if isinstance(dims, tuple) else (dims,) * len(args)
        if len(spread) != len(args):
            raise ValueError(f"vmap: in_axes has {len(spread)} entries for {len(args)} arguments")
        given = [tree_map(DOOR.array, a) for a in args]
        named = tree_map(DOOR.array, kwargs)

        # How many examples there are may be said without an argument that has them.
        count = DOOR.wrapped(np.zeros(0 if axis_size is None else axis_size, np.int32))

        def example(inner: Any, keywords: Any, place: Any) -> Any:
            if axis_name is None:
                return _numbers_too(fun(*inner, **keywords))
            token = axes.set({**axes.get({}), axis_name: levels.active.get()[-1]})
            try:
                return _numbers_too(fun(*inner, **keywords))
            finally:
                axes.reset(token)

        mapped = func.vmap(
            example, in_dims=(spread, 0 if kwargs else None, None if axis_size is None else 0), out_dims=out_axes
        )
        return _made(mapped(tuple(given), named, count))

    return call


def named_axis(name: Any) -> Any:
    """The vmap that has this name."""
    found = axes.get({}).get(name)
    if found is None:
        raise NameError(f"unbound axis name: {name}; say jax.vmap(..., axis_name={name!r}) around it")
    return found


# --- functions with rules of their own -------------------------------------------------------------


def checkpoint(fun: Fun | None = None, *, static_argnums: Any = (), policy: Any = None, **hints: Any) -> Any:
    """The function, such that what happens inside is computed again for the gradient and not kept.

    A `policy` that keeps some of it is accepted; nothing is kept.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> float(jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(0.0))
    1.0
    """
    if fun is None:
        return partial(checkpoint, static_argnums=static_argnums, policy=policy, **hints)

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _checkpoint(fun, *args, **kwargs)

    return call


remat = checkpoint


class custom_jvp(custom.custom_jvp):
    """A function with a forward rule of its own, as `lucid.func.custom_jvp`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> @jax.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(primals[0]), 10.0 * tangents[0]
    >>> jax.grad(f)(0.0)
    Array(10., dtype=float32)
    """

    def __init__(
        self, fun: Fun, nondiff_argnums: Sequence[int] | int = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(_returning_arrays(fun), _with_names(fun, nondiff_argnums, nondiff_argnames))

    def defjvp(self, jvp: Fun, symbolic_zeros: bool = False) -> Fun:
        """Declare the rule: `jvp(primals, tangents)` gives the value and its change."""
        super().defjvp(lambda *args: _numbers_too(jvp(*args)))
        return jvp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _made(super().__call__(*_differentiable(self, args), **kwargs))


class custom_vjp(custom.custom_vjp):
    """A function with a reverse rule of its own, as `lucid.func.custom_vjp`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> @jax.custom_vjp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (10.0 * ct,))
    >>> jax.grad(f)(0.0)
    Array(10., dtype=float32)
    """

    def __init__(
        self, fun: Fun, nondiff_argnums: Sequence[int] | int = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(_returning_arrays(fun), _with_names(fun, nondiff_argnums, nondiff_argnames))

    def defvjp(self, fwd: Fun, bwd: Fun, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Declare the rule: `fwd` gives the value and residuals, `bwd(residuals, cotangent)` a tuple of cotangents."""

        @wraps(bwd)
        def pull(*args: Any) -> Any:
            return conjugated(bwd(*args[:-1], conjugated(args[-1])))

        super().defvjp(_returning_arrays(fwd, has_aux=True), pull)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _made(super().__call__(*_differentiable(self, args), **kwargs))


def _with_names(fun: Fun, numbers: Sequence[int] | int, names: Sequence[str]) -> tuple[int, ...]:
    found = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return tuple(sorted({*found, *_positions(fun, (), names)[0]})) if names else found


def _differentiable(rules: Any, args: Sequence[Any]) -> list[Any]:
    """The arguments, with arrays in the place of floats where there is a derivative by them."""

    def made(leaf: Any) -> Any:
        return DOOR.array(leaf) if isinstance(leaf, (np.ndarray, float, np.floating)) else leaf

    return [a if n in rules.nondiff_argnums else tree_map(made, a) for n, a in enumerate(args)]


# --- programs ------------------------------------------------------------------------------------


def make_jaxpr(fun: Fun, static_argnums: Any = (), **hints: Any) -> Fun:
    """A function that gives the program of `fun`, as `lucid.func.make_graph`.

    >>> import lucid.jax as jax
    >>> print(jax.make_jaxpr(lambda x: x * x)(2.0))
    <lambda>(a: float32[]):
      b: float32[] = mul a a
      return b
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
        free = [n for n in range(len(args)) if n not in static]

        @wraps(fun)
        def of_free(*values: Any) -> Any:
            given = list(args)
            for n, v in zip(free, values, strict=True):
                given[n] = v
            return _numbers_too(fun(*given, **kwargs))

        with DOOR.inside():
            return func.make_graph(of_free)(*_given([args[n] for n in free]))

    return call


class ShapeDtypeStruct:
    """The shape and the type of an array that is not there.

    >>> import lucid.jax as jax
    >>> jax.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    def __init__(self, shape: Any, dtype: Any, **hints: Any) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name})"


def eval_shape(fun: Fun, *args: Any, **kwargs: Any) -> Any:
    """The shapes and types of the results of `fun`, without computing anything.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.eval_shape(jnp.dot, jax.ShapeDtypeStruct((2, 3), "float32"), jax.ShapeDtypeStruct((3, 4), "float32"))
    ShapeDtypeStruct(shape=(2, 4), dtype=float32)
    """

    def stand_in(leaf: Any) -> Any:
        return (
            DOOR.wrapped(np.zeros(leaf.shape, leaf.dtype)) if isinstance(leaf, ShapeDtypeStruct) else DOOR.array(leaf)
        )

    leaves, structure = tree.flatten((args, kwargs))
    shapes: list[Any] = []

    def run(*values: Any) -> Any:
        given, named = structure.unflatten(values)
        result = _numbers_too(fun(*given, **named))
        shapes[:] = [tree_map(lambda t: ShapeDtypeStruct(t.shape, t.np_dtype), result)]
        return result

    with DOOR.inside():
        func.make_graph(run)(*[stand_in(leaf) for leaf in leaves])
    return shapes[0]


def pure_callback(callback: Fun, result_shape_dtypes: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function of NumPy's arrays gives; it has no derivative.

    >>> import lucid.jax as jax, numpy as np
    >>> jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), "float32"), 0.0)
    Array(0., dtype=float32)
    """
    kwargs.pop("vmap_method", None)
    kwargs.pop("sharding", None)
    wanted, structure = tree.flatten(result_shape_dtypes)
    leaves, nest = tree.flatten(args)

    class Callback(lucid.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            arrays = [np.asarray(v) if isinstance(v, Tensor) else v for v in values]
            found = tree.flatten(callback(*nest.unflatten(arrays), **kwargs))[0]
            return tuple(
                DOOR.wrapped(np.array(f, w.dtype).reshape(w.shape)) for f, w in zip(found, wanted, strict=True)
            )

    outs = Callback.apply(*(DOOR.array(leaf) for leaf in leaves))
    return _made(structure.unflatten(outs))
