"""Subclasses of Tensor that are passed on: what is computed of them is of their class, and otherwise the same."""

import copy
import pickle

import numpy as np
import pytest
from checks import Case, array, cases, is_float
from samples import Row
from table import ROWS

import lucid
import lucid.numpy
from lucid import autograd, func
from lucid.core.tensor import Tensor, wrapped_as


class Own(Tensor):
    __slots__ = ()
    passed_on = True


class Other(Tensor):
    __slots__ = ()
    passed_on = True


class Quiet(Tensor):
    """One that does not ask to be passed on."""

    __slots__ = ()


def as_own(tensor):
    """Over the same memory: sums of other layouts would differ in the last bits."""
    made = wrapped_as(Own, tensor._array)
    return made.requires_grad_() if tensor.requires_grad else made


def same(a, b):
    return np.array_equal(array(a), array(b), equal_nan=array(a).dtype.kind in "fc")


def check(case: Case) -> None:
    plain = case.operands(requires_grad=case.row.differentiable)
    theirs = [as_own(t) for t in plain]
    if not theirs:
        return
    want, got = case.op(*plain), case.op(*theirs)
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        if not isinstance(w, Tensor):
            continue
        assert type(g) is Own, f"{case}: result {k} is of {type(g).__name__}"
        assert same(w, g), f"{case}: result {k} has other values"
        assert w.requires_grad == g.requires_grad, f"{case}: result {k}"
    live = [k for k, w in enumerate(want) if isinstance(w, Tensor) and is_float(w) and w.requires_grad]
    if not live or not case.sample.smooth:
        return
    weights = case.like([array(want[k]) for k in live])
    pulls = [
        autograd.grad([outs[k] for k in live], [ins[k] for k in case.floats], grad_outputs=weights, allow_unused=True)
        for outs, ins in ((want, plain), (got, theirs))
    ]
    for k, (w, g) in enumerate(zip(*pulls, strict=True)):
        assert (w is None) == (g is None), f"{case}: gradient {k}"
        if w is not None:
            assert type(g) is Own, f"{case}: gradient {k} is of {type(g).__name__}"
            assert same(w, g), f"{case}: gradient {k} has other values"


# What these give is not computed of their operands.
NOT_COMPUTED = {"set_": "it is called on a plain tensor, which it returns"}


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in NOT_COMPUTED], ids=lambda row: row.name)
def test_row(row):
    with np.errstate(all="ignore"):
        for case in cases(row, "float64" if row.floats else "complex128" if row.complex else row.ints[0]):
            check(case)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("row", [r for r in ROWS if r.name not in NOT_COMPUTED and not r.inplace], ids=lambda r: r.name)
def test_row_of_arrays(row):
    """Methods of NumPy's arrays mean other things, so operations must not call methods of what they are given."""
    with np.errstate(all="ignore"):
        for case in cases(row, "float64" if row.floats else "complex128" if row.complex else row.ints[0]):
            plain = case.operands(requires_grad=False)
            arrays = [wrapped_as(lucid.numpy.ndarray, t._array) for t in plain]
            for k, (w, g) in enumerate(zip(case.op(*plain), case.op(*arrays), strict=True)):
                assert not isinstance(w, Tensor) or same(w, g), f"{case}: result {k} has other values"


def test_rows_can_fail(monkeypatch):
    """An operation that forgets the class, or computes something else for it, is noticed."""
    (row,) = [row for row in ROWS if row.name == "exp"]
    monkeypatch.setattr(Own, "passed_on", False)
    with pytest.raises(AssertionError, match="is of Tensor"):
        test_row(row)
    monkeypatch.undo()
    broken = Row("broken", lambda x: x.exp() + (type(x) is Own), np.exp, row.samples)
    with pytest.raises(AssertionError, match="has other values"):
        test_row(broken)
    with pytest.raises(AssertionError, match="gradient 0 has other values"):
        test_row(
            Row("broken", lambda x: x.exp() if type(x) is Own else x.exp() * 2 - x.exp().detach(), np.exp, row.samples)
        )


def leaf(requires_grad=True):
    return Own([1.0, 2.0, 3.0], requires_grad=requires_grad)


def test_first_that_passes_its_class_on_decides():
    plain, quiet, other = lucid.ones(3), Quiet([1.0, 2.0, 3.0]), Other([1.0, 2.0, 3.0])
    x = leaf()
    assert type(plain * x) is type(x * plain) is type(quiet * x) is Own
    assert type(x + other) is Own and type(other + x) is Other
    assert type(quiet * 2) is type(quiet * plain) is Tensor
    assert type(2 * x) is type(x / 2) is type(-x) is type(x > 1) is Own
    assert [type(t) for t in lucid.cat([plain, x]).split(2)] == [Own, Own, Own]


def test_gradients():
    x = leaf()
    (x * x).sum().backward()
    assert type(x.grad) is Own and x.grad.tolist() == [2, 4, 6]
    (x * x).sum().backward()
    assert type(x.grad) is Own and x.grad.tolist() == [4, 8, 12]
    (first,) = autograd.grad((x**3).sum(), [x], create_graph=True)
    assert type(first) is Own and first.requires_grad
    (second,) = autograd.grad(first.sum(), [x])
    assert type(second) is Own and second.tolist() == [6, 12, 18]
    y = x * 2
    y.retain_grad()
    (y * lucid.ones(3)).sum().backward()
    assert type(y.grad) is Own
    plain = lucid.ones(3, requires_grad=True)
    (plain * leaf()).sum().backward()
    assert type(plain.grad) is Tensor


def test_saved_leaf_is_watched_and_freed():
    x = leaf()
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward a second time"):
        loss.backward()
    loss = (x * x).sum()
    with lucid.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_views_copies_and_writes():
    x = leaf()
    assert type(x.detach()) is type(x.data) is type(x.clone()) is type(x[1:]) is type(x.reshape(3, 1)) is Own
    y = x.clone()
    part = y[1:]
    part.mul_(10)
    y += 1
    y[0] = 5.0
    assert type(y) is type(part) is Own and y.tolist() == [5, 21, 31]
    y.sum().backward()
    assert x.grad.tolist() == [0, 10, 10]
    z = leaf(False)
    z.add_(1).exp_()
    assert type(z) is Own and np.allclose(array(z), np.exp([2, 3, 4]))
    z.data = lucid.zeros(3)
    assert type(z) is Own and z.tolist() == [0, 0, 0]


def test_copies_and_pickles():
    x = leaf()
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is Own and made.requires_grad and made.tolist() == [1, 2, 3]


def test_numpy_and_printing():
    x = leaf(False)
    assert type(np.exp(x)) is type(np.add(np.ones(3), x)) is type(np.sum(x)) is Own
    assert repr(x) == "Own([1., 2., 3.])"
    assert type(lucid.zeros_like(x)) is type(lucid.full_like(x, 2)) is Own


def test_transforms():
    x = leaf(False)
    assert type(func.grad(lambda a: (a * a).sum())(x)) is Own
    assert type(func.vmap(lambda a: a * a)(x)) is Own
    out, change = func.jvp(lambda a: a.sin(), (x,), (lucid.ones(3),))
    assert type(out) is type(change) is Own
    rows = Own([[1.0, 2.0], [3.0, 4.0]])
    found = func.vmap(func.grad(lambda a: (a**3).sum()))(rows)
    assert type(found) is Own and found.tolist() == [[3, 12], [27, 48]]
    assert func.hessian(lambda a: (a**3).sum())(x).tolist() == np.diag([6.0, 12.0, 18.0]).tolist()


def test_layers_and_custom_functions():
    x = Own(np.ones((2, 4), np.float32))
    model = lucid.nn.Sequential(lucid.nn.Linear(4, 3), lucid.nn.LayerNorm(3), lucid.nn.ReLU())
    assert type(model(x)) is Own
    assert type(lucid.nn.functional.cross_entropy(model(x), lucid.tensor([0, 1]))) is Own

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            assert type(ctx.saved_tensors[0]) is Own
            return g * 2

    y = leaf()
    out = Twice.apply(y.clone())
    out.sum().backward()
    assert type(out) is type(y.grad) is Own and y.grad.tolist() == [2, 2, 2]
