"""Hooks on all modules: where they run among those of one module, and that nothing is left of them."""

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.nn import module_hooks


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert module_hooks.Hooked._hooks is None


def test_they_run_before_those_of_the_module():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda m, a: seen.append("own pre"))
    layer.register_forward_hook(lambda m, a, o: seen.append("own"))
    layer.register_full_backward_hook(lambda m, i, o: seen.append("own backward"))
    layer.register_full_backward_pre_hook(lambda m, o: seen.append("own backward pre"))
    handles = [
        nn.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        nn.register_module_forward_hook(lambda m, a, o: seen.append("after")),
        nn.register_module_full_backward_hook(lambda m, i, o: seen.append("backward")),
        nn.register_module_full_backward_pre_hook(lambda m, o: seen.append("backward pre")),
    ]
    layer(lucid.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["pre", "own pre", "after", "own", "backward pre", "own backward pre", "backward", "own backward"]
    for handle in handles:
        handle.remove()
        handle.remove()
    seen.clear()
    layer(lucid.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["own pre", "own", "own backward pre", "own backward"]
    assert nn.Linear(2, 2)._hooks is None


def test_they_may_change_what_they_see():
    x = lucid.ones(3, requires_grad=True)
    with (
        nn.register_module_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        nn.register_module_forward_hook(lambda m, args, out: out + 1),
        nn.register_module_full_backward_hook(lambda m, gi, go: (gi[0] * 10,)),
    ):
        y = nn.ReLU()(x)
    np.testing.assert_array_equal(y.detach().numpy(), [3, 3, 3])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [20, 20, 20])


def test_keyword_arguments_and_errors():
    seen = []

    class Fails(nn.Module):
        def forward(self, x, *, scale=1):
            raise ValueError("no")

    with (
        nn.register_module_forward_pre_hook(lambda m, a, k: (a, {"scale": 3}), with_kwargs=True),
        nn.register_module_forward_hook(lambda m, a, k, o: seen.append((k, o)), with_kwargs=True, always_call=True),
        pytest.raises(ValueError, match="no"),
    ):
        Fails()(1)
    assert seen == [({"scale": 3}, None)]
    with pytest.raises(TypeError, match="callable"):
        nn.register_module_forward_hook(3)


def test_own_hooks_come_and_go_while_there_are_hooks_on_all():
    layer, seen = nn.Identity(), []
    with nn.register_module_forward_pre_hook(lambda m, a: seen.append("all")):
        with layer.register_forward_pre_hook(lambda m, a: seen.append("own")):
            layer(1)
        layer(1)
    layer(1)
    assert seen == ["all", "own", "all"]


def test_they_see_what_is_registered():
    seen = []
    kinds = ("parameter", "buffer", "module")
    handles = [
        getattr(nn, f"register_module_{kind}_registration_hook")(lambda m, n, v, kind=kind: seen.append((kind, n)))
        for kind in kinds
    ]
    net = nn.Sequential(nn.BatchNorm1d(2))
    net.register_parameter("none", None)
    net.register_buffer("scale", lucid.ones(2), persistent=False)
    net.scale = lucid.zeros(2)
    net._buffers["quietly"] = lucid.zeros(1)
    for handle in handles:
        handle.remove()
    net.later = nn.Linear(1, 1)
    statistics = [("buffer", n) for n in ("running_mean", "running_var", "num_batches_tracked")]
    affine = [("parameter", "weight"), ("parameter", "bias")]
    assert seen == [*affine, *statistics, ("module", "0"), ("buffer", "scale"), ("buffer", "scale")]


def test_they_may_change_what_is_registered():
    layer = nn.Module()
    with (
        nn.register_module_parameter_registration_hook(lambda m, n, p: nn.Parameter(p.detach(), requires_grad=False)),
        nn.register_module_buffer_registration_hook(lambda m, n, b: b if b is None else b + 1),
        nn.register_module_module_registration_hook(lambda m, n, below: nn.PReLU()),
    ):
        layer.weight = nn.Parameter(lucid.ones(2))
        layer.register_buffer("mean", lucid.zeros(2))
        layer.register_buffer("none", None)
        layer.below = nn.Linear(1, 1)
    assert not layer.weight.requires_grad and layer.mean.tolist() == [1, 1] and layer.none is None
    assert list(layer.state_dict()) == ["weight", "mean", "below.weight"]
    with pytest.raises(TypeError, match="callable"):
        nn.register_module_module_registration_hook(3)
