"""Attributes that users give to tensors: kept by copies and pickles, free until used, and no obstacle to the collector."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.jax.numpy
import lucid.numpy
import lucid.torch
from lucid import func, native, nn
from lucid.core.fields import users_attributes

ROOT = Path(__file__).resolve().parent.parent
compiled = pytest.mark.skipif(not native.in_use, reason="the sources run as they are here, and hide nothing")


class Marker:
    pass


class Inherits(lucid.Tensor):
    pass


class Slotted(lucid.Tensor):
    __slots__ = ("own",)


class Mixin:
    def remember(self, value):
        self.remembered = value
        return self


class Mixed(Mixin, lucid.Tensor):
    pass


MAKERS = {
    "tensor": lambda: lucid.tensor([1.0, 2.0]),
    "leaf": lambda: lucid.tensor([1.0, 2.0], requires_grad=True),
    "result": lambda: lucid.tensor([1.0, 2.0], requires_grad=True) * 2,
    "view": lambda: lucid.ones(2, 2)[0],
    "parameter": lambda: nn.Parameter(lucid.ones(2)),
    "buffer": lambda: nn.Buffer(lucid.ones(2)),
    "lazy": lambda: nn.UninitializedParameter(),
    "sparse": lambda: lucid.eye(2).to_sparse(),
    "torch": lambda: lucid.torch.ones(2),
    "torch parameter": lambda: lucid.torch.nn.Linear(2, 2).weight,
    "numpy": lambda: lucid.numpy.ones(2),
    "subclass": lambda: Inherits([1.0, 2.0]),
    "subclass with slots": lambda: Slotted([1.0, 2.0]),
    "mixed in": lambda: Mixed([1.0, 2.0]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_attributes_are_set_read_and_deleted(make):
    x = make()
    assert users_attributes(x) is None
    with pytest.raises(AttributeError, match="has no attribute 'tag'"):
        x.tag  # noqa: B018
    x.tag = True
    x._no_weight_decay = [1]
    assert x.tag is True
    assert vars(x) == {"tag": True, "_no_weight_decay": [1]}
    del x.tag
    assert not hasattr(x, "tag")
    x.__dict__["tag"] = 2
    assert x.tag == 2
    x.__dict__ = {"other": 3}
    assert vars(x) == {"other": 3}
    assert users_attributes(make()) is None


def test_slots_and_mixins_of_subclasses():
    x = Slotted([1.0])
    x.own, x.tag = 1, 2
    assert (x.own, vars(x)) == (1, {"tag": 2})
    assert Mixed([1.0]).remember(5).remembered == 5


def test_fields_and_properties_are_no_attributes():
    x = lucid.ones(2, requires_grad=True)
    x.grad = lucid.ones(2)
    x.requires_grad = False
    assert users_attributes(x) is None
    with pytest.raises(AttributeError):
        x.shape = (2, 1)


def test_results_views_and_clones_carry_none():
    x = lucid.ones(2, requires_grad=True)
    x.tag = 1
    for y in (x * 2, x.clone(), x.detach(), x[0], x.data, x.view(2), x.to(lucid.float64), x + 0):
        assert not hasattr(y, "tag")


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("kind", [k for k in MAKERS if k not in ("result", "subclass with slots")])
def test_copies_keep_them(kind, copied):
    x = MAKERS[kind]()
    x.tag, x.near = "kept", [lucid.arange(2)]
    y = copied(x)
    assert y is not x
    assert type(y) is type(x)
    assert y.tag == "kept"
    assert np.array_equal(y.near[0].numpy(), [0, 1])
    assert (y.near is x.near) is (copied is copy.copy)


def test_a_deep_copy_of_a_cycle_is_a_cycle():
    x = nn.Parameter(lucid.ones(2))
    x.me = x
    y = copy.deepcopy(x)
    assert y.me is y
    assert isinstance(y, nn.Parameter)


def test_modules_keep_those_of_their_parameters():
    net = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(2))
    net[0].bias.decay = net[1].weight.decay = False
    twin = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    twin(lucid.ones(1, 2))
    assert twin[0].bias.decay is False
    assert twin[1].weight.decay is False
    groups = [[p for p in twin.parameters() if getattr(p, "decay", True) is want] for want in (True, False)]
    assert [len(g) for g in groups] == [2, 2]


def test_transforms_see_those_of_tensors_from_outside():
    p = lucid.ones(2)
    p.scale = 3.0
    x = lucid.arange(2.0)
    assert np.array_equal(func.grad(lambda t: (t * p * p.scale).sum())(x).numpy(), [3, 3])
    assert np.array_equal(func.vmap(lambda t: t * p.scale)(x).numpy(), [0, 3])

    def noted(t):
        t.note = "inside"
        kept = copy.copy(t)
        assert (kept.note, copy.deepcopy(t).note) == ("inside", "inside")
        return (t * t).sum()

    assert np.array_equal(func.vmap(func.grad(noted))(lucid.ones(2, 2)).numpy(), [[2, 2], [2, 2]])


def test_compiled_functions_notice_changes():
    p = nn.Parameter(lucid.ones(2))
    p.tag, p.factors = True, [2.0]

    @lucid.compile
    def f(x):
        return x * p.factors[0] if p.tag else x * 10

    assert np.array_equal(f(lucid.ones(2)).numpy(), [2, 2])
    p.factors[0] = 4.0
    assert np.array_equal(f(lucid.ones(2)).numpy(), [4, 4])
    p.tag = False
    assert np.array_equal(f(lucid.ones(2)).numpy(), [10, 10])

    @lucid.compile
    def g(x):
        return x * x.factor

    x = lucid.ones(2)
    x.factor = 5
    assert np.array_equal(g(x).numpy(), [5, 5])
    x.factor = 6
    assert np.array_equal(g(x).numpy(), [6, 6])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_cycles_through_them_are_collected(make):
    x, marker = make(), Marker()
    x.me, x.marker = x, marker
    seen = weakref.ref(marker)
    del x, marker
    gc.collect()
    assert seen() is None


def test_attributes_are_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x, marker = lucid.ones(2), Marker()
        x.marker = marker
        seen = weakref.ref(marker)
        del x, marker
        assert seen() is None
    finally:
        gc.enable()


def test_many_under_a_busy_collector():
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        kept = []
        for i in range(2000):
            x = lucid.ones(2, requires_grad=i % 2 == 0)
            x.number, x.me, x.child = i, x, x * 2
            x.child.parent = x
            if i % 100 == 0:
                kept.append(x)
        assert [x.number for x in kept] == list(range(0, 2000, 100))
        assert all(x.child.parent is x for x in kept)
    finally:
        gc.set_threshold(*threshold)


HIDDEN = """
import gc, weakref
import lucid

class Marker: pass

gc.disable()
marker = Marker()
seen = weakref.ref(marker)
x = lucid.tensor([1.0, 2.0], requires_grad=True)
{before}
z = (x * 2).exp() * 3
assert gc.is_tracked(z.grad_fn) is {tracked}, "whether the collector sees the graph"
{after}
del x, z, marker
gc.collect()
assert seen() is None, "a cycle was not found"
"""
CYCLES = {
    "set before": ("x.box = []", "x.box += [z, marker]"),
    "set after": ("", "x.z = z; x.marker = marker"),
    "through __dict__": ("", "x.__dict__.update(z=z, marker=marker)"),
    "another __dict__": ("", "x.__dict__ = dict(z=z, marker=marker)"),
    "set on one that does not require grad yet": ("x = lucid.ones(2); x.box = []; x.requires_grad_()", "x.box += [z, marker]"),
    "set on what was a leaf": ("", "x.requires_grad_(False); x.z = z; x.marker = marker"),
    "a number first": ("x.number = 1", "x.z = z; x.marker = marker"),
    "of a copy": ("import copy; x.box = []; x = copy.copy(x)", "x.box += [z, marker]"),
}  # fmt: skip


@compiled
@pytest.mark.parametrize("name", CYCLES)
def test_the_collector_sees_graphs_of_tensors_that_refer_to_others(name):
    before, after = CYCLES[name]
    program = HIDDEN.format(before=before, after=after, tracked="box" in before)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@compiled
def test_plain_values_keep_graphs_hidden():
    net = nn.Linear(2, 2)
    for p in net.parameters():
        p._no_weight_decay, p.name, p.factor, p.nothing = True, "weight", 0.5, None
    twin = copy.deepcopy(net)
    assert not gc.is_tracked(net(lucid.ones(1, 2)).grad_fn)
    assert not gc.is_tracked(twin(lucid.ones(1, 2)).grad_fn)


def test_compiled_functions_assign_them():
    p = nn.Parameter(lucid.ones(2))
    p.calls = 0

    @lucid.compile
    def f(x):
        x.count = x.shape[0]
        p.calls += 1
        p.last = x.sum()
        return x * 2

    for i in range(1, 4):
        x = lucid.full((2,), float(i))
        f(x)
        assert vars(x) == {"count": 2}
        assert (p.calls, p.last.item()) == (i, 2.0 * i)
