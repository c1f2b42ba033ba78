"""Programs read what they captured anew at each run, in the forward part and in the backward part alike."""

import numpy as np
import pytest
from checks import Case, array, pulled, smooth
from table import ROWS

import lucid
from lucid.api.creation import from_numpy
from lucid.func import grad, make_graph


def check_captured(case: Case) -> int:
    """The gradient by each float operand as a program that captures the others, which are then written to."""
    checked = 0
    weights = case.like(case.float_outs(*case.arrays))
    for k in case.floats:
        tensors = [from_numpy(np.array(a)) for a in case.arrays]

        def gradient(x, tensors=tensors, k=k):
            y = x.clone().requires_grad_()
            outs = case.op(*[*tensors[:k], y, *tensors[k + 1 :]])
            return pulled(outs, [from_numpy(w) for w in weights], [y])[0]

        program = make_graph(gradient)(tensors[k].clone())
        x = from_numpy(np.asarray(case.arrays[k] * 0.97))
        for j in case.floats:
            if j != k:
                tensors[j].mul_(0.98)
        np.testing.assert_allclose(array(program(x)), array(gradient(x)), 1e-9, 1e-9, err_msg=f"{case}: operand {k}")
        checked += 1
    return checked


@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable and r.floats], ids=lambda r: r.name)
def test_captured_operands_are_read_anew(row):
    with np.errstate(all="ignore"):
        for case in smooth(row, "float64"):
            if len(case.floats) > 1:
                check_captured(case)


def test_a_captured_view_is_read_anew():
    w = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    program = make_graph(grad(lambda x: (x @ w.t() @ w[0]).sum()))(lucid.ones(2))
    w.mul_(2)
    want = grad(lambda x: (x @ w.t() @ w[0]).sum())(lucid.ones(2))
    assert program(lucid.ones(2)).tolist() == want.tolist()
