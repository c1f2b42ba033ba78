"""`lucid.autograd.jacobian` and its relatives: derivatives of functions of one tensor or of a tuple of them, by `lucid.func`.

Every function has PyTorch's arguments. Results are cut from the graph unless `create_graph=True`. `vectorize` changes
nothing: Jacobians are always computed for all directions at once. `strict=True`, which makes an error of a derivative that
is 0 because nothing depends on an input, is refused.
"""

from collections.abc import Callable
from typing import Any

from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.tensor import Tensor, of_class
from lucid.core.tree import tree_map
from lucid.func import forward, jacobians, reverse


def _operands(inputs: Any, strict: bool, name: str) -> tuple[Any, ...]:
    if strict:
        raise ValueError(f"{name}: strict=True is not supported; an input that nothing depends on has the derivative 0")
    operands = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for i, x in enumerate(operands):
        if x.np_dtype not in DIFFERENTIABLE:
            raise TypeError(f"{name}: derivatives need floating-point input, and inputs[{i}] is {x.dtype}")
    return operands


def _handed(found: Any, operands: tuple[Any, ...], create_graph: bool) -> Any:
    """Results in the operands' class, with history only if that is wanted."""
    return tree_map(lambda t: of_class(operands, t if create_graph else t.detach()), found)


def _like(inputs: Any, found: Any) -> Any:
    """One result for each operand, as the operands were given."""
    return found[0] if isinstance(inputs, Tensor) else tuple(found)


def _direction(v: Any, like: Any, name: str) -> Any:
    """The vector to multiply by: given, or 1 beside one number."""
    if v is not None:
        return v
    if not isinstance(like, Tensor) or like.numel() != 1:
        raise RuntimeError(f"{name}: v can be left out only where it is one number")
    return like.detach() * 0 + 1


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of all elements of the result by all elements of the inputs.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    operands = _operands(inputs, strict, "jacobian")
    transform = jacobians.jacfwd if strategy == "forward-mode" else jacobians.jacrev
    wanted = 0 if isinstance(inputs, Tensor) else tuple(range(len(operands)))
    return _handed(transform(func, wanted)(*operands), operands, create_graph)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function whose result is one number.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    operands = _operands(inputs, strict, "hessian")
    wanted = 0 if isinstance(inputs, Tensor) else tuple(range(len(operands)))
    return _handed(jacobians.hessian(func, wanted)(*operands), operands, create_graph)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result, and the product of `v` with the Jacobian.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.vjp(torch.exp, torch.zeros(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([1., 2.]))
    """
    operands = _operands(inputs, strict, "vjp")
    value, pull = reverse.vjp(func, *operands)
    found = _like(inputs, pull(_direction(v, value, "vjp")))
    return _handed((value, found), operands, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result, and the product of the Jacobian with `v`.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.jvp(torch.exp, torch.zeros(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([1., 2.]))
    """
    operands = _operands(inputs, strict, "jvp")
    direction = _direction(v, inputs, "jvp")
    tangents = (direction,) if isinstance(direction, Tensor) else tuple(direction)
    return _handed(forward.jvp(func, operands, tangents), operands, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result, which is one number, and the product of the Hessian with `v`.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    operands = _operands(inputs, strict, "hvp")
    direction = _direction(v, inputs, "hvp")
    tangents = (direction,) if isinstance(direction, Tensor) else tuple(direction)
    places = tuple(range(len(operands)))
    (_, value), (found, _) = forward.jvp(reverse.grad_and_value(func, places), operands, tangents)
    return _handed((value, _like(inputs, found)), operands, create_graph)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The same as `hvp`: the Hessian is symmetric.

    >>> import lucid.torch as torch
    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))[1]
    tensor([ 6., 12.])
    """
    return hvp(func, inputs, v, create_graph, strict)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
