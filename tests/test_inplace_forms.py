"""In-place forms that are no elementwise functions: shapes changed in place, memory replaced, diagonals, Python code."""

import gc
import weakref

import numpy as np
import pytest

import lucid
from lucid import autograd, func

X = np.arange(6.0).reshape(2, 3) + 1
W = np.array([[2.0, -1.0], [0.5, 3.0], [1.0, -2.0]])

FORMS = {
    "t_": ((), lambda x: x.t()),
    "transpose_": ((0, 1), lambda x: x.transpose(0, 1)),
    "swapaxes_": ((0, 1), lambda x: x.transpose(0, 1)),
    "swapdims_": ((1, 0), lambda x: x.transpose(0, 1)),
    "unsqueeze_": ((1,), lambda x: x.unsqueeze(1)),
    "squeeze_": ((), lambda x: x.squeeze()),
    "as_strided_": (((3, 2), (1, 3)), lambda x: x.as_strided((3, 2), (1, 3))),
}


def leaf():
    return lucid.tensor(X, requires_grad=True)


@pytest.fixture(params=sorted(FORMS))
def form(request):
    """The in-place form, and the function that it is the form of."""
    args, plain = FORMS[request.param]

    def change(x):
        return getattr(x, request.param)(*args)

    change.__qualname__ = request.param
    return change, plain


def weighted(x):
    return (x * lucid.tensor(W).reshape(-1)[: x.numel()].reshape(x.shape) * x).sum()


def test_the_tensor_itself_changes(form):
    change, plain = form
    x = lucid.tensor(X)
    want = plain(lucid.tensor(X)).tolist()
    assert change(x) is x and x.tolist() == want and not x.is_view()


def test_gradients_pass(form):
    change, plain = form
    x = leaf()
    got = autograd.grad(weighted(change(x * 2)), [x], create_graph=True)[0]
    want = autograd.grad(weighted(plain(x * 2)), [x], create_graph=True)[0]
    assert got.tolist() == want.tolist()
    assert autograd.grad(got.sum(), [x])[0].tolist() == autograd.grad(want.sum(), [x])[0].tolist()


def test_writes_to_a_view_that_changed_reach_its_base(form):
    change, plain = form

    def written(x):
        a = lucid.cat([x, x]) * 1
        v = a[1:3]
        change(v)
        v.mul_(v.detach().clone())
        a[0].mul_(x[1])
        v.add_(1)
        return weighted(a[:2]) + (a * a).sum() + (v**3).sum()

    def anew(x):
        a = lucid.cat([x, x])
        middle = a[1:3] * a[1:3].detach() + 1
        top = a[:1] * x[1]
        whole = lucid.cat([top, middle, a[3:]])
        return weighted(whole[:2]) + (whole * whole).sum() + (plain(middle) ** 3).sum()

    x = leaf()
    np.testing.assert_allclose(
        autograd.grad(written(x), [x])[0].numpy(), autograd.grad(anew(x), [x])[0].numpy(), rtol=1e-12
    )
    fixed = lucid.tensor(X)
    np.testing.assert_allclose(func.grad(written)(fixed).numpy(), func.grad(anew)(fixed).numpy(), rtol=1e-12)
    both = [func.jvp(f, (fixed,), (fixed,))[1].item() for f in (written, anew)]
    np.testing.assert_allclose(*both, rtol=1e-12)
    np.testing.assert_allclose(func.make_graph(written)(fixed)(fixed * 2).item(), anew(fixed * 2).item(), rtol=1e-12)
    many = lucid.stack([fixed, fixed * 2])
    np.testing.assert_allclose(func.vmap(written)(many).numpy(), func.vmap(anew)(many).numpy(), rtol=1e-12)
    each = [func.vmap(func.grad(f))(many).numpy() for f in (written, anew)]
    np.testing.assert_allclose(*each, rtol=1e-12)


def test_a_view_that_changed_follows_its_base():
    x = leaf()
    a = x * 1
    v = a[0]
    v.unsqueeze_(0)
    a.mul_(3)
    assert v.shape == (1, 3) and v._base is a
    assert autograd.grad(v.sum(), [x])[0].tolist() == [[3, 3, 3], [0, 0, 0]]


def test_values_that_the_tape_saved_are_guarded(form):
    change, _ = form
    x = leaf()
    a = x * 2
    loss = (a * a).sum()
    change(a)
    if a.shape == x.shape:
        return  # squeeze found nothing to do
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()
    b = x.exp()
    change(b)
    with pytest.raises(RuntimeError, match="overwritten"):
        b.sum().backward()


def test_leaves_that_require_grad_are_refused(form):
    change, _ = form
    x = leaf()
    with pytest.raises(RuntimeError, match="leaf"):
        change(x)
    with pytest.raises(RuntimeError, match="leaf"):
        change(x[:])
    assert x.shape == (2, 3)


def test_a_leaf_under_no_grad_changes_if_no_graph_needs_its_shape():
    x = leaf()
    loss = (x * 2).sum()
    many = lucid.cat([x, x, x])
    with lucid.no_grad(), pytest.raises(RuntimeError, match="present shape"):
        x.t_()
    del loss
    with lucid.no_grad(), pytest.raises(RuntimeError, match="present shape"):
        x.t_()
    del many
    with lucid.no_grad():
        x.t_()
    assert x.is_leaf and x.requires_grad
    (x * lucid.tensor(W)).sum().backward()
    assert x.grad.tolist() == W.tolist()


def test_results_keep_their_history_under_no_grad():
    x = leaf()
    a = x * 2
    with lucid.no_grad():
        a.t_()
    (a * lucid.tensor(W)).sum().backward()
    assert x.grad.tolist() == (2 * W.T).tolist()


def test_views_made_under_no_grad_are_refused():
    x = leaf() * 1
    with lucid.no_grad():
        v = x[0]
    with pytest.raises(RuntimeError, match="no_grad"):
        v.unsqueeze_(0)


def test_tensors_with_views_are_refused(form):
    change, _ = form
    for x in (lucid.tensor(X), leaf() * 1, lucid.tensor(np.stack([X, X]))[0]):
        shape = x.shape
        v = x[0]
        with pytest.raises(RuntimeError, match="has views"):
            change(x)
        assert x.shape == shape
        del v
        change(x)


def test_nobody_is_asked_where_no_other_tensor_shares_the_memory(form, monkeypatch):
    """All objects of the process are gone through only where something else knows the memory."""
    change, _ = form
    monkeypatch.setattr(gc, "get_referrers", None)
    for x in (lucid.tensor(X), leaf() * 1):
        x.add_(1)
        part = x[0]
        del part
        change(x)
    part = x[:1]
    with pytest.raises(TypeError, match="not callable"):
        change(x)
    assert part.is_view()


def test_detached_tensors_change_alone():
    x = leaf()
    y = x.detach().t_()
    assert x.shape == (2, 3) and y.shape == (3, 2)
    y[0, 1] = 100
    assert x[1, 0].item() == 100


def test_hooks_and_retained_gradients():
    x = leaf()
    seen = []
    a = x * 1
    a.register_hook(lambda g: seen.append(g.shape))
    a.retain_grad()
    a.t_()
    (a * lucid.tensor(W)).sum().backward()
    assert seen == [(2, 3)]
    assert a.grad.tolist() == W.tolist()


def test_no_cycles_are_left(form):
    change, _ = form
    gc.collect()
    gc.disable()
    try:
        x = leaf()
        a = x * 2
        v = (x * 3)[:]
        change(a)
        change(v)
        refs = [weakref.ref(a), weakref.ref(v), weakref.ref(a.grad_fn)]
        del a, v
        assert [r() for r in refs] == [None] * 3
    finally:
        gc.enable()


def test_expanded_tensors_may_be_transposed():
    x = lucid.tensor([1.0, 2.0]).expand(3, 2)
    assert x.t_().tolist() == [[1, 1, 1], [2, 2, 2]]


def test_changes_inside_transforms_keep_the_outer_tensor():
    x = lucid.tensor(np.stack([X, X]))
    out = func.vmap(lambda a: a.t_() * 2 if a.t_().shape else a)(x.clone())
    assert out.shape == (2, 2, 3) and x.shape == (2, 2, 3)


# --- memory -------------------------------------------------------------------------------------------


def test_resize_keeps_what_fits():
    x = lucid.arange(6)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_(5).tolist() == [0, 1, 2, 3, 0]
    assert x.resize_(0).shape == (0,)
    assert x.resize_as_(lucid.zeros(2, 3)).shape == (2, 3)


def test_resize_refuses():
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf().resize_(2)
    with pytest.raises(RuntimeError, match="requires grad"):
        (leaf() * 2).resize_(2)
    with pytest.raises(RuntimeError, match="a view"):
        lucid.zeros(3)[1:].resize_(1)
    with pytest.raises(RuntimeError, match="detached"):
        lucid.zeros(3).detach().resize_(1)
    x = lucid.zeros(3)
    v = x[1:]
    with pytest.raises(RuntimeError, match="has views"):
        x.resize_(2)
    assert v.shape == (2,)
    with pytest.raises(RuntimeError, match="NumPy"):
        lucid.from_numpy(np.zeros(2)).resize_(3)
    with pytest.raises(RuntimeError, match="not a shape"):
        lucid.zeros(2).resize_(-1)


def test_resize_is_noticed_by_saved_values():
    w = lucid.ones(3, requires_grad=True)
    c = lucid.ones(3)
    loss = (w * c).sum()
    c.resize_(2)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_set_shares_memory_and_versions():
    x, y = lucid.zeros(3), lucid.tensor([1.0, 2.0])
    assert x.set_(y) is x and x.tolist() == [1, 2]
    w = lucid.ones(2, requires_grad=True)
    loss = (w * y).sum()
    x[0] = 7
    assert y.tolist() == [7, 2]
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()
    assert x.set_().shape == (0,)
    assert lucid.zeros(1).set_(y, 0, (2, 1), (1, 1)).tolist() == [[7], [2]]
    assert lucid.zeros(1).set_(y, 1, (1,)).tolist() == [2]


def test_set_is_noticed_by_saved_values():
    w, c = lucid.ones(3, requires_grad=True), lucid.ones(3)
    loss = (w * c).sum()
    c.set_(lucid.zeros(3))
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_set_refuses():
    y = lucid.ones(2)
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf().set_(y)
    with pytest.raises(RuntimeError, match="requires grad"):
        y.set_(lucid.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="int64"):
        y.set_(lucid.tensor([1]))
    with pytest.raises(RuntimeError, match="a view"):
        y[:1].set_(lucid.ones(2))
    with pytest.raises(TypeError, match="tensor"):
        y.set_([1.0])


# --- elements -----------------------------------------------------------------------------------------


def test_scans_and_triangles_on_the_tape():
    x = leaf()
    a = x * 2
    a.cumsum_(1)
    a[:, :2].tril_()
    a.triu_(-1)
    want = autograd.grad((np.array([[1, 0, 1], [1, 1, 1]]) * (x * 2).cumsum(1) ** 2).sum(), [x])[0]
    assert autograd.grad((a * a).sum(), [x])[0].tolist() == want.tolist()


def test_matrix_products_on_the_tape():
    x, w = leaf(), lucid.tensor(W, requires_grad=True)
    a = x @ w
    a.addmm_(x, w, beta=2, alpha=3)
    got = autograd.grad((a * a).sum(), [x, w])
    want = autograd.grad(((5 * (x @ w)) ** 2).sum(), [x, w])
    for g, v in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), v.numpy(), 1e-12)
    with pytest.raises(RuntimeError, match="shape"):
        lucid.zeros(2).addmm_(x.detach(), w.detach())


def test_fill_diagonal():
    x = leaf()
    a = x * 2
    a.fill_diagonal_(9)
    assert autograd.grad(a.sum(), [x])[0].tolist() == [[0, 2, 2], [2, 0, 2]]
    for shape, match in (((3,), "2 dimensions"), ((2, 3, 3), "one size")):
        with pytest.raises(RuntimeError, match=match):
            lucid.zeros(*shape).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="int64"):
        lucid.zeros(2, 2, dtype=lucid.int64).fill_diagonal_(1.5)
    with pytest.raises(ValueError, match="outside the range"):
        lucid.zeros(2, 2, dtype=lucid.uint8).fill_diagonal_(300)


def test_python_functions_of_elements():
    x = lucid.tensor([1, 2, 3])
    assert x.apply_(lambda a: a * a) is x and x.tolist() == [1, 4, 9]
    assert x.map_(lucid.tensor([10]), max).tolist() == [10, 10, 10]
    with pytest.raises(RuntimeError, match="derivative"):
        leaf().apply_(abs)
    with pytest.raises(RuntimeError, match="derivative"):
        lucid.zeros(2, 3, dtype=lucid.float64).map_(leaf(), max)
    with pytest.raises(RuntimeError, match="broadcast"):
        x.map_(lucid.zeros(2, 3, dtype=lucid.int64), max)

    def fails(a):
        raise KeyError(a)

    with pytest.raises(KeyError):
        x.apply_(fails)
    assert x.tolist() == [10, 10, 10]


def test_polygamma_in_place():
    x = lucid.tensor([1.0, 2.0], dtype=lucid.float64)
    want = lucid.polygamma(1, x).tolist()
    assert x.polygamma(1).tolist() == want
    assert x.polygamma_(1) is x and x.tolist() == want


def test_results_that_do_not_fit_are_refused():
    x = lucid.tensor([1, 2])
    with pytest.raises(RuntimeError, match="cannot be written"):
        x.ldexp_(lucid.tensor([1, 1]))
    assert x.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="shape"):
        lucid.zeros(2).heaviside_(lucid.zeros(3, 2))
