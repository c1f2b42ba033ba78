"""scan under every transform, and cond, while_loop and scan inside each other."""

import numpy as np
import pytest

import lucid
from lucid.func import cond, grad, hessian, jacrev, jvp, make_graph, scan, vjp, vmap, while_loop

A = np.array([0.5, -1.2, 2.0])
V = np.array([1.0, 2.0, -0.5])
ROWS = np.array([[0.5, -1.2, 2.0], [-1.5, 0.3, 0.7], [3.0, 1.0, -2.0]])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


def recurrence(x):
    """c ← c e + sin e, y = c²."""
    return scan(lambda c, e: (c * e + e.sin(), c * c), t(0.5), x)


def recurrence_ref(x):
    c, ys = 0.5 + 0 * x[..., 0], []
    for i in range(x.shape[-1]):
        c, y = c * x[..., i] + np.sin(x[..., i]), c * c
        ys.append(y)
    return c, np.stack(ys, axis=-1)


def total(x):
    c, ys = recurrence(x)
    return c * ys.sum()


def slope_ref(x, h=1e-6):
    def value(y):
        c, ys = recurrence_ref(y)
        return c * ys.sum(-1)

    return np.stack([(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(3)], axis=-1)


def test_scan_in_every_transform():
    c, ys = recurrence(t(A))
    want = recurrence_ref(A)
    close(c, want[0])
    close(ys, want[1])
    close(grad(total)(t(A)), slope_ref(A), 1e-6)
    close(jvp(total, (t(A),), (t(V),))[1], (slope_ref(A) * V).sum(), 1e-6)
    close(hessian(total)(t(A)), jacrev(jacrev(total))(t(A)).numpy())
    close(vmap(total)(t(ROWS)), [float(recurrence_ref(r)[0] * recurrence_ref(r)[1].sum()) for r in ROWS])
    close(vmap(grad(total))(t(ROWS)), slope_ref(ROWS), 1e-6)
    close(grad(lambda x: vmap(total)(x).sum())(t(ROWS)), slope_ref(ROWS), 1e-6)


def test_scan_in_programs():
    program = make_graph(total)(t(V))
    close(program(t(A)), total(t(A)).item())
    close(grad(program)(t(A)), slope_ref(A), 1e-6)
    close(make_graph(grad(total))(t(V))(t(A)), slope_ref(A), 1e-6)
    close(vmap(program)(t(ROWS)), vmap(total)(t(ROWS)).numpy())


def test_scan_in_reverse():
    last, sums = scan(lambda c, e: (c + e, c + e), t(0.0), t([1.0, 2.0, 3.0]), reverse=True)
    close(last, 6.0)
    close(sums, [6.0, 5.0, 3.0])
    close(grad(lambda x: scan(lambda c, e: (c * 2 + e, c), t(0.0), x, reverse=True)[0])(t(A)), [1.0, 2.0, 4.0])


def test_scan_over_nests():
    def f(carry, x):
        new = {"s": carry["s"] + x[0] * x[1]["b"]}
        return new, (new["s"] * 2, {"b": x[0]})

    carry, ys = scan(f, {"s": t(0.0)}, (t(A), {"b": t(V)}))
    close(carry["s"], (A * V).sum())
    close(ys[0], 2 * np.cumsum(A * V))
    close(ys[1]["b"], A)


def test_scan_over_rows_and_without_xs():
    carry, ys = scan(lambda c, row: (c + row, c.sum()), t(np.zeros(3)), t(ROWS))
    close(carry, ROWS.sum(0))
    close(ys, [0.0, ROWS[0].sum(), ROWS[:2].sum()])
    carry, ys = scan(lambda c, _: (c * 2, c), t(1.0), length=4)
    close(carry, 16.0)
    close(ys, [1.0, 2.0, 4.0, 8.0])
    carry, ys = scan(lambda c, e: (c + e, None), t(0.0), t(A))
    close(carry, A.sum())
    assert ys is None


def test_scan_over_nothing():
    carry, ys = scan(lambda c, e: (c + e.sum(), {"y": e * 2}), t(1.0), t(np.zeros((0, 3))))
    close(carry, 1.0)
    assert ys["y"].shape == (0, 3) and ys["y"].dtype == lucid.float64
    carry, ys = scan(lambda c, _: (c, c), t(1.0), length=0)
    close(ys, np.zeros(0))


def test_numbers_as_the_first_carry():
    carry, _ = scan(lambda c, e: (c + e, e), 0.0, lucid.tensor([1.0, 2.0]))
    assert carry.item() == 3.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: scan(lambda c, e: c, t(0.0), t(A)), TypeError, "scan: the function must return a pair"),
        (lambda: scan(lambda c, e: (c, e, e), t(0.0), t(A)), TypeError, "pair"),
        (
            lambda: scan(lambda c, e: ((c,), e), t(0.0), t(A)),
            ValueError,
            "scan: the carry and the next one differ in structure",
        ),
        (
            lambda: scan(lambda c, e: (c[None], e), t(0.0), t(A)),
            ValueError,
            r"the carry is lucid.float64 of shape \(\).*\(1,\)",
        ),
        (lambda: scan(lambda c, e: (c.float(), e), t(0.0), t(A)), ValueError, "float32"),
        (lambda: scan(lambda c, e: (c, e), t(0.0), (t(A), t(A[:2]))), ValueError, r"same number.*\[2, 3\]"),
        (lambda: scan(lambda c, e: (c, e), t(0.0), t(A), length=5), ValueError, r"\[3, 5\]"),
        (lambda: scan(lambda c, e: (c, e), t(0.0)), ValueError, "no xs and no length"),
        (lambda: scan(lambda c, e: (c, e), t(0.0), t(1.0)), ValueError, "0-d tensor"),
        (
            lambda: scan(lambda c, e: (c + 1, e if c.item() < 1 else (e,)), t(0.0), t(A)),
            ValueError,
            "ys differ in structure",
        ),
    ],
    ids=["no pair", "triple", "structure", "shape", "dtype", "lengths", "length", "nothing", "number", "ys"],
)
def test_bad_scans(call, error, words):
    with pytest.raises(error, match="(?s)" + words):
        call()


# Inside each other.


def mixed(x):
    """For each element: halve until below 1 (a loop), then branch; carry the sum along."""

    def step(c, e):
        small = while_loop(lambda v: v.abs() > 1, lambda v: v / 2, e)
        new = cond(small > 0, lambda v: c + v**2, lambda v: c * 0.5 + v, small)
        return new, small

    c, smalls = scan(step, t(0.0), x)
    return c + smalls.sum()


def mixed_ref(x):
    c, out = 0.0, 0.0
    for e in x:
        while abs(e) > 1:
            e = e / 2
        c = c + e**2 if e > 0 else c * 0.5 + e
        out += e
    return c + out


def mixed_slope(x, h=1e-6):
    return np.array([(mixed_ref(x + h * e) - mixed_ref(x - h * e)) / (2 * h) for e in np.eye(3)])


SMOOTH = np.array([[0.5, -1.2, 3.0], [-1.5, 0.3, 0.7], [5.0, 0.9, -2.1]])


def test_loops_in_scans_with_branches():
    for row in SMOOTH:
        close(mixed(t(row)), mixed_ref(row))
        close(grad(mixed)(t(row)), mixed_slope(row), 1e-6)
        close(jvp(mixed, (t(row),), (t(V),))[1], (mixed_slope(row) * V).sum(), 1e-6)
    close(vmap(mixed)(t(SMOOTH)), [mixed_ref(r) for r in SMOOTH])
    close(vmap(grad(mixed))(t(SMOOTH)), np.stack([mixed_slope(r) for r in SMOOTH]), 1e-6)


def test_loops_in_scans_with_branches_in_programs():
    program = make_graph(mixed)(t(SMOOTH[0]))
    for row in SMOOTH:
        close(program(t(row)), mixed_ref(row))
        close(jvp(program, (t(row),), (t(V),))[1], (mixed_slope(row) * V).sum(), 1e-6)
        close(grad(program)(t(row)), mixed_slope(row), 1e-6)
    close(vmap(program)(t(SMOOTH)), [mixed_ref(r) for r in SMOOTH])


def test_a_loop_inside_a_loop():
    def f(x):
        def outer(s):
            inner = while_loop(lambda v: v < s[0], lambda v: v * 2, x)
            return s[0] * 3, s[1] + inner

        return while_loop(lambda s: s[0] < 30, outer, (t(2.0), x * 0))[1]

    def ref(x):
        limit, out = 2.0, 0.0
        while limit < 30:
            v = x
            while v < limit:
                v = v * 2
            limit, out = limit * 3, out + v
        return out

    points = [1.3, 0.6, 5.0]
    close(vmap(f)(t(points)), [ref(p) for p in points])
    close(make_graph(f)(t(1.0))(t(0.6)), ref(0.6))
    close(vmap(grad(f))(t(points)), [ref(p) / p for p in points])
    close(vmap(make_graph(f)(t(1.0)))(t(points)), [ref(p) for p in points])


def test_derivatives_inside_branches_and_loops():
    """Newton's method for the cube root, with its derivative from grad."""

    def root(a):
        f = lambda y: y**3 - a
        return while_loop(lambda y: f(y).abs() > 1e-12, lambda y: y - f(y) / grad(f)(y), a * 0 + 1.5)

    values = np.array([8.0, 2.0, 27.0])
    close(vmap(root)(t(values)), np.cbrt(values), 1e-9)
    close(root(t(8.0)), 2.0, 1e-9)
    close(make_graph(root)(t(2.0))(t(8.0)), 2.0, 1e-9)
    f = lambda x: cond(x > 0, grad(lambda y: y**3), lambda y: vjp(lambda z: z**2, y)[1](t(1.0))[0], x)
    close(vmap(f)(t([2.0, -2.0])), [12.0, -4.0])
    close(vmap(grad(f))(t([2.0, -2.0])), [12.0, 2.0])
