"""Pruning, folding of batch normalisation, and what is copied and skipped around the first values of modules."""

import copy
import doctest
import pickle

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.nn.utils import fusion, prune

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("module", [prune, fusion], ids=lambda m: m.__name__)
def test_examples_run(module):
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0


def linear(weight):
    layer = nn.Linear(len(weight[0]), len(weight), bias=False)
    layer.load_state_dict({"weight": lucid.tensor(weight)})
    return layer


W = [[1.0, -3.0, 0.2], [0.1, 2.0, -0.3]]


def test_the_least_are_pruned_and_train_no_more():
    layer = prune.l1_unstructured(linear(W), "weight", 2)
    np.testing.assert_array_equal(layer.weight_mask.numpy(), [[1, 1, 0], [0, 1, 1]])
    layer(lucid.ones(4, 3)).sum().backward()
    np.testing.assert_array_equal(layer.weight_orig.grad.numpy(), 4 * layer.weight_mask.numpy())
    optimizer = lucid.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.step()
    layer(lucid.ones(1, 3))
    want = np.array(W, np.float32) * layer.weight_mask.numpy() - 0.4 * layer.weight_mask.numpy()
    np.testing.assert_allclose(layer.weight.detach().numpy(), want, rtol=1e-6)


def test_pruned_again_among_what_is_left():
    layer = prune.l1_unstructured(linear(W), "weight", 0.5)
    prune.l1_unstructured(layer, "weight", 1 / 3)
    np.testing.assert_array_equal(layer.weight_mask.numpy(), [[0, 1, 0], [0, 1, 0]])
    prune.ln_structured(layer, "weight", 1, n=1, dim=0)
    np.testing.assert_array_equal(layer.weight_mask.numpy(), [[0, 1, 0], [0, 0, 0]])
    (hook,) = [h for _, h in prune._hooks(layer)]
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3


def test_remove_keeps_the_object_and_its_values():
    layer = linear(W)
    weight = layer.weight
    prune.custom_from_mask(layer, "weight", lucid.tensor([[1, 0, 1], [0, 1, 0]]))
    prune.remove(layer, "weight")
    assert layer.weight is weight and list(layer.state_dict()) == ["weight"]
    np.testing.assert_array_equal(layer.weight.detach().numpy(), np.array(W, np.float32) * [[1, 0, 1], [0, 1, 0]])
    with pytest.raises(ValueError, match="not pruned"):
        prune.remove(layer, "weight")


def test_states_copies_and_pickles_hold_masks():
    layer = prune.random_unstructured(linear(W), "weight", 3)
    other = prune.identity(linear(W), "weight")
    other.load_state_dict(layer.state_dict())
    x = lucid.rand(2, 3)
    with lucid.no_grad():
        layer(x)  # the product is a leaf then, which can be copied
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(same(x).detach().numpy(), layer(x).detach().numpy())
        assert prune.is_pruned(same)


@pytest.mark.parametrize("amount", [-1, 1.5, 7])
def test_amounts_that_make_no_sense(amount):
    with pytest.raises(ValueError, match="prune"):
        prune.l1_unstructured(linear(W), "weight", amount)
    with pytest.raises(TypeError, match="share"):
        prune.l1_unstructured(linear(W), "weight", "all")
    with pytest.raises(ValueError, match="no parameter 'other'"):
        prune.identity(linear(W), "other")


def test_global_scores_and_tensors_alone():
    a, b = linear(W), linear([[5.0, 0.01]])
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=3)
    np.testing.assert_array_equal(a.weight_mask.numpy(), [[1, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(b.weight_mask.numpy(), [[1, 0]])
    scores = lucid.tensor([[0.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    layer = prune.l1_unstructured(linear(W), "weight", 1, importance_scores=scores)
    assert layer.weight_mask[0, 0] == 0 and layer.weight_mask.sum() == 5
    assert prune.L1Unstructured(1).prune(lucid.tensor([3.0, 1.0])).tolist() == [3.0, 0.0]


def test_the_same_as_pytorch():
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.nn.utils.prune")
    values = np.random.RandomState(0).randn(5, 4, 3).astype(np.float32)
    steps = [
        ("l1_unstructured", {"amount": 0.2}), ("ln_structured", {"amount": 2, "n": 2, "dim": 1}),
        ("l1_unstructured", {"amount": 7}), ("ln_structured", {"amount": 0.5, "n": 1, "dim": 0}),
    ]  # fmt: skip
    ours, other = nn.Conv1d(4, 5, 3), torch.nn.Conv1d(4, 5, 3)
    with torch.no_grad():
        other.weight.copy_(torch.tensor(values))
    ours.load_state_dict({"weight": values}, strict=False)
    for name, options in steps:
        getattr(prune, name)(ours, "weight", **options)
        getattr(theirs, name)(other, "weight", **options)
        np.testing.assert_array_equal(ours.weight_mask.numpy(), other.weight_mask.numpy())
    assert list(ours.state_dict()) == list(other.state_dict())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d", "Linear"])
def test_folded_layers_compute_the_same(name, affine, bias):
    lucid.manual_seed(0)
    if name == "Linear":
        layer, bn, x = nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(4, affine=affine), lucid.rand(8, 3)
        fuse = fusion.fuse_linear_bn_eval
    else:
        layer, bn = getattr(nn, name)(3, 4, 2, bias=bias), nn.BatchNorm2d(4, affine=affine)
        x = lucid.rand(8, 3, 4, 4)

        def fuse(layer, bn):
            return fusion.fuse_conv_bn_eval(layer, bn, transpose="Transpose" in name)

    both = nn.Sequential(layer, bn)
    if affine:
        nn.init.normal_(bn.weight)
        nn.init.normal_(bn.bias)
    for _ in range(3):
        both(x)
    with pytest.raises(ValueError, match="eval"):
        fuse(layer, bn)
    both.eval()
    np.testing.assert_allclose(fuse(layer, bn)(x).detach().numpy(), both(x).detach().numpy(), rtol=2e-5, atol=2e-6)
    with pytest.raises(TypeError, match="batch normalisation"):
        fuse(layer, layer)


def test_skipped_and_copied_values():
    lucid.manual_seed(0)
    first = lucid.rand(2).tolist()
    lucid.manual_seed(0)
    layer = fusion.skip_init(nn.Linear, 3, 4)
    assert lucid.rand(2).tolist() == first and layer.weight.shape == (4, 3)
    fusion.copy_parameters_and_buffers(linear(W), other := linear([[0.0] * 3] * 2))
    assert other.weight.tolist() == linear(W).weight.tolist()
    with pytest.raises(KeyError, match="bias"):
        fusion.copy_parameters_and_buffers(nn.Linear(3, 2), other)
    with pytest.raises(ValueError, match="shape"):
        fusion.copy_parameters_and_buffers(linear([[1.0]]), other)
