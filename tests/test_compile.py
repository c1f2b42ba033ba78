"""lucid.compile: values, derivatives, what is captured, and how calls compose."""

import copy
import gc
import itertools
import os
import threading
import weakref

import numpy as np
import pytest

import lucid
from lucid import func, nn
from lucid.backends.cpu.generated import support
from lucid.compiler import function, places
from lucid.ir.trace import Traced
from lucid.kinds.kind import NeedsValueError
from lucid.nn import functional

SCALE = 2.0
TABLE = lucid.tensor([1.0, 2.0, 3.0])


def same(a, b):
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def test_values_and_a_program_that_is_traced_once():
    @lucid.compile
    def f(x, y):
        return {"sum": x + y, "pair": (x * y, 3)}

    x, y = lucid.randn(3), lucid.randn(3)
    for _ in range(3):
        out = f(x, y)
    same(out["sum"], x + y)
    same(out["pair"][0], x * y)
    assert out["pair"][1] == 3
    assert "mul" in str(f.program(x, y))
    assert "mul" in str(f)
    assert "1 program" in repr(f)


def test_each_signature_has_a_program():
    f = lucid.compile(lambda x, n=1: x * n)
    x = lucid.ones(3)
    f(x)
    f(lucid.ones(4))
    f(lucid.ones(3, dtype=lucid.float64))
    f(x, 2)
    f(x, 2.0)
    f(x.clone().requires_grad_())
    with lucid.no_grad():
        same(f(x, 3), x * 3)
    assert repr(f) == "<compiled <lambda>: 7 programs>"
    assert "argument 0 was float32[3], now float32[4]" in f.explain()
    assert "whether operations are recorded was True, now False" in f.explain()


def test_arguments_in_containers():
    f = lucid.compile(lambda xs, d, **more: sum(xs) + d["a"] * more["k"])
    x = lucid.ones(2)
    assert f([x, x], {"a": x}, k=2).tolist() == [4, 4]
    assert f([x, x, x], {"a": x}, k=2).tolist() == [5, 5]
    assert f([x, x], {"a": x, "b": None}, k=x).tolist() == [3, 3]
    assert "argument 0[2] was not given before" in f.explain()


def traces():
    gc.collect()
    return {id(x): x for x in gc.get_objects() if isinstance(x, Traced)}


def test_nothing_of_a_trace_is_kept():
    before = traces()
    layer = nn.Linear(3, 3)
    optimizer = lucid.optim.Adam(layer.parameters())

    @lucid.compile
    def step(x):
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(lucid.ones(2, 3))
    gone = weakref.ref(layer.weight.grad)
    step(lucid.ones(2, 3))
    gc.collect()
    assert gone() is None
    assert traces().keys() == before.keys()


def test_many_signatures_warn_once_and_say_why():
    f = lucid.compile(lambda x, n: x * n)
    with pytest.warns(UserWarning, match="more than 8 signatures.*was 7, now 8"):
        for n in range(9):
            f(lucid.ones(2), n)


def test_the_warning_is_about_the_users_line():
    f = lucid.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="more than 8 signatures") as found:
        for n in range(1, 10):
            f(lucid.ones(n))
    assert found[0].filename == __file__


def test_sizes_that_are_dynamic_do_not_count(recwarn):
    f = lucid.compile(lambda x: x.sum(), dynamic=("x",))
    for n in range(1, 12):
        assert f(lucid.ones(n)).item() == n
    assert not recwarn.list


def test_static_arguments_are_compared_as_they_are():
    f = lucid.compile(lambda x, kinds: x + len(kinds), static=("kinds",))
    assert f(lucid.zeros(1), ("a", "b")).item() == 2
    assert f(lucid.zeros(1), ("a", "b", "c")).item() == 3
    g = lucid.compile(lambda x, options: x + options["one"], static="options")
    options = {"one": 1.0}
    assert g(lucid.zeros(1), options).item() == 1
    options["one"] = 2.0
    assert g(lucid.zeros(1), options).item() == 2
    with pytest.raises(ValueError, match="'other' is none of x, kinds"):
        lucid.compile(lambda x, kinds: x, static=("other",))


def test_arrays_are_tensors_inside():
    f = lucid.compile(lambda x: x.sum() * 2)
    assert f(np.ones(3, np.float32)).item() == 6
    with pytest.raises(TypeError, match="arrays inside of containers"):
        f([np.ones(3)])


def test_as_decorator_with_options_and_on_methods():
    class Model:
        def __init__(self, factor):
            self.factor = factor

        @lucid.compile(fast=False)
        def run(self, x):
            return x * self.factor

    a, b = Model(lucid.tensor(2.0)), Model(lucid.tensor(3.0))
    assert a.run(lucid.tensor(1.0)).item() == 2
    assert b.run(lucid.tensor(1.0)).item() == 3
    a.factor = lucid.tensor(5.0)
    assert a.run(lucid.tensor(1.0)).item() == 5


# Derivatives.


def test_the_tape_goes_through_to_arguments_and_captures():
    w = lucid.randn(3, requires_grad=True)
    f = lucid.compile(lambda x: ((x * w).exp().sum(), (x / w).sum()))
    x = lucid.randn(3, requires_grad=True)
    for _ in range(2):
        a, b = f(x)
        (a * 2 + b).backward()
    got = x.grad, w.grad
    x.grad = w.grad = None
    for _ in range(2):
        ((x * w).exp().sum() * 2 + (x / w).sum()).backward()
    same(got[0], x.grad)
    same(got[1], w.grad)


def test_one_of_several_outputs_alone():
    f = lucid.compile(lambda x: (x * 2, x * 3))
    x = lucid.ones(2, requires_grad=True)
    f(x)[1].sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_gradcheck_to_second_order():
    w = lucid.rand(3, dtype=lucid.float64, requires_grad=True)
    f = lucid.compile(lambda x, w=w: (x.sin() * w).sum() ** 2)
    x = lucid.rand(3, dtype=lucid.float64, requires_grad=True)
    assert lucid.autograd.gradcheck(lambda x, _: f(x), (x, w))
    assert lucid.autograd.gradgradcheck(lambda x, _: f(x), (x, w))


def test_arguments_that_depend_on_each_other():
    f = lucid.compile(lambda x, y: (x * y).sum())
    x = lucid.tensor([2.0], requires_grad=True)
    y = x * x
    (first,) = lucid.autograd.grad(f(x, y), [x], create_graph=True)
    assert first.item() == 12
    assert lucid.autograd.grad(first, x).item() == 12


def test_transforms_around_and_inside():
    def plain(x):
        return (x.tanh() * x).sum()

    f = lucid.compile(plain)
    x = lucid.randn(4)
    same(func.grad(f)(x), func.grad(plain)(x))
    same(func.vmap(f)(lucid.stack([x, x * 2])), func.vmap(plain)(lucid.stack([x, x * 2])))
    same(func.jvp(f, (x,), (x,))[1], func.jvp(plain, (x,), (x,))[1])
    same(func.hessian(f)(x), func.hessian(plain)(x))
    same(func.jacrev(lucid.compile(lambda x: x * x.sum()))(x), func.jacrev(lambda x: x * x.sum())(x))
    for transform in (func.grad, func.hessian, func.jacfwd):
        same(lucid.compile(transform(plain))(x), transform(plain)(x))
    per_example = func.vmap(func.grad(plain))
    same(lucid.compile(per_example)(lucid.randn(0, 4)), lucid.zeros(0, 4))
    xs = lucid.randn(3, 4)
    same(lucid.compile(per_example)(xs), per_example(xs))


def test_compiled_inside_of_compiled():
    inner = lucid.compile(lambda x: x * 2)
    outer = lucid.compile(lambda x: inner(x) + inner(x + 1))
    assert outer(lucid.tensor(1.0)).item() == 6
    assert "0 programs" in repr(inner)
    assert "mul" in str(func.make_graph(inner)(lucid.tensor(1.0)))


def test_outputs_are_not_differentiable_twice_after_a_backward_inside():
    w = lucid.ones(2, requires_grad=True)

    @lucid.compile
    def f(x):
        loss = (x * w).sum()
        loss.backward()
        return loss

    loss = f(lucid.ones(2))
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="freed by the backward pass inside"):
        loss.backward()
    assert w.grad.tolist() == [1, 1]


def test_writes_to_what_was_saved_are_noticed():
    f = lucid.compile(lambda x: x.exp())
    x = lucid.ones(2, requires_grad=True)
    y = f(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="overwritten"):
        y.sum().backward()


def test_a_custom_function_keeps_its_derivative():
    class Odd(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 10 * x

    f = lucid.compile(lambda x: Odd.apply(x).sum())
    x = lucid.tensor([1.0, 3.0], requires_grad=True)
    (first,) = lucid.autograd.grad(f(x), [x], create_graph=True)
    assert first.tolist() == [10, 30]
    assert lucid.autograd.grad(first.sum(), x).tolist() == [10, 10]
    assert "Odd" in str(f.program(x))

    class ByNumPy(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return lucid.from_numpy(np.sort(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            return lucid.from_numpy(g.numpy()[::-1].copy())

    g = lucid.compile(lambda x: ByNumPy.apply(x * 1))
    for values in ([2.0, 1.0], [5.0, 7.0]):
        x = lucid.tensor(values, requires_grad=True)
        assert g(x).tolist() == sorted(values)
        (found,) = lucid.autograd.grad(g(x), [x], lucid.tensor([1.0, 2.0]))
        assert found.tolist() == [2, 1]


# What is captured.


def test_captures_are_read_anew_by_their_path():
    holder = {"w": lucid.tensor([1.0]), "list": [lucid.tensor([10.0])]}

    def f(x):
        return x * holder["w"] + holder["list"][0]

    g = lucid.compile(f)
    x = lucid.tensor([2.0])
    assert g(x).item() == 12
    holder["w"] = lucid.tensor([3.0])
    holder["list"] = [lucid.tensor([20.0])]
    assert g(x).item() == 26
    holder["w"].mul_(2)
    assert g(x).item() == 32
    assert "1 program" in repr(g)
    holder["w"] = lucid.tensor([[3.0]])
    assert g(x).shape == (1, 1)
    assert "holder['w'] was float32[1], now float32[1, 1]" in g.explain()


def test_python_values_are_guards():
    class Settings:
        def __init__(self):
            self.power = 2
            self.unused = 0

    settings = Settings()
    f = lucid.compile(lambda x: x**settings.power)
    assert f(lucid.tensor(3.0)).item() == 9
    settings.unused = 1
    assert f(lucid.tensor(3.0)).item() == 9
    assert "1 program" in repr(f)
    settings.power = 3
    assert f(lucid.tensor(3.0)).item() == 27
    assert "settings.power was 2, now 3" in f.explain()


def test_globals_and_functions_that_are_called(monkeypatch):
    def f(x):
        return helper(x) * SCALE

    g = lucid.compile(f)
    assert g(lucid.ones(3)).tolist() == [2, 4, 6]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert g(lucid.ones(3)).tolist() == [3, 6, 9]
    monkeypatch.setitem(globals(), "TABLE", lucid.zeros(3))
    assert g(lucid.ones(3)).tolist() == [0, 0, 0]
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert g(lucid.ones(3)).tolist() == [3, 3, 3]


def helper(x):
    return x * TABLE


def test_a_tensor_that_cannot_be_found_again_is_an_error():
    hidden = iter([lucid.ones(2), lucid.ones(2)])
    f = lucid.compile(lambda x: x + next(hidden))
    with pytest.raises(RuntimeError, match="cannot find again"):
        f(lucid.ones(2))


def test_two_paths_to_one_tensor():
    a = {"x": lucid.ones(1)}
    b = {"x": a["x"]}
    f = lucid.compile(lambda: a["x"] + b["x"])
    assert f().item() == 2
    b["x"] = lucid.tensor([5.0])
    assert f().item() == 6


def test_an_argument_that_is_also_captured():
    w = lucid.ones(1)
    f = lucid.compile(lambda x: x + w)
    assert f(w).item() == 2
    assert f(lucid.tensor([5.0])).item() == 6


def test_training_flags_and_module_settings():
    layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = lucid.compile(layer)
    lucid.manual_seed(0)
    a = f(lucid.ones(2, 3))
    lucid.manual_seed(0)
    same(a, layer(lucid.ones(2, 3)))
    layer.eval()
    same(f(lucid.ones(2, 3)), layer(lucid.ones(2, 3)))
    layer.train()
    layer[1].p = 1.0
    assert f(lucid.ones(2, 3)).tolist() == [[0] * 3] * 2
    assert "training was True, now False" in f.explain()


def test_modules_compile_in_place_and_can_be_copied():
    model = nn.Linear(2, 2).compile()
    x = lucid.ones(1, 2)
    expected = nn.functional.linear(x, model.weight, model.bias)
    same(model(x), expected)
    twin = copy.deepcopy(model)
    with lucid.no_grad():
        twin.weight.zero_()
    same(twin(x)[0], twin.bias)
    same(model(x), expected)


def test_hooks_of_modules():
    layer = nn.Linear(2, 2)
    f = lucid.compile(layer)
    x = lucid.ones(1, 2)
    before = f(x)
    handle = layer.register_forward_hook(lambda module, given, out: out * 2)
    same(f(x), before * 2)
    handle.remove()
    same(f(x), before)
    with nn.register_module_forward_hook(lambda module, given, out: out * 3):
        same(f(x), before * 3)
    same(f(x), before)


# What is written.


def test_writes_to_arguments_captures_and_views():
    buffer = lucid.zeros(3)

    @lucid.compile
    def f(x):
        x[0] = 7.0
        buffer.add_(x)
        part = buffer[1:]
        part.mul_(10)
        return buffer.sum()

    x, y = lucid.ones(3), lucid.ones(3)
    assert f(x).item() == 7 + 10 + 10
    assert x.tolist() == [7, 1, 1]
    assert buffer.tolist() == [7, 10, 10]
    f(y)
    assert buffer.tolist() == [14, 110, 110]
    assert y.tolist() == [7, 1, 1]


def test_arguments_that_share_memory_run_as_they_are():
    buffer = lucid.zeros(4)

    def f(x):
        buffer.add_(1)
        return x * 1

    g = lucid.compile(f)
    assert g(lucid.zeros(2)).tolist() == [0, 0]
    assert g(buffer[:2]).tolist() == [2, 2]
    assert "shares memory" in g.explain()


def test_assignments_happen_after_each_run():
    class Model:
        def __init__(self):
            self.state = lucid.zeros(2)
            self.seen = {}
            self.log = []

        def step(self, x):
            self.state = self.state * 0.5 + x
            self.seen["last"] = x.sum()
            return self.state.sum()

    model = Model()
    step = lucid.compile(model.step)
    for expected in (2.0, 3.0, 3.5):
        assert step(lucid.ones(2)).item() == expected
        assert model.state.sum().item() == expected
        assert model.seen["last"].item() == 2
    assert type(model.state) is lucid.Tensor


def test_python_numbers_that_a_function_changes():
    class Counter:
        calls = 0

    counter = Counter()

    def f(x):
        counter.calls += 1
        return x * counter.calls

    g = lucid.compile(f)
    assert [g(lucid.tensor(1.0)).item() for _ in range(3)] == [1, 2, 3]
    assert counter.calls == 3


def test_a_failing_call_leaves_everything_as_it_was():
    class Model:
        pass

    model = Model()
    model.weight = lucid.ones(3, requires_grad=True)
    model.buffer = lucid.zeros(3)
    model.kept = lucid.zeros(1)
    optimizer = lucid.optim.Adam([model.weight])

    @lucid.compile
    def step(x, i):
        model.buffer.add_(1)
        model.kept = x.sum()
        (model.weight * x).sum().backward()
        optimizer.step()
        return model.buffer[i]

    x = lucid.ones(3)
    step(x, lucid.tensor([0, 1]))
    before = model.buffer.tolist(), model.weight.tolist(), model.weight.grad.tolist(), model.kept
    for _ in range(2):
        with pytest.raises(IndexError):
            step(x, lucid.tensor([0, 9]))
        assert (model.buffer.tolist(), model.weight.tolist(), model.weight.grad.tolist(), model.kept) == before
    step(x, lucid.tensor([0, 1]))
    assert model.buffer.tolist() == [2, 2, 2]
    assert optimizer.state[model.weight]["step"].item() == 2


def test_an_error_while_tracing_restores_what_was_assigned():
    class Model:
        value = 1

    model = Model()
    model.tensor = first = lucid.ones(1)

    @lucid.compile
    def f(x):
        model.tensor = x * 2
        raise KeyError("no")

    with pytest.raises(KeyError):
        f(lucid.ones(1))
    assert model.tensor is first
    assert not lucid.compiler.is_compiling()


# Random numbers and control flow.


def test_draws_are_those_of_the_function_and_new_in_each_call():
    def f(x):
        return x + lucid.rand(3) * lucid.randn(3), lucid.randint(0, 9, (4,)), lucid.randperm(5)

    g = lucid.compile(f)
    lucid.manual_seed(3)
    expected = [f(lucid.zeros(3)) for _ in range(3)]
    lucid.manual_seed(3)
    for outs in expected:
        for a, b in zip(outs, g(lucid.zeros(3)), strict=True):
            same(a, b)
    generator = lucid.Generator().manual_seed(1)
    h = lucid.compile(lambda: lucid.rand(2, generator=generator))
    first = h()
    assert first.tolist() != h().tolist()
    generator.manual_seed(1)
    same(first, h())


def test_second_derivatives_see_the_same_draws():
    f = lucid.compile(lambda x: (nn.functional.dropout(x, 0.5) ** 2).sum())
    x = lucid.ones(64, requires_grad=True)
    y = f(x)
    (first,) = lucid.autograd.grad(y, [x], create_graph=True)
    (second,) = lucid.autograd.grad(first.sum(), [x])
    assert set(second.tolist()) == {0.0, 8.0}
    assert first.sum().item() == 2 * y.item()


def test_control_flow():
    def f(x):
        y = lucid.cond(x.sum() > 0, lambda a: a * 2, lambda a: -a, x)
        _, z = lucid.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (lucid.tensor(0), y))
        carry, ys = lucid.scan(lambda c, v: (c + v, c * v), z.sum(), z)
        return carry + ys.sum()

    g = lucid.compile(f)
    for sign in (1.0, -1.0):
        x = (lucid.rand(3) * sign).requires_grad_()
        same(g(x), f(x))
        same(lucid.autograd.grad(g(x), x), lucid.autograd.grad(f(x), x))


def test_a_long_scan_is_one_instruction():
    def f(c, xs):
        return lucid.scan(lambda c, x: (c * 0.9 + x, c * x), c, xs)

    g = lucid.compile(f)
    c, xs = lucid.tensor(1.0, requires_grad=True), lucid.randn(200)
    for a, b in zip(g(c, xs), f(c, xs), strict=True):
        assert np.allclose(a.detach(), b.detach())
    assert len(g.program(c, xs)) < 20
    same(lucid.autograd.grad(g(c, xs)[0], c), lucid.autograd.grad(f(c, xs)[0], c))


def test_conditions_and_indices_that_are_arguments():
    g = lucid.compile(lambda flag, x, i: lucid.cond(flag, lambda x: x * 2, lambda x: x + 1, x)[i])
    x = lucid.tensor([1.0, 5.0, 7.0])
    assert g(lucid.tensor(True), x, lucid.tensor([0, 1])).tolist() == [2, 10]
    assert g(lucid.tensor(False), x, lucid.tensor([-1, 2])).tolist() == [8, 8]
    with pytest.raises(IndexError):
        g(lucid.tensor(False), x, lucid.tensor([0, 3]))


def test_values_are_not_seen_inside_of_branches():
    scale = lucid.tensor(2.0)
    g = lucid.compile(lambda x: lucid.cond(x.sum() > 0, lambda x: x * scale.item(), lambda x: x, x))
    with pytest.raises(NeedsValueError):
        g(lucid.ones(2))


# Errors.


def test_what_cannot_be_traced_names_the_line_and_the_remedy():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    def item(x):
        return x * x.max().item()

    for f in (branch, item, lambda x: x.tolist(), lambda x: np.asarray(x), lambda x: float(x.sum())):
        with pytest.raises(NeedsValueError, match=r"test_compile.py:\d+.* lucid.compile traces"):
            lucid.compile(f)(lucid.ones(2))


@pytest.mark.parametrize("f", [lambda x: x.nonzero(), lambda x: x.unique(), lambda x: x[x > 0]])
def test_shapes_that_depend_on_values(f):
    with pytest.raises(NeedsValueError, match=r"shape of the result depends on values. (Use|Say)"):
        lucid.compile(f)(lucid.ones(2))


def test_sizes_that_are_given():
    f = lucid.compile(lambda x: lucid.nonzero_static(x, size=2, fill_value=-1))
    assert f(lucid.tensor([0.0, 1.0, 1.0])).tolist() == [[1], [2]]
    assert f(lucid.tensor([0.0, 1.0, 0.0])).tolist() == [[1], [-1]]
    x = lucid.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0]])
    for size in (0, 2, 5, 9):
        places = lucid.compile(lambda x, n=size: lucid.nonzero(x, size=n, as_tuple=True))(x)
        for found, expected in zip(places, np.nonzero(x.numpy()), strict=True):
            assert found.tolist() == [*expected, *[-1] * 9][:size]
        taken = lucid.compile(lambda x, n=size: x.masked_select(x > 1, size=n, fill_value=7))(x)
        assert taken.tolist() == [3.0, 3.0, 2.0, *[7.0] * 9][:size]
        distinct = lucid.compile(lambda x, n=size: x.unique(True, True, True, size=n, fill_value=9))(x)
        values, inverse, counts = np.unique(x.numpy(), return_inverse=True, return_counts=True)
        assert distinct[0].tolist() == [*values, *[9.0] * 9][:size]
        assert distinct[1].tolist() == inverse.reshape(x.shape).tolist()
        assert distinct[2].tolist() == [*counts, *[0] * 9][:size]
    with pytest.raises(ValueError, match="size must not be negative"):
        lucid.nonzero(x, size=-1)
    with pytest.raises(NotImplementedError, match="not for slices"):
        lucid.unique(x, dim=0, size=2)


def test_derivatives_and_batches_of_sizes_that_are_given():
    x = lucid.tensor([0.5, -1.0, 2.0, 0.5], dtype=lucid.float64, requires_grad=True)
    assert lucid.autograd.gradcheck(lambda x: x.masked_select(x > 0, size=4, fill_value=1) ** 2, [x])
    (found,) = [lucid.autograd.grad((x.unique(size=5) ** 2).sum(), x)]
    assert found.tolist() == [1.0, -2.0, 4.0, 0.0]  # the first of equal elements has the gradient
    rows = lucid.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 0.0]])
    for f in (lambda r: r.masked_select(r > 0, size=2), lambda r: r.unique(size=3), lambda r: lucid.nonzero(r, size=2)):
        same(func.vmap(f)(rows), lucid.stack([f(row) for row in rows]))


def test_errors_for_bad_input_are_those_of_the_function():
    f = lucid.compile(lambda x, y: x @ y)
    with pytest.raises(RuntimeError) as ours:
        f(lucid.ones(2, 3), lucid.ones(2, 3))
    with pytest.raises(RuntimeError) as theirs:
        lucid.ones(2, 3) @ lucid.ones(2, 3)
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(TypeError, match="takes a function"):
        lucid.compile(3)

    def gives(x):
        yield x

    with pytest.raises(TypeError, match="one by one"):
        lucid.compile(gives)


def test_results_are_of_the_class_of_what_they_are_made_of():
    class Own(lucid.Tensor):
        __slots__ = ()
        passed_on = True

    f = lucid.compile(lambda x: (x * 2, x))
    x = Own([1.0, 2.0])
    for _ in range(2):
        y, same_one = f(x)
        assert type(y) is Own
        assert y.tolist() == [2, 4]
        assert same_one is x
    assert type(f(lucid.ones(2))[0]) is lucid.Tensor


def test_disable():
    seen = []

    @lucid.compiler.disable
    def look(x):
        seen.append(x.tolist())
        return x + 1

    f = lucid.compile(lambda x: look(x * 2) * 3)
    assert f(lucid.tensor([1.0])).tolist() == [9]
    assert f(lucid.tensor([2.0])).tolist() == [15]
    assert seen[-2:] == [[2.0], [4.0]]
    with lucid.compiler.disable():
        f(lucid.tensor([1.0, 2.0]))
    assert "1 program" in repr(f)


def test_verify_compares_with_the_function():
    w = lucid.ones(2, requires_grad=True)
    optimizer = lucid.optim.SGD([w], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        loss = (w * x * lucid.rand(2)).sum()
        loss.backward()
        optimizer.step()
        return loss

    lucid.manual_seed(0)
    f = lucid.compile(step, verify=True)
    for _ in range(3):
        f(lucid.ones(2))
    found = w.tolist()
    with lucid.no_grad():
        w.fill_(1.0)
    lucid.manual_seed(0)
    for _ in range(3):
        step(lucid.ones(2))
    assert found == w.tolist()
    hidden = itertools.count()
    g = lucid.compile(lambda x: x + next(hidden), verify=True)
    with pytest.raises(AssertionError, match="differ in result 0"):
        g(lucid.ones(2))


# Threads.


def test_many_threads_call_and_trace():
    w = lucid.randn(8, 8)
    f = lucid.compile(lambda x: (x @ w).tanh())
    xs = [lucid.randn(n % 3 + 1, 8) for n in range(12)]
    results = [None] * len(xs)

    def work(i):
        for _ in range(5):
            results[i] = f(xs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for x, out in zip(xs, results, strict=True):
        same(out, (x @ w).tanh())
    assert "3 programs" in repr(f)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_calls_and_traces():
    w = lucid.ones(2)
    f = lucid.compile(lambda x: x * w)
    f(lucid.ones(2))
    with function._lock:  # held by a thread that the child does not have
        child = os.fork()
        if not child:
            ok = f(lucid.ones(2)).tolist() == [1, 1] and f(lucid.ones(3, 2)).shape == (3, 2)
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_interrupted_trace_leaves_no_trace():
    holder = {"x": lucid.ones(1)}
    first = holder["x"]

    def f(x):
        holder["x"] = x * 2
        if stop:
            raise KeyboardInterrupt
        return holder["x"]

    stop = True
    g = lucid.compile(f)
    with pytest.raises(KeyboardInterrupt):
        g(lucid.ones(1))
    assert holder["x"] is first
    stop = False
    assert g(lucid.ones(1)).item() == 2
    assert holder["x"].item() == 2


def test_autocast_around_and_inside():
    layer = nn.Linear(3, 3)
    f = lucid.compile(layer)
    x = lucid.randn(2, 3)
    for _ in range(2):
        with lucid.amp.autocast("cpu"):
            assert f(x).dtype is lucid.bfloat16
            same(f(x), layer(x))
        assert f(x).dtype is lucid.float32
    assert "2 programs" in repr(f)


def test_tensors_from_outside_are_returned_as_they_are():
    w = lucid.ones(2, requires_grad=True)
    buffer = lucid.zeros(2)

    @lucid.compile
    def f(x):
        buffer.add_(1)
        return x, w, buffer

    x = lucid.ones(2)
    for _ in range(2):
        outs = f(x)
        assert outs[0] is x
        assert outs[1] is w
        assert outs[2] is buffer
    assert buffer.tolist() == [2, 2]


def test_hooks_on_leaves_are_guards():
    w = lucid.ones(2, requires_grad=True)

    @lucid.compile
    def f(x):
        w.grad = None
        (w * x).sum().backward()

    f(lucid.ones(2))
    handle = w.register_hook(lambda g: g * 3)
    f(lucid.ones(2))
    assert w.grad.tolist() == [3, 3]
    handle.remove()
    f(lucid.ones(2))
    assert w.grad.tolist() == [1, 1]


def test_an_optimizer_of_the_user():
    class Descent(lucid.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})
            self.sign = 1.0

        @lucid.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    entry = self.state[p]
                    entry["count"] = entry.get("count", lucid.zeros(())) + 1
                    p.sub_(p.grad * group["lr"] * self.sign)

    def run(compiled):
        w = lucid.ones(2, requires_grad=True)
        optimizer = Descent([w], 0.5)

        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()

        step = lucid.compile(step) if compiled else step
        for i in range(4):
            step(lucid.ones(2))
            optimizer.param_groups[0]["lr"] *= 0.5
            if i == 2:
                optimizer.sign = -1.0
        return w.tolist(), optimizer.state[w]["count"].item()

    assert run(True) == run(False)


def test_a_failing_call_leaves_generators_where_they_were():
    f = lucid.compile(lambda x, i: x[i] + lucid.rand(2))
    lucid.manual_seed(0)
    f(lucid.ones(3), lucid.tensor([0, 1]))
    state = lucid.get_rng_state()
    with pytest.raises(IndexError):
        f(lucid.ones(3), lucid.tensor([0, 7]))
    assert lucid.get_rng_state() == state


def test_constant_targets_are_counted_beforehand():
    def loss(x):
        return nn.functional.cross_entropy(x, lucid.tensor([0, -100, 1]))

    x = lucid.randn(3, 4)
    assert lucid.compile(loss)(x).item() == pytest.approx(loss(x).item())


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.bfloat16])
def test_fast_changes_rounding_alone(dtype):
    def f(x, scale):
        scaled = (x / 3.0) * 2.0 * 5.0 + 1.0 + 2.0
        return scaled / scale.sqrt() + x / x.abs().sum(-1, keepdim=True) + x / 0.0 + x * 0.0

    x, scale = lucid.randn(6, 5).to(dtype), (lucid.rand(6, 5) + 0.5).to(dtype)
    found, expected = lucid.compile(f, fast=True)(x, scale), f(x, scale)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), rtol=30 * lucid.finfo(dtype).eps)


def test_fast_leaves_integers_and_gradients():
    def f(x, n):
        return (x * 2.0 * 3.0 / 7.0).sum() * 1.0, (n + 1 + 2) * 2 * 3

    x = lucid.randn(7, dtype=lucid.float64, requires_grad=True)
    value, whole = lucid.compile(f, fast=True)(x, lucid.arange(4))
    assert whole.tolist() == [18, 24, 30, 36]
    np.testing.assert_allclose(func.grad(lambda x: f(x, 0)[0])(x).numpy(), 6 / 7 * np.ones(7))
    value.backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 / 7 * np.ones(7), rtol=1e-14)


reuses_memory = pytest.mark.skipif(not support.in_use, reason="without generated code nothing is reused")


def donating(f, *args):
    """What a function that may use the memory of its first argument gives, and whether it has used it."""
    expected = f(*[a.clone() for a in args])
    before = args[0].data_ptr()
    found = lucid.compile(f, donate=0)(*args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    return before in [a.data_ptr() for a in found]


@reuses_memory
def test_results_lie_in_donated_memory():
    x, y = lucid.randn(100), lucid.randn(100)
    assert donating(lambda s, x: (s * 0.9 + x, x * 2), x.clone(), y)
    assert donating(lambda s, x: ((s + x).exp(), (s + x).exp().sum()), x.clone(), y)


def test_donated_memory_is_not_used_where_it_is_read_later_or_elsewhere():
    x, both = lucid.randn(10), lucid.randn(15)
    assert not donating(lambda s: (s.flip(0) * s, s.sum()), x.clone())
    assert not donating(lambda s, i: (s.double(), s[i]), x.clone(), lucid.tensor([1, 2]))
    outside = x.clone()
    found = lucid.compile(lambda s: (s + outside, outside * s), donate="s")(outside)
    np.testing.assert_array_equal(found[1].numpy(), (x * x).numpy())
    step = lucid.compile(lambda s, x: (s * 2 + x, x.sum()), donate=0)
    for s, other in [(both[:10], both[5:]), (x, x)]:
        expected = (s * 2 + other).numpy(), other.sum().item()
        found = step(s, other)
        np.testing.assert_array_equal(found[0].numpy(), expected[0])
        assert found[1].item() == expected[1]


def test_what_a_derivative_reads_is_not_given_away():
    weight, x = lucid.ones(5, requires_grad=True), lucid.randn(5)
    kept = x.clone()
    lucid.compile(lambda x: x * weight, donate=0)(x).sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), kept.numpy())


@reuses_memory
def test_a_donated_tensor_that_a_gradient_needs_is_missed():
    weight, x = lucid.ones(5, requires_grad=True), lucid.randn(5)
    loss = (weight * x).sum()
    lucid.compile(lambda x: x + 1, donate=0)(x)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_arguments_print_without_the_values_of_one_call():
    texts = []
    f = lucid.compile(lambda x: (texts.append(repr(x)), x * 2)[1])
    f(lucid.ones(2))
    assert texts[0] == "Tensor(traced: float32[2])"


def test_anomaly_detection_inside():
    w = lucid.ones(2, requires_grad=True)

    @lucid.compile
    def f(x):
        with lucid.autograd.detect_anomaly():
            loss = (w * x).sqrt().sum()
            loss.backward()
        return loss

    assert f(lucid.ones(2)).item() == 2
    with pytest.raises(RuntimeError, match="gave nan or inf in the forward pass"):
        f(-lucid.ones(2))
    assert "anomaly detection" in f.explain()


def test_printing_of_values_at_each_run(capsys):
    f = lucid.compile(lambda x: (lucid.debug.print("sum {s}", s=x.sum()), x * 2)[1])
    f(lucid.ones(2))
    f(lucid.ones(2) * 2)
    assert capsys.readouterr().out == "sum 2.0\nsum 4.0\n"


def test_views_of_views_that_were_written_to_beside_gradients():
    """The view is made anew in the program of the result, and not in that of the derivative."""

    def real_part(x):
        z = lucid.complex(x, 2 * x)
        real, imaginary = z.real, z.imag
        imaginary[1].fill_(7.0)
        return real

    def corner(x):
        y = 3 * x
        part = y[1:][:, 1:]
        y[0].fill_(2.0)
        y[1].mul_(5.0)
        return part

    x = lucid.arange(6.0).reshape(3, 2).requires_grad_()
    for f in (real_part, corner):
        compiled = lucid.compile(f)
        for _ in range(2):
            found, expected = compiled(x), f(x)
            np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
            ours, theirs = (lucid.autograd.grad((v * v).sum(), x) for v in (found, expected))
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_copies_of_what_comes_from_outside_are_copies():
    """Whether steps show the memory of their operand is asked inside, where a tensor from outside has a stand-in."""
    images = lucid.arange(16.0).reshape(1, 1, 4, 4).clone()
    for copied in (
        lambda x: x.repeat(1, 1, 1, 1),
        lambda x: lucid.tile(x, (2, 1, 1, 1)),
        lambda x: functional.pixel_shuffle(x, 1),
    ):

        def f(x, copied=copied):
            out = copied(x)
            out[...] = -1.0
            return out

        for x in (images.clone(), images.clone().requires_grad_()):
            np.testing.assert_array_equal(lucid.compile(f)(x).detach().numpy(), f(x).detach().numpy())
            np.testing.assert_array_equal(x.detach().numpy(), images.numpy())


@pytest.mark.parametrize(
    "loss", [functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss]
)
def test_losses_of_transposed_tensors(loss):
    x, y = lucid.arange(12.0).reshape(3, 4).T.requires_grad_(), lucid.arange(12.0).reshape(4, 3).sin()
    for a, b in ((x, y), (y, x), (x, x.detach())):
        for options in ({}, {"reduction": "sum"}):
            ours, theirs = (g(a, b, **options) for g in (lucid.compile(loss), loss))
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
            ours, theirs = (lucid.autograd.grad(v, x) for v in (ours, theirs))
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_a_function_that_sees_too_much_runs_as_it_is(monkeypatch):
    monkeypatch.setattr(places, "_MOST", 1000)
    rows = [(i, 2.0) for i in range(600)]
    compiled = lucid.compile(lambda x: x * rows[3][1])
    with pytest.warns(UserWarning, match=r"runs `<lambda>` as it is: it reaches more than 1,000 objects, .* of rows"):
        assert compiled(lucid.ones(1)).item() == 2
    rows[3] = (3, 5.0)
    assert compiled(lucid.ones(1)).item() == 5
    assert "2 calls ran as they are: it reaches more than 1,000 objects" in compiled.explain()
    with pytest.raises(RuntimeError, match="more than 1,000 objects"):
        compiled.program(lucid.ones(1))


def test_what_pytest_writes_into_asserts_is_not_looked_at():
    def checked(x):
        assert x.ndim == 1
        return x * 2

    compiled = lucid.compile(checked)
    assert compiled(lucid.ones(2)).tolist() == [2.0, 2.0]
    assert not any(
        "@" in str(guard.place) for group in compiled._known.values() for s in group for guard in s.reader.guards
    )


@pytest.mark.parametrize("name", ["attention", "normalization"])
def test_second_derivatives_of_fused_operations(name):
    """Two derivatives use what one application has kept, and units are of dimensions that do not lie side by side."""

    def value(x):
        if name == "attention":
            return functional.scaled_dot_product_attention(x, x, x, is_causal=True).pow(2).sum()
        return functional.batch_norm(x, None, None, training=True).pow(3).sum()

    def second(x):
        (slope,) = lucid.autograd.grad(value(x), [x], create_graph=True)
        return lucid.autograd.grad((slope * slope.detach().cos()).sum(), x)

    lucid.manual_seed(0)
    x = lucid.randn(4, 6, 8, dtype=lucid.float64, requires_grad=True)
    want, compiled = second(x), lucid.compile(second)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), want.numpy(), rtol=1e-9, atol=1e-10)
