"""Norms and distances at 0, where they have a kink: 0 is their gradient by convention, and that of the gradient.

PyTorch's second derivatives there are nan.
"""

import math

import numpy as np
import pytest

import lucid
from lucid import autograd, func, linalg
from lucid.nn import functional as F

ORDERS = (0.5, 1, 1.5, 2, 3, 4, 0, math.inf)
MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
ZERO, MATRIX, ALIKE = np.zeros(3), np.zeros((3, 2)), np.ones((3, 3))
STACK = np.stack([np.diag([2.0, 1.0, 0.0]), np.zeros((3, 3)), np.diag([3.0, 0.0, 0.0]), np.diag([3.0, 2.0, 1.0])])
AT_ZERO = {
    **{f"vector_norm {p}": (lambda x, p=p: linalg.vector_norm(x, p), ZERO) for p in (*ORDERS, -1, -math.inf)},
    **{f"vector_norm {p} complex": (lambda x, p=p: linalg.vector_norm(x, p), ZERO + 0j) for p in ORDERS},
    **{f"norm {p} of some zeros": (lambda x, p=p: lucid.norm(x, p), np.array([0.0, 1.0, 2.0])) for p in (0.5, 1, 1.5, 2, 3)},
    **{f"normalize {p}": (lambda x, p=p: F.normalize(x, p, 0), ZERO) for p in ORDERS},
    **{f"cdist {p}": (lambda x, p=p: lucid.cdist(x, x, p), ALIKE) for p in ORDERS},
    **{f"pdist {p}": (lambda x, p=p: lucid.pdist(x, p), ALIKE) for p in ORDERS},
    **{f"pairwise_distance {p}": (lambda x, p=p: F.pairwise_distance(x, x * 1, p, eps=0), ALIKE) for p in ORDERS},
    **{f"dist {p}": (lambda x, p=p: lucid.dist(x, x * 1, p), ALIKE) for p in ORDERS},
    **{f"lp_pool1d {p}": (lambda x, p=p: F.lp_pool1d(x, p, 2), np.zeros((1, 1, 4))) for p in (1.5, 2.0, 3.0)},
    **{f"matrix_norm {p}": (lambda x, p=p: linalg.matrix_norm(x, p), MATRIX) for p in MATRIX_ORDERS},
    **{f"matrix_norm {p} complex": (lambda x, p=p: linalg.matrix_norm(x, p), MATRIX + 0j) for p in MATRIX_ORDERS},
    **{f"matrix_norm {p} of zeros among others": (lambda x, p=p: linalg.matrix_norm(x, p), STACK) for p in MATRIX_ORDERS},
    "cdist of many": (lambda x: lucid.cdist(x, x), np.ones((30, 2))),
    "pdist of many": (lambda x: lucid.pdist(x), np.ones((30, 2))),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x * 1, 0), ZERO),
    "cosine_similarity to others": (lambda x: F.cosine_similarity(x, lucid.ones(3, dtype=lucid.float64), 0), ZERO),
    "hypot": (lambda x: lucid.hypot(x, x * 1), ZERO),
    "std": (lambda x: lucid.std(x), ZERO),
    "renorm": (lambda x: lucid.renorm(x, 2, 0, 1.0), MATRIX),
    "abs": (lucid.abs, ZERO + 0j),
    "sgn": (lucid.sgn, ZERO + 0j),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_ZERO)
def test_derivatives_are_finite(name):
    function, at = AT_ZERO[name]
    rng = np.random.default_rng(0)
    x = lucid.tensor(at).requires_grad_()
    out = function(x)
    weights = lucid.tensor(rng.standard_normal(out.shape)).to(out.dtype)
    direction = lucid.tensor(rng.standard_normal(at.shape)).to(x.dtype)
    (first,) = autograd.grad(out, [x], weights, create_graph=True)
    found = {"first": first, "forward": func.jvp(function, (x.detach(),), (direction,))[1]}
    if first.requires_grad:
        (found["second"],) = autograd.grad(first, [x], direction, allow_unused=True)
        gradient = lambda z: func.vjp(function, z)[1](weights)[0]
        found["forward over reverse"] = func.jvp(gradient, (x.detach(),), (direction,))[1]
    for order, value in found.items():
        assert value is None or np.isfinite(np.asarray(value.detach())).all(), f"{order}: {value}"


@pytest.mark.parametrize("order", ["nuc", 2, -2])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 3)])
def test_first_and_second_derivatives_of_spectral_norms_vanish(order, shape):
    x = lucid.zeros(shape, dtype=lucid.float64, requires_grad=True)
    (first,) = autograd.grad(linalg.matrix_norm(x, order), [x], create_graph=True)
    (second,) = autograd.grad(first, [x], lucid.ones_like(x))
    assert not first.any() and not second.any()


def _of_sizes(*sizes, shape=(4, 4)):
    """A matrix with these singular values, and 0 for the others."""
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in shape)
    middle = np.zeros(shape)
    np.fill_diagonal(middle, [*sizes, *[0.0] * (min(shape) - len(sizes))])
    return left @ middle @ right


# Where other singular values than the ones that matter are 0 or coincide, the norms are smooth.
SMOOTH = [
    *[("nuc", _of_sizes(2, 2, 1, 1, shape=s)) for s in ((4, 4), (5, 4), (4, 6))],
    ("nuc", np.eye(3)),
    *[(2, _of_sizes(*sizes, shape=s)) for sizes in ((3,), (3, 1), (3, 1, 1)) for s in ((4, 4), (5, 4), (4, 6))],
    (2, np.diag([2.0, 1.0, 1.0])),
    (2, np.array([[1.0, 0.0], [0.0, 0.0]])),
    (2, np.ones((3, 3))),
    *[(-2, _of_sizes(3, 3, 2, 1, shape=s)) for s in ((4, 4), (5, 4), (4, 6))],
    (-2, np.diag([2.0, 2.0, 1.0])),
]


@pytest.mark.parametrize("at", range(len(SMOOTH)))
def test_spectral_norms_are_smooth_beside_zero_and_equal_singular_values(at):
    order, matrix = SMOOTH[at]
    function = lambda z: linalg.matrix_norm(z, order)
    direction = np.random.default_rng(0).standard_normal(matrix.shape)
    values, gradients = [], []
    for step in (-1e-5, 1e-5):
        moved = lucid.tensor(matrix + step * direction)
        values.append(function(moved).item())
        gradients.append(np.asarray(func.grad(function)(moved)))
    x, along = lucid.tensor(matrix), lucid.tensor(direction)
    first, second = func.jvp(func.grad(function), (x,), (along,))
    np.testing.assert_allclose((np.asarray(first) * direction).sum(), (values[1] - values[0]) / 2e-5, 1e-7, 1e-8)
    np.testing.assert_allclose(second, (gradients[1] - gradients[0]) / 2e-5, 1e-6, 1e-7)
    reverse = func.vjp(func.grad(function), x)[1](along)[0]
    np.testing.assert_allclose(reverse, second, 1e-9, 1e-10)


def test_zero_singular_values_take_no_part_in_the_nuclear_norm():
    """The gradient at a singular matrix is that of the sum of the others, and so are its derivatives."""
    matrix, direction = np.diag([2.0, 1.0, 0.0]), np.random.default_rng(0).standard_normal((3, 3))
    x, along = lucid.tensor(matrix), lucid.tensor(direction)
    nuclear, others = lambda z: linalg.matrix_norm(z, "nuc"), lambda z: linalg.svdvals(z)[:2].sum()
    for a, b in zip(*(func.jvp(func.grad(f), (x,), (along,)) for f in (nuclear, others)), strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-10)


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.bfloat16, lucid.complex64], ids=str)
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_norms_of_rows_do_not_depend_on_other_rows(dtype, p):
    """Rows of zeros, and those whose powers are out of range, are no reason to sum up others in another way."""
    x = lucid.randn(40, 37).to(dtype)
    expected = lucid.linalg.vector_norm(x, p, dim=1)
    for row in (0.0, 1e-30, 1e30, float("inf"), float("nan")):
        beside = lucid.cat([x, lucid.full((1, 37), row, dtype=dtype)])
        assert lucid.equal(lucid.linalg.vector_norm(beside, p, dim=1)[:40], expected), row
