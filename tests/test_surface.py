"""What the table does not say about statistics, distances, strides, counting, assembly and placement."""

import math
import subprocess
import sys
from inspect import unwrap

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import lucid
from lucid import func
from lucid.api import names
from lucid.backends.numpy.random import added_up, binomial_quantile
from lucid.core.primitive import P

# --- views with strides --------------------------------------------------------------------------


def test_as_strided_is_a_view_that_shares_memory():
    x = lucid.arange(6.0)
    y = x.as_strided((2, 2), (3, 1), 1)
    assert y.is_view() and y._base is x
    y[0, 0] = 9.0
    assert x.tolist() == [0, 9, 2, 3, 4, 5]
    x[4] = -1.0
    assert y.tolist() == [[9, 2], [-1, 5]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int8", "bool"])
def test_as_strided_is_a_view_in_every_type(dtype):
    x = lucid.zeros(6).to(dtype)
    assert x.as_strided((2, 2), (3, 1), 1).is_view()


def test_writes_through_a_strided_view_reach_the_gradient():
    a = lucid.ones(5, requires_grad=True)
    x = a * 2
    y = x.as_strided((2,), (3,), 1)
    y.mul_(10.0)
    x.sum().backward()
    assert a.grad.tolist() == [2, 20, 2, 2, 20]


def test_overlapping_windows_are_not_written_to():
    y = lucid.arange(5.0).as_strided((3, 3), (1, 1))
    with pytest.raises(RuntimeError, match="clone"):
        y.add_(1.0)


def test_as_strided_sees_the_memory_of_a_permuted_tensor():
    x = lucid.arange(6.0).reshape(2, 3).requires_grad_()
    t = x.t()
    seen = t.as_strided((6,), (1,))
    assert seen.tolist() == [0, 1, 2, 3, 4, 5] and seen.is_view()
    (g,) = lucid.autograd.grad((seen * lucid.arange(6.0)).sum(), [t])
    assert g.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_as_strided_of_a_permuted_tensor_inside_transforms():
    x = lucid.arange(12.0).reshape(2, 2, 3)
    got = func.vmap(lambda m: m.t().as_strided((6,), (1,)))(x)
    assert_array_equal(got.numpy(), x.numpy().reshape(2, 6))
    _, change = func.jvp(lambda m: m.t().as_strided((2,), (4,)), (x[0],), (x[1],))
    assert change.tolist() == [6, 10]


def test_as_strided_reaches_beyond_a_slice_into_its_base():
    base = lucid.arange(6.0).requires_grad_()
    piece = base[2:4]
    assert piece.as_strided((2,), (2,)).tolist() == [2, 4]
    assert piece.as_strided((2,), (1,), 0).tolist() == [0, 1]
    assert base[::2].as_strided((3,), (1,), 3).tolist() == [3, 4, 5]
    piece.as_strided((2,), (2,)).sum().backward()
    assert base.grad.tolist() == [0, 0, 1, 0, 1, 0]


def test_as_strided_stays_inside_the_memory():
    x = lucid.arange(6.0)
    for size, stride, offset in (
        ((7,), (1,), 0),
        ((2,), (6,), 0),
        ((1,), (1,), 6),
        ((2, 2), (4, 2), 0),
        ((1,), (1,), -1),
    ):
        with pytest.raises(RuntimeError, match="outside the memory"):
            x.as_strided(size, stride, offset)
    assert x.as_strided((0, 100), (100, 100)).shape == (0, 100)
    for size, stride, message in (
        ((2,), (1, 1), "1 sizes but 2"),
        ((-1,), (1,), "negative"),
        ((2,), (-1,), "negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            x.as_strided(size, stride)


def test_many_overlapping_windows_add_up():
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.normal(size=300), requires_grad=True)
    weights = rng.normal(size=(150, 150))
    (x.as_strided((150, 150), (1, 1)) * lucid.tensor(weights)).sum().backward()
    want = np.zeros(300)
    for i in range(150):
        want[i : i + 150] += weights[i]
    assert_allclose(x.grad.numpy(), want, atol=1e-10)


def test_strided_scatters_refuse_what_does_not_fit():
    x = lucid.zeros(2, 3)
    with pytest.raises(RuntimeError, match="twice"):
        lucid.as_strided_scatter(x, lucid.ones(2, 2), (2, 2), (1, 1))
    with pytest.raises(RuntimeError, match="outside"):
        lucid.as_strided_scatter(x, lucid.ones(2), (2,), (6,))
    with pytest.raises(RuntimeError, match=r"src has shape \(2,\).*\(3,\)"):
        lucid.select_scatter(x, lucid.ones(2), 0, 1)
    with pytest.raises(IndexError, match="out of range"):
        lucid.select_scatter(x, lucid.ones(3), 0, 2)
    with pytest.raises(RuntimeError, match="types must agree"):
        lucid.slice_scatter(x, lucid.ones(1, 3).double(), 0, 0, 1)
    with pytest.raises(RuntimeError, match="step must be positive"):
        lucid.slice_scatter(x, lucid.ones(2, 3), 0, step=0)
    with pytest.raises(RuntimeError, match="both 1"):
        lucid.diagonal_scatter(x, lucid.ones(2), 0, 1, -1)


def test_replaced_nan_leaves_no_trace_in_gradients():
    x = lucid.tensor([math.nan, 1.0], requires_grad=True)
    out = lucid.slice_scatter(x, lucid.ones(1), 0, 0, 1)
    out.sum().backward()
    assert x.grad.tolist() == [0, 1]


def test_empty_strided_has_the_strides():
    x = lucid.empty_strided((2, 3), (1, 2), dtype=lucid.float64, requires_grad=True)
    assert x.stride() == (1, 2) and x.dtype == lucid.float64 and x.requires_grad
    assert lucid.empty_strided((0, 3), (1, 2)).shape == (0, 3)
    y = lucid.empty_permuted((2, 3, 5), (2, 0, 1)).zero_()
    assert y.stride() == (3, 1, 6) and y.permute(2, 0, 1).is_contiguous()
    with pytest.raises(RuntimeError, match="each of the 2 dimensions once"):
        lucid.empty_permuted((2, 3), (0, 0))


# --- distances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 40])
def test_cdist_of_points_to_themselves_is_zero_with_zero_gradient(count):
    x = lucid.tensor(np.random.default_rng(0).normal(size=(count, 3)) + 100, dtype=lucid.float32).requires_grad_()
    d = lucid.cdist(x, x.detach())
    assert d.diagonal().tolist() == [0.0] * count
    (g,) = lucid.autograd.grad(d.diagonal().sum(), [x], retain_graph=True)
    assert_array_equal(g.numpy(), 0)
    (g,) = lucid.autograd.grad(d.sum(), [x])
    assert np.isfinite(g.numpy()).all()


def test_cdist_by_a_product_is_as_exact_as_by_differences():
    rng = np.random.default_rng(1)
    x = (1000 + rng.normal(size=(60, 5))).astype(np.float32)
    y = (x[::2] + 1e-3 * rng.normal(size=(30, 5))).astype(np.float32)
    want = np.sqrt(((x[:, None].astype(float) - y[None]) ** 2).sum(-1))
    assert_allclose(lucid.cdist(lucid.tensor(x), lucid.tensor(y)).numpy(), want, rtol=5e-4)


def test_cdist_with_infinities_and_nan():
    x = lucid.zeros(30, 2)
    x[0, 0], x[1, 1] = math.inf, math.nan
    got = lucid.cdist(x, lucid.zeros(2, 2)).numpy()
    assert np.isinf(got[0]).all() or np.isnan(got[0]).all()
    assert np.isnan(got[1]).all()


def test_distances_refuse_what_does_not_fit():
    with pytest.raises(RuntimeError, match="rows of one length"):
        lucid.cdist(lucid.zeros(2, 3), lucid.zeros(2, 2))
    with pytest.raises(RuntimeError, match="do not broadcast"):
        lucid.cdist(lucid.zeros(2, 2, 3), lucid.zeros(3, 2, 3))
    with pytest.raises(RuntimeError, match="negative"):
        lucid.cdist(lucid.zeros(2, 3), lucid.zeros(2, 3), p=-1.0)
    with pytest.raises(RuntimeError, match="matrix"):
        lucid.pdist(lucid.zeros(3))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        lucid.renorm(lucid.zeros(3), 2, 0, 1.0)
    with pytest.raises(RuntimeError, match="maxnorm"):
        lucid.renorm(lucid.zeros(3, 2), 2, 0, -1.0)


# --- counting ------------------------------------------------------------------------------------


def test_counts_whose_shape_depends_on_values_are_refused_inside_vmap():
    with pytest.raises(RuntimeError, match="bincount"):
        func.vmap(lucid.bincount)(lucid.tensor([[0, 1], [2, 2]]))


def test_bincount_reads_what_is_known():
    """Only inside vmap and make_graph, numbers are not there to be read."""
    x = lucid.tensor([0.0, 2.0, 1.0])
    counts, _ = func.jvp(lambda x: lucid.bincount(x.argsort(), minlength=2), (x,), (x,))
    assert counts.tolist() == [1, 1, 1]


def test_bincount_types_and_refusals():
    x = lucid.tensor([1, 1, 3])
    assert lucid.bincount(x, minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    assert lucid.bincount(x, lucid.ones(3)).dtype == lucid.float32
    assert lucid.bincount(x, lucid.ones(3).half()).dtype == lucid.float64
    assert lucid.bincount(x, lucid.tensor([1, 2, 3])).dtype == lucid.float64
    with pytest.raises(RuntimeError, match="-2"):
        lucid.bincount(lucid.tensor([1, -2]))
    with pytest.raises(RuntimeError, match="vector of integers"):
        lucid.bincount(lucid.tensor([1.0]))
    with pytest.raises(RuntimeError, match=r"weights have shape \(2,\)"):
        lucid.bincount(x, lucid.ones(2))


def test_histograms_refuse_what_does_not_fit():
    x = lucid.randn(5)
    for call, message in (
        (lambda: lucid.histc(x, 0), "positive"),
        (lambda: lucid.histc(lucid.tensor([1.0, math.inf]), 3), "finite"),
        (lambda: lucid.histc(x, 3, 2, 1), "ascending"),
        (lambda: lucid.histogram(x, lucid.tensor([1.0])), "no bin"),
        (lambda: lucid.histogram(x, lucid.tensor([1, 2])), "edges must be a vector"),
        (lambda: lucid.histogram(x, lucid.tensor([1.0, 0.0, 2.0])), "must ascend"),
        (lambda: lucid.histogram(x, lucid.tensor([0.0, 1.0]), range=(0.0, 1.0)), "range"),
        (lambda: lucid.histogram(x, 3, weight=lucid.ones(2)), "weight must have shape"),
        (lambda: lucid.histogramdd(x, 3), "at least 2 dimensions"),
        (lambda: lucid.histogramdd(lucid.zeros(3, 2), [3]), "bins for 1 coordinates"),
        (lambda: lucid.histogramdd(lucid.zeros(3, 2), 3, range=(0.0, 1.0)), "range"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_histogram_of_one_point_is_widened():
    hist, edges = lucid.histogram(lucid.tensor([2.0, 2.0]), 2)
    assert hist.tolist() == [0, 2] and edges.tolist() == [1.5, 2, 2.5]
    assert lucid.histogram(lucid.zeros(0), 2).bin_edges.tolist() == [0, 0.5, 1]


def test_isin_with_numbers_and_nan():
    x = lucid.tensor([1.0, math.nan])
    assert lucid.isin(x, lucid.tensor([math.nan, 1.0])).tolist() == [True, False]
    assert lucid.isin(x, 1.0).tolist() == [True, False]
    assert lucid.isin(1.0, x).item() is True


def test_triangles_of_indices():
    for row, col, offset in ((3, 3, 0), (2, 5, 1), (5, 2, -1), (0, 3, 0), (3, 3, -5)):
        assert_array_equal(lucid.tril_indices(row, col, offset).numpy(), np.stack(np.tril_indices(row, offset, col)))
        assert_array_equal(lucid.triu_indices(row, col, offset).numpy(), np.stack(np.triu_indices(row, offset, col)))
    assert lucid.tril_indices(2, 2, dtype=lucid.int32).dtype == lucid.int32
    with pytest.raises(RuntimeError, match="negative"):
        lucid.triu_indices(-1, 2)
    with pytest.raises(RuntimeError, match="int32 or int64"):
        lucid.tril_indices(2, 2, dtype=lucid.float32)


def test_unravel_index_refuses_places_outside():
    with pytest.raises(IndexError, match="6"):
        lucid.unravel_index(lucid.tensor([6]), (2, 3))
    with pytest.raises(ValueError, match="integers"):
        lucid.unravel_index(lucid.tensor([1.0]), (2, 3))


def test_binomial_counts_successes():
    lucid.manual_seed(0)
    n, p = lucid.full((20_000,), 12.0), lucid.tensor(0.3)
    x = lucid.binomial(n, p).numpy()
    counts = np.bincount(x.astype(int), minlength=13)
    expected = stats.binom.pmf(np.arange(13), 12, 0.3) * 20_000
    keep = expected > 5
    assert stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue > 1e-3
    again = lucid.Generator().manual_seed(3)
    first = lucid.binomial(n, p, generator=again)
    assert lucid.equal(first, lucid.binomial(n, p, generator=lucid.Generator().manual_seed(3)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        lucid.binomial(n, lucid.tensor(1.5))
    with pytest.raises(TypeError, match="floating-point"):
        lucid.binomial(lucid.tensor([3]), lucid.tensor([1]))


@pytest.mark.parametrize("n, p", [(1, 0.5), (10, 0.999), (50, 0.2), (1000, 0.5), (1e6, 1e-5), (3000, 0.7)])
def test_binomial_counts_are_quantiles(n, p):
    chance = np.linspace(0.0, 1 - 1e-9, 2001)
    count, prob = (lucid.tensor(x, dtype=lucid.float64) for x in (n, p))
    found = P.binomial_quantile(lucid.tensor(chance), count, prob).numpy()
    # Rounding of sums may say another count where a chance lies at the edge of one.
    assert (stats.binom.cdf(found - 1, n, p) <= chance * (1 + 1e-9)).all()
    assert (stats.binom.cdf(found, n, p) >= chance * (1 - 1e-9)).all()
    assert np.array_equal(found, binomial_quantile(chance, np.array(n), np.array(p), added_up))


# --- statistics and differences ------------------------------------------------------------------


def test_cov_agrees_with_numpy():
    rng = np.random.default_rng(0)
    x, f, a = rng.normal(size=(3, 7)), rng.integers(1, 5, 7), rng.uniform(0.5, 2, 7)
    for kwargs in ({}, {"fweights": f}, {"aweights": a}, {"fweights": f, "aweights": a}):
        for correction in (0, 1):
            got = lucid.cov(lucid.tensor(x), correction=correction, **{k: lucid.tensor(v) for k, v in kwargs.items()})
            assert_allclose(got.numpy(), np.cov(x, ddof=correction, **kwargs))


def test_cov_refuses_what_does_not_fit():
    x = lucid.randn(2, 3)
    for kwargs, message in (
        ({"fweights": lucid.ones(3)}, "integers"),
        ({"aweights": lucid.tensor([1, 1, 1])}, "floats"),
        ({"aweights": lucid.ones(2)}, "3 observations"),
        ({"aweights": lucid.tensor([1.0, -1.0, 1.0])}, "negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            lucid.cov(x, **kwargs)
    with pytest.raises(RuntimeError, match="at most 2"):
        lucid.cov(lucid.zeros(2, 2, 2))


def test_results_have_names():
    x = lucid.tensor([[1.0, 2.0], [3.0, 3.0]])
    assert lucid.aminmax(x).max.item() == 3 and lucid.mode(x).indices.tolist() == [0, 1]
    assert lucid.histogram(x, 2)._fields == ("hist", "bin_edges")
    assert lucid.var_mean(x).mean.item() == lucid.std_mean(x).mean.item() == 2.25


def test_differences_refuse_what_does_not_fit():
    x = lucid.arange(5.0)
    for call, message in (
        (lambda: lucid.diff(x, -1), "negative"),
        (lambda: lucid.diff(lucid.tensor(1.0)), "0-d"),
        (lambda: lucid.diff(x, prepend=lucid.zeros(1, 1)), "2 dimensions"),
        (lambda: lucid.gradient(x, edge_order=3), "edge_order"),
        (lambda: lucid.gradient(x[:1]), "more than 1 samples"),
        (lambda: lucid.gradient(x, spacing=[1.0, 2.0]), "2 spacings"),
        (lambda: lucid.gradient(x, spacing=[x[:2]]), "coordinates"),
        (lambda: lucid.gradient(x.reshape(5, 1).expand(5, 3), dim=(0, 0)), "twice"),
        (lambda: lucid.trapezoid(x, lucid.zeros(2)), "do not fit"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(TypeError, match="not both"):
        lucid.trapezoid(x, x, dx=2.0)


# --- assembly and placement ----------------------------------------------------------------------


def test_assembly_refuses_what_does_not_fit():
    for call, message in (
        (lambda: lucid.block_diag(lucid.zeros(1, 1, 1)), "matrices"),
        (lambda: lucid.cartesian_prod(lucid.zeros(2, 2)), "vectors"),
        (lambda: lucid.combinations(lucid.zeros(2), -1), "negative"),
        (lambda: lucid.hsplit(lucid.zeros(3), 2), "equal parts"),
        (lambda: lucid.vsplit(lucid.zeros(3), 1), "at least 2"),
        (lambda: lucid.dsplit(lucid.zeros(3, 2), 1), "at least 3"),
        (lambda: lucid.zeros(2, 3).sum_to_size(2, 2), "does not sum"),
        (lambda: lucid.broadcast_shapes((2, 3), (2,)), "do not broadcast"),
        (lambda: lucid.put(lucid.zeros(3), lucid.tensor([0, 1]), lucid.ones(3)), "2 places for 3"),
        (lambda: lucid.index_reduce(lucid.zeros(3), 0, lucid.tensor([0]), lucid.ones(1), "sum"), "prod, mean"),
        (lambda: lucid.index_reduce(lucid.zeros(3), 0, lucid.tensor([0]), lucid.ones(2), "prod"), "need"),
        (lambda: lucid.addbmm(lucid.zeros(2, 2), lucid.zeros(3, 2, 3), lucid.zeros(2, 3, 2)), "do not fit"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(IndexError, match="5"):
        lucid.put(lucid.zeros(3), lucid.tensor([5]), lucid.ones(1))


def test_failed_writes_leave_everything_as_it_was():
    x = lucid.ones(2, 2)
    for call in (
        lambda: x.put_(lucid.tensor([9]), lucid.ones(1)),
        lambda: x.index_reduce_(0, lucid.tensor([0]), lucid.ones(3), "prod"),
        lambda: x.addmv_(lucid.ones(3, 2), lucid.ones(2)),
        lambda: x.renorm_(0, 0, 1.0),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            call()
    assert x.tolist() == [[1, 1], [1, 1]] and x._version == 0


def test_block_diag_of_nothing_and_atleast_of_lists():
    assert lucid.block_diag().shape == (1, 0)
    one, two = lucid.atleast_2d([lucid.tensor(1.0), lucid.zeros(2)])
    assert one.shape == (1, 1) and two.shape == (1, 2)


def test_from_buffers_and_scalars():
    memory = bytearray(np.arange(4, dtype=np.float32).tobytes())
    x = lucid.frombuffer(memory, dtype=lucid.float32, count=2, offset=4)
    assert x.tolist() == [1, 2]
    x[0] = 7.0
    assert np.frombuffer(memory, np.float32)[1] == 7
    for kwargs in ({"offset": 16}, {"offset": 1}, {"count": 5}, {"count": 0}):
        with pytest.raises(ValueError, match="frombuffer"):
            lucid.frombuffer(memory, dtype=lucid.float32, **kwargs)
    assert lucid.scalar_tensor(2).dtype == lucid.float32
    assert lucid.scalar_tensor(2, dtype=lucid.int64).item() == 2
    assert lucid.scalar_tensor(1j).dtype == lucid.complex64


def test_tensors_over_files(tmp_path):
    name = tmp_path / "numbers"
    name.write_bytes(np.arange(3, dtype=np.float64).tobytes())
    x = lucid.from_file(str(name), size=3, dtype=lucid.float64)
    x[0] = 9.0
    assert np.fromfile(name).tolist() == [0, 1, 2]
    lucid.from_file(name, shared=True, size=5, dtype=lucid.float64)[4] = 7.0
    assert np.fromfile(name).tolist() == [0, 1, 2, 0, 7]
    with pytest.raises(RuntimeError, match="40 bytes"):
        lucid.from_file(name, size=6, dtype=lucid.float64)
    assert np.fromfile(name).size == 5


# --- names ---------------------------------------------------------------------------------------


def test_numpy_spelling():
    x = lucid.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert lucid.equal(lucid.flip(x, axis=0), x.flip(0))
    assert lucid.equal(x.flip(axis=(0, 1)), x.flip(0, 1))
    for name in ("softmax", "log_softmax"):
        function = getattr(lucid, name)
        assert lucid.equal(function(x, axis=1), function(x, dim=1))
        with pytest.raises(TypeError, match="not both"):
            function(x, 1, axis=1)
        with pytest.raises(TypeError, match="dim is missing"):
            function(x)
    for name in ("diff", "mode", "trapezoid", "cumulative_trapezoid", "gradient", "squeeze", "unsqueeze", "roll"):
        args = (1,) if name == "roll" else ()
        by_dim, by_axis = (getattr(lucid, name)(x, *args, **{word: 0}) for word in ("dim", "axis"))
        for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (by_dim, by_axis)], strict=True):
            assert lucid.equal(a, b)
    assert lucid.var_mean(x, axis=0, keepdims=True).var.shape == (1, 2)


def test_functions_of_layers_stand_at_the_top_too():
    from lucid.nn import functional

    rows = [row for row in names.ROWS if row.home == "lucid.nn.functional" and "unlisted" not in row.columns]
    known = [row.name for row in rows]
    assert all(unwrap(getattr(lucid, name)) is unwrap(getattr(functional, name)) for name in known)
    assert lucid.vmap is func.vmap and lucid.autocast is lucid.amp.autocast


def test_out_receives_the_results():
    x = lucid.tensor([[1.0, 2.0], [3.0, 3.0]])
    for name, args in (("diff", ()), ("aminmax", ()), ("mode", ()), ("renorm", (2, 0, 1.0)), ("histc", (3, 0, 3))):
        want = getattr(lucid, name)(x, *args)
        shells = [lucid.empty(0, dtype=w.dtype) for w in (want if isinstance(want, tuple) else (want,))]
        out = getattr(lucid, name)(x, *args, out=tuple(shells) if isinstance(want, tuple) else shells[0])
        for a, b in zip(shells, out if isinstance(out, tuple) else (out,), strict=True):
            assert a is b
        for a, b in zip(shells, want if isinstance(want, tuple) else (want,), strict=True):
            assert lucid.equal(a, b)


def test_rare_operations_load_on_demand():
    at_once = {row.home for row in names.ROWS if "lazy" not in row.columns}
    rare = sorted({row.home for row in names.ROWS if row.home.startswith("lucid.api.")} - at_once)
    assert "lucid.api.statistics" in rare
    code = (
        f"import sys, lucid; loaded = [m for m in {rare!r} if m in sys.modules]; assert not loaded, loaded; "
        "assert 'lucid.masked' not in sys.modules; lucid.zeros(3).diff(); assert 'lucid.api.differences' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
