"""jvp, linearize and dual numbers by hand."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.autograd.forward_ad import dual_level, make_dual, unpack_dual
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, linearize, make_graph, vjp, vmap

A = np.array([0.5, -1.2, 2.0])
B = np.array([1.5, 0.3, -0.7])
V = np.array([1.0, 2.0, -0.5])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    weight: Any
    bias: Any = None


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, f):
        self.f, self.calls, self.__name__ = f, 0, "counted"

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)


# jvp.


def test_value_and_change():
    f = Counted(lambda x, y: x**2 * y)
    value, change = jvp(f, (t(A), t(B)), (t(V), t(A)))
    close(value, A**2 * B)
    close(change, 2 * A * V * B + A**3)
    assert f.calls == 1


def test_lists_of_primals():
    close(jvp(lambda x: x**2, [t(A)], [t(V)])[1], 2 * A * V)


def test_arrays_and_numbers():
    value, change = jvp(lambda x, y: x * y, (A, 2.0), (V, 1.0))
    close(value, 2 * A)
    close(change, 2 * V + A)


def test_nests():
    primals = ({"a": t(A), "r": Record(t(B), None)}, [Pair(t(A), t(B))])
    tangents = ({"a": t(V), "r": Record(t(A), None)}, [Pair(t(B), t(V))])

    def f(d, pairs):
        return {"x": d["a"] * d["r"].weight, "y": Pair(pairs[0].first ** 2, None), "z": Record(pairs[0].second * 2)}

    value, change = jvp(f, primals, tangents)
    close(value["x"], A * B)
    close(change["x"], V * B + A * A)
    close(change["y"].first, 2 * A * B)
    close(change["z"].weight, 2 * V)
    assert type(change["y"]) is Pair and type(change["z"]) is Record and change["y"].second is None


def test_has_aux():
    value, change, aux = jvp(lambda x: (x**2, {"twice": x * 2, "n": 3, "none": None}), (t(A),), (t(V),), has_aux=True)
    close(value, A**2)
    close(change, 2 * A * V)
    close(aux["twice"], 2 * A)
    assert aux["n"] == 3 and aux["none"] is None
    with pytest.raises(TypeError, match=r"jvp: with has_aux=True .* pair"):
        jvp(lambda x: x, (t(A),), (t(V),), has_aux=True)


def test_results_that_do_not_change():
    value, change = jvp(lambda x: (lucid.ones(2), x.argmax(), x.detach()), (t(A),), (t(V),))
    close(change[0], np.zeros(2))
    assert value[1].item() == 2 and change[1].item() == 0 and change[1].shape == ()
    close(value[2], A)
    close(change[2], 0 * A)


def test_tangents_take_the_type_of_the_primal():
    value, change = jvp(lambda x: x * 2, (t(A).float(),), (t(V),))
    assert value.dtype == change.dtype == lucid.float32
    _, change = jvp(lambda x: x * 2, (t(A),), (lucid.tensor([1, 2, 3]),))
    close(change, [2.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "words"),
    [
        (lambda: t(A), lambda: t(V), TypeError, r"tuples.*jvp\(f, \(x,\), \(t,\)\).*Tensor"),
        (lambda: (t(A),), lambda: t(V), TypeError, "tuples"),
        (lambda: (t(A), t(B)), lambda: (t(V),), ValueError, "2 primals and 1 tangents"),
        (lambda: (t(A),), lambda: (t(V[:2]),), ValueError, r"argument 0 \('x'\) has shape \(2,\).*\(3,\)"),
        (lambda: ([t(A)],), lambda: (t(V),), ValueError, r"argument 0 \('x'\) has structure"),
        (lambda: ({"a": t(A), "b": t(A)},), lambda: ({"a": t(V), "b": t(V[:1])},), ValueError, r"'x'\)\['b'\] has shape \(1,\)"),
        (lambda: (lucid.tensor([1, 2, 3]),), lambda: (t(V),), TypeError, r"argument 0 \('x'\).*int64"),
        (lambda: (t(A),), lambda: (None,), ValueError, "structure"),
    ],
    ids=["bare", "bare tangent", "count", "shape", "structure", "nested shape", "integers", "None"],
)  # fmt: skip
def test_bad_arguments(primals, tangents, error, words):
    with pytest.raises(error, match="(?s)jvp: .*" + words):
        jvp(lambda x, *rest: x, primals(), tangents())


def test_tangents_are_not_changed_by_writes():
    x, v = t(A), t(V)

    def f(x):
        y = x + 0
        y *= 3.0
        y[0] = 0.0
        return y

    _, change = jvp(f, (x,), (v,))
    close(change, [0.0, 6.0, -1.5])
    close(v, V)
    close(x, A)


@pytest.mark.parametrize(
    "same",
    [
        lambda x: x + 0.0,
        lambda x: x - 0.0,
        lambda x: x.clone(),
        lambda x: x.reshape(3).clone(),
        lambda x: lucid.cat([x]),
        lambda x: lucid.stack([x])[0].clone(),
        lambda x: x.sum(0, keepdim=True).expand(3).clone() * 0 + x,
        lambda x: lucid.where(lucid.tensor(True), x, 0.0),
        lambda x: x.to(lucid.float64).clone(),
        lambda x: lucid.zeros(3, dtype=lucid.float64) + x,
        lambda x: x * 1.0,
        lambda x: lucid.zeros(3, dtype=lucid.float64).copy_(x),
        lambda x: x.contiguous().clone(),
    ],
    ids=range(13),
)
def test_a_result_has_a_tangent_of_its_own(same):
    """Rules may hand on the tangent that they got: writing to the result must not write to the operand."""

    def f(x):
        y = same(x)
        y.mul_(10.0)
        return x * 1.0, y

    (value, big), (change, big_change) = jvp(f, (t(A),), (t(V),))
    close(value, A)
    close(change, V)
    close(big, 10 * A)
    close(big_change, 10 * V)


def test_views_write_through_to_tangents():
    def f(x):
        y = x.clone()
        z = y[1:]
        z.mul_(2.0)
        w = y.view(1, 3)
        w += x
        return y, z, w

    _, (y, z, w) = jvp(f, (t(A),), (t(V),))
    want = V + V * [1, 2, 2]
    close(y, want)
    close(z, want[1:])
    close(w, want[None])


def test_writing_to_the_argument_writes_to_the_callers_tensor():
    x = t(A)
    _, change = jvp(lambda y: y.mul_(2.0) * 1, (x,), (t(V),))
    close(x, 2 * A)
    close(change, 2 * V)


def test_tensors_from_outside_take_no_tangents():
    outside = t(B)
    with pytest.raises(RuntimeError, match=r"(?s)test_func_forward\.py:\d+.*jvp.*made outside"):
        jvp(lambda x: outside.add_(x), (t(A),), (t(V),))
    assert type(outside) is lucid.Tensor
    close(outside, B)


def test_python_sees_the_values():
    """Values are known in forward mode, so Python may branch on them."""

    def f(x):
        assert float(x.sum()) == pytest.approx(A.sum())
        return x**2 if x.sum() > 0 else -x

    close(jvp(f, (t(A),), (t(V),))[1], 2 * A * V)
    close(jvp(f, (t(A),), (t(V),))[0], A**2)


def test_numpy_loses_the_tangent():
    _, change = jvp(lambda x: x * t(x.numpy()), (t(A),), (t(V),))
    close(change, V * A)


def test_complex_tangents():
    z, v = np.array([1 + 2j, 0.5 - 1j]), np.array([1j, 2.0 - 1j])
    value, change = jvp(lambda z: z**3, (lucid.tensor(z),), (lucid.tensor(v),))
    close(value, z**3)
    close(change, 3 * z**2 * v)
    _, change = jvp(lambda z: z.abs() ** 2, (lucid.tensor(z),), (lucid.tensor(v),))
    close(change, 2 * (np.conj(z) * v).real)
    assert change.dtype == lucid.float64
    _, change = jvp(lambda z: z.conj() * 1j, (lucid.tensor(z),), (lucid.tensor(v),))
    close(change, 1j * np.conj(v))


def test_no_grad_does_not_stop_forward_mode():
    def f(x):
        with lucid.no_grad():
            return x**2

    close(jvp(f, (t(A),), (t(V),))[1], 2 * A * V)


def test_the_tape_runs_through_tangents():
    x, v = t(A, requires_grad=True), t(V, requires_grad=True)
    _, change = jvp(lambda y: y**3, (x,), (v,))
    change.sum().backward()
    close(x.grad, 6 * A * V)
    close(v.grad, 3 * A**2)


# linearize.


def nonlinear(x, y):
    return (x.sin() * y).exp(), x * y.sum()


def test_linearize_equals_jvp_and_is_linear():
    value, push = linearize(nonlinear, t(A), t(B))
    want, _ = jvp(nonlinear, (t(A), t(B)), (t(V), t(V)))
    close(value[0], want[0].numpy())
    close(value[1], want[1].numpy())
    first, second = (t(V), t(A)), (t(B), t(V))
    for tangents in (first, second):
        _, change = jvp(nonlinear, (t(A), t(B)), tangents)
        got = push(*tangents)
        assert type(got) is tuple
        close(got[0], change[0].numpy())
        close(got[1], change[1].numpy())
    combined = push(*[2 * a - 3 * b for a, b in zip(first, second, strict=True)])
    for c, f, s in zip(combined, push(*first), push(*second), strict=True):
        close(c, (2 * f - 3 * s).numpy())


def test_linearize_runs_the_function_once():
    f = Counted(lambda x: (x**2).sin())
    _, push = linearize(f, t(A))
    assert f.calls == 1
    for v in (A, B, V):
        close(push(t(v)), 2 * A * np.cos(A**2) * v)
    vmap(push)(lucid.eye(3, dtype=lucid.float64))
    grad(lambda v: push(v).sum())(t(V))
    assert f.calls == 1


def test_linearize_keeps_only_what_depends_on_the_tangent():
    _, push = linearize(lambda x: (x.exp().sin() * 3).cos() * 2, t(A))
    names = {i.primitive.name for i in push.instructions}
    assert names <= {"chain", "mul", "neg"}, names


def test_linearize_of_nests():
    value, push = linearize(lambda d: {"y": d["a"] * d["b"][0], "n": None}, {"a": t(A), "b": [t(B)]})
    close(value["y"], A * B)
    got = push({"a": t(V), "b": [t(A)]})
    close(got["y"], V * B + A * A)
    assert got["n"] is None


def test_linearize_of_a_constant():
    value, push = linearize(lambda x: lucid.ones(2, dtype=lucid.float64), t(A))
    close(value, np.ones(2))
    close(push(t(V)), np.zeros(2))


def test_linearize_refuses_other_tangents():
    _, push = linearize(lambda x: x**2, t(A))
    with pytest.raises(ValueError, match=r"\[3\].*\[2\]"):
        push(t([1.0, 2.0]))
    with pytest.raises(ValueError, match="linearized"):
        push(t(V), t(V))
    with pytest.raises(ValueError, match="float64"):
        push(t(V).float())


def test_linearize_composes():
    f = lambda x: (x**3).sum()
    close(vmap(linearize(lambda x: x**3, t(A))[1])(t(np.stack([A, V]))), 3 * A**2 * np.stack([A, V]))
    close(grad(linearize(f, t(A))[1])(t(V)), 3 * A**2)
    close(
        vmap(lambda x, v: linearize(f, x)[1](v))(t(np.stack([A, B])), t(np.stack([V, V]))),
        [(3 * A**2 * V).sum(), (3 * B**2 * V).sum()],
    )
    close(grad(lambda x: linearize(f, x)[1](t(V)))(t(A)), 6 * A * V)
    close(jvp(lambda x: linearize(f, x)[1](t(V)), (t(A),), (t(B),))[1], (6 * A * V * B).sum())
    close(linearize(lambda x: linearize(f, x)[1](t(V)), t(A))[1](t(B)), (6 * A * V * B).sum())
    close(linearize(grad(f), t(A))[1](t(V)), 6 * A * V)
    close(linearize(vmap(grad(lambda x: x**3)), t(A))[1](t(V)), 6 * A * V)
    close(make_graph(lambda v: linearize(f, t(A))[1](v))(t(B))(t(V)), (3 * A**2 * V).sum())
    close(hessian(lambda x: linearize(f, x)[1](t(V)))(t(A)), np.diag(6 * V))


def test_linearize_is_differentiable_by_what_it_captured():
    w, x = t(B, requires_grad=True), t(A, requires_grad=True)
    value, push = linearize(lambda y: (y**3 * w).sum(), x)
    push(t(V)).backward()
    close(w.grad, 3 * A**2 * V)
    close(x.grad, 6 * A * B * V)
    value.backward()
    close(w.grad, 3 * A**2 * V + A**3)


def test_linearize_keeps_its_point():
    x = t(A)
    _, push = linearize(lambda y: y**2, x)
    x.mul_(0.0)
    close(push(t(V)), 2 * A * V)


def test_linearize_with_writes_branches_and_functions():
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    def f(x):
        y = lucid.zeros(3, dtype=lucid.float64)
        y[:2] = x[1:] ** 2
        y += Cube.apply(x)
        if y.sum() > -1e9:
            y *= x
        return y

    jacobian = jacfwd(f)(t(A)).numpy()
    value, push = linearize(f, t(A))
    close(value, f(t(A)).numpy())
    close(push(t(V)), jacobian @ V)
    close(push(t(B)), jacobian @ B)
    close(jacrev(f)(t(A)), jacobian)


# Dual numbers by hand.


def test_make_and_unpack():
    with dual_level():
        x = make_dual(t(A), t(V))
        out = unpack_dual(x.sin() * 2)
        close(out.primal, 2 * np.sin(A))
        close(out.tangent, 2 * np.cos(A) * V)
        primal, tangent = unpack_dual(x)
        close(primal, A)
        close(tangent, V)
        assert unpack_dual(t(A)).tangent is None


def test_nested_levels():
    with dual_level() as first:
        x = make_dual(t(2.0), t(1.0))
        with dual_level() as second:
            assert second > first
            y = make_dual(x, t(1.0))
            inner = unpack_dual(y**3)
            assert unpack_dual(y**3, level=second).tangent is not None
            assert unpack_dual(x**3, level=first).tangent.item() == 12.0
        outer = unpack_dual(inner.tangent)
        assert outer.primal.item() == 12.0 and outer.tangent.item() == 12.0
        assert unpack_dual(inner.primal).tangent.item() == 12.0


def test_an_outer_level_inside_an_inner_one():
    with dual_level() as first, dual_level():
        x = make_dual(t(3.0), t(1.0), level=first)
        assert unpack_dual(x * x).tangent is None
        assert unpack_dual(x * x, level=first).tangent.item() == 6.0


def test_duals_under_transforms():
    def slope(x):
        with dual_level():
            return unpack_dual((make_dual(x, lucid.ones_like(x)) ** 3).sum()).tangent

    close(slope(t(A)), (3 * A**2).sum())
    close(grad(slope)(t(A)), 6 * A)
    close(vmap(slope)(t(np.stack([A, B]))), [(3 * A**2).sum(), (3 * B**2).sum()])
    close(jvp(slope, (t(A),), (t(V),))[1], (6 * A * V).sum())


def test_transforms_inside_a_level():
    with dual_level():
        x = make_dual(t(A), t(V))
        g = grad(lambda y: (y**3).sum())(x)
        close(unpack_dual(g).tangent, 6 * A * V)
        rows = vmap(lambda y: y**2)(x)
        close(unpack_dual(rows).tangent, 2 * A * V)
        _, pull = vjp(lambda y: y**2, x)
        close(unpack_dual(pull(t(B))[0]).tangent, 2 * B * V)


def test_the_tape_through_duals():
    x = t(A, requires_grad=True)
    with dual_level():
        tangent = unpack_dual((make_dual(x, t(V)) ** 3).sum()).tangent
    tangent.backward()
    close(x.grad, 6 * A * V)


def test_errors_of_levels():
    with pytest.raises(RuntimeError, match="make_dual works inside"):
        make_dual(t(A), t(V))
    with pytest.raises(RuntimeError, match="unpack_dual works inside"):
        unpack_dual(t(A))
    with dual_level() as level:
        with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
            make_dual(t(A), t([1.0, 2.0]))
        with pytest.raises(TypeError, match="int64"):
            make_dual(lucid.tensor([1, 2]), lucid.tensor([1, 2]))
        with pytest.raises(RuntimeError, match="already"):
            make_dual(make_dual(t(A), t(V)), t(V))
        with pytest.raises(RuntimeError, match=f"level {level + 1} is not open.*{level}"):
            make_dual(t(A), t(V), level=level + 1)
        with pytest.raises(TypeError, match="float"):
            unpack_dual(1.0)
        assert unpack_dual(make_dual(t(A), t(V))).tangent is not None
    with pytest.raises(RuntimeError, match="not open"), dual_level():
        unpack_dual(t(A), level=level)


def test_a_level_closes_after_an_error():
    with pytest.raises(ZeroDivisionError), dual_level():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="works inside"):
        make_dual(t(A), t(V))


def test_tangents_in_another_order_of_memory_follow_writes_through_views():
    def f(x):
        y = x * 1.0
        first, flat = y[0], y.view(-1)
        y.mul_(2.0)
        return flat * 1.0, first * 1.0

    x = lucid.arange(6.0).reshape(2, 3)
    tangent = lucid.arange(6.0).reshape(3, 2).t()
    _, (flat, first) = jvp(f, (x,), (tangent,))
    np.testing.assert_array_equal(flat.numpy(), 2 * tangent.numpy().reshape(-1))
    np.testing.assert_array_equal(first.numpy(), 2 * tangent.numpy()[0])


def test_what_was_detached_shows_a_dual_without_its_tangent():
    def f(x):
        y = lucid.zeros(3)
        before = y.detach()
        y.copy_(x)
        return before * 1.0

    x = lucid.arange(3.0)
    value, change = jvp(f, (x,), (x,))
    np.testing.assert_array_equal(value.numpy(), x.numpy())
    np.testing.assert_array_equal(change.numpy(), np.zeros(3))
