"""Awkward points of the surface: coincident points, ties, empty and masked tensors, small types, copies, memory."""

import copy
import math
import pickle

import numpy as np
import pytest
from cycles import no_cycles

import lucid
from lucid import autograd, func, nn

DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def leaf(values):
    return lucid.tensor(np.asarray(values, float), requires_grad=True)


def differences(function, x, step=1e-6):
    """The gradient of a scalar function by central differences."""
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        out[place] = (function(lucid.tensor(x + shift)).item() - function(lucid.tensor(x - shift)).item()) / (2 * step)
    return out


# --- distances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf])
def test_distances_of_coincident_points_have_finite_derivatives(p):
    x = leaf([[1, 2, -1], [1, 2, -1], [0, 0.5, 3], [-2, 0.5, 0]])
    (first,) = autograd.grad(lucid.cdist(x, x.detach(), p).sum(), [x], create_graph=True)
    assert np.isfinite(first.detach().numpy()).all()
    if first.requires_grad:
        (second,) = autograd.grad((first * first).sum(), [x], allow_unused=True)
        assert second is None or np.isfinite(second.numpy()).all()
    # The distance of a point to itself counts for nothing, the others as they do alone.
    alone = leaf(x.detach().numpy()[2:])
    (want,) = autograd.grad(lucid.cdist(alone, x.detach()[:2], p).sum(), [alone])
    rest = leaf(x.detach().numpy()[2:])
    (got,) = autograd.grad(lucid.cdist(rest, x.detach()[[0, 1, 2]], p)[0].sum(), [rest])
    np.testing.assert_allclose(got.numpy()[0], want.numpy()[0], rtol=1e-12)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_second_derivatives_of_distances(p):
    x = np.array([[1.0, 2.0, -1.0], [0.3, 0.5, 3.0], [-2.0, 0.7, 0.1]])
    other = lucid.tensor(x[::-1].copy() + 0.4)

    def steepness(t):
        t = t.detach().requires_grad_()
        (first,) = autograd.grad(lucid.cdist(t, other, p).sum(), [t], create_graph=True)
        return (first * first).sum(), t

    total, t = steepness(lucid.tensor(x))
    (got,) = autograd.grad(total, [t])
    np.testing.assert_allclose(got.numpy(), differences(lambda v: steepness(v)[0], x), atol=1e-7)


@pytest.mark.parametrize(
    "norm", [lambda x: x.norm(), lambda x: x.norm(1.5), lambda x: lucid.renorm(x, 2, 0, 1.0).sum()]
)
def test_norms_of_zeros_have_derivatives_of_every_order(norm):
    x = leaf(np.zeros((2, 3)))
    (first,) = autograd.grad(norm(x), [x], create_graph=True)
    assert np.isfinite(first.detach().numpy()).all()
    (second,) = autograd.grad((first * first).sum(), [x])
    assert second.tolist() == [[0] * 3] * 2


# --- statistics ---------------------------------------------------------------------------------


def test_weighted_covariances():
    a = np.array([[1.0, 2.0, 4.0, 3.0], [0.5, -1.0, 2.0, 7.0]])
    x, counts, weights = lucid.tensor(a), np.array([1, 0, 2, 3]), np.array([0.5, 1.0, 2.0, 0.25])
    for options in ({}, {"fweights": counts}, {"aweights": weights}, {"fweights": counts, "aweights": weights}):
        tensors = {k: lucid.tensor(v) for k, v in options.items()}
        for correction in (0, 1):
            got = lucid.cov(x, correction=correction, **tensors)
            np.testing.assert_allclose(got.numpy(), np.cov(a, ddof=correction, **options), rtol=1e-12)
    weighted = {"aweights": lucid.tensor(weights)}
    (got,) = autograd.grad(lucid.cov(y := leaf(a), **weighted)[0, 1], [y])
    np.testing.assert_allclose(got.numpy(), differences(lambda v: lucid.cov(v, **weighted)[0, 1], a), atol=1e-8)
    with pytest.raises(RuntimeError):
        lucid.cov(x, fweights=lucid.tensor([1, -1, 2, 3]))


def test_gradients_on_uneven_grids():
    a = np.random.default_rng(0).normal(size=(4, 5))
    rows, columns = np.array([0.0, 1.0, 4.0, 4.5]), np.array([-1.0, 0.0, 0.5, 3.0, 9.0])
    for order in (1, 2):
        got = lucid.gradient(lucid.tensor(a), spacing=(lucid.tensor(rows), lucid.tensor(columns)), edge_order=order)
        for g, w in zip(got, np.gradient(a, rows, columns, edge_order=order), strict=True):
            np.testing.assert_allclose(g.numpy(), w, rtol=1e-10)


def test_ties_and_nan():
    nan = lucid.nan
    x = lucid.tensor([[nan, 1.0, 2.0, 1.0], [3.0, nan, nan, 0.0]])
    assert [v.isnan().tolist() for v in lucid.aminmax(x)] == [True, True]
    assert lucid.nanmedian(x).item() == 1
    assert lucid.nanmedian(x, 1).values.tolist() == [1, 0]
    assert lucid.median(x).isnan().item()
    assert lucid.mode(lucid.tensor([3, 1, 1, 3, 2])).values.item() == 1
    assert lucid.isin(x, x).tolist() == [[False, True, True, True], [True, False, False, True]]
    tied = leaf([2, 1, 2])
    (got,) = autograd.grad(sum(lucid.aminmax(tied)), [tied])
    np.testing.assert_allclose(got.numpy(), [0.5, 1, 0.5])


def test_counting_at_the_edges():
    edges = lucid.tensor([0.0, 1.0, 2.0])
    counted = lucid.histogram(lucid.tensor([-1.0, 0.0, 1.0, 2.0, 3.0]), edges)
    assert counted.hist.tolist() == [1, 2]  # only the last edge belongs to the bin before it
    assert lucid.bincount(lucid.tensor([], dtype=lucid.int64), minlength=2).tolist() == [0, 0]
    assert lucid.bincount(lucid.tensor([1, 1, 3]), weights=lucid.tensor([0.5, 0.5, 2.0])).tolist() == [0, 1, 0, 2]
    assert lucid.combinations(lucid.tensor([1, 2]), 3).shape == (0, 3)
    assert lucid.cartesian_prod(lucid.tensor([1, 2]), lucid.tensor([], dtype=lucid.int64)).shape == (0, 2)
    for bad in ([-1], [[1]], [0.5]):
        with pytest.raises(RuntimeError):
            lucid.bincount(lucid.tensor(bad))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_second_derivatives_of_reductions_by_index(reduce):
    x = np.random.default_rng(1).normal(size=(4, 3))
    index = lucid.tensor([0, 0, 2])

    def steepness(t):
        t = t.detach().requires_grad_()
        out = lucid.index_reduce(t, 0, index, t[:3] * t[1:], reduce)
        (first,) = autograd.grad((out**3).sum(), [t], create_graph=True)
        return (first * first).sum(), t

    total, t = steepness(lucid.tensor(x))
    (got,) = autograd.grad(total, [t])
    np.testing.assert_allclose(got.numpy(), differences(lambda v: steepness(v)[0], x), rtol=1e-5, atol=1e-5)


def test_rows_that_are_masked_altogether():
    x = leaf([[1, -2, 3], [4, 5, -6]])
    mask = lucid.tensor([[True, False, True], [False, False, False]])
    for name, options in (
        ("sum", {}),
        ("mean", {}),
        ("amax", {}),
        ("var", {}),
        ("norm", {"ord": 2}),
        ("logsumexp", {}),
    ):
        out = getattr(lucid.masked, name)(x, dim=1, mask=mask, **options)
        (got,) = autograd.grad(out[0], [x])
        assert np.isfinite(got.numpy()).all(), name
        assert not got.numpy()[~mask.numpy()].any(), name
    each = func.vmap(func.vmap(lambda v, m: lucid.masked.sum(v, mask=m)))(
        lucid.stack([x, x]).detach(), lucid.stack([mask] * 2)
    )
    assert each.tolist() == [[4, 0], [4, 0]]


# --- copies and storage -------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_every_type_survive_copies(name, tmp_path):
    dtype = getattr(lucid, name)
    x = lucid.tensor([[1, 0], [3, 4]]).to(dtype)
    lucid.save({"x": x, "parts": [x[0], x.t()]}, tmp_path / "x")
    loaded = lucid.load(tmp_path / "x")
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), loaded["x"]):
        assert (y.dtype, y.tolist()) == (dtype, x.tolist())
        assert y.data_ptr() != x.data_ptr()
    assert [p.tolist() for p in loaded["parts"]] == [x[0].tolist(), x.t().tolist()]
    assert copy.deepcopy(x.t()).tolist() == x.t().tolist()
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]
    default = {"bool", "int64", "float32"}
    assert (f"dtype=lucid.{name}" in repr(x)) == (name not in default)


@pytest.mark.parametrize("name", ["complex64", "complex128", "bfloat16", "uint16", "uint64", "bool"])
def test_state_of_every_type(name, tmp_path):
    dtype = getattr(lucid, name)

    class Holder(nn.Module):
        def __init__(self, values):
            super().__init__()
            self.p = nn.Parameter(
                lucid.tensor(values).to(dtype), requires_grad=dtype.is_complex or dtype.is_floating_point
            )
            self.register_buffer("b", lucid.tensor(values[::-1]).to(dtype))

    a, b = Holder([1, 2, 0]), Holder([0, 0, 0])
    lucid.save(a.state_dict(), tmp_path / "state")
    b.load_state_dict(lucid.load(tmp_path / "state"))
    assert (b.p.tolist(), b.b.tolist(), b.p.dtype) == (a.p.tolist(), a.b.tolist(), dtype)
    assert b.p.requires_grad == a.p.requires_grad


def test_long_use_leaves_nothing_behind():
    x = leaf(np.random.default_rng(0).normal(size=(4, 4)))
    z = lucid.tensor(x.detach().numpy() + 1j, requires_grad=True)

    def use():
        y = x * 1
        y.t_().unsqueeze_(0).squeeze_(0)
        y[1:].diagonal().mul_(2)
        c = z * 1
        c.real.mul_(3)
        c.imag[0] = 1
        total = y.as_strided((3, 3), (1, 1)).sum() + c.abs().sum() + lucid.cdist(x, x * 2).sum() + lucid.cov(x).sum()
        autograd.grad(total + lucid.masked.sum(x, mask=x.detach() > 0), [x, z])
        func.vmap(func.grad(lambda v: (v * 1).as_strided((2,), (1,)).mul_(2).sum()))(x.detach())
        lucid.arange(4).resize_(6).set_(lucid.arange(3))
        lucid.add(x.detach(), 1, out=lucid.empty(0, dtype=lucid.float64))

    for _ in range(5):
        use()
    with no_cycles():
        for _ in range(30):
            use()


def test_masks_without_dimensions_and_tables_of_counts_are_refused() -> None:
    x = lucid.zeros(2, 3)
    with pytest.raises(IndexError, match="at least one dimension"):
        lucid.index_put(x, (lucid.tensor(True),), lucid.tensor(1.0))
    with pytest.raises(RuntimeError, match="at most one dimension"):
        lucid.repeat_interleave(x, lucid.tensor([[1, 1]]), dim=0)


def test_bincount_in_a_batch():
    numbers, weights = lucid.tensor([[0, 1, 3], [1, 1, 0]]), lucid.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    assert func.vmap(lambda n: lucid.bincount(n, minlength=5))(numbers).tolist() == [[1, 1, 0, 1, 0], [1, 2, 0, 0, 0]]
    found = func.vmap(lambda n, w: lucid.bincount(n, w, 4))(numbers, weights)
    assert found.tolist() == [[1, 2, 0, 4], [32, 24, 0, 0]]
    with pytest.raises(IndexError, match="minlength inside vmap: index 3 is out of range"):
        func.vmap(lambda n: lucid.bincount(n, minlength=3))(numbers)
    with pytest.raises(RuntimeError, match="bincount needs one concrete value"):
        func.vmap(lucid.bincount)(numbers)


@pytest.mark.parametrize("dtype", [None, lucid.float64, lucid.int64, lucid.float16])
@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_numbers_between_ends_of_each_example(name, dtype):
    function = getattr(lucid, name)
    low, high = lucid.tensor([0.3, 1.0, -2.7]), lucid.tensor([2.9, 1.0, 3.6])
    for steps in (0, 1, 2, 7):
        found = func.vmap(lambda a, b, n=steps: function(a, b, n, dtype=dtype))(low, high)
        want = [function(a.item(), b.item(), steps, dtype=dtype) for a, b in zip(low, high, strict=True)]
        assert found.dtype == want[0].dtype
        np.testing.assert_array_equal(np.asarray(found), np.stack([np.asarray(w) for w in want]))


def test_ends_that_need_a_gradient_make_no_new_leaf():
    with pytest.raises(RuntimeError, match="cannot be a new leaf"):
        lucid.linspace(lucid.tensor(1.0, requires_grad=True), 2, 3, requires_grad=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_variance_of_one_number(dtype):
    x = lucid.tensor(2.5, dtype=getattr(lucid, dtype), requires_grad=True)
    assert lucid.var(x, correction=0).item() == 0 and math.isnan(lucid.var(x).item())
    spread, mean = lucid.var_mean(x, correction=0)
    assert spread.item() == 0 and mean.item() == 2.5
    assert autograd.grad(spread + mean, x).item() == 1


@pytest.mark.parametrize("empty", [(), []])
def test_questions_over_no_dimensions_ask_each_element(empty):
    x = lucid.tensor([[0.0, 2.0], [3.0, 0.0]])
    for question in (lucid.any, lucid.all):
        assert question(x, dim=empty).tolist() == question(x, dim=empty, keepdim=True).tolist() == (x != 0).tolist()
        assert question(x, dim=None).shape == ()
        assert func.vmap(lambda row, q=question: q(row, dim=empty))(x).tolist() == (x != 0).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_infinities_become_the_largest_numbers_of_their_type(dtype):
    kind = getattr(lucid, dtype)
    x = lucid.tensor([lucid.inf, -lucid.inf, lucid.nan, 1.0], dtype=kind)
    limits = lucid.finfo(kind)
    for found in (lucid.nan_to_num(x), func.vmap(lucid.nan_to_num)(x), x.clone().nan_to_num_()):
        assert found.tolist() == [limits.max, limits.min, 0, 1] and found.dtype is kind
    assert lucid.nan_to_num(x, 1, 2, 3).tolist() == [2, 3, 1, 1]
