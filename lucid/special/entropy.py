"""Products with logarithms, and their limits at 0."""

import math
from typing import Any

from lucid.ops.rules import P, typed_as
from lucid.special.doors import declare, one, two


def _entropy(x: Any) -> Any:
    some = x > 0
    return P.where(some, -x * P.log(P.where(some, x, 1)), P.where(x < 0, -math.inf, x))


entr = one(
    declare("entr", (lambda x: -(P.log(x) + 1),), body=_entropy),
    "-x log(x): 0 at 0, and -inf for negative numbers. | [0.0, 0.5] -> Tensor([0.    , 0.3466])",
)


def _log1p_unless_both_vanish(x: Any, y: Any) -> Any:
    y = typed_as(x, y)
    vanishes = (x == 0) & (y <= -1)
    return P.where(vanishes, 0, P.log1p(P.where(vanishes, 0, y)))


def _xlog1py(x: Any, y: Any) -> Any:
    zero = (x == 0) & (y == y)
    return P.where(zero, 0, x * P.log1p(P.where(zero, 0, y)))


xlog1py = two(
    declare("xlog1py", (_log1p_unless_both_vanish, lambda x, y: x / (y + 1)), "x y", body=_xlog1py),
    "input · log(1 + other), and 0 where input is 0. | [0.0, 2.0]; [-1.0, 1.0] -> Tensor([0.    , 1.3863])",
)
