"""Nodes hidden from the garbage collector: all that cannot be part of a cycle, and never at the price of a leak."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from cycles import no_cycles

import lucid
from lucid import native

ROOT = Path(__file__).resolve().parent.parent
compiled = pytest.mark.skipif(not native.in_use, reason="the sources run as they are here, and hide nothing")

# Each makes a cycle that leads through plain operations, some of them older than what closes the cycle.
CYCLES = {
    "a hook": "y.register_hook(lambda g, held=(z, marker): None)",
    "a hook on a node": "y.grad_fn.register_hook(lambda a, b, held=(z, marker): None)",
    "notes on a node": "y.grad_fn.metadata['note'] = (z, marker)",
    "a gradient with a history": "x.grad = z * 1; kept[:] = [x]; notes[x] = marker",
    "create_graph": "z.sum().backward(create_graph=True); kept[:] = [x]; notes[x] = marker",
    "a write in place": "w = x * 1; a = w * y; w.add_(a); kept[:] = [w]; notes[w] = marker",
    "a write to what was a leaf": "x.requires_grad_(False); x.add_(z); kept[:] = [x]; notes[x] = marker",
    "a write to what was detached": "x.detach_(); x.add_(z); kept[:] = [x]; notes[x] = marker",
    "a change of shape in place": "w = x * 1; a = w * y; w.add_(a); w.unsqueeze_(0); kept[:] = [w]; notes[w] = marker",
    "a user's function": "out = Keeps.apply(z); keeper.seen = (out * 2, marker); del out",
    "saved-tensor hooks": "box = [marker]\nwith lucid.autograd.graph.saved_tensors_hooks(lambda t: (t, box), lambda p: p[0]):"
    "\n    q = (z * 1).exp()\nbox.append(q); del q, box",
}
# Nodes keep arrays, so these make none any more: counting references frees them.
NO_CYCLE = ("a write in place", "a change of shape in place")
PROGRAM = """
import gc, weakref
import lucid

class Marker: pass
class Keeper: pass

keeper = Keeper()
class Keeps(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.keeper = keeper
        return v * 2
    @staticmethod
    def backward(ctx, g):
        return g

gc.disable()
marker = Marker()
seen = weakref.ref(marker)
kept, notes = [], weakref.WeakKeyDictionary()
x = lucid.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
z = (y * 3).exp() * y
assert not gc.is_tracked(z.grad_fn) and not gc.is_tracked(y.grad_fn)
{cycle}
after = lucid.tensor([1.0, 2.0], requires_grad=True) * 2
assert not gc.is_tracked(after.grad_fn), "what has nothing to do with it is hidden as before"
newer = z * 1  # may be part of the cycle too
if 'w' in globals(): del w, a
del newer
del x, y, z, marker, keeper, Keeps
kept.clear()
assert (seen() is None) is {counted}, "whether there is a cycle at all"
gc.collect()
assert seen() is None, "a cycle was not found"
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@compiled
@pytest.mark.parametrize("name", CYCLES)
def test_cycles_are_still_collected(name):
    run(PROGRAM.format(cycle=CYCLES[name], counted=name in NO_CYCLE))


@compiled
def test_plain_graphs_are_hidden_and_freed_by_counting_alone():
    run(
        """
import gc, weakref
import lucid

gc.disable()
x = lucid.tensor([1.0, 2.0], requires_grad=True)
y = (x * 2).exp()
node = weakref.ref(y.grad_fn.next_functions[0][0])
assert not gc.is_tracked(y.grad_fn) and not gc.is_tracked(node())
y.sum().backward()
del y
assert node() is None
"""
    )


@compiled
def test_a_training_step_leaves_them_hidden():
    run(
        """
import gc
import lucid
from lucid import nn

net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.BatchNorm1d(3), nn.Linear(3, 1))
optimizer = lucid.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    loss = (net(lucid.randn(4, 2)) ** 2).mean() * 2
    loss.backward()
    optimizer.step()
x = lucid.ones(2, requires_grad=True)
assert not gc.is_tracked((x * 2).grad_fn)
"""
    )


LOOPS = {
    "chain": "v = v * 1.5 + x.exp()",
    "states written in place": "h[t] = (h[t - 1] * x).tanh()",
    "writes to a whole": "w = v * 1; w.mul_(x).add_(1).sigmoid_(); v = w",
    "rows that are stacked": "rows.append((x * t).sum()); v = lucid.stack(rows[-3:])",
    "products and sums": "v = lucid.outer(v, x) @ x / x.sum()",
    "layers": "v = lucid.nn.functional.layer_norm(v, (2,)).softmax(0).cumsum(0)",
}
BEFORE = {
    "nothing": "pass",
    "a hook elsewhere": "u.register_hook(lambda g: None)",
    "a late hook elsewhere": "s = u * 2; u.register_hook(lambda g: None); gc.collect()",
    "a user's function elsewhere": "Twice.apply(u)",
    "a gradient with a history": "(u**3).sum().backward(create_graph=True)",
}


@compiled
@pytest.mark.parametrize("op", ["outer", "div", "maximum", "matmul"])
def test_shapes_of_operands_are_hidden_with_their_node(op):
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    left = x * 1 if op == "outer" else lucid.outer(x, x)
    node = getattr(lucid, op)(left, x * 2).grad_fn
    assert not gc.is_tracked(node)
    assert not gc.is_tracked(node.shapes)


@compiled
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("loop", LOOPS)
def test_plain_graphs_cost_the_collector_nothing(loop, before):
    """Whatever the process did before: hardly anything that it visits is left by a loop of n steps."""
    run(
        f"""
import gc
import lucid

class Twice(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return v * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2

def tracked(steps):
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    v, h, rows = x * 1, lucid.zeros(steps + 1, 2), []
    gc.collect()
    before = len(gc.get_objects())
    for t in range(1, steps + 1):
        {LOOPS[loop]}
        del rows[:-3]
    gc.collect()
    return len(gc.get_objects()) - before

u = lucid.tensor([1.0], requires_grad=True) * 1
{BEFORE[before]}
tracked(5)
assert tracked(300) - tracked(100) < 20, (tracked(100), tracked(300))
"""
    )


@compiled
def test_what_descends_from_late_hooks_is_found_by_the_next_collection():
    run(
        """
import gc
import lucid

x = lucid.tensor([1.0], requires_grad=True)
steps = [x * 1]
for _ in range(1000):
    steps.append(steps[-1] * 1.5)
for y in steps:
    y.register_hook(lambda g, held=steps: None)
gc.collect()
assert all(gc.is_tracked(y.grad_fn) for y in steps)
"""
    )


def test_the_check_for_cycles_can_fail():
    with pytest.raises(AssertionError, match="1 object in reference cycles was left behind: 1 list"), no_cycles():
        held = []
        held.append(held)
        del held
    with no_cycles():
        held = [[]]  # without a cycle
        del held
