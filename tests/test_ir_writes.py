"""Writes to tensors from outside in programs: they happen at the end of each run, as the function itself would do them."""

import copy

import numpy as np
import pytest

import lucid
from lucid import autograd, nn
from lucid.func import grad, jvp, make_graph, vmap
from lucid.kinds.kind import NeedsValueError
from lucid.optim import SGD

X, Y = lucid.tensor([0.5, 1.5, -1.0]), lucid.tensor([2.0, 0.25, 0.75])


class State:
    """Tensors from outside of a function."""

    def __init__(self):
        self.p = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
        self.b = lucid.tensor([4.0, 5.0, 6.0])
        self.m = lucid.arange(6.0).reshape(2, 3).clone()
        self.row = self.m[1]
        self.count = lucid.tensor(0)

    def values(self):
        return {name: t.tolist() for name, t in vars(self).items()}

    def histories(self):
        return {name: (t.requires_grad, t.is_leaf) for name, t in vars(self).items()}


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def descent(s, x):
    g = autograd.grad((s.p * x).sin().sum(), s.p)
    with lucid.no_grad():
        s.p -= 0.1 * g
    return s.p * x


def average(s, x):
    s.b.mul_(0.9).add_(x * 0.1)
    return s.b * 2


def through_views(s, x):
    s.m[0].add_(x)
    s.m.t()[1] = 7.0
    return s.m.sum(0) * x


def views_made_before(s, x):
    v, d = s.m[1], s.b.detach()
    s.m.mul_(2)
    s.b.copy_(x * x)
    return v * x + d


def a_view_from_outside(s, x):
    s.row.add_(x)
    first = s.m.sum(0) * x
    s.m.mul_(2)
    return first + s.row


def read_before(s, x):
    y = s.row * x + s.m[0]
    s.m.add_(1)
    return y + s.row


def elements(s, x):
    s.b[1] = x[0] * 2
    s.b[lucid.tensor([0, 2])] = x[1:]
    return s.b.exp()


def swap(s, x):
    old = s.b.clone()
    s.b.copy_(s.m[0])
    s.m[0] = old
    return x * 1


def swap_of_views(s, x):
    old = s.m.flip(0).clone()
    s.b.copy_(s.m[0])
    s.m.copy_(old)
    return x * s.b


def data(s, x):
    s.p.data.copy_(x)
    s.p.data.mul_(2)
    return s.p * x


def with_history(s, x):
    s.b.add_(x * x)
    return s.b * x * s.b


def with_history_and_without(s, x):
    s.b.mul_(x)
    with lucid.no_grad():
        s.b.mul_(3)
    return s.b * x


def fills(s, x):
    s.b.normal_()
    s.m.zero_()
    s.count.add_(1)
    return s.b * x


def initial_values(s, x):
    nn.init.xavier_normal_(s.m)
    nn.init.uniform_(s.p)
    return s.m.sum(0) * x + s.p


def of_a_parameter(s, x):
    s.b.add_(s.p)
    return s.b * x


def custom_functions(s, x):
    s.b.mul_(0.5).add_(x)
    return Cube.apply(s.b * x) + Cube.apply(s.b)


def gradients_inside(s, x):
    s.b.mul_(2)
    s.b.add_(grad(lambda v: (v**3 * s.b).sum())(x).detach())
    return s.b * x


def batches_inside(s, x):
    s.b.mul_(2)
    return vmap(lambda e: (e * s.b).sum())(x.reshape(3, 1).expand(3, 3)) * x


def a_program_inside(s, x):
    make_graph(lambda y: s.b.add_(y))(x)(x * 2)
    return s.b * x


WRITES = [
    descent, average, through_views, views_made_before, a_view_from_outside, read_before, elements, swap, swap_of_views,
    data, with_history, with_history_and_without, fills, initial_values, of_a_parameter, custom_functions,
    gradients_inside, batches_inside, a_program_inside,
]  # fmt: skip
by_name = pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)


def result(f, x):
    lucid.manual_seed(0)
    try:
        return f(x).detach()
    except RuntimeError:
        return None


def same(a, b):
    return (a is None) == (b is None) and (a is None or np.allclose(a, b, rtol=1e-5, atol=1e-6))


@by_name
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
def test_a_run_writes_as_the_function_does(f, recorded):
    there, here = State(), State()
    before = here.values()
    program = make_graph(lambda x: f(here, x))(X)
    assert here.values() == before and here.histories() == State().histories()  # nothing is written while tracing
    versions = {n: t._version for n, t in vars(here).items()}
    for x in (Y, X, Y):
        a, b = (x.clone().requires_grad_(recorded) for _ in range(2))
        want, got = result(lambda x: f(there, x), a), result(program, b)
        assert same(got, want)
        assert all(np.allclose(here.values()[n], v, rtol=1e-5, atol=1e-6) for n, v in there.values().items())
        assert here.histories() == there.histories()
        for name in vars(there):
            after, expected = vars(here)[name], vars(there)[name]
            if expected.requires_grad and not expected.is_leaf:
                want, got = (_gradient(t.sum(), v) for t, v in ((expected, a), (after, b)))
                assert want is None or same(got, want), name
    written = {id(e.target) for e in program.effects if e.kind == "write"}
    assert written and all(t._version > versions[n] for n, t in vars(here).items() if id(t) in written)


def _gradient(loss, x):
    try:
        found = autograd.grad(loss, x, allow_unused=True, retain_graph=True)
    except RuntimeError:  # what it needs was overwritten, also without a program
        return None
    return lucid.zeros(3) if found is None else found


@by_name
@pytest.mark.parametrize("outside", [False, True], ids=["program of grad", "grad of program"])
def test_gradients_beside_writes(f, outside):
    there, here = State(), State()
    of = lambda s: lambda x: f(s, x).sum()
    try:
        program = grad(make_graph(of(here))(X)) if outside else make_graph(grad(of(here)))(X)
    except RuntimeError as error:  # as without a program
        assert "overwritten" in str(error) and result(grad(of(there)), Y) is None
        return
    for x in (Y, X):
        want = result(grad(of(there)), x)
        got = result(program, x)
        if want is not None:  # overwritten for the function, while a program has new values
            assert same(got, want)
            assert all(np.allclose(here.values()[n], v, rtol=1e-5, atol=1e-6) for n, v in there.values().items())


@by_name
def test_programs_of_forward_mode_beside_writes(f):
    there, here = State(), State()
    push = lambda s: lambda x: jvp(lambda v: f(s, v), (x,), (lucid.ones(3),))[1]
    want = result(push(there), Y)
    try:
        program = make_graph(push(here))(X)
    except RuntimeError as error:
        assert "outside" in str(error)
        return
    assert want is not None and same(result(program, Y), want)
    assert all(np.allclose(here.values()[n], v) for n, v in there.values().items())


def test_a_written_tensor_that_is_returned_is_the_tensor():
    b = lucid.ones(3)
    program = make_graph(lambda x: b.mul_(2).add_(x))(X)
    assert program(X) is b and program(X) is b
    assert b.tolist() == (4 * lucid.ones(3) + 3 * X).tolist()


def test_nothing_is_written_if_a_check_fails():
    b, c = lucid.ones(3), lucid.zeros(())

    def f(x, i):
        c.add_(1)
        b.mul_(2)
        return x[i]

    program = make_graph(f)(X, lucid.tensor([0]))
    with pytest.raises(IndexError):
        program(X, lucid.tensor([7]))
    assert b.tolist() == [1.0] * 3 and c.item() == 0
    program(X, lucid.tensor([1]))
    assert b.tolist() == [2.0] * 3 and c.item() == 1


def test_effects_and_text():
    b, w = lucid.ones(3), lucid.ones(3)
    program = make_graph(lambda x: b.mul_(0.5).add_(x * w).sum())(X)
    assert str(program) == (
        "<lambda>(a: float32[3]):\n"
        "  b: float32[3] = captured\n"
        "  c: float32[3] = captured\n"
        "  d: float32[3] = mul b 0.5\n"
        "  e: float32[3] = mul a c\n"
        "  f: float32[3] = add d e\n"
        "  g: float32[] = sum f [dims=(0) keepdim=False]\n"
        "  h: float32[3] = write b f  # writes b\n"
        "  return g"
    )
    assert [(e.kind, e.place) for e in program.effects] == [("read", 0), ("read", 1), ("write", 4)]
    assert program.effects[0].target is b and program.effects[2].target is b


def test_batch_normalization_in_training():
    model = nn.BatchNorm1d(3)
    other = copy.deepcopy(model)
    xs = [lucid.randn(8, 3) for _ in range(4)]
    program = make_graph(model)(xs[0])
    for x in xs:
        np.testing.assert_allclose(program(x).detach(), other(x).detach(), rtol=1e-5, atol=1e-6)
        for a, b in zip(model.buffers(), other.buffers(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gradients_are_read_from_their_tensors():
    w = lucid.ones(3, requires_grad=True)
    w.grad = lucid.ones(3)

    @lucid.no_grad()
    def update(lr):
        w.sub_(lr * w.grad)
        w.grad.mul_(2)
        return w

    program = make_graph(update)(lucid.tensor(0.1))
    w.grad = lucid.full((3,), 5.0)  # another tensor
    program(lucid.tensor(0.2))
    assert np.allclose(w.detach(), 0.0) and w.is_leaf and w.requires_grad
    assert w.grad.tolist() == [10.0] * 3
    w.grad = None
    with pytest.raises(RuntimeError, match=r"\.grad .* now it has none"):
        program(lucid.tensor(0.2))


# Refusals.


@pytest.mark.parametrize(
    "write", [lambda w, x: w.mul_(x), lambda w, x: w[1:].add_(x[0]), lambda w, x: w.__setitem__(0, x[0])]
)
def test_leaves_are_written_under_no_grad_only(write):
    w = lucid.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf tensor that requires grad"):
        make_graph(lambda x: write(w, x))(X)
    with lucid.no_grad():
        make_graph(lambda x: write(w, x))(X)(Y)
    assert w.is_leaf and w.tolist() != [1.0] * 3


def test_read_only_memory_is_not_written():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    w = lucid.Tensor._wrap(array)
    with pytest.raises(RuntimeError, match="read-only"):
        make_graph(lambda x: w.mul_(x))(X)


def test_aliases_that_cannot_be_followed_are_refused():
    b = lucid.ones(3)
    detached, array = b.detach(), np.ones(3, np.float32)
    one, two = lucid.from_numpy(array), lucid.from_numpy(array)

    def read_first(x):
        y = detached * x
        b.mul_(2)
        return y

    def written_first(x):
        b.mul_(2)
        return detached * x

    for f in (read_first, written_first, lambda x: one.mul_(2) * x + two):
        with pytest.raises(RuntimeError, match="shares its memory"):
            make_graph(f)(X)
    assert b.tolist() == one.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="shares its memory"):
        make_graph(lambda x: b.mul_(2) * x)(b)
    program = make_graph(lambda x: b.mul_(2) * x)(X)
    with pytest.raises(ValueError, match="input a lies in the memory"):
        program(b)


def test_branches_loops_and_functions_do_not_write_outside():
    b = lucid.ones(3)

    class Writing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            b.add_(1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Reading(Writing):
        @staticmethod
        def forward(ctx, x):
            return x * b

    def read_after_write(x):
        b.mul_(2)
        return Reading.apply(x)

    for f in (
        lambda x: lucid.cond(x.sum() > 0, lambda y: b.add_(y) * 1, lambda y: y * 2, x),
        lambda x: lucid.while_loop(lambda v: v.sum() < 9, lambda v: v + b.add_(1), x),
        Writing.apply,
        read_after_write,
        lambda x: vmap(lambda e: b.add_(e))(x),
    ):
        with pytest.raises(RuntimeError, match=r"outside|written before"):
            make_graph(f)(X)
    assert b.tolist() == [1.0] * 3


def test_optimizers_do_not_step_while_a_program_is_traced():
    w = lucid.ones(3, requires_grad=True)
    w.grad = lucid.ones(3)
    optimizer = SGD([w], lr=0.1)
    with pytest.raises(RuntimeError, match="optimizer"):
        make_graph(lambda x: optimizer.step())(X)
    assert w.tolist() == [1.0] * 3


def test_values_of_what_was_written_are_not_read_while_tracing():
    w = lucid.tensor([1.0])

    def f(x):
        w.add_(x.sum())
        return x * w.item()

    with pytest.raises(NeedsValueError, match=r"item\(\) needs a concrete value.*from outside"):
        make_graph(f)(lucid.ones(2))
    assert w.item() == 1.0


def test_gradients_of_tensors_from_outside_are_not_set_while_tracing():
    p = lucid.ones(2, requires_grad=True)

    def f(x):
        p.grad = x * 2
        return x

    with pytest.raises(RuntimeError, match="written as a gradient"):
        make_graph(f)(lucid.ones(2))
    assert p.grad is None
