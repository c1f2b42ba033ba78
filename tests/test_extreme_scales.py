"""Functions of lengths at sizes whose squares overflow or vanish: wherever the result is in range, it is right.

All of them are homogeneous: f(s·x) = sᵈ·f(x), and derivatives grow with sᵈ⁻¹. With s a power of 2 nothing is rounded.
Not among them, because what they give is out of range itself or is no function of a length: `var` (d = 2), whose
derivatives are right nonetheless, `local_response_norm` (its k is of size 1) and `lp_pool` (of sums of signed powers).
"""

import warnings

import numpy as np
import pytest

import lucid
from lucid import autograd, func, linalg
from lucid.nn import functional as F

MOST = lucid.tensor(np.random.default_rng(5).standard_normal((4, 5)))


def complex_of(x):
    return lucid.complex(x[0], x[1])


# The function and its degree; x is (3, 4, 5).
FUNCTIONS = {
    "layer_norm": (lambda x: F.layer_norm(x, (5,), eps=0.0), 0),
    "rms_norm": (lambda x: F.rms_norm(x, (5,), eps=0.0), 0),
    "group_norm": (lambda x: F.group_norm(x, 2, eps=0.0), 0),
    "group_norm with weights": (lambda x: F.group_norm(x, 2, *_affine(x), eps=0.0), 0),
    "instance_norm": (lambda x: F.instance_norm(x, eps=0.0), 0),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True, eps=0.0), 0),
    "batch_norm with weights": (lambda x: F.batch_norm(x, None, None, *_affine(x), training=True, eps=0.0), 0),
    "batch_norm of many places": (lambda x: F.batch_norm(x.repeat(1, 1, 5), None, None, training=True, eps=0.0), 0),
    **{f"normalize {p}": (lambda x, p=p: F.normalize(x, p, 1, eps=0.0), 0) for p in (1.0, 1.5, 2.0, 3.0)},
    **{f"vector_norm {p}": (lambda x, p=p: linalg.vector_norm(x, p, 1), 1) for p in (1, 1.5, 2, 3, 4, -1, -2, 50)},
    **{f"vector_norm {p} complex": (lambda x, p=p: linalg.vector_norm(complex_of(x), p, 1), 1) for p in (2, 3, -1)},
    "vector_norm of all": (lambda x: linalg.vector_norm(x, keepdim=True), 1),
    "fro": (lambda x: linalg.norm(x, "fro", (1, 2)), 1),
    "nuc": (lambda x: linalg.norm(x, "nuc", (1, 2)), 1),
    "spectral": (lambda x: linalg.norm(x, 2, (1, 2)), 1),
    "std": (lambda x: lucid.std(x, 1), 1),
    "std of all": (lambda x: lucid.std(x), 1),
    "std_mean": (lambda x: lucid.std_mean(x, (1, 2)).std, 1),
    "std complex": (lambda x: lucid.std(complex_of(x)), 1),
    "masked std": (lambda x: lucid.masked.std(x, 1, mask=lucid.tensor([True, False, True, True, True])), 1),
    "masked norm": (lambda x: lucid.masked.norm(x, 2.0, 1, mask=lucid.tensor([True, False, True, True, True])), 1),
    "cosine_similarity": (lambda x: F.cosine_similarity(x[0], x[1], 1, eps=0.0), 0),
    "cosine_similarity to others": (lambda x: F.cosine_similarity(x[0], MOST.to(x.dtype), 1, eps=0.0), 0),
    "corrcoef": (lambda x: lucid.corrcoef(x[0]), 0),
    "pairwise_distance": (lambda x: F.pairwise_distance(x[0], x[1], eps=0.0), 1),
    "pairwise_distance 3": (lambda x: F.pairwise_distance(x[0], x[1], 3.0, eps=0.0), 1),
    "cdist": (lambda x: lucid.cdist(x[0], x[1]), 1),
    "cdist of many": (lambda x: lucid.cdist(x.reshape(30, 2), x.reshape(30, 2) * 2), 1),
    "pdist": (lambda x: lucid.pdist(x[0]), 1),
    "pdist of many": (lambda x: lucid.pdist(x.reshape(30, 2)), 1),
    "dist": (lambda x: lucid.dist(x[0], x[1]), 1),
    "hypot": (lambda x: lucid.hypot(x[0], x[1]), 1),
    "abs complex": (lambda x: lucid.abs(complex_of(x)), 1),
    "sgn complex": (lambda x: lucid.view_as_real(lucid.sgn(complex_of(x))), 0),
    "angle": (lambda x: lucid.angle(complex_of(x)), 0),
    "atan2": (lambda x: lucid.atan2(x[0], x[1]), 0),
}
SCALES = [("float64", 664), ("float64", -664), ("float64", 1000), ("float32", 90), ("float32", -90)]


def _affine(x):
    return lucid.tensor([2.0, -1.0, 0.5, 3.0], dtype=x.dtype), lucid.tensor([1.0, 0.0, -1.0, 2.0], dtype=x.dtype)


def scaled(function, degree, dtype, exponent):
    """The value, gradient and tangent at 2**exponent times some values, brought back to the size of 1."""
    rng = np.random.default_rng(0)
    values, direction = rng.standard_normal((2, 3, 4, 5)).astype(dtype)
    x = lucid.tensor(np.ldexp(values, exponent)).requires_grad_()
    y = function(x)
    (gradient,) = autograd.grad(y, [x], lucid.tensor(rng.standard_normal(y.shape).astype(dtype)))
    _, tangent = func.jvp(function, (x.detach(),), (lucid.tensor(direction),))
    for found, power in ((y.detach(), degree), (gradient, degree - 1), (tangent, degree - 1)):
        yield np.ldexp(np.asarray(found, np.float64), -exponent * power)


@pytest.mark.parametrize(("dtype", "exponent"), SCALES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_derivatives_scale(name, dtype, exponent):
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    wanted, found = (list(scaled(*FUNCTIONS[name], dtype, e)) for e in (0, exponent))
    for kind, a, b in zip(("value", "gradient", "tangent"), wanted, found, strict=True):
        np.testing.assert_allclose(b, a, tolerance, tolerance, err_msg=kind)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: linalg.vector_norm(x, 2, 1, keepdim=True) * lucid.ones_like(x),
        lambda x: linalg.vector_norm(x, 3, 1, keepdim=True) * lucid.ones_like(x),
        lambda x: F.layer_norm(x, (5,), eps=1e-5),
        lambda x: F.group_norm(x.reshape(3, 1, 5), 1, eps=1e-5).reshape(3, 5),
        lambda x: F.batch_norm(x.T, None, None, training=True, eps=1e-5).T,
        lambda x: lucid.std(x, 1, keepdim=True) * lucid.ones_like(x),
    ],
)
@pytest.mark.parametrize("scales", [(1e200, 1.0, 1e-200), (1e-160, 1e300, 1e-3)])
def test_sizes_side_by_side(function, scales):
    """Each vector is what it is alone, and so under vmap."""
    values = np.random.default_rng(1).standard_normal((3, 5)) * np.array(scales)[:, None]
    x = lucid.tensor(values)
    alone = [function(x[i : i + 1].expand(3, 5))[0] for i in range(3)]
    np.testing.assert_allclose(function(x), lucid.stack(alone), 1e-12)
    under = func.vmap(lambda row: function(row.reshape(1, 5).expand(3, 5))[0])(x)
    np.testing.assert_allclose(under, lucid.stack(alone), 1e-12)


@pytest.mark.parametrize("eps", [1e-5, 1e-300, 1e-320])
def test_tiny_rows_beside_eps(eps):
    """y = x / √(var + eps), also where the variance vanishes beside eps."""
    values = np.array([[1.0, -1.0, 3.0, -3.0]])
    for size in (1e-150, 1e-159, 1e-161, 1e-200):
        unit = max(size, eps**0.5)
        want = values * (size / unit) / np.sqrt(5.0 * (size / unit) ** 2 + eps / unit / unit)
        x = lucid.tensor(values * size)
        for found in (F.layer_norm(x, (4,), eps=eps), F.group_norm(x.reshape(1, 4, 1), 1, eps=eps).reshape(1, 4)):
            np.testing.assert_allclose(found, want, 1e-6)


def test_what_is_out_of_range_is_infinite():
    x = lucid.full((4,), 1.7e308, dtype=lucid.float64)
    assert linalg.vector_norm(x).item() == np.inf
    assert lucid.var(lucid.tensor([1e200, -1e200], dtype=lucid.float64)).item() == np.inf
    assert linalg.vector_norm(lucid.tensor([np.inf, 1e200])).item() == np.inf
    assert np.isnan(linalg.vector_norm(lucid.tensor([np.nan, 1e200])).item())


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_exponentials(size):
    x = lucid.tensor([1.0, 3.0, -2.0], dtype=lucid.float64) * size
    top = 3 * size if size > 1 else np.log(3)
    one_hot = np.array([0.0, 1.0, 0.0]) if size > 1 else np.full(3, 1 / 3)
    np.testing.assert_allclose(lucid.logsumexp(x, 0), top)
    np.testing.assert_allclose(lucid.softmax(x, 0), one_hot)
    np.testing.assert_allclose(func.grad(lambda z: lucid.logsumexp(z, 0))(x), one_hot)
    np.testing.assert_allclose(lucid.log_softmax(x, 0), np.asarray(x) - top)


# What gives infinities or nan, called from a frame of a user: NumPy's warnings about them are no news.
QUIET = {
    "tensor": lambda: lucid.tensor([1e300]),
    "tensor of half precision": lambda: lucid.tensor([1e300], dtype=lucid.float16),
    "full": lambda: lucid.full((2,), 1e300),
    "full of half precision": lambda: lucid.full((2,), 1e10, dtype=lucid.float16),
    "full_like": lambda: lucid.full_like(lucid.ones(2), 1e300),
    "new_full": lambda: lucid.ones(2).new_full((2,), 1e300),
    "arange": lambda: lucid.arange(0, 1e300, 1e299),
    "linspace": lambda: lucid.linspace(0, 1e300, 5),
    "logspace": lambda: lucid.logspace(0, 400, 5),
    "float": lambda: lucid.tensor([1e300], dtype=lucid.float64).float(),
    "half": lambda: lucid.tensor([1e30]).half(),
    "as_tensor": lambda: lucid.as_tensor(np.array([1e300]), dtype=lucid.float32),
    "fill_": lambda: lucid.ones(2).fill_(1e300),
    "assignment": lambda: lucid.ones(2).__setitem__(0, 1e300),
    "multiply by a number": lambda: lucid.ones(2) * 1e300,
    "add_": lambda: lucid.ones(2).add_(1e300),
    "clamp_": lambda: lucid.ones(2).clamp_(1e300),
    "masked_fill_": lambda: lucid.ones(2).masked_fill_(lucid.tensor([True, False]), 1e300),
    "division": lambda: lucid.ones(2) / 0,
    "histogram": lambda: lucid.histogram(lucid.tensor([1e38, -1e38]), 4),
    "std of one": lambda: lucid.ones(1).std(),
    "corrcoef": lambda: lucid.corrcoef(lucid.ones(2, 3)),
    "cdist": lambda: lucid.cdist(lucid.full((2, 2), 1e30), lucid.zeros(2, 2)),
    "cross": lambda: lucid.cross(lucid.full((3,), 1e30), lucid.full((3,), 1e30), dim=0),
    "outer": lambda: lucid.outer(lucid.full((200,), 1e30), lucid.full((200,), 1e30)),
    "matmul": lambda: lucid.full((20, 20), 1e30) @ lucid.full((20, 20), 1e30),
    "fft": lambda: lucid.fft.fft(lucid.full((4,), 3e38)),
    "logit": lambda: lucid.logit(lucid.tensor([0.0, 1.0, 2.0])),
    "power": lambda: lucid.tensor([0.0]) ** -1,
    "addcdiv_": lambda: lucid.ones(2).addcdiv_(lucid.ones(2), lucid.zeros(2)),
    "sum of half precision": lambda: lucid.full((100,), 6e4, dtype=lucid.float16).sum(),
    "unique": lambda: lucid.unique(lucid.tensor([np.nan, 1.0, np.inf])),
}


@pytest.mark.parametrize("name", QUIET)
def test_nobody_is_warned_of_infinities(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lucid\.")  # as `lucid` says by itself
        QUIET[name]()


def test_ends_too_far_apart():
    assert lucid.linspace(-1.7e308, 1.7e308, 3, dtype=lucid.float64).tolist() == [-1.7e308, 0, 1.7e308]
