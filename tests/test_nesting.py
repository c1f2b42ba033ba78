"""What contains itself or is nested very deep: a clear error or the right result, never a crash."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid import func, nn
from lucid.core import tree
from lucid.data import default_collate, default_convert

ROOT = Path(lucid.__file__).resolve().parent.parent
LEVELS = 100_000
MODULES = 30_000  # the names of parameters in them are long
X = lucid.tensor([1.0, 2.0])


def deep_list():
    nest = X
    for _ in range(LEVELS):
        nest = [nest]
    return nest


def deep_tuple():
    nest = X
    for _ in range(LEVELS):
        nest = (nest,)
    return nest


def deep_dict():
    nest = X
    for _ in range(LEVELS):
        nest = {"a": nest}
    return nest


def list_in_itself():
    nest = [X]
    nest.append(nest)
    return nest


def dict_in_itself():
    nest = {"a": X}
    nest["b"] = nest
    return nest


def total(x):
    return X.sum()


NESTS = {
    "deep list": (deep_list, "nested more than"),
    "deep tuple": (deep_tuple, "nested more than"),
    "deep dict": (deep_dict, "nested more than"),
    "list in itself": (list_in_itself, "contains itself"),
    "dict in itself": (dict_in_itself, "contains itself"),
}
CALLS = {
    "vmap": lambda n: func.vmap(total)(n),
    "vmap, result": lambda n: func.vmap(lambda x: n)(X),
    "vmap, in_dims": lambda n: func.vmap(total, in_dims=(n,))(X),
    "grad": lambda n: func.grad(total)(n),
    "grad, aux": lambda n: func.grad(lambda x: (x.sum(), n), has_aux=True)(X),
    "vjp": lambda n: func.vjp(lambda x: n, X),
    "jvp": lambda n: func.jvp(total, (n,), (n,)),
    "jacrev": lambda n: func.jacrev(total)(n),
    "jacfwd": lambda n: func.jacfwd(total)(n),
    "hessian": lambda n: func.hessian(total)(n),
    "scan": lambda n: func.scan(lambda c, x: (c, x), n, X),
    "scan, xs": lambda n: func.scan(lambda c, x: (c, x), X, n),
    "while_loop": lambda n: func.while_loop(lambda c: False, lambda c: c, n),
    "make_graph": lambda n: func.make_graph(total)(n),
    "make_graph, result": lambda n: func.make_graph(lambda x: n)(X),
    "tree_map": lambda n: tree.tree_map(lambda x: x, n),
    "paths": tree.paths,
    "collate": lambda n: default_collate([n, n]),
    "convert": default_convert,
}
SEQUENCE_CALLS = {
    "tensor": lucid.tensor,
    "stack": lucid.stack,
    "cat": lucid.cat,
    "add": lambda n: X + n,
    "scale": lambda n: lucid.amp.GradScaler().scale(n),
}


@pytest.mark.parametrize("kind", NESTS)
@pytest.mark.parametrize("call", CALLS)
def test_structures(call, kind):
    make, message = NESTS[kind]
    with pytest.raises(ValueError, match=message):
        CALLS[call](make())


@pytest.mark.parametrize("kind", [k for k in NESTS if "dict" not in k])
@pytest.mark.parametrize("call", SEQUENCE_CALLS)
def test_sequences(call, kind):
    make, message = NESTS[kind]
    with pytest.raises(ValueError, match=message):
        SEQUENCE_CALLS[call](make())


@pytest.mark.parametrize("kind", NESTS)
def test_state_of_an_optimizer(kind):
    make, message = NESTS[kind]
    optimizer = lucid.optim.SGD([X.clone().requires_grad_()], lr=0.1)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: make()}})


def test_structures_up_to_the_limit():
    nest = X
    for _ in range(tree.MAX_DEPTH):
        nest = [nest]
    assert tree.flatten(nest)[1] == tree.flatten(copy.copy(nest))[1]
    found = func.grad(lambda n: tree.flatten(n)[0][0].sum())(nest)
    assert np.array_equal(tree.flatten(found)[0][0], [1, 1])


def test_a_part_that_occurs_twice_does_not_contain_itself():
    part = [X]
    for _ in range(12):
        part = [part, part]
    assert len(tree.flatten(part)[0]) == 4096
    assert not tree.contains_itself(part)


def test_shapes():
    with pytest.raises(TypeError, match="a shape consists of integers"):
        lucid.zeros(deep_list())


# --- modules -----------------------------------------------------------------


def nested_modules(levels):
    module = nn.Module()
    module.weight = nn.Parameter(X.clone())
    for _ in range(levels):
        outer = nn.Module()
        outer.inner = module
        module = outer
    return module


def module_in_itself():
    module = nn.Module()
    module.weight = nn.Parameter(X.clone())
    module.inner = module
    return module


def test_deep_modules():
    net, visited = nested_modules(MODULES), []
    assert net.apply(visited.append) is net
    assert len(visited) == MODULES + 1
    assert visited[-1] is net
    assert not any(module.training for module in net.eval().modules())
    (weight,) = net.double().parameters()
    assert weight.dtype is lucid.float64
    net.requires_grad_(False)
    net.zero_grad()
    assert not weight.requires_grad
    assert "Module(...)" in repr(net)
    for use in (net.state_dict, lambda: net.load_state_dict({})):
        with pytest.raises(ValueError, match="nested more than 300 deep"):
            use()


@pytest.mark.parametrize("use", ["apply", "train", "eval", "double", "state_dict", "load_state_dict"])
def test_a_module_in_itself(use):
    arguments = {"apply": [print], "load_state_dict": [{}]}
    with pytest.raises(ValueError, match="contains itself"):
        getattr(module_in_itself(), use)(*arguments.get(use, []))


def test_what_a_module_in_itself_can_do():
    module = module_in_itself()
    assert len(list(module.parameters())) == 1
    assert repr(module) == "Module(\n  (inner): Module(...)\n)"
    with pytest.raises(ValueError, match="contains itself"):
        list(module.named_modules(remove_duplicate=False))


def test_methods_that_a_submodule_has_of_its_own():
    calls = []

    class Own(nn.Module):
        def train(self, mode=True):
            calls.append(("train", mode))
            return super().train(mode)

        def apply(self, fn):
            calls.append("apply")
            return super().apply(fn)

        def _apply(self, fn, recurse=True):
            calls.append("_apply")
            return super()._apply(fn, recurse)

    frozen = nn.Linear(2, 2)
    frozen.train = lambda mode=True: frozen
    net = nn.Sequential(nn.Sequential(Own()), frozen)
    net.eval().double()
    net.apply(lambda module: None)
    assert calls == [("train", False), "_apply", "apply"]
    assert frozen.training and not net[0][0].training


# --- freeing -----------------------------------------------------------------

CHAINS = {
    "operations": "y = x\nfor _ in range(n): y = y.sin()",
    "views": "y = x * 1\nfor _ in range(n): y = y.view(2)",
    "views without graph": "y = x.detach()\nfor _ in range(n): y = y.view(2)",
    "writes": "y = x * 1\nfor _ in range(n // 10): y.add_(1)",
    "writes through views": "y = x * 1\nfor _ in range(n // 50): y.view(2)[:1].add_(1)",
    "gradients with history": """
y = x
for _ in range(n // 4): y = y.sin()
y = lucid.autograd.grad(y.sum(), x, create_graph=True)
""",
    "duals": "y = None\ndef f(v):\n    for _ in range(n // 4): v = v.sin()\n    return v\ny = lucid.func.jvp(f, (x,), (x,))",
    "duals in batches": """
def f(v):
    for _ in range(n // 20): v = v.sin()
    return v
y = lucid.func.vmap(lambda v: lucid.func.jvp(f, (v,), (v,)))(x)
""",
    "the tape in batches": """
def f(v):
    for _ in range(n // 20): v = v.sin()
    return v
y = lucid.func.vmap(lucid.func.grad(f))(x)
""",
    "results of several": "y = x\nfor _ in range(n // 4): y = y.unbind()[0] + x",
    "a user's function": """
class G(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, v): ctx.save_for_backward(v); return v * 1
    @staticmethod
    def backward(ctx, g): return g
y = x
for _ in range(n // 10): y = G.apply(y)
""",
    "modules": """
y = lucid.nn.Module()
for _ in range(n // 10):
    z = lucid.nn.Module(); z.inner = y; y = z
del z
""",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_long_chains_are_freed(chain):
    program = f"""
import gc, lucid
x = lucid.tensor([1.0, 2.0], requires_grad=True)
n = 300_000
{CHAINS[chain]}
del y
gc.collect()
print("freed")
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.stdout == "freed\n", (result.returncode, result.stderr[-2000:])
