"""Nodes hidden from the garbage collector: only while nothing can close a cycle, and never at the price of a leak."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    "a change of shape in place": "w = x * 1; a = w * y; w.add_(a); w.unsqueeze_(0); kept[:] = [w]; notes[w] = marker",
    "a user's function": "out = Keeps.apply(z); keeper.seen = (out * 2, marker); del out",
    "saved-tensor hooks": "box = [marker]\nwith lucid.autograd.graph.saved_tensors_hooks(lambda t: (t, box), lambda p: p[0]):"
    "\n    q = (z * 1).exp()\nbox.append(q); del q, box",
}
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
assert all(gc.is_tracked(t.grad_fn) for t in (y, z, z * 1))
if 'w' in globals(): del w, a
del x, y, z, marker, keeper, Keeps
kept.clear()
assert seen() is not None
gc.collect()
assert seen() is None, "a cycle was not found"
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@compiled
@pytest.mark.parametrize("name", CYCLES)
def test_cycles_are_still_collected(name):
    run(PROGRAM.format(cycle=CYCLES[name]))


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
