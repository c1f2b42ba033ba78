"""What takes n tensors, or runs n times, takes n times as long, and not n² times: `growth` says how that is counted."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from growth import LIMITS
from growth_cases import BOUNDED, CASES, NOT_LINEAR, OPTIMIZERS, PRIMITIVES, SEQUENCES
from public_ops import public

import lucid
from lucid.core.primitive import registry
from lucid.nn.utils import rnn

HERE = Path(__file__).parent


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("group", CASES)
def test_work_grows_with_the_number_of_parts(group):
    environment = {**os.environ, "LUCID_PURE": "1", "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    command = [sys.executable, str(HERE / "growth.py"), group]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {name: ratios for name, *ratios in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == CASES[group].keys()
    growing = {name: r for name, r in found.items() if any(x > limit for x, limit in zip(r, LIMITS, strict=True))}
    assert not growing, f"work that grows faster than the number of parts (steps, bytes): {growing}"


def names(table):
    return {name for line in table for name in line.split()}


def test_every_variadic_primitive_has_a_case():
    variadic = {name for name, primitive in registry.items() if primitive.is_variadic}
    assert variadic == PRIMITIVES.keys() | names(BOUNDED)


def takes_a_sequence(function):
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return any(name in ("tensors", "operands", "sequences") for name in parameters)


def test_every_function_of_a_sequence_of_tensors_has_a_case():
    functions = {name: function for _, name, function in public()}
    functions |= {name: getattr(rnn, name) for name in dir(rnn)}
    functions |= {name: getattr(lucid.nn.utils, name) for name in dir(lucid.nn.utils)}
    found = {name for name, function in functions.items() if takes_a_sequence(function)}
    assert found <= SEQUENCES.keys() | names(NOT_LINEAR)
    assert "cat" in found
    assert "pad_sequence" in found


def test_every_optimizer_has_a_case():
    assert {"SGD", "Adam", "Lion", "LBFGS"} <= OPTIMIZERS.keys()


def test_a_write_keeps_what_others_hold_of_its_gradient():
    """The gradient of a base is split in place only if nobody else can see it."""
    seen = []
    x = lucid.ones(3, requires_grad=True)
    h = lucid.zeros(3, 3) * x
    for t in range(3):
        h[t] = x * (t + 1)
        h.register_hook(seen.append)
    seed = lucid.ones(3, 3)
    h.backward(seed)
    assert x.grad.tolist() == [6.0] * 3
    assert seed.tolist() == [[1.0] * 3] * 3
    assert seen[0].tolist() == [[1.0] * 3] * 3
    assert seen[1].tolist() == [[1.0] * 3] * 2 + [[0.0] * 3]


def test_writes_in_a_loop_have_the_gradient_of_stacked_rows():
    x = lucid.randn(4, generator=lucid.Generator().manual_seed(0), requires_grad=True)

    def written():
        h = lucid.zeros(6, 4)
        h[0] = x
        for t in range(1, 6):
            h[t] = lucid.tanh(h[t - 1].clone()) * t
            h[t - 1, 1:3] += h[t, 1:3].clone()
        return (h * lucid.arange(24.0).reshape(6, 4)).sum()

    def stacked():
        rows = [x]
        for t in range(1, 6):
            rows.append(lucid.tanh(rows[-1]) * t)
            rows[-2] = rows[-2] + rows[-1] * lucid.tensor([0.0, 1.0, 1.0, 0.0])
        return (lucid.stack(rows) * lucid.arange(24.0).reshape(6, 4)).sum()

    (found,) = lucid.autograd.grad(written(), [x])
    (expected,) = lucid.autograd.grad(stacked(), [x])
    assert lucid.allclose(found, expected, rtol=1e-5)


def test_slices_of_one_tensor_add_up_to_all_orders():
    x = lucid.randn(5, 3, generator=lucid.Generator().manual_seed(0), dtype=lucid.float64, requires_grad=True)

    def parts(x):
        return sum((x[i] ** 3).sum() * (i + 1) for i in range(5)) + (x[1:4, 0] * x[0:3, 2]).sum() + (x**2).sum()

    assert lucid.autograd.gradcheck(parts, [x])
    assert lucid.autograd.gradgradcheck(parts, [x])
    one = lucid.func.grad(parts)
    batch = lucid.stack([x.detach(), 2 * x.detach()])
    assert lucid.allclose(lucid.func.vmap(one)(batch), lucid.stack([one(b) for b in batch]))


def test_slices_do_not_keep_wholes_alive():
    program = """
import tracemalloc
import lucid
def run(x):
    sum(x[i].sum() for i in range(len(x))).backward()
    lucid.autograd.grad(sum((x[i] * x[i]).sum() for i in range(len(x))), x, create_graph=True)
run(lucid.zeros(2, 1000, requires_grad=True))  # loads what is loaded at the first use
x = lucid.zeros(200, 1000, requires_grad=True)
tracemalloc.start()
loss = sum(x[i].sum() for i in range(200))
assert tracemalloc.get_traced_memory()[1] < 2 * x.nbytes
loss.backward()
assert tracemalloc.get_traced_memory()[1] < 3 * x.nbytes
tracemalloc.reset_peak()
x.grad = None
lucid.autograd.grad(sum((x[i] * x[i]).sum() for i in range(200)), x, create_graph=True)
assert tracemalloc.get_traced_memory()[1] < 10 * x.nbytes, tracemalloc.get_traced_memory()[1] / x.nbytes
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
