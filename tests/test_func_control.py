"""cond, while_loop and scan: on plain values, under every transform, inside each other."""

import numpy as np
import pytest

import lucid
from lucid.func import cond, grad, hessian, jacfwd, jacrev, jvp, linearize, make_graph, scan, vmap, while_loop

A = np.array([0.5, -1.2, 2.0])
V = np.array([1.0, 2.0, -0.5])
ROWS = np.array([[0.5, -1.2, 2.0], [-1.5, 0.3, 0.7], [3.0, 1.0, -2.0]])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


def test_they_are_public_names():
    assert lucid.cond is cond and lucid.while_loop is while_loop and lucid.scan is scan


# cond.


def branchy(x):
    """x³ where the sum is positive, else 2 sin x."""
    return cond(x.sum() > 0, lambda y: y**3, lambda y: 2 * y.sin(), x)


def branchy_ref(x):
    return np.where(x.sum(-1, keepdims=True) > 0, x**3, 2 * np.sin(x))


def branchy_slope(x):
    return np.where(x.sum(-1, keepdims=True) > 0, 3 * x**2, 2 * np.cos(x))


def branchy_curve(x):
    return np.where(x.sum(-1, keepdims=True) > 0, 6 * x, -2 * np.sin(x))


@pytest.mark.parametrize("row", ROWS, ids=["yes", "no", "yes again"])
def test_cond_in_every_transform(row):
    f = lambda x: branchy(x).sum()
    close(branchy(t(row)), branchy_ref(row))
    close(grad(f)(t(row)), branchy_slope(row))
    close(jvp(branchy, (t(row),), (t(V),))[1], branchy_slope(row) * V)
    close(hessian(f)(t(row)), np.diag(branchy_curve(row)))
    close(jacrev(branchy)(t(row)), np.diag(branchy_slope(row)))
    close(jacfwd(branchy)(t(row)), np.diag(branchy_slope(row)))
    close(linearize(branchy, t(row))[1](t(V)), branchy_slope(row) * V)
    x = t(row, requires_grad=True)
    branchy(x).sum().backward()
    close(x.grad, branchy_slope(row))


def test_cond_under_vmap():
    f = lambda x: branchy(x).sum()
    close(vmap(branchy)(t(ROWS)), branchy_ref(ROWS))
    close(vmap(grad(f))(t(ROWS)), branchy_slope(ROWS))
    close(grad(lambda x: vmap(f)(x).sum())(t(ROWS)), branchy_slope(ROWS))
    close(vmap(lambda x: jvp(branchy, (x,), (t(V),))[1])(t(ROWS)), branchy_slope(ROWS) * V)
    close(jvp(vmap(branchy), (t(ROWS),), (t(ROWS),))[1], branchy_slope(ROWS) * ROWS)
    close(vmap(hessian(f))(t(ROWS)), np.stack([np.diag(r) for r in branchy_curve(ROWS)]))
    close(vmap(vmap(lambda x: branchy(x[None])[0]))(t(ROWS)), branchy_ref(ROWS[..., None])[..., 0])
    close(vmap(branchy, chunk_size=2)(t(ROWS)), branchy_ref(ROWS))


def test_cond_in_programs():
    f = lambda x: branchy(x).sum()
    program = make_graph(branchy)(t(ROWS[0]))
    slope = make_graph(grad(f))(t(ROWS[1]))
    for row in ROWS:
        close(program(t(row)), branchy_ref(row))
        close(slope(t(row)), branchy_slope(row))
        close(grad(lambda x: program(x).sum())(t(row)), branchy_slope(row))
        close(jvp(program, (t(row),), (t(V),))[1], branchy_slope(row) * V)
        close(hessian(lambda x: program(x).sum())(t(row)), np.diag(branchy_curve(row)))
    close(vmap(program)(t(ROWS)), branchy_ref(ROWS))
    close(vmap(slope)(t(ROWS)), branchy_slope(ROWS))
    close(make_graph(vmap(branchy))(t(-ROWS))(t(ROWS)), branchy_ref(ROWS))
    assert any(i.primitive.name == "cond" for i in program.instructions)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: make_graph(hessian(f)),
        lambda f: make_graph(jacfwd(grad(f))),
        lambda f: make_graph(jacrev(grad(f))),
        lambda f: make_graph(jacrev(jacrev(f))),
    ],
    ids=["hessian", "jacfwd(grad)", "jacrev(grad)", "jacrev(jacrev)"],
)
def test_second_derivatives_of_cond_in_programs(make):
    program = make(lambda x: branchy(x).sum())(t(ROWS[0]))
    for row in ROWS:
        close(program(t(row)), np.diag(branchy_curve(row)))


def test_only_one_branch_runs_on_concrete_values():
    calls = []

    def f(x):
        return cond(x > 0, lambda y: calls.append("yes") or y, lambda y: calls.append("no") or y, x)

    f(t(1.0))
    f(t(-1.0))
    grad(f)(t(1.0))
    jvp(f, (t(-1.0),), (t(1.0),))
    vmap(f)(t([1.0, 2.0]))
    assert calls == ["yes", "no", "yes", "no", "yes"]


@pytest.mark.parametrize(
    "pred", [True, 1, 0.5, "text", np.True_, lucid.tensor(True), lucid.tensor([3.0]), lucid.tensor([[1]])], ids=repr
)
def test_conditions_that_are_true(pred):
    assert cond(pred, lambda: "yes", lambda: "no") == "yes"


@pytest.mark.parametrize(
    "pred", [False, 0, None, "", np.False_, lucid.tensor(False), lucid.tensor([0.0]), lucid.tensor([[0]])], ids=repr
)
def test_conditions_that_are_false(pred):
    assert cond(pred, lambda: "yes", lambda: "no") == "no"


def test_conditions_of_any_type_under_vmap():
    for preds in ([1.0, 0.0, -2.0], [1, 0, 3], [[True], [False], [True]]):
        got = vmap(lambda p, x: cond(p, lambda y: y, lambda y: -y, x))(lucid.tensor(preds), t([1.0, 2.0, 3.0]))
        close(got, [1.0, -2.0, 3.0])


def test_operands_as_a_tuple():
    f = lambda a, b: a * b
    close(cond(True, f, f, (t(2.0), t(3.0))), 6.0)
    close(cond(True, f, f, t(2.0), t(3.0)), 6.0)
    close(cond(False, lambda pair: pair[0], lambda pair: pair[1], (t(2.0), t(3.0))), 3.0)


def test_branches_without_operands():
    x = t([4.0, -1.0])
    close(vmap(lambda v: cond(v > 0, lambda: v * 2, lambda: v * 3))(x), [8.0, -3.0])


def test_nests_through_cond():
    def f(x):
        out = cond(
            x > 0,
            lambda d: {"a": d["x"] * 2, "b": [d["x"], None]},
            lambda d: {"a": d["x"], "b": [d["x"] * 0, None]},
            {"x": x},
        )
        assert out["b"][1] is None
        return out["a"] + out["b"][0]

    close(vmap(f)(t([1.0, -1.0])), [3.0, -1.0])
    close(make_graph(f)(t(1.0))(t(-1.0)), -1.0)
    close(vmap(grad(f))(t([1.0, -1.0])), [3.0, 1.0])


def test_closures_in_branches():
    w = t(3.0, requires_grad=True)
    f = lambda x: cond(x > 0, lambda y: y * w, lambda y: y + w**2, x)
    vmap(f)(t([2.0, -1.0, 5.0])).sum().backward()
    close(w.grad, 2.0 + 6.0 + 5.0)
    w.grad = None
    program = make_graph(f)(t(1.0))
    program(t(-4.0)).backward()
    close(w.grad, 6.0)
    w.grad = None
    vmap(program)(t([2.0, -1.0, 5.0])).sum().backward()
    close(w.grad, 13.0)


@pytest.mark.parametrize(
    ("name", "safe", "point", "value", "slope"),
    [
        ("sqrt", lambda y: y.sqrt(), [4.0, -1.0, 0.0], [2.0, 0.0, 0.0], [0.25, 0.0, 0.0]),
        ("log", lambda y: y.log(), [1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ("reciprocal", lambda y: 1 / y, [2.0, -1.0, 0.0], [0.5, 0.0, 0.0], [-0.25, 0.0, 0.0]),
        ("pow", lambda y: y**0.5, [4.0, -1.0, 0.0], [2.0, 0.0, 0.0], [0.25, 0.0, 0.0]),
    ],
)
def test_no_nan_from_the_branch_not_taken(name, safe, point, value, slope):
    f = lambda x: cond(x > 0, safe, lambda y: y * 0, x)
    close(vmap(f)(t(point)), value)
    close(vmap(grad(f))(t(point)), slope)
    close(grad(lambda x: vmap(f)(x).sum())(t(point)), slope)
    close(vmap(jacfwd(f))(t(point)), slope)
    close(jvp(vmap(f), (t(point),), (lucid.ones(3, dtype=lucid.float64),))[1], slope)
    assert np.isfinite(vmap(grad(grad(f)))(t(point)).numpy()).all()
    assert np.isfinite(vmap(hessian(f))(t(point)).numpy()).all()
    program = make_graph(grad(f))(t(1.0))
    close(vmap(program)(t(point)), slope)
    for x, v, s in zip(point, value, slope, strict=True):
        close(f(t(x)), v)
        close(program(t(x)), s)


@pytest.mark.parametrize(
    ("yes", "no", "words"),
    [
        (lambda x: x, lambda x: (x,), r"cond: the results of true_fn and the results of false_fn differ in structure"),
        (lambda x: {"a": x}, lambda x: {"b": x}, "structure"),
        (lambda x: x, lambda x: x[:1], r"float64 of shape \(2,\).*float64 of shape \(1,\)"),
        (lambda x: x, lambda x: x.float(), "float64.*float32"),
        (lambda x: (x, x), lambda x: (x, x.sum()), r"\[1\] is lucid.float64 of shape \(2,\).*\(\)"),
        (lambda x: x > 0, lambda x: x, "bool.*float64"),
    ],
    ids=["structure", "keys", "shape", "dtype", "nested shape", "bool"],
)
@pytest.mark.parametrize("how", ["vmap", "make_graph"])
def test_branches_must_agree(yes, no, words, how):
    f = lambda x: cond(x.sum() > 0, yes, no, x)
    with pytest.raises(ValueError, match="(?s)" + words):
        vmap(f)(t([[1.0, 1.0], [-1.0, -1.0]])) if how == "vmap" else make_graph(f)(t([1.0, 1.0]))


@pytest.mark.parametrize("how", ["plain", "vmap", "grad", "make_graph"])
def test_a_condition_with_many_elements_is_refused(how):
    f = lambda x: cond(x > 0, lambda y: y, lambda y: -y, x).sum()
    calls = {"plain": lambda: f(t(A)), "vmap": lambda: vmap(f)(t(ROWS)), "grad": lambda: grad(f)(t(A)), "make_graph": lambda: make_graph(f)(t(A))}  # fmt: skip
    with pytest.raises(ValueError, match=r"cond: the condition must be one truth value, but has shape \(3,\).*any"):
        calls[how]()


def test_conditions_do_not_carry_derivatives():
    f = lambda x: cond(x, lambda y: y * 2, lambda y: y, x)
    close(grad(f)(t(3.0)), 2.0)
    close(jvp(f, (t(3.0),), (t(1.0),))[1], 2.0)


def test_a_shared_condition_under_vmap_takes_one_branch():
    calls = []
    shared = t(1.0)

    def f(x):
        return cond(shared > 0, lambda y: calls.append("yes") or y * 2, lambda y: calls.append("no") or y, x)

    close(vmap(f)(t(A)), 2 * A)
    assert calls == ["yes"]


def test_cond_inside_cond():
    def f(x):
        return cond(
            x > 0,
            lambda y: cond(y > 1, lambda z: z**3, lambda z: z**2, y),
            lambda y: cond(y < -1, lambda z: -z, lambda z: z * 0, y),
            x,
        )

    points, values, slopes = [2.0, 0.5, -3.0, -0.5], [8.0, 0.25, 3.0, 0.0], [12.0, 1.0, -1.0, 0.0]
    close(vmap(f)(t(points)), values)
    close(vmap(grad(f))(t(points)), slopes)
    program = make_graph(f)(t(2.0))
    close(vmap(program)(t(points)), values)
    for p, v, s in zip(points, values, slopes, strict=True):
        close(program(t(p)), v)
        close(grad(program)(t(p)), s)


def test_writes_inside_branches():
    def bump(x):
        y = x.clone()
        y[0] = 10.0
        return y

    f = lambda x: cond(x.sum() > 0, bump, lambda y: y * 1, x)
    want = ROWS.copy()
    want[ROWS.sum(1) > 0, 0] = 10.0
    close(vmap(f)(t(ROWS)), want)
    close(vmap(make_graph(f)(t(A)))(t(ROWS)), want)


# while_loop.


def powers(x, limit=10.0):
    """x, x², x⁴... until it exceeds the limit."""
    return while_loop(lambda y: y.abs() < limit, lambda y: y * y, x)


def powers_ref(x):
    """Value and derivative."""
    y, d = x, 1.0
    while abs(y) < 10.0:
        y, d = y * y, 2 * y * d
    return y, d


POINTS = [1.5, 3.0, -4.0, 20.0, 1.1]


@pytest.mark.parametrize("x", POINTS)
def test_while_loop_in_every_transform(x):
    value, slope = powers_ref(x)
    close(powers(t(x)), value)
    close(grad(powers)(t(x)), slope)
    close(jvp(powers, (t(x),), (t(2.0),))[1], 2 * slope)
    close(jacfwd(powers)(t(x)), slope)
    leaf = t(x, requires_grad=True)
    powers(leaf).backward()
    close(leaf.grad, slope)
    eps = 1e-4
    curve = (powers_ref(x + eps)[1] - powers_ref(x - eps)[1]) / (2 * eps)
    close(hessian(powers)(t(x)), curve, 1e-4)


def test_while_loop_under_vmap_stops_each_example():
    values, slopes = zip(*[powers_ref(x) for x in POINTS], strict=True)
    close(vmap(powers)(t(POINTS)), values)
    close(vmap(grad(powers))(t(POINTS)), slopes)
    close(grad(lambda x: vmap(powers)(x).sum())(t(POINTS)), slopes)
    close(jvp(vmap(powers), (t(POINTS),), (lucid.ones(5, dtype=lucid.float64),))[1], slopes)
    close(vmap(lambda x: jvp(powers, (x,), (t(1.0),))[1])(t(POINTS)), slopes)
    grid = np.array([POINTS, POINTS[::-1]])
    close(vmap(vmap(powers))(t(grid)), [values, values[::-1]])


def test_while_loop_in_programs():
    program = make_graph(powers)(t(1.5))
    change = make_graph(lambda x: jvp(powers, (x,), (t(1.0),))[1])(t(1.5))
    for x in POINTS:
        value, slope = powers_ref(x)
        close(program(t(x)), value)
        close(change(t(x)), slope)
        close(grad(program)(t(x)), slope)
        close(jvp(program, (t(x),), (t(1.0),))[1], slope)
    close(vmap(program)(t(POINTS)), [powers_ref(x)[0] for x in POINTS])
    assert [i.primitive.name for i in program.instructions] == ["while_loop"]


def test_reverse_mode_through_a_traced_loop_is_refused():
    with pytest.raises(RuntimeError, match=r"while_loop: reverse mode through a traced while_loop.*scan"):
        make_graph(grad(powers))(t(1.5))


def test_while_loop_over_nests():
    def f(x):
        out = while_loop(
            lambda s: s["n"] < 4,
            lambda s: {"n": s["n"] + 1, "v": [s["v"][0] * x, None]},
            {"n": lucid.tensor(0), "v": [x, None]},
        )
        assert out["v"][1] is None
        return out["v"][0]

    close(f(t(2.0)), 32.0)
    close(grad(f)(t(2.0)), 80.0)
    close(vmap(grad(f))(t([1.0, 2.0])), [5.0, 80.0])
    close(make_graph(f)(t(1.0))(t(2.0)), 32.0)


def test_examples_that_have_stopped_stay_finite():
    """An example that has reached 0 would be divided by it in the next round."""
    f = lambda x: while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] + 1 / s[0]), (x, x * 0))[1]
    got = vmap(f)(t([1.0, 3.0, 0.0]))
    close(got, [1.0, 1 / 3 + 1 / 2 + 1, 0.0])
    slopes = vmap(grad(f))(t([1.0, 3.0, 0.0])).numpy()
    np.testing.assert_allclose(slopes, [-1.0, -(1 / 9 + 1 / 4 + 1), 0.0], rtol=1e-12)


def test_a_loop_that_never_runs():
    f = lambda x: while_loop(lambda y: y > 1e9, lambda y: y * 2, x)
    close(f(t(3.0)), 3.0)
    close(grad(f)(t(3.0)), 1.0)
    close(vmap(f)(t(A)), A)
    close(make_graph(f)(t(1.0))(t(5.0)), 5.0)


def test_closures_in_loops():
    w = t(2.0, requires_grad=True)
    f = lambda x: while_loop(lambda y: y < 10, lambda y: y * w, x)
    vmap(f)(t([1.0, 3.0])).sum().backward()  # 16 = 2⁴ and 12 = 3·2²
    close(w.grad, 4 * 8.0 + 3 * 2 * 2.0)
    program = make_graph(f)(t(1.0))
    close(program(t(3.0)), 12.0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda x: (x - 1,), "while_loop: the value and what body_fn made of it differ in structure"),
        (lambda x: (x - 1).float(), "float64.*float32"),
        (lambda x: x[None] - 1, r"\(\).*\(1,\)"),
        (lambda x: x > 1, "float64.*bool"),
    ],
    ids=["structure", "dtype", "shape", "bool"],
)
@pytest.mark.parametrize("how", ["plain", "vmap", "make_graph"])
def test_the_body_must_keep_the_type(body, words, how):
    f = lambda x: while_loop(lambda y: (y[0] if isinstance(y, tuple) else y) > 0, body, x)
    calls = {
        "plain": lambda: f(t(1.0)),
        "vmap": lambda: vmap(f)(t([1.0, -1.0])),
        "make_graph": lambda: make_graph(f)(t(1.0)),
    }
    with pytest.raises(ValueError, match="(?s)" + words):
        calls[how]()


def test_loop_conditions_with_many_elements_are_refused():
    with pytest.raises(ValueError, match=r"while_loop: the condition must be one truth value, but has shape \(3,\)"):
        while_loop(lambda x: x > 0, lambda x: x - 1, t(A))


def test_a_traced_loop_with_examples_that_differ_is_refused():
    with pytest.raises(RuntimeError, match="while_loop: inside make_graph"):
        make_graph(vmap(powers))(t(POINTS))
