"""Programs as machine code: the same numbers as instruction by instruction, whatever is fused, folded, viewed or repeated."""

import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from executables import assert_same, both, values

import lucid
from lucid import nn
from lucid.autograd import no_grad
from lucid.backends.cpu.generated import support
from lucid.codegen import compiled, pack
from lucid.codegen.folds import fold_plan
from lucid.compiler import link
from lucid.compiler.executable import Executable
from lucid.core.primitive import P
from lucid.func import grad, hessian, jvp, make_graph, vmap

needs_code = pytest.mark.skipif(not support.in_use, reason="needs generated code")
TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "complex64", "bool")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (17,), (64,), (5, 7), (3, 1, 9), (0, 4), (130, 33)], ids=str)
def test_chains_of_elements(dtype, shape):
    x, y = values(dtype, *shape), values(dtype, *shape, seed=1)

    def chain(x, y):
        total = x * y + x
        return total, total * total + 1, (x == y), lucid.where(x == y, total, y)

    want, got, _ = both(chain, x, y)
    assert_same(want, got)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2), (0, 2)], ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 70, 33), (1, 9, 1), (4, 3, 5000)], ids=str)
def test_folds_have_the_tree_of_reductions(dtype, dims, shape):
    x = values(dtype, *shape)

    def folds(x):
        y = x * 2 + 1
        return y.sum(dims), y.amax(dims), x.sum(dims, keepdim=True), y

    want, got, _ = both(folds, x)
    assert_same(want, got)


def test_folds_of_broadcast_operands():
    x, a = values("float32", 90, 100), values("float32", 100, seed=1)
    want, got, executable = both(lambda x, a: ((x * a + a).sum(), (x * a).sum(0), (x * a).sum(1)), x, a)
    assert_same(want, got)
    if executable.code is not None:
        assert not executable.code.calls


def test_views_are_read_and_assembled():
    x = values("float64", 6, 8)

    def views(x):
        y = x.exp()
        parts = [y[1:4, ::2], y.t()[2], y.flip(0), y.reshape(4, 12), y.t().reshape(12, 4), y.diagonal()]
        return [*[p * 2 for p in parts], lucid.cat([y, x]), lucid.stack([y[0], y[1]]), nn.functional.pad(y, (1, 2))]

    want, got, _ = both(views, x)
    assert_same(want, got)


def test_gradients_of_views():
    def loss(x):
        y = x.clone()
        y[1:3] = x[:2] * 2
        return (y[::2].sum() * y.t()[1].prod()) + lucid.cat([x, y]).square().sum()

    want, got, _ = both(grad(loss), values("float64", 5, 4))
    assert_same(want, got, exactly=False)


def test_operations_that_read_each_other_by_views_are_apart():
    x = values("complex64", 4)
    want, got, _ = both(lambda x: (x * 2).real.to(lucid.complex64) * (x * 2), x)
    assert_same(want, got)


@pytest.mark.parametrize(
    "labels", ["ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "i,j->ij", "bi,bi->b", "i,i->", "bij,j->bi"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64", "bfloat16"])
def test_contractions(labels, dtype):
    left, right = labels.split("->")[0].split(",")
    sizes = {"i": 9, "j": 12, "k": 17, "b": 3}
    x, y = [values(dtype, *[sizes[c] for c in part], seed=k) for k, part in enumerate((left, right))]
    want, got, _ = both(lambda x, y: lucid.einsum(labels, x, y), x, y)
    assert_same(want, got, exactly=dtype == "int64")


def rnn(carry, xs, w):
    def step(h, x):
        h = lucid.tanh(w @ h + x)
        return h, (h.sum(), (h > 0).to(lucid.int64))

    last, (sums, signs) = lucid.scan(step, carry, xs)
    return (last * sums[0]).sum() + sums.square().sum() + 0 * signs.sum()


@pytest.fixture
def recurrent():
    return values("float64", 3), values("float64", 9, 3, seed=1), values("float64", 3, 3, seed=2) * 0.1


def test_a_traced_scan_is_one_instruction(recurrent):
    program = make_graph(rnn)(*recurrent)
    assert [i.primitive.name for i in program.instructions].count("scan") == 1
    assert len(program) < 20
    np.testing.assert_allclose(program(*recurrent).item(), rnn(*recurrent).item(), rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_run_natively(recurrent, reverse):
    def run(carry, xs):
        return lucid.scan(lambda h, x: (h * x + 1, {"h": h, "y": h + x}), carry, xs, reverse=reverse)

    want, got, executable = both(run, recurrent[0], recurrent[1])
    assert_same(want, got)
    if executable.code is not None:
        assert not executable.code.calls and any(note.startswith("repeat") for note in executable.code.notes)


def test_scans_inside_of_scans():
    def run(carry, xs):
        def outer(c, x):
            inner, ys = lucid.scan(lambda a, b: (a * b, a + b), c, lucid.stack([x, x, x * 2, x, x]))
            return inner * 0.1, ys.sum()

        return lucid.scan(outer, carry, xs)

    want, got, _ = both(run, values("float64", 3), values("float64", 7, 3, seed=1))
    assert_same(want, got)


def test_derivatives_of_traced_scans(recurrent):
    first = grad(rnn, argnums=(0, 1, 2))
    assert_same(first(*recurrent), both(first, *recurrent)[1], exactly=False)
    second = grad(lambda *args: sum(g.sin().sum() for g in first(*args)), argnums=(0, 1, 2))
    assert_same(second(*recurrent), make_graph(second)(*recurrent)(*recurrent), exactly=False)
    bent = hessian(lambda c: rnn(c, *recurrent[1:]))
    assert_same([bent(recurrent[0])], [make_graph(bent)(recurrent[0])(recurrent[0])], exactly=False)
    push = lambda *args: jvp(lambda c: rnn(c, *args[1:]), (args[0],), (args[0],))
    assert_same(push(*recurrent), make_graph(push)(*recurrent)(*recurrent), exactly=False)
    batch = lucid.stack([recurrent[0], recurrent[0] * 2])
    each = lambda c: vmap(lambda c: rnn(c, *recurrent[1:]))(c)
    assert_same([each(batch)], [make_graph(each)(batch)(batch)], exactly=False)


@pytest.mark.parametrize("layer", ["attention", "layer_norm", "lstm", "conv"])
def test_derivatives_of_fused_operations_are_instructions(layer):
    """They are computed by the kernels, and have derivatives of their own."""
    f64 = lucid.float64
    if layer == "attention":
        args = [values("float64", 1, 2, 5, 4, seed=k) for k in range(3)]
        loss = lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v).square().sum()
    elif layer == "layer_norm":
        args = [values("float64", 4, 6), values("float64", 6, seed=1), values("float64", 6, seed=2)]
        loss = lambda x, w, b: nn.functional.layer_norm(x, (6,), w, b).square().sum()
    elif layer == "lstm":
        lucid.manual_seed(0)
        module = nn.LSTM(3, 4, dtype=f64)
        args = [values("float64", 5, 2, 3)]
        loss = lambda x: module(x)[0].square().sum()
    else:
        args = [values("float64", 2, 3, 6, 6), values("float64", 4, 3, 3, 3, seed=1), values("float64", 4, seed=2)]
        loss = lambda x, w, b: nn.functional.conv2d(x, w, b).square().sum()
    places = tuple(range(len(args)))
    first = grad(loss, argnums=places)
    program = make_graph(first)(*args)
    if support.in_use:
        assert any("_gradient_by_" in i.primitive.name for i in program.instructions)
    assert_same(first(*args), program(*args), exactly=False)
    assert_same(first(*args), both(first, *args)[1], exactly=False)
    again = lambda of: grad(lambda *a: sum(g.sin().sum() for g in of(*a)), argnums=places)
    assert_same(again(first)(*args), again(program)(*args), exactly=False)


def test_gradients_that_are_recorded_use_the_kernels():
    x = values("float64", 4, 6).requires_grad_()
    (g,) = lucid.autograd.grad(nn.functional.layer_norm(x, (6,)).square().sum(), [x], create_graph=True)
    (h,) = lucid.autograd.grad(g.sin().sum(), [x])
    step = 1e-6
    direction = values("float64", 4, 6, seed=3)

    def first(at):
        y = at.detach().requires_grad_()
        return lucid.autograd.grad(nn.functional.layer_norm(y, (6,)).square().sum(), y).sin().sum()

    change = (first(x + step * direction) - first(x - step * direction)) / (2 * step)
    np.testing.assert_allclose((h * direction).sum().item(), change.item(), rtol=1e-5, atol=1e-8)


def test_what_lies_apart_is_written_where_it_lies():
    base = lucid.zeros(4, 6)
    target = base.t()[1]  # every sixth element

    def write(x):
        target.copy_(x * 2)
        return x.sum()

    compiled = lucid.compile(write)
    compiled(lucid.arange(4.0))
    compiled(lucid.arange(4.0) + 1)
    assert base[:, 1].tolist() == [2.0, 4.0, 6.0, 8.0] and base[:, 0].tolist() == [0.0] * 4


def test_compiled_transforms_find_what_they_close_over():
    w = values("float64", 4, 4)
    f = lambda x: lucid.tanh(w @ x).sum()
    x = values("float64", 4, seed=1)
    for transform in (grad, hessian, lucid.func.value_and_grad, lucid.func.jacrev, lucid.func.jacfwd):
        compiled = lucid.compile(transform(f))
        for _ in range(2):
            want, got = transform(f)(x), compiled(x)
            pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
            for a, b in pairs:
                np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-14)
            w.mul_(1.5)


@needs_code
def test_one_program_in_many_threads():
    x = [values("float32", 300, seed=k) for k in range(8)]
    program = make_graph(lambda x: ((x * 2).exp().sum(), x.sin()))(x[0])
    executable = Executable(program)
    want = [executable.run([t], []) for t in x]
    got = [None] * 8

    def work(k):
        for _ in range(50):
            got[k] = executable.run([x[k]], [])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for w, g in zip(want, got, strict=True):
        assert_same(w, g)


@needs_code
def test_results_have_memory_of_their_own():
    x = values("float32", 5)
    _, (same, shown), executable = both(lambda x: (x, x[1:]), x)
    same.add_(1)
    shown.add_(1)
    assert x.tolist() == values("float32", 5).tolist()
    again = executable.run([x], [])
    assert again[0].tolist() == x.tolist()


@needs_code
def test_the_reference_backend_needs_no_code():
    from lucid.core import kernels

    kernels.use(kernels.REFERENCE)
    try:
        _, _, executable = both(lambda x: x * 2, values("float32", 3))
        assert executable.code is None
    finally:
        kernels.use("cpu")


@needs_code
@pytest.mark.parametrize("target", [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "complex64"])
def test_loops_of_programs_are_code_for_other_processors(target, dtype):
    """LLVM verifies and assembles them for ARM, and for processors without AVX."""
    from lucid.codegen.loops import module
    from lucid.codegen.machine import Compiler
    from lucid.compiler.emit import Emitter

    def f(x, y):
        z = x * y + x
        folds = [] if dtype == "complex64" else [z.sum(0), z.sum(1), z.amax()]
        rows = [(z * 2).softmax(1).exp()] if dtype in ("float32", "float64") else []
        return [z.t() + 1, z[:, ::2] * 2, *folds, *rows]

    emitter = Emitter(make_graph(f)(values(dtype, 9, 17), values(dtype, 17, seed=1)))
    emitter.make_steps()
    text = module([function for name, make in emitter.functions.values() for function in make(name)])
    assert Compiler(*target, "").object_code(text)


def test_old_values_of_what_is_written():
    p, q = lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0])

    @lucid.compile
    def step(x):
        before, part = p.clone(), q.clone()[1:] * 1
        with lucid.no_grad():
            p.add_(x)
        return before, part, p * 2

    for _ in range(2):
        old = p.tolist()
        before, part, after = step(lucid.ones(2))
        assert before.tolist() == old and p.tolist() == [v + 1 for v in old] and part.tolist() == [4.0]
        assert after.tolist() == [2 * v for v in p.tolist()]

    @lucid.compile
    def swap():
        old = p.clone()
        p.copy_(q)
        q.copy_(old)

    for _ in range(2):
        a, b = p.tolist(), q.tolist()
        swap()
        assert p.tolist() == b and q.tolist() == a


def loss_of(kind):
    """A loss of the rows of a matrix and some more operands, and these."""
    n = 70
    weight, bias, target = values("float32", n), values("float32", n, seed=1), values("float32", 33, n, seed=2)
    functional = nn.functional
    if kind == "softmax":
        return lambda x, t: (lucid.softmax(x * 2 + 1, -1).exp() * t).sum(), (target,)
    if kind == "log_softmax":
        return lambda x, t: (functional.log_softmax(x, 1) * t).mean(), (target,)
    if kind == "layer_norm":
        return lambda x, w, b, t: (functional.layer_norm(x, (n,), w, b) * t).sum(), (weight, bias, target)
    if kind == "rms_norm":
        return lambda x, w, t: (functional.rms_norm(x, (n,), w).tanh() * t).sum(), (weight, target)
    if kind == "norm, then softmax":
        return (
            lambda x, w, b, t: (lucid.softmax(functional.layer_norm(x, (n,), w, b), 1) * t).sum(),
            (weight, bias, target),
        )
    labels = lucid.arange(33) % n
    if kind == "cross_entropy, some ignored":
        labels[::4] = -100
    return lambda x, t: functional.cross_entropy(x.sin(), t), (labels,)


ROWS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "norm, then softmax", "cross_entropy")


@needs_code
@pytest.mark.parametrize("kind", [*ROWS, "cross_entropy, some ignored"])
def test_functions_of_rows_are_loops(kind):
    loss, others = loss_of(kind)
    x = values("float32", 33, 70, seed=3)
    wanted = tuple(k for k, v in enumerate((x, *others)) if v.dtype == lucid.float32)
    want, got, executable = both(lambda *args: (loss(*args), *grad(loss, argnums=wanted)(*args)), x, *others)
    assert_same(want, got)
    assert executable.code.calls == []
    assert any(note.startswith("rows") for note in executable.code.notes)


@needs_code
def test_rows_beyond_the_range_of_squares_are_left_to_kernels():
    """The run is given up before anything is written, and generators are where they were."""
    x, layer = values("float32", 20, 64), nn.LayerNorm(64)
    seen = lucid.zeros(20, 64)

    @lucid.compile
    def step(x):
        y = nn.functional.dropout(layer(x), 0.5)
        seen.add_(y)
        return y

    for scale in (1.0, 1e30, 1e-30, 1.0):
        lucid.manual_seed(3)
        before = seen.clone()
        with no_grad():
            want = nn.functional.dropout(layer(x * scale), 0.5)
        after = lucid.get_rng_state()
        lucid.manual_seed(3)
        got = step(x * scale)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        np.testing.assert_array_equal(seen.detach().numpy(), (before + want).detach().numpy())
        assert lucid.equal(lucid.get_rng_state(), after)


@needs_code
def test_targets_that_are_no_classes_are_errors_and_nothing_is_written():
    total = lucid.zeros(())

    @lucid.compile
    def step(x, target):
        loss = nn.functional.cross_entropy(x, target)
        total.add_(loss)
        return loss

    x = values("float32", 8, 10)
    step(x, lucid.arange(8))
    before = total.item()
    with pytest.raises(IndexError, match="target 10 is out of range for 10 classes"):
        step(x, lucid.arange(3, 11))
    assert total.item() == before


@pytest.mark.parametrize("shape", [(5000,), (3, 5), (40, 1)])
def test_a_reduction_of_a_reduction_is_a_step_of_its_own(shape):
    def f(x):
        total = (x * 2).sum(dim=tuple(range(len(shape))), keepdim=True)
        return total.sum(), total.amax(dim=0), total + 1

    x = lucid.randn(*shape)
    for found, expected in zip(lucid.compile(f)(x), f(x), strict=True):
        assert np.array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:])
@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
def test_reductions_of_permuted_tensors_fold_as_their_kernels_do(order, dtype):
    lucid.manual_seed(0)
    x = lucid.randn(40, 50, 60, dtype=dtype)
    strides = np.empty(x.shape)[...].transpose(order).strides
    for n in range(1, 4):
        for dims in itertools.combinations(range(3), n):
            lie = sorted(range(3), key=lambda d: -strides[d])
            places = [lie.index(d) for d in dims]
            if max(places) - min(places) >= n:
                continue  # other dimensions lie between those that are folded
            for keepdim in (False, True):

                def f(x, dims=dims, keepdim=keepdim):
                    x = x.permute(order)
                    return x.sum(dims, keepdim), (x * 2).exp().sum(dims, keepdim), x.mean(dims, keepdim)

                def g(x, dims=dims, keepdim=keepdim):
                    both = lucid.cat([x, x * 2])
                    return x.sum(dims, keepdim), (x * 2).exp().sum(dims, keepdim), both.mean(dims, keepdim)

                for function, given in ((f, x), (g, x.permute(order))):
                    for found, expected in zip(lucid.compile(function)(given), function(given), strict=True):
                        assert found.shape == expected.shape
                        assert np.array_equal(found.numpy(), expected.numpy())


def test_the_derivative_of_a_reduction_of_a_permuted_tensor():
    x = lucid.randn(3, 4, 5, dtype=lucid.float64).requires_grad_()
    f = lucid.compile(lambda x: (x.permute(2, 0, 1).sum((0, 1), keepdim=True) ** 2).sum() + x.permute(2, 0, 1).prod())
    assert lucid.autograd.gradcheck(f, [x])
    assert lucid.autograd.gradgradcheck(f, [x])
    assert np.allclose(vmap(f)(x[None]).detach().numpy(), [f(x).item()])


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.bfloat16, lucid.int64, lucid.bool, lucid.complex64])
@pytest.mark.parametrize("shape", [(5, 7), (1, 300), (4, 0), (2, 3, 70)])
def test_flips_and_rolls_are_copies(shape, dtype):
    def f(x):
        return (
            x.flip(0),
            x.flip(0, 1),
            x.t().flip(1) if x.ndim == 2 else x,
            x.roll(2),
            x.roll((3, -9, 1), (1, 0, 1)),
            x.roll(0, 0),
        )

    x = (lucid.randn(*shape) * 10).to(dtype)
    compiled = lucid.compile(f)
    for given in (x, x.flip(0)):
        for found, expected in zip(compiled(given), f(given), strict=True):
            assert found.dtype == expected.dtype
            assert np.array_equal(found.to(lucid.complex128).numpy(), expected.to(lucid.complex128).numpy())
    assert not support.in_use or "call" not in compiled.code(x)


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2), (0, 2, 1)])
def test_values_of_a_trace_lie_in_memory_as_those_of_kernels(order):
    functions = [
        lambda x: x * 2,
        lambda x: x.cumsum(0),
        lambda x: x.cumprod(1),
        lambda x: x.logcumsumexp(2),
        lambda x: x.flip(0),
        lambda x: x.roll(1, 0),
        lambda x: x.double(),
        lambda x: lucid.cat([x, x], 1),
        lambda x: lucid.stack([x, x], 1),
        lambda x: x.softmax(0),
        lambda x: x.sum(1),
    ]
    x = lucid.randn(3, 4, 5).permute(order)
    for f in functions:
        seen = []

        def g(x, f=f, seen=seen):
            y = f(x)
            seen.append(y._array._array.strides)  # of the placeholder
            return y

        lucid.compile(g)(x)
        assert seen[0] == f(x)._array.strides


def _programs_compiled():
    return {key for key in compiled.made if key[0] == "program"}


@needs_code
def test_one_code_for_all_lengths_of_whole_vectors():
    def step(x, y):
        z = (x * y).tanh()
        return z, z.sum(0), (z * x).sum(), z.amax(1), z.softmax(1)

    before = None
    for rows in (128, 96, 320, 4096, 8192):  # of at least one block
        want, got, _ = both(step, values("float32", rows, 48), values("float32", rows, 48, seed=1))
        assert_same(want, got)
        assert before is None or _programs_compiled() == before
        before = _programs_compiled()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_folds_of_other_lengths_by_the_same_code(dtype):
    lengths = (1, 2, 3, 15, 16, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8192, 12_289)
    for length in (*lengths, *lengths[::-1]):
        x = values(dtype, length)
        assert_same(*both(lambda x: ((x + x).sum(0), x.amax(0), (x + 1).amin(0)), x)[:2])
        rows = values(dtype, length, 5)
        assert_same(*both(lambda x: ((x + x).sum(0), (x + 1).sum(), x.sum((0, 1))), rows)[:2])


@needs_code
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_reductions_of_dimensions_that_do_not_go_on_from_each_other(dtype):
    x, y = values(dtype, 9, 70, 5, 6), values(dtype, 3, 5000)
    views = {
        "as it is": lambda x: x,
        "cut": lambda x: x[:, 1:, :3],
        "in steps": lambda x: x[::2, ::3, :, ::2],
        "permuted": lambda x: x.permute(2, 0, 3, 1)[:, 1:],
        "expanded": lambda x: x[:, :, :1].expand(9, 70, 5, 6),
        "flipped": lambda x: x.flip(1)[:, :-1],
    }
    for shown in views.values():
        for dims in [d for n in range(1, 5) for d in itertools.combinations(range(4), n)]:

            def f(x, shown=shown, dims=dims):
                z = shown(x)
                return z.sum(dims), z.amax(dims, keepdim=True), (z + z).sum(dims), (shown(x + x) * 2).sum(dims)

            step = lucid.compile(f)
            assert_same(f(x), step(x))
            assert "call" not in step.code(x)
    step = lucid.compile(lambda y: (y[:, :4999].sum(), (y.T[:4998] * 2).sum()))
    assert_same((y[:, :4999].sum(), (y.T[:4998] * 2).sum()), step(y))


@needs_code
def test_the_derivative_of_a_reduction_in_parts():
    x = values("float64", 3, 4, 5).requires_grad_()
    f = lucid.compile(lambda x: (x.sum((0, 2)) ** 2).sum() + (x[:, 1:, ::2].sum((0, 2), keepdim=True) ** 3).mean())
    assert lucid.autograd.gradcheck(f, [x]) and lucid.autograd.gradgradcheck(f, [x])
    np.testing.assert_allclose(vmap(f)(lucid.stack([x, 2 * x])).numpy(), [f(x).item(), f(2 * x).item()])


@needs_code
def test_a_second_process_finds_all_programs_in_the_cache(tmp_path):
    # The second program has operations of the first one, for vectors of another length.
    program = """
import lucid
from lucid.codegen import compiled
for n in (3, 4, 1000, 8):
    f = lucid.compile(lambda x: ((x * 2 + x).exp() + x).sum())
    f(lucid.ones(n))
print(*[code.origin for (kind, *_), code in compiled.made.items() if kind == "program"], sep=",")
"""
    environment = {**os.environ, "LUCID_CACHE": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    first, second = [run.stdout.strip().split(",") for run in found]
    assert set(first) == {"LLVM"} and second == ["the cache"] * len(first)


def test_names_of_programs_in_the_cache_change_with_every_file_of_the_compiler(monkeypatch):
    texts = []
    monkeypatch.setattr(link, "code_of", lambda recipe: texts.append(recipe.text) or compiled.code_of(recipe))
    for sources in ({}, {link._FOLDER: "others"}):
        monkeypatch.setattr(pack, "_sources", {**pack._sources, **sources})
        monkeypatch.setattr(link, "_known", {})
        assert lucid.compile(lambda x: x.sin() * 3.25)(lucid.zeros(8)).sum() == 0
    assert texts[0].partition("written by ")[0] == texts[1].partition("written by ")[0] and texts[0] != texts[1]


@pytest.mark.parametrize("rows", [1, 3])
def test_losses_of_one_class(rows):
    scores, target = lucid.randn(rows, 1), lucid.zeros(rows, dtype=lucid.int64)
    for reduction in ("mean", "none"):
        compiled = lucid.compile(lambda s, how=reduction: lucid.nn.functional.cross_entropy(s, target, reduction=how))
        assert (compiled(scores) == 0).all()


def test_a_number_is_flipped_and_rolled():
    x = values("float64")
    want, got, _ = both(lambda x: (x.flip(()) * 2, x.exp().flip(()), x.roll(3), grad(lambda x: x.flip(()))(x)), x)
    assert_same(want, got)


@needs_code
def test_programs_call_the_loops_of_reductions_that_the_pack_has():
    x = values("float32", 40, 50)
    plan = fold_plan(P.sum.fold, x.np_dtype, x.np_dtype)
    if compiled.packed_fold(plan) is None:
        pytest.skip("there is no pack of these sources")
    before = set(compiled.made)
    want, got, _ = both(lambda x: ((x * 1.25).sum(), (x * 2.5).sum(0), (x * 1.5).sum(1), (x * 3.5).argmax(1)), x)
    assert_same(want, got)
    texts = [compiled.made[key].text() for key in set(compiled.made) - before if key[0] == "program"]
    assert len(texts) == 1 and "_0_merge_columns" not in texts[0]


def test_groups_wait_for_all_that_they_need():
    """What loops wait for is kept up while they are joined, and is what follows from their operands in the end."""
    from lucid.compiler.emit import Emitter

    model = lucid.nn.Sequential(
        lucid.nn.Linear(6, 8), lucid.nn.GELU(), lucid.nn.LayerNorm(8), lucid.nn.Linear(8, 8), lucid.nn.Softmax(1)
    )
    weights = dict(model.named_parameters())

    def loss(weights, x):
        y = lucid.func.functional_call(model, weights, (x,))
        z = y * x.sum(1, keepdim=True) + y.amax(1, keepdim=True) * y
        return (z.cumsum(0) * y).sum() + (z[1:] - y[:-1]).exp().mean()

    def step(weights, x):
        gradients = lucid.func.grad(loss)(weights, x)
        return {
            name: w - 0.1 * g / (g.abs().sqrt() + w.square().sum())
            for (name, w), g in zip(weights.items(), gradients.values())
        }

    fused = Emitter(make_graph(step)(weights, lucid.randn(5, 6))).fused
    assert len(fused.groups) > 10
    assert any(len(g.instructions) > 5 for g in fused.groups)
    for group in fused.groups:
        needed = {g.number: g for i in (*group.instructions, *group.folds) for g in fused._needs(i) if g is not group}
        needed |= {g.number: g for g in group.waits}
        expected = 0
        for other in needed.values():
            expected |= other.bits | other.before
        assert group.before == expected
        assert not group.before & group.bits
