"""Functions with derivatives of their own under every transform: Function, custom_vjp and custom_jvp."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, checkpoint
from lucid.func import (
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    make_graph,
    value_and_grad,
    vjp,
    vmap,
)

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


class Pair(NamedTuple):
    first: Any
    second: Any


# A rule is told from the true derivative by a factor of 10, so that it is seen to be used.


def tenfold_vjp():
    @custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (20 * x * ct,))
    return square


def tenfold_jvp():
    @custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (square(*primals), 20 * primals[0] * tangents[0]))
    return square


class Tenfold(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 20 * x * g


class TenfoldForward(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 20 * x * tangent


MAKERS = {
    "vjp": tenfold_vjp,
    "jvp": tenfold_jvp,
    "Function": lambda: Tenfold.apply,
    "jvp only": lambda: TenfoldForward.apply,
}
ways = pytest.mark.parametrize("way", MAKERS)


@ways
def test_the_rule_is_used_in_every_transform(way):
    square = MAKERS[way]()
    f = lambda x: (square(x) * 1.0).sum()
    close(square(t(A)), A * A)
    close(grad(f)(t(A)), 20 * A)
    close(value_and_grad(f)(t(A))[1], 20 * A)
    close(jvp(f, (t(A),), (t(V),))[1], (20 * A * V).sum())
    close(vjp(square, t(A))[1](t(V))[0], 20 * A * V)
    close(linearize(square, t(A))[1](t(V)), 20 * A * V)
    close(jacrev(square)(t(A)), np.diag(20 * A))
    close(jacfwd(square)(t(A)), np.diag(20 * A))
    x = t(A, requires_grad=True)
    f(x).backward()
    close(x.grad, 20 * A)


@ways
def test_under_vmap(way):
    square = MAKERS[way]()
    f = lambda x: (square(x) * 1.0).sum()
    close(vmap(square)(t(ROWS)), ROWS**2)
    close(vmap(grad(f))(t(ROWS)), 20 * ROWS)
    close(grad(lambda x: vmap(f)(x).sum())(t(ROWS)), 20 * ROWS)
    close(vmap(lambda x: jvp(square, (x,), (t(V),))[1])(t(ROWS)), 20 * ROWS * V)
    close(jvp(vmap(square), (t(ROWS),), (t(ROWS),))[1], 20 * ROWS * ROWS)
    close(vmap(vmap(square))(t(ROWS)), ROWS**2)
    close(vmap(vmap(grad(square)))(t(ROWS)), 20 * ROWS)
    close(vmap(lambda x, y: square(x * y), in_dims=(0, None))(t(ROWS), t(V)), (ROWS * V) ** 2)


@ways
def test_second_derivatives_differentiate_the_rule(way):
    square = MAKERS[way]()
    f = lambda x: square(x).sum()
    close(hessian(f)(t(A)), 20 * np.eye(3))
    close(jacrev(jacrev(f))(t(A)), 20 * np.eye(3))
    close(jacfwd(jacfwd(f))(t(A)), 20 * np.eye(3))
    close(jacrev(jacfwd(f))(t(A)), 20 * np.eye(3))
    close(vmap(hessian(f))(t(ROWS)), np.stack([20 * np.eye(3)] * 2))


@ways
def test_in_programs_and_checkpoints(way):
    square = MAKERS[way]()
    f = lambda x: (square(x.sin()) * x).sum()
    want = 20 * np.sin(A) * np.cos(A) * A + np.sin(A) ** 2
    close(make_graph(grad(f))(t(B))(t(A)), want)
    close(make_graph(lambda x: jvp(f, (x,), (t(V),))[1])(t(B))(t(A)), (want * V).sum())
    close(make_graph(f)(t(B))(t(A)), (np.sin(A) ** 2 * A).sum())
    close(make_graph(vmap(grad(f)))(t(ROWS * 2))(t(ROWS))[0], want)
    close(grad(lambda x: checkpoint(f, x))(t(A)), want)
    close(vmap(grad(lambda x: checkpoint(f, x)))(t(ROWS))[0], want)
    close(hessian(lambda x: checkpoint(f, x))(t(A)), hessian(f)(t(A)).numpy())


@pytest.mark.parametrize("way", ["vjp", "jvp", "Function", "jvp only"])
def test_the_derivative_of_a_program_is_that_of_its_functions(way):
    square = MAKERS[way]()
    program = make_graph(lambda x: square(x).sum())(t(B))
    close(grad(program)(t(A)), 20 * A)
    close(jvp(program, (t(A),), (t(V),))[1], (20 * A * V).sum())


# custom_vjp.


def test_nondiff_argnums():
    seen = []

    @custom_vjp
    def plain(x):
        return x

    plain.defvjp(lambda x: (x, None), lambda res, ct: (ct,))

    def power(x, n, y):
        return x**n * y

    rule = custom_vjp(power, nondiff_argnums=(1,))

    def bwd(n, residuals, ct):
        seen.append(n)
        x, y = residuals
        return n * x ** (n - 1) * y * ct, x**n * ct

    rule.defvjp(lambda x, n, y: (x**n * y, (x, y)), bwd)
    gx, gy = grad(lambda x, y: rule(x, 3, y).sum(), argnums=(0, 1))(t(A), t(B))
    close(gx, 3 * A**2 * B)
    close(gy, A**3)
    assert seen == [3]
    close(vmap(grad(lambda x: rule(x, 2, t(V)).sum()))(t(ROWS)), 2 * ROWS * V)
    close(jvp(lambda x: rule(x, 3, t(B)), (t(A),), (t(V),))[1], 3 * A**2 * B * V)


def test_a_function_as_a_nondiff_argument():
    @custom_vjp
    def apply(f, x):
        return f(x)

    apply = custom_vjp(apply.fun, nondiff_argnums=0)
    apply.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (grad(lambda y: f(y).sum())(x) * ct * 100,))
    close(grad(lambda x: apply(lucid.sin, x).sum())(t(A)), 100 * np.cos(A))


def test_nests_in_custom_vjp():
    @custom_vjp
    def affine(params, x):
        return {"y": params["w"] * x + params["b"], "pair": Pair(x * 2, params["w"])}

    def fwd(params, x):
        return affine.fun(params, x), (params, x)

    def bwd(residuals, ct):
        params, x = residuals
        w = ct["y"] * x + ct["pair"].second
        return {"w": w, "b": ct["y"] * 7}, ct["y"] * params["w"] + 2 * ct["pair"].first

    affine.defvjp(fwd, bwd)
    params = {"w": t(A), "b": t(B)}

    def total(params, x):
        out = affine(params, x)
        assert type(out["pair"]) is Pair
        return out["y"].sum() + (out["pair"].first * 3).sum() + out["pair"].second.sum()

    gp, gx = grad(total, argnums=(0, 1))(params, t(V))
    close(gp["w"], V + 1)
    close(gp["b"], np.full(3, 7.0))
    close(gx, A + 6)
    batch = vmap(grad(total), in_dims=({"w": None, "b": 0}, None))({"w": t(A), "b": t(ROWS)}, t(V))
    close(batch["b"], np.full((2, 3), 7.0))


def test_none_as_a_gradient_is_zero():
    @custom_vjp
    def first(x, y):
        return x * y

    first.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
    gx, gy = grad(lambda x, y: first(x, y).sum(), argnums=(0, 1))(t(A), t(B))
    close(gx, B)
    close(gy, 0 * B)


def test_keyword_arguments_and_defaults():
    @custom_vjp
    def scaled(x, factor=2.0):
        return x * factor

    scaled.defvjp(lambda x, factor=2.0: (x * factor, factor), lambda factor, ct: (ct * factor, None))
    close(scaled(t(A)), 2 * A)
    close(scaled(t(A), factor=5.0), 5 * A)
    close(grad(lambda x: scaled(x, factor=5.0).sum())(t(A)), np.full(3, 5.0))
    close(grad(lambda x: scaled(x=x).sum())(t(A)), np.full(3, 2.0))


def test_residuals_of_any_kind():
    @custom_vjp
    def f(x):
        return x * 3

    f.defvjp(
        lambda x: (x * 3, {"text": "three", "n": 3, "x": x, "none": None}),
        lambda res, ct: (ct * res["n"] + 0 * res["x"],),
    )
    close(grad(lambda x: f(x).sum())(t(A)), np.full(3, 3.0))


def test_without_derivatives_the_function_itself_runs():
    calls = []

    @custom_vjp
    def f(x):
        calls.append("fun")
        return x * 2

    f.defvjp(lambda x: calls.append("fwd") or (x * 2, None), lambda res, ct: (ct * 2,))
    f(t(A))
    assert calls == ["fun"]
    grad(lambda x: f(x).sum())(t(A))
    assert calls == ["fun", "fwd"]


def test_names_and_docs_are_kept():
    @custom_vjp
    def described(x):
        """About it."""
        return x

    assert described.__name__ == "described" and described.__doc__ == "About it."


@pytest.mark.parametrize("decorator", [custom_vjp, custom_jvp])
def test_no_rule_yet(decorator):
    @decorator
    def lonely(x):
        return x

    with pytest.raises(RuntimeError, match=r"lonely has no derivative yet.*defv?jv?p"):
        lonely(t(A))


@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "words"),
    [
        (lambda x: x * x, lambda x, ct: (ct,), TypeError, r"square: the forward rule must return a pair"),
        (lambda x: (x * x, x), lambda x, ct: ct, TypeError, r"square: the backward rule must return a tuple.*1"),
        (lambda x: (x * x, x), lambda x, ct: (ct, ct), TypeError, r"square: .*2 entries"),
        (lambda x: (x * x, x), lambda x, ct: (ct[:1].expand(2),), RuntimeError, r"\(2,\).*\(3,\)"),
        (lambda x: (x * x, x), lambda x, ct: ((ct, ct),), ValueError, r"square: .*structure"),
    ],
    ids=["no pair", "no tuple", "too many", "shape", "structure"],
)
def test_bad_vjp_rules(fwd, bwd, error, words):
    @custom_vjp
    def square(x):
        return x * x

    square.defvjp(fwd, bwd)
    with pytest.raises(error, match="(?s)" + words):
        grad(lambda x: square(x).sum())(t(A))


def test_keyword_only_arguments_are_refused():
    @custom_vjp
    def f(x, *, k):
        return x * k

    f.defvjp(lambda x, k: (x * k, k), lambda k, ct: (ct * k,))
    with pytest.raises(TypeError, match="keyword-only"):
        f(t(A), k=2.0)


# custom_jvp.


def test_nests_in_custom_jvp():
    @custom_jvp
    def f(d, x):
        return Pair(d["a"] * x, x + 0)

    @f.defjvp
    def rule(primals, tangents):
        (d, x), (dd, dx) = primals, tangents
        return f(d, x), Pair(dd["a"] * x + d["a"] * dx, dx * 7)

    value, change = jvp(f, ({"a": t(A)}, t(B)), ({"a": t(V)}, t(A)))
    close(value.first, A * B)
    close(change.first, V * B + A * A)
    close(change.second, 7 * A)
    g = grad(lambda d, x: f(d, x).first.sum() + f(d, x).second.sum(), argnums=(0, 1))({"a": t(A)}, t(B))
    close(g[0]["a"], B)
    close(g[1], A + 7)


def test_nondiff_argnums_of_jvp():
    def power(n, x):
        return x**n

    rule = custom_jvp(power, nondiff_argnums=(0,))
    rule.defjvp(lambda n, primals, tangents: (rule(n, *primals), 10 * n * primals[0] ** (n - 1) * tangents[0]))
    close(grad(lambda x: rule(3, x).sum())(t(A)), 30 * A**2)
    close(jvp(lambda x: rule(2, x), (t(A),), (t(V),))[1], 20 * A * V)


def test_defjvps():
    @custom_jvp
    def f(x, y, z):
        return x * y + z

    f.defjvps(lambda dx, out, x, y, z: 10 * dx * y, None, lambda dz, out, x, y, z: dz + 0 * out)
    args = t(A), t(B), t(V)
    gx, gy, gz = grad(lambda *a: f(*a).sum(), argnums=(0, 1, 2))(*args)
    close(gx, 10 * B)
    close(gy, 0 * B)
    close(gz, np.ones(3))
    close(jvp(f, args, args)[1], 10 * A * B + V)
    close(vmap(grad(lambda x: f(x, t(B), t(V)).sum()))(t(ROWS)), 10 * np.stack([B, B]))


def test_defjvps_with_nondiff_argnums():
    f = custom_jvp(lambda x, n: x**n, nondiff_argnums=1)
    f.defjvps(lambda dx, out, x: dx * 100)
    close(grad(lambda x: f(x, 3).sum())(t(A)), np.full(3, 100.0))


def test_arguments_without_tangents_come_as_zeros():
    seen = []

    @custom_jvp
    def f(x, y):
        return x * y

    @f.defjvp
    def rule(primals, tangents):
        seen.append(tangents[1])
        return f(*primals), tangents[0] * primals[1] + primals[0] * tangents[1]

    close(jvp(lambda x: f(x, t(B)), (t(A),), (t(V),))[1], V * B)
    close(seen[0], 0 * B)


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (lambda p, t: t[0], TypeError, "square: the rule must return a pair"),
        (lambda p, t: (p[0], (t[0], t[0])), ValueError, "square: the tangent has structure"),
        (lambda p, t: (p[0], t[0][:1].expand(2)), RuntimeError, r"\(2,\).*\(3,\)"),
    ],
    ids=["no pair", "structure", "shape"],
)
def test_bad_jvp_rules(rule, error, words):
    @custom_jvp
    def square(x):
        return x * x

    square.defjvp(rule)
    with pytest.raises(error, match="(?s)" + words):
        jvp(square, (t(A),), (t(V),))


def test_a_derivative_that_stays_finite():
    """log(1 + exp x), whose derivative by its parts is inf/inf for large x."""

    @custom_jvp
    def softplus(x):
        return (1 + x.exp()).log()

    softplus.defjvps(lambda dx, out, x: dx * (1 - 1 / (1 + x.exp())))
    x = t([0.0, 1000.0])
    close(grad(lambda y: softplus(y).sum())(x), [0.5, 1.0])
    close(vmap(grad(softplus))(x), [0.5, 1.0])
