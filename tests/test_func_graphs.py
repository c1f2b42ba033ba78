"""make_graph: what programs print, and that they do on other values what their function does."""

import dataclasses
import re
import textwrap
from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.func import Program, cond, grad, hessian, jacfwd, jacrev, jvp, make_graph, value_and_grad, vjp, vmap

A = np.array([0.5, -1.2, 2.0])
B = np.array([1.5, 0.3, -0.7])
V = np.array([1.0, 2.0, -0.5])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    weight: Any
    bias: Any = None


# The printed form.


def test_a_small_program_prints():
    def affine(x, w):
        return (x * w).sin() + 1.0

    program = make_graph(affine)(lucid.ones(2, 3), lucid.ones(3))
    assert str(program) == textwrap.dedent("""\
        affine(a: float32[2, 3], b: float32[3]):
          c: float32[2, 3] = mul a b
          d: float32[2, 3] = sin c
          e: float32[2, 3] = add d 1.0
          return e""")
    assert repr(program) == "<Program affine: 3 instructions>" and len(program) == 3


def test_a_program_with_captures_constants_and_parameters_prints():
    outside = lucid.tensor([1.0, 2.0])

    def f(x):
        scaled = x.sum(0, keepdim=True) * lucid.tensor([3.0, 4.0])
        return {"scaled": scaled, "more": [x[1] + outside, scaled > 0, 5, None]}

    program = make_graph(f)(lucid.ones(2, 2))
    assert str(program) == textwrap.dedent("""\
        f(a: float32[2, 2]):
          b: float32[2] = captured
          c: float32[2] = constant [3.0, 4.0]
          d: float32[1, 2] = sum a [dims=(0) keepdim=True]
          e: float32[1, 2] = mul d c
          f: float32[2] = slice a [index=(1)]
          g: float32[2] = add f b
          h: bool[1, 2] = gt e 0
          return g, h, 5, e""")


def test_every_line_is_typed_and_names_are_in_order():
    program = make_graph(hessian(lambda x: (x.sin() * x[0]).sum()))(t(A))
    lines = str(program).splitlines()
    assert len(lines) == 2 + len(program.captured) + len(program.constants) + len(program)
    typed = re.compile(r"  ([a-z]+: \w+\[[\d, ]*\](, )?)+ = \w+.*")
    assert all(typed.fullmatch(line) for line in lines[1:-1])
    numbers = [n.number for i in program.instructions for n in i.results]
    assert sorted(numbers) == numbers


def test_many_names():
    def f(x):
        for _ in range(60):
            x = x + 1
        return x

    lines = str(make_graph(f)(t(A))).splitlines()
    assert lines[26].strip().startswith("aa: float64[3] = add z 1") and lines[-1].strip() == "return bi"


def test_names_of_functions():
    assert str(make_graph(lambda x: x)(t(A))).startswith("<lambda>(a: float64[3])")
    assert make_graph(grad(lambda x: x.sum())).__name__ == "<lambda>"


# Running on other values.


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class NumpyCube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return lucid.tensor(x.numpy() ** 3)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def in_place(x):
    y = x.clone()
    y.mul_(x).add_(1.0)
    y[0] = x[2] ** 2
    y[1:] *= 3.0
    y.sin_()
    return y


def views(x):
    y = lucid.zeros(2, 3, dtype=lucid.float64)
    row, flipped, flat = y[0], y.t(), y.view(6)
    row.copy_(x)
    flipped[1] += x[:2]
    flat[5] = x.prod()
    tail = row[1:]
    tail.mul_(2.0)
    return y.sum(1), row * 1, flipped @ x[:2], flat.sin(), tail + 0


def writes_masks(x):
    y = x.clone()
    y[y > 0] = 0.5
    y[[0, 2]] += x[1:]
    y.index_add_(0, lucid.tensor([1, 1]), x[:2])
    return y


def writes_the_argument(x):
    x.mul_(2.0)
    x[0] = 7.0
    return x + 1


def backward_inside(x):
    leaf = x.detach().clone().requires_grad_()
    (leaf**3).sum().backward()
    (leaf.sin()).sum().backward()
    return leaf.grad


def backward_to_the_argument(x):
    x = x.clone().requires_grad_()
    y = (x**3).sum()
    return autograd.grad(y, x, create_graph=True) * x


def hooks_inside(x):
    y = x.clone().requires_grad_()
    z = y**2
    z.register_hook(lambda g: g * 3)
    z.sum().backward()
    return y.grad


def control_inside(x):
    return cond(x.sum() > 1, lambda y: y * 2, lambda y: y.exp(), x)


def several_things(x):
    values, order = x.sort()
    a, b = x.split([1, 2])
    return {"values": values * x[order], "parts": (a, b.sum(), None), "pair": Pair(x.argmax(), x > 0)}


FUNCTIONS = {
    "elementwise": lambda x: (x.sin() * 2 + 1) / (x * x + 1),
    "reductions": lambda x: (x.sum(), x.mean(), x.max(), x.logsumexp(0), x.cumsum(0)),
    "contractions": lambda x: lucid.einsum("i,j,k->ij", x, x, x) @ x,
    "indexing": lambda x: (x[1:], x[[0, 2]], x[x.argmax()], x[::2] * x[-1]),
    "where": lambda x: lucid.where(x > 0, x, x**2),
    "shapes": lambda x: x.reshape(3, 1).expand(3, 4).permute(1, 0).flatten()[:5],
    "in place": in_place,
    "views": views,
    "masks": writes_masks,
    "the argument": writes_the_argument,
    "backward": backward_inside,
    "autograd.grad": backward_to_the_argument,
    "hooks": hooks_inside,
    "grad": grad(lambda x: (x**3).sum()),
    "value_and_grad": value_and_grad(lambda x: (x.sin() * x).sum()),
    "vmap": vmap(lambda e: e**2 + e.sin()),
    "jvp": lambda x: jvp(lambda y: y**3, (x,), (x * 2,)),
    "vjp": lambda x: vjp(lambda y: y**3, x)[1](x),
    "hessian": hessian(lambda x: (x**3).sum() * x[0]),
    "jacrev": jacrev(lambda x: x**2 * x[0]),
    "jacfwd": jacfwd(lambda x: x**2 * x[0]),
    "vmap(grad)": lambda x: vmap(grad(lambda e: e**3))(x),
    "grad(in place)": grad(lambda x: in_place(x).sum()),
    "grad(views)": grad(lambda x: sum(o.sum() for o in views(x))),
    "vmap(in place)": lambda x: vmap(in_place)(lucid.stack([x, x * 2])),
    "jvp(in place)": lambda x: jvp(in_place, (x,), (x,))[1],
    "Function": lambda x: Cube.apply(x) * x,
    "grad(Function)": grad(lambda x: (Cube.apply(x) * x).sum()),
    "NumPy": lambda x: NumpyCube.apply(x) * x,
    "grad(NumPy)": grad(lambda x: (NumpyCube.apply(x) * x).sum()),
    "checkpoint": grad(lambda x: autograd.checkpoint(lambda y: (y.sin() * y).sum(), x)),
    "control": control_inside,
    "several": several_things,
    "complex": lambda x: (x * 1j).exp().real + (x * 2j).imag,
    "make_graph": lambda x: make_graph(lambda y: y**2 + x)(x)(x * 3),
    "types": lambda x: (x.float(), x.to(lucid.int64), x > 0, x.to(lucid.complex128)),
    "unused": lambda x: lucid.ones(2),
    "identity": lambda x: x,
    "numbers": lambda x: (x, 3, "text", None),
}


def compare(got, want):
    got, want = lucid.core.tree.flatten(got), lucid.core.tree.flatten(want)
    assert got[1] == want[1]
    for g, w in zip(got[0], want[0], strict=True):
        if isinstance(w, lucid.Tensor):
            assert type(g) is lucid.Tensor and g.dtype == w.dtype
            close(g, w.detach().numpy())
        else:
            assert g == w


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_values(name):
    f = FUNCTIONS[name]
    program = make_graph(f)(t(A))
    for values in (A, B, V * 2, -A):
        compare(program(t(values)), f(t(values)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_stay_as_they_are(name):
    x, y = t(A), t(B)
    program = make_graph(FUNCTIONS[name])(x)
    close(x, A)
    assert type(x) is lucid.Tensor and x.grad is None and not x.requires_grad
    program(y)
    close(y, B)


DIFFERENTIABLE = [
    n for n in FUNCTIONS if n not in ("the argument", "backward", "hooks", "several", "types", "unused", "numbers")
]


def total(result):
    return sum((o.real if o.is_complex() else o).sum() for o in lucid.core.tree.flatten(result)[0])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_programs_under_transforms(name):
    f = FUNCTIONS[name]
    program = make_graph(f)(t(A))
    g = lambda x: total(f(x))
    h = lambda x: total(program(x))
    close(grad(h)(t(B)), grad(g)(t(B)).numpy())
    close(jvp(h, (t(B),), (t(V),))[1], jvp(g, (t(B),), (t(V),))[1].numpy())
    close(jacrev(h)(t(B)), jacfwd(g)(t(B)).numpy())
    if name != "make_graph":
        rows = np.stack([A, B, V])
        close(vmap(h)(t(rows)), [g(t(r)).item() for r in rows])
        close(vmap(grad(h))(t(rows)), np.stack([grad(g)(t(r)).numpy() for r in rows]))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_programs_of_programs(name):
    program = make_graph(FUNCTIONS[name])(t(A))
    again = make_graph(program)(t(V))
    compare(again(t(B)), program(t(B)))


# Structures, captures, constants.


def test_nests_of_arguments_and_results():
    def f(d, pair, *, scale, record):
        return {"y": d["a"] * pair.first + scale, "r": Record(record.weight * pair.second[0])}

    args = ({"a": t(A)}, Pair(t(B), [t(V)]))
    program = make_graph(f)(*args, scale=t(2.0), record=Record(t(A)))
    got = program({"a": t(V)}, Pair(t(A), [t(B)]), scale=t(3.0), record=Record(t(V)))
    close(got["y"], V * A + 3.0)
    assert type(got["r"]) is Record and got["r"].bias is None
    close(got["r"].weight, V * B)


def test_static_arguments():
    program = make_graph(lambda x, n, flag=True: x**n if flag else x)(t(A), 3, flag=True)
    close(program(t(B), 3, flag=True), B**3)
    with pytest.raises(ValueError, match="traced for the argument 3, but called with 4"):
        program(t(B), 4, flag=True)
    with pytest.raises(ValueError, match=r"True.*False"):
        program(t(B), 3, flag=False)


def test_arrays_as_arguments():
    program = make_graph(lambda x: x * 2)(A)
    close(program(B), 2 * B)
    close(program(t(B)), 2 * B)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            lambda: (lucid.ones(2, dtype=lucid.float64),),
            r"f: input a was traced with float64\[3\], but is now float64\[2\]",
        ),
        (lambda: (lucid.ones(3),), r"float64\[3\].*float32\[3\]"),
        (lambda: (lucid.ones(3, 1, dtype=lucid.float64),), r"float64\[3, 1\]"),
        (lambda: ([t(A)],), r"f: traced for arguments .*but called with"),
        (lambda: (t(A), t(A)), r"f: traced for arguments"),
        (lambda: (), "f: traced for arguments"),
    ],
    ids=["shape", "dtype", "dimensions", "structure", "too many", "too few"],
)
def test_arguments_that_do_not_fit(args, words):
    def f(x):
        return x * 2

    program = make_graph(f)(t(A))
    with pytest.raises(ValueError, match="(?s)" + words):
        program(*args())


def test_dead_code_is_dropped():
    def f(x):
        x.sin().exp().sum()
        unused = x @ x
        unused += 1
        y = x * 2
        lucid.zeros(3).add_(1)
        return y

    program = make_graph(f)(t(A))
    assert [i.primitive.name for i in program.instructions] == ["mul"]
    assert not program.constants and not program.captured


def test_dead_results_of_gradients_are_dropped():
    """The gradient of a sum needs no sum."""
    names = [i.primitive.name for i in make_graph(grad(lambda x: (x * 2).sum()))(t(A)).instructions]
    assert "sum" not in names


def test_captured_tensors_are_read_anew():
    w = t(B)
    program = make_graph(lambda x: x * w)(t(A))
    w.mul_(10.0)
    close(program(t(A)), A * B * 10)
    assert len(program.captured) == 1 and program.captured[0][1] is w


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_computed_from_captured_tensors_alone_is_read_anew(requires_grad):
    w = t(B, requires_grad=requires_grad)
    program = make_graph(lambda x: x * (w * 2).exp())(t(A))
    with lucid.no_grad():
        w.mul_(0.5)
    close(program(t(A)), A * np.exp(B))


def test_captured_tensors_get_gradients():
    w = t(B, requires_grad=True)
    program = make_graph(lambda x: (x * w**2).sum())(t(A))
    program(t(A)).backward()
    close(w.grad, 2 * A * B)
    w.grad = None
    program(t(V)).backward()
    close(w.grad, 2 * V * B)
    w.grad = None
    vmap(program)(t(np.stack([A, V]))).sum().backward()
    close(w.grad, 2 * (A + V) * B)


def test_captured_tensors_of_programs_of_gradients():
    w = t(B, requires_grad=True)
    program = make_graph(grad(lambda x: (x**2 * w).sum()))(t(A))
    program(t(V)).sum().backward()
    close(w.grad, 2 * V)


def test_constants_stay():
    def f(x):
        c = lucid.arange(3, dtype=lucid.float64)
        return x * c

    program = make_graph(f)(t(A))
    close(program(t(B)), B * [0, 1, 2])
    assert len(program.constants) == 1 and not program.captured


def test_constants_written_after_use():
    def f(x):
        c = lucid.ones(3, dtype=lucid.float64)
        y = x * c
        c.mul_(5.0)
        return y + x * c

    program = make_graph(f)(t(A))
    close(program(t(B)), 6 * B)
    close(program(t(B)), 6 * B)


def test_results_do_not_share_memory_with_the_program():
    program = make_graph(lambda x: (x, x * 1, lucid.ones(2)))(t(A))
    x = t(B)
    _, two, three = program(x)
    two.mul_(0.0)
    three.mul_(0.0)
    again = program(x)
    close(again[1], B)
    close(again[2], np.ones(2))


def test_requires_grad_of_arguments_when_tracing():
    """A program traced for leaves runs on plain tensors and the other way round."""
    program = make_graph(lambda x: (x**2).sum())(t(A, requires_grad=True))
    close(program(t(B)), (B**2).sum())
    x = t(B, requires_grad=True)
    make_graph(lambda x: (x**2).sum())(t(A))(x).backward()
    close(x.grad, 2 * B)


# Refusals.


@pytest.mark.parametrize(
    "f", [lambda x: x if x.sum() > 0 else -x, lambda x: x * float(x.sum()), lambda x: lucid.tensor(x.numpy()), lambda x: x.tolist()],
    ids=["if", "float", "numpy", "tolist"],
)  # fmt: skip
def test_values_are_not_known(f):
    with pytest.raises(
        RuntimeError, match=r"(?s)needs a concrete value.*test_func_graphs\.py:\d+.*make_graph.*lucid.cond"
    ):
        make_graph(f)(t(A))


def test_gradients_of_leaves_from_outside_are_refused():
    w = t(B, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"make_graph.*grad"):
        make_graph(lambda x: (x * w).sum().backward())(t(A))
    assert w.grad is None


def test_a_detached_tensor_sees_writes_to_the_memory_that_it_shares():
    def f(x):
        y = x * 1
        d = y.detach()
        y.mul_(2.0)
        return (d + 1) * x

    program = make_graph(f)(t(A))
    close(program(t(B)), (2 * B + 1) * B)
    close(grad(lambda x: program(x).sum())(t(B)), 2 * B + 1)


def test_writes_to_a_detached_tensor_change_values_and_no_history():
    def f(x):
        y = x * 2
        y.detach().mul_(3.0)
        with lucid.no_grad():
            y.mul_(5.0)
        return (y * y).sum()

    program = make_graph(f)(t(A))
    close(program(t(B)), ((30 * B) ** 2).sum())
    close(grad(program)(t(B)), grad(f)(t(B)))
    close(make_graph(grad(f))(t(A))(t(B)), grad(f)(t(B)))
    close(grad(f)(t(B)), 2 * 30 * B * 2)


# Cuts.


def test_detach_in_a_program():
    f = lambda x: (x.detach() * x).sum()
    program = make_graph(f)(t(A))
    close(grad(program)(t(B)), grad(f)(t(B)).numpy())
    close(jvp(program, (t(B),), (t(V),))[1], (B * V).sum())


def test_no_grad_in_a_program():
    def f(x):
        with lucid.no_grad():
            c = x**2
        return (c * x).sum()

    close(grad(make_graph(f)(t(A)))(t(B)), B**2)


# Programs of traced things.


def test_tracing_inside_a_trace():
    def f(x):
        inner = make_graph(lambda y: y * x + 1)(x)
        return inner(x * 2).sum()

    program = make_graph(f)(t(A))
    close(program(t(B)), (2 * B * B + 1).sum())
    close(grad(program)(t(B)), 4 * B)
    assert isinstance(program, Program)


def test_tracing_inside_transforms():
    f = lambda x: make_graph(lambda y: (y**3).sum())(x)(x * 2)
    close(grad(f)(t(A)), 24 * A**2)
    close(jvp(f, (t(A),), (t(V),))[1], (24 * A**2 * V).sum())
    close(vmap(f)(t(np.stack([A, B]))), [(8 * A**3).sum(), (8 * B**3).sum()])


def test_a_training_step():
    """Two steps of gradient descent with backward inside, traced once and run on other batches."""
    rng = np.random.default_rng(0)
    xs, ys = rng.standard_normal((3, 8, 4)), rng.standard_normal((3, 8))

    def step(w, x, y):
        w = w.detach().clone().requires_grad_()
        for _ in range(2):
            loss = ((x @ w - y) ** 2).mean()
            g = autograd.grad(loss, w)
            with lucid.no_grad():
                w -= 0.1 * g
        return w.detach(), loss.detach()

    w = rng.standard_normal(4)
    program = make_graph(step)(t(w), t(xs[0]), t(ys[0]))
    for x, y in zip(xs, ys, strict=True):
        got, loss = program(t(w), t(x), t(y))
        want = w.copy()
        for _ in range(2):
            r = x @ want - y
            expected_loss = (r**2).mean()
            want = want - 0.1 * 2 * x.T @ r / 8
        close(got, want)
        close(loss, expected_loss)


def test_values_in_another_order_in_memory():
    """What is a view when the program is traced may not be one of the values that it runs on."""

    def f(x):
        y = x * 1
        y.view(6)[5] = 0.0
        return y

    x = np.arange(6.0).reshape(3, 2)
    close(make_graph(f)(lucid.ones(2, 3, dtype=lucid.float64))(t(x).t()), [[0.0, 2.0, 4.0], [1.0, 3.0, 0.0]])


def test_arguments_keep_their_order_in_memory():
    """Whether `reshape`, `ravel` and `contiguous` give views depends on it."""

    def f(x):
        flat, y = x.reshape(-1), x.contiguous()
        y.mul_(2)
        flat.add_(1)
        return x + y, flat

    whole = t(np.arange(12.0).reshape(3, 4))
    for x in (whole, whole.t(), whole[:, :2], whole[::2], whole[1:]):
        for got, want in zip(make_graph(f)(x)(x), f(x), strict=True):
            close(got, want)
