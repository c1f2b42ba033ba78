"""Products with logarithms, and their limits at 0."""

import math
from typing import Any

from lucid.ops.rules import P, typed_as
from lucid.ops.special.declaration import declare


def _entropy(x: Any) -> Any:
    some = x > 0
    return P.where(some, -x * P.log(P.where(some, x, 1)), P.where(x < 0, -math.inf, x))


entr = declare("entr", (lambda x: -(P.log(x) + 1),), body=_entropy)


def _log1p_unless_both_vanish(x: Any, y: Any) -> Any:
    y = typed_as(x, y)
    vanishes = (x == 0) & (y <= -1)
    return P.where(vanishes, 0, P.log1p(P.where(vanishes, 0, y)))


def _xlog1py(x: Any, y: Any) -> Any:
    zero = (x == 0) & (y == y)
    return P.where(zero, 0, x * P.log1p(P.where(zero, 0, y)))


xlog1py = declare("xlog1py", (_log1p_unless_both_vanish, lambda x, y: x / (y + 1)), "x y", body=_xlog1py)
