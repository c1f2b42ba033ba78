"""Where a derivative is infinite or nan: a cotangent, or tangent, of exactly 0 passes on exactly 0.

So the branch that `where` does not select contributes nothing, in every mode and order.
"""

from itertools import islice
from typing import Any

import checks
import numpy as np
import pytest
from samples import Row
from table import ROWS

import lucid
from lucid import func
from lucid.autograd import grad
from lucid.backends.cpu.arithmetic import chain, chain_both
from lucid.core.primitive import registry
from lucid.core.tensor import Tensor
from lucid.ops.categories import Elementwise
from lucid.ops.rules import P

MOST_SAMPLES = 4  # of a row; singularities are not a matter of shapes
INF, NAN = float("inf"), float("nan")
# Matrices of equal elements are singular: their inverses, and bases of their eigenspaces, do not exist or are not unique.
SINGULAR_MATRICES = (
    "linalg.inv_ex linalg.solve_ex linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.qr linalg.qr_complete linalg.qr_r "
    "linalg.eig linalg.eigh linalg.svd linalg.svd_full linalg.ldl_factor_ex linalg.cholesky_ex geqrf lu qr svd "
    "slogdet logdet sylvester polar_factor extreme_pair"
).split()
# 0 / 0 in a sum over weights that are all 0, and in a row whose exponentials are all 0.
SUMS_OF_ZEROS = ["cov", "cross_entropy_back"]
UNUSUAL = {*SINGULAR_MATRICES, *SUMS_OF_ZEROS, "batch_norm by running statistics"}  # a variance below 0


def passes_on(row: Row, special: float) -> str | None:
    """The first sample for which a cotangent of 0 gives anything else, if one operand is filled with a number."""
    for case in islice(checks.cases(row, "float64"), MOST_SAMPLES):
        for k in case.floats:
            arrays = [np.array(a) for a in case.arrays]
            arrays[k][...] = special
            inputs = case.operands(arrays)
            try:
                outs = case.op(*inputs)
                zeros = [np.zeros(o.shape, o.np_dtype) for o in outs if checks.is_float(o)]
                found = checks.pulled(outs, zeros, [inputs[j] for j in case.floats])
            except checks.REFUSALS:
                continue
            if any(np.any(checks.array(g) != 0) for g in found):
                return f"{case} with {special} for operand {k}"
    return None


@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable and r.name not in UNUSUAL], ids=repr)
def test_no_cotangent_gives_no_gradient(row):
    for special in (0.0, 1.0, -1.0):
        assert passes_on(row, special) is None


ELEMENTWISE = sorted(n for n, p in registry.items() if isinstance(p, Elementwise) and p.differentiable)


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("special", [INF, -INF, NAN, 1e300])
def test_elementwise_at_infinity(name, special):
    prim: Any = registry[name]
    rows = [r for r in ROWS if r.name in (name, f"{name}_") and r.differentiable]
    for row in rows:
        assert passes_on(row, special) is None
    assert rows or prim.ways  # a primitive without a row of its own is part of others


def test_the_check_can_fail(monkeypatch):
    row = next(r for r in ROWS if r.name == "sqrt")
    monkeypatch.setattr(P.sqrt, "vjp", lambda node, ct: (ct * INF,))
    with np.errstate(invalid="ignore"):
        assert passes_on(row, 0.0) is not None


def masked_root(x: Any) -> Any:
    return lucid.where(x > 0, x.sqrt(), 0 * x).sum()


POINT = [0.0, 1.0, 4.0]
SLOPE, BEND = [0.0, 0.5, 0.25], [0.0, -0.25, -1 / 32]


def point(requires_grad: bool = False) -> Tensor:
    return lucid.tensor(POINT, dtype=lucid.float64, requires_grad=requires_grad)


def test_unselected_branch_first_order():
    x = point(True)
    np.testing.assert_array_equal(grad(masked_root(x), x), SLOPE)
    np.testing.assert_array_equal(func.grad(masked_root)(point()), SLOPE)
    np.testing.assert_array_equal(func.jacfwd(masked_root)(point()), SLOPE)
    np.testing.assert_array_equal(func.vmap(func.grad(masked_root))(point().reshape(3, 1)), np.reshape(SLOPE, (3, 1)))
    np.testing.assert_array_equal(
        func.grad(lambda t: func.vmap(masked_root)(t).sum())(point().reshape(3, 1))[:, 0], SLOPE
    )


@pytest.mark.parametrize(
    "second",
    [
        lambda f: func.jacrev(func.jacrev(f)),
        lambda f: func.jacfwd(func.jacrev(f)),
        lambda f: func.jacrev(func.jacfwd(f)),
        lambda f: func.jacfwd(func.jacfwd(f)),
        func.hessian,
    ],
)
def test_unselected_branch_second_order(second):
    np.testing.assert_allclose(second(masked_root)(point()), np.diag(BEND), atol=1e-15)


def test_third_order():
    third = func.jacrev(func.jacfwd(func.jacrev(masked_root)))(point())
    assert third[0, 0, 0] == 0 and abs(third[1, 1, 1] - 0.375) < 1e-15


@pytest.mark.parametrize("first", [func.grad, func.jacrev, func.jacfwd])
@pytest.mark.parametrize("second", [func.grad, func.jacrev, func.jacfwd])
def test_the_product_is_differentiated_as_one(first, second):
    """∂²(w·√x)/∂w∂x at w = 0 is 1/(2√x), though the cotangent of the root is 0 there."""
    x, w = lucid.tensor(4.0, dtype=lucid.float64), lucid.tensor(0.0, dtype=lucid.float64)
    inner = first(lambda x, w: w * x.sqrt(), 0)
    assert inner(x, w).item() == 0
    assert second(inner, 1)(x, w).item() == 0.25


def test_forward_mode_by_transposition():
    class Root(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.sqrt()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, ct):
            return P.chain(ct, 0.5 / ctx.saved_tensors[0])

    x = lucid.tensor([0.0, 4.0], dtype=lucid.float64)
    _, change = func.jvp(Root.apply, (x,), (lucid.tensor([0.0, 1.0], dtype=lucid.float64),))
    np.testing.assert_array_equal(change, [0.0, 0.25])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lucid.where(x > 0, 1 / x, 0),
        lambda x: lucid.where(x > 0, x * (1 / x), 0),
        lambda x: lucid.where(x > 0, x / x, 0),
        lambda x: lucid.where(x > 0, x.log(), 0),
        lambda x: lucid.where(x > 0, x**-1.5, 0),
        lambda x: lucid.where(x > 0, x**x, 0),
        lambda x: lucid.where(x > 0, lucid.logit(x), 0),
        lambda x: lucid.where(x > 0, x.rsqrt(), 0),
        lambda x: lucid.where(x > 0, (-1 / x).exp(), 0),
        lambda x: lucid.where(x > 0, (1 + x).acosh(), 0),
        lambda x: lucid.where(x > 0, (1 - x).atanh(), 0),
        lambda x: lucid.where(x > 0, (1 - x).asin(), 0),
        lambda x: lucid.where(x > 0, x.unsqueeze(-1).norm(dim=-1), 0),
        lambda x: lucid.where(x > 0, lucid.atan2(x, x), 0),
        lambda x: lucid.where(x > 0, lucid.special.entr(x), 0),
        lambda x: lucid.where(x > 0, lucid.xlogy(x, x), 0),
        lambda x: lucid.where(x > 0, lucid.lgamma(x), 0),
    ],
)
@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.bfloat16])
def test_masked_functions(function, dtype):
    x = lucid.tensor([0.0, 0.5], dtype=dtype, requires_grad=True)
    first = grad(function(x).sum(), x, create_graph=True)
    assert first[0].item() == 0 and np.isfinite(first[1].item())
    second = grad(first.sum(), x, allow_unused=True)
    assert second is None or (second[0].item() == 0 and np.isfinite(second[1].item()))
    change = func.jvp(lambda t: function(t).sum(), (x.detach(),), (lucid.ones_like(x.detach()),))[1]
    assert np.isfinite(change.item())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.complex64, np.complex128])
@pytest.mark.parametrize("length", [5, 1 << 15])
def test_chain_on_arrays(dtype, length):
    x = np.resize(np.asarray([0.0, -0.0, 0.0, 2.0, INF], dtype), length)
    y = np.resize(np.asarray([INF, NAN, 3.0, INF, 0.0], dtype), length)
    with np.errstate(invalid="ignore"):
        for a, b in ((x, y), (x[::2], y[::2]), (x.reshape(1, -1), y)):
            np.testing.assert_array_equal(chain(a, b), np.where((a == 0) & ~np.isfinite(b), 0, a * b))
            free = ((a == 0) & ~np.isfinite(b)) | ((b == 0) & ~np.isfinite(a))
            np.testing.assert_array_equal(chain_both(a, b), np.where(free, 0, a * b))
        spread = np.broadcast_to(np.zeros((), dtype), y.shape)
        assert not np.any(chain(spread, y)) and chain(spread, y).dtype == dtype
