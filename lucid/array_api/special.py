"""Special functions under SciPy's names: an extension that the standard plans, and that SciPy looks for already.

Through it, SciPy's functions on tensors, such as the p-values of `scipy.stats`, keep their gradients.
"""

from collections.abc import Callable, Iterable
from typing import Any

import lucid
from lucid.api.names import ROWS, Row, of_scipy
from lucid.array_api.promotion import same_type
from lucid.core.tensor import Tensor

Function = Callable[..., Tensor]


def _of(name: str, row: Row) -> Function:
    compute = row.function()

    def function(*x: Any) -> Tensor:
        return compute(*same_type(name, *x))

    function.__name__ = function.__qualname__ = name
    source = f"lucid.special.{row.name}("
    function.__doc__ = (compute.__doc__ or "").replace(source, f"lucid.array_api.special.{name}(")
    return function


def derived(rows: Iterable[Row] = ROWS) -> dict[str, Function]:
    """What the table of names has for SciPy's functions of arrays only."""
    return {name: _of(name, row) for name, row in of_scipy(rows).items() if "adapter" not in row.columns}


globals().update(derived())


def _parts(dfn: Any, dfd: Any, x: Any) -> tuple[Tensor, Tensor, Tensor]:
    a, b, found = (lucid.as_tensor(p) for p in same_type("fdtr", dfn, dfd, x))
    return a / 2, b / 2, a * found


def fdtr(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """The probability that an F-distributed variable is at most `x`.

    >>> import lucid
    >>> lucid.array_api.special.fdtr(lucid.tensor(1.0), lucid.tensor(2.0), lucid.tensor(3.0))
    Tensor(0.7746)
    """
    a, b, scaled = _parts(dfn, dfd, x)
    return lucid.special.betainc(a, b, scaled / (2 * b + scaled))


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """The probability that an F-distributed variable is larger than `x`.

    >>> import lucid
    >>> lucid.array_api.special.fdtrc(lucid.tensor(1.0), lucid.tensor(2.0), lucid.tensor(3.0))
    Tensor(0.2254)
    """
    a, b, scaled = _parts(dfn, dfd, x)
    return lucid.special.betainc(b, a, 2 * b / (2 * b + scaled))


__all__ = ["fdtr", "fdtrc", *derived()]
