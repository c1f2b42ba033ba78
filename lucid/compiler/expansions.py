"""Fused operations that are written as others, which loops and products compute, where there are no steps for the whole."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from lucid.compiler.rows import TYPES
from lucid.core.primitive import P
from lucid.ir.values import Instruction, Name
from lucid.ops.contraction import matmul, mT
from lucid.ops.fused import Gradient
from lucid.ops.nn.attention import above_diagonal, attention

_EPILOGUES = frozenset(["linear"])  # products with something that a loop does: their parts are fused with what follows


def expansion(instruction: Instruction) -> Callable[..., Any] | None:
    """The function in place of an instruction's; None if it is left as it is."""
    primitive: Any = instruction.primitive
    if primitive.name in _EPILOGUES:
        composite: Callable[..., Any] = primitive.composite
        return composite
    is_gradient = isinstance(primitive, Gradient)
    of = primitive.of if is_gradient else primitive
    if of is not attention or not _is_expanded(*instruction.operands[is_gradient:]):
        return None
    return partial(primitive.pulled, _attention) if is_gradient else _attention


def _is_expanded(q: Any, k: Any, v: Any, mask: Any, keep: Any) -> bool:
    """Whether it is attention with a mask or with dropout, for which there are no steps, and loops serve.

    Of few queries without either, the kernel's products are others than those of programs, and round in another way.
    """
    given = [x for x in (q, k, v, mask, keep) if x is not None]
    served = all(isinstance(x, Name) and x.dtype == q.dtype and 0 not in x.shape for x in given)
    return served and q.dtype.numpy in TYPES and len(given) > 3


def _attention(q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool) -> Any:
    """As its composite, with softmax as one function of rows, which are 0 where everything is masked."""
    s = matmul(q * scale, mT(k))
    s = s if mask is None else s + mask
    if causal:
        s = P.where(above_diagonal(*s.shape[-2:]), -math.inf, s)
    hidden = None
    if (
        mask is not None
    ):  # rows in which everything is hidden have any weights first, so that their derivatives are numbers
        hidden = P.amax(s.detach(), dims=(s.ndim - 1,), keepdim=True) == -math.inf
        s = P.where(hidden, 0, s)
    p = P.softmax(s, dim=s.ndim - 1)
    p = p if hidden is None else P.where(hidden, 0, p)
    return matmul(p if keep is None else p * keep, v)
