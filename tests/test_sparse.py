"""Sparse Jacobians and Hessians: patterns hold all entries, colourings let them be read off, values are the dense ones."""

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from checks import Case, is_float
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ROWS, Make

import lucid
from lucid.api.creation import from_numpy
from lucid.core.kind import NeedsValueError
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from lucid.func.control import cond, scan, while_loop
from lucid.func.sparse import (
    Sparsity,
    coloring,
    hessian_pattern,
    jacobian_pattern,
    patterns,
    sparse_hessian,
    sparse_jacobian,
)
from lucid.ops.nn.convolution import geometry
from lucid.ops.rules import P

F64 = lucid.float64
N = 6
RNG = np.random.default_rng(0)
DENSE = lucid.tensor(RNG.standard_normal((5, N)))
BAND = lucid.tensor(np.diag(np.arange(1.0, N + 1)) + np.diag(np.ones(N - 1), 1))
SMALL = lucid.tensor(RNG.standard_normal((2, 3)))
KERNEL = lucid.tensor([0.5, 0.0, -2.0, 1.0], dtype=F64).reshape(1, 1, 4)
MASK = lucid.tensor([True, False, True, True, False, False])
REPEATED = lucid.tensor([0, 2, 2, 5, 0])


class Cube(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class StraightThrough(lucid.autograd.Function):
    """Its derivative is not that of what it computes: the pattern must be that of what autograd gives."""

    @staticmethod
    def forward(ctx, x):
        return lucid.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


def tridiagonal(x):
    return lucid.cat([x[:1] ** 2, x[2:] * x[1:-1] - 2 * x[1:-1] + x[:-2] ** 2, x[-1:]])


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def heat(x):
    """Five points, with zeros around the grid."""
    u = x.reshape(2, -1)
    padded = lucid.zeros(u.shape[0] + 2, u.shape[1] + 2, dtype=x.dtype)
    padded[1:-1, 1:-1] = u
    return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * u + u**3


def periodic_heat(x):
    u = x.reshape(2, -1)
    return u.roll(1, 0) + u.roll(-1, 1) + u.roll(1, 1) - 4 * u + lucid.exp(u)


def writes(x):
    y = lucid.zeros(N, dtype=x.dtype)
    y[1:4] = x[:3] * 2
    y[0] = x[5] ** 2
    y[4:] += x[2:4]
    return y * x


def overwrites(x):
    y = x.clone()
    y[::2] = y[1::2] * 3
    return y * y[0]


def newton(x):
    return while_loop(lambda s: s[1] < 4, lambda s: ((s[0] + s[2] / s[0]) / 2, s[1] + 1, s[2]), (x * 0 + 1, lucid.tensor(0), x**2 + 1))[0]  # fmt: skip


def smear(x):
    return while_loop(lambda s: s.abs().max() > 0.5, lambda s: (s + s.roll(1)) * 0.45, x)


# Functions whose patterns do not depend on values: the detected one must be exact.
EXACT = {
    "elementwise chain": lambda x: lucid.sin(x) * lucid.cos(x) / (1 + x**2),
    "products of neighbours": lambda x: x[1:] * x[:-1],
    "tridiagonal": tridiagonal,
    "stencil": lambda x: x[2:] - 2 * x[1:-1] + x[:-2] ** 2,
    "heat": heat,
    "periodic heat": periodic_heat,
    "roll": lambda x: lucid.roll(x, 1) - 2 * x + lucid.roll(x, -1) * x,
    "flip": lambda x: lucid.flip(x, (0,)) * x,
    "broadcast": lambda x: x.reshape(N, 1) * x[:3],
    "sum": lambda x: x.reshape(2, 3).sum(0) * x[:3],
    "mean": lambda x: x.reshape(2, 3) - x.reshape(2, 3).mean(1, keepdim=True),
    "matrix times vector": lambda x: DENSE @ x**2,
    "banded matrix": lambda x: BAND @ lucid.sin(x),
    "banded matrix from the left": lambda x: lucid.sin(x) @ BAND,
    "product of matrices": lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
    "constant matrix": lambda x: x.reshape(3, 2) @ SMALL,
    "stacks of matrices": lambda x: x.reshape(3, 2, 1) @ x[:2].reshape(1, 2),
    "einsum": lambda x: lucid.einsum("ij,ij,j->i", x.reshape(2, 3), SMALL, x[:3]),
    "einsum over a band": lambda x: lucid.einsum("ij,jk->ik", BAND, x.reshape(6, 1)),
    "einsum of a diagonal": lambda x: lucid.einsum("ii->i", lucid.outer(x, x)),
    "diagonal of an outer product": lambda x: lucid.outer(x[:3], x[3:]).diagonal(),
    "repeated indices": lambda x: x[REPEATED] ** 2,
    "gather": lambda x: lucid.gather(x.reshape(2, 3), 1, lucid.tensor([[0, 0], [2, 1]])),
    "index_add": lambda x: lucid.zeros(4, dtype=F64).index_add(0, lucid.tensor([0, 1, 1, 3, 0]), x[:5] ** 2),
    "scatter": lambda x: lucid.scatter(x, 0, lucid.tensor([1, 1]), x[3:5] * 2),
    "mask": lambda x: x[MASK] ** 2,
    "cat": lambda x: lucid.cat([x[3:], x[:2] * x[1:3], lucid.ones(2, dtype=F64)]),
    "stack": lambda x: lucid.stack([x[:3], x[3:] * 2], 1),
    "writes": writes,
    "overwrites": overwrites,
    "where by a constant": lambda x: lucid.where(MASK, x**2, lucid.flip(x, (0,))),
    "times a mask": lambda x: (x * x.roll(1)) * MASK.double(),
    "cumsum": lambda x: lucid.cumsum(x**2, 0),
    "cumsum of columns": lambda x: lucid.cumsum(x.reshape(3, 2), 0),
    "cumprod": lambda x: lucid.cumprod(x, 0),
    "logcumsumexp": lambda x: lucid.logcumsumexp(x.reshape(2, 3), 1),
    "prod": lambda x: x.reshape(2, 3).prod(1),
    "logsumexp": lambda x: lucid.logsumexp(x.reshape(2, 3), 1),
    "Function": lambda x: Cube.apply(x[:4]),
    "straight through": lambda x: StraightThrough.apply(x) * 2,
    "vmap": lambda x: vmap(lambda row: row.sum() * row)(x.reshape(3, 2)),
    "grad": lambda x: grad(lambda y: (y[1:] ** 2 * y[:-1]).sum())(x),
    "jvp": lambda x: jvp(lambda y: y**3, (x,), (x,))[1],
    "scan": lambda x: scan(lambda c, v: (c * v, c + v), x[0], x[1:])[1],
    "elementwise loop": newton,
    "constant": lambda x: lucid.ones(3, dtype=F64),
    "identity": lambda x: x,
    "times zero": lambda x: x[:2] * 0,
    "detach": lambda x: x.detach() * x,
    "tril": lambda x: lucid.tril(lucid.outer(x, x)),
    "unfold": lambda x: x.unfold(0, 3, 1).sum(1),
    "diag": lucid.diag,
    "transpose": lambda x: x.reshape(2, 3).T.reshape(N) * x,
    "power": lambda x: (x.abs() + 1) ** x.roll(1),
    "to another type": lambda x: x.float() ** 2,
    "variance": lambda x: x.reshape(2, 3).var(1),
    "kron": lambda x: lucid.kron(x[:2], x[2:4]),
    "convolution": lambda x: P.convolution(
        x.reshape(1, 1, N), KERNEL, geometry=geometry((N,), (4,), (1,), ((1, 2),), (1,))
    ),
    "convolution with itself": lambda x: P.convolution(
        x.reshape(1, 1, N), x[:2].reshape(1, 1, 2), geometry=geometry((N,), (2,), (1,), ((0, 0),), (1,))
    ),
}  # fmt: skip

# Functions that choose by value: what they may choose from counts.
CAUTIOUS = {
    "where": lambda x: lucid.where(x > 0, x**2, lucid.flip(x, (0,))),
    "amax": lambda x: x.reshape(2, 3).amax(1),
    "max along": lambda x: x.reshape(2, 3).max(1).values,
    "maximum": lambda x: lucid.maximum(x, x.roll(1)),
    "sort rows": lambda x: lucid.sort(x.reshape(2, 3), 1)[0],
    "sort": lambda x: lucid.sort(x)[0],
    "relu": lambda x: lucid.relu(x - x.roll(1)),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "floor": lambda x: lucid.floor(3 * x) * x,
    "median": lambda x: x.median() * x,
    "cond": lambda x: cond(x.sum() > 0, lambda x: x**2, lambda x: lucid.flip(x, (0,)), x),
    "norm": lambda x: x / x.norm(),
    "atan2": lambda x: lucid.atan2(x[:3], x[3:]),
}
FUNCTIONS = EXACT | CAUTIOUS


def point(seed=0, size=N):
    return lucid.tensor(np.random.default_rng(seed).standard_normal(size))


def dense_jacobian(f, x):
    return jacfwd(f)(x).reshape(-1, x.numel()).numpy()


def dense_hessian(f, x):
    return hessian(f)(x).reshape(x.numel(), x.numel()).numpy()


def assert_holds(pattern, entries, size=0.0):
    missing = (np.abs(entries) > size) & ~pattern.matrix.toarray()
    assert not missing.any(), f"not in the pattern: {np.argwhere(missing).tolist()}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name):
    f = FUNCTIONS[name]
    pattern = jacobian_pattern(f, point())
    found = np.zeros(pattern.shape, bool)
    for seed in range(4):
        x = point(seed)
        want = dense_jacobian(f, x)
        assert_holds(pattern, want)
        found |= want != 0
        for mode in ("auto", "forward", "reverse", "mixed"):
            got = sparse_jacobian(f, x, pattern=pattern, mode=mode)
            assert isinstance(got, sp.csr_array)
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(
                got.toarray(), want, rtol=1e-6 if want.dtype == np.float32 else 1e-10, atol=1e-12
            )
    if name in EXACT:
        assert pattern.matrix.nnz == found.sum()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("outer", [lambda y: y.sum(), lambda y: (y**2).sum(), lambda y: lucid.tanh(y.sum())])
def test_hessian(name, outer):
    def f(x):
        return outer(FUNCTIONS[name](x))

    pattern = hessian_pattern(f, point())
    assert (pattern.matrix != pattern.matrix.T).nnz == 0
    for seed in range(3):
        x = point(seed)
        want = dense_hessian(f, x)
        assert_holds(pattern, want, 1e-13)
        got = sparse_hessian(f, x, pattern=pattern)
        np.testing.assert_allclose(got.toarray(), want, rtol=1e-5 if "type" in name else 1e-9, atol=1e-9)
        assert (got != got.T).nnz == 0  # to the last bit


HESSIANS = {
    "linear": (lambda x: (3 * x).sum() + x[0], 0),
    "one product": (lambda x: x[0] * x[1], 2),
    "bilinear": (lambda x: (x[:3] * x[3:]).sum(), 6),
    "squares": (lambda x: (x**2).sum(), 6),
    "rosenbrock": (rosenbrock, 16),
    "piecewise linear": (lambda x: lucid.relu(x).sum() + x.abs().sum() + x.amax(), 0),
    "quadratic form of a band": (lambda x: x @ (BAND @ x), 16),
    "unused elements": (lambda x: ((x[1:] * x[:-1]) ** 2)[:2].sum(), 7),
    "product of all": (lambda x: x.prod(), 30),
    "used through a mask": (lambda x: lucid.where(MASK, x**3, 0).square().sum(), 3),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian_pattern_is_exact(name):
    f, entries = HESSIANS[name]
    pattern = hessian_pattern(f, point())
    assert pattern.matrix.nnz == entries
    assert_holds(pattern, dense_hessian(f, point()), 1e-13)


def test_pattern_holds_where_the_traced_point_is_special():
    """At 0 all of these derivatives vanish, elsewhere they do not."""
    zero = lucid.zeros(N, dtype=F64)
    for f in (lambda x: x**2, lambda x: x * x.roll(1), lucid.relu, lambda x: lucid.where(x > 0, x.roll(1), 0)):
        pattern = jacobian_pattern(f, zero)
        assert_holds(pattern, dense_jacobian(f, point().abs()))


def test_any_shape_of_input_and_result():
    x = lucid.tensor(np.random.default_rng(0).standard_normal((2, 3)))

    def f(u):
        return (u * u.roll(1, 1)).reshape(3, 2, 1)

    got = sparse_jacobian(f, x)
    assert got.shape == (6, 6)
    np.testing.assert_allclose(got.toarray(), dense_jacobian(f, x))
    one = sparse_jacobian(lambda v: v * 2, lucid.tensor(3.0))
    assert one.toarray().tolist() == [[2.0]]
    assert sparse_jacobian(lambda v: v * 2, lucid.zeros(0)).shape == (0, 0)
    assert sparse_jacobian(lambda v: v[:0], lucid.ones(3)).shape == (0, 3)
    assert sparse_hessian(lambda v: (v**2).sum(), lucid.zeros(0)).shape == (0, 0)


def joined(case):
    """An operation as a function of all its float operands, in one vector."""
    x = np.concatenate([case.arrays[k].reshape(-1) for k in case.floats])

    def f(v):
        values = [from_numpy(np.asarray(a)) for a in case.arrays]
        start = 0
        for k in case.floats:
            shape = case.arrays[k].shape
            part = v[start : start + case.arrays[k].size].reshape(shape)
            values[k] = part.clone() if case.row.inplace else part
            start += case.arrays[k].size
        return lucid.cat([o.reshape(-1) for o in case.op(*values) if is_float(o)])

    return lucid.tensor(x), f


BY_VALUE = {"unique", "unique_consecutive"}  # the shape of the result depends on values


@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable and r.floats], ids=repr)
def test_every_operation(row):
    """The table of operations: no entry of any Jacobian is outside of its pattern."""
    tried = 0
    for sample in row.samples(Make("float64", row.domain)):
        case = Case(row, sample, "float64")
        if not case.floats or any(case.arrays[k].dtype != np.float64 for k in case.floats):
            continue
        x, f = joined(case)
        if not 0 < x.numel() <= 60 or tried == 4:
            continue
        tried += 1
        with np.errstate(all="ignore"):
            if row.name in BY_VALUE:
                with pytest.raises(NeedsValueError, match="give it as pattern="):
                    jacobian_pattern(f, x)
                continue
            want = dense_jacobian(f, x)
            finite = np.isfinite(want)
            pattern = jacobian_pattern(f, x)
            assert_holds(pattern, np.where(finite, want, 0))
            got = sparse_jacobian(f, x, pattern=pattern).toarray()
        if sample.smooth:
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-9, atol=1e-9)


# --- random programs -----------------------------------------------------------------------------

UNARY = ("sin", "tanh", "square", "neg", "relu", "floor")
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (2 + b**2),
    "maximum": lucid.maximum,
    "where": lambda a, b: lucid.where(a > b, a, b**2),
}
MOVES = {
    "roll": lambda a, k: a.roll(k),
    "flip": lambda a, k: lucid.flip(a, (0,)),
    "shift": lambda a, k: lucid.cat([a[k % N :], lucid.zeros(k % N, dtype=F64)]),
    "index": lambda a, k: a[lucid.tensor([(i * k) % N for i in range(N)])],
    "cumsum": lambda a, k: lucid.cumsum(a.reshape(2, 3), k % 2).reshape(N),
    "sum": lambda a, k: a.reshape(2, 3).sum(k % 2, keepdim=True).expand(2, 3).reshape(N),
    "band": lambda a, k: BAND @ a,
    "mask": lambda a, k: a * MASK.double(),
    "sort": lambda a, k: lucid.sort(a.reshape(3, 2), 1)[0].reshape(N),
    "transpose": lambda a, k: a.reshape(2, 3).T.reshape(N),
    "spread": lambda a, k: a[k % N] * a,
}


@st.composite
def programs(draw):
    """A list of steps, each an operation on values made before."""
    steps = []
    for made in range(1, draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(("unary", "binary", "move", "write")))
        first, second = draw(st.integers(0, made - 1)), draw(st.integers(0, made - 1))
        names = {"unary": UNARY, "binary": tuple(BINARY), "move": tuple(MOVES), "write": ("write",)}[kind]
        steps.append((kind, draw(st.sampled_from(names)), first, second, draw(st.integers(0, N - 1))))
    return steps


def run_program(steps, x):
    values = [x]
    for kind, name, first, second, k in steps:
        a, b = values[first], values[second]
        if kind == "unary":
            values.append(getattr(lucid, name)(a))
        elif kind == "binary":
            values.append(BINARY[name](a, b))
        elif kind == "move":
            values.append(MOVES[name](a, k))
        else:
            out = a.clone()
            out[k:] = b[: N - k] * 2
            values.append(out)
    return values[-1]


@given(programs())
@settings(max_examples=120, deadline=None)
def test_random_programs(steps):
    def f(x):
        return run_program(steps, x)

    pattern = jacobian_pattern(f, point())
    second = hessian_pattern(lambda x: f(x).square().sum(), point())
    for seed in range(2):
        x = point(seed)
        want = dense_jacobian(f, x)
        assert_holds(pattern, want)
        np.testing.assert_allclose(sparse_jacobian(f, x, pattern=pattern).toarray(), want, rtol=1e-9, atol=1e-9)
        curvature = dense_hessian(lambda x: f(x).square().sum(), x)
        assert_holds(second, curvature, 1e-9 * max(1.0, np.abs(curvature).max()))
        got = sparse_hessian(lambda x: f(x).square().sum(), x, pattern=second).toarray()
        np.testing.assert_allclose(got, curvature, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(curvature).max()))


# --- colourings ----------------------------------------------------------------------------------


@st.composite
def matrices(draw, square=False):
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    columns = rows if square else columns
    entries = draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)), max_size=40))
    out = np.zeros((rows, columns), bool)
    for i, j in entries:
        out[i, j] = True
    return sp.csr_array(out)


@given(matrices())
@settings(max_examples=200, deadline=None)
def test_columns_of_one_colour_share_no_row(matrix):
    colors = coloring.color_columns(matrix)
    dense = matrix.toarray()
    assert ((colors >= 0) == dense.any(0)).all()
    for c in range(coloring.count(colors)):
        assert dense[:, colors == c].sum(1).max() <= 1


@given(matrices(), st.sampled_from(("auto", "forward", "reverse", "mixed")))
@settings(max_examples=200, deadline=None)
def test_entries_are_read_off_products(matrix, mode):
    """A matrix with this pattern is found again from its products, however it is coloured."""
    sparsity = Sparsity(matrix)
    colors, _ = plan = sparsity._plan(mode)
    assert colors.num_columns == 0 or mode != "reverse"
    assert colors.num_rows == 0 or mode != "forward"
    full = matrix.toarray() * np.random.default_rng(0).standard_normal(matrix.shape)
    right = np.stack([full[:, colors.columns == c].sum(1) for c in range(colors.num_columns)] or [np.zeros(0)])
    left = np.stack([full[colors.rows == c].sum(0) for c in range(colors.num_rows)] or [np.zeros(0)])
    np.testing.assert_array_equal(sparsity._filled(plan, np.dtype(float), right, left).toarray(), full)


@given(matrices())
@settings(max_examples=100, deadline=None)
def test_auto_is_never_worse(matrix):
    sparsity = Sparsity(matrix)
    assert sparsity.num_colors <= min(sparsity.coloring(m).num_colors for m in ("forward", "reverse"))


def symmetric(matrix):
    both = sp.csr_array(matrix + matrix.T)
    both.sum_duplicates()
    return both


@given(matrices(square=True))
@settings(max_examples=200, deadline=None)
def test_symmetric_matrices_are_read_off_products(matrix):
    sparsity = Sparsity(matrix, symmetric=True)
    colors, _ = plan = sparsity._plan("auto")
    pattern = sparsity.matrix.toarray()
    values = np.random.default_rng(0).standard_normal(pattern.shape)
    full = pattern * (values + values.T)
    products = np.stack([full[:, colors.columns == c].sum(1) for c in range(colors.num_columns)] or [np.zeros(0)])
    np.testing.assert_array_equal(sparsity._filled(plan, np.dtype(float), products).toarray(), full)


@given(matrices(square=True), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_star_colouring(matrix, random):
    """Neighbours differ, and no path over four vertices has only two colours, in whatever order they are coloured."""
    graph = symmetric(matrix).toarray()
    np.fill_diagonal(graph, False)
    near = [np.flatnonzero(row).tolist() for row in graph]
    starts = np.concatenate(([0], np.cumsum([len(n) for n in near]))).tolist()
    order = list(range(len(near)))
    random.shuffle(order)
    colors = coloring._greedy_star(starts, [w for n in near for w in n], order, len(near))
    for v, own in enumerate(near):
        for w in own:
            assert colors[v] != colors[w]
            for x in set(near[w]) - {v}:
                for y in set(near[x]) - {v, w}:
                    assert len({colors[v], colors[w], colors[x], colors[y]}) > 2


def band(size, width):
    offsets = range(-width, width + 1)
    return sp.csr_array(sp.diags_array([np.ones(size - abs(k)) for k in offsets], offsets=offsets).astype(bool))


def grid(rows, columns, corners=False):
    lines = [band(n, 1) for n in (rows, columns)]
    if corners:
        return sp.csr_array(sp.kron(*lines).astype(bool))
    unit = [sp.eye_array(n) for n in (rows, columns)]
    return sp.csr_array((sp.kron(lines[0], unit[1]) + sp.kron(unit[0], lines[1])).astype(bool))


def arrow(size):
    out = np.eye(size, dtype=bool)
    out[0] = out[:, 0] = True
    return sp.csr_array(out)


COUNTS = {
    "diagonal": (band(50, 0), 1, 1),
    "tridiagonal": (band(50, 1), 3, 3),
    "five diagonals": (band(50, 2), 5, 5),
    "eleven diagonals": (band(200, 5), 11, 11),
    "five points": (grid(20, 30), 5, 5),
    "five points on a square": (grid(20, 20), 5, 5),
    "nine points": (grid(20, 21, corners=True), 9, 9),
    "thirteen points": (sp.csr_array((grid(30, 20) @ grid(30, 20)).astype(bool)), 13, 13),
    "arrow": (arrow(40), 3, 2),  # the full row in reverse, the rest in two
    "dense": (sp.csr_array(np.ones((7, 7), bool)), 7, 7),
    "nothing": (sp.csr_array((5, 5), dtype=bool), 0, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_number_of_colours(name):
    matrix, jacobian, of_hessian = COUNTS[name]
    assert Sparsity(matrix).num_colors == jacobian
    assert Sparsity(matrix, symmetric=True).num_colors == of_hessian


def test_wide_and_tall():
    assert Sparsity(np.ones((1, 50))).num_colors == 1
    assert Sparsity(np.ones((50, 1))).num_colors == 1
    assert (Sparsity(np.ones((1, 50))).colors == -1).all()
    assert (Sparsity(np.ones((50, 1))).row_colors == -1).all()


def test_full_rows_and_columns_are_measured_from_their_side():
    """A full row beside a full column takes n products in one mode, and three in two."""
    found = Sparsity(arrow(30))
    assert found.coloring("forward").num_colors == found.coloring("reverse").num_colors == 30
    mixed = found.coloring("mixed")
    assert (mixed.num_columns, mixed.num_rows) in ((2, 1), (1, 2))

    def f(x):
        return lucid.cat([(x**2).sum().reshape(1), x[1:] * x[0]])

    x = point(size=30)
    np.testing.assert_allclose(sparse_jacobian(f, x).toarray(), dense_jacobian(f, x))
    assert jacobian_pattern(f, x).num_colors == 3


def test_large_bands_are_coloured_as_well():
    pattern = jacobian_pattern(tridiagonal, lucid.ones(100_000))
    assert pattern.matrix.nnz == 3 * 100_000 - 4
    assert pattern.num_colors == 3
    second = hessian_pattern(rosenbrock, lucid.ones(100_000))
    assert second.matrix.nnz == 3 * 100_000 - 2
    assert second.num_colors == 3


# --- how it is computed --------------------------------------------------------------------------


class Spy:
    """Counts how often a function is called."""

    def __init__(self, func):
        self.func, self.calls = func, 0

    def __call__(self, *args):
        self.calls += 1
        return self.func(*args)


@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_one_forward_product_for_each_colour(chunk):
    x = point(size=20)
    pattern = jacobian_pattern(tridiagonal, x)
    spy = Spy(tridiagonal)
    got = sparse_jacobian(spy, x, pattern=pattern, mode="forward", chunk_size=chunk)
    assert spy.calls == {None: 1, 1: 3, 2: 2}[chunk]
    np.testing.assert_allclose(got.toarray(), dense_jacobian(tridiagonal, x))


def test_one_hessian_product_for_each_colour():
    x = point(size=20)
    pattern = hessian_pattern(rosenbrock, x)
    spy = Spy(rosenbrock)
    got = sparse_hessian(spy, x, pattern=pattern, chunk_size=1)
    assert spy.calls == pattern.num_colors == 3
    np.testing.assert_allclose(got.toarray(), dense_hessian(rosenbrock, x))
    spy.calls = 0
    sparse_hessian(spy, x, pattern=pattern)
    assert spy.calls == 1


def test_one_reverse_product_for_each_colour():
    pulls = []

    class Counted(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            pulls.append(g)
            return g * 2

    def f(x):
        return Counted.apply(tridiagonal(x))

    x = point(size=12)
    pattern = jacobian_pattern(f, x)
    pulls.clear()
    spy = Spy(f)
    got = sparse_jacobian(spy, x, pattern=pattern, mode="reverse", chunk_size=1)
    assert len(pulls) == pattern.coloring("reverse").num_colors == 3
    assert spy.calls == 1
    np.testing.assert_allclose(got.toarray(), jacrev(f)(x).numpy())


def test_patterns_and_colours_are_found_once(monkeypatch):
    x = point(size=20)
    pattern = hessian_pattern(rosenbrock, x)
    first = sparse_hessian(rosenbrock, x, pattern=pattern)
    monkeypatch.setattr("lucid.func.sparse.jacobians.color_symmetric", None)
    monkeypatch.setattr("lucid.func.sparse.jacobians.make_graph", None)
    again = sparse_hessian(rosenbrock, x, pattern=pattern)
    assert (first != again).nnz == 0
    # What a user does to a result changes neither the pattern nor the next result.
    first.data[:] = 0
    first.eliminate_zeros()
    assert (sparse_hessian(rosenbrock, x, pattern=pattern) != again).nnz == 0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array, Sparsity])
def test_patterns_that_users_give(make):
    x = point(size=8)
    given_by_user = make(band(8, 1).toarray())
    got = sparse_jacobian(tridiagonal, x, pattern=given_by_user, verify=True)
    np.testing.assert_allclose(got.toarray(), dense_jacobian(tridiagonal, x))
    # Half of a symmetric pattern is enough; a pattern that is too large does no harm.
    half = make(np.tril(band(8, 2).toarray()))
    got = sparse_hessian(rosenbrock, x, pattern=half, verify=True)
    np.testing.assert_allclose(got.toarray(), dense_hessian(rosenbrock, x), atol=1e-9)
    assert got.nnz == 8 + 2 * 7 + 2 * 6


def test_explicit_zeros_of_a_given_pattern_count():
    given_by_user = sp.csr_array((np.zeros(3), ([0, 1, 2], [0, 1, 2])), shape=(3, 3))
    assert Sparsity(given_by_user).matrix.nnz == 3


def test_verify_notices_missing_entries():
    x = point()
    diagonal = np.eye(N)
    wrong = sparse_jacobian(lambda v: v * v.roll(1), x, pattern=diagonal)
    assert wrong.nnz == N
    for mode in ("forward", "reverse"):
        with pytest.raises(ValueError, match="does not hold all entries"):
            sparse_jacobian(lambda v: v * v.roll(1), x, pattern=diagonal, mode=mode, verify=True)
    with pytest.raises(ValueError, match="does not hold all entries"):
        sparse_hessian(lambda v: (v * v.roll(1)).sum(), x, pattern=diagonal, verify=True)


def test_a_wrong_rule_would_be_noticed(monkeypatch):
    """The tests above can fail: a rule that forgets an operand gives a pattern that does not hold all entries."""
    right = patterns.transfer
    monkeypatch.setattr(patterns, "transfer", lambda a, k: None if a.prim.name == "slice" else right(a, k))
    pattern = jacobian_pattern(tridiagonal, point())
    with pytest.raises(AssertionError, match="not in the pattern"):
        assert_holds(pattern, dense_jacobian(tridiagonal, point()))


def test_aux():
    def f(x):
        return x**2, {"double": x * 2, "name": "f"}

    x = point()
    for mode in ("forward", "reverse"):
        got, aux = sparse_jacobian(f, x, mode=mode, has_aux=True)
        np.testing.assert_allclose(got.toarray(), np.diag(2 * x.numpy()))
        np.testing.assert_array_equal(aux["double"].numpy(), 2 * x.numpy())
        assert aux["name"] == "f"
    for power in (2, 1):  # without entries there are no products
        got, aux = sparse_hessian(lambda v, p=power: ((v**p).sum(), v * 3), x, has_aux=True)
        assert got.nnz == {2: N, 1: 0}[power]
        np.testing.assert_array_equal(aux.numpy(), 3 * x.numpy())
    assert jacobian_pattern(f, x, has_aux=True).matrix.nnz == N


@pytest.mark.parametrize(("kind", "found"), [("float64", "float64"), ("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32")])  # fmt: skip
def test_types(kind, found):
    x = lucid.tensor([1.0, 2.0, 3.0], dtype=getattr(lucid, kind))
    assert sparse_jacobian(lambda v: v[1:] * v[:-1], x, verify=True).dtype == found
    got = sparse_hessian(lambda v: (v[1:] * v[:-1]).sum(), x, verify=True)
    assert got.dtype == found
    np.testing.assert_array_equal(got.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_complex_results_of_real_inputs():
    x = point()
    want = np.diag(1j * np.exp(1j * x.numpy()))
    np.testing.assert_allclose(sparse_jacobian(lambda v: lucid.exp(1j * v), x).toarray(), want)
    total = sparse_jacobian(lambda v: lucid.exp(1j * v).sum(), x, verify=True)  # one row, but forward
    np.testing.assert_allclose(total.toarray(), want.sum(0, keepdims=True))
    with pytest.raises(ValueError, match='use mode="forward"'):
        sparse_jacobian(lambda v: lucid.exp(1j * v), x, mode="reverse")
    parts = sparse_jacobian(lambda v: lucid.exp(1j * v).imag, x)
    np.testing.assert_allclose(parts.toarray(), np.diag(np.cos(x.numpy())))


def test_closed_over_tensors():
    x = point()
    fixed = lucid.tensor([1.0, 0.0, 2.0, 0.0, 0.0, 3.0], dtype=F64)
    assert jacobian_pattern(lambda v: v * fixed, x).matrix.nnz == 3
    # What somebody trains may have any value later.
    trained = lucid.zeros(N, dtype=F64, requires_grad=True)
    pattern = jacobian_pattern(lambda v: v * trained, x)
    assert pattern.matrix.nnz == N
    with lucid.no_grad():
        trained += 1
    np.testing.assert_array_equal(sparse_jacobian(lambda v: v * trained, x, pattern=pattern).toarray(), np.eye(N))
    assert trained.grad is None


def test_input_stays_as_it_is():
    x = point()
    x.requires_grad_()
    got = sparse_jacobian(lambda v: v**2, x)
    assert x.grad is None
    np.testing.assert_allclose(got.toarray(), np.diag(2 * x.detach().numpy()))
    np.testing.assert_array_equal(sparse_jacobian(lambda v: v * 2, [1.0, 2.0]).toarray(), 2 * np.eye(2))


def test_operations_nobody_declared_are_looked_at():
    """A linear primitive without a rule: its pattern comes from numbers put through it."""
    weights = sp.random_array((90, 200), density=0.02, rng=1).toarray()
    run = lambda v: weights @ v
    np.testing.assert_array_equal(coloring.probed(run, 200, 90).toarray(), weights != 0)
    assert coloring.movement(run, 200, 90) is None
    order = np.random.default_rng(0).integers(0, 50, 30)
    assert coloring.movement(lambda v: 2 * v[order], 50, 30).tolist() == order.tolist()
    dense = np.ones((600, 600))
    assert coloring.probed(lambda v: dense @ v, 600, 600) is None  # too many products


@pytest.mark.parametrize("spec", list(permutations(("ij", "jk", "ik"))), ids=str)
def test_contractions_agree_with_probing(spec):
    """Labels say the same as numbers put through the operation do."""
    sizes = {"i": 2, "j": 3, "k": 4}
    a, b, out = spec
    other = RNG.standard_normal([sizes[c] for c in b]) * (RNG.uniform(size=[sizes[c] for c in b]) > 0.5)

    def f(x):
        return lucid.einsum(f"{a},{b}->{out}", x.reshape([sizes[c] for c in a]), lucid.tensor(other))

    x = point(size=int(np.prod([sizes[c] for c in a])))
    np.testing.assert_array_equal(jacobian_pattern(f, x).matrix.toarray(), dense_jacobian(f, x) != 0)


def test_unbounded_loops():
    x = point()
    pattern = jacobian_pattern(smear, x)
    assert_holds(pattern, dense_jacobian(smear, x))
    assert pattern.matrix.nnz == N * N  # any number of turns mixes everything
    assert jacobian_pattern(newton, x).matrix.nnz == N


# --- errors --------------------------------------------------------------------------------------

ERRORS = {
    "a tuple": (TypeError, "one tensor, not tuple", lambda x: sparse_jacobian(lambda v: (v, v), x)),
    "a number": (TypeError, "one tensor, not float", lambda x: sparse_jacobian(lambda v: 2.0, x)),
    "no aux": (TypeError, "pair \\(value, aux\\)", lambda x: sparse_jacobian(lambda v: v, x, has_aux=True)),
    "integer result": (TypeError, "the result has dtype", lambda x: sparse_jacobian(lambda v: v.argmax(), x)),
    "integer input": (TypeError, "the input has dtype", lambda x: sparse_jacobian(lambda v: v, lucid.tensor([1, 2]))),
    "complex input": (TypeError, "view_as_real", lambda x: sparse_jacobian(lambda v: v, lucid.tensor([1j]))),
    "columns": (ValueError, "6 elements", lambda x: sparse_jacobian(lambda v: v, x, pattern=np.eye(3))),
    "rows": (ValueError, "2 rows", lambda x: sparse_jacobian(lambda v: v, x, pattern=np.ones((2, N)))),
    "no matrix": (ValueError, "is a matrix", lambda x: sparse_jacobian(lambda v: v, x, pattern=np.ones(N))),
    "mode": (ValueError, "'sideways'", lambda x: sparse_jacobian(lambda v: v, x, mode="sideways")),
    "chunk": (ValueError, "chunk_size", lambda x: sparse_jacobian(lambda v: v, x, chunk_size=0)),
    "several numbers": (ValueError, "sparse_hessian: .* shape \\(6,\\)", lambda x: sparse_hessian(lambda v: v, x)),
    "not square": (ValueError, "square", lambda x: sparse_hessian(lambda v: v.sum(), x, pattern=np.ones((2, N)))),
    "branches": (NeedsValueError, "give it as pattern=", lambda x: jacobian_pattern(lambda v: v if v[0] > 0 else -v, x)),
    "random": (RuntimeError, "random numbers", lambda x: jacobian_pattern(lambda v: v * lucid.rand(N, dtype=F64), x)),
    "inside vmap": (RuntimeError, "inside of vmap", lambda x: vmap(lambda v: sparse_jacobian(lambda u: u, v))(x.reshape(1, N))),
    "not sparse": (ValueError, "not sparse: after index at .*test_sparse.py", lambda x: jacobian_pattern(lambda v: lucid.sort(v)[0], lucid.ones(20_000))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind, message, call = ERRORS[name]
    with pytest.raises(kind, match=message):
        call(point())


def test_branches_work_with_a_given_pattern():
    got = sparse_jacobian(lambda v: v * 3 if v[0] > 100 else v * 2, point(), pattern=np.eye(N))
    np.testing.assert_array_equal(got.toarray(), 2 * np.eye(N))


def test_repr():
    assert repr(Sparsity(band(9, 1))) == "Sparsity(shape=(9, 9), entries=25, colors=3)"


def test_scipy_loads_on_first_use():
    code = "import sys, lucid.func.sparse; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
