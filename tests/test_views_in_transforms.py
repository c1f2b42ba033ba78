"""Views, writes and cuts inside the transforms mean what they mean in eager code, for every way to make a view."""

import numpy as np
import pytest

import lucid
from lucid.func import grad, hessian, jacfwd, jvp, linearize, make_graph, vmap

rng = np.random.default_rng(3)
X = rng.uniform(0.5, 2.0, (3, 4, 4))
T = rng.standard_normal((3, 4, 4))


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values), **kwargs)


def top(y):
    return y.sum(1).argmax()


# Each makes a view of a matrix of shape (4, 4).
VIEWS = {
    "int": lambda y: y[1],
    "negative": lambda y: y[-1, 2],
    "numpy int": lambda y: y[np.int64(2)],
    "tensor": lambda y: y[t(2)],
    "own tensor": lambda y: y[top(y)],
    "two own tensors": lambda y: y[top(y), top(y.t())],
    "own tensor and a slice": lambda y: y[1:, y[0].argmax()],
    "own tensor and None": lambda y: y[None, top(y), ..., None],
    "view of own tensor": lambda y: y[top(y)][1:].view(3, 1),
    "own tensor of a view": lambda y: y.t()[1:][y[0, :3].argmax()],
    "slice": lambda y: y[1:3, ::2],
    "tensor bounds": lambda y: y[t(1) : t(3)],
    "None": lambda y: y[:, None],
    "Ellipsis": lambda y: y[..., 0],
    "select": lambda y: y.select(1, 2),
    "select by tensor": lambda y: y.select(1, top(y)),
    "narrow": lambda y: y.narrow(0, 1, 2),
    "narrow by tensor": lambda y: y.narrow(1, y[0, :2].argmax(), 2),
    "unbind": lambda y: y.unbind(1)[2],
    "split": lambda y: y.split(3)[1],
    "chunk": lambda y: y.chunk(2, 1)[0],
    "tensor_split": lambda y: y.tensor_split(3)[1],
    "unfold": lambda y: y.unfold(0, 2, 2),
    "diagonal": lambda y: y.diagonal(1),
    "as_strided": lambda y: y.as_strided((2, 3), (5, 1), 1),
    "view_as_complex": lambda y: lucid.view_as_complex(y.view(4, 2, 2)),
    "real": lambda y: lucid.view_as_complex(y.view(4, 2, 2)).real,
    "imag": lambda y: lucid.view_as_complex(y.view(4, 2, 2)).imag,
    "view_as_real": lambda y: lucid.view_as_real(lucid.view_as_complex(y.view(4, 2, 2))),
    "expand": lambda y: y.expand(1, 4, 4),
    "T": lambda y: y.T,
    "mT": lambda y: y.mT,
    "H": lambda y: y.H,
    "swapaxes": lambda y: y.swapaxes(0, 1),
    "movedim": lambda y: y.movedim(0, 1),
    "squeeze": lambda y: y[:1].squeeze(0),
    "unsqueeze": lambda y: y.unsqueeze(1),
    "reshape": lambda y: y.reshape(2, 8),
    "reshape to a copy": lambda y: y.t().reshape(16),
    "flatten": lambda y: y.flatten(),
    "view": lambda y: y.view(-1),
    "contiguous": lambda y: y.contiguous(),
    "contiguous copy": lambda y: y.t().contiguous(),
    "expanded and contiguous": lambda y: y[:1].expand(4, 4).contiguous(),
    "to": lambda y: y.to(y.dtype),
    "to a copy": lambda y: y.to(y.dtype, copy=True),
    "alias of detached": lambda y: y.detach(),
    "detached view": lambda y: y[1].detach(),
    "view of detached": lambda y: y.detach()[:, 1],
    "detached view at own tensor": lambda y: y[top(y)].detach(),
    "view at own tensor of detached": lambda y: y.detach()[top(y)],
}


# Of several views from one call none may be written while gradients are recorded.
OF_MANY = ("unbind", "split", "chunk", "tensor_split")


def magnitude(v):
    return (v * v.conj()).real if v.is_complex() else v * v


def write_view_read_base(view):
    def f(x):
        y = x * 1
        view(y).mul_(2)
        v = view(y)
        v.add_(1.5)
        return (y**3).sum() + (magnitude(v) ** 2).sum()

    return f


def write_base_read_view(view):
    def f(x):
        y = x * 1
        v = view(y)
        y.mul_(x)
        y[1:].add_(x[0])
        return (magnitude(v) ** 2).sum() + (y * y).sum()

    return f


def write_both(view):
    def f(x):
        y = x * 1
        v = view(y)
        w = view(y)
        v.mul_(x.sum())
        y.mul_(x)
        w.sub_(x[0, 0])
        w.copy_(w * 2)
        return (magnitude(v) ** 2).sum() + (y**3).sum() + magnitude(w).sum()

    return f


PROGRAMS = {"through the view": write_view_read_base, "to the base": write_base_read_view, "both": write_both}


def agree(got, want, what, tolerance=1e-9):
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(want), rtol=tolerance, atol=tolerance, err_msg=what)


def direction(f, x, v):
    return jvp(f, (x,), (v,))[1]


def pushed(f, i=0):
    """Forward derivatives by central differences; exact enough for a smooth function of a few numbers."""
    h = 1e-6
    return ((f(t(X[i] + h * T[i])) - f(t(X[i] - h * T[i]))) / (2 * h)).item()


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_views_inside_transforms(name, program):
    f = PROGRAMS[program](VIEWS[name])
    xs, ts, x, v = t(X), t(T), t(X[0]), t(T[0])
    values = [f(t(X[i])).item() for i in range(3)]
    agree(vmap(f)(xs), values, "vmap")
    agree(make_graph(f)(xs[1])(x), values[0], "make_graph")
    agree(jvp(f, (x,), (v,))[0], values[0], "the value of jvp")
    if name in OF_MANY and program != "to the base":
        agree(direction(f, x, v), pushed(f), "jvp", 1e-5)
        return
    grads = np.stack([grad(f)(t(X[i])).numpy() for i in range(3)])
    if "detached" not in name:
        np.testing.assert_allclose((grads[0] * T[0]).sum(), pushed(f), rtol=1e-5)
    along = (grads * T).sum((1, 2))
    agree(direction(f, x, v), along[0], "jvp")
    agree(linearize(f, x)[1](v), along[0], "linearize")
    agree(jacfwd(f)(x), grads[0], "jacfwd")
    agree(vmap(grad(f))(xs), grads, "vmap(grad)")
    agree(grad(lambda a: vmap(f)(a).sum())(xs), grads, "grad(vmap)")
    agree(vmap(lambda a, b: direction(f, a, b))(xs, ts), along, "vmap(jvp)")
    agree(direction(vmap(f), xs, ts), along, "jvp(vmap)")
    agree(make_graph(grad(f))(xs[1])(x), grads[0], "make_graph(grad)")
    agree(grad(make_graph(f)(xs[1]))(x), grads[0], "grad(make_graph)")
    agree(direction(make_graph(f)(xs[1]), x, v), along[0], "jvp(make_graph)")
    agree(vmap(make_graph(f)(xs[1]))(xs), values, "vmap(make_graph)")
    if "detached" in name:
        return
    by_reverse = grad(lambda a: (grad(f)(a) * v).sum())(x).numpy()
    agree(jvp(grad(f), (x,), (v,))[1], by_reverse, "jvp(grad)")
    agree(grad(lambda a: direction(f, a, v))(x), by_reverse, "grad(jvp)")


def test_positions_of_a_view_stay():
    def f(x):
        y = x * 1
        i = top(y)
        v = y[i]
        i.mul_(0)
        v.mul_(3)
        return (y * y).sum() + v.sum()

    values = [f(t(a)).item() for a in X]
    agree(vmap(f)(t(X)), values, "vmap")
    agree(make_graph(f)(t(X[1]))(t(X[0])), values[0], "make_graph")
    agree(vmap(grad(f))(t(X)), np.stack([grad(f)(t(a)).numpy() for a in X]), "vmap(grad)")


def test_bounds_of_a_slice_stay():
    n = t(2)
    x = t([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[:n]
    n.add_(1)
    y.mul_(2)
    v.sum().backward()
    assert x.grad.tolist() == [2, 2, 0]


def test_a_view_at_batched_positions_of_a_tensor_made_inside():
    def f(x, i):
        out = lucid.zeros(3, dtype=lucid.float64)
        part = out[i]
        out.add_(1)
        part.add_(x)
        out[i].mul_(x)
        return out, part

    xs, places = t([2.0, 3.0, 4.0]), t([0, 2, 1])
    got = vmap(f)(xs, places)
    want = [f(x, i) for x, i in zip(xs, places, strict=True)]
    for g, *w in zip(got, *want, strict=True):
        agree(g, np.stack([a.numpy() for a in w]), "vmap")


# Cuts.


def detached_in_place(x):
    y = x * 2
    y.detach_()
    return (y * x).sum()


def detached_before_a_write(x):
    y = x * 2
    y.detach_()
    y.mul_(x)
    return (y * x).sum()


def a_view_keeps_its_history(x):
    y = x * 2
    v = y[:2]
    y.detach_()
    return (y * x).sum() + (v * v).sum()


def a_write_through_a_view_of_what_was_detached(x):
    y = x * 2
    v, w = y[:2], y[1:]
    y.detach_()
    v.mul_(x[:2])
    return (y * y).sum() + (w * x[1:]).sum() + v.sum()


def a_write_to_what_was_detached(x):
    y = x * 2
    v = y[:2]
    y.detach_()
    y.add_(x)
    return (v * v).sum()


def a_constant_written_to_what_was_detached(x):
    y = x * 2
    v = y[:2]
    y.detach_()
    y.mul_(3)
    return (v * x[:2]).sum()


def detached_after_a_write(x):
    y = x * 2
    used, unused = y[:2], y[1:]
    y.mul_(x)
    total = used.sum()
    y.detach_()
    return total + (used * used).sum() + (unused * x[1:]).sum()


def detached_after_a_write_through_a_view(x):
    y = x * 2
    written, read = y[:2], y[1:]
    written.mul_(x[:2])
    read.mul_(x[1:])
    total = read.sum()
    y.detach_()
    return total + (written * x[:2]).sum() + (read * read).sum()


def written_through_an_alias_of_what_was_detached(x):
    y = x * 2
    v = y[:2]
    y.detach_()
    y.detach()[lucid.tensor([1, 0])] += 0.5
    w = y[1:]
    y.detach().mul_(3)
    return (v * x[:2]).sum() + (w * w).sum()


def a_detached_alias_gets_a_history(x):
    y = x * 2
    d = y.detach()
    d[...] = x * x
    return (y * x).sum() + (d * d).sum()


def no_history_of_a_write_under_no_grad(x):
    y = x * 2
    with lucid.no_grad():
        y.copy_(lucid.ones_like(x).detach() * 3)
    return (y * x).sum()


CUTS = (
    detached_in_place,
    detached_before_a_write,
    a_view_keeps_its_history,
    a_write_through_a_view_of_what_was_detached,
    a_write_to_what_was_detached,
    a_constant_written_to_what_was_detached,
    detached_after_a_write,
    detached_after_a_write_through_a_view,
    written_through_an_alias_of_what_was_detached,
    a_detached_alias_gets_a_history,
)
REVERSE = {
    "vmap(grad)": lambda f: lambda x: vmap(grad(f))(x[None])[0],
    "grad(vmap)": lambda f: grad(lambda x: vmap(f)(x[None]).sum()),
    "make_graph(grad)": lambda f: lambda x: make_graph(grad(f))(x * 0.5)(x),
    "grad(make_graph)": lambda f: lambda x: grad(make_graph(f)(x * 0.5))(x),
    "vmap(grad(make_graph))": lambda f: lambda x: vmap(grad(make_graph(f)(x * 0.5)))(x[None])[0],
}
FORWARD = {
    "jacfwd": jacfwd,
    "linearize": lambda f: lambda x: vmap(linearize(f, x)[1])(lucid.eye(3, dtype=lucid.float64)),
    "jacfwd(vmap)": lambda f: lambda x: jacfwd(lambda a: vmap(f)(a[None])[0])(x),
    "vmap(jacfwd)": lambda f: lambda x: vmap(jacfwd(f))(x[None])[0],
    "jacfwd(make_graph)": lambda f: lambda x: jacfwd(make_graph(f)(x * 0.5))(x),
}


@pytest.mark.parametrize("f", CUTS, ids=lambda f: f.__name__)
def test_cuts(f):
    x = t([0.5, 2.0, -1.5])
    want = grad(f)(x).numpy()
    for name, way in (REVERSE | FORWARD).items():
        agree(way(f)(x), want, name)
    second = lucid.stack([grad(lambda a, k=k: grad(f)(a)[k])(x) for k in range(3)])
    agree(hessian(f)(x), second.numpy(), "hessian")


def test_a_write_under_no_grad_leaves_the_history():
    x = t([0.5, 2.0, -1.5])
    want = grad(no_history_of_a_write_under_no_grad)(x).numpy()
    np.testing.assert_array_equal(want, 2 * x.numpy() + 3)
    for name, way in REVERSE.items():
        agree(way(no_history_of_a_write_under_no_grad)(x), want, name)


def test_writes_to_what_was_detached_are_noticed():
    def f(x):
        y = x * 2
        z = y * y
        y.detach().mul_(2)
        return z.sum()

    for way in (grad(f), vmap(grad(f))):
        with pytest.raises(RuntimeError, match="overwritten"):
            way(t([[1.0, 2.0]]))
    with pytest.raises(RuntimeError, match="overwritten"):
        jvp(grad(f), (t([1.0]),), (t([1.0]),))


def test_view_of_a_result_that_lies_otherwise_in_a_batch():
    """Rules move the batch to where it suits them; for the user, each example lies as it does by itself."""
    x = t(np.random.default_rng(0).standard_normal((4, 2, 2, 3)))

    def f(x):
        y = lucid.nn.functional.batch_norm(x, None, None, training=True)
        y.view(-1).mul_(-1.0)
        return (y * y * x).sum()

    want = np.stack([grad(f)(one).numpy() for one in x])
    agree(vmap(grad(f))(x), want, "vmap(grad)")
    agree(grad(lambda x: vmap(f)(x).sum())(x), want, "grad(vmap)")
    with pytest.raises(RuntimeError, match="do not lie in memory"):
        vmap(lambda x: x.transpose(0, 1).view(-1))(x[:, 0])
