"""Lazy layers: sizes from the first input or from a state, and the same objects before and after."""

import copy
import doctest
import inspect
import pickle

import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid import nn
from lucid.nn.layers import lazy
from lucid.nn.parameter import is_lazy

SHAPES = {
    "Linear": (5, 3), "Conv1d": (2, 3, 8), "Conv2d": (2, 3, 8, 8), "Conv3d": (2, 3, 4, 4, 4),
    "ConvTranspose1d": (2, 3, 8), "ConvTranspose2d": (2, 3, 4, 4), "ConvTranspose3d": (2, 3, 2, 2, 2),
    "BatchNorm1d": (4, 3), "BatchNorm2d": (4, 3, 2, 2), "BatchNorm3d": (4, 3, 2, 2, 2),
    "InstanceNorm1d": (4, 3, 5), "InstanceNorm2d": (4, 3, 2, 5), "InstanceNorm3d": (4, 3, 2, 5, 2),
}  # fmt: skip
NAMES = list(SHAPES)


def arguments(name):
    return (2,) if name == "Linear" else (4, 3) if "Conv" in name else ()


def options(name):
    return (
        {"affine": True, "track_running_stats": True} if "Instance" in name else {"groups": 1} if "Conv" in name else {}
    )


def pair(name, library=nn):
    eager, waiting = getattr(library, name), getattr(library, f"Lazy{name}")
    lucid.manual_seed(0)
    made = waiting(*arguments(name), **options(name))
    lucid.manual_seed(0)
    return eager(3, *arguments(name), **options(name)), made


def test_examples_run():
    assert doctest.testmod(lazy, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
    assert set(NAMES) == {n.removeprefix("Lazy") for n in lazy.__all__ if n != "LazyModuleMixin"}


@pytest.mark.parametrize("library", [nn, torch.nn], ids=["lucid", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_input_tells_the_size(name, library):
    eager, layer = pair(name, library)
    waiting = dict(layer.named_parameters())
    assert layer.has_uninitialized_params() and all(map(is_lazy, waiting.values()))
    assert layer.state_dict().keys() <= {"num_batches_tracked"}
    x = lucid.rand(SHAPES[name])
    lucid.manual_seed(0)
    eager = getattr(library, name)(3, *arguments(name), **options(name))
    lucid.manual_seed(0)
    found = layer(x)
    assert type(layer) is getattr(library, name) and repr(layer) == repr(eager)
    assert all(waiting[k] is p and isinstance(p, nn.Parameter) for k, p in layer.named_parameters())
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == {
        k: tuple(v.shape) for k, v in eager.state_dict().items()
    }
    np.testing.assert_array_equal(found.detach().numpy(), eager(x).detach().numpy())
    assert all(type(p) is type(q) for p, q in zip(layer.parameters(), eager.parameters(), strict=True))


@pytest.mark.parametrize("library", [nn, torch.nn], ids=["lucid", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_a_state_tells_the_size(name, library):
    eager, layer = pair(name, library)
    layer.load_state_dict(eager.state_dict())
    assert type(layer) is type(eager)
    for key, value in eager.state_dict().items():
        np.testing.assert_array_equal(layer.state_dict()[key].numpy(), value.numpy())


def test_a_state_that_does_not_fit_changes_nothing():
    layer = nn.LazyLinear(2)
    with pytest.raises(RuntimeError, match="size mismatch for weight: the shape in the state"):
        layer.load_state_dict(nn.Linear(3, 4).state_dict())
    assert type(layer) is nn.LazyLinear and layer.has_uninitialized_params()


def test_an_optimizer_made_before_trains_them():
    model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(1))
    optimizer = lucid.optim.SGD(model.parameters(), lr=0.1)
    x = lucid.rand(16, 3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_settings_before_the_first_call_stay():
    layer = nn.LazyLinear(2).double().eval()
    layer.requires_grad_(False)
    layer(lucid.rand(4, 3, dtype=lucid.float64))
    assert layer.weight.dtype is lucid.float64 and not layer.training and not layer.weight.requires_grad


def test_another_size_later_is_an_error():
    layer = nn.LazyLinear(2)
    layer(lucid.rand(4, 3))
    with pytest.raises((RuntimeError, ValueError)):
        layer(lucid.rand(4, 5))


def test_copies_and_pickles_wait_too():
    layer = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d())
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other[0].has_uninitialized_params() and other[1].has_uninitialized_params()
        assert other(lucid.rand(4, 3)).shape == (4, 2)
    assert layer[0].has_uninitialized_params()


def test_without_parameters_there_is_nothing_to_wait_for():
    layer = nn.LazyInstanceNorm1d()
    assert not layer.has_uninitialized_params()
    layer(lucid.rand(4, 3, 5))
    assert type(layer) is nn.InstanceNorm1d and layer.num_features == 3
    layer = nn.LazyLinear(2, bias=False)
    assert layer.bias is None and layer.has_uninitialized_params()


def test_signatures_lack_the_size():
    assert list(inspect.signature(nn.LazyLinear).parameters) == ["out_features", "bias", "device", "dtype"]
    assert list(inspect.signature(nn.LazyConv2d).parameters)[:2] == ["out_channels", "kernel_size"]


def test_unmaterialized_tensors_print():
    layer = nn.LazyLinear(2)
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert repr(layer) == "LazyLinear(in_features=None, out_features=2, bias=True)"


@pytest.mark.parametrize("library", [lucid, torch], ids=["lucid", "torch"])
def test_nothing_is_computed_of_what_has_no_shape(library):
    layer = library.nn.LazyLinear(3)
    weight, x = layer.weight, library.ones(2, 2)
    computed = [
        lambda: weight + 1, lambda: 1 - weight, lambda: weight * weight, lambda: x @ weight, lambda: weight.exp(),
        lambda: weight.sum(), lambda: weight[0:], lambda: weight.reshape(-1), lambda: library.cat([weight, weight]),
        lambda: weight.clone(), lambda: library.nn.functional.linear(x, weight), lambda: weight == 0,
        lambda: library.nn.LazyBatchNorm1d().running_mean + 1,
    ]  # fmt: skip
    for compute in computed:
        with pytest.raises(ValueError):
            compute()
    with pytest.raises(ValueError, match="uninitialized"):
        weight + 1
    layer.double()
    assert weight is layer.weight and is_lazy(weight) and weight.dtype == library.float64 and weight.requires_grad
    assert layer(x.double()).shape == (2, 3) and (layer.weight + 1).shape == (3, 2) and layer.weight is weight
