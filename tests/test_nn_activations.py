"""Softmax and activations beyond the table: sizes that need blocks, edges of the number range, in-place forms, layers."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special as special
from checks import array
from samples_nn_softmax import ACTIVATIONS, log_softmax, softmax

import lucid
from lucid import autograd, func
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.nn.functional import activations as functions
from lucid.nn.layers import activations as layers

rng = np.random.default_rng(0)


def leaf(values: Any, dtype: str = "float64") -> Any:
    return lucid.tensor(np.asarray(values, dtype), requires_grad=True)


def gradient(function: Any, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    t = leaf(x, str(x.dtype))
    (g,) = autograd.grad(function(t), [t], [lucid.tensor(weights)])
    return array(g)


# --- blocks --------------------------------------------------------------------------------------

SMOOTH = {row.name: row.ref for row in ACTIVATIONS}
PLAIN = [n for n in functions.__all__ if n in SMOOTH and n not in ("threshold", "prelu", "glu") and n[-1] != "_"]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_generated_loops_compute_what_the_reference_does(name, layout):
    """Values and gradients, however the elements lie in memory."""
    x = rng.normal(size=(37, 54)) * 3
    x = {"contiguous": x, "transposed": x.T, "strided": x[:, ::2]}[layout]
    weights = rng.normal(size=x.shape)
    generated = gradient(getattr(functions, name), x, weights)
    np.testing.assert_allclose(array(getattr(functions, name)(lucid.tensor(x))), SMOOTH[name](x), 1e-9, 1e-9)
    kernels.use("numpy")
    try:
        np.testing.assert_allclose(generated, gradient(getattr(functions, name), x, weights), 1e-12, 1e-12)
    finally:
        kernels.use("cpu")


@pytest.mark.parametrize(
    ("function", "reference"), [(functions.softmax, softmax), (functions.log_softmax, log_softmax)]
)
@pytest.mark.parametrize(
    ("shape", "dim"), [((37, 11), 1), ((11, 37), 0), ((5, 7, 6), 1), ((3, 2, 50), -1), ((1, 300), 1)]
)
def test_softmax_of_any_shape(function, reference, shape, dim):
    x, weights = rng.normal(size=shape) * 3, rng.normal(size=shape)
    x[0] += 1000
    np.testing.assert_allclose(array(function(lucid.tensor(x), dim)), reference(x, dim), 1e-12, 1e-12)
    found = gradient(lambda t: function(t, dim), x, weights)
    kernels.use("numpy")
    try:
        np.testing.assert_allclose(found, gradient(lambda t: function(t, dim), x, weights), 1e-12, 1e-12)
    finally:
        kernels.use("cpu")


# --- the number range ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "mish", "softsign", "tanhshrink", "hardswish", "elu"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_single_precision_over_the_whole_range(name, dtype):
    """Values and slopes have the digits of the type from very negative to very large numbers."""
    x = np.concatenate([np.linspace(-30, 30, 20001), [-1e4, -300.0, -100.0, -89.0, 89.0, 100.0, 300.0, 1e4]])
    function = (lambda t: functions.gelu(t, "tanh")) if name == "gelu_tanh" else getattr(functions, name)
    narrow = lucid.tensor(x, dtype=lucid.float32).to(getattr(lucid, dtype))
    wide = narrow.double()
    found, expected = narrow.detach().requires_grad_(), wide.detach().requires_grad_()
    ours, theirs = function(found), function(expected)
    eps = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(array(ours.double()), array(theirs), eps, eps)
    (g,), (e,) = (autograd.grad(o, [t], [lucid.ones_like(o)]) for o, t in ((ours, found), (theirs, expected)))
    np.testing.assert_allclose(array(g.double()), array(e), eps, eps)


def test_gelu_in_single_precision_follows_the_normal_distribution():
    x = np.linspace(-12, 12, 200001).astype(np.float32)
    wide = x.astype(float)
    error = np.abs(array(functions.gelu(lucid.tensor(x))) - wide * special.ndtr(wide))
    assert error.max() < 1e-6
    slope = special.ndtr(wide) + wide * np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    found = gradient(functions.gelu, x, np.ones_like(x))
    assert np.abs(found - slope).max() < 1e-6


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "hardsigmoid", "hardshrink", "softshrink"])
def test_what_is_cut_off_gets_exactly_no_gradient(name):
    """Even where the gradient that arrives is infinite or nan."""
    dead = {"hardshrink": 0.1, "softshrink": 0.1}.get(name, -10.0)
    x = np.full(3, dead)
    found = gradient(getattr(functions, name), x, np.array([math.inf, math.nan, -math.inf]))
    np.testing.assert_array_equal(found, 0)


def test_softmax_of_shifted_numbers_is_the_same():
    x = rng.normal(size=(4, 5)).astype(np.float32)
    at = array(functions.softmax(lucid.tensor(x), 1))
    for shift in (-2000.0, -80.0, -40.0, 40.0, 80.0, 2000.0):
        moved = (x + np.float32(shift)).astype(float)
        np.testing.assert_allclose(
            array(functions.softmax(lucid.tensor(moved.astype(np.float32)), 1)), softmax(moved, 1), 1e-5, 1e-7
        )
    np.testing.assert_allclose(at.sum(1), 1, 1e-6)


def test_softmax_of_masked_rows():
    x = np.array([[0.0, -math.inf, 1.0], [-math.inf, -math.inf, 3.0]])
    np.testing.assert_allclose(array(functions.softmax(lucid.tensor(x), 1)), softmax(x, 1))
    weights = rng.normal(size=x.shape)
    found = gradient(lambda t: functions.softmax(t, 1), x, weights)
    y = softmax(x, 1)
    np.testing.assert_allclose(found, y * (weights - (weights * y).sum(1, keepdims=True)))


def test_no_overflow_warning_reaches_the_user():
    """Numbers that overflow an exponential on the way are no concern of users; all warnings are errors here."""
    huge = lucid.tensor(np.array([[1e4, -1e4], [-1e4, 200.0]], np.float32))
    for function in (functions.silu, functions.gelu, lambda x: functions.softmax(x, 1), functions.mish):
        assert bool(function(huge).isfinite().all())


# --- derivatives beyond the second ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "softsign", "tanhshrink", "elu", "hardswish"])
def test_third_derivative(name):
    """Against central differences of the second."""
    function = getattr(functions, name)
    x = np.array([-2.1, -0.7, 0.4, 1.3])
    second = func.grad(lambda t: func.grad(lambda u: function(u).sum())(t).sum())
    third = array(func.grad(lambda t: second(t).sum())(lucid.tensor(x)))
    h = 1e-5
    differences = (array(second(lucid.tensor(x + h))) - array(second(lucid.tensor(x - h)))) / (2 * h)
    np.testing.assert_allclose(third, differences, 1e-6, 1e-7)


def test_hessian_of_log_softmax():
    """-d² log softmax(x)[k] = diag(p) - p pᵀ for each k."""
    x = rng.normal(size=4)
    p = softmax(x, 0)
    for k in range(4):
        found = func.hessian(lambda t, k=k: functions.log_softmax(t, 0)[k])(lucid.tensor(x))
        np.testing.assert_allclose(array(found), -(np.diag(p) - np.outer(p, p)), 1e-10, 1e-12)


def test_jacobian_of_softmax_both_ways():
    x = lucid.tensor(rng.normal(size=4))
    y = softmax(array(x), 0)
    for jacobian in (func.jacrev, func.jacfwd):
        np.testing.assert_allclose(array(jacobian(lambda t: functions.softmax(t, 0))(x)), np.diag(y) - np.outer(y, y))


# --- in place ------------------------------------------------------------------------------------

IN_PLACE = [
    ("relu", ()), ("relu6", ()), ("hardtanh", (-0.5, 0.5)), ("threshold", (0.1, 3.0)), ("leaky_relu", (0.2,)),
    ("elu", (0.7,)), ("selu", ()), ("celu", (0.7,)), ("silu", ()), ("mish", ()), ("hardsigmoid", ()), ("hardswish", ()),
    ("rrelu", (0.1, 0.3, False)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), IN_PLACE)
def test_in_place_writes_and_differentiates_alike(name, args):
    function, x = getattr(functions, name), rng.normal(size=(3, 4))
    t = lucid.tensor(x)
    out = function(t, *args, inplace=True)
    assert out is t
    np.testing.assert_array_equal(array(t), array(function(lucid.tensor(x), *args)))
    weights = rng.normal(size=x.shape)
    inside = gradient(lambda u: function(u * 1, *args, inplace=True), x, weights)
    np.testing.assert_allclose(inside, gradient(lambda u: function(u, *args), x, weights))


@pytest.mark.parametrize("name", [n for n in functions.__all__ if n[-1] == "_"])
def test_names_with_an_underscore_write(name):
    args = (0.1, 3.0) if name == "threshold_" else ()
    x = rng.normal(size=5)
    t = lucid.tensor(x)
    assert getattr(functions, name)(t, *args) is t
    np.testing.assert_array_equal(array(t), array(getattr(functions, name[:-1])(lucid.tensor(x), *args)))


def test_in_place_on_a_leaf_is_refused():
    with pytest.raises(RuntimeError, match="leaf"):
        functions.relu(leaf([1.0, -1.0]), inplace=True)


def test_in_place_on_a_view_changes_the_base():
    x = lucid.tensor([[-1.0, 2.0], [-3.0, 4.0]])
    functions.leaky_relu(x[0], 0.5, inplace=True)
    np.testing.assert_array_equal(array(x), [[-0.5, 2], [-3, 4]])


# --- random slopes -------------------------------------------------------------------------------


def test_rrelu_draws_slopes_within_bounds_and_uses_them_in_the_gradient():
    x = leaf(np.concatenate([np.full(500, -1.0), np.full(5, 2.0)]))
    lucid.manual_seed(3)
    out = functions.rrelu(x, 0.2, 0.4, training=True)
    slopes = -array(out)[:500]
    assert 0.2 <= slopes.min() < 0.22
    assert 0.38 < slopes.max() < 0.4
    (g,) = autograd.grad(out, [x], [lucid.ones_like(out)])
    np.testing.assert_allclose(array(g), [*slopes, *np.ones(5)])
    lucid.manual_seed(3)
    np.testing.assert_array_equal(array(functions.rrelu(x, 0.2, 0.4, training=True)), array(out))


def test_rrelu_inside_vmap_asks_what_randomness_means():
    x = lucid.tensor(-np.ones((3, 4)))
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(lambda t: functions.rrelu(t, training=True))(x)
    apart = array(func.vmap(lambda t: functions.rrelu(t, training=True), randomness="different")(x))
    assert len(np.unique(apart)) == 12


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu_has_the_bits_of_its_steps(dtype, dim):
    x = lucid.tensor(rng.standard_normal((6, 4, 2))).to(getattr(lucid, dtype))
    value, gate = lucid.split(x, x.shape[dim] // 2, dim)
    assert functions.glu(x, dim).tolist() == (value * lucid.sigmoid(gate)).tolist()
    assert functions.glu(x[:0], 0).shape == (0, 4, 2)


def test_glu_of_a_view_whose_base_has_got_a_history():
    base, factor = lucid.ones(2, 4), lucid.tensor(2.0, requires_grad=True)
    view = base[0]
    base.mul_(factor)
    (change,) = autograd.grad(functions.glu(view).sum(), [factor])
    gate = special.expit(2.0)
    np.testing.assert_allclose(change.item(), 2 * (gate + 2 * gate * (1 - gate)), rtol=1e-6)


# --- errors and warnings -------------------------------------------------------------------------

REFUSED = [
    (lambda x: functions.gelu(x, "sigmoid"), ValueError, "'none' or 'tanh'"),
    (lambda x: functions.hardtanh(x, 1.0, -1.0), ValueError, "above max_val"),
    (lambda x: functions.celu(x, 0.0), ValueError, "alpha"),
    (lambda x: functions.softshrink(x, -1.0), ValueError, "negative"),
    (lambda x: functions.rrelu(x, 0.5, 0.1), ValueError, "above upper"),
    (lambda x: functions.glu(x, 1), ValueError, "halved"),
    (lambda x: functions.prelu(x, lucid.ones(2)), ValueError, "3 channels"),
    (lambda x: functions.softmax(x, 2), IndexError, "out of range"),
    (lambda x: functions.softmax(x.to(lucid.complex64), 1), TypeError, "floating-point"),
    (lambda x: functions.softmin(x, 1, dtype=lucid.int64), TypeError, "floating-point"),
    (lambda x: functions.mish(x.to(lucid.complex64)), TypeError, "real"),
    (lambda x: layers.Softmax2d()(x), ValueError, "C, H, W"),
    (lambda x: layers.Hardtanh(1.0, 1.0)(x), ValueError, "above min_val"),
]


def test_limits_by_their_older_names():
    layer = layers.Hardtanh(min_value=-2.0, max_value=3.0)
    assert repr(layer) == "Hardtanh(min_val=-2.0, max_val=3.0)"
    assert layer(lucid.tensor([-5.0, 1.0, 5.0])).tolist() == [-2.0, 1.0, 3.0]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_bad_input_is_refused_with_words(call, kind, message):
    with pytest.raises(kind, match=message):
        call(lucid.ones(2, 3))


@pytest.mark.parametrize("function", [functions.softmax, functions.softmin, functions.log_softmax])
def test_softmax_without_a_dim_warns(function):
    with pytest.warns(UserWarning, match="no dim and takes 1"):
        out = function(lucid.ones(2, 3))
    np.testing.assert_array_equal(array(out), array(function(lucid.ones(2, 3), 1)))


def test_softmax_converts_first_when_asked():
    out = functions.softmax(lucid.tensor([1, 2]), 0, dtype=lucid.float64)
    np.testing.assert_allclose(array(out), softmax(np.array([1.0, 2.0]), 0))
    assert out.dtype == lucid.float64


# --- layers --------------------------------------------------------------------------------------

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Threshold": (0.1, 2.0), "Softmax": (-1,), "Softmin": (-1,), "LogSoftmax": (-1,), "LeakyReLU": (0.3,),
    "ELU": (0.3,), "CELU": (0.3,), "Hardtanh": (-0.3, 0.4), "Softplus": (2.0, 3.0), "Softshrink": (0.3,),
    "Hardshrink": (0.3,), "GELU": ("tanh",), "GLU": (0,), "RReLU": (0.1, 0.2),
}  # fmt: skip
FUNCTION_OF = {"LogSigmoid": "logsigmoid", "LeakyReLU": "leaky_relu", "LogSoftmax": "log_softmax"}


@pytest.mark.parametrize("name", [n for n in layers.__all__ if n not in ("PReLU", "Softmax2d")])
def test_layer_is_its_function(name):
    arguments = ARGUMENTS.get(name, ())
    function = getattr(functions, FUNCTION_OF.get(name, name.lower()))
    x = lucid.tensor(rng.normal(size=(4, 6)))
    layer = getattr(layers, name)(*arguments).eval()
    np.testing.assert_array_equal(array(layer(x)), array(function(x, *arguments)))
    assert list(layer.parameters()) == []
    for argument in arguments:
        assert str(argument) in repr(layer)


@pytest.mark.parametrize(
    "name", [n for n in layers.__all__ if "inplace" in getattr(layers, n).__init__.__code__.co_varnames]
)
def test_layer_in_place(name):
    layer = getattr(layers, name)(*ARGUMENTS.get(name, ()), inplace=True).eval()
    x = lucid.tensor(rng.normal(size=5))
    assert layer(x) is x
    assert "inplace=True" in repr(layer)


def test_softmax2d_is_over_channels():
    x = rng.normal(size=(2, 3, 4, 5))
    np.testing.assert_allclose(array(layers.Softmax2d()(lucid.tensor(x))), softmax(x, 1))
    np.testing.assert_allclose(array(layers.Softmax2d()(lucid.tensor(x[0]))), softmax(x[0], 0))


def test_prelu_trains_its_slopes():
    layer = layers.PReLU(3, init=0.5)
    assert list(layer.state_dict()) == ["weight"]
    x = lucid.tensor([[-1.0, -2.0, 4.0], [1.0, -1.0, -1.0]])
    layer(x).sum().backward()
    np.testing.assert_array_equal(array(layer.weight.grad), [-1, -3, -1])


def test_rrelu_layer_is_random_in_training_only():
    layer = layers.RReLU()
    x = lucid.tensor(-np.ones(50))
    assert len(np.unique(array(layer(x)))) > 10
    assert len(np.unique(array(layer.eval()(x)))) == 1


def test_gradients_for_each_example_through_an_activation():
    """vmap of grad against a loop."""
    x, w = lucid.tensor(rng.normal(size=(5, 3))), lucid.tensor(rng.normal(size=3))
    one = func.grad(lambda w, x: functions.gelu(functions.softmax(w * x, 0)).sum())
    together = array(func.vmap(one, in_dims=(None, 0))(w, x))
    np.testing.assert_allclose(together, np.stack([array(one(w, row)) for row in x]), 1e-12)


def test_saved_memory_of_softmax_is_its_result():
    x = leaf(rng.normal(size=(4, 5)))
    out = functions.softmax(x, 1)
    assert out.grad_fn.saved.value is out._array


def test_primitives_are_plain_functions_of_their_slopes():
    """The derivative that a slope states is the one its function has."""
    x = np.linspace(-5, 5, 11) + 0.05
    ones = lucid.ones(11, dtype=lucid.float64)
    slopes = {name: getattr(P, f"{name}_slope")(lucid.tensor(x)) for name in ("mish", "hardswish")}
    slopes |= {name: getattr(P, f"{name}_back")(ones, lucid.tensor(x)) for name in ("silu", "gelu", "gelu_tanh")}
    for name, slope in slopes.items():
        t = leaf(x)
        (g,) = autograd.grad(getattr(P, name)(t), [t], [ones])
        np.testing.assert_allclose(array(g), array(slope))
