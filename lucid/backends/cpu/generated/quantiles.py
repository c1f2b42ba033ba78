"""Quantiles of gamma distributions and their slopes by compiled loops, where these reach, and by the reference elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import gammas
from lucid.core import kernels
from lucid.core.primitive import P


def _even(x: Any) -> Any:
    """An array of which all elements are one, as that one; others as they are."""
    is_one = not any(step for step, size in zip(x.strides, x.shape, strict=True) if size > 1)
    return x[(slice(1),) * x.ndim] if is_one and x.size else x


def _by_shape(name: str, of_shape: str, loop: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The kernel of a function of the shape `a` and a second operand.

    The loop also takes a function of a + 1 and the logarithm of the second operand.
    """

    def kernel(a: Any, other: Any) -> Any:
        kind = next((x.dtype for x in (a, other) if hasattr(x, "dtype")), np.dtype(np.float64))
        a, other = (np.asarray(x, np.float64) for x in (a, other))
        shape = np.broadcast_shapes(a.shape, other.shape)
        one = _even(a)
        if one.size != 1:
            one = np.broadcast_to(a, shape)
        one, flat = (np.ascontiguousarray(x).reshape(-1) for x in (one, np.broadcast_to(other, shape)))
        with np.errstate(all="ignore"):
            found = loop(one, np.asarray(getattr(P, of_shape).kernel(one + 1)), flat, np.log(flat))
            left = np.isnan(found)
            if left.any():
                shapes = one if one.size == 1 else one[left]
                found[left] = kernels.reference(getattr(P, name))(shapes, flat[left])
        return found.reshape(shape).astype(kind, copy=False)

    return kernel


if support.in_use:
    kernels.fill(
        {
            "gammaincinv": _by_shape("gammaincinv", "lgamma", gammas.quantiles),
            "gammaincinv_by_a": _by_shape("gammaincinv_by_a", "digamma", gammas.slopes),
        },
        "cpu",
    )
