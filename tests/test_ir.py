"""Programs: they are traced without values, and say what they read from outside."""

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from test_func_graphs import FUNCTIONS, A, Cube, NumpyCube, t

import lucid
from lucid import autograd, nn
from lucid.core import arrays, levels
from lucid.core.kernels import WithBackward, load_all
from lucid.core.primitive import registry
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, make_graph, vmap
from lucid.ir import placeholders
from lucid.kinds.kind import NeedsValueError


def owner(array: Any) -> Any:
    """What owns the memory of an array."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


@contextmanager
def trapped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note each kernel that is given a placeholder or memory from outside, but for views, which read nothing."""
    load_all()
    made: list[Any] = []
    caught: list[str] = []

    class Watched:
        """The questions to the backend, with an eye on the memory that it hands out, which is filled with nonsense."""

        def __getattr__(self, name: str) -> Any:
            def make(*args: Any) -> Any:
                found = getattr(arrays, name)(*args)
                found[...] = 77
                made.append(owner(found))
                return found

            return make if name.startswith("empty") else getattr(arrays, name)

    def trap(name: str, kernel: Any) -> Any:
        def look(arrays: Any) -> None:
            if any(isinstance(a, np.ndarray) and any(owner(a) is m for m in made) for a in arrays):
                caught.append(name)

        def call(*arrays: Any, **params: Any) -> Any:
            look(arrays)
            return kernel(*arrays, **params)

        def forward(*arrays: Any, **params: Any) -> Any:
            look(arrays)
            return kernel.forward(*arrays, **params)

        return WithBackward(forward, kernel.backward) if isinstance(kernel, WithBackward) else call

    with monkeypatch.context() as patch:
        patch.setattr(placeholders, "arrays", Watched())
        for name, prim in registry.items():
            if not prim.is_view:
                patch.setattr(prim, "kernel", trap(name, prim.kernel))
        yield caught


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tracing_computes_nothing(name, monkeypatch):
    with trapped(monkeypatch) as caught:
        make_graph(FUNCTIONS[name])(t(A))
    assert caught == []


def test_the_trap_can_catch(monkeypatch):
    def computed(prim, operands, params):
        out = prim(*operands, **params)
        return out if prim.multi else (out,)

    with trapped(monkeypatch) as caught:
        monkeypatch.setattr(placeholders, "results", computed)
        make_graph(lambda x: x @ x.t())(lucid.ones(2, 3))
    assert caught == ["contract"]


def test_large_inputs_cost_nothing(monkeypatch):
    """Matrices of 400 MB each: no kernel is given one of them."""
    x, y = lucid.empty(10_000, 10_000), lucid.empty(10_000, 10_000)

    def f(x, y):
        z = x @ y @ x.t() + (x * y).softmax(-1).cumsum(0)
        z += x.sum(0)
        z = nn.functional.gelu(nn.functional.layer_norm(nn.functional.linear(z, y), (10_000,)))
        return z.reshape(100, -1).logsumexp(-1).mean()

    calls: list[str] = []

    def trap(name: str, kernel: Any) -> Any:
        def call(*arrays: Any, **params: Any) -> Any:
            if any(isinstance(a, np.ndarray) and a.size > 1_000_000 for a in arrays):
                calls.append(name)
                raise AssertionError(name)
            return kernel(*arrays, **params)

        return call

    for name, prim in registry.items():
        if not prim.is_view:
            monkeypatch.setattr(prim, "kernel", trap(name, prim.kernel))
    program = make_graph(f)(x, y)
    assert len(program) > 8 and program.outputs[0].shape == ()
    assert len(make_graph(grad(f))(x, y)) > len(program)
    assert len(make_graph(lambda x, y: jvp(grad(f), (x, y), (x, y)))(x, y)) > 2 * len(program)
    assert calls == []


def test_a_traced_tensor_prints_its_name_and_type():
    shown = []
    make_graph(lambda x, y: shown.append([repr(x), f"{x * y}", repr(vmap(lambda e: shown.append(e) or e)(x))]))(
        lucid.ones(2, requires_grad=True), lucid.ones(2)
    )
    assert shown[1] == ["Traced(a: float32[2], requires_grad=True)", "Traced(c: float32[2], requires_grad=True)", "Traced(a: float32[2], requires_grad=True)"]  # fmt: skip
    assert "Traced" in repr(shown[0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0].item(),
        lambda x: bool(x.any()),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: np.from_dlpack(x),
        lambda x: range(x.sum()),
        lambda x: f"{x[0]:.2f}",
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: lucid.where(x > 0),
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: lucid.unique_consecutive(x),
        lambda x: x.bincount(),
        lambda x: lucid.repeat_interleave(x, x),
        lambda x: lucid.equal(x, x),
        lambda x: lucid.allclose(x, x),
        lambda x: lucid.tensor([x[0], x[1]]),
        lambda x: lucid.zeros(x[0]),
        lambda x: x.reshape(x[0], -1),
        lambda x: lucid.arange(x[1]),
        lambda x: x[: x[0]],
        lambda x: 1 in x,
        lambda x: x.stride(),
        lambda x: x.data_ptr(),
        lambda x: pickle.dumps(x),
    ],
)
def test_values_are_not_there_to_be_read(f):
    with pytest.raises(NeedsValueError, match=r"test_ir\.py:\d+.*make_graph"):
        make_graph(f)(lucid.tensor([1, 2]))


def test_iteration_and_lengths_need_no_values():
    program = make_graph(lambda x: [row * k for k, row in enumerate(x)] + [len(x)])(t([A, A]))
    assert program(t([A, A]))[1].tolist() == A.tolist() and program(t([A, A]))[2] == 2


def test_what_is_wrong_with_values_shows_in_each_run():
    program = make_graph(lambda x, i: x[i])(t(A), lucid.tensor([9]))
    assert program(t(A), lucid.tensor([1])).tolist() == [A[1]]
    with pytest.raises(IndexError):
        program(t(A), lucid.tensor([3]))
    loss = make_graph(lambda x, y: nn.functional.cross_entropy(x, y))(lucid.ones(1, 3), lucid.tensor([7]))
    with pytest.raises(IndexError, match="target 3 is out of range"):
        loss(lucid.ones(1, 3), lucid.tensor([3]))


def test_functions_that_use_numpy_see_the_values_of_the_run_that_is_traced():
    seen = []

    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(x.numpy().tolist())
            return lucid.tensor(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return lucid.tensor(g.numpy() * 2)

    f = lambda x: Double.apply(Double.apply(x + 1) + 1) * x
    program = make_graph(f)(lucid.tensor([1.0, 2.0]))
    assert seen == [[2.0, 3.0], [5.0, 7.0]]
    assert program(lucid.tensor([0.0, 3.0])).tolist() == [0.0, 54.0]
    gradient = make_graph(grad(lambda x: f(x).sum()))(lucid.tensor([1.0, 2.0]))
    assert gradient(lucid.tensor([0.0, 3.0])).tolist() == [6.0, 30.0]


def test_results_lie_in_memory_as_those_of_a_run():
    """Whether `reshape` and `contiguous` give views depends on it."""

    def f(x):
        y = x.t() * 1 + lucid.ones(2, 3)
        flat, same = y.reshape(-1), (y.t() * 2).contiguous()
        flat.mul_(5)
        same.add_(1)
        return y, flat, same

    x = lucid.arange(6.0).reshape(3, 2)
    for got, want in zip(make_graph(f)(x)(x), f(x), strict=True):
        assert got.tolist() == want.tolist()


# What a function makes of tensors from outside.


def after_a_change(f, w, *args):
    """A traced function beside the function itself, after `w` has changed."""
    program = make_graph(f)(*args)
    with lucid.no_grad():
        w.mul_(5.0)
    return program(*args), f(*args)


W = lambda **kwargs: lucid.tensor([[1.0, 2.0], [3.0, 4.0]], **kwargs)
OF_CAPTURED = {
    "product": lambda x, w: x + w * 2,
    "converted": lambda x, w: x.double() + w,
    "view": lambda x, w: x * w[0],
    "view of a view": lambda x, w: x * w.t()[1:].reshape(-1),
    "detached": lambda x, w: x * w.detach().exp() + w.data,
    "clone": lambda x, w: x + w.clone().mul_(2).sum(),
    "written copy": lambda x, w: x + in_place(w.clone()),
    "written into": lambda x, w: lucid.zeros(2).add_(w[1]) * x,
    "repeated, in memory of its own": lambda x, w: w[:1].repeat(2, 1).mul_(x),
    "alone": lambda x, w: (w * 2).exp(),
    "as it is": lambda x, w: w,
    "gradient": lambda x, w: x * grad(lambda v: (v**3).sum())(w),
    "Hessian": lambda x, w: x + hessian(lambda v: (v**3).sum())(w).sum(),
    "leaf inside": lambda x, w: x * differentiated(w),
    "vmap": lambda x, w: vmap(lambda row: row * (w * 2).sum())(x),
    "vmap of captured": lambda x, w: x + vmap(lambda row: row.sum())(w),
    "jvp": lambda x, w: jvp(lambda v: v**3, (w,), (w * 2,))[1] * x,
    "jacobians": lambda x, w: (jacfwd(lambda v: v**2)(w) + jacrev(lambda v: v**3)(w)).sum() * x,
    "attention": lambda x, w: nn.functional.scaled_dot_product_attention(w[None], w[None], w[None]) * x,
    "cross entropy": lambda x, w: nn.functional.cross_entropy(w, lucid.tensor([0, 1])) * x,
    "layer norm": lambda x, w: nn.functional.layer_norm(w**2, (2,)) * x,
    "cond": lambda x, w: lucid.cond(w.sum() > 20, lambda y: y * w, lambda y: y - w * 2, x),
    "inside a branch": lambda x, w: lucid.cond(x.sum() > 0, lambda y: y + (w * 2).sin(), lambda y: y + w * 1, x),
    "while_loop": lambda x, w: lucid.while_loop(lambda v: v.sum() < 100, lambda v: v + (w**2).mean(), x),
    "scan": lambda x, w: lucid.scan(lambda c, row: (c + row * 2, c), x, w)[1],
    "program": lambda x, w: make_graph(lambda y: y + w * 2)(x)(x * 3),
    "Function": lambda x, w: Cube.apply(w) * x,
    "NumPy": lambda x, w: NumpyCube.apply(w * 1) * x,
}


def differentiated(w):
    leaf = w.detach().requires_grad_()
    (leaf**3).sum().backward()
    return leaf.grad


def in_place(w):
    w[0] = w[1] * 2
    w.t()[0].add_(1)
    return w


@pytest.mark.parametrize("requires_grad", [False, True], ids=["constant", "parameter"])
@pytest.mark.parametrize("name", OF_CAPTURED)
def test_what_is_made_of_captured_tensors_is_read_anew(name, requires_grad):
    w = W(requires_grad=requires_grad)
    got, want = after_a_change(lambda x: OF_CAPTURED[name](x, w), w, lucid.tensor([0.5, -1.5]))
    assert got.tolist() == want.tolist() and got.requires_grad == want.requires_grad
    if got.requires_grad:
        assert autograd.grad(got.sum(), w).tolist() == autograd.grad(want.sum(), w).tolist()


def test_gradients_by_captured_tensors_inside_a_program():
    w = W(requires_grad=True)
    f = lambda x: autograd.grad(((w * 2).exp() * x).sum(), w, create_graph=True) * x
    got, want = after_a_change(f, w, lucid.tensor([0.5, -1.5]))
    assert got.tolist() == want.tolist()


def test_values_of_captured_tensors_can_be_read():
    """They are fixed where Python asks for them, and nowhere else."""
    w = W()

    def f(x):
        count = int((w > 1).sum())
        picked = w[w > 2]
        return x * (2 if w.mean() > 1 else 3) + picked.sum() * count + float(w.max())

    program = make_graph(f)(lucid.tensor([1.0]))
    assert program(lucid.tensor([1.0])).tolist() == f(lucid.tensor([1.0])).tolist() == [27.0]
    w.mul_(2.0)
    assert program(lucid.tensor([1.0])).tolist() == [2.0 + 3 * 14.0 + 4.0]


def test_what_linearize_makes_of_its_point_is_fixed():
    w = W()
    value, push = lucid.func.linearize(lambda x: x**2 * (w * 3) if w.sum() > 0 else x, W())
    assert type(value) is lucid.Tensor and not [i for i in push.instructions if i.primitive.name == "pow"]


def test_tracing_ends_with_the_trace():
    with pytest.raises(ZeroDivisionError):
        make_graph(lambda x: 1 / 0)(lucid.ones(2))
    assert levels.tracing() == 0 and levels.trace.get() is None
    w = W()
    assert type(w.mul_(2.0) * 2) is lucid.Tensor


def test_other_threads_are_not_traced():
    w = W()
    seen = []

    def f(x):
        worker = threading.Thread(target=lambda: seen.append(w * 2))
        worker.start()
        worker.join()
        return x

    make_graph(f)(lucid.ones(2))
    assert type(seen[0]) is lucid.Tensor


LAYERS = {
    "linear": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3)), (2, 4)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)).eval(), (2, 1, 6, 6)),
    "LSTM": (lambda: nn.LSTM(4, 5), (3, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 5, num_layers=2), (3, 2, 4)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16).eval(), (3, 2, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_programs_of_layers_follow_their_parameters(name):
    make, shape = LAYERS[name]
    model, x = make(), lucid.randn(*shape)
    parameters = list(model.parameters())

    def value(x):
        out = model(x)
        return out[0] if isinstance(out, tuple) else out

    gradient = lambda x: autograd.grad(value(x).square().sum(), parameters)
    programs = make_graph(value)(x), make_graph(gradient)(x)
    with lucid.no_grad():
        for p in parameters:
            p.mul_(1.1)
    np.testing.assert_allclose(programs[0](x).detach(), value(x).detach(), rtol=1e-4, atol=1e-5)
    for got, want in zip(programs[1](x), gradient(x), strict=True):
        np.testing.assert_allclose(got.detach(), want.detach(), rtol=1e-3, atol=1e-4)
