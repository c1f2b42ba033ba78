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
ZERO, MATRIX, ALIKE = np.zeros(3), np.zeros((3, 2)), np.ones((3, 3))
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
    **{f"matrix_norm {p}": (lambda x, p=p: linalg.matrix_norm(x, p), MATRIX) for p in ("fro", 1, -1, math.inf, -math.inf)},
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
        gradient = lambda z: func.vjp(function, z)[1](weights)[0]  # noqa: E731
        found["forward over reverse"] = func.jvp(gradient, (x.detach(),), (direction,))[1]
    for order, value in found.items():
        assert value is None or np.isfinite(np.asarray(value.detach())).all(), f"{order}: {value}"
