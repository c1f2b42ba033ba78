"""Statistics, distances, differences, strides, counting, placement and masks against PyTorch: values and gradients."""

import warnings

import numpy as np
import pytest

import lucid
from lucid import func

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
Y, Z = np.array([[1.0, 2.0, 2.0], [3.0, 1.0, 3.0]]), RNG.normal(size=(3, 5))


def normal(*shape):
    return RNG.normal(size=shape)


MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
# The function, operands (arrays become tensors), keywords.
CASES = [
    ("cov", (Z,), {}),
    ("cov", (Z,), {"correction": 0, "fweights": np.array([1, 2, 0, 1, 3])}),
    ("cov", (Z,), {"aweights": np.abs(normal(5))}),
    ("cov", (Z[0] + 1j * Z[1],), {}),
    ("corrcoef", (Z,), {}),
    ("corrcoef", (Z[0],), {}),
    ("std_mean", (Z,), {"dim": 1, "keepdim": True}),
    ("var_mean", (Z, False), {}),
    ("var_mean", (Z,), {"dim": (0, 1), "correction": 2}),
    ("aminmax", (Y,), {"dim": 1}),
    ("aminmax", (Y,), {}),
    ("mode", (Y,), {}),
    ("mode", (Y, 0, True), {}),
    ("mode", (np.array([3, 1, 1, 3, 0]),), {}),
    ("diff", (Z, 2, 0), {}),
    ("diff", (Z,), {"prepend": normal(3, 1), "append": normal(3, 2)}),
    ("diff", (np.array([True, False, False]),), {}),
    ("gradient", (Z,), {"spacing": 0.5}),
    ("gradient", (Z,), {"dim": 1, "edge_order": 2}),
    ("gradient", (Z,), {"spacing": [np.array([0.0, 1.0, 3.0]), np.sort(normal(5))]}),
    ("gradient", (Z,), {"spacing": [2.0, 3.0], "dim": (1, 0), "edge_order": 2}),
    ("trapezoid", (Z,), {"dx": 0.5}),
    ("trapezoid", (Z, np.sort(normal(5))), {}),
    ("trapezoid", (Z, normal(3, 5)), {"dim": 0}),
    ("cumulative_trapezoid", (Z, np.sort(normal(5))), {}),
    ("cumulative_trapezoid", (Z,), {"dim": 0}),
    *[("cdist", (normal(3, 2), normal(5, 2), p), {}) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf)],
    ("cdist", (normal(2, 30, 3), normal(1, 4, 3)), {}),
    ("cdist", (Y[:, :2], Y[:, :2]), {}),
    *[("pdist", (normal(5, 3), p), {}) for p in (0.0, 1.0, 2.0, 3.0, np.inf)],
    ("pdist", (normal(30, 3),), {}),
    *[("dist", (Z, normal(5), p), {}) for p in (1, 2, 3, np.inf, -np.inf)],
    ("renorm", (Z, 2, 0, 1.0), {}),
    ("renorm", (Z, 1, 1, 2.0), {}),
    ("as_strided", (Z, (3, 3), (1, 2), 2), {}),
    ("as_strided", (Z, (2, 2, 2), (1, 1, 0)), {}),
    ("select_scatter", (Z, normal(3), 1, 2), {}),
    ("slice_scatter", (Z, normal(3, 2), 1, 1, -1, 2), {}),
    ("diagonal_scatter", (Z, normal(3), 1), {}),
    ("narrow_copy", (Z, 1, 1, 2), {}),
    ("histc", (Z, 5), {}),
    ("histc", (Z, 4, -1, 1), {}),
    ("histc", (np.ones(3), 4), {}),
    ("histc", (np.zeros(0), 4), {}),
    ("bincount", (np.array([1, 3, 1, 0]),), {}),
    ("bincount", (np.array([1, 3, 1, 0]), np.array([1, 2, 3, 4])), {"minlength": 6}),
    ("isin", (np.array([[1, 2], [3, 4]]), np.array([2, 9, 3])), {"invert": True}),
    ("nonzero_static", (Y > 1,), {"size": 5}),
    ("nonzero_static", (Y > 1,), {"size": 2, "fill_value": 7}),
    ("unravel_index", (np.array([[5, 0], [3, 2]]), (2, 3)), {}),
    ("atleast_1d", (np.array(2.0), Z), {}),
    ("atleast_2d", (Z[0],), {}),
    ("atleast_3d", (Z[0], Z), {}),
    ("column_stack", ((Z[0], Z.T),), {}),
    ("row_stack", ((Z[0], Z),), {}),
    ("block_diag", (Z, Y, Z[0], np.array(1.0)), {}),
    ("cartesian_prod", (Z[0], Y[0]), {}),
    ("combinations", (Z[0], 3), {"with_replacement": True}),
    ("diagflat", (Y, -1), {}),
    ("hsplit", (Z, (1, 3)), {}),
    ("vsplit", (Z, 3), {}),
    ("dsplit", (Z.reshape(1, 3, 5), (2,)), {}),
    ("put", (Z, np.array([0, -1]), normal(2)), {}),
    ("put", (Z, np.array([0, 0]), normal(2), True), {}),
    *[("index_reduce", (normal(3, 4), 1, np.array([0, 2, 0]), normal(3, 3), how), {"include_self": both})
      for how in ("prod", "mean", "amax", "amin") for both in (True, False)],
    *[("scatter_reduce", (normal(3, 4), 1, np.array([[0, 2, 0], [1, 1, 1], [3, 0, 3]]), normal(3, 3), how),
       {"include_self": both}) for how in ("sum", "prod", "mean", "amax", "amin") for both in (True, False)],
    ("scatter_reduce", (np.array([0.0, 2, 3]), 0, np.array([0, 0, 1, 1]), np.array([0.0, 2, 0, 5]), "prod"), {}),
    ("scatter_reduce", (np.array([1.0, 2, 3]), 0, np.array([0, 0, 1, 1]), np.array([1.0, 1, 0, 5]), "amax"), {}),
    ("scatter_reduce", (np.array([7.0, 8, 3]), 0, np.array([0, 0, 1, 1]), np.array([1.0, 1, 0, 0]), "amin"),
     {"include_self": False}),
    ("addbmm", (normal(2, 4), normal(3, 2, 3), normal(3, 3, 4)), {"beta": 0.5, "alpha": 2}),
    ("addmv", (normal(2), normal(2, 3), normal(3)), {"alpha": 2}),
    ("addr", (normal(2, 3), normal(2), normal(3)), {"beta": 0}),
    ("vdot", (Z[0] + 1j, Z[1] - 2j * Z[2]), {}),
    ("nanmedian", (np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 2.0]]), 1), {}),
    ("nanquantile", (np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 2.0]]), 0.4, 1), {}),
    ("layer_norm", (Z, (5,)), {}),
    ("conv1d", (normal(2, 3, 7), normal(4, 3, 3)), {"padding": 1}),
    ("cosine_similarity", (Z, normal(3, 5)), {}),
]  # fmt: skip
MASKED = [
    *[(name, (normal(3, 4), *args), {"mask": MASK, **kwargs})
      for name in ("sum", "prod", "amax", "amin", "mean", "logsumexp", "var", "std")
      for args, kwargs in (((1,), {}), (((0, 1),), {"keepdim": True}))],
    *[(name, (normal(3, 4), dim), {"mask": MASK}) for name in ("median", "cumsum", "cumprod",
      "softmax", "log_softmax", "softmin") for dim in (0, 1)],
    *[("norm", (normal(3, 4), ord, 1), {"mask": MASK}) for ord in (2.0, 1.0, 3.0, np.inf, -np.inf, 0.0)],
    ("normalize", (normal(3, 4), 2.0, 1), {"mask": MASK}),
    ("logaddexp", (normal(3, 4), normal(3, 4)), {"input_mask": MASK, "other_mask": ~MASK}),
    ("softmax", (normal(3, 4), 1), {"mask": MASK[0]}),
    ("sum", (np.arange(12).reshape(3, 4),), {"mask": MASK}),
]  # fmt: skip


def _with(library, value, grads):
    """Arrays as tensors of a library; those of floats go to `grads`."""
    if isinstance(value, tuple | list) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(_with(library, v, grads) for v in value)
    if not isinstance(value, np.ndarray):
        return value
    made = library.tensor(value.copy())
    if value.dtype.kind in "fc":
        grads.append(made.requires_grad_())
    return made


def _flat(result):
    if isinstance(result, tuple | list):
        return [leaf for r in result for leaf in _flat(r)]
    return [result]


def _run(library, function, args, kwargs):
    """Results, and the gradients of a weighted sum of them by every operand."""
    grads = []
    args = [_with(library, a, grads) for a in args]
    kwargs = {k: _with(library, v, grads) for k, v in kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says what is beta
        outs = _flat(function(*args, **kwargs))
    total, rng = 0, np.random.default_rng(1)
    for out in outs:
        if out.requires_grad:
            weights = library.tensor(np.asarray(rng.normal(size=tuple(out.shape))))
            finite = library.where(library.isfinite(out.detach()), out, library.zeros_like(out))
            total = total + (finite * weights).sum()
    if not isinstance(total, int):
        (total.real if total.is_complex() else total).backward()
    values = [o.detach().numpy() for o in outs]
    return values, [np.zeros(g.shape) if g.grad is None else g.grad.numpy() for g in grads]


def _compare(ours, theirs, args, kwargs):
    got, want = _run(lucid, ours, args, kwargs), _run(torch, theirs, args, kwargs)
    for kind, mine, other in zip(("value", "gradient"), got, want, strict=True):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            assert a.dtype == b.dtype, kind
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=kind)


def _id(case):
    return f"{case[0]}-{'-'.join(str(v.shape) if isinstance(v, np.ndarray) else str(v) for v in case[1][1:])}"


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_values_and_gradients(case):
    name, args, kwargs = case
    _compare(getattr(lucid, name), getattr(torch, name), args, kwargs)


@pytest.mark.parametrize("case", MASKED, ids=_id)
def test_masked(case):
    name, args, kwargs = case
    _compare(getattr(lucid.masked, name), getattr(torch.masked, name), args, kwargs)


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_second_derivatives_of_scatter_reduce(how, include_self):
    x, src, index = normal(5), normal(4), np.array([0, 0, 3, 0])
    v, w = normal(5), normal(4)

    def loss(library, a, b):
        out = library.scatter_reduce(a, 0, library.tensor(index), b, how, include_self=include_self)
        return (out * out * out).sum()

    a, b = torch.tensor(x, requires_grad=True), torch.tensor(src, requires_grad=True)
    first = torch.autograd.grad(loss(torch, a, b), (a, b), create_graph=True)
    want = torch.autograd.grad(first, (a, b), (torch.tensor(v), torch.tensor(w)))
    gradient = func.grad(lambda a, b: loss(lucid, a, b), argnums=(0, 1))
    primals, directions = (lucid.tensor(x), lucid.tensor(src)), (lucid.tensor(v), lucid.tensor(w))
    for got in (func.jvp(gradient, primals, directions)[1], func.vjp(gradient, *primals)[1](directions)):
        for g, t in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), t.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("bins", [7, np.array([-1.0, -0.2, 0.3, 2.0])], ids=str)
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram(bins, density, weighted):
    x, w = normal(40), np.abs(normal(40))
    kwargs = {"density": density} | ({"range": (-1.5, 2.0)} if isinstance(bins, int) else {})
    results = []
    for library in (lucid, torch):
        edges = bins if isinstance(bins, int) else library.tensor(bins)
        weight = library.tensor(w) if weighted else None
        results.append(library.histogram(library.tensor(x), edges, weight=weight, **kwargs))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd(density):
    x, w = normal(50, 2), np.abs(normal(50))
    edges = [np.array([-2.0, 0.0, 0.5, 3.0]), np.array([-1.0, 1.0])]
    for bins, kwargs in (([3, 4], {}), ([3, 4], {"range": (-1.0, 1.0, -2.0, 2.0)}), (edges, {})):
        results = []
        for library in (lucid, torch):
            given = [b if isinstance(b, int) else library.tensor(b) for b in bins]
            found = library.histogramdd(library.tensor(x), given, weight=library.tensor(w), density=density, **kwargs)
            results.append([found.hist, *found.bin_edges])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_masked_positions():
    """PyTorch gives them in the type of the input, Lucid as integers."""
    x = normal(3, 4)
    for name in ("argmax", "argmin"):
        for dim in (0, 1, None):
            ours, theirs = (
                getattr(library.masked, name)(library.tensor(x), dim, mask=library.tensor(MASK))
                for library in (lucid, torch)
            )
            assert ours.dtype == lucid.int64 and ours.tolist() == theirs.long().tolist()


def test_strided_scatter():
    """PyTorch's gradient by the input is that of another function; the table compares ours with differences."""
    src = normal(2, 2)
    ours, theirs = (
        library.as_strided_scatter(library.tensor(Z), library.tensor(src), (2, 2), (5, 1), 1)
        for library in (lucid, torch)
    )
    assert ours.tolist() == theirs.tolist()


def test_as_strided_of_views():
    for make in (lambda x: x.t(), lambda x: x[1:], lambda x: x[:, ::2], lambda x: x.t()[1:]):
        for size, stride, offset in (((3,), (2,), None), ((2, 2), (1, 3), 2), ((4,), (0,), None)):
            ours, theirs = (
                make(library.arange(12.0).reshape(3, 4)).as_strided(size, stride, offset) for library in (lucid, torch)
            )
            assert ours.tolist() == theirs.tolist()


def test_indices_and_shapes():
    for row, col, offset in ((3, 4, 1), (4, 2, -1), (0, 3, 0)):
        for name in ("tril_indices", "triu_indices"):
            assert getattr(lucid, name)(row, col, offset).tolist() == getattr(torch, name)(row, col, offset).tolist()
    assert lucid.broadcast_shapes((2, 1), (3,)) == tuple(torch.broadcast_shapes((2, 1), (3,)))
    assert lucid.ones(2, 3).sum_to_size(3).tolist() == torch.ones(2, 3).sum_to_size(3).tolist()
    assert lucid.empty_strided((2, 3), (4, 1)).stride() == torch.empty_strided((2, 3), (4, 1)).stride()
    assert lucid.empty_permuted((2, 3, 5), (2, 0, 1)).stride() == torch.empty_permuted((2, 3, 5), (2, 0, 1)).stride()
    for count in (torch.unravel_index(torch.tensor([3], dtype=torch.int32), (2, 3)),):
        ours = lucid.unravel_index(lucid.tensor([3], dtype=lucid.int32), (2, 3))
        assert [o.tolist() for o in ours] == [t.tolist() for t in count]
