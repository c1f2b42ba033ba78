"""Whole Jacobians and Hessians, column by column or row by row, all at once."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from lucid.core import tree
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.func.batching import vmap
from lucid.func.forward import jvp
from lucid.func.reverse import vjp


def _basis(leaves: list[Tensor]) -> list[Tensor]:
    """Unit vectors for all elements of all leaves: each leaf's share of them, in its own shape."""
    total = sum(x.numel() for x in leaves)
    out, start = [], 0
    for x in leaves:
        rows = np.zeros((total, x.numel()), x.np_dtype)
        rows[start : start + x.numel()] = np.eye(x.numel())
        out.append(Tensor._wrap(rows.reshape(total, *x.shape)))
        start += x.numel()
    return out


def _chosen(args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[tuple[int, ...], Any]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    return numbers, tuple(tree.tree_map(lift, args[n]) for n in numbers)


def _with(args: tuple[Any, ...], numbers: tuple[int, ...], values: Sequence[Any]) -> list[Any]:
    new = list(args)
    for n, v in zip(numbers, values, strict=True):
        new[n] = v
    return new


def jacrev(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The Jacobian of `func` by reverse mode: one batched backward pass, best for few outputs.

    >>> import lucid
    >>> lucid.func.jacrev(lambda x: x**2)(lucid.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _chosen(args, argnums)

        def of_chosen(*values: Any) -> Any:
            return func(*_with(args, numbers, values), **kwargs)

        value, pull, *aux = vjp(of_chosen, *primals, has_aux=has_aux)
        outputs, out_structure = tree.flatten(value)
        basis = _basis(outputs)
        rows = vmap(lambda *cts: pull(out_structure.unflatten(cts)))(*basis)
        in_leaves, in_structure = tree.flatten(rows)
        jacobians, start = [], 0
        for out in outputs:
            parts = [leaf[start : start + out.numel()].reshape(*out.shape, *leaf.shape[1:]) for leaf in in_leaves]
            nested = in_structure.unflatten(parts)
            jacobians.append(nested[0] if isinstance(argnums, int) else nested)
            start += out.numel()
        result = out_structure.unflatten(jacobians)
        return (result, aux[0]) if has_aux else result

    return call


def jacfwd(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The Jacobian of `func` by forward mode: one batched forward pass, best for few inputs.

    >>> import lucid
    >>> lucid.func.jacfwd(lambda x: x**2)(lucid.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _chosen(args, argnums)
        leaves, structure = tree.flatten(primals)

        def push(*tangents: Any) -> Any:
            def of_chosen(*values: Any) -> Any:
                return func(*_with(args, numbers, values), **kwargs)

            _, change, *aux = jvp(of_chosen, primals, structure.unflatten(tangents), has_aux=has_aux)
            return (change, aux[0]) if has_aux else (change, ())

        columns, aux = vmap(push, out_dims=(-1, 0))(*_basis(leaves))
        outputs, out_structure = tree.flatten(columns)
        jacobians = []
        for out in outputs:
            parts, start = [], 0
            for leaf in leaves:
                part = out[..., start : start + leaf.numel()]
                parts.append(part.reshape(*out.shape[:-1], *leaf.shape))
                start += leaf.numel()
            nested = structure.unflatten(parts)
            jacobians.append(nested[0] if isinstance(argnums, int) else nested)
        result = out_structure.unflatten(jacobians)
        return (result, tree.tree_map(lambda a: a[0], aux)) if has_aux else result

    return call


def hessian(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The matrix of second derivatives of `func`, by forward mode over reverse mode.

    >>> import lucid
    >>> lucid.func.hessian(lambda x: (x**3).sum())(lucid.tensor([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
