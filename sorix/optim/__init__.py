"""Optimizers: those of `lucid.optim`, which also take the argument names of Sorix."""

from typing import Any

import lucid.optim as _lucid
from lucid.optim import *  # noqa: F403  # exactly what stands in its __all__
from lucid.optim import __all__ as _names

__all__ = [*_names, "SGDMomentum"]


class SGDMomentum(_lucid.SGD):
    """Gradient descent with momentum: v ← momentum·v + g, p ← p - lr·v.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> x.grad = sorix.tensor([2.0])
    >>> sorix.optim.SGDMomentum([x], lr=0.1).step()
    >>> x
    Tensor([9.8], requires_grad=True)
    """

    def __init__(self, parameters: Any, lr: float = 1e-3, momentum: float = 0.9, **options: Any) -> None:
        super().__init__(parameters, lr, momentum, **options)


class RMSprop(_lucid.RMSprop):
    """Steps divided by the root of a running mean of squares, which `decay` (Lucid's `alpha`) controls.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> x.grad = sorix.tensor([2.0])
    >>> sorix.optim.RMSprop([x], lr=0.1, decay=0.9).step()
    >>> x
    Tensor([9.6838], requires_grad=True)
    """

    def __init__(
        self, parameters: Any, lr: float = 1e-3, decay: float = 0.9, epsilon: float = 1e-8, **options: Any
    ) -> None:
        super().__init__(parameters, lr, **{"alpha": decay, "eps": epsilon} | options)


class Adam(_lucid.Adam):
    """Adam with its two decays as `beta1` and `beta2`; `betas` and the other arguments of Lucid's Adam work too.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> x.grad = sorix.tensor([2.0])
    >>> sorix.optim.Adam([x], lr=0.1, beta1=0.8).step()
    >>> x
    Tensor([9.9], requires_grad=True)
    """

    def __init__(
        self,
        parameters: Any,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **options: Any,
    ) -> None:
        named: dict[str, Any] = {"betas": (beta1, beta2), "eps": epsilon}
        super().__init__(parameters, lr, **named | options)
