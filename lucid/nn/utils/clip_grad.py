"""Keeping gradients small: by the norm of all of them together, or element by element."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import lucid
from lucid import Tensor
from lucid.core.levels import capturing
from lucid.core.tensor import is_plain

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

_EPSILON = 1e-6  # keeps the quotient of norms finite
_PRODUCTS = (lucid.float32, lucid.float64)  # types of which NumPy multiplies vectors by BLAS


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [g for p in _listed(parameters) if (g := p.grad) is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of the elements of all tensors together, as if they were one vector.

    `foreach` is accepted for compatibility and changes nothing.

    >>> import lucid
    >>> from lucid.nn.utils import get_total_norm
    >>> get_total_norm([lucid.tensor([3.0]), lucid.tensor([0.0, 4.0])])
    Tensor(5.)
    """
    order = float(norm_type)
    listed = _listed(tensors)
    if not listed:
        return lucid.tensor(0.0)
    if order == 2 and not capturing() and all(is_plain(t) and t.dtype in _PRODUCTS for t in listed):
        total = _euclidean(listed)
    else:
        with lucid.no_grad():
            total = lucid.stack([_wide(t).norm(order) for t in listed]).norm(order)
    return _finite(total, order) if error_if_nonfinite else total


def _finite(total: Tensor, order: float) -> Tensor:
    """The norm of gradients if these can be clipped by it; a program looks at it in each run, before it writes anything."""
    checked: Tensor = (_checked if is_plain(total) else lucid.compiler.disable(_checked))(total, float(order))
    return checked


def _checked(total: Tensor, order: float) -> Tensor:
    if not math.isfinite(total.item()):
        raise RuntimeError(
            f"the norm of order {order} of these gradients is {total.item()}, so they cannot be clipped; "
            "pass error_if_nonfinite=False to clip them nevertheless"
        )
    return total


def _wide(tensor: Tensor) -> Tensor:
    """The tensor in a type whose powers do not overflow at once."""
    return tensor.float() if tensor.itemsize == 2 else tensor


def _euclidean(tensors: list[Tensor]) -> Tensor:
    """The total norm of order 2 of plain tensors: one product without temporaries for each, summed in float64."""
    squares = 0.0
    for tensor in tensors:
        flat = tensor._array.reshape(-1)
        squares += float(np.dot(flat, flat))
    wide = any(t.dtype == lucid.float64 for t in tensors)
    return lucid.tensor(math.sqrt(squares), dtype=lucid.float64 if wide else lucid.float32)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of all parameters, in place, by max_norm / total_norm if that is less than 1.

    >>> import lucid
    >>> from lucid.nn.utils import clip_grads_with_norm_
    >>> w = lucid.tensor([1.0], requires_grad=True)
    >>> w.grad = lucid.tensor([8.0])
    >>> clip_grads_with_norm_([w], max_norm=1.0, total_norm=lucid.tensor(2.0))
    >>> w.grad
    Tensor([4.])
    """
    with lucid.no_grad():
        factor: Any = (float(max_norm) / (total_norm + _EPSILON)).clamp(max=1.0)
        if is_plain(factor):
            factor = factor.item()
            if factor == 1.0:
                return
        for gradient in _grads(parameters):
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of all parameters, in place, so that their total norm is at most `max_norm`.

    Returns the norm that they had. `norm_type` may be `inf`, for the largest absolute value. Where processes have parts of
    parameters, as after `nn.parallel.fully_shard`, all of them call it, and it is the norm of all parts.

    >>> import lucid
    >>> from lucid.nn.utils import clip_grad_norm_
    >>> w = lucid.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> clip_grad_norm_([w], max_norm=1.0)
    Tensor(10.)
    >>> w.grad
    Tensor([0.6, 0.8])
    """
    listed = _listed(parameters)
    total = norm_of_gradients(listed, norm_type)
    total = _finite(total, norm_type) if error_if_nonfinite else total
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def norm_of_gradients(parameters: Iterable[Tensor], norm_type: float, group: Any = None) -> Tensor:
    """The norm of the gradients of parameters. Of those of which processes have parts, all parts count.

    With a group, parameters that are not known to be parts are taken for parts that its members have.
    """
    from lucid.distributed.parts import by_division, of_all_parts

    divisions = by_division(parameters)
    if group is None and divisions.keys() <= {()}:
        return get_total_norm(_grads(divisions.get((), ())), norm_type)
    order, totals = float(norm_type), []
    for groups, members in divisions.items():
        own = get_total_norm(_grads(members), order).double()  # also where a process has no gradient
        everyone = groups or (() if group is None else (group,))
        with lucid.no_grad():
            totals.append(of_all_parts(own, everyone, lambda norms: norms.norm(order)))
    wide = any(p.dtype == lucid.float64 for p in parameters)
    return get_total_norm(totals, order).to(lucid.float64 if wide else lucid.float32)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Bring every element of the gradients, in place, into [-clip_value, clip_value].

    >>> import lucid
    >>> from lucid.nn.utils import clip_grad_value_
    >>> w = lucid.tensor([3.0, 0.1], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> clip_grad_value_([w], 1.0)
    >>> w.grad
    Tensor([1. , 0.2])
    """
    bound = float(clip_value)
    with lucid.no_grad():
        for gradient in _grads(parameters):
            gradient.clamp_(-bound, bound)


clip_grad_norm = clip_grad_norm_  # its name from before what writes in place ended in _
