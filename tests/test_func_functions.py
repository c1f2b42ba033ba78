"""`Function` under transforms: its static jvp and vmap, several outputs, and NumPy inside."""

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, checkpoint, once_differentiable
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, linearize, make_graph, vjp, vmap

A = np.array([0.5, -1.2, 2.0])
B = np.array([1.5, 0.3, -0.7])
V = np.array([1.0, 2.0, -0.5])
ROWS = np.stack([A, B])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


# Methods of a Function.


class Spied(Function):
    """x³ with all methods, which note that they were called."""

    calls: list = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x, factor):
        Spied.calls.append("forward")
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3 * factor

    @staticmethod
    def backward(ctx, g):
        Spied.calls.append("backward")
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g * ctx.factor, None

    @staticmethod
    def jvp(ctx, tangent, _):
        Spied.calls.append("jvp")
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent * ctx.factor

    @staticmethod
    def vmap(info, in_dims, x, factor):
        Spied.calls.append(("vmap", info.batch_size, info.randomness, in_dims))
        return x.movedim(in_dims[0], 0) ** 3 * factor, 0


@pytest.fixture
def spied():
    Spied.calls = []
    return lambda x: Spied.apply(x, 2.0)


def test_static_jvp_is_used(spied):
    close(jvp(spied, (t(A),), (t(V),))[1], 6 * A**2 * V)
    assert Spied.calls == ["forward", "jvp"]


def test_static_backward_is_used(spied):
    close(grad(lambda x: spied(x).sum())(t(A)), 6 * A**2)
    assert Spied.calls == ["forward", "backward"]


def test_static_vmap_is_used(spied):
    close(vmap(spied)(t(ROWS)), 2 * ROWS**3)
    assert Spied.calls[0] == ("vmap", 2, "error", (0, None))
    Spied.calls = []
    close(vmap(spied, in_dims=1, randomness="same")(t(ROWS)), 2 * ROWS.T**3)
    assert Spied.calls[0] == ("vmap", 3, "same", (0, None))


def test_static_vmap_with_derivatives(spied):
    close(vmap(grad(lambda x: spied(x).sum()))(t(ROWS)), 6 * ROWS**2)
    assert any(c[0] == "vmap" for c in Spied.calls)
    close(grad(lambda x: vmap(spied)(x).sum())(t(ROWS)), 6 * ROWS**2)
    close(jvp(vmap(spied), (t(ROWS),), (t(ROWS),))[1], 6 * ROWS**3)
    close(vmap(lambda x: jvp(spied, (x,), (x,))[1])(t(ROWS)), 6 * ROWS**3)
    close(vmap(vmap(spied))(t(ROWS)), 2 * ROWS**3)
    close(vmap(hessian(lambda x: spied(x).sum()))(t(ROWS)), np.stack([np.diag(12 * r) for r in ROWS]))


def test_static_vmap_sees_shared_arguments_and_places_results():
    class Product(Function):
        seen: list = []  # noqa: RUF012

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * y + h, g * x + h

        @staticmethod
        def vmap(info, in_dims, x, y):
            Product.seen.append((in_dims, x.shape, y.shape))
            return ((x * y).movedim(0, 1), (x + y)), (1, 0)

    a, b = vmap(Product.apply, in_dims=(0, None))(t(ROWS), t(V))
    assert Product.seen == [((0, None), (2, 3), (3,))]
    close(a, ROWS * V)
    close(b, ROWS + V)
    a, b = vmap(Product.apply, in_dims=(None, 1))(t(V), t(ROWS.T))
    close(a, ROWS * V)


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda x: x, TypeError, "Bad.vmap must return a pair"),
        (lambda x: ((x, x), (0, 0, 0)), ValueError, "2 outputs, but 3 out_dims"),
    ],
    ids=["no pair", "count"],
)
def test_bad_static_vmap(returned, error, words):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def vmap(info, in_dims, x):
            return returned(x)

    with pytest.raises(error, match=words):
        vmap(Bad.apply)(t(ROWS))


@pytest.mark.parametrize(
    ("returned", "words"),
    [(lambda t: (t, t), "2 tangents.*1 outputs"), (lambda t: t[:1], r"\(1,\).*\(3,\)"), (lambda t: 1.0, "float")],
    ids=["count", "shape", "type"],
)
def test_bad_static_jvp(returned, words):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, tangent):
            return returned(tangent)

    with pytest.raises(RuntimeError, match=f"Bad.jvp returned.*{words}"):
        jvp(Bad.apply, (t(A),), (t(V),))


def test_two_outputs_under_transforms():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            s, c = x.sin(), x.cos()
            ctx.save_for_backward(s, c)
            return s, c

        @staticmethod
        def backward(ctx, gs, gc):
            s, c = ctx.saved_tensors
            return gs * c - gc * s

    f = lambda x: (SinCos.apply(x)[0] ** 2 * SinCos.apply(x)[1]).sum()
    plain = lambda x: (x.sin() ** 2 * x.cos()).sum()
    close(hessian(f)(t(A)), hessian(plain)(t(A)).numpy())
    close(vmap(grad(f))(t(ROWS)), vmap(grad(plain))(t(ROWS)).numpy())
    close(grad(lambda x: SinCos.apply(x)[1].sum())(t(A)), -np.sin(A))


def test_outputs_that_are_not_differentiable():
    class Order(Function):
        @staticmethod
        def forward(ctx, x):
            order = x.argsort()
            ctx.save_for_backward(order)
            ctx.mark_non_differentiable(order)
            return x[order], order

        @staticmethod
        def backward(ctx, g, _):
            (order,) = ctx.saved_tensors
            return lucid.zeros_like(g).index_put((order,), g)

    def f(x):
        values, order = Order.apply(x)
        return (values * t(V)).sum() + order.sum() * 0

    want = np.zeros((2, 3))
    for row, w in zip(ROWS, want, strict=True):
        w[np.argsort(row)] = V
    close(grad(f)(t(A)), want[0])
    close(vmap(grad(f))(t(ROWS)), want)
    close(jvp(f, (t(A),), (t(B),))[1], (want[0] * B).sum())


def test_needs_input_grad_under_transforms():
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None

    vmap(grad(lambda x, y: Product.apply(x, y).sum()), in_dims=(0, None))(t(ROWS), t(V))
    assert seen[-1] == (True, False)
    got = vmap(grad(lambda x, y: Product.apply(x, y).sum(), argnums=1), in_dims=(0, None))(t(ROWS), t(V))
    close(got, ROWS)


# NumPy inside.


class NumpyCube(Function):
    """All by NumPy, as with a library that is not written for tensors."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return lucid.tensor(x.numpy() ** 3)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return lucid.tensor(3 * x.numpy() ** 2 * g.numpy())


def cube_sum(x):
    return (NumpyCube.apply(x) * 2).sum()


@pytest.mark.parametrize(
    ("apply", "want"),
    [
        (lambda: cube_sum(t(A)), 2 * (A**3).sum()),
        (lambda: grad(cube_sum)(t(A)), 6 * A**2),
        (lambda: jvp(cube_sum, (t(A),), (t(V),))[1], (6 * A**2 * V).sum()),
        (lambda: vjp(NumpyCube.apply, t(A))[1](t(V))[0], 3 * A**2 * V),
        (lambda: linearize(NumpyCube.apply, t(A))[1](t(V)), 3 * A**2 * V),
        (lambda: vmap(NumpyCube.apply)(t(ROWS)), ROWS**3),
        (lambda: vmap(vmap(NumpyCube.apply))(t(ROWS)), ROWS**3),
        (lambda: vmap(grad(cube_sum))(t(ROWS)), 6 * ROWS**2),
        (lambda: grad(lambda x: vmap(cube_sum)(x).sum())(t(ROWS)), 6 * ROWS**2),
        (lambda: vmap(lambda x: jvp(cube_sum, (x,), (t(V),))[1])(t(ROWS)), (6 * ROWS**2 * V).sum(1)),
        (lambda: jvp(vmap(NumpyCube.apply), (t(ROWS),), (t(ROWS),))[1], 3 * ROWS**3),
        (lambda: jacrev(NumpyCube.apply)(t(A)), np.diag(3 * A**2)),
        (lambda: jacfwd(NumpyCube.apply)(t(A)), np.diag(3 * A**2)),
        (lambda: grad(lambda x: checkpoint(cube_sum, x))(t(A)), 6 * A**2),
        (lambda: make_graph(NumpyCube.apply)(t(B))(t(A)), A**3),
        (lambda: grad(make_graph(cube_sum)(t(B)))(t(A)), 6 * A**2),
        (lambda: vmap(make_graph(cube_sum)(t(B)))(t(ROWS)), 2 * (ROWS**3).sum(1)),
        (lambda: make_graph(grad(cube_sum))(t(B))(t(A)), 6 * A**2),
        (lambda: make_graph(vmap(NumpyCube.apply))(t(2 * ROWS))(t(ROWS)), ROWS**3),
    ],
    ids=[
        "call", "grad", "jvp", "vjp", "linearize", "vmap", "vmap(vmap)", "vmap(grad)", "grad(vmap)", "vmap(jvp)", "jvp(vmap)",
        "jacrev", "jacfwd", "checkpoint", "make_graph", "grad(program)", "vmap(program)", "make_graph(grad)", "make_graph(vmap)",
    ],
)  # fmt: skip
def test_numpy_inside(apply, want):
    close(apply(), want)


@pytest.mark.parametrize(
    "apply",
    [
        lambda: grad(lambda x: grad(cube_sum)(x).sum())(t(A)),
        lambda: hessian(cube_sum)(t(A)),
        lambda: jacrev(jacrev(cube_sum))(t(A)),
        lambda: jvp(grad(cube_sum), (t(A),), (t(V),)),
        lambda: grad(lambda x: jvp(cube_sum, (x,), (t(V),))[1])(t(A)),
        lambda: jvp(lambda x: jvp(cube_sum, (x,), (t(V),))[1], (t(A),), (t(V),)),
        lambda: vmap(hessian(cube_sum))(t(ROWS)),
        lambda: vmap(grad(lambda x: grad(cube_sum)(x).sum()))(t(ROWS)),
        lambda: lucid.autograd.grad(lucid.autograd.grad(cube_sum(x := t(A, requires_grad=True)), x, create_graph=True).sum(), x),
    ],
    ids=["grad(grad)", "hessian", "jacrev(jacrev)", "jvp(grad)", "grad(jvp)", "jvp(jvp)", "vmap(hessian)", "vmap(grad(grad))", "tape"],
)  # fmt: skip
def test_second_derivatives_through_numpy_are_refused(apply):
    with pytest.raises(RuntimeError, match=r"NumpyCube.*cannot be differentiated"):
        apply()
    close(grad(cube_sum)(t(A)), 6 * A**2)


def test_second_derivatives_that_do_not_need_the_function_are_fine():
    """d²/dx² (numpy(c) · x²), where only the constant went through NumPy."""
    f = lambda x: (NumpyCube.apply(t(B)) * x**2).sum()
    close(hessian(f)(t(A)), np.diag(2 * B**3))


def test_once_differentiable_under_transforms():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    f = lambda x: Once.apply(x).sum()
    close(grad(f)(t(A)), 3 * A**2)
    close(vmap(grad(f))(t(ROWS)), 3 * ROWS**2)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad(lambda x: grad(f)(x).sum())(t(A))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        hessian(f)(t(A))


def test_a_forward_that_branches_runs_for_each_example():
    runs = []

    class Abs(Function):
        @staticmethod
        def forward(ctx, x):
            runs.append(1)
            ctx.positive = bool(x > 0)
            return x if ctx.positive else -x

        @staticmethod
        def backward(ctx, g):
            return g if ctx.positive else -g

    close(vmap(Abs.apply)(t(A)), np.abs(A))
    close(vmap(grad(lambda x: Abs.apply(x) * x))(t(A)), 2 * np.abs(A))
    close(vmap(vmap(grad(Abs.apply)))(t(ROWS)), np.sign(ROWS))
    assert len(runs) >= 9


def test_a_forward_that_needs_values_of_an_empty_batch():
    with pytest.raises(RuntimeError, match="no example"):
        vmap(NumpyCube.apply)(t(np.zeros((0, 3))))


def test_mark_dirty_under_vmap_is_refused():
    class InPlace(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="mark_dirty"):
        vmap(lambda x: InPlace.apply(x * 1))(t(ROWS))


class Doubled(Function):
    """Writes to its argument and says so."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def product_with_doubled(x):
    y = x * x
    z = Doubled.apply(y)
    return (y * z * x).sum()  # y and z are one: 4 x⁵


def test_mark_dirty_under_grad_and_make_graph():
    close(product_with_doubled(t(A)), (4 * A**5).sum())
    close(grad(product_with_doubled)(t(A)), 20 * A**4)
    close(jacrev(grad(product_with_doubled))(t(A)), np.diag(80 * A**3))
    close(make_graph(product_with_doubled)(t(B))(t(A)), (4 * A**5).sum())


def test_mark_dirty_under_jvp_needs_a_rule():
    with pytest.raises(
        RuntimeError, match="mark_dirty is not supported in forward mode, unless the Function has a jvp"
    ):
        jvp(product_with_doubled, (t(A),), (t(V),))
