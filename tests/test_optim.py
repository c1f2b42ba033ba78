"""Optimizers: against NumPy's arithmetic, on arrays, tensors and inside transforms, with their state and its bookkeeping."""

import copy
import pickle
import weakref
from itertools import product

import numpy as np
import pytest

import lucid
from lucid.func import jvp, make_graph, vmap
from lucid.optim import layout

NAMES = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Lion", "Muon",
         "ASGD", "Adafactor"]  # fmt: skip
ELEMENTWISE = [n for n in NAMES if n not in ("Muon", "Adafactor")]
SHAPES = [(4, 3), (3,), (), (2, 2, 2), (7,)]


def make(name, params, **options):
    return getattr(lucid.optim, name)(params, **options)


def leaf(values, dtype=lucid.float64):
    return lucid.tensor(np.asarray(values), dtype=dtype).requires_grad_()


def values(tensor):
    return np.array(tensor.detach().numpy())


def random_leaves(shapes, dtype=lucid.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [leaf(rng.standard_normal(s), dtype) for s in shapes]


def set_gradients(params, rng, skip=()):
    for i, p in enumerate(params):
        noise = rng.standard_normal(p.shape)
        if p.is_complex():
            noise = noise + 1j * rng.standard_normal(p.shape)
        p.grad = None if i in skip else lucid.tensor(np.asarray(noise), dtype=p.dtype)


def train(optimizer, params, steps, seed=1, skip_at=None):
    """Some steps with random gradients; at the steps in `skip_at` some parameters have none."""
    rng = np.random.default_rng(seed)
    for k in range(steps):
        set_gradients(params, rng, (skip_at or {}).get(k, ()))
        optimizer.step()
    return [values(p) for p in params]


# The formulas in plain NumPy, one parameter at a time.


def prepared(p, g, weight_decay=0.0, maximize=False):
    g = -g if maximize else g
    return g + weight_decay * p


def sgd(p, gradients, lr=1e-3, momentum=0, dampening=0, nesterov=False, **rest):
    p, b = p.copy(), None
    for raw in gradients:
        g = prepared(p, raw, **rest)
        if momentum:
            b = g if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p = p - lr * g
    return p


def adam(
    p, gradients, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False,
    decoupled_weight_decay=False,
):  # fmt: skip
    m = v = top = np.zeros_like(p)
    for t, raw in enumerate(gradients, 1):
        g = prepared(p, raw, 0.0 if decoupled_weight_decay else weight_decay, maximize)
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        top = np.maximum(top, v)
        m_hat = m / (1 - betas[0] ** t)
        v_hat = (top if amsgrad else v) / (1 - betas[1] ** t)
        p = p - lr * m_hat / (np.sqrt(v_hat) + eps)
    return p


def adamw(p, gradients, weight_decay=1e-2, **options):
    return adam(p, gradients, weight_decay=weight_decay, decoupled_weight_decay=True, **options)


def nadam(
    p, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
    decoupled_weight_decay=False, maximize=False,
):  # fmt: skip
    m = v = np.zeros_like(p)
    running = np.float32(1.0)  # kept in single precision
    for t, raw in enumerate(gradients, 1):
        g = prepared(p, raw, 0.0 if decoupled_weight_decay else weight_decay, maximize)
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        now, later = (betas[0] * (1 - 0.5 * 0.96 ** (s * momentum_decay)) for s in (t, t + 1))
        exact = float(running) * now
        running = np.float32(exact)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        scale = np.sqrt(v / (1 - betas[1] ** t)) + eps
        p = p - lr * (1 - now) / (1 - exact) * g / scale - lr * later / (1 - exact * later) * m / scale
    return p


def radam(
    p, gradients, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False,
    maximize=False,
):  # fmt: skip
    m = v = np.zeros_like(p)
    limit = 2 / (1 - betas[1]) - 1
    for t, raw in enumerate(gradients, 1):
        g = prepared(p, raw, 0.0 if decoupled_weight_decay else weight_decay, maximize)
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        m_hat = m / (1 - betas[0] ** t)
        length = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            r = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            p = p - lr * m_hat * r * np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        else:
            p = p - lr * m_hat
    return p


def adamax(p, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, **rest):
    m = n = np.zeros_like(p)
    for t, raw in enumerate(gradients, 1):
        g = prepared(p, raw, **rest)
        m = betas[0] * m + (1 - betas[0]) * g
        n = np.maximum(betas[1] * n, np.abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / n
    return p


def adagrad(p, gradients, lr=1e-2, lr_decay=0, initial_accumulator_value=0.0, eps=1e-10, **rest):
    s = np.full_like(p, initial_accumulator_value)
    for t, raw in enumerate(gradients, 1):
        g = prepared(p, raw, **rest)
        s = s + g**2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s) + eps)
    return p


def adadelta(p, gradients, lr=1.0, rho=0.9, eps=1e-6, **rest):
    v = a = np.zeros_like(p)
    for raw in gradients:
        g = prepared(p, raw, **rest)
        v = rho * v + (1 - rho) * g**2
        d = np.sqrt(a + eps) / np.sqrt(v + eps) * g
        a = rho * a + (1 - rho) * d**2
        p = p - lr * d
    return p


def rmsprop(p, gradients, lr=1e-2, alpha=0.99, eps=1e-8, momentum=0, centered=False, **rest):
    v = mean = b = np.zeros_like(p)
    for raw in gradients:
        g = prepared(p, raw, **rest)
        v = alpha * v + (1 - alpha) * g**2
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(v - mean**2 if centered else v) + eps)
        b = momentum * b + step
        p = p - lr * (b if momentum else step)
    return p


def rprop(p, gradients, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), maximize=False):
    before, size = np.zeros_like(p), np.full_like(p, lr)
    for raw in gradients:
        g = -raw if maximize else raw
        agree = g * before
        size = np.clip(size * np.where(agree > 0, etas[1], np.where(agree < 0, etas[0], 1.0)), *step_sizes)
        before = np.where(agree < 0, 0.0, g)
        p = p - np.sign(before) * size
    return p


def lion(p, gradients, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
    m = np.zeros_like(p)
    for raw in gradients:
        g = -raw if maximize else raw
        p = p * (1 - lr * weight_decay) - lr * np.sign(betas[0] * m + (1 - betas[0]) * g)
        m = betas[1] * m + (1 - betas[1]) * g
    return p


def muon(
    p, gradients, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5, adjust_lr_fn=None,
    maximize=False,
):  # fmt: skip
    a, b, c = 3.4445, -4.775, 2.0315
    rows, columns = p.shape
    factor = 0.2 * np.sqrt(max(rows, columns)) if adjust_lr_fn == "match_rms_adamw" else np.sqrt(max(1, rows / columns))
    m = np.zeros_like(p)
    for raw in gradients:
        g = -raw if maximize else raw
        m = momentum * m + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * m if nesterov else m
        u, s, vt = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
        for _ in range(ns_steps):  # the iteration is a polynomial in the singular values
            s = a * s + b * s**3 + c * s**5
        p = p * (1 - lr * weight_decay) - lr * factor * (u * s) @ vt
    return p


def asgd(p, gradients, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, maximize=False):
    for t, raw in enumerate(gradients):
        g = (-raw if maximize else raw) + weight_decay * p
        eta = float(np.float32(lr / (1 + lambd * lr * t) ** alpha))
        p = (1 - lambd * eta) * p - eta * g
    return p


def adafactor(p, gradients, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, maximize=False):
    second = rows = columns = 0.0
    for t, raw in enumerate(gradients, 1):
        g = -raw if maximize else raw
        weight = t**beta2_decay
        size = max(eps[1], np.sqrt(np.mean(p**2))) * min(lr, t**-0.5)
        p = p * (1 - lr * weight_decay)
        if p.ndim > 1:
            rows = rows + weight * ((g**2).mean(-1) - rows)
            columns = columns + weight * ((g**2).mean(-2) - columns)
            second = np.einsum("...i,...j->...ij", rows, columns) / rows.mean(-1)[..., None, None]
        else:
            second = second + weight * (g**2 - second)
        u = g / np.sqrt(np.maximum(second, np.finfo(p.dtype).eps ** 2))
        p = p - size * u / max(1.0, np.sqrt(np.mean(u**2)) / d)
    return p


REFERENCES = {
    "SGD": sgd, "Adam": adam, "AdamW": adamw, "NAdam": nadam, "RAdam": radam, "Adamax": adamax, "Adagrad": adagrad,
    "Adadelta": adadelta, "RMSprop": rmsprop, "Rprop": rprop, "Lion": lion, "Muon": muon,
    "ASGD": asgd, "Adafactor": adafactor,
}  # fmt: skip

_DECAY, _SIGN = [0.0, 0.1], [False, True]
_OPTIONS = {
    "SGD": {"lr": [0.1], "momentum": [0, 0.9], "dampening": [0, 0.3], "weight_decay": _DECAY, "nesterov": _SIGN,
            "maximize": _SIGN},
    "Adam": {"lr": [0.1], "weight_decay": _DECAY, "amsgrad": _SIGN, "maximize": _SIGN,
             "decoupled_weight_decay": _SIGN},
    "AdamW": {"lr": [0.1], "weight_decay": _DECAY, "amsgrad": _SIGN, "maximize": _SIGN},
    "NAdam": {"lr": [0.1], "weight_decay": _DECAY, "decoupled_weight_decay": _SIGN, "maximize": _SIGN},
    "RAdam": {"lr": [0.1], "weight_decay": _DECAY, "decoupled_weight_decay": _SIGN, "maximize": _SIGN},
    "Adamax": {"lr": [0.1], "weight_decay": _DECAY, "maximize": _SIGN},
    "Adagrad": {"lr": [0.1], "lr_decay": [0, 0.1], "weight_decay": _DECAY, "initial_accumulator_value": [0, 0.2],
                "maximize": _SIGN},
    "Adadelta": {"lr": [1.0], "weight_decay": _DECAY, "maximize": _SIGN},
    "RMSprop": {"lr": [0.1], "weight_decay": _DECAY, "momentum": [0, 0.9], "centered": _SIGN, "maximize": _SIGN},
    "Rprop": {"lr": [0.1], "maximize": _SIGN},
    "Lion": {"lr": [0.01], "weight_decay": _DECAY, "maximize": _SIGN},
    "Muon": {"lr": [0.05], "weight_decay": _DECAY, "nesterov": _SIGN, "adjust_lr_fn": [None, "match_rms_adamw"],
             "maximize": _SIGN},
    "ASGD": {"lr": [0.1], "lambd": [1e-4, 0.1], "weight_decay": _DECAY, "maximize": _SIGN},
    "Adafactor": {"lr": [0.1], "d": [1.0, 2.0], "weight_decay": _DECAY, "maximize": _SIGN},
}  # fmt: skip


def _makes_sense(options):
    return not options.get("nesterov") or (options.get("momentum", 1) and not options.get("dampening"))


# All combinations of options that make sense.
EVERY_CASE = [
    (name, chosen)
    for name, table in _OPTIONS.items()
    for values in product(*table.values())
    if _makes_sense(chosen := dict(zip(table, values, strict=True)))
]
# Each option on its own, and all of them at once.
CASES = [
    (name, chosen)
    for name, chosen in EVERY_CASE
    for first in [next(c for n, c in EVERY_CASE if n == name)]
    for last in [[c for n, c in EVERY_CASE if n == name][-1]]
    if sum(chosen[k] != first[k] for k in chosen) <= 1 or chosen == last
]


@pytest.fixture
def small_windows(monkeypatch):
    """A layout in which small examples show what happens to large parameters."""
    monkeypatch.setattr(layout, "SMALL", 6)
    monkeypatch.setattr(layout, "WINDOW", 16)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps_follow_the_formula(name, options):
    shapes = [(4, 3), (3, 5)] if name == "Muon" else SHAPES
    params = random_leaves(shapes)
    start = [values(p) for p in params]
    train(make(name, params, **options), params, 25)
    rng = np.random.default_rng(1)
    gradients = [[np.asarray(rng.standard_normal(s)) for s in shapes] for _ in range(25)]
    for i, p in enumerate(params):
        expected = REFERENCES[name](start[i], [g[i] for g in gradients], **options)
        np.testing.assert_allclose(values(p), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_follows_double(name):
    shapes = [(4, 3), (3, 5)] if name == "Muon" else SHAPES
    results = []
    for dtype in (lucid.float32, lucid.float64):
        params = random_leaves(shapes, dtype)
        results.append(train(make(name, params), params, 15))
    for single, double in zip(*results, strict=True):
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_stays_near_double(name, dtype):
    shapes = [(4, 3)] if name == "Muon" else SHAPES
    exact = random_leaves(shapes)
    rounded = [leaf(values(p), dtype) for p in exact]
    for params in (exact, rounded):
        train(make(name, params, lr=0.05), params, 6)
    for a, b in zip(rounded, exact, strict=True):
        assert a.dtype is dtype
        np.testing.assert_allclose(values(a).astype(np.float64), values(b), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_complex_numbers_are_pairs_of_real_ones(name):
    rng = np.random.default_rng(3)
    start = rng.standard_normal((5, 2))
    gradients = rng.standard_normal((8, 5, 2))
    z = leaf(start[:, 0] + 1j * start[:, 1], lucid.complex128)
    x = leaf(start)
    pair = make(name, [z]), make(name, [x])
    for g in gradients:
        z.grad, x.grad = lucid.tensor(g[:, 0] + 1j * g[:, 1]), lucid.tensor(g)
        for optimizer in pair:
            optimizer.step()
    np.testing.assert_allclose(np.stack([values(z).real, values(z).imag], -1), values(x), rtol=1e-12)


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
def test_finds_the_minimum_of_a_quadratic(name):
    rates = {"SGD": 0.1, "Adadelta": 30.0, "LBFGS": 1.0, "Adagrad": 0.5, "Muon": 0.1, "Lion": 0.1}
    decay = 0.985 if name in ("Muon", "Lion") else 1.0  # their steps do not shrink near the minimum
    target = lucid.tensor([[1.0, -2.0], [0.5, 3.0]])
    x = lucid.zeros(2, 2).requires_grad_()
    extra = {"weight_decay": 0.0} if name == "Muon" else {}
    optimizer = make(name, [x], lr=rates.get(name, 0.05), **extra)

    def closure():
        optimizer.zero_grad()
        loss = ((x - target) ** 2).sum()
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    for _ in range(400):
        last = optimizer.step(closure)
        optimizer.param_groups[0]["lr"] *= decay
    assert first == pytest.approx(14.25)
    assert last.item() < 0.01
    np.testing.assert_allclose(values(x), values(target), atol=0.05)


def test_a_step_of_adam_has_the_size_of_the_rate():
    p = leaf([1.0, 1.0])
    optimizer = make("Adam", [p], lr=0.1, eps=0.0)
    p.grad = lucid.tensor([1e-6, 1e6], dtype=lucid.float64)
    optimizer.step()
    np.testing.assert_allclose(values(p), [0.9, 0.9], rtol=1e-12)


# Layout: how parameters share memory must not show.


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.usefixtures("small_windows")
def test_parameters_together_move_as_each_alone(name):
    shapes = [(2, 3), (50,), (), (4,), (3, 7), (1, 1), (0,), (5,), (2, 2)]
    kinds = [lucid.float32, lucid.float64, lucid.float32, lucid.float64, lucid.float32, *[lucid.float32] * 4]
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(s) for s in shapes]
    skip_at = {2: {1, 3}, 3: {0}, 5: {8}, 6: {2, 3, 4}}
    together = [leaf(s, k) for s, k in zip(start, kinds, strict=True)]
    alone = [leaf(s, k) for s, k in zip(start, kinds, strict=True)]
    one = make(name, together, lr=0.05)
    many = [make(name, [p], lr=0.05) for p in alone]
    for params, optimizers in ((together, [one]), (alone, many)):
        noise = np.random.default_rng(1)
        for k in range(9):
            set_gradients(params, noise, skip_at.get(k, ()))
            for optimizer in optimizers:
                optimizer.step()
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(values(a), values(b), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.bfloat16, lucid.complex64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.usefixtures("small_windows")
def test_large_parameters_in_any_memory_order(dtype, order):
    start = np.random.default_rng(0).standard_normal((12, 11))
    plain = leaf(start, dtype)
    if order == "strided":
        memory = lucid.zeros(24, 22, dtype=dtype)
        memory[::2, ::2] = plain.detach()
        other = memory[::2, ::2].requires_grad_()
    else:
        other = lucid.from_numpy(np.array(plain.detach().numpy(), order=order)).requires_grad_()
    for p in (plain, other):
        train(make("Adam", [p], lr=0.1, weight_decay=0.1), [p], 5)
    np.testing.assert_array_equal(values(plain), values(other))


def test_gradients_in_any_memory_order():
    a, b = leaf(np.ones((40, 500))), leaf(np.ones((40, 500)))
    noise = np.random.default_rng(0).standard_normal((40, 500))
    for p, order in ((a, "C"), (b, "F")):
        optimizer = make("Adam", [p], lr=0.1)
        p.grad = lucid.from_numpy(np.array(noise, order=order))
        optimizer.step()
    np.testing.assert_array_equal(values(a), values(b))


def test_updates_are_written_into_the_parameters_own_memory():
    memory = np.ones(3, np.float32)
    p = lucid.from_numpy(memory).requires_grad_()
    view = p.detach()
    optimizer = make("Adam", [p], lr=0.5)
    p.grad = lucid.ones(3)
    optimizer.step()
    np.testing.assert_allclose(memory, 0.5, rtol=1e-6)
    np.testing.assert_array_equal(values(view), memory)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"maximize": True}])
@pytest.mark.parametrize("size", [3, 20_000])
def test_gradients_are_left_as_they_are(options, size):
    params = [leaf(np.ones(size)), leaf(np.ones(3))]
    optimizer = make("SGD", params, lr=0.1, momentum=0.9, **options)
    for p in params:
        p.grad = lucid.full_like(p, 2.0)
    optimizer.step()
    assert all((values(p.grad) == 2.0).all() for p in params)


@pytest.mark.parametrize("size", [3, 20_000])
def test_gradients_are_freed(size):
    p = leaf(np.ones(size))
    optimizer = make("Adam", [p], weight_decay=0.1)
    for _ in range(2):
        p.grad = lucid.ones(size, dtype=lucid.float64)
        held = weakref.ref(p.grad.numpy())
        optimizer.step()
        optimizer.zero_grad()
        assert held() is None


def test_replaced_contents_are_followed():
    p = leaf([1.0, 2.0])
    optimizer = make("Adam", [p], lr=0.1)
    train(optimizer, [p], 2)
    p.data = lucid.tensor([5.0, 6.0], dtype=lucid.float32)
    p.grad = lucid.tensor([1.0, 1.0])
    optimizer.step()
    assert p.dtype is lucid.float32
    assert optimizer.state[p]["exp_avg"].dtype is lucid.float32
    assert optimizer.state[p]["step"].item() == 3
    assert ((values(p) < [5.0, 6.0]) & (values(p) > [4.8, 5.8])).all()


def test_contents_of_another_shape_are_refused():
    p = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    optimizer = make("Adam", [p])
    train(optimizer, [p], 1)
    p.grad = None
    p.data = lucid.ones(3, 2, dtype=lucid.float64)
    with pytest.raises(ValueError, match=r"shape \(3, 2\) is of shape \(2, 3\)"):
        train(optimizer, [p], 1)


def test_infinite_and_nan_gradients_stay_where_they_are():
    params = random_leaves([(3,), (3,)], lucid.float32)
    before = values(params[1])
    optimizer = make("Adam", params, lr=0.1)
    params[0].grad = lucid.tensor([float("nan"), float("inf"), 1.0])
    params[1].grad = lucid.zeros(3)
    optimizer.step()
    assert np.isnan(values(params[0])).tolist() == [True, True, False]
    np.testing.assert_array_equal(values(params[1]), before)


def test_a_square_that_overflows_stops_an_element_and_does_not_make_it_nan():
    p = leaf([1.0, 1.0], lucid.float32)
    optimizer = make("Adam", [p], lr=0.1)
    for g in ([1e30, 1.0], [1.0, 1.0], [1.0, 1.0]):
        p.grad = lucid.tensor(g)
        optimizer.step()
    assert values(p)[0] == 1.0
    assert values(p)[1] == pytest.approx(0.7, rel=1e-4)


def test_centered_steps_survive_a_gradient_that_never_changes():
    p = leaf([1.0], lucid.float32)
    optimizer = make("RMSprop", [p], lr=1e-6, centered=True)
    for _ in range(3000):
        p.grad = lucid.tensor([0.1])
        optimizer.step()
    assert np.isfinite(values(p)).all()


# Rprop's steps, at their edges.


def test_rprop_rests_once_after_a_change_of_sign():
    p = leaf([0.0])
    optimizer = make("Rprop", [p], lr=1.0)
    path = []
    for g in (1.0, 1.0, -1.0, -1.0, -1.0):
        p.grad = leaf([g]).detach()
        optimizer.step()
        path.append(values(p)[0])
    np.testing.assert_allclose(path, [-1.0, -2.2, -2.2, -1.6, -0.88], rtol=1e-12)


def test_rprop_keeps_step_sizes_within_their_limits():
    p = leaf([0.0, 0.0])
    optimizer = make("Rprop", [p], lr=1.0, step_sizes=(0.3, 1.5))
    for k in range(9):
        p.grad = leaf([1.0, (-1.0) ** k]).detach()
        optimizer.step()
    sizes = values(optimizer.state[p]["step_size"])
    assert sizes[0] == 1.5
    assert 0.3 <= sizes[1] <= 0.51


# State.


def test_state_is_live_and_stays_the_same_object():
    p = leaf([1.0, 2.0])
    optimizer = make("Adam", [p], lr=0.1)
    assert not optimizer.state
    train(optimizer, [p], 1)
    average, step = optimizer.state[p]["exp_avg"], optimizer.state[p]["step"]
    seen = values(average)
    train(optimizer, [p], 2)
    assert optimizer.state[p]["exp_avg"] is average
    assert step.shape == () and step.dtype is lucid.float32 and step.item() == 3
    assert not np.array_equal(values(average), seen)


def test_state_can_be_written_to():
    a, b = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    pair = make("SGD", [a], lr=0.1, momentum=0.9), make("SGD", [b], lr=0.1, momentum=0.9)
    for p, optimizer in zip((a, b), pair, strict=True):
        train(optimizer, [p], 2)
    pair[0].state[a]["momentum_buffer"].zero_()
    pair[1].state[b]["momentum_buffer"] = lucid.zeros(2, dtype=lucid.float64)
    for p, optimizer in zip((a, b), pair, strict=True):
        before = values(p)
        p.grad = lucid.ones(2, dtype=lucid.float64)
        optimizer.step()
        np.testing.assert_allclose(values(p), before - 0.1, rtol=1e-12)


def test_counters_can_be_written_to():
    params = random_leaves([(2,), (2,)])
    optimizer = make("Adam", params, lr=0.1)
    train(optimizer, params, 1)
    optimizer.state[params[0]]["step"].fill_(99.0)
    train(optimizer, params, 1)
    assert [optimizer.state[p]["step"].item() for p in params] == [100.0, 2.0]


def test_forgotten_state_begins_anew():
    p = leaf([1.0])
    optimizer = make("Adam", [p], lr=0.1)
    train(optimizer, [p], 3)
    optimizer.state.clear()
    p.grad = lucid.ones(1, dtype=lucid.float64)
    before = values(p)
    optimizer.step()
    np.testing.assert_allclose(values(p), before - 0.1, rtol=1e-6)
    assert optimizer.state[p]["step"].item() == 1


def test_state_of_a_wrong_shape_is_refused_before_anything_is_written():
    params = random_leaves([(2,), (3,)])
    optimizer = make("Adam", params)
    train(optimizer, params, 1)
    optimizer.state[params[1]]["exp_avg"] = lucid.zeros(1)
    before = [values(p) for p in params]
    with pytest.raises(ValueError, match=r"'exp_avg' of a parameter of shape \(3,\) is of shape \(1,\)"):
        train(optimizer, params, 1)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(values(p), old)


def test_plain_descent_keeps_no_state():
    p = leaf([1.0])
    optimizer = make("SGD", [p], lr=0.1)
    train(optimizer, [p], 3)
    assert optimizer.state_dict()["state"] == {}


def test_adagrad_has_its_state_from_the_start():
    p = leaf([1.0, 2.0])
    optimizer = make("Adagrad", [p], initial_accumulator_value=0.5)
    assert values(optimizer.state[p]["sum"]).tolist() == [0.5, 0.5]
    assert optimizer.state[p]["step"].item() == 0


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_saved_and_loaded_optimizers_go_on_alike(name, options):
    shapes = [(4, 3), (3, 5)] if name == "Muon" else SHAPES
    params = random_leaves(shapes)
    optimizer = make(name, params, **options)
    train(optimizer, params, 4, skip_at={1: {0}})
    others = [leaf(values(p)) for p in params]
    loaded = make(name, others)
    loaded.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    for a, b in zip(train(optimizer, params, 4, seed=2), train(loaded, others, 4, seed=2), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.param_groups[0].keys() == optimizer.param_groups[0].keys()


def test_state_dict_has_numbers_in_place_of_parameters():
    params = random_leaves([(2,), (3,), (1,)])
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.5}]
    optimizer = make("Adam", groups, lr=0.1)
    train(optimizer, params, 1)
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"]
    assert [g["params"] for g in saved["param_groups"]] == [[0], [1, 2]]
    assert [g["lr"] for g in saved["param_groups"]] == [0.1, 0.5]
    assert list(saved["state"]) == [0, 1, 2]
    assert list(saved["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert saved["state"][1]["exp_avg"] is optimizer.state[params[1]]["exp_avg"]


def test_loading_copies_and_converts():
    p = leaf([1.0, 2.0])
    optimizer = make("Adam", [p], lr=0.1)
    train(optimizer, [p], 1)
    saved = copy.deepcopy(optimizer.state_dict())
    q = leaf([1.0, 2.0], lucid.float32)
    loaded = make("Adam", [q])
    loaded.load_state_dict(saved)
    assert loaded.state[q]["exp_avg"].dtype is lucid.float32
    assert loaded.state[q]["step"].dtype is lucid.float32
    kept = values(saved["state"][0]["exp_avg"])
    train(loaded, [q], 2)
    np.testing.assert_array_equal(values(saved["state"][0]["exp_avg"]), kept)


def test_loading_a_state_that_does_not_fit_changes_nothing():
    params = random_leaves([(2,), (3,)])
    optimizer = make("Adam", params, lr=0.1)
    train(optimizer, params, 1)
    before = copy.deepcopy(optimizer.state_dict())
    short = make("Adam", params[:1], lr=0.7).state_dict()
    with pytest.raises(ValueError, match="group 0 has 1 parameters in the state and 2 in this optimizer"):
        optimizer.load_state_dict(short)
    two = make("Adam", [{"params": params[:1]}, {"params": params[1:]}]).state_dict()
    with pytest.raises(ValueError, match="2 parameter groups, this optimizer has 1"):
        optimizer.load_state_dict(two)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state_dict()["state"].keys() == before["state"].keys()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_of_optimizers_go_on_alone(duplicate):
    params = random_leaves([(2,), (3,)])
    optimizer = make("Adam", params, lr=0.1)
    train(optimizer, params, 2)
    other = duplicate(optimizer)
    theirs = other.param_groups[0]["params"]
    for a, b in zip(train(optimizer, params, 3), train(other, theirs, 3), strict=True):
        np.testing.assert_array_equal(a, b)
    train(other, theirs, 1)
    assert other.state[theirs[0]]["step"].item() == 6
    assert optimizer.state[params[0]]["step"].item() == 5


# Groups.


def test_groups_have_options_of_their_own():
    a, b, c = random_leaves([(2,), (2,), (2,)])
    start = [values(p) for p in (a, b, c)]
    optimizer = make("SGD", [{"params": [a], "lr": 1.0}, {"params": b}], lr=0.1)
    optimizer.add_param_group({"params": [c], "lr": 0.01, "maximize": True})
    for p in (a, b, c):
        p.grad = lucid.ones(2, dtype=lucid.float64)
    optimizer.step()
    moved = [values(p) - s for p, s in zip((a, b, c), start, strict=True)]
    np.testing.assert_allclose(moved, [[-1.0] * 2, [-0.1] * 2, [0.01] * 2], rtol=1e-12)


def test_a_group_added_later_joins_in():
    a, b = random_leaves([(2,), (3,)])
    optimizer = make("Adam", [a], lr=0.1)
    train(optimizer, [a], 3)
    optimizer.add_param_group({"params": [b]})
    train(optimizer, [a, b], 2)
    assert [optimizer.state[p]["step"].item() for p in (a, b)] == [5, 2]


def test_options_may_change_between_steps():
    p = leaf([0.0])
    optimizer = make("SGD", [p], lr=1.0)
    for lr, momentum in ((1.0, 0), (0.5, 0), (0.5, 0.9)):
        optimizer.param_groups[0].update(lr=lr, momentum=momentum)
        p.grad = lucid.ones(1, dtype=lucid.float64)
        optimizer.step()
    assert values(p)[0] == -2.0
    assert values(optimizer.state[p]["momentum_buffer"])[0] == 1.0


def test_named_parameters():
    a, b = random_leaves([(2,), (3,)])
    optimizer = make("SGD", [("first", a), ("second", b)], lr=0.1)
    assert optimizer.param_groups[0]["params"] == [a, b]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["first", "second"]
    with pytest.raises(ValueError, match="either all parameter groups have names"):
        optimizer.add_param_group({"params": [leaf([1.0])]})


def test_rates_may_be_tensors():
    rate = lucid.tensor(0.5)
    p = leaf([1.0])
    optimizer = make("Adam", [p], lr=rate)
    p.grad = lucid.ones(1, dtype=lucid.float64)
    optimizer.step()
    rate.fill_(0.25)
    optimizer.step()
    np.testing.assert_allclose(values(p), 0.25, rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        (lambda: leaf([1.0]), TypeError, "not one tensor; put it in a list"),
        (lambda: {"params": [leaf([1.0])]}, TypeError, "not one dictionary"),
        (list, ValueError, "was given an empty parameter list"),
        (lambda: [3.0], TypeError, "takes tensors, not "),
        (lambda: [leaf([1.0]) * 2], ValueError, r"result of an operation \(`mul` at .*not a leaf"),
        (lambda: [{"weights": 1}], ValueError, "needs an entry 'params'"),
        (lambda: [{"params": {leaf([1.0])}}], TypeError, "must have an order"),
        (lambda: [{"params": [leaf([1.0])], "lr": -1.0}], ValueError, "lr must be at least 0, not -1.0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params, error, message):
    with pytest.raises(error, match=message):
        make("Adam", params())


def test_parameters_given_twice_are_refused():
    a, b = random_leaves([(2,), (3,)])
    with pytest.raises(ValueError, match=r"shape \(2,\) was given twice"):
        make("SGD", [a, b, a])
    optimizer = make("SGD", [a, b])
    with pytest.raises(ValueError, match=r"shape \(3,\) was given twice"):
        optimizer.add_param_group({"params": [b]})
    assert len(optimizer.param_groups) == 1


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("SGD", {"lr": -0.1}, "SGD: lr must be at least 0, not -0.1"),
        ("SGD", {"lr": NAN}, "lr must be at least 0, not nan"),
        ("SGD", {"momentum": -1}, "momentum must be at least 0"),
        ("SGD", {"nesterov": True}, "nesterov needs a momentum above 0"),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "no dampening"),
        ("SGD", {"lr": lucid.ones(2)}, r"lr must be one number, not a tensor of shape \(2,\)"),
        ("Adam", {"betas": (1.0, 0.9)}, r"betas\[0\] must be at least 0 and less than 1, not 1.0"),
        ("AdamW", {"betas": (0.9, NAN)}, r"betas\[1\]"),
        ("NAdam", {"momentum_decay": -1}, "momentum_decay"),
        ("RAdam", {"eps": -1}, "eps"),
        ("Adamax", {"weight_decay": -1}, "weight_decay"),
        ("Adagrad", {"lr_decay": -1}, "lr_decay"),
        ("Adadelta", {"rho": 1.5}, "rho"),
        ("RMSprop", {"alpha": -1}, "alpha"),
        ("Rprop", {"etas": (1.5, 2.0)}, "etas must be a factor between 0 and 1 and one above 1"),
        ("Lion", {"betas": (0.9, 1.0)}, "betas"),
        ("Muon", {"adjust_lr_fn": "best"}, "adjust_lr_fn must be one of"),
        ("Muon", {"ns_coefficients": (1.0, 2.0)}, "three numbers"),
        ("LBFGS", {"line_search_fn": "exact"}, "line_search_fn must be None or 'strong_wolfe'"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, [lucid.ones(2, 2).requires_grad_()], **options)


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match=r"Muon takes real matrices, not a parameter of shape \(3,\)"):
        make("Muon", [leaf([1.0, 2.0, 3.0])])


# Gradients, hooks, closures.


def test_zero_grad():
    p = leaf([1.0, 2.0])
    optimizer = make("SGD", [p])
    p.grad = held = lucid.ones(2, dtype=lucid.float64)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is held and values(held).tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_closures_record_gradients_and_their_loss_is_returned():
    p = leaf([3.0])
    optimizer = make("SGD", [p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    with lucid.no_grad():
        assert optimizer.step(closure).item() == 9.0
    assert values(p)[0] == 0.0
    assert p.requires_grad and p.is_leaf


def test_step_hooks_run_around_the_step_and_can_be_removed():
    p = leaf([1.0])
    optimizer = make("SGD", [p], lr=1.0)
    p.grad = lucid.ones(1, dtype=lucid.float64)
    log = []
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(("pre", o is optimizer, values(p)[0])))
    after = optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("post", args, values(p)[0])))
    optimizer.step()
    before.remove()
    after.remove()
    optimizer.step()
    assert log == [("pre", True, 1.0), ("post", (), 0.0)]


def test_a_step_pre_hook_may_change_the_arguments():
    p = leaf([1.0])
    optimizer = make("SGD", [p])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: "replaced",), kwargs))
    assert optimizer.step() == "replaced"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(RuntimeError, match=r"must return None or \(args, kwargs\), not 5"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = make("SGD", [leaf([1.0])], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, saved: seen.append(saved["note"]))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["saving", 1, "loaded"]


def test_hooks_run_once_for_a_step_that_calls_its_base():
    class Counting(lucid.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    optimizer = Counting([leaf([1.0])])
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]


def test_an_optimizer_of_the_users_own():
    class Signed(lucid.optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

        @lucid.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p = leaf([1.0, -1.0])
    optimizer = Signed([p])
    p.grad = lucid.tensor([3.0, -2.0], dtype=lucid.float64)
    optimizer.step()
    np.testing.assert_allclose(values(p), [0.9, -0.9])
    loaded = Signed([leaf([0.0, 0.0])])
    loaded.load_state_dict(optimizer.state_dict())
    assert [entry["count"] for entry in loaded.state.values()] == [1]


def test_repr_shows_the_options():
    text = repr(make("Adam", [leaf([1.0, 2.0])], lr=0.5))
    assert text.splitlines()[:2] == ["Adam (", "Parameter Group 0"]
    assert "    lr: 0.5" in text and "params" not in text


def test_parameters_without_gradients_are_left_alone():
    a, b = random_leaves([(2,), (2,)])
    start = values(b)
    optimizer = make("Adam", [a, b], weight_decay=0.1)
    a.grad = lucid.ones(2, dtype=lucid.float64)
    optimizer.step()
    np.testing.assert_array_equal(values(b), start)
    assert b not in optimizer.state


# What the tape has to know.


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
def test_a_stale_saved_value_is_noticed(name):
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    optimizer = make(name, [w])
    loss = (w * w).sum()
    loss.backward(retain_graph=True)

    def closure():
        return (w * w).sum()

    optimizer.step(closure)
    with pytest.raises(RuntimeError, match=rf"{name}\.step` at .*test_optim\.py.* wrote to it"):
        loss.backward()


def test_a_stale_saved_state_is_noticed():
    w, x = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    optimizer = make("Adam", [w])
    train(optimizer, [w], 1)
    loss = (x * optimizer.state[w]["exp_avg"]).sum()
    train(optimizer, [w], 1)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_read_only_memory_is_refused_before_anything_is_written():
    a = leaf([1.0, 2.0])
    b = lucid.zeros(1, dtype=lucid.float64).expand(2).requires_grad_()
    optimizer = make("Adam", [a, b])
    with pytest.raises(RuntimeError, match="cannot be written"):
        train(optimizer, [a, b], 1)
    assert values(a).tolist() == [1.0, 2.0]


# Inside transforms, and differentiated.


def descend(name, options, start, target, steps=5):
    p = start.clone().requires_grad_()
    optimizer = make(name, [p], **options)
    weights = lucid.tensor([[1.0, 2.0], [3.0, 4.0], [0.5, 0.1]], dtype=p.dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        ((p - target) ** 2 * weights).sum().backward()
        optimizer.step()
    return p


def test_parameters_shared_by_all_examples_follow_the_sum_of_their_gradients():
    p = leaf([1.0, 2.0])
    optimizer = make("SGD", [p], lr=0.1)

    def one(x):
        (p * x).sum().backward()
        optimizer.step()
        return x

    vmap(one)(lucid.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lucid.float64))
    np.testing.assert_allclose(values(p), [0.6, 1.4])


TRANSFORMED = [(name, options) for name, options in CASES if not (name == "Adam" and options.get("amsgrad"))]


@pytest.mark.parametrize(("name", "options"), TRANSFORMED, ids=str)
def test_training_inside_vmap_is_training_one_by_one(name, options):
    rng = np.random.default_rng(0)
    starts, targets = (lucid.tensor(rng.standard_normal((4, 3, 2))) for _ in range(2))
    together = vmap(lambda s, t: descend(name, options, s, t))(starts, targets)
    alone = [values(descend(name, options, s, t)) for s, t in zip(starts, targets, strict=True)]
    np.testing.assert_allclose(values(together), alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), TRANSFORMED, ids=str)
def test_training_inside_jvp_carries_tangents(name, options):
    rng = np.random.default_rng(1)
    start, target, direction = (lucid.tensor(rng.standard_normal((3, 2))) for _ in range(3))
    _, tangent = jvp(lambda t: descend(name, options, start, t), (target,), (direction,))
    h = 1e-6
    ends = [values(descend(name, options, start, target + sign * h * direction)) for sign in (1, -1)]
    np.testing.assert_allclose(values(tangent), (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("name", "options"), TRANSFORMED, ids=str)
def test_training_can_be_traced(name, options):
    rng = np.random.default_rng(2)
    starts, targets = ([lucid.tensor(rng.standard_normal((3, 2))) for _ in range(2)] for _ in range(2))

    def trained(start, target):
        return descend(name, options, start, target).detach()

    program = make_graph(trained)(starts[0], targets[0])
    for start, target in zip(starts, targets, strict=True):
        np.testing.assert_allclose(
            values(program(start, target)), values(trained(start, target)), rtol=1e-9, atol=1e-12
        )


def after_recorded_steps(name, options, w, lr, steps=3):
    p = w * 1.0
    optimizer = make(name, [p], lr=lr, differentiable=True, **options)
    for _ in range(steps):
        loss = ((p - 1) ** 4).sum()
        p.grad = lucid.autograd.grad(loss, p, create_graph=True)
        optimizer.step()
    return (p**2).sum()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {"amsgrad": True}),
        ("NAdam", {}),
        ("RAdam", {"betas": (0.9, 0.6)}),
        ("Adamax", {}),
        ("Adagrad", {}),
        ("Adadelta", {}),
        ("RMSprop", {"momentum": 0.5}),
        ("Lion", {"weight_decay": 0.1}),
    ],
    ids=str,
)
def test_recorded_steps_can_be_differentiated(name, options):
    w, lr = leaf([[1.3, -2.0], [0.5, 3.0]]), leaf(0.01)
    by_w, by_lr = lucid.autograd.grad(after_recorded_steps(name, options, w, lr), [w, lr])
    h = 1e-6

    def at(dw, dr):
        shifted = lucid.tensor(values(w) + dw).requires_grad_()
        return after_recorded_steps(name, options, shifted, leaf(0.01 + dr)).item()

    corner = np.array([[h, 0.0], [0.0, 0.0]])
    assert by_lr.item() == pytest.approx((at(0, h) - at(0, -h)) / (2 * h), rel=1e-5)
    assert by_w[0, 0].item() == pytest.approx((at(corner, 0) - at(-corner, 0)) / (2 * h), rel=1e-5)


def test_recorded_and_plain_steps_agree():
    for name, options in CASES:
        if name in ("Muon", "Rprop", "Adafactor"):
            continue
        plain, recorded = leaf([1.0, -2.0]), leaf([1.0, -2.0]) * 1.0
        pair = make(name, [plain], **options), make(name, [recorded], **options, differentiable=True)
        for k in range(4):
            for p in (plain, recorded):
                p.grad = lucid.tensor([0.5 + k, -1.0], dtype=lucid.float64)
            for optimizer in pair:
                optimizer.step()
        np.testing.assert_allclose(values(recorded), values(plain), rtol=1e-12)
