"""Transforms leave nothing behind: after exceptions, in threads, in deep nests, in memory."""

import asyncio
import math
import threading

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.autograd.forward_ad import dual_level, make_dual, unpack_dual
from lucid.core import levels, modes
from lucid.func import (
    cond,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    make_graph,
    scan,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
)

A = np.array([0.5, -1.2, 2.0])
ROWS = np.stack([A, 2 * A, -A])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


class BoomError(Exception):
    pass


def boom(*args):
    raise BoomError


def state():
    return (
        levels.active.get(),
        modes.recording.get(),
        modes.saved_hooks.get(),
        modes.inference.get(),
        modes.anomaly.get(),
        modes.given_away.get(),
        lucid.is_grad_enabled(),
    )


def assert_sound():
    """Nothing of a transform is at work, and all of them still do what they should."""
    assert levels.active.get() == ()
    np.testing.assert_allclose(vmap(grad(lambda x: (x**3).sum()))(t(ROWS)).numpy(), 3 * ROWS**2)
    np.testing.assert_allclose(jvp(lambda x: x**2, (t(A),), (t(A),))[1].numpy(), 2 * A * A)
    np.testing.assert_allclose(hessian(lambda x: (x**3).sum())(t(A)).numpy(), np.diag(6 * A))
    np.testing.assert_allclose(make_graph(lambda x: x * 2)(t(A))(t(A)).numpy(), 2 * A)
    x = t(A, requires_grad=True)
    (x**2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * A)
    assert lucid.rand(3).shape == (3,)


class FailsForward(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise BoomError

    @staticmethod
    def backward(ctx, g):
        return g


class FailsBackward(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise BoomError


class FailsJvp(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def jvp(ctx, tangent):
        raise BoomError


class FailsVmap(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vmap(info, in_dims, x):
        raise BoomError


class FailsForOneExample(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if float(x.sum()) < 0:
            raise BoomError
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@custom_vjp
def fails_bwd(x):
    return x * 2


fails_bwd.defvjp(lambda x: (x * 2, None), boom)


@custom_vjp
def fails_fwd(x):
    return x * 2


fails_fwd.defvjp(boom, lambda r, g: (g,))


@custom_jvp
def fails_rule(x):
    return x * 2


fails_rule.defjvp(boom)


def with_hook(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(boom)
    return y * y


def with_unpack(x):
    with autograd.graph.saved_tensors_hooks(lambda v: v, boom):
        return x * x.sin()


def with_pack(x):
    with autograd.graph.saved_tensors_hooks(boom, lambda v: v):
        return x * x.sin()


def fails_when_run_again():
    calls = []

    def f(x):
        calls.append(1)
        if len(calls) > 1:
            raise BoomError
        return x.sin() * x

    return lambda x: autograd.checkpoint(f, x)


class AfterOneCall:
    """Fails in the second call: the second chunk, or the second run."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        if self.calls > 1:
            raise BoomError
        return x * 2


def leaf_backward(x):
    y = x.clone().requires_grad_()
    FailsBackward.apply(y).sum().backward()
    return y.grad


def in_dual_level(x):
    with dual_level():
        return boom(make_dual(x, x))


INNER = {
    "raise": boom,
    "raise after work": lambda x: boom(x.sin() * 2),
    "Function.forward": FailsForward.apply,
    "Function.backward": FailsBackward.apply,
    "Function.jvp": FailsJvp.apply,
    "Function.vmap": FailsVmap.apply,
    "one example": FailsForOneExample.apply,
    "custom_vjp fwd": fails_fwd,
    "custom_vjp bwd": fails_bwd,
    "custom_jvp": fails_rule,
    "hook": with_hook,
    "unpack": with_unpack,
    "pack": with_pack,
    "checkpoint": fails_when_run_again(),
    "no_grad": lambda x: lucid.no_grad()(boom)(x),
    "branch": lambda x: cond(x.sum() > 0, boom, boom, x),
    "loop": lambda x: while_loop(lambda y: True, boom, x),
    "scan": lambda x: scan(boom, x, x),
    "dual_level": in_dual_level,
    "backward inside": leaf_backward,
    "error of an op": lambda x: x + lucid.ones(7),
    "item": lambda x: x * x.sum().item() if type(x).__name__ != "Tensor" and type(x).__name__ != "Dual" else boom(),
}
OUTER = {
    "grad": lambda f: grad(lambda x: f(x).sum())(t(A)),
    "value_and_grad": lambda f: value_and_grad(lambda x: f(x).sum())(t(A)),
    "vjp": lambda f: vjp(f, t(A))[1](t(A)),
    "jvp": lambda f: jvp(f, (t(A),), (t(A),)),
    "linearize": lambda f: linearize(f, t(A))[1](t(A)),
    "vmap": lambda f: vmap(f)(t(ROWS)),
    "chunked vmap": lambda f: vmap(f, chunk_size=2)(t(ROWS)),
    "auto vmap": lambda f: vmap(f, chunk_size="auto", randomness="same")(t(ROWS)),
    "vmap(grad)": lambda f: vmap(grad(lambda x: f(x).sum()))(t(ROWS)),
    "grad(vmap)": lambda f: grad(lambda x: vmap(f)(x).sum())(t(ROWS)),
    "jvp(vmap(grad))": lambda f: jvp(vmap(grad(lambda x: f(x).sum())), (t(ROWS),), (t(ROWS),)),
    "hessian": lambda f: hessian(lambda x: f(x).sum())(t(A)),
    "jacrev": lambda f: jacrev(f)(t(A)),
    "jacfwd": lambda f: jacfwd(f)(t(A)),
    "jacobian": lambda f: jacobian(f)(t(A)),
    "make_graph": lambda f: make_graph(f)(t(A)),
    "make_graph(grad)": lambda f: make_graph(grad(lambda x: f(x).sum()))(t(A)),
    "make_graph(vmap)": lambda f: make_graph(vmap(f))(t(ROWS)),
    "tape": lambda f: f(t(A, requires_grad=True)).sum().backward(),
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_exceptions_leave_no_state(inner, outer):
    INNER["checkpoint"] = fails_when_run_again()
    before = state()
    try:
        OUTER[outer](INNER[inner])
    except (BoomError, RuntimeError, ValueError, TypeError):
        raised = True
    else:
        raised = False
    assert state() == before
    assert raised or inner not in ("raise", "raise after work", "error of an op", "no_grad", "loop"), (
        "it should have failed"
    )
    assert_sound()


@pytest.mark.parametrize("mode", [lucid.no_grad, lucid.inference_mode, autograd.detect_anomaly])
@pytest.mark.parametrize("outer", OUTER)
def test_modes_around_an_exception_stay(outer, mode):
    if outer == "tape" and mode is not autograd.detect_anomaly:
        pytest.skip("the tape does not run there")
    with mode():
        before = state()
        with pytest.raises(BoomError):
            OUTER[outer](boom)
        assert state() == before
    assert_sound()


def test_the_second_chunk_fails():
    f = AfterOneCall()
    with pytest.raises(BoomError):
        vmap(f, chunk_size=2)(t(ROWS))
    assert f.calls == 2
    assert_sound()


def test_tracing_of_memory_ends_with_an_exception():
    import tracemalloc

    with pytest.raises(BoomError):
        vmap(boom, chunk_size="auto")(t(ROWS))
    assert not tracemalloc.is_tracing()
    vmap(lambda x: x, chunk_size="auto")(t(ROWS))
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        vmap(lambda x: x, chunk_size="auto")(t(ROWS))
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_the_generator_after_an_exception():
    lucid.manual_seed(0)
    lucid.rand(1)
    expected = lucid.get_rng_state()
    with pytest.raises(RuntimeError, match="inside vmap"):
        vmap(lambda x: x + lucid.rand(3))(t(ROWS))
    assert lucid.get_rng_state() == expected
    lucid.manual_seed(0)
    with pytest.raises(BoomError):
        vmap(lambda x: boom(lucid.rand(1)), randomness="same", chunk_size=1)(t(ROWS))
    assert lucid.get_rng_state() == expected


def test_a_checkpoint_that_fails_restores_the_generator():
    calls = []

    def f(x):
        noise = lucid.rand_like(x)
        calls.append(noise)
        return boom() if len(calls) > 1 else (noise * x).sin()

    lucid.manual_seed(0)
    y = autograd.checkpoint(f, t(A, requires_grad=True)).sum()
    before = lucid.get_rng_state()
    with pytest.raises(BoomError):
        y.backward()
    assert lucid.get_rng_state() == before


def test_base_exceptions_too():
    for outer in OUTER.values():

        def interrupt(x):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            outer(interrupt)
        assert levels.active.get() == ()
    assert_sound()


def test_generators_that_are_left_open():
    """A generator that stops inside a transform's context must not keep it open for others."""

    def numbers():
        with dual_level():
            x = make_dual(t(2.0), t(1.0))
            yield unpack_dual(x * x).tangent
            yield None

    g = numbers()
    assert next(g).item() == 4.0
    g.close()
    assert_sound()


# Threads and tasks.


def nested(x):
    return vmap(lambda r: jvp(grad(lambda y: (y**3 * r[0]).sum()), (r,), (r,))[1])(x)


def nested_ref(x):
    """The change of 3 y² r₀ along r at y = r; r itself is a constant to both derivatives."""
    return np.stack([6 * r * r * r[0] for r in x])


def test_eight_threads():
    errors = []
    start = threading.Barrier(8)

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            start.wait()
            for _ in range(15):
                x = rng.standard_normal((4, 3))
                np.testing.assert_allclose(nested(t(x)).numpy(), nested_ref(x), rtol=1e-9, atol=1e-10)
                h = hessian(lambda y: (y**3).sum())(t(x[0])).numpy()
                np.testing.assert_allclose(h, np.diag(6 * x[0]), rtol=1e-9, atol=1e-10)
                w = t(x[0], requires_grad=True)
                vmap(lambda r: (w * r).sum().backward() or r)(t(x))  # noqa: B023
                np.testing.assert_allclose(w.grad.numpy(), x.sum(0), rtol=1e-9, atol=1e-10)
                program = make_graph(grad(lambda y: (y.sin() * y).sum()))(t(x[1]))
                np.testing.assert_allclose(program(t(x[2])).numpy(), np.cos(x[2]) * x[2] + np.sin(x[2]), rtol=1e-9)
                out = vmap(lambda r: r + lucid.rand(3, dtype=lucid.float64), randomness="different")(t(x))
                assert ((out.numpy() - x) >= 0).all() and len({tuple(r) for r in (out.numpy() - x)}) == 4
                assert levels.active.get() == ()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_writes_in_threads_know_their_transform():
    """Which tensors were made inside is told by numbers that all threads share."""
    errors = []
    start = threading.Barrier(4)

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            start.wait()
            for _ in range(40):
                x = rng.standard_normal((4, 3))
                outside = t(np.zeros(3))

                def f(r):
                    out = lucid.zeros(3, dtype=lucid.float64)
                    view = out[1:]
                    out += r
                    view *= 2.0
                    return out

                np.testing.assert_allclose(vmap(f)(t(x)).numpy(), x * [1, 2, 2])
                with pytest.raises(RuntimeError, match="made outside"):
                    vmap(lambda r: outside.add_(r))(t(x))  # noqa: B023
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_thread_started_inside_a_transform_is_outside_of_it():
    found = []

    def f(x):
        thread = threading.Thread(target=lambda: found.append((levels.active.get(), lucid.rand(2).shape)))
        thread.start()
        thread.join()
        return x

    vmap(f)(t(ROWS))
    assert found == [((), (2,))]


def test_tasks_interleave():
    async def work(k):
        for _ in range(5):
            with dual_level():
                x = make_dual(t(float(k)), t(1.0))
                await asyncio.sleep(0)
                assert unpack_dual(x**2).tangent.item() == 2 * k
            assert levels.active.get() == ()

    async def together():
        await asyncio.gather(*[work(k) for k in range(6)])

    asyncio.run(together())


# Depth.


@pytest.mark.parametrize(
    "derivative",
    [
        grad,
        lambda f: lambda x: jvp(f, (x,), (t(1.0),))[1],
        jacrev,
        jacfwd,
        lambda f: lambda x: linearize(f, x)[1](t(1.0)),
    ],
    ids=["grad", "jvp", "jacrev", "jacfwd", "linearize"],
)
def test_six_derivatives_of_the_seventh_power(derivative):
    f = lambda x: x**7
    for order in range(1, 7):
        f = derivative(f)
        want = math.factorial(7) // math.factorial(7 - order) * 1.5 ** (7 - order)
        assert f(t(1.5)).item() == pytest.approx(want, rel=1e-12)


def test_alternating_modes_to_depth_six():
    f = lambda x: x**7
    for order in range(1, 7):
        f = grad(f) if order % 2 else (lambda g: lambda x: jvp(g, (x,), (t(1.0),))[1])(f)
    assert f(t(1.5)).item() == pytest.approx(math.factorial(7) * 1.5)
    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), math.factorial(7) * A)


def test_eight_vmaps():
    f = lambda x: x * 2 + 1
    for _ in range(8):
        f = vmap(f)
    x = np.arange(256.0).reshape((2,) * 8)
    np.testing.assert_allclose(f(t(x)).numpy(), 2 * x + 1)
    np.testing.assert_allclose(grad(lambda y: (f(y) ** 2).sum())(t(x)).numpy(), 4 * (2 * x + 1))


def test_a_long_chain_inside_transforms():
    """Ten thousand operations, without recursion."""

    def f(x):
        for _ in range(10_000):
            x = x * 1.0001
        return x

    want = 1.0001**10_000
    assert grad(f)(t(1.0)).item() == pytest.approx(want)
    np.testing.assert_allclose(vmap(grad(f))(t([1.0, 2.0])).numpy(), [want, want])


def test_a_function_that_transforms_itself():
    """Recursion through grad: the n-th derivative of exp(2x)."""

    def nth(n):
        return (lambda x: (2 * x).exp()) if n == 0 else grad(nth(n - 1))

    assert nth(5)(t(0.3)).item() == pytest.approx(32 * math.exp(0.6))
