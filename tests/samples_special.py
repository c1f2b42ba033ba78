"""Rows of the table for special functions; see `samples`. References are SciPy's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special as scipy
from samples import BOOLS, INTS, Array, Domain, Make, Row, Sample, in_place, kink, s, two_operands, u

import lucid
from lucid import special


def f(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    """A row for a function of one operand in `lucid.special`."""
    return u(name, ref, *domain, **{"op": getattr(special, name), **flags})


def pair(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    """A row for a function of two operands."""
    flags = {"op": getattr(special, name, None), "result": "float", "ints": INTS, "samples": two_operands, **flags}
    return Row(name, ref=ref, domain=Domain(*domain), **flags)


# --- Bessel functions ----------------------------------------------------------------------------

ONES = (
    ("bessel_j0", scipy.j0),
    ("bessel_j1", scipy.j1),
    ("i0", scipy.i0),
    ("i1", scipy.i1),
    ("modified_bessel_i0", scipy.i0),
    ("modified_bessel_i1", scipy.i1),
    ("spherical_bessel_j0", lambda x: scipy.spherical_jn(0, x)),
    ("airy_ai", lambda x: scipy.airy(x)[0]),
)
POSITIVE = (
    ("bessel_y0", scipy.y0),
    ("bessel_y1", scipy.y1),
    ("modified_bessel_k0", scipy.k0),
    ("modified_bessel_k1", scipy.k1),
    ("scaled_modified_bessel_k0", scipy.k0e),
    ("scaled_modified_bessel_k1", scipy.k1e),
)
AT_ZERO = {"bessel_j1": 0.5, "i1": 0.5, "modified_bessel_i1": 0.5, "airy_ai": float(scipy.airy(0.0)[1])}


def of_some_order(make: Make) -> Iterator[Sample]:
    for order in (2, 1.5, 0, -1, -0.25):
        yield s(order, make(2, 3))
    yield s(3, make())
    yield s(0.5, make(0, 2))


BESSEL = [
    *[f(name, ref, -4, 4, pins=((([0.0],), ([AT_ZERO.get(name, 0)],)),)) for name, ref in ONES],
    *[f(name, ref, 0.5, 4) for name, ref in POSITIVE],
    # The kink at 0: the mean of both slopes.
    f("i0e", scipy.i0e, -4, 4, 0.1, pins=((([0.0],), ([0],)),)),
    f("i1e", scipy.i1e, -4, 4, 0.1, pins=((([0.0],), ([0.5],)),)),
    *[
        f(name, getattr(scipy, name), 0.5, 4, samples=of_some_order)
        for name in ("jv", "yv", "iv", "kv", "ive", "kve")
    ],
]  # fmt: skip

# --- polynomials ---------------------------------------------------------------------------------


def polynomial(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Polynomials of negative degree are 0."""
    return lambda x, n: np.where(np.trunc(n) < 0, 0, evaluate(np.asarray(np.trunc(n), np.int64), x))


def jacobi(alpha: float, beta: float, at_one: Callable[..., Any]) -> Callable[..., Any]:
    """The polynomial in proportion to Jacobi's that has this value at 1."""

    def evaluate(n: Array, x: Array) -> Array:
        whole = n.astype(float)
        value = scipy.eval_jacobi(whole, alpha, beta, x) / scipy.eval_jacobi(whole, alpha, beta, 1.0)
        return np.asarray(at_one(n) * value)

    return evaluate


THIRD, FOURTH = jacobi(-0.5, 0.5, lambda n: 1), jacobi(0.5, -0.5, lambda n: 2 * n + 1)
FAMILIES: dict[str, Callable[..., Any]] = {
    "chebyshev_polynomial_t": scipy.eval_chebyt,
    "chebyshev_polynomial_u": scipy.eval_chebyu,
    "chebyshev_polynomial_v": THIRD,
    "chebyshev_polynomial_w": FOURTH,
    "shifted_chebyshev_polynomial_t": scipy.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": scipy.eval_sh_chebyu,
    "shifted_chebyshev_polynomial_v": lambda n, x: THIRD(n, 2 * x - 1),
    "shifted_chebyshev_polynomial_w": lambda n, x: FOURTH(n, 2 * x - 1),
    "hermite_polynomial_h": scipy.eval_hermite,
    "hermite_polynomial_he": scipy.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.eval_laguerre,
    "legendre_polynomial_p": scipy.eval_legendre,
}


def degrees(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 3)
    yield s(make(3, 2).T, 2)
    yield s(make(), 1)
    yield s(make(3), 0)
    yield s(make(0, 2), 4)
    yield s(make(2, 1), np.array([0, 1, 5]))
    if make.floats:
        yield s(make(3), make.at(0.5, 2.25, 3.75))
        yield s(0.5, make.at(0.5, 2.25, 3.75))


POLYNOMIALS = [pair(name, polynomial(ref), -1.5, 1.5, samples=degrees, ints=BOOLS) for name, ref in FAMILIES.items()]

# --- normal, entropy -----------------------------------------------------------------------------

NORMAL = [
    f("ndtr", scipy.ndtr, -3, 3),
    f("log_ndtr", scipy.log_ndtr, -6, 6),
    f("ndtri", scipy.ndtri, 0.1, 0.9),
    f("erfcx", scipy.erfcx, -2, 3),
    f("erfcinv", scipy.erfcinv, 0.2, 1.8),
    f("entr", scipy.entr, 0.2, 3),
    pair("xlog1py", scipy.xlog1py, -0.6, 2, pins=((([0.0], [1.0]), ([float(np.log(2))], [0])),)),
]  # fmt: skip

# --- gamma, beta, zeta ---------------------------------------------------------------------------


def incomplete_gammas(make: Make) -> Iterator[Sample]:
    yield from two_operands(make)
    if make.name == "float64":
        yield s(make.at(0.01, 0.5, 5, 30, 200), make.at(0.5, 6, 4.9, 33, 190))


def incomplete_betas(make: Make) -> Iterator[Sample]:
    for shapes in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (), ()), ((0,), (1,), (1,))):
        yield s(*(make(*shape) for shape in shapes))
    yield s(2.0, make(3), 0.25)
    yield s(make.at(3, 20, 1), make.at(2, 8, 5), make.at(0.4, 0.75, 0.5))
    yield kink(make.at(1, 1, 2, -1, 2), make.at(1, 1, 2, 1, 0), make.at(0, 1, 2, 0.5, 0.5))


def triples_of_parts(make: Make) -> Iterator[Sample]:
    for shapes in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (), ()), ((0,), (1,), (1,))):
        yield s(*(make(*shape) for shape in shapes))
    yield s(2.0, make(3), 0.25)


def zetas(make: Make) -> Iterator[Sample]:
    yield from (x for x in two_operands(make) if x.smooth)
    if make.floats:
        yield s(make.at(1.25, 3.5, 20), make.at(0.25, 0.5, 10))
        yield kink(make.at(1, 0.5, 2, 2, 2.5), make.at(2, 2, 0, -1, -0.5))


def multivariate(make: Make) -> Iterator[Sample]:
    for p in (1, 2, 3):
        yield s(make(2, 3), p)
    yield s(make(), p=2)
    yield s(make(0, 2), 2)


def log_gamma_of_dimension(x: Array, p: int) -> Array:
    """Also below (p - 1) / 2, where SciPy refuses."""
    return p * (p - 1) / 4 * np.log(np.pi) + sum(scipy.gammaln(x - j / 2) for j in range(p))


GAMMA = [
    f("gamma", scipy.gamma, 0.3, 3),
    f("multigammaln", log_gamma_of_dimension, 1.2, 4, samples=multivariate, ints=INTS),
    pair("gammainc", scipy.gammainc, 0.3, 3, samples=incomplete_gammas),
    pair("gammaincc", scipy.gammaincc, 0.3, 3, samples=incomplete_gammas),
    pair("gammaincinv", scipy.gammaincinv, 0.2, 0.8),
    pair("beta", scipy.beta, 0.5, 3),
    pair("betaln", scipy.betaln, 0.5, 3),
    pair("betainc", scipy.betainc, 0.2, 0.8, samples=incomplete_betas),
    pair("betaincinv", scipy.betaincinv, 0.3, 0.7, samples=triples_of_parts),
    pair("zeta", scipy.zeta, 1.3, 4, samples=zetas),
]

# --- at the top level, and in place --------------------------------------------------------------


def without_broadcast(row: Row) -> Row:
    """The samples that can be written into their first operand."""

    def fits(sample: Sample) -> bool:
        shapes = [np.shape(a) for a in sample.args]
        return isinstance(sample.args[0], Array) and np.broadcast_shapes(*shapes) == shapes[0]

    return replace(row, samples=lambda make: (x for x in row.samples(make) if fits(x)))


TOP = [
    pair("igamma", scipy.gammainc, 0.3, 3, op=lucid.igamma),
    pair("igammac", scipy.gammaincc, 0.3, 3, op=lucid.igammac),
    u("mvlgamma", log_gamma_of_dimension, 1.2, 4, op=lucid.mvlgamma,
      samples=multivariate, ints=INTS),
]  # fmt: skip
I0 = next(row for row in BESSEL if row.name == "i0")

ROWS = [*BESSEL, *POLYNOMIALS, *NORMAL, *GAMMA, *TOP, *[in_place(without_broadcast(row)) for row in (*TOP, I0)]]
