"""Modules, optimizers, loaders and hints of `lucid.torch`."""

import copy
import pickle
import warnings

import lucid.torch.nn as nn
import lucid.torch.nn.functional as F
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.torch.tensors import Tensor


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        return self.body(x) * self.scale


def kinds(module):
    return {type(t) for t in (*module.parameters(), *module.buffers())}


def test_parameters_are_of_the_front_door():
    net = Net()
    assert kinds(net) == {Tensor} and all(isinstance(p, nn.Parameter) for p in net.parameters())
    net(torch.randn(4, 2)).sum().backward()
    assert {type(p.grad) for p in net.parameters()} == {Tensor}
    optimizer = torch.optim.Adam(net.parameters())
    optimizer.step()
    assert kinds(net) == {Tensor} and type((net.scale * 2).shape) is torch.Size
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), Net().double(), Net().requires_grad_(False)):
        assert kinds(made) == {Tensor} and all(isinstance(p, nn.Parameter) for p in made.parameters())
    state = net.state_dict()
    assert {type(t) for t in state.values()} == {Tensor}
    again = Net()
    again.load_state_dict(state)
    assert kinds(again) == {Tensor}


def test_classes_of_modules():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    assert kinds(layer) == {Tensor} and isinstance(layer.linear1, nn.Linear) and isinstance(layer, nn.Module)
    assert issubclass(nn.Linear, nn.Module) and issubclass(nn.Linear, lucid.nn.Linear)
    assert not isinstance(nn.ReLU(), nn.Linear) and not isinstance(layer, Net) and not isinstance(1, nn.Module)
    # A layer that Lucid itself made is one of PyTorch's from when a module has it, and so are those below it.
    made = nn.Sequential(lucid.nn.Sequential(lucid.nn.Linear(1, 1)))
    assert isinstance(made[0], nn.Sequential) and isinstance(made[0][0], nn.Linear) and kinds(made) == {Tensor}

    class Own(nn.Linear):
        pass

    own = Own(2, 2)
    assert isinstance(own, nn.Linear) and not isinstance(nn.Linear(2, 2), Own) and kinds(own) == {Tensor}
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert type(lucid.nn.Linear(2, 2).weight) is lucid.Tensor  # Lucid's own are as they were


@pytest.mark.parametrize("name", [n for n in dir(nn) if isinstance(getattr(nn, n), type)])
def test_each_class_is_derived(name):
    found = getattr(nn, name)
    if issubclass(found, lucid.nn.Module) and hasattr(lucid.nn, name):
        assert issubclass(found, getattr(lucid.nn, name)) and found is getattr(nn.modules, name)
        assert found.__module__ == "lucid.torch.nn" and found.__name__ == getattr(lucid.nn, name).__name__


def test_data_parallel_and_attention():
    net = nn.DataParallel(nn.Linear(2, 1))
    x = torch.ones(3, 2)
    assert net(x).equal(net.module(x)) and list(net.state_dict()) == ["module.weight", "module.bias"]
    from lucid.torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert F.scaled_dot_product_attention(*torch.randn(3, 1, 2, 4)).shape == (1, 2, 4)


def test_loader():
    data = torch.utils.data.TensorDataset(torch.arange(4.0), torch.arange(4))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=0)
    assert [[type(t) for t in batch] for batch in loader] == [[Tensor, Tensor]] * 2
    rows = [{"x": np.ones(2), "y": 1}] * 2
    (batch,) = torch.utils.data.DataLoader(rows, batch_size=2)
    assert type(batch["x"]) is type(batch["y"]) is Tensor
    assert pickle.loads(pickle.dumps(loader.collate_fn)) is torch.utils.data.default_collate


def test_checkpointed_segments_give_the_same_gradients():
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(5)]).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(layers(x).sum(), [x, *layers.parameters()])
    from lucid.torch.utils.checkpoint import checkpoint_sequential

    for segments in (1, 2, 5):
        out = checkpoint_sequential(layers, segments, x, use_reentrant=False)
        for a, b in zip(torch.autograd.grad(out.sum(), [x, *layers.parameters()]), wanted, strict=True):
            torch.testing.assert_close(a, b)
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(layers, 6, x)


def test_questions_about_accelerators():
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.backends.mps.is_available()
    assert not torch.backends.cudnn.is_available() and torch.version.cuda is None
    torch.backends.cudnn.benchmark = True
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == 0
    for call in (lambda: torch.device("cuda"), torch.ones(1).cuda, lambda: torch.ones(1, device="cuda:0")):
        with pytest.raises(ValueError, match="no backend for accelerators"):
            call()
    with pytest.raises(ValueError, match="no backend for accelerators"):
        nn.Linear(1, 1).to("cuda")
    with pytest.raises(RuntimeError, match="on the CPU"):
        torch.cuda.get_device_name(0)
    assert torch.device(type="cpu") == torch.ones(1).device and isinstance(torch.ones(1).device, torch.device)
    with torch.device("cpu"):
        assert torch.ones(1).device.type == "cpu"
    torch.set_default_device("cpu")


def test_mixed_precision():
    with torch.autocast("cuda", dtype=torch.float16, enabled=False):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    with torch.cuda.amp.autocast(enabled=False):
        pass
    for call in (
        lambda: torch.autocast("cuda"),
        torch.cuda.amp.autocast,
        torch.amp.GradScaler,
        torch.cuda.amp.GradScaler,
    ):
        with pytest.raises(RuntimeError, match="not available"):
            call()
    x = leaf(1.0)
    optimizer = torch.optim.SGD([x], lr=0.5)
    scaler = torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available())
    scaler.scale(x.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert x.item() == 0.5

    @torch.cuda.amp.autocast(enabled=False)
    def f(a):
        return a @ a

    assert f(torch.ones(2, 2)).dtype is torch.float32


def test_hints():
    torch.use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    with pytest.raises(ValueError, match="precision"):
        torch.set_float32_matmul_precision("low")
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype is torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def test_jit_passes_through_with_one_warning(monkeypatch):
    from lucid.torch import hints

    monkeypatch.setitem(hints._settings, "warned", False)
    with pytest.warns(UserWarning, match="compile nothing"):
        assert torch.jit.script(len) is len
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = nn.Linear(1, 1)
        assert torch.jit.trace(net, torch.ones(1, 1)) is net and torch.jit.ignore(len) is len
    assert not torch.jit.is_scripting()


def test_pytrees_and_comparison():
    from lucid.torch.utils import _pytree as pytree

    nest = {"a": torch.ones(1), "b": [1, (2.0, None)]}
    leaves, spec = pytree.tree_flatten(nest)
    assert pytree.tree_unflatten(leaves, spec) == nest and pytree.tree_leaves(nest) == leaves
    assert pytree.tree_map_only(int, lambda n: n + 1, [1, "x"]) == [2, "x"]
    close = torch.testing.assert_close
    close([torch.ones(2), {"k": 1.0}], [torch.ones(2), {"k": 1.0}])
    close(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), equal_nan=True)
    wrong = [
        (torch.ones(2), torch.ones(3), "shape"),
        (torch.ones(2), torch.ones(2).double(), "dtype"),
        (torch.ones(2), torch.ones(2) + 1e-3, "2 of 2 elements"),
        (torch.arange(2), torch.arange(2) + 1, "not close"),
        ([torch.ones(1)], [torch.ones(1) * 2], r"\[0\]"),
        ({"a": 1}, {"b": 1}, "keys"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), "not close"),
    ]
    for a, b, message in wrong:
        with pytest.raises(AssertionError, match=message):
            close(a, b)
    close(torch.ones(2), torch.ones(2) + 1e-3, rtol=0, atol=1e-2)


def test_hooks_of_the_older_form_are_pickled():
    net = torch.nn.Linear(2, 1)
    net._register_load_state_dict_pre_hook(_renames)
    twin = pickle.loads(pickle.dumps(net))
    twin.load_state_dict({"w": torch.ones(1, 2), "bias": torch.zeros(1)})
    assert twin.weight.tolist() == [[1, 1]]


def _renames(state, prefix, *rest):
    state["weight"] = state.pop("w")


class Noticing(type):
    """A class of classes, as some packages have one for their modules."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.noticed = True
        return made


def test_modules_may_have_a_class_of_classes():
    class Layer(nn.Module, metaclass=Noticing):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("mean", lucid.zeros(2))

    layer = Layer()
    assert layer.noticed and kinds(layer) == {Tensor} and type(layer.mean) is Tensor
    assert [type(v) for v in layer.state_dict().values()] == [Tensor] * 2


def test_states_of_pytorch_are_taken_over_by_schedules():
    # As torch.optim.lr_scheduler.ConstantLR(...).state_dict() gives it.
    state = {
        "factor": 0.5,
        "total_iters": 3,
        "base_lrs": [1.0],
        "last_epoch": 1,
        "_step_count": 2,
        "_is_initial": False,
    }
    optimizer = torch.optim.SGD([leaf(1.0)], lr=0.5)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=1)
    optimizer.param_groups[0]["lr"] = 0.5
    schedule.load_state_dict({**state, "_get_lr_called_within_step": False, "_last_lr": [0.5]})
    rates = []
    for _ in range(3):
        schedule.step()
        rates += schedule.get_last_lr()
    assert rates == [0.5, 1.0, 1.0] and schedule.state_dict()["factor"] == 0.5


def test_containers_and_optimizers_print_as_in_pytorch():
    held = nn.ParameterList([torch.ones(2), torch.zeros(2, 3)])
    assert repr(held) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2]\n"
        "    (1): Parameter containing: [torch.float32 of size 2x3]\n)"
    )
    assert repr(torch.optim.Rprop([{"params": [leaf(1.0)]}, {"params": [leaf(2.0)], "lr": 1}], lr=0.5)) == (
        "Rprop (\nParameter Group 0\n    capturable: False\n    differentiable: False\n    etas: (0.5, 1.2)\n    foreach: None\n"
        "    lr: 0.5\n    maximize: False\n    step_sizes: (1e-06, 50)\n\nParameter Group 1\n    capturable: False\n"
        "    differentiable: False\n    etas: (0.5, 1.2)\n    foreach: None\n    lr: 1\n    maximize: False\n"
        "    step_sizes: (1e-06, 50)\n)"
    )
    layers = nn.Sequential(nn.ReLU()).insert(0, nn.Tanh()).append(nn.GELU())
    assert [type(layer).__name__ for layer in layers] == ["Tanh", "ReLU", "GELU"]
    layer = nn.Module()
    layer.register_buffer("kept", torch.ones(1))
    layer.register_buffer("lost", torch.ones(1), persistent=False)
    assert layer._non_persistent_buffers_set == {"lost"}


def test_replicas_have_their_samples():
    sampler = torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    assert list(sampler) == [1, 3, 0]


def test_lazy_layers_as_pytorch_has_them():
    assert repr(torch.nn.LazyLinear(2)) == "LazyLinear(in_features=0, out_features=2, bias=True)"
    for affine, layer in (
        (True, torch.nn.LazyInstanceNorm1d()),
        (False, torch.nn.LazyInstanceNorm1d(1e-5, 0.1, False)),
    ):
        layer(torch.ones(2, 4, 8))
        assert layer.num_features == 4 and layer.affine is affine and layer.track_running_stats
    assert torch.nn.LazyBatchNorm2d(affine=False).weight is None


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "ASGD", "Adafactor", "Adagrad", "LBFGS", "Muon", "NAdam", "RMSprop", "Rprop", "SGD"]
)
def test_states_of_optimizers_are_of_the_front_door(name):
    layer = nn.Linear(2, 2, bias=False)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)(layer.parameters(), lr=0.1, **options)

    def closure():
        optimizer.zero_grad()
        loss = layer(torch.ones(1, 2)).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(2):
        closure()
        optimizer.step(closure)
    (state,) = optimizer.state_dict()["state"].values()
    tensors = [t for v in state.values() for t in (v if isinstance(v, list) else [v]) if isinstance(t, torch.Tensor)]
    assert tensors and {type(t) for t in tensors} == {Tensor}


def test_older_arguments_of_losses():
    x, y, classes = torch.tensor([[0.2, 0.8], [0.5, 0.1]]), torch.tensor([[0.3, 0.6], [0.1, 0.2]]), torch.tensor([0, 1])
    total = F.mse_loss(x, y, reduction="sum")
    for found in (
        F.mse_loss(x, y, size_average=False),
        F.mse_loss(x, y, None, None, "sum"),
        F.mse_loss(x, y, False, True),
        nn.MSELoss(size_average=False)(x, y),
        nn.MSELoss(False)(x, y),
        nn.MSELoss(reduction="sum")(x, y),
    ):
        assert torch.equal(found, total)
    assert nn.MSELoss(reduce=False)(x, y).shape == (2, 2) and nn.L1Loss(True, True).reduction == "mean"
    weight = torch.tensor([1.0, 2.0])
    wanted = F.cross_entropy(x, classes, weight, ignore_index=1, reduction="sum", label_smoothing=0.1)
    assert torch.equal(F.cross_entropy(x, classes, weight, None, 1, None, "sum", 0.1), wanted)
    assert torch.equal(nn.CrossEntropyLoss(weight, False, 1, None, "mean", 0.1)(x, classes), wanted)
    assert torch.equal(F.kl_div(x, y, None, None, "batchmean", True), nn.KLDivLoss(None, None, "batchmean", True)(x, y))
    found = F.triplet_margin_loss(x, y, x + 1, 1.0, 2, 1e-6, False, None, None, "sum")
    assert torch.equal(found, nn.TripletMarginLoss(1.0, 2, 1e-6, False, False)(x, y, x + 1))

    class Doubled(nn.L1Loss):
        def __init__(self, size_average=None, reduce=None, reduction="mean"):
            super().__init__(size_average, reduce, reduction)

        def forward(self, input, target):
            return 2 * super().forward(input, target)

    assert torch.equal(Doubled(size_average=False)(x, y), 2 * F.l1_loss(x, y, reduction="sum"))
    with pytest.raises(TypeError, match="multiple values for reduction"):
        F.mse_loss(x, y, None, None, "sum", reduction="mean")
    with pytest.raises(TypeError, match="at most 5"):
        F.soft_margin_loss(x, y, None, None, "sum", 1)


def test_dicts_of_parameters_are_in_order_of_names():
    one, two = torch.ones(1), torch.zeros(2)
    assert (
        list(nn.ParameterDict({"b": one, "a": two}))
        == ["a", "b"]
        == list(nn.ParameterDict({"b": one, "a": two}).copy())
    )
    assert list(nn.ParameterDict([("b", one), ("a", two)])) == ["b", "a"]
    assert list(nn.ModuleDict({"b": nn.ReLU(), "a": nn.ReLU()})) == ["b", "a"]
