"""What a graph keeps alive, and that it goes away by reference counting alone."""

import contextlib
import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cycles import no_cycles

import lucid
from lucid.autograd import Function, backward, checkpoint, grad
from lucid.autograd.graph import saved_tensors_hooks
from lucid.backends.cpu.generated import support
from lucid.core import detachments


@pytest.fixture(autouse=True)
def without_collector():
    """Cycles would stay for ever in these tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*values):
    return lucid.tensor(list(values), requires_grad=True)


def gone(*refs):
    return [r() is None for r in refs]


# --- what operations keep -------------------------------------------------------------------------


def results(*needs):
    x = leaf(1.0, 2.0)
    return [x * (k + 2) if need else lucid.tensor([1.0, 2.0]) * (k + 2) for k, need in enumerate(needs)]


@pytest.mark.parametrize(
    ("operation", "needs", "alive"),
    [
        (lambda a, b: a + b, (True, True), (False, False)),
        (lambda a, b: a - b, (True, True), (False, False)),
        (lambda a, b: a * b, (True, True), (True, True)),
        (lambda a, b: a * b, (True, False), (False, True)),
        (lambda a, b: a * b, (False, True), (True, False)),
        (lambda a, b: a @ b, (True, False), (False, True)),
        (lambda a, b: a @ b, (False, True), (True, False)),
        (lambda a, b: a / b, (True, False), (False, True)),
        (lambda a, b: lucid.cat([a, b]), (True, True), (False, False)),
        (lambda a, b: lucid.stack([a, b]), (True, True), (False, False)),
        (lambda a, b: lucid.where(lucid.tensor([True, False]), a, b), (True, True), (False, False)),
    ],
)
def test_operands_kept_by_operations_of_two(operation, needs, alive):
    operands = results(*needs)
    refs = [weakref.ref(o._array) for o in operands]  # tensors go, memory stays
    out = operation(*operands)
    del operands
    assert out.requires_grad
    assert [r() is not None for r in refs] == list(alive)


@pytest.mark.parametrize(
    ("operation", "alive"),
    [
        (lambda a: a + 1, False),
        (lambda a: a * 3, False),
        (lambda a: -a, False),
        (lambda a: a.exp(), False),
        (lambda a: a.tanh(), False),
        (lambda a: a.sigmoid(), False),
        (lambda a: a.sqrt(), False),
        (lambda a: a.relu(), False),
        (lambda a: a.sin(), True),
        (lambda a: a.log(), True),
        (lambda a: a.sum(), False),
        (lambda a: a.mean(), False),
        (lambda a: a.clone(), False),
        (lambda a: a.double(), False),
        (lambda a: a.flip(0), False),
        (lambda a: a[[0, 1]], False),
        (lambda a: a.cumsum(0), False),
    ],
)
def test_operand_kept_by_operations_of_one(operation, alive):
    (a,) = results(True)
    ref = weakref.ref(a._array)  # the tensor goes, its memory stays
    out = operation(a)
    del a
    assert out.requires_grad
    assert (ref() is not None) is alive


def test_exp_keeps_only_its_own_array():
    x = lucid.zeros(1000, requires_grad=True)
    (x + 1).exp()  # loads its code
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        out = (x + 1).exp()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert out.nbytes <= after - before < 2 * out.nbytes


def test_leaf_is_kept_by_its_graph():
    x = leaf(1.0)
    ref = weakref.ref(x)
    y = x * 2
    del x
    assert ref() is not None
    y.backward()
    del y
    assert ref() is None


def test_nothing_is_kept_under_no_grad():
    x = leaf(1.0)
    with lucid.no_grad():
        a = x * 2
        ref = weakref.ref(a)
        b = a * a
        del a
    assert ref() is None and b is not None


# --- finished graphs ------------------------------------------------------------------------------


def test_graph_is_freed_with_its_result():
    x = leaf(1.0, 2.0)
    a = x.sin()
    b = a * a
    c = (b.exp() / a).sum()
    refs = [weakref.ref(t) for t in (a, b, c)] + [weakref.ref(t.grad_fn) for t in (a, b, c)]
    del a, b, c
    assert all(gone(*refs))


def test_saved_values_are_freed_during_backward():
    x = leaf(1.0, 2.0)
    a = x.sin() * 1
    loss = (a * a).sum()
    ref = weakref.ref(a)
    del a
    loss.backward()
    assert ref() is None
    assert loss.grad_fn is not None


def test_each_value_is_freed_before_the_next_node_runs():
    x = leaf(1.0, 2.0)
    a = x * 1
    b = a.sin()
    c = b.sin()
    refs = [weakref.ref(a), weakref.ref(b)]
    seen = []
    a.register_hook(lambda g: seen.append(gone(*refs)))
    loss = c.sum()
    del a, b, c
    loss.backward()
    assert seen == [[True, True]]


def test_nodes_are_freed_after_backward():
    x = leaf(1.0, 2.0)
    a = x * x
    ref = weakref.ref(a.grad_fn)
    loss = a.sum()
    loss.backward()
    del a, loss
    assert ref() is None


def test_in_place_graph_is_freed():
    x = leaf(1.0, 2.0)
    z = x * 2
    v = z[:1]
    v.mul_(x[1:])
    z.exp_()
    z[0] = x[1]
    z.sum().backward()
    refs = [weakref.ref(z), weakref.ref(v), weakref.ref(z.grad_fn)]
    del z, v
    assert all(gone(*refs))


def test_in_place_graph_without_backward_is_freed():
    x = leaf(1.0, 2.0)
    z = lucid.zeros(2)
    old = z[1:]
    z.add_(x)
    z.mul_(z.clone())
    old.requires_grad  # noqa: B018  # brings the view up to date
    refs = [weakref.ref(z), weakref.ref(old), weakref.ref(z.grad_fn), weakref.ref(old.grad_fn)]
    del z, old
    assert all(gone(*refs))


def test_view_is_freed_and_keeps_its_base_only():
    x = leaf(1.0, 2.0)
    base = x * 2
    v = base[:1]
    refs = [weakref.ref(base), weakref.ref(v)]
    del base
    del v
    assert all(gone(*refs))


def test_detached_tensor_keeps_no_graph():
    x = leaf(1.0, 2.0)
    y = x * 2
    d = y.detach()
    refs = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert all(gone(*refs)) and d.tolist() == [2.0, 4.0]


def test_hooked_graph_is_freed():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g * 2)
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.metadata["note"] = 1
    y.grad_fn.next_functions  # noqa: B018
    y.sum().backward()
    refs = [weakref.ref(x), weakref.ref(y), weakref.ref(y.grad_fn)]
    del x, y
    assert all(gone(*refs))


def test_hook_is_freed_with_its_tensor():
    class Callback:
        def __call__(self, g):
            return None

    hook = Callback()
    ref = weakref.ref(hook)
    x = leaf(1.0)
    handle = x.register_hook(hook)
    del hook
    assert ref() is not None
    handle.remove()
    assert ref() is None


def test_function_graph_is_freed():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            out = x * x
            ctx.save_for_backward(x, out)
            return out

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(1.0)
    y = Square.apply(x * 1)
    g = grad(y, x, create_graph=True)
    refs = [weakref.ref(y), weakref.ref(g), weakref.ref(y.grad_fn)]
    del y, g
    assert all(gone(*refs))


def test_function_context_is_freed():
    contexts = []

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(weakref.ref(ctx))
            ctx.x = x
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = F.apply(x * 1)
    y.backward()
    del y
    assert contexts[0]() is None


def test_double_backward_graph_is_freed():
    x = leaf(1.0, 2.0)
    y = (x.sin() * x.exp()).sum()
    g = grad(y, x, create_graph=True)
    h = grad(g.sum(), x, create_graph=True)
    refs = [weakref.ref(t) for t in (y, g, h)] + [weakref.ref(t.grad_fn) for t in (y, g, h)]
    del y, g, h
    assert all(gone(*refs))


def test_saved_output_in_double_backward_makes_no_cycle():
    x = leaf(1.0, 2.0)
    y = x.exp()
    g = grad(y.sum(), x, create_graph=True)
    refs = [weakref.ref(y), weakref.ref(g), weakref.ref(y.grad_fn)]
    del y, g
    assert all(gone(*refs))


def test_checkpointed_graph_is_freed():
    x = leaf(1.0, 2.0)

    def f(t):
        return (t.sin() * t).exp()

    y = checkpoint(f, x * 1)
    y.sum().backward()
    refs = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert all(gone(*refs))


def test_checkpointed_graph_without_backward_is_freed():
    x = leaf(1.0, 2.0)
    inner = x * 1
    y = checkpoint(lambda t: t.sin() * t, inner)
    refs = [weakref.ref(y), weakref.ref(inner)]
    del y, inner
    assert all(gone(*refs))


def test_recomputed_values_are_freed_after_backward():
    seen = []

    def f(t):
        inner = t * 2
        seen.append(weakref.ref(inner))
        return inner * inner

    x = leaf(1.0)
    y = checkpoint(f, x)
    y.backward()
    assert y is not None and all(gone(*seen))


def test_failed_backward_leaves_no_garbage():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError

    x = leaf(1.0)
    y = Fails.apply(x * 2)
    ref = weakref.ref(y)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    del y
    assert ref() is None


def test_freed_error_leaves_no_garbage():
    x = leaf(1.0)
    y = x * x
    y.backward()
    ref = weakref.ref(y)
    with contextlib.suppress(RuntimeError):
        y.backward()
    del y
    assert ref() is None


def test_saved_tensor_hooks_leave_no_garbage():
    x = leaf(1.0)
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp() * x
    refs = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert all(gone(*refs))


def test_batched_gradient_leaves_no_garbage():
    x = leaf(1.0, 2.0)
    y = x.exp()
    j = grad(y, x, lucid.eye(2), is_grads_batched=True, create_graph=True)
    refs = [weakref.ref(j), weakref.ref(y), weakref.ref(y.grad_fn)]
    del y, j
    assert all(gone(*refs))


def test_no_cycles_at_all_in_a_typical_session():
    x = leaf(0.5, 1.5)
    for _ in range(3):
        y = lucid.cat([x.sin(), x.exp()]).view(2, 2)
        z = (y @ y.t()).sum() + y.amax() + y.std() + y[0].norm()
        z.backward(create_graph=True)
        x.grad = None
        backward(z, inputs=[x])
        x.grad = None
    del y, z
    gc.collect()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        y = lucid.cat([x.sin(), x.exp()]).view(2, 2)
        z = (y @ y.t()).sum() + y.amax() + y.std()
        z.backward()
        del y, z
        gc.collect()
        found = [o for o in gc.garbage if type(o).__module__.startswith("lucid")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert found == []


# --- training loops -------------------------------------------------------------------------------


def _grown(step, warm, steps):
    """Bytes by which memory grows over many steps.

    The log of cuts and the interpreter's free lists are bounded: the one is cleared, the others fill while warming up.
    """
    tracemalloc.start()
    try:
        for _ in range(warm):
            step()
        with no_cycles():  # which also empties the interpreter's free lists: they would count as growth
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(steps):
                step()
            detachments.log.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def test_log_of_cuts_is_bounded():
    x = leaf(1.0)
    with lucid.no_grad():
        for _ in range(2 * detachments.log.maxlen):
            x * 2
    assert len(detachments.log) == detachments.log.maxlen


def test_a_thousand_training_steps_leave_memory_flat():
    rng = np.random.default_rng(0)
    w1 = lucid.tensor(rng.normal(size=(8, 16)).astype(np.float32), requires_grad=True)
    w2 = lucid.tensor(rng.normal(size=(16, 1)).astype(np.float32), requires_grad=True)
    data = lucid.tensor(rng.normal(size=(32, 8)).astype(np.float32))
    running = lucid.zeros(1)

    def step():
        out = (data @ w1).relu() @ w2
        loss = (out**2).mean()
        loss.backward()
        running.mul_(0.9).add_(loss.detach())
        with lucid.no_grad():
            for w in (w1, w2):
                w.sub_(w.grad * 1e-4)
                w.grad.zero_()

    assert _grown(step, 1000, 1000) < 20_000


def test_in_place_buffers_and_second_order_leave_memory_flat():
    x = leaf(0.5, 1.5)

    def step():
        buffer = lucid.zeros(4)
        buffer[:2] = x
        buffer[2:].add_(x * x)
        g = grad((buffer * buffer).sum(), x, create_graph=True)
        (g * g).sum().backward()
        x.grad = None

    assert _grown(step, 1000, 300) < 20_000


def test_detached_state_carried_over_leaves_memory_flat():
    w = leaf(0.5, 1.5)
    state = [lucid.zeros(2)]

    def step():
        h = (state[0] * w).tanh()
        h.sum().backward()
        state[0] = h.detach()
        w.grad = None

    assert _grown(step, 1000, 300) < 20_000


# --- long graphs ----------------------------------------------------------------------------------


def test_chain_of_200_000_operations():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
        y = y * 1.0
    ref = weakref.ref(y.grad_fn)
    g = grad(y, x, retain_graph=True)
    assert g.tolist() == [1.0]
    y.backward()
    assert x.grad.tolist() == [1.0]
    del y
    assert ref() is None


def test_chain_of_1_000_000_is_freed_without_backward():
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = y.sin()
    del y
    assert sys.getrecursionlimit() == limit


def test_chain_of_100_000_views_is_freed():
    x = leaf(1.0, 2.0)
    v = x * 1
    for _ in range(100_000):
        v = v.view(2)
    v.sum().backward()
    del v
    assert x.grad.tolist() == [1.0, 1.0]


def test_chain_of_10_000_in_place_writes():
    x = leaf(1.0, 2.0)
    z = x * 1
    for _ in range(5_000):
        z.add_(1)
        z[0] = 5.0
    z.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]
    del z


def test_chain_with_create_graph():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    g = grad(y * y, x, create_graph=True)
    assert grad(g, x).tolist() == [2.0]


def test_chain_of_functions_is_freed():
    class Step(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = Step.apply(y)
    y.backward()
    del y
    assert x.grad.tolist() == [1.0]


def test_deep_chain_with_anomaly_detection_and_hooks():
    x = leaf(1.0)
    with lucid.autograd.detect_anomaly():
        y = x
        for _ in range(3000):
            y = y * 1.0
        y.backward()
    assert x.grad.tolist() == [1.0]


# --- what kernels need beside their results ---------------------------------------------------------


def _peak(call: Callable[[], Any]) -> int:
    """Bytes that a call needs at once, with its result."""
    call()
    tracemalloc.start(1)
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not support.in_use, reason="no code is generated here")
def test_the_variance_stores_no_differences() -> None:
    x = lucid.ones(512, 512, requires_grad=True)
    size = 512 * 512 * 4
    assert _peak(lambda: lucid.var(x, 1)) < size / 4
    assert _peak(lambda: lucid.autograd.grad(lucid.var(x), x)) < 1.5 * size


@pytest.mark.skipif(not support.in_use, reason="no code is generated here")
def test_the_gradient_of_a_product_stores_two_scans() -> None:
    x = lucid.ones(300, 300, requires_grad=True)
    ct = lucid.ones(300)
    assert _peak(lambda: lucid.autograd.grad(lucid.prod(x, 1), x, ct)) < 3.5 * 300 * 300 * 4
