"""Derivatives as HIPS autograd has them, by `lucid.func`: of functions of numbers, arrays, dicts, tuples and lists."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

import lucid
from lucid import func
from lucid.autograd import checkpoint as _checkpoint
from lucid.core.tensor import Tensor
from lucid.core.tree import tree_map
from lucid.numpy.arrays import DOOR

Argnum = int | Sequence[int]


def _on_arrays(
    transform: Callable[..., Any], fun: Callable[..., Any], read: Callable[..., Any], *settings: Any, **named: Any
) -> Callable[..., Any]:
    """A transformed function that takes NumPy's arrays and numbers, and gives arrays of the front door.

    `read` makes of its results what HIPS autograd gives.
    """
    transformed = transform(fun, *settings, **named)
    numbers = settings[0] if settings else 0
    wanted = (numbers,) if isinstance(numbers, int) else tuple(numbers)

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = {n % len(args) for n in wanted if -len(args) <= n < len(args)}
        given = [DOOR.arrays(a) if n in chosen else _arrays_only(a) for n, a in enumerate(args)]
        return tree_map(DOOR.adopted, read(transformed(*given, **kwargs)))

    return call


def conjugated(cotangents: Any) -> Any:
    """Cotangents as HIPS autograd and JAX mean them, of Lucid's, which are PyTorch's, and back.

    By theirs a result changes by Re(ct · dy), and the gradient is ∂f/∂x - i ∂f/∂y; by Lucid's by Re(conj(ct) · dy).
    """
    return tree_map(lambda ct: ct.conj() if isinstance(ct, Tensor) and ct.is_complex() else ct, cotangents)


def _arrays_only(nest: Any) -> Any:
    """Arrays of NumPy's as those of the front door, whose methods lose no derivative."""
    return tree_map(lambda leaf: DOOR.array(leaf) if isinstance(leaf, np.ndarray) else leaf, nest)


def grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the gradient of `fun`, whose result is one number.

    The argument may be a number, an array, or a dict, tuple or list of those, of any depth; the gradient is like it.

    >>> import lucid.numpy as np
    >>> np.grad(lambda p: p["scale"] * np.sum(p["shift"] ** 2))({"scale": 3.0, "shift": np.array([1.0, 2.0])})
    {'scale': array(5.), 'shift': array([ 6., 12.])}
    """
    return _on_arrays(func.grad, fun, conjugated, argnum)


def value_and_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the value of `fun` and its gradient.

    >>> import lucid.numpy as np
    >>> np.value_and_grad(lambda x: x**3)(2.0)
    (array(8.), array(12.))
    """
    return _on_arrays(func.value_and_grad, fun, lambda found: (found[0], conjugated(found[1])), argnum)


def grad_and_aux(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the gradient of the first of two results of `fun`, and the second.

    >>> import lucid.numpy as np
    >>> np.grad_and_aux(lambda x: (x**3, "cubed"))(2.0)
    (array(12.), 'cubed')
    """
    return _on_arrays(func.grad, fun, lambda found: (conjugated(found[0]), found[1]), argnum, has_aux=True)


def elementwise_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the derivative of the sum of the results of `fun`: of each element, if it stands by itself.

    >>> import lucid.numpy as np
    >>> np.elementwise_grad(np.exp)(np.array([0.0, 1.0])).round(4)
    array([1.    , 2.7183])
    """

    @wraps(fun)
    def total(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs).sum()

    return _on_arrays(func.grad, total, conjugated, argnum)


def holomorphic_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the complex derivative of `fun`, whose result is one complex number.

    >>> import lucid.numpy as np
    >>> np.holomorphic_grad(lambda z: z**3)(1.0 + 2.0j)
    array(-9.+12.j)
    """

    @wraps(fun)
    def real(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs).real

    return grad(real, argnum)


def jacobian(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the derivatives of all elements of the result by all elements of the argument.

    >>> import lucid.numpy as np
    >>> np.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    is_complex = False

    @wraps(fun)
    def seen(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_complex
        found = fun(*args, **kwargs)
        is_complex = isinstance(found, Tensor) and found.is_complex()
        return found

    # Rows are gradients, those of a holomorphic function its derivatives.
    return _on_arrays(func.jacobian, seen, lambda found: found if is_complex else conjugated(found), argnum)


def hessian(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives.

    >>> import lucid.numpy as np
    >>> np.hessian(lambda x: np.prod(x))(np.array([2.0, 3.0]))
    array([[0., 1.],
           [1., 0.]])
    """
    return _on_arrays(func.hessian, fun, lambda found: found, argnum)


def hessian_vector_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function of the arguments of `fun` and a vector that gives the product of the Hessian with the vector.

    >>> import lucid.numpy as np
    >>> np.hessian_vector_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        *given, vector = args

        def of_one(x: Any) -> Any:
            return func.grad(fun, argnum)(*given[:argnum], x, *given[argnum + 1 :], **kwargs)

        found = func.jvp(of_one, (DOOR.arrays(given[argnum]),), (DOOR.arrays(vector),))[1]
        return tree_map(DOOR.adopted, found)

    return call


def vjp(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The value of `fun`, and a function that takes cotangents of it back to the arguments, as `lucid.func.vjp`.

    >>> import lucid.numpy as np
    >>> value, pull = np.vjp(np.sin, np.zeros(2))
    >>> pull(np.ones(2))
    (array([1., 1.]),)
    """
    value, pull = func.vjp(fun, *(DOOR.arrays(p) for p in primals))

    def pulled(cotangents: Any) -> Any:
        return tree_map(DOOR.adopted, conjugated(pull(conjugated(DOOR.arrays(cotangents)))))

    return DOOR.adopted(value), pulled


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The value of `fun`, and its change along tangents, as `lucid.func.jvp`.

    >>> import lucid.numpy as np
    >>> np.jvp(np.exp, (0.0,), (2.0,))
    (array(1.), array(2.))
    """
    given = tuple(DOOR.arrays(p) for p in primals)
    return tree_map(DOOR.adopted, func.jvp(fun, given, tuple(DOOR.arrays(t) for t in tangents)))


def make_vjp(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives a function from cotangents to the argument's, and the value of `fun`.

    >>> import lucid.numpy as np
    >>> pull, value = np.make_vjp(np.sin)(0.0)
    >>> pull(3.0), value
    (array(3.), array(0.))
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        value, pull = vjp(lambda x: fun(*args[:argnum], x, *args[argnum + 1 :], **kwargs), args[argnum])
        return lambda cotangent: pull(cotangent)[0], value

    return call


def make_jvp(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives a function from a tangent to the value of `fun` and its change.

    >>> import lucid.numpy as np
    >>> np.make_jvp(np.exp)(0.0)(2.0)
    (array(1.), array(2.))
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        def of_one(x: Any) -> Any:
            return fun(*args[:argnum], x, *args[argnum + 1 :], **kwargs)

        return lambda tangent: jvp(of_one, (args[argnum],), (tangent,))

    return call


def make_hvp(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives a function from a vector to its product with the Hessian, and the gradient.

    >>> import lucid.numpy as np
    >>> product, gradient = np.make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> product(np.array([1.0, 0.0])), gradient
    (array([6., 0.]), array([ 3., 12.]))
    """
    return make_vjp(grad(fun, argnum), argnum)


def make_ggnvp(
    f: Callable[..., Any], g: Callable[..., Any] = lambda x: 0.5 * (x**2).sum(axis=-1), f_argnum: int = 0
) -> Callable[..., Any]:
    """A function that gives a function from a vector to its product with the matrix of Gauss and Newton of `g(f(x))`.

    That is the Jacobian of `f`, then the Hessian of `g`, then the Jacobian's transpose.

    >>> import lucid.numpy as np
    >>> np.make_ggnvp(lambda x: x**2)(np.array([1.0, 2.0]))(np.array([1.0, 1.0]))
    array([ 4., 16.])
    """

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        pull, value = make_vjp(f, f_argnum)(*args, **kwargs)
        push, bend = make_jvp(f, f_argnum)(*args, **kwargs), make_hvp(g)(value)[0]
        return lambda vector: pull(bend(push(vector)[1]))

    return call


def deriv(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives the derivative by one number, of results of any shape, in one pass forward.

    >>> import lucid.numpy as np
    >>> np.deriv(lambda t: np.array([t**2, np.sin(t)]))(0.0)
    array([0., 1.])
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return make_jvp(fun, argnum)(*args, **kwargs)(np.ones(np.shape(args[argnum])))[1]

    return call


def grad_named(fun: Callable[..., Any], argname: str) -> Callable[..., Any]:
    """The gradient by the argument of that name.

    >>> import lucid.numpy as np
    >>> np.grad_named(lambda x, y: x * y**2, "y")(3.0, 2.0)
    array(12.)
    """
    return grad(fun, list(signature(fun).parameters).index(argname))


def multigrad_dict(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the gradients by all arguments, under their names.

    >>> import lucid.numpy as np
    >>> np.multigrad_dict(lambda x, y=2.0: x * y**2)(3.0)
    {'x': array(4.), 'y': array(12.)}
    """
    form = signature(fun)

    def of_named(named: dict[str, Any]) -> Any:
        bound = form.bind_partial()
        bound.arguments.update(named)
        return fun(*bound.args, **bound.kwargs)

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = form.bind(*args, **kwargs)
        bound.apply_defaults()
        return grad(of_named)(dict(bound.arguments))

    return call


def tensor_jacobian_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function of the arguments of `fun` and a tensor that gives the product of the tensor with the Jacobian.

    The dimensions of the tensor are the first ones of the result of `fun`.

    >>> import lucid.numpy as np
    >>> np.tensor_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])
    """

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        *given, tensor = args
        factor = DOOR.arrays(tensor)

        def product(*args: Any, **kwargs: Any) -> Any:
            return lucid.tensordot(factor, fun(*args, **kwargs), factor.ndim)

        return jacobian(product, argnum)(*given, **kwargs)

    return call


hessian_tensor_product, vector_jacobian_product = hessian_vector_product, tensor_jacobian_product


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function, such that what happens inside is computed again for the gradient and not kept.

    >>> import lucid.numpy as np
    >>> float(np.grad(np.checkpoint(lambda x: np.sin(x) ** 2))(0.0))
    0.0
    """

    @wraps(fun)
    def call(*args: Any) -> Any:
        return _checkpoint(fun, *args)

    return call
