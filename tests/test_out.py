"""`out=`: every function that has it writes its result there, or refuses and leaves it as it was."""

import inspect

import numpy as np
import pytest
from checks import BATCH, Case, array, cases, flat, put_together
from samples import ALIASES
from table import ROWS

import lucid
from lucid.api import names
from lucid.core.tensor import Tensor


def has_out(function):
    try:
        return "out" in inspect.signature(function, follow_wrapped=False).parameters
    except (TypeError, ValueError):
        return False


NAMES = sorted(name for name in lucid.__all__ if callable(getattr(lucid, name)) and has_out(getattr(lucid, name)))

X = lucid.tensor([[0.5, 1.5, 2.5], [3.5, 0.25, 1.25]], dtype=lucid.float64)
SPD = lucid.tensor([[2.0, 0.5], [0.5, 3.0]], dtype=lucid.float64)
# Calls of functions that have no row, for they make tensors or draw random ones, or whose row prepares its operands.
CALLS = {
    "arange": ((5,), {}),
    "bernoulli": ((X.detach() / 4,), {}),
    "cholesky": ((SPD,), {}),
    "empty": ((0, 2), {}),
    "empty_permuted": (((0, 3), (1, 0)), {}),
    "eye": ((2, 3), {}),
    "full": (((2, 3), 7.0), {}),
    "linspace": ((0, 1, 5), {}),
    "logspace": ((0, 1, 5), {}),
    "lu_solve": ((X[:, :2].clone(), *lucid.linalg.lu_factor(SPD)), {}),
    "multinomial": ((X.detach()[0], 2), {}),
    "normal": ((X.detach(), 0.5), {}),
    "ones": ((2, 3), {}),
    "rand": ((2, 3), {}),
    "randint": ((5, (2, 3)), {}),
    "randn": ((2, 3), {}),
    "randperm": ((5,), {}),
    "zeros": ((2, 3), {}),
}
OTHER_NAMES = {**ALIASES, "concat": "cat", "concatenate": "cat", "row_stack": "vstack"}
BY_NAME = {row.name: row for row in ROWS}


def first_call(name):
    """Arguments for a call, with tensors among them, whose results have elements."""
    if name in CALLS:
        return CALLS[name]
    row = BY_NAME.get(name) or BY_NAME.get(OTHER_NAMES.get(name, name))
    assert row is not None, f"lucid.{name} has out=, but neither a row in the table nor a call here"
    kinds = ("float64",) * row.floats + ("complex128",) * row.complex + row.ints
    for kind in kinds:
        for case in cases(row, kind):
            if case.sample.smooth and all(a.ndim and a.size > 1 for a in case.arrays) and case.arrays:
                args = put_together(case._args, case.operands(requires_grad=False))
                if name in ("complex", "polar", "view_as_complex"):
                    args = [a.double() for a in args]
                return tuple(args), case.sample.kwargs
    raise AssertionError(f"no sample of {name} serves")


class Call:
    """A function with arguments, and what it gives without out=."""

    def __init__(self, name):
        self.function = getattr(lucid, name)
        self.made = names.listed()[name].columns.get("out") == "made"
        args, kwargs = first_call(name)
        self.args, self.kwargs = args, dict(kwargs)
        self.results = self.plain()

    def plain(self):
        lucid.manual_seed(1)
        result = self.function(*self.args, **self.kwargs)
        return [r for r in flat(result) if isinstance(r, Tensor)]

    def into(self, outs, args=None):
        lucid.manual_seed(1)
        given = outs[0] if len(outs) == 1 else tuple(outs)
        return self.function(*(self.args if args is None else args), **self.kwargs, out=given)

    def empties(self):
        return [lucid.empty(0, dtype=r.dtype) for r in self.results]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.sampled(every=4)) for name in NAMES])
def call(request):
    with np.errstate(all="ignore"):
        return Call(request.param)


def same(outs, results):
    for out, result in zip(outs, results, strict=True):
        np.testing.assert_array_equal(array(out), array(result))


def test_an_empty_out_is_resized_and_returned(call):
    outs = call.empties()
    returned = call.into(outs)
    assert all(r is o for r, o in zip(flat(returned), outs, strict=True))
    same(outs, call.results)


def test_out_may_be_a_view(call):
    bases = [lucid.zeros(*r.shape, 2, dtype=r.dtype) for r in call.results]
    views = [b[..., 1] for b in bases]
    returned = call.into(views)
    assert all(r is v for r, v in zip(flat(returned), views, strict=True))
    same([b[..., 1] for b in bases], call.results)
    assert not any(b[..., 0].any() for b in bases)


def test_wrong_shape_is_refused(call):
    outs = [lucid.ones(BATCH + 3, BATCH + 1, dtype=r.dtype) for r in call.results]
    with pytest.raises(RuntimeError, match="shape"):
        call.into(outs)
    assert all((o == 1).all() for o in outs)


def test_wrong_type_is_refused(call):
    if all(r.dtype == lucid.bool for r in call.results):
        return  # a truth value fits into every type
    outs = [lucid.ones(r.shape, dtype=lucid.bool) for r in call.results]
    if call.made:
        call.kwargs["dtype"] = lucid.float64
    with pytest.raises(RuntimeError, match="type"):
        call.into(outs)
    assert all(o.all() for o in outs)


def test_gradients_are_refused_and_left_out_under_no_grad(call):
    leaves = [a for a in _tensors(call.args) if a.is_floating_point() or a.is_complex()]
    for leaf in leaves:
        leaf.requires_grad_()
    try:
        outs = [lucid.full(r.shape, 1, dtype=r.dtype) for r in call.results]
        if leaves:
            with pytest.raises(RuntimeError, match="automatic differentiation"):
                call.into(outs)
            assert all((o == 1).all() for o in outs)
        with lucid.no_grad():
            call.into(outs)
        same(outs, call.results)
        assert not any(o.requires_grad for o in outs)
    finally:
        for leaf in leaves:
            leaf.requires_grad_(False)


def test_an_out_that_requires_grad_is_refused(call):
    outs = [lucid.zeros(r.shape, dtype=r.dtype) for r in call.results]
    if not (outs[0].is_floating_point() or outs[0].is_complex()):
        return
    outs[0].requires_grad_()
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        call.into(outs)
    assert not outs[0].detach().any()
    with lucid.no_grad():
        call.into(outs)
    assert outs[0].requires_grad and outs[0].is_leaf
    same(outs, call.results)


def test_a_saved_value_is_noticed(call):
    outs = [lucid.zeros(r.shape, dtype=r.dtype) for r in call.results]
    if not (outs[0].is_floating_point() or outs[0].is_complex()):
        return  # a product would save a converted copy
    weight = lucid.ones(outs[0].shape, dtype=outs[0].dtype, requires_grad=True)
    loss = (weight * outs[0]).sum()
    call.into(outs)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.real.backward()


def _tensors(nest):
    return [leaf for leaf in flat(list(nest)) if isinstance(leaf, Tensor)]


def test_out_may_be_an_operand(call):
    if len(call.results) > 1:
        return
    result = call.results[0]
    for k, operand in enumerate(call.args):
        if isinstance(operand, Tensor) and (operand.shape, operand.dtype) == (result.shape, result.dtype):
            args = [a.clone() if isinstance(a, Tensor) else a for a in call.args]
            assert call.into([args[k]], args) is args[k]
            same([args[k]], [result])


def test_the_number_of_outs_must_fit():
    x = lucid.tensor([3.0, 1.0])
    with pytest.raises(TypeError, match="2 results"):
        lucid.sort(x, out=lucid.empty(0))
    with pytest.raises(TypeError, match="out must be"):
        lucid.exp(x, out=[1.0, 2.0])
    with pytest.raises(TypeError, match="out must be"):
        lucid.matmul(x, x, out="x")


def test_named_results_come_back_named():
    outs = lucid.empty(0), lucid.empty(0, dtype=lucid.int64)
    found = lucid.max(lucid.tensor([[1.0, 5.0, 2.0]]), 1, out=outs)
    assert found.values is outs[0] and found.indices is outs[1]
    assert found.values.tolist() == [5.0] and found.indices.tolist() == [1]
    mantissa, exponent = lucid.empty(0), lucid.empty(0, dtype=lucid.int32)
    found = lucid.frexp(lucid.tensor([6.0]), out=(mantissa, exponent))
    assert found.mantissa is mantissa and exponent.tolist() == [3]


def test_one_bad_out_of_two_leaves_both_alone():
    values, indices = lucid.zeros(2), lucid.zeros(3, dtype=lucid.int64)
    with pytest.raises(RuntimeError, match="shape"):
        lucid.sort(lucid.tensor([3.0, 1.0]), out=(values, indices))
    assert values.tolist() == [0, 0]
    shared = lucid.zeros(1, dtype=lucid.int64).expand(2)
    with pytest.raises(RuntimeError, match="cannot be written"):
        lucid.sort(lucid.tensor([3.0, 1.0]), out=(values, shared))
    assert values.tolist() == [0, 0]


def test_wider_types_take_narrower_results():
    out = lucid.empty(0, dtype=lucid.float64)
    assert lucid.add(lucid.tensor([1, 2]), 1, out=out) is out
    assert out.tolist() == [2.0, 3.0] and out.dtype == lucid.float64


def test_what_makes_a_tensor_makes_it_of_the_type_of_out():
    out = lucid.empty(0, dtype=lucid.int64)
    assert lucid.zeros(2, 3, out=out) is out and out.shape == (2, 3) and out.dtype == lucid.int64
    assert lucid.arange(3, out=lucid.empty(0)).dtype == lucid.float32
    with pytest.raises(RuntimeError, match="dtype"):
        lucid.ones(2, dtype=lucid.float32, out=lucid.empty(0, dtype=lucid.float64))


def test_out_inside_transforms():
    def doubled(x):
        return lucid.mul(x, 2, out=lucid.empty(3))

    x = lucid.arange(6.0).reshape(2, 3)
    assert lucid.func.vmap(doubled)(x).tolist() == (2 * x).tolist()
    value, change = lucid.func.jvp(doubled, (x[0],), (x[1],))
    assert value.tolist() == (2 * x[0]).tolist() and change.tolist() == (2 * x[1]).tolist()
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        lucid.func.grad(lambda a: doubled(a).sum())(x[0])


def test_every_name_of_the_lists_has_out():
    listed = {name for name, row in names.listed().items() if "out" in row.columns}
    assert listed <= set(NAMES)


def test_a_case_without_out_is_what_the_table_says():
    """The calls above come from the table: one of them against the reference."""
    case = next(cases(BY_NAME["hypot"], "float64"))
    assert isinstance(case, Case)
    np.testing.assert_allclose(array(case.op(*case.operands(requires_grad=False))[0]), case.ref(*case.arrays)[0])
