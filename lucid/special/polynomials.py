"""Orthogonal polynomials."""

from collections.abc import Callable
from typing import Any

from lucid.arguments.out import into
from lucid.arguments.promotion import FLOAT
from lucid.ops.elementwise import called
from lucid.ops.rules import P
from lucid.special.functions import documented


def _public(name: str, text: str, result: str) -> Callable[..., Any]:
    prim = getattr(P, name)

    def op(input: Any, n: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, n), {})
        return called(prim, (input, n), FLOAT, {"by": 0})

    sentence = f"{text} of degree `n`; 0 for negative degrees."
    return documented(op, prim, f"{sentence} | [0.5, 2.0]; 3 -> Tensor([{result}])", "lucid.special", name)


chebyshev_polynomial_t = _public(
    "chebyshev_polynomial_t", "Chebyshev polynomial of the first kind, cos(n arccos x),", "-1., 26."
)
chebyshev_polynomial_u = _public("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind", "-1., 56.")
chebyshev_polynomial_v = _public("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind", "-1., 41.")
chebyshev_polynomial_w = _public("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind", "-1., 71.")
shifted_chebyshev_polynomial_t = _public(
    "shifted_chebyshev_polynomial_t", "Chebyshev polynomial of the first kind at 2x - 1,", " 0., 99."
)
shifted_chebyshev_polynomial_u = _public(
    "shifted_chebyshev_polynomial_u", "Chebyshev polynomial of the second kind at 2x - 1,", "  0., 204."
)
shifted_chebyshev_polynomial_v = _public(
    "shifted_chebyshev_polynomial_v", "Chebyshev polynomial of the third kind at 2x - 1,", "  1., 169."
)
shifted_chebyshev_polynomial_w = _public(
    "shifted_chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind at 2x - 1,", " -1., 239."
)
hermite_polynomial_h = _public("hermite_polynomial_h", "Hermite polynomial (of physics)", "-5., 40.")
hermite_polynomial_he = _public("hermite_polynomial_he", "Hermite polynomial (of probability)", "-1.375,  2.   ")
laguerre_polynomial_l = _public(
    "laguerre_polynomial_l",
    "Laguerre polynomial",
    "-0.1458, -0.3333",
)
legendre_polynomial_p = _public(
    "legendre_polynomial_p",
    "Legendre polynomial",
    "-0.4375, 17.    ",
)
