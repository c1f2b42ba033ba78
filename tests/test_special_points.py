"""Derivatives where operands are 0, 1 or -1: rules that treat such points apart must still have the right derivative.

`x ** y` has the derivative y x^(y - 1) by x. A rule that says "0 where y is 0" gives that value, and loses that its
derivative by y is 1 / x.
"""

from collections.abc import Callable
from itertools import islice, product
from zlib import crc32

import checks
import numpy as np
import pytest
from checks import Array, Case
from samples import Row
from table import ROWS

import lucid
from lucid import func
from lucid.core.primitive import Rule
from lucid.ops.categories import Pair, Way
from lucid.ops.rules import P

MOST_SAMPLES = 3  # of a row: special points are not a matter of shapes
STEPS = (1e-4, 2e-5)
POINTS = (0.0, 1.0, -1.0, 0.5)
# Derivatives that are meant not to be those of the values; eigenvalues that meet; a rank that changes; an equation
# that is solved for positive matrices only; a kink where a product is 0.
MEANT = [
    "embedding",
    "embedding_bag",
    "fused_linear_relu",
    "scale_gradient",
    "gaussian_nll_loss",
    "linalg.eigvals",
    "linalg.pinv",
    "sylvester",
]


def filled(case: Case, operands: tuple[int, ...], value: float, whole: bool) -> list[Array]:
    """The arrays with a value for all elements of some operands, or for the first alone."""
    arrays = [np.array(a) for a in case.arrays]
    for k in operands:
        arrays[k].reshape(-1)[slice(None if whole else 1)] = value
    return arrays


def slope(f: Callable[[float], list[Array]]) -> tuple[list[Array], list[Array]]:
    """Derivatives of f at 0 by finite differences, and where they can be trusted: to both sides, by both steps.

    At a kink of even symmetry both sides agree, and steps do not.
    """
    here, slopes, trusted = f(0.0), [], []
    for step in STEPS:
        ahead, behind = f(step), f(-step)
        slopes.append([(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)])
        sides = zip(ahead, behind, here, slopes[-1], strict=True)
        trusted.append([np.abs(a + b - 2 * h) <= 2e-3 * step * (1 + np.abs(s)) for a, b, h, s in sides])
    same = [np.abs(s - t) <= 2e-3 * (1 + np.abs(s)) for s, t in zip(*slopes, strict=True)]
    known = [s & a & b & np.isfinite(x) for s, a, b, x in zip(same, *trusted, slopes[0], strict=True)]
    return slopes[0], known


def wrong(row: Row, value: float) -> str | None:
    """The first sample with a second derivative that differences contradict, if an operand, or all, have this value."""
    rng = np.random.default_rng(crc32(row.name.encode()))
    for case in islice(checks.cases(row, "float64"), MOST_SAMPLES):
        alone = [(k,) for k in case.floats]
        chosen = alone if len(alone) < 2 else [*alone, tuple(case.floats)]
        for operands, whole in product(chosen, (True, False)):
            arrays = filled(case, operands, value, whole)
            try:
                if differs(case, arrays, rng):
                    return f"{case} with {value} for {operands}"
            except checks.REFUSALS:
                continue
    return None


def differs(case: Case, arrays: list[Array], rng: np.random.Generator) -> bool:
    inputs = case.operands(arrays)
    outs = [o for o in case.op(*inputs) if checks.is_float(o)]
    if not outs or any(o.is_complex() for o in outs):
        return False
    weights = [rng.uniform(-1, 1, o.shape) for o in outs]
    v = [rng.uniform(-1, 1, arrays[k].shape) for k in case.floats]

    def moved(step: float) -> list[Array]:
        new = list(arrays)
        for k, d in zip(case.floats, v, strict=True):
            new[k] = new[k] + step * d
        return new

    def values(step: float) -> list[Array]:
        return [checks.array(o).copy() for o in case.op(*case.operands(moved(step))) if checks.is_float(o)]

    _, smooth = slope(values)
    if not all(ok.all() for ok in smooth):
        return False
    want, known = slope(lambda step: checks.reverse(case, weights, moved(step)))
    floats = [inputs[k] for k in case.floats]
    first = checks.pulled(outs, weights, floats, create_graph=True)
    got = [checks.array(g) for g in checks.pulled(first, v, floats)]
    close = [np.abs(g - w) <= 1e-2 * (1 + np.abs(w)) for g, w in zip(got, want, strict=True)]
    return any(ok.all() and not c.all() for c, ok in zip(close, known, strict=True))


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable and r.name not in MEANT], ids=repr)
def test_second_derivatives(row):
    with np.errstate(all="ignore"):
        assert [found for value in POINTS if (found := wrong(row, value))] == []


def test_the_check_can_fail(monkeypatch):
    def forgetful(ct, x, y, out):
        return ct * P.where(y == 0, 0, y * x ** (y - 1))

    _, second = P.pow.ways
    monkeypatch.setattr(P.pow, "ways", (Way(Pair(forgetful), Rule(forgetful, ("x", "y"))), second))
    P.pow.ways[0].rule.picks = (0, 1, 2)
    assert wrong(next(r for r in ROWS if r.name == "pow"), 0.0)


@pytest.mark.parametrize("outer", [func.jacrev, func.jacfwd])
@pytest.mark.parametrize("inner", [func.jacrev, func.jacfwd])
def test_power_with_exponent_0(outer, inner):
    x, y = lucid.tensor(2.0, dtype=lucid.float64), lucid.tensor(0.0, dtype=lucid.float64)
    (xx, xy), (yx, yy) = outer(inner(lucid.pow, argnums=(0, 1)), argnums=(0, 1))(x, y)
    assert (xx, xy, yx) == (0, 0.5, 0.5)
    assert abs(yy - np.log(2) ** 2) < 1e-15


# Functions with branch cuts along an axis, and what numpy says of them.
CUT = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
}  # fmt: skip


@pytest.mark.parametrize("along", ["real", "imaginary"])
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("name", CUT)
def test_derivatives_on_branch_cuts(name, zero, along):
    """The sign of a zero says on which side of the cut a number lies: first and second derivatives along the axis."""
    function, reference, step = getattr(lucid, name), CUT[name], 1e-6

    def numbers(places: Array) -> Array:
        parts = (places, np.full_like(places, zero)) if along == "real" else (np.full_like(places, zero), places)
        return np.stack(parts, -1).view(np.complex128)[..., 0]

    def slope(z: lucid.Tensor) -> lucid.Tensor:
        found: lucid.Tensor = func.jvp(function, (z,), (lucid.ones_like(z),))[1]
        return found

    direction = 1 if along == "real" else 1j
    places = np.array([2.0, -2.0, 0.5, -0.5, 3.5, -3.5])
    z, above, below = (lucid.tensor(numbers(places + d)) for d in (0.0, step, -step))
    with np.errstate(invalid="ignore"):
        differences = (reference(above.numpy()) - reference(below.numpy())) / (2 * step * direction)
    np.testing.assert_allclose(slope(z).numpy(), differences, rtol=1e-8, atol=1e-9)
    gradient = func.grad(lambda v: lucid.view_as_real(function(v))[..., 0].sum())(z)
    np.testing.assert_allclose(gradient.numpy().conj(), differences, rtol=1e-8, atol=1e-9)
    second = func.jvp(slope, (z,), (lucid.ones_like(z),))[1]
    of_slopes = (slope(above) - slope(below)).numpy() / (2 * step * direction)
    np.testing.assert_allclose(second.numpy(), of_slopes, rtol=1e-7, atol=1e-8)
