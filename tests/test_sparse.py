"""Sparse tensors: values against scipy.sparse and dense tensors, derivatives, transforms, memory and errors."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import lucid
from lucid import sparse
from lucid.autograd import gradcheck, gradgradcheck
from lucid.backends.numpy import sparse as reference
from lucid.core.arrays import question
from lucid.core.primitive import P
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, make_graph, vmap

RNG = np.random.default_rng(0)
distinct_positions, are_compressed = question("distinct_positions"), question("are_compressed")
LAYOUTS = ("coo", "uncoalesced", "csr", "csc")


def matrix(rows=5, columns=4, density=0.4, dtype=np.float64):
    return sp.random(rows, columns, density, format="csr", random_state=1, dtype=np.float64).astype(dtype)


def made(layout, values, like):
    """A sparse tensor of a layout with these values, one for each entry of a matrix."""
    if layout == "csr":
        return lucid.sparse_csr_tensor(like.indptr, like.indices, values, like.shape)
    if layout == "csc":
        numbers = sp.csr_array((np.arange(1, like.nnz + 1), like.indices, like.indptr), shape=like.shape).tocsc()
        return lucid.sparse_csc_tensor(
            numbers.indptr, numbers.indices, values[lucid.tensor(numbers.data.astype(np.int64) - 1)], like.shape
        )
    coo = like.tocoo()
    order = np.arange(like.nnz) if layout == "coo" else np.random.default_rng(3).permutation(like.nnz)
    indices = np.stack([coo.row, coo.col]).astype(np.int64)[:, order]
    picked = values[lucid.tensor(order)]
    return lucid.sparse_coo_tensor(indices, picked, like.shape, is_coalesced=layout == "coo")


def tensor(*shape, requires_grad=False):
    return lucid.tensor(RNG.standard_normal(shape), requires_grad=requires_grad)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_have_scipys_values_and_right_gradients(layout):
    a = matrix()
    values = lucid.tensor(a.data, requires_grad=True)
    x, y, v = tensor(4, 3, requires_grad=True), tensor(2, 5, requires_grad=True), tensor(4, requires_grad=True)
    build = lambda values: made(layout, values, a)
    np.testing.assert_allclose((build(values) @ x).detach().numpy(), a @ x.detach().numpy())
    np.testing.assert_allclose((y @ build(values)).detach().numpy(), y.detach().numpy() @ a)
    np.testing.assert_allclose((build(values).T @ y.T).detach().numpy(), a.T @ y.detach().numpy().T)
    np.testing.assert_allclose(lucid.mv(build(values), v).detach().numpy(), a @ v.detach().numpy())
    for f, other in (
        (lambda s, x: build(s) @ x, x),
        (lambda s, x: x @ build(s), y),
        (lambda s, x: build(s).T @ x, tensor(5, 2, requires_grad=True)),
        (lambda s, x: build(s) @ x, v),
        (lambda s, x: lucid.sparse.addmm(x, build(s), x[:4]), tensor(5, 3, requires_grad=True)),
        (lambda s, x: (build(s) * x).to_dense(), tensor(5, 4, requires_grad=True)),
        (lambda s, x: (build(s) * x + x).tanh(), tensor(1, 4, requires_grad=True)),
        (lambda s, x: (build(s) / x).to_dense(), lucid.tensor(1.5, dtype=lucid.float64, requires_grad=True)),
        (lambda s, x: build(s) - x, tensor(5, 4, requires_grad=True)),
        (lambda s, x: sparse.sampled_addmm(build(s), x, x.T[:, :4]).to_dense(), tensor(5, 3, requires_grad=True)),
    ):
        assert gradcheck(f, (values, other))
        assert gradgradcheck(f, (values, other))
        assert gradcheck(f, (values, other.detach()))
        assert gradcheck(f, (values.detach(), other))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_and_normalisations(layout):
    a = matrix(6, 5)
    values = lucid.tensor(a.data, requires_grad=True)
    s = made(layout, values, a)
    for dim in (0, 1, (0, 1), None):
        found = sparse.sum(s, dim)
        found = found.to_dense() if found.layout is not lucid.strided else found
        axis = None if dim is None or isinstance(dim, tuple) else dim
        np.testing.assert_allclose(found.detach().numpy(), np.asarray(a.sum(axis)).reshape(found.shape))
    masked = np.where(a.toarray() != 0, a.toarray(), -np.inf)
    for dim in (0, 1):
        powers = np.exp(masked - masked.max(dim, keepdims=True, initial=-1e9))
        with np.errstate(all="ignore"):
            want = np.nan_to_num(powers / powers.sum(dim, keepdims=True))
        np.testing.assert_allclose(sparse.softmax(s, dim).to_dense().detach().numpy(), want, atol=1e-12)
        logs = sparse.log_softmax(s, dim).to_sparse().to_dense().detach().numpy()
        np.testing.assert_allclose(np.where(want > 0, np.exp(logs), 0), want, atol=1e-12)
        for f in (sparse.softmax, sparse.log_softmax):
            normalised = lambda v, f=f, dim=dim: f(made(layout, v, a), dim).to_dense()
            assert gradcheck(normalised, (values,))
            assert gradgradcheck(normalised, (values,))
    assert gradcheck(lambda v: sparse.sum(made(layout, v, a), 0).to_dense(), (values,))
    large = made(layout, values * 1e4, a)
    assert bool(sparse.softmax(large, 1).to_dense().isfinite().all())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transforms_go_through(layout):
    a, x = matrix(), tensor(4, 3)
    values = lucid.tensor(a.data)
    f = lambda v, x: (made(layout, v, a) @ x).sin().sum()
    dense = lambda v, x: (made(layout, v, a).to_dense() @ x).sin().sum()
    for which in (0, 1):
        np.testing.assert_allclose(grad(f, which)(values, x).numpy(), grad(dense, which)(values, x).numpy(), rtol=1e-9)
        np.testing.assert_allclose(
            hessian(f, which)(values, x).numpy(), hessian(dense, which)(values, x).numpy(), rtol=1e-9, atol=1e-12
        )
        product = lambda v, x: made(layout, v, a) @ x
        np.testing.assert_allclose(
            jacfwd(product, which)(values, x).numpy(), jacrev(product, which)(values, x).numpy(), atol=1e-12
        )
    tangents = (tensor(a.nnz), tensor(4, 3))
    np.testing.assert_allclose(
        jvp(f, (values, x), tangents)[1].numpy(), jvp(dense, (values, x), tangents)[1].numpy(), rtol=1e-9
    )
    many, xs = tensor(6, a.nnz), tensor(6, 4, 3)
    for in_dims, args in (((0, None), (many, x)), ((None, 0), (values, xs)), ((0, 0), (many, xs))):
        found = vmap(lambda v, x: made(layout, v, a) @ x, in_dims)(*args)
        for i in range(6):
            one = [t if d is None else t[i] for t, d in zip(args, in_dims, strict=True)]
            np.testing.assert_allclose(found[i].numpy(), a_with(a, one[0]) @ one[1].numpy(), atol=1e-12)
        per_example = vmap(grad(f, (0, 1)), in_dims)(*args)
        one = [t if d is None else t[2] for t, d in zip(args, in_dims, strict=True)]
        for got, want in zip(per_example, grad(f, (0, 1))(*one), strict=True):
            np.testing.assert_allclose(got[2].numpy(), want.numpy(), atol=1e-12)
    nested = vmap(vmap(lambda v, x: made(layout, v, a) @ x, (None, 0)), (0, None))(many, xs)
    np.testing.assert_allclose(nested[1, 2].numpy(), a_with(a, many[1]) @ xs[2].numpy(), atol=1e-12)
    program = make_graph(lambda v: made(layout, v, a) @ x)(values)
    np.testing.assert_allclose(program(values).numpy(), a @ x.numpy(), atol=1e-12)
    s = made(layout, values, a)
    by_matrix = grad(lambda m: (m @ x).sin().sum())(s)  # a sparse tensor is a container of its values
    assert by_matrix.layout is s.layout
    np.testing.assert_allclose(
        by_matrix._values().numpy(), grad(f)(s._values(), x).numpy() if layout == "coo" else by_matrix._values().numpy()
    )
    _, change = jvp(lambda m: m @ x, (s,), (s,))
    np.testing.assert_allclose(change.numpy(), a @ x.numpy(), atol=1e-12)


def a_with(a, values):
    return sp.csr_array((values.numpy(), a.indices, a.indptr), shape=a.shape)


def test_patterns_that_are_batched():
    crow = np.array([[0, 1, 3], [0, 2, 3], [0, 0, 3]])
    col = np.array([[1, 0, 2], [0, 2, 1], [0, 1, 2]])
    values, x, y = tensor(3, 3), tensor(3, 3, 2), tensor(3, 2, 2)
    for prim, args in (
        (P.csr_matmul, (values, x)),
        (lambda *given: P.csr_matmul_back(*given, columns=3), (values, y)),
        (P.csr_sample, (y, x)),
    ):
        found = vmap(prim)(lucid.tensor(crow), lucid.tensor(col), *args)
        for i in range(3):
            one = prim(lucid.tensor(crow[i]), lucid.tensor(col[i]), *[a[i] for a in args])
            np.testing.assert_allclose(found[i].numpy(), one.numpy(), atol=1e-12)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 15, 16, 33, 64, 100])
@pytest.mark.parametrize("density", [0.05, 0.3])
def test_loops_are_the_reference(density, width, dtype, index):
    a = sp.random(300, 200, density, format="csr", random_state=2).astype(dtype)
    crow, col = a.indptr.astype(index), a.indices.astype(index)
    x, y = RNG.standard_normal((200, width)).astype(dtype), RNG.standard_normal((300, width)).astype(dtype)
    tolerance = {"rtol": 2e-5 if dtype == "float32" else 1e-12, "atol": 1e-5 if dtype == "float32" else 1e-12}
    for prim, args, params in (
        (P.csr_matmul, (a.data, x), {}),
        (P.csr_matmul_back, (a.data, y), {"columns": 200}),
        (P.csr_sample, (y, x), {}),
    ):
        slow = {"csr_matmul": reference.product, "csr_matmul_back": reference.back, "csr_sample": reference.sampled}
        found = prim.kernel(crow, col, *args, **params)
        np.testing.assert_allclose(found, slow[prim.name](crow, col, *args, **params), **tolerance)
        strided = [np.stack([i, i], -1)[..., 0] for i in (crow, col, *args)]
        np.testing.assert_array_equal(prim.kernel(*strided, **params), found)
        before = lucid.get_num_threads()
        try:
            for threads in (1, 2):
                lucid.set_num_threads(threads)
                np.testing.assert_array_equal(prim.kernel(crow, col, *args, **params), found)
        finally:
            lucid.set_num_threads(before)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 16])
def test_rows_of_any_length_are_the_reference(width, dtype, index):
    lengths = RNG.permutation([*range(70), 500, 1023, 1024, 1025, 2000] * 6)
    columns = [np.sort(RNG.choice(2000, n, replace=False)) for n in lengths]
    crow, col = np.cumsum([0, *lengths]).astype(index), np.concatenate(columns).astype(index)
    values, x, y = (RNG.standard_normal(s).astype(dtype) for s in (len(col), (2000, width), (len(lengths), width)))
    tolerance = {"rtol": 1e-4 if dtype == "float32" else 1e-11, "atol": 1e-4 if dtype == "float32" else 1e-12}
    for prim, slow, args, params in (
        (P.csr_matmul, reference.product, (values, x), {}),
        (P.csr_matmul_back, reference.back, (values, y), {"columns": 2000}),
        (P.csr_sample, reference.sampled, (y, x), {}),
    ):
        found = prim.kernel(crow, col, *args, **params)
        np.testing.assert_allclose(found, slow(crow, col, *args, **params), **tolerance)
        before = lucid.get_num_threads()
        try:
            for threads in (1, 2, 3):
                lucid.set_num_threads(threads)
                np.testing.assert_array_equal(prim.kernel(crow, col, *args, **params), found)
        finally:
            lucid.set_num_threads(before)


def test_positions_that_change_or_lie_outside_are_refused():
    crow, col, values, x = lucid.tensor([0, 1, 2]), lucid.tensor([1, 0]), lucid.tensor([1.0, 2.0]), lucid.ones(2, 1)
    a = lucid.sparse_csr_tensor(crow, col, values, (2, 2))
    col[0] = 5
    for use in (lambda: a @ x, lambda: a.t() @ x, a.to_dense, a.to_sparse_coo):
        with pytest.raises(RuntimeError, match="written to in place"):
            use()
    b = lucid.eye(2).to_sparse()
    b._indices()[0, 0] = 7
    with pytest.raises(RuntimeError, match="written to in place"):
        b @ x

    @lucid.compile
    def product(crow, col):
        return lucid.sparse_csr_tensor(crow, col, values, (2, 2)) @ x

    assert product(crow, lucid.tensor([1, 0])).tolist() == [[1.0], [2.0]]
    with pytest.raises((RuntimeError, IndexError), match=r"out of range|outside"):
        product(crow, lucid.tensor([1, 9]))
    with pytest.raises(RuntimeError, match="must begin"):
        product(lucid.tensor([0, 9, 2]), lucid.tensor([1, 0]))


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("columns", [3, 40, 100_000])
def test_order_of_entries(count, columns):
    row, col = RNG.integers(0, 7, count), RNG.integers(0, min(columns, 50), count)
    order, crow = P.coo_order.kernel(row, col, rows=7, columns=columns)
    np.testing.assert_array_equal(order, np.lexsort((col, row)))
    np.testing.assert_array_equal(crow, np.searchsorted(np.sort(row), np.arange(8)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "shape", [(50,), (3000,), (7, 5), (7, 5000), (3000, 40), (3000, 3000), (40, 30, 50), (9, 1 << 40)]
)
@pytest.mark.parametrize("count", [0, 1, 9, 20_000])
@pytest.mark.parametrize("kind", ["random", "in order", "each once"])
def test_distinct_positions(kind, count, shape, threads):
    indices = np.stack([np.random.default_rng(d).integers(0, n, count) for d, n in enumerate(shape)])
    keys = np.ravel_multi_index(indices, shape)
    if kind == "in order":
        indices = indices[:, np.argsort(keys)]
    elif kind == "each once":
        indices = indices[:, np.sort(np.unique(keys, return_index=True)[1])]
    keys = np.ravel_multi_index(indices, shape)
    before = lucid.get_num_threads()
    try:
        lucid.set_num_threads(threads)
        found, order, starts = distinct_positions(indices, shape)
    finally:
        lucid.set_num_threads(before)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    unique, many = np.unique(keys, return_counts=True)
    np.testing.assert_array_equal(np.ravel_multi_index(found, shape), unique)
    assert (starts is None) == (len(unique) == len(keys))
    if starts is not None:
        np.testing.assert_array_equal(np.diff(starts), many)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_columns_out_of_order_are_found_wherever_they_stand(index):
    a = sp.random(2000, 60, 0.5, format="csr", random_state=2)
    crow, col = a.indptr.astype(index), a.indices.astype(index)
    assert are_compressed(crow, col, *a.shape)
    for k in (*range(0, a.nnz, 4999), a.nnz - 1):
        for value in (-1, 60, col[k - 1] if k and k not in crow else -1):
            wrong = col.copy()
            wrong[k] = value
            assert not are_compressed(crow, wrong, *a.shape), (k, value)


def test_matrices_of_scipy_share_memory():
    a = matrix(dtype=np.float32)
    s = sparse.from_scipy(a)
    assert np.shares_memory(s.values().numpy(), a.data) and np.shares_memory(s.col_indices().numpy(), a.indices)
    back = sparse.to_scipy(s)
    assert np.shares_memory(back.data, a.data)
    np.testing.assert_array_equal(back.toarray(), a.toarray())
    for format in ("coo", "csc", "dok", "lil"):
        np.testing.assert_array_equal(sparse.from_scipy(a.asformat(format)).to_dense().numpy(), a.toarray())
    twice = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_array_equal(sparse.from_scipy(twice).to_dense().numpy(), [[2.0, 4.0]])
    assert twice.nnz == 3


def test_forms():
    dense = lucid.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], requires_grad=True)
    s = dense.to_sparse()
    assert (s.layout, s.is_sparse, s._nnz(), s.shape, s.sparse_dim()) == (lucid.sparse_coo, True, 3, (2, 3), 2)
    (s.to_dense() * lucid.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    np.testing.assert_array_equal(dense.grad.numpy(), [[0.0, 2.0, 0.0], [4.0, 0.0, 6.0]])
    np.testing.assert_array_equal(s.to_sparse_csr().to_sparse_coo().indices().numpy(), s.indices().numpy())
    hybrid = lucid.tensor([[1.0, 2.0], [0.0, 0.0]]).to_sparse(1)
    assert (hybrid._nnz(), hybrid.dense_dim()) == (1, 1)
    np.testing.assert_array_equal((hybrid * 2).to_dense().numpy(), [[2.0, 4.0], [0.0, 0.0]])
    for other in (copy.deepcopy(s.detach()), pickle.loads(pickle.dumps(s.detach().to_sparse_csr()))):
        np.testing.assert_array_equal(other.to_dense().numpy(), dense.detach().numpy())
    assert repr(s.detach().to_sparse_csr()) == (
        "Tensor(crow_indices=Tensor([0, 1, 3]),\n       col_indices=Tensor([1, 0, 2]),\n"
        "       values=Tensor([2., 3., 4.]), size=(2, 3), nnz=3, layout=lucid.sparse_csr)"
    )
    leaf = lucid.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), requires_grad=True)
    (leaf @ lucid.ones(2)).sum().backward()
    assert leaf.grad.is_sparse and leaf.is_leaf
    np.testing.assert_array_equal(leaf.grad.coalesce().values().numpy(), [1.0, 1.0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic_and_parts(layout):
    a, b = matrix(), matrix(density=0.3).multiply(2).tocsr()
    s, t = made(layout, lucid.tensor(a.data), a), made(layout, lucid.tensor(b.data), b)
    full, other = a.toarray(), b.toarray()
    for got, want in (
        (s + t, full + other),
        (s - t, full - other),
        (s * t, full * other),
        (s * 3, full * 3),
        (-s / 2, -full / 2),
        (s.abs().sqrt(), np.sqrt(abs(full))),
        (s.T, full.T),
        (s[2], full[2]),
        (s[-1], full[-1]),
        (s[1:3], full[1:3]),
        (s[:, 1:], full[:, 1:]),
        (s[:, 2], full[:, 2]),
        (s[4:], full[4:]),
        (lucid.cat([s, t], 0), np.concatenate([full, other])),
        (s @ t.T, full @ other.T),
        (s.T @ t, full.T @ other),
        (s.float(), full.astype(np.float32)),
    ):
        np.testing.assert_allclose(got.to_dense().numpy(), want, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(s[2, 1].numpy(), full[2, 1])
    np.testing.assert_allclose((s + lucid.ones(5, 4, dtype=lucid.float64)).numpy(), full + 1)
    picked = lucid.tensor(other).sparse_mask(s)
    np.testing.assert_allclose(picked.to_dense().numpy(), np.where(full != 0, other, 0))
    values = lucid.tensor(a.data, requires_grad=True)
    assert gradcheck(lambda v: (made(layout, v, a) @ t.T).to_dense(), (values,))
    assert gradcheck(lambda v: (made(layout, v, a) * t + made(layout, v, a)).to_dense(), (values,))
    assert gradcheck(lambda v: made(layout, v, a)[1:3].to_dense(), (values,))
    assert gradcheck(lambda v: (made(layout, v, a).T ** 2).to_dense(), (values,))


def test_entries_at_one_position_add_up():
    s = lucid.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 2))
    assert not s.is_coalesced()
    with pytest.raises(RuntimeError, match="call coalesce"):
        s.values()
    np.testing.assert_array_equal(s.coalesce().values().numpy(), [3.0, 3.0])
    np.testing.assert_array_equal((s**2).to_dense().numpy(), [[0.0, 9.0], [9.0, 0.0]])
    values = lucid.tensor([1.0, 2.0, 3.0], dtype=lucid.float64, requires_grad=True)
    build = lambda v: lucid.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], v, (2, 2))
    assert gradcheck(lambda v: (build(v) ** 3).to_dense(), (values,))
    assert gradcheck(lambda v: build(v).coalesce().values(), (values,))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 4)])
def test_no_entries(shape):
    s = lucid.zeros(shape).to_sparse()
    for one in (s, s.to_sparse_csr()):
        assert one._nnz() == 0
        np.testing.assert_array_equal((one @ lucid.ones(shape[1], 2)).numpy(), np.zeros((shape[0], 2)))
        np.testing.assert_array_equal((one + one).to_dense().numpy(), np.zeros(shape))
        assert sparse.sum(one).item() == 0
        assert sparse.softmax(one, 1)._nnz() == 0


def test_complex_numbers():
    a = matrix() + 1j * matrix().multiply(3)
    a = a.tocsr()
    values, x = (
        lucid.tensor(a.data, requires_grad=True),
        lucid.tensor(RNG.standard_normal((4, 2)) + 1j, requires_grad=True),
    )
    assert gradcheck(lambda v, x: made("csr", v, a) @ x, (values, x))
    assert gradcheck(lambda v, x: made("csr", v, a).T @ (made("csr", v, a) @ x), (values, x))


def test_errors_name_what_is_wrong():
    s = lucid.eye(3).to_sparse()
    with pytest.raises(NotImplementedError, match="value at 0 is not 0"):
        lucid.exp(s)
    with pytest.raises(NotImplementedError, match="not defined for sparse tensors"):
        lucid.cumsum(s, 0)
    with pytest.raises(TypeError, match="call to_dense"):
        np.asarray(s)
    with pytest.raises(RuntimeError, match="compressed rows"):
        lucid.sparse_csr_tensor([0, 1, 3], [2, 3, 0], [1.0, 2.0, 3.0], (2, 3))
    with pytest.raises(RuntimeError, match="compressed rows"):
        lucid.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    with pytest.raises(IndexError, match="sparse_coo_tensor"):
        lucid.sparse_coo_tensor([[3]], [1.0], (2,))
    with pytest.raises(RuntimeError, match="does not fit"):
        lucid.sparse_coo_tensor([[1]], [1.0], (2, 2))
    with pytest.raises(RuntimeError, match="do not fit"):
        s @ lucid.ones(4)
    with pytest.raises(RuntimeError, match="no memory that can be written"):
        lucid.add(lucid.ones(3, 3), 1, out=s)
    with pytest.raises(RuntimeError, match="as many values"):
        vmap(lambda m: m @ lucid.ones(3))(s)
    with pytest.raises(RuntimeError, match="records no gradients"):
        sparse.to_scipy(s.requires_grad_())


# --- linear systems ------------------------------------------------------------------------------


def system(n=7, symmetric=False):
    a = sp.random(n, n, 0.3, random_state=4, format="csr") + 4 * sp.eye_array(n)
    found = sp.csr_array(a @ a.T if symmetric else a)
    found.sum_duplicates()
    return found


SOLVERS = {
    "spsolve": lambda a, b: sparse.linalg.spsolve(a, b),
    "cg": lambda a, b: sparse.linalg.cg(a, b, rtol=1e-13)[0],
    "gmres": lambda a, b: sparse.linalg.gmres(a, b, rtol=1e-13)[0],
    "bicgstab": lambda a, b: sparse.linalg.bicgstab(a, b, rtol=1e-13)[0],
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solutions_and_their_derivatives(name):
    a, solve = system(symmetric=name == "cg"), SOLVERS[name]
    values = lucid.tensor(a.data, requires_grad=True)
    b, c = tensor(7, requires_grad=True), tensor(7, 2, requires_grad=True)
    pattern = sparse.from_scipy(a)
    symmetric = pattern.with_values
    if name == "cg":
        symmetric = lambda v: (pattern.with_values(v) + pattern.with_values(v).T) * 0.5
    np.testing.assert_allclose(
        solve(symmetric(values), b).detach().numpy(), np.linalg.solve(a.toarray(), b.detach().numpy())
    )
    for right in (b, c):
        assert gradcheck(lambda v, r: solve(symmetric(v), r), (values, right))
    assert gradgradcheck(lambda v, r: solve(symmetric(v), r), (values, b))
    f = lambda v, r: solve(symmetric(v), r)
    dense = lambda v, r: lucid.linalg.solve(symmetric(v).to_dense(), r)
    many, rights = values.detach() * lucid.tensor([[1.0], [1.1], [0.9]], dtype=lucid.float64), tensor(3, 7)
    for in_dims, args in (
        ((0, None), (many, b.detach())),
        ((None, 0), (values.detach(), rights)),
        ((0, 0), (many, rights)),
    ):
        np.testing.assert_allclose(vmap(f, in_dims)(*args).numpy(), vmap(dense, in_dims)(*args).numpy(), rtol=1e-8)
    tangents = (tensor(a.nnz), tensor(7))
    point = (values.detach(), b.detach())
    np.testing.assert_allclose(jvp(f, point, tangents)[1].numpy(), jvp(dense, point, tangents)[1].numpy(), rtol=1e-8)
    loss = lambda v: (f(v, b.detach()) ** 2).sum()
    want = hessian(lambda v: (dense(v, b.detach()) ** 2).sum())(values.detach())
    np.testing.assert_allclose(hessian(loss)(values.detach()).numpy(), want.numpy(), rtol=1e-6, atol=1e-9)


def test_one_factorisation_serves_the_adjoint(monkeypatch):
    made_of = []
    factorized = reference._factorized
    monkeypatch.setattr(reference, "_factorized", lambda *a: made_of.append(a) or factorized(*a))
    reference._forget()
    a = sparse.from_scipy(system())
    a.requires_grad_()
    b = tensor(7, requires_grad=True)
    (sparse.linalg.spsolve(a, b) ** 2).sum().backward()
    sparse.linalg.spsolve(a, b)
    assert len(made_of) == 1
    with lucid.no_grad():
        a.values()[0] += 1.0
    assert (
        np.abs(sparse.to_scipy(a.detach()) @ sparse.linalg.spsolve(a, b).detach().numpy() - b.detach().numpy()).max()
        < 1e-12
    )
    assert len(made_of) == 2


def test_solvers_take_what_is_given():
    a, b = system(), tensor(7)
    want = np.linalg.solve(a.toarray(), b.numpy())
    np.testing.assert_allclose(sparse.linalg.spsolve(a, b).numpy(), want)
    np.testing.assert_allclose(sparse.linalg.spsolve(lucid.tensor(a.toarray()), b).numpy(), want)
    np.testing.assert_allclose(sparse.spsolve(sparse.from_scipy(a).to_sparse_coo(), b).numpy(), want)
    inverse = lucid.tensor(np.diag(1 / a.diagonal()))
    for aid in (inverse, inverse.to_sparse(), sp.diags_array(1 / a.diagonal())):
        x, info = sparse.linalg.bicgstab(a, b, M=aid, rtol=1e-12)
        np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
        assert info.item() == 0
    x, info = sparse.linalg.gmres(a, b, x0=lucid.tensor(want), rtol=1e-6)
    np.testing.assert_allclose(x.numpy(), want)
    hard = sp.csr_array(np.diag(np.logspace(0, 8, 400)))
    right = lucid.ones(400, dtype=lucid.float64, requires_grad=True)
    with pytest.raises(sparse.linalg.LinAlgError, match="did not converge"):
        sparse.linalg.cg(hard, right, maxiter=1, rtol=1e-14)[0].sum().backward()
    hard = sp.csr_array(np.diag(np.arange(1.0, 101)))
    assert sparse.linalg.cg(hard, lucid.ones(100, dtype=lucid.float64), maxiter=3)[1].item() == 3
    with pytest.raises(sparse.linalg.LinAlgError, match="singular"):
        sparse.linalg.spsolve(
            sp.csr_array(np.diag([1.0, 0.0]) + np.array([[0.0, 1.0], [0.0, 0.0]])), lucid.ones(2, dtype=lucid.float64)
        )
    with pytest.raises(RuntimeError, match="square"):
        sparse.linalg.spsolve(lucid.ones(2, 3).to_sparse(), lucid.ones(2))
    with pytest.raises(RuntimeError, match="does not fit"):
        sparse.linalg.spsolve(a, lucid.ones(3))


# --- compressed columns, and other shapes --------------------------------------------------------


def test_layouts_become_each_other():
    a = matrix()
    values = lucid.tensor(a.data)
    for one in LAYOUTS:
        for other in (lucid.sparse_coo, lucid.sparse_csr, lucid.sparse_csc):
            s = made(one, values, a)
            found = s.to_sparse(layout=other)
            assert found.layout is other and found.coalesce().values().shape == (a.nnz,)
            np.testing.assert_array_equal(found.to_dense().numpy(), a.toarray())
            assert gradcheck(lambda v, one=one, other=other: made(one, v, a).to_sparse(layout=other).coalesce().values(),
                             (lucid.tensor(a.data, requires_grad=True),))  # fmt: skip
    across = made("csr", values, a).T
    assert across.is_sparse_csc and across.T.is_sparse_csr and not across.is_sparse_csr
    assert across.values() is made("csr", values, a).values() or lucid.equal(across.values(), values)
    columns = lucid.tensor(a.toarray()).to_sparse_csc()
    want = a.tocsc()
    np.testing.assert_array_equal(columns.ccol_indices().numpy(), want.indptr)
    np.testing.assert_array_equal(columns.row_indices().numpy(), want.indices)
    np.testing.assert_array_equal(columns.values().numpy(), want.data)
    with pytest.raises(RuntimeError, match=r"ccol_indices\(\) is for tensors of layout lucid.sparse_csc"):
        columns.T.ccol_indices()
    with pytest.raises(RuntimeError, match="shape \\(3, 2\\) in compressed columns: ccol_indices must have 3 entries"):
        lucid.sparse_csc_tensor([0, 1], [0], [1.0], (3, 2))


@pytest.mark.parametrize("width", [1, 7, 8, 20])
def test_columns_times_factors_of_any_width(width):
    a = matrix()
    values = lucid.tensor(a.data, requires_grad=True)
    x, y = tensor(4, width, requires_grad=True), tensor(width, 5, requires_grad=True)
    np.testing.assert_allclose((made("csc", values, a) @ x).detach().numpy(), a @ x.detach().numpy())
    assert gradcheck(lambda v, x: made("csc", v, a) @ x, (values, x))
    assert gradcheck(lambda v, y: y @ made("csc", v, a), (values, y))


def test_scipys_columns_are_taken_as_they_lie():
    a = matrix().tocsc()
    s = sparse.from_scipy(a)
    assert s.layout is lucid.sparse_csc and np.shares_memory(s.values().numpy(), a.data)
    back = sparse.to_scipy(s)
    assert back.format == "csc" and np.shares_memory(back.data, a.data)
    np.testing.assert_array_equal(back.toarray(), a.toarray())


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dia", "lil", "bsr", "dok"])
def test_a_tensor_times_scipys_matrix_keeps_its_gradient(layout):
    a = sp.csr_array(matrix()).asformat(layout)
    x = tensor(3, 5, requires_grad=True)
    y = x @ a
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy() @ a.toarray())
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(a.toarray().sum(1), (3, 5)))
    assert (lucid.ones(2, 5) @ a).dtype == lucid.float64  # as beside an array


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_shapes_and_slices(layout):
    a = matrix()
    dense = a.toarray()
    values = lucid.tensor(a.data, requires_grad=True)
    build = lambda v: made(layout, v, a)
    chosen = lucid.tensor([3, 0, 3])
    cases = {
        "unsqueeze": (lambda s: s.unsqueeze(1), dense[:, None]),
        "last": (lambda s: s.unsqueeze(-1), dense[..., None]),
        "reshape": (lambda s: s.reshape(2, 10), dense.reshape(2, 10)),
        "squeeze": (lambda s: s.unsqueeze(0).squeeze(), dense),
        "rows": (lambda s: s.index_select(0, chosen), dense[[3, 0, 3]]),
        "columns": (lambda s: s.index_select(1, chosen), dense[:, [3, 0, 3]]),
        "none": (lambda s: s.index_select(1, chosen[:0]), dense[:, :0]),
        "indexed": (lambda s: s[chosen], dense[[3, 0, 3]]),
        "stack": (lambda s: lucid.stack([s, s * 2], 1), np.stack([dense, dense * 2], 1)),
        "scaled": (lambda s: lucid.add(s, s, alpha=3), dense * 4),
    }
    for name, (f, want) in cases.items():
        found = f(build(values))
        assert isinstance(found, type(build(values))) and found.shape == want.shape, name
        np.testing.assert_allclose(found.to_dense().detach().numpy(), want, err_msg=name)
        if want.size:
            assert gradcheck(lambda v, f=f: f(build(v)).to_dense(), (values,)), name
    for f, want in ((lambda s: s.norm(), np.linalg.norm(dense)), (lambda s: s.norm(1), np.abs(dense).sum()),
                    (lambda s: s.norm(keepdim=True), np.linalg.norm(dense, keepdims=True))):  # fmt: skip
        np.testing.assert_allclose(f(build(values)).detach().numpy(), want)
        assert gradcheck(lambda v, f=f: f(build(v)), (values,))
    assert build(values).any().item() is True
    with pytest.raises(NotImplementedError, match="does not become one of shape"):
        lucid.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)).reshape(6)


def test_a_batch_of_sparse_matrices_times_dense_ones():
    a = RNG.standard_normal((3, 4, 5)) * (RNG.random((3, 4, 5)) < 0.4)
    y = tensor(3, 5, 2, requires_grad=True)
    s = lucid.tensor(a).to_sparse()
    np.testing.assert_allclose(lucid.bmm(s, y).detach().numpy(), a @ y.detach().numpy())
    values = s.values().clone().requires_grad_()
    assert gradcheck(lambda v, y: lucid.bmm(s.with_values(v), y), (values, y))


def test_entries_with_dimensions_of_their_own():
    s = lucid.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert s.unsqueeze(-1).shape == (3, 2, 1) and s.unsqueeze(-1).dense_dim() == 2
    assert s.unsqueeze(1).sparse_dim() == 2
    assert s.index_select(0, lucid.tensor([2, 1])).to_dense().tolist() == [[3, 4], [0, 0]]
    np.testing.assert_allclose(s.norm().item(), 30**0.5)


def test_resizing_in_place():
    s = lucid.eye(2).to_sparse()
    assert s.sparse_resize_((3, 4), 2, 0) is s and s.shape == (3, 4)
    np.testing.assert_array_equal(s.to_dense().numpy(), np.eye(3, 4) * [1, 1, 0, 0])
    with pytest.raises(RuntimeError, match="can grow"):
        s.sparse_resize_((2, 4), 2, 0)
    assert s.sparse_resize_and_clear_((5, 2, 3), 1, 2).shape == (5, 2, 3) and s._nnz() == 0
    assert s.to_dense().shape == (5, 2, 3)


# --- in place ------------------------------------------------------------------------------------

WRITES = {
    "mul_": lambda s: s.mul_(3.0), "div_": lambda s: s.div_(4.0), "neg_": lambda s: s.neg_(), "sin_": lambda s: s.sin_(),
    "square_": lambda s: s.square_(), "add_": lambda s: s.add_(s * 2), "sub_": lambda s: s.sub_(s, alpha=0.5),
    "mul_ by dense": lambda s: s.mul_(lucid.arange(20.0, dtype=lucid.float64).reshape(5, 4)),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", WRITES)
def test_writes_that_keep_the_entries_are_in_the_memory_of_the_values(layout, name):
    a = matrix()
    values = lucid.tensor(a.data)
    s = made(layout, values, a)
    dense, held = lucid.tensor(a.toarray()), s.values()
    expected = WRITES[name](dense)
    assert WRITES[name](s) is s
    np.testing.assert_allclose(s.to_dense().numpy(), expected.numpy(), atol=1e-12)
    assert s.values() is held
    assert gradcheck(lambda v: WRITES[name](made(layout, v * 1, a)).to_dense(), (values.clone().requires_grad_(),))


@pytest.mark.parametrize("layout", ["coo", "uncoalesced", "csr", "csc"])
def test_writes_that_add_entries(layout):
    a, b = matrix(), matrix(density=0.7)
    s, other = made(layout, lucid.tensor(a.data), a), sparse.from_scipy(b.copy())
    s.add_(other)
    np.testing.assert_allclose(s.to_dense().numpy(), (a + b).toarray(), atol=1e-12)
    s.copy_(other)
    np.testing.assert_allclose(s.to_dense().numpy(), b.toarray())
    other.mul_(2)
    np.testing.assert_allclose(s.to_dense().numpy(), other.to_dense().numpy() / 2)
    leaf = made(layout, lucid.tensor(a.data), a).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.add_(other)
    f = lambda v, w: made(layout, v * 1, a).add_(other.with_values(w)).to_dense()
    assert gradcheck(f, [lucid.tensor(x, requires_grad=True) for x in (a.data, b.data)])


def test_writes_that_do_not_fit_are_refused():
    s = sparse.from_scipy(matrix())
    for wrong, match in (
        (lambda: s.add_(lucid.ones(5, 4, dtype=lucid.float64)), "dense tensor of shape"),
        (lambda: s.copy_(lucid.ones(5, 4)), "copied into a sparse one"),
        (lambda: s.cos_(), "not 0"),
        (lambda: lucid.tensor([[0, 2]]).to_sparse().div_(4), "cannot be written into a tensor of"),
    ):
        with pytest.raises((RuntimeError, NotImplementedError), match=match):
            wrong()
    leaf = sparse.from_scipy(matrix()).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    (leaf * 2).to_dense().sum().backward()
    with lucid.no_grad():
        leaf.grad.mul_(0.5)
        leaf.sub_(leaf.grad)
    np.testing.assert_array_equal(leaf.grad.values().numpy(), 1.0)
    np.testing.assert_allclose(leaf.detach().values().numpy(), matrix().data - 1)
    dense = lucid.ones(5, 4, dtype=lucid.float64).mul_(s)
    np.testing.assert_array_equal(dense.numpy(), matrix().toarray())


def test_writes_in_a_compiled_program():
    a = matrix()

    def f(v):
        return sparse.from_scipy(a).with_values(v * 1).mul_(3.0).sin_().to_dense()

    v = lucid.tensor(a.data)
    np.testing.assert_allclose(lucid.compile(f)(v).numpy(), f(v).numpy(), atol=1e-12)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_tensors_like_sparse_ones(layout):
    a = matrix()
    s = made(layout, lucid.tensor(a.data), a)
    zeros = lucid.zeros_like(s, dtype=lucid.float32)
    assert zeros.layout == s.layout and zeros._nnz() == 0 and zeros.dtype is lucid.float32 and zeros.shape == s.shape
    assert s._nnz() == a.nnz and lucid.empty_like(s).layout == s.layout
    if layout == "coo":
        with pytest.raises(NotImplementedError, match="to_dense"):
            lucid.ones_like(s)
    else:
        found = lucid.full_like(s, 2.0, requires_grad=True)
        np.testing.assert_array_equal(found.to_dense().detach().numpy(), (a.toarray() != 0) * 2.0)
        assert found.requires_grad and lucid.ones_like(s).values().sum().item() == a.nnz


def test_entries_are_joined_along_their_own_dimensions():
    x, y = lucid.tensor([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]]), lucid.tensor([[0.0], [5.0], [6.0]])
    f = lambda x, y: lucid.cat([x.to_sparse(1), y.to_sparse(1), x.to_sparse(1)], 1).to_dense()
    np.testing.assert_array_equal(f(x, y).numpy(), lucid.cat([x, y, x], 1).numpy())
    assert gradcheck(lambda v: lucid.cat([x.double().to_sparse(1).with_values(v)] * 2, 1).to_dense(),
                     (tensor(2, 2, requires_grad=True),))  # fmt: skip


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_singular_values_by_products(shape):
    import lucid.torch as torch

    a = sp.random(*shape, 0.1, format="csr", random_state=3).toarray() * np.linspace(0.1, 3, shape[1]) ** 3
    u, s, v = torch.svd_lowrank(torch.tensor(a).to_sparse_csr(), q=20, niter=8)
    np.testing.assert_allclose(s[:6].numpy(), np.linalg.svd(a)[1][:6], rtol=1e-6)
    best = torch.svd_lowrank(torch.tensor(a), q=6)
    first = (u[:, :6] * s[:6]) @ v[:, :6].mT
    np.testing.assert_allclose(first.numpy(), ((best[0] * best[1]) @ best[2].mT).numpy(), atol=1e-6)
    centred = torch.pca_lowrank(torch.tensor(a).to_sparse(), q=20, niter=8)[1]
    np.testing.assert_allclose(centred[:6].numpy(), np.linalg.svd(a - a.mean(0))[1][:6], rtol=1e-6)
