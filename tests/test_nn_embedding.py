"""Embeddings, linear maps, dropout and distances beyond the table."""

import math
from typing import Any

import numpy as np
import pytest
from checks import array

import lucid
from lucid import autograd, func
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.nn import functional as functions
from lucid.nn.functional import similarity
from lucid.nn.layers import dropout as dropout_layers
from lucid.nn.layers import embedding as layers
from lucid.nn.layers import linear as linear_layers
from lucid.nn.layers import similarity as similarity_layers

DROPOUTS = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]
rng = np.random.default_rng(0)
TABLE = rng.normal(size=(6, 3))
WORDS = np.array([[1, 4, 4], [0, 5, 1]])


def leaf(values: Any, dtype: str = "float64") -> Any:
    return lucid.tensor(np.asarray(values, dtype), requires_grad=True)


def added(rows: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, *rows.shape[index.ndim :]))
    np.add.at(out, index, rows)
    return out


# --- sums of rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
@pytest.mark.parametrize(("n", "width", "count"), [(5, 2, 3), (700, 9, 40), (3000, 1, 7), (300, 40, 1000), (0, 4, 3)])
def test_rows_add_up(n, width, count, dtype):
    rows = rng.integers(-8, 8, (n, width)).astype(dtype)
    places = rng.integers(0, count, n)
    expected = np.zeros((count, width), complex)
    np.add.at(expected, places, rows.astype(complex))
    for kernel in (P.scatter_rows.kernel, kernels.reference(P.scatter_rows)):
        found = kernel(rows, places, count=count, skip=None, period=1)
        assert found.dtype == rows.dtype
        np.testing.assert_array_equal(found.astype(complex), expected)


def test_gradient_of_a_large_lookup():
    weight, index = leaf(rng.normal(size=(50, 17))), rng.integers(0, 50, (30, 20))
    seed = rng.normal(size=(30, 20, 17))
    (g,) = autograd.grad(functions.embedding(lucid.tensor(index), weight), [weight], [lucid.tensor(seed)])
    np.testing.assert_allclose(array(g), added(seed, index, 50), 1e-12, 1e-12)


# --- embedding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", [4, -2])
def test_padding_gets_no_gradient_in_any_mode(padding):
    weight, index = leaf(TABLE), lucid.tensor(WORDS)
    call = lambda w: functions.embedding(index, w, padding_idx=padding)
    np.testing.assert_array_equal(array(call(weight)), TABLE[WORDS])
    seed, tangent = rng.normal(size=(2, 3, 3)), rng.normal(size=TABLE.shape)
    expected = added(seed, WORDS, 6)
    expected[4] = 0
    (g,) = autograd.grad(call(weight), [weight], [lucid.tensor(seed)])
    np.testing.assert_allclose(array(g), expected)
    _, pushed = func.jvp(call, (lucid.tensor(TABLE),), (lucid.tensor(tangent),))
    moved = tangent.copy()
    moved[4] = 0
    np.testing.assert_allclose(array(pushed), moved[WORDS])


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("settings", [{}, {"padding_idx": 4}, {"scale_grad_by_freq": True}])
def test_vmap_of_lookups(in_dims, settings):
    """Tables and indices batched, values, gradients inside and through, against a loop."""
    tables, index = rng.normal(size=(4, 6, 3)), rng.integers(0, 6, (4, 2, 3))
    seed = rng.normal(size=(4, 2, 3, 3))
    w, i = (t if d == 0 else t[0] for t, d in zip((tables, index), in_dims, strict=True))

    def one(w: Any, i: Any, seed: Any) -> Any:
        return (functions.embedding(i, w, **settings) * seed).sum()

    pick = lambda t, d, k: t[k] if d == 0 else t
    loop = [
        array(func.grad(one)(lucid.tensor(pick(w, in_dims[0], k)), lucid.tensor(pick(i, in_dims[1], k)), lucid.tensor(seed[k])))
        for k in range(4)
    ]  # fmt: skip
    together = func.vmap(func.grad(one), in_dims=(*in_dims, 0))(lucid.tensor(w), lucid.tensor(i), lucid.tensor(seed))
    np.testing.assert_allclose(array(together), np.stack(loop), 1e-12, 1e-14)
    outer = leaf(w)
    total = func.vmap(one, in_dims=(*in_dims, 0))(outer, lucid.tensor(i), lucid.tensor(seed)).sum()
    (through,) = autograd.grad(total, [outer])
    expected = np.stack(loop) if in_dims[0] == 0 else np.sum(loop, 0)
    np.testing.assert_allclose(array(through), expected, 1e-12, 1e-14)


def test_nested_vmap_with_padding():
    tables, index = rng.normal(size=(2, 3, 6, 2)), rng.integers(0, 6, (2, 3, 5))
    one = func.grad(lambda w, i: (functions.embedding(i, w, padding_idx=1) ** 2).sum())
    found = func.vmap(func.vmap(one))(lucid.tensor(tables), lucid.tensor(index))
    for a in range(2):
        for b in range(3):
            expected = added(2 * tables[a, b][index[a, b]], index[a, b], 6)
            expected[1] = 0
            np.testing.assert_allclose(array(found)[a, b], expected)


def test_gradient_divided_by_how_often_a_row_occurs():
    weight = leaf(TABLE)
    functions.embedding(lucid.tensor(WORDS), weight, scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(array(weight.grad), np.isin(np.arange(6), WORDS)[:, None] * np.ones((6, 3)))


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
def test_long_rows_are_shortened_in_place_before_use(norm_type):
    weight = leaf(TABLE)
    out = functions.embedding(lucid.tensor(WORDS), weight, max_norm=0.5, norm_type=norm_type)
    norms = np.linalg.norm(TABLE, norm_type, axis=1)
    used = np.isin(np.arange(6), WORDS) & (norms > 0.5)
    expected = np.where(used[:, None], TABLE * 0.5 / norms[:, None], TABLE)
    np.testing.assert_allclose(array(weight.detach()), expected, 1e-6)
    np.testing.assert_allclose(array(out.detach()), expected[WORDS], 1e-6)
    out.sum().backward()
    np.testing.assert_allclose(array(weight.grad), added(np.ones((2, 3, 3)), WORDS, 6))


LOOKUP_ERRORS = [
    (lambda w: functions.embedding(lucid.tensor([6]), w), IndexError, "index 6 is out of range"),
    (lambda w: functions.embedding(lucid.tensor([-1]), w), IndexError, "index -1 is out of range"),
    (lambda w: functions.embedding(lucid.tensor([1.0]), w), TypeError, "integers"),
    (lambda w: functions.embedding(lucid.tensor([1]), w[0]), ValueError, "shape"),
    (lambda w: functions.embedding(lucid.tensor([1]), w, padding_idx=6), ValueError, "padding_idx 6"),
    (lambda w: functions.embedding_bag(lucid.tensor([1]), w), ValueError, "offsets"),
    (lambda w: functions.embedding_bag(lucid.tensor([[1]]), w, lucid.tensor([0])), ValueError, "leave out offsets"),
    (lambda w: functions.embedding_bag(lucid.tensor([[1]]), w, mode="median"), ValueError, "mode must be"),
    (lambda w: functions.embedding_bag(lucid.tensor([[1]]), w, per_sample_weights=w[:1, :1]), ValueError, "mode='sum'"),
    (lambda w: functions.embedding_bag(lucid.tensor([1, 2]), w, lucid.tensor([1])), ValueError, "start at 0"),
    (lambda w: functions.embedding_bag(lucid.tensor([[[1]]]), w), ValueError, "1 or 2 dimensions"),
    (lambda w: functions.one_hot(lucid.tensor([3]), 3), ValueError, "between 0 and 2"),
    (lambda w: functions.one_hot(lucid.tensor([-1])), ValueError, "positive"),
    (lambda w: functions.one_hot(lucid.tensor([1.0])), TypeError, "integers"),
    (lambda w: functions.one_hot(lucid.zeros(0, dtype=lucid.int64)), ValueError, "num_classes"),
    (lambda w: layers.Embedding(3, 2, padding_idx=3), ValueError, "out of range"),
    (lambda w: layers.Embedding.from_pretrained(w[0]), ValueError, "rows, size"),
    (lambda w: layers.EmbeddingBag(3, 2, mode="median"), ValueError, "mode must be"),
]


@pytest.mark.parametrize(("call", "kind", "message"), LOOKUP_ERRORS)
def test_lookups_that_cannot_be(call, kind, message):
    with pytest.raises(kind, match=message):
        call(lucid.tensor(TABLE))


# --- bags ----------------------------------------------------------------------------------------

ITEMS, STARTS = np.array([1, 4, 4, 0, 5, 1, 2]), np.array([0, 3, 3, 5])


def bagged(weight: np.ndarray, mode: str, padding: int | None, weights: Any = None) -> np.ndarray:
    ends = [*STARTS[1:], len(ITEMS)]
    found = []
    for a, b in zip(STARTS, ends, strict=True):
        places = [k for k in range(a, b) if ITEMS[k] != padding]
        rows = weight[ITEMS[places]] * (1 if weights is None else weights[places][:, None])
        combine = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
        found.append(combine(rows, axis=0) if places else np.zeros(3))
    return np.stack(found)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 4])
def test_bags_by_offsets(mode, padding):
    """One bag is empty, and with padding another one has a single item."""
    weight = leaf(TABLE)
    call = lambda w: functions.embedding_bag(
        lucid.tensor(ITEMS), w, lucid.tensor(STARTS), mode=mode, padding_idx=padding
    )
    np.testing.assert_allclose(array(call(weight).detach()), bagged(TABLE, mode, padding))
    seed = rng.normal(size=(4, 3))
    (g,) = autograd.grad(call(weight), [weight], [lucid.tensor(seed)])
    h, numeric = 1e-6, np.zeros_like(TABLE)
    for at in np.ndindex(TABLE.shape):
        up, down = TABLE.copy(), TABLE.copy()
        up[at] += h
        down[at] -= h
        numeric[at] = (seed * (bagged(up, mode, padding) - bagged(down, mode, padding))).sum() / (2 * h)
    np.testing.assert_allclose(array(g), numeric, 1e-5, 1e-7)


def test_weights_of_the_items():
    weights = rng.normal(size=7)
    call = lambda t, w: functions.embedding_bag(
        lucid.tensor(ITEMS), t, lucid.tensor(STARTS), mode="sum", per_sample_weights=w
    )
    np.testing.assert_allclose(
        array(call(lucid.tensor(TABLE), lucid.tensor(weights))), bagged(TABLE, "sum", None, weights)
    )
    assert autograd.gradcheck(call, (leaf(TABLE), leaf(weights)))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_inside_vmap(mode):
    items = rng.integers(0, 6, (3, 7))
    one = func.grad(lambda w, i: (functions.embedding_bag(i, w, lucid.tensor(STARTS), mode=mode) ** 2).sum())
    found = func.vmap(one, in_dims=(None, 0))(lucid.tensor(TABLE), lucid.tensor(items))
    loop = [array(one(lucid.tensor(TABLE), lucid.tensor(row))) for row in items]
    np.testing.assert_allclose(array(found), np.stack(loop), 1e-12, 1e-14)


def test_empty_bags_of_nothing():
    out = functions.embedding_bag(
        lucid.zeros(0, dtype=lucid.int64), lucid.tensor(TABLE), lucid.tensor([0, 0]), mode="max"
    )
    np.testing.assert_array_equal(array(out), np.zeros((2, 3)))


def test_one_hot():
    found = functions.one_hot(lucid.tensor([[0, 2], [1, 1]]))
    np.testing.assert_array_equal(array(found), np.eye(3, dtype=int)[[[0, 2], [1, 1]]])
    assert found.dtype == lucid.int64
    inside = func.vmap(lambda i: functions.one_hot(i, 3))(lucid.tensor([0, 2]))
    np.testing.assert_array_equal(array(inside), np.eye(3, dtype=int)[[0, 2]])


# --- embedding layers ----------------------------------------------------------------------------


def test_layer_starts_normal_with_zeros_for_padding():
    layer = layers.Embedding(2000, 5, padding_idx=-1)
    weight = array(layer.weight.detach())
    assert layer.padding_idx == 1999
    np.testing.assert_array_equal(weight[1999], 0)
    assert abs(weight[:-1].mean()) < 0.05
    assert abs(weight[:-1].std() - 1) < 0.05
    assert repr(layer) == "Embedding(2000, 5, padding_idx=1999)"


def test_layer_from_vectors():
    source = lucid.tensor(TABLE)
    frozen = layers.Embedding.from_pretrained(source)
    assert not frozen.weight.requires_grad
    np.testing.assert_array_equal(array(frozen(lucid.tensor(WORDS))), TABLE[WORDS])
    trained = layers.Embedding.from_pretrained(source, freeze=False, padding_idx=1)
    trained(lucid.tensor(WORDS)).sum().backward()
    np.testing.assert_array_equal(array(trained.weight.grad)[1], 0)
    bag = layers.EmbeddingBag.from_pretrained(source, mode="max")
    np.testing.assert_allclose(array(bag(lucid.tensor(WORDS))), TABLE[WORDS].max(1))


# --- linear maps ---------------------------------------------------------------------------------


def test_linear_is_one_operation_and_keeps_only_what_it_needs():
    x, w, b = lucid.tensor(rng.normal(size=(4, 3))), leaf(rng.normal(size=(2, 3))), leaf(rng.normal(size=2))
    out = functions.linear(x, w, b)
    assert out.grad_fn.name() == "linear"
    assert out.grad_fn.saved.value is x._array
    y = leaf(array(x))
    frozen = functions.linear(y, w.detach(), b.detach())
    assert frozen.grad_fn.place_of_saved == 1


def test_linear_refuses_several_types_but_short_ones():
    with pytest.raises(TypeError, match="one floating-point type"):
        functions.linear(lucid.ones(2, 3), leaf(np.ones((4, 3))), lucid.ones(4))
    out = functions.linear(lucid.ones(2, 3, dtype=lucid.bfloat16), lucid.ones(4, 3), lucid.ones(4))
    assert out.dtype == lucid.float32


@pytest.mark.parametrize(
    "in_dims", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (None, 0, 0), (0, None, 0)]
)
@pytest.mark.parametrize("rows", [(), (2,), (2, 3)])
def test_linear_inside_vmap(in_dims, rows):
    """Ensembles of weights, batches of inputs and biases of their own."""
    x, w, b = rng.normal(size=(5, *rows, 4)), rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 3))
    operands = [lucid.tensor(t if d == 0 else t[0]) for t, d in zip((x, w, b), in_dims, strict=True)]
    found = array(func.vmap(functions.linear, in_dims=in_dims)(*operands))
    each = [[t[k] if d == 0 else t[0] for t, d in zip((x, w, b), in_dims, strict=True)] for k in range(5)]
    np.testing.assert_allclose(found, np.stack([x @ w.T + b for x, w, b in each]), 1e-12)


def test_gradients_of_linear_for_each_example():
    x, w, b = (lucid.tensor(rng.normal(size=s)) for s in ((6, 4), (3, 4), (3,)))
    one = func.grad(lambda w, b, x: (functions.linear(x, w, b) ** 2).sum(), argnums=(0, 1))
    found = func.vmap(one, in_dims=(None, None, 0))(w, b, x)
    for k in range(6):
        for mine, alone in zip(found, one(w, b, x[k]), strict=True):
            np.testing.assert_allclose(array(mine)[k], array(alone), 1e-12)


LINEAR_ERRORS = [
    lambda: functions.linear(lucid.ones(2, 3), lucid.ones(2, 4)),
    lambda: functions.linear(lucid.ones(2, 3), lucid.ones(2, 3), lucid.ones(1)),
    lambda: functions.linear(lucid.tensor(1.0), lucid.ones(2, 3)),
    lambda: functions.bilinear(lucid.ones(2, 3), lucid.ones(2, 4), lucid.ones(5, 3, 3)),
    lambda: functions.bilinear(lucid.ones(2, 3), lucid.ones(1, 3), lucid.ones(5, 3, 3)),
    lambda: functions.bilinear(lucid.ones(2, 3), lucid.ones(2, 3), lucid.ones(5, 3, 3), lucid.ones(3)),
]


@pytest.mark.parametrize("call", LINEAR_ERRORS)
def test_shapes_that_do_not_fit_are_named(call):
    with pytest.raises(RuntimeError, match=r"shape|shapes"):
        call()


def test_linear_layers():
    layer = linear_layers.Linear(400, 30)
    weight = array(layer.weight.detach())
    assert np.abs(weight).max() <= 1 / 20
    assert np.abs(weight).max() > 0.99 / 20
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    plain = linear_layers.Linear(4, 3, bias=False, dtype=lucid.float64)
    assert plain.bias is None
    assert list(plain.state_dict()) == ["weight"]
    assert plain.weight.dtype == lucid.float64
    assert repr(plain) == "Linear(in_features=4, out_features=3, bias=False)"
    assert linear_layers.Linear(0, 3)(lucid.ones(2, 0)).shape == (2, 3)
    with pytest.raises(ValueError, match="positive"):
        linear_layers.Bilinear(0, 2, 3)


def test_shape_layers():
    x = lucid.ones(2, 3, 4)
    assert linear_layers.Flatten(0, 1)(x).shape == (6, 4)
    assert linear_layers.Unflatten(-1, (2, -1))(x).shape == (2, 3, 2, 2)
    assert linear_layers.Identity(3, anything=True)(x) is x
    with pytest.raises(TypeError, match="names"):
        linear_layers.Unflatten("features", (2, 2))
    with pytest.raises(TypeError, match="integers"):
        linear_layers.Unflatten(1, (2.0, 2))


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p, dtype):
    lucid.manual_seed(0)
    x = lucid.ones(20000, dtype=getattr(lucid, dtype))
    out = functions.dropout(x, p)
    assert out.dtype == x.dtype
    values = array(out.double())
    kept = values != 0
    assert abs(kept.mean() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / 20000)
    np.testing.assert_allclose(values[kept], 1 / (1 - p), 1e-2)


def test_the_gradient_goes_where_the_values_went():
    x = leaf(np.ones(100))
    out = functions.dropout(x, 0.3)
    out.sum().backward()
    np.testing.assert_array_equal(array(x.grad), array(out.detach()))


def test_the_same_seed_gives_the_same_mask():
    x = lucid.ones(1000)
    lucid.manual_seed(5)
    first, second = array(functions.dropout(x, 0.5)), array(functions.dropout(x, 0.5))
    lucid.manual_seed(5)
    np.testing.assert_array_equal(array(functions.dropout(x, 0.5)), first)
    assert (first != second).any()


@pytest.mark.parametrize("name", DROPOUTS)
def test_without_training_nothing_happens(name):
    x = lucid.tensor(rng.normal(size=(2, 3, 4, 5, 6)))
    x = {"dropout1d": x[0, 0], "dropout2d": x[0]}.get(name, x)
    function = getattr(functions, name)
    before = lucid.get_rng_state()
    assert function(x, 0.5, training=False) is x
    assert function(x, 0.0, training=True) is x
    np.testing.assert_array_equal(array(function(x, 1.0, training=True)), 0)
    assert lucid.get_rng_state() == before
    with pytest.raises(ValueError, match="between 0 and 1"):
        function(x, 1.5)


@pytest.mark.parametrize(
    ("name", "shape"), [("dropout1d", (50, 8, 5)), ("dropout2d", (50, 8, 3, 4)), ("dropout3d", (50, 8, 2, 3, 2))]
)
def test_channels_are_dropped_whole(name, shape):
    function = getattr(functions, name)
    out = array(function(lucid.ones(shape), 0.4))
    flat = out.reshape(50, 8, -1)
    assert (flat == flat[..., :1]).all()
    assert 0.3 < (flat[..., 0] == 0).mean() < 0.5
    alone = array(function(lucid.ones(shape[1:]), 0.4)).reshape(8, -1)
    assert (alone == alone[:, :1]).all()
    with pytest.raises(ValueError, match="dimensions"):
        function(lucid.ones(3), 0.4)


@pytest.mark.parametrize("p", [0.1, 0.4])
def test_alpha_dropout_keeps_mean_and_variance(p):
    lucid.manual_seed(1)
    x = lucid.randn(200000)
    out = array(functions.alpha_dropout(x, p, training=True))
    assert abs(out.mean()) < 0.02
    assert abs(out.std() - 1) < 0.02
    channels = array(functions.feature_alpha_dropout(lucid.ones(40, 30, 7), p, training=True))
    assert len(np.unique(channels.round(5))) == 2
    assert (channels == channels[..., :1]).all()


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout"])
def test_dropout_in_place(name):
    x = lucid.ones(50)
    assert getattr(functions, name)(x, 0.5, training=True, inplace=True) is x
    assert len(np.unique(array(x).round(5))) == 2
    t = leaf(np.ones(50))
    out = getattr(functions, name)(t * 1, 0.5, training=True, inplace=True)
    out.sum().backward()
    assert len(np.unique(array(t.grad).round(5))) == 2


def test_dropout_inside_vmap():
    x = lucid.ones(4, 50)
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(lambda t: functions.dropout(t, 0.5))(x)
    apart = array(func.vmap(lambda t: functions.dropout(t, 0.5), randomness="different")(x))
    assert len({row.tobytes() for row in apart}) == 4
    alike = array(func.vmap(lambda t: functions.dropout(t, 0.5), randomness="same")(x))
    assert len({row.tobytes() for row in alike}) == 1


@pytest.mark.parametrize("name", dropout_layers.__all__)
def test_dropout_layers_act_in_training_only(name):
    layer = getattr(dropout_layers, name)(0.5)
    shape = {"Dropout1d": (2, 3, 40), "Dropout2d": (2, 30, 4, 4), "Dropout3d": (2, 30, 2, 4, 4)}.get(name, (20, 30))
    x = lucid.ones(shape)
    assert (array(layer(x)) != 1).any()
    assert layer.eval()(x) is x
    assert repr(layer) == f"{name}(p=0.5, inplace=False)"
    with pytest.raises(ValueError, match="between 0 and 1"):
        getattr(dropout_layers, name)(-0.1)


# --- distances and samples -----------------------------------------------------------------------


def test_distances_of_equal_points_have_gradients():
    x = leaf(np.ones((2, 3)))
    similarity.pairwise_distance(x, x.detach(), eps=0.0).sum().backward()
    np.testing.assert_array_equal(array(x.grad), 0)
    y = leaf(np.ones((3, 2)))
    similarity.pdist(y).sum().backward()
    np.testing.assert_array_equal(array(y.grad), 0)


def test_vectors_of_length_0():
    x = leaf(np.zeros((1, 3)))
    out = similarity.cosine_similarity(x, lucid.ones(1, 3, dtype=lucid.float64))
    out.sum().backward()
    assert float(out.detach()) == 0
    assert np.isfinite(array(x.grad)).all()
    np.testing.assert_array_equal(array(similarity.normalize(lucid.zeros(2, 3))), 0)


def test_pdist_of_one_point_and_of_no_points():
    assert similarity.pdist(lucid.ones(1, 3)).shape == (0,)
    assert similarity.pdist(lucid.ones(0, 3)).shape == (0,)
    for wrong in (lambda: similarity.pdist(lucid.ones(3)), lambda: similarity.pdist(lucid.ones(2, 3), p=-1.0)):
        with pytest.raises(ValueError, match="pdist"):
            wrong()


def test_distance_layers():
    x, y = lucid.tensor(rng.normal(size=(2, 4, 3))), lucid.tensor(rng.normal(size=(2, 4, 3)))
    np.testing.assert_array_equal(
        array(similarity_layers.CosineSimilarity(dim=2)(x, y)), array(similarity.cosine_similarity(x, y, 2))
    )
    np.testing.assert_array_equal(
        array(similarity_layers.PairwiseDistance(p=1.0, keepdim=True)(x, y)),
        array(similarity.pairwise_distance(x, y, 1.0, keepdim=True)),
    )


def test_gumbel_softmax_chooses_with_the_right_chances():
    lucid.manual_seed(2)
    logits = lucid.tensor(np.log([0.1, 0.2, 0.7])).expand(20000, 3)
    hard = array(similarity.gumbel_softmax(logits, hard=True))
    np.testing.assert_allclose(hard.sum(1), 1, 1e-12)
    np.testing.assert_allclose(hard.mean(0), [0.1, 0.2, 0.7], atol=0.015)
    lucid.manual_seed(3)
    soft = array(similarity.gumbel_softmax(logits, tau=0.5))
    np.testing.assert_allclose(soft.sum(1), 1, 1e-12)
    assert ((soft > 0) & (soft < 1)).any()


def test_a_hard_sample_has_the_gradient_of_the_soft_one():
    x = leaf(rng.normal(size=(2, 4, 3)))
    weights = lucid.tensor(rng.normal(size=(2, 4, 3)))
    found = []
    for hard in (False, True):
        lucid.manual_seed(4)
        out = similarity.gumbel_softmax(x, 0.7, hard=hard, dim=1)
        found.append(array(autograd.grad((out * weights).sum(), [x])[0]))
    np.testing.assert_allclose(found[0], found[1])
    assert set(np.unique(array(out.detach()).round(12))) <= {0.0, 1.0}
