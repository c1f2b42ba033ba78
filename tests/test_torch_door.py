"""`lucid.torch`: PyTorch's names and conventions over the same engine."""

import argparse
import contextlib
import copy
import doctest
import importlib
import io
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import lucid.torch.nn as nn
import lucid.torch.nn.functional as F
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.checkpoints import CheckpointError
from lucid.torch import making, namespaces
from lucid.torch.tensors import Tensor

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FILES = sorted(p.stem for p in (ROOT / "lucid" / "torch").glob("*.py") if p.stem not in ("__main__", "__init__"))


@pytest.mark.parametrize("name", ["lucid.torch", *(f"lucid.torch.{stem}" for stem in FILES)])
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=OPTIONS).failed == 0


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


# --- names -----------------------------------------------------------------------------------------


def test_every_name_of_lucid_is_there():
    missing = [
        n
        for n in lucid.__all__
        if n not in ("array_api", "data", "einops", "kernels", "profiler") and not hasattr(torch, n)
    ]
    assert missing == []
    assert set(dir(torch)) == set(torch.__all__)
    assert all(getattr(torch, n) is not None or n == "newaxis" for n in torch.__all__)


def test_operations_are_those_of_lucid():
    """No second mathematics, and no call in between."""
    for name in ("mul", "exp", "matmul", "sum", "cat", "where", "softmax"):
        assert getattr(torch, name) is getattr(lucid, name)
    assert F.linear is lucid.nn.functional.linear and torch.linalg.svd is lucid.linalg.svd
    assert torch.optim.Adam is lucid.optim.Adam


@pytest.mark.parametrize("path", sorted(namespaces.PATHS))
def test_paths_can_be_imported(path):
    module = importlib.import_module(f"lucid.torch.{path}")
    for name in dir(module):
        getattr(module, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        module.nonsense  # noqa: B018  # asking is the test
    parent = importlib.import_module(f"lucid.torch.{path}".rpartition(".")[0])
    named = getattr(parent, path.rpartition(".")[2])
    assert callable(named) if path in namespaces.FUNCTIONS else named is module


def test_imports_as_programs_write_them():
    from lucid.torch.autograd import Variable
    from lucid.torch.cuda.amp import GradScaler, autocast
    from lucid.torch.nn.modules.batchnorm import BatchNorm2d
    from lucid.torch.nn.parameter import Parameter
    from lucid.torch.nn.utils.rnn import pack_padded_sequence
    from lucid.torch.optim.lr_scheduler import StepLR
    from lucid.torch.utils.checkpoint import checkpoint
    from lucid.torch.utils.data import DataLoader, Dataset

    from lucid.torch import nn as again

    assert again is nn and BatchNorm2d is nn.BatchNorm2d and Parameter is nn.Parameter
    assert all(map(callable, (Variable, GradScaler, autocast, pack_padded_sequence, StepLR, checkpoint, DataLoader)))
    assert isinstance(Dataset, type)


def test_modules_that_programs_import():
    """Paths behind the public names, which training scripts import all the same."""
    import lucid.torch.backends.cudnn as cudnn
    import lucid.torch.multiprocessing as mp
    from lucid.torch.autograd import gradcheck
    from lucid.torch.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
    from lucid.torch.nn.modules.batchnorm import _NormBase
    from lucid.torch.nn.modules.loss import _Loss, _WeightedLoss
    from lucid.torch.nn.modules.utils import _pair, _reverse_repeat_tuple, _triple
    from lucid.torch.nn.utils import spectral_norm
    from lucid.torch.types import Device, Number
    from lucid.torch.utils.data.distributed import DistributedSampler

    cudnn.benchmark = True
    assert torch.backends.cudnn is cudnn and torch.backends.cudnn.benchmark and not cudnn.is_available()
    cudnn.benchmark = False
    with cudnn.flags(enabled=False), torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert torch.backends.cuda.matmul.allow_tf32 is False
    assert mp.get_context("spawn") is not None and mp.set_sharing_strategy("file_system") is None
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert (
        gradcheck(torch.exp, (x,)) and torch.autograd.gradcheck is gradcheck and spectral_norm is nn.utils.spectral_norm
    )
    assert _pair(2) == (2, 2) and _triple((1, 2, 3)) == (1, 2, 3) and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert isinstance(nn.BatchNorm2d(2), _NormBase) and Number and Device and DistributedSampler
    a, b = broadcast_all(torch.ones(2), 3.0)
    assert b.tolist() == [3.0, 3.0] and type(b) is Tensor and a.dtype == b.dtype
    with pytest.raises(ValueError, match="Number"):
        broadcast_all("a")
    p = torch.tensor([[0.2, 0.8]])
    for is_binary in (True, False):
        assert torch.allclose(logits_to_probs(probs_to_logits(p, is_binary), is_binary), p)

    class Squared:
        calls = 0

        @lazy_property
        def value(self):
            Squared.calls += 1
            return torch.tensor(4.0)

    squared = Squared()
    assert squared.value == squared.value and Squared.calls == 1

    class Scaled(_WeightedLoss):
        def forward(self, x):
            return getattr(x * self.weight, self.reduction)()

    loss = Scaled(torch.tensor([1.0, 3.0]), reduction="sum")
    assert isinstance(loss, _Loss) and loss(torch.ones(2)) == 4 and list(loss.state_dict()) == ["weight"]


def test_profiling(tmp_path):
    from lucid.torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof, record_function("forward"):
        torch.ones(4, 4) @ torch.ones(4, 4)
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    assert (
        "forward" in table and "contract" in table and prof.key_averages().total_average().count == len(prof.events())
    )
    plan = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(schedule=plan, on_trace_ready=tensorboard_trace_handler(str(tmp_path))) as prof:
        for _ in range(5):
            torch.ones(2).exp()
            prof.step()
    assert len(list(tmp_path.iterdir())) == 1 and [e.name for e in prof.events()] == ["exp"]


def _note(place, folder):
    (folder / str(place)).write_text(str(torch.ones(place + 1).sum().item()))


def _fail(place):
    raise SystemExit(3)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX says so, where another test has imported it
def test_processes_are_spawned(tmp_path):
    torch.multiprocessing.spawn(_note, (tmp_path,), nprocs=2, start_method="fork")
    assert sorted(p.read_text() for p in tmp_path.iterdir()) == ["1.0", "2.0"]
    with pytest.raises(RuntimeError, match="exit code 3"):
        torch.multiprocessing.spawn(_fail, nprocs=2, start_method="fork")


PRINTED = [
    (lambda: torch.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
    (lambda: torch.tensor([1.0, -200.0]), "tensor([   1., -200.])"),
    (lambda: torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: torch.tensor([float("nan"), float("inf"), 0.0]), "tensor([nan, inf, 0.])"),
    (lambda: torch.tensor([[True], [False]]), "tensor([[ True],\n        [False]])"),
    (lambda: torch.tensor(1 - 2.5j), "tensor(1.-2.5000j)"),
    (lambda: torch.zeros(0, 3, dtype=torch.int64), "tensor([], size=(0, 3), dtype=torch.int64)"),
    (lambda: torch.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (lambda: torch.ones(2, dtype=torch.bfloat16), "tensor([1., 1.], dtype=torch.bfloat16)"),
    (lambda: nn.Parameter(torch.ones(1)), "Parameter containing:\ntensor([1.], requires_grad=True)"),
    (
        lambda: torch.full((7,), 0.25, requires_grad=True),
        "tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500],\n       requires_grad=True)",
    ),
]


@pytest.mark.parametrize("make, text", PRINTED, ids=[text.replace("\n", " ") for _, text in PRINTED])
def test_tensors_print_as_in_pytorch(make, text):
    assert repr(make()) == text


def test_numbers_are_formatted_as_such():
    loss = torch.tensor(0.5, requires_grad=True)
    assert f"{loss} {loss:.3f} {loss * 3}" == "0.5 0.500 1.5" and f"{torch.ones(2)}" == "tensor([1., 1.])"


def test_former_names():
    for name in ("uniform", "xavier_normal", "orthogonal", "eye"):
        assert getattr(nn.init, name) is getattr(lucid.nn.init, f"{name}_")
    assert nn.utils.clip_grad_norm([leaf(1.0)], 1.0).item() == 0


def test_what_is_not_there_says_why():
    with pytest.raises(AttributeError, match="downloaded"):
        torch.hub.download_url_to_file  # noqa: B018  # asking is the test
    with pytest.raises(RuntimeError, match=r"put https://example.org/a.pth at .*a\.pth"):
        torch.hub.load_state_dict_from_url("https://example.org/a.pth")
    assert not hasattr(torch, "onnx")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lucid.torch.nn.nonsense")


def test_hooks_by_their_older_names():
    layer = nn.Linear(2, 2)
    layer._register_state_dict_hook(
        lambda module, state, prefix, metadata: {prefix + "weight": state[prefix + "weight"]}
    )
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *_: state.update({prefix + "bias": torch.ones(2)}))
    assert list(layer.state_dict()) == ["weight"]
    assert layer.load_state_dict(layer.state_dict()).missing_keys == [] and layer.bias.tolist() == [1.0, 1.0]
    layer.register_forward_hook(lambda module, args, output: output * 0)
    assert len(layer._forward_hooks) == 1 and not layer._forward_pre_hooks and not layer._backward_hooks
    layer._forward_hooks.clear()
    assert layer(torch.ones(1, 2)).any()


def test_functions_of_the_first_namespace():
    x = torch.arange(12.0).reshape(6, 2).requires_grad_()
    for lengths, offsets in ((torch.tensor([2, 0, 4]), None), (None, torch.tensor([0, 2, 2, 6]))):
        for reduce, first in (("sum", 2.0), ("mean", 1.0), ("max", 2.0), ("min", 0.0), ("prod", 0.0)):
            found = torch.segment_reduce(x, reduce, lengths=lengths, offsets=offsets)
            assert found.shape == (3, 2) and found[0, 0] == first and type(found) is Tensor
    torch.segment_reduce(x, "max", lengths=torch.tensor([2, 4])).sum().backward()
    assert x.grad[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert torch.segment_reduce(x, "sum", lengths=torch.tensor([6]), initial=1.0).tolist() == [[31.0, 37.0]]
    matrix = torch.randn(6, 4)
    u, s, v = torch.svd_lowrank(matrix, q=4)
    assert torch.allclose(u @ torch.diag(s) @ v.T, matrix, atol=1e-5) and torch.pca_lowrank(matrix, q=2)[2].shape == (
        4,
        2,
    )
    assert (
        type(torch.bincount(torch.tensor([0, 1]))) is Tensor
        and repr(torch.broadcast_shapes((1,), (2,))) == "torch.Size([2])"
    )
    with torch.autocast("cpu"):
        assert repr(torch.get_autocast_dtype("cpu")) == "torch.bfloat16"


def test_what_is_caught():
    """Errors are of the kind that programs for PyTorch catch, and of the kind that those for NumPy do."""
    cases = [
        (lambda: torch.einsum("ij->k", torch.ones(2, 2)), ValueError),
        (lambda: torch.device("cuda"), ValueError),
        (lambda: torch.arange(0, 5, -1), ValueError),
        (lambda: F.binary_cross_entropy(torch.tensor([2.0]), torch.ones(1)), ValueError),
        (lambda: torch.func.grad(lambda x: x)(torch.ones(2)), ValueError),
        (lambda: F.linear(torch.ones(1, 2).double(), torch.ones(2, 2)), TypeError),
        (lambda: F.embedding(torch.ones(1), torch.ones(2, 2)), TypeError),
        (lambda: torch.ones(2).gather(0, torch.tensor([5])), IndexError),
        (lambda: torch.ones(0).max(), IndexError),
    ]
    for call, kind in cases:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert isinstance(caught.value, kind)


def test_processes():
    assert torch.distributed.is_available() and not torch.distributed.is_initialized()
    torch.distributed.init_process_group("single")
    try:
        x = torch.ones(2)
        torch.distributed.all_reduce(x, torch.distributed.ReduceOp.SUM)
        assert torch.distributed.get_rank() == 0 and x.tolist() == [1.0, 1.0]
        (y,) = torch.distributed.nn.functional.all_gather(x.requires_grad_())
        y.sum().backward()
        assert type(y) is torch.Tensor and x.grad.tolist() == [1.0, 1.0]
    finally:
        torch.distributed.destroy_process_group()


def test_distributions_belong_to_the_front_door():
    distributions = torch.distributions
    normal = distributions.Normal(0.0, 1.0)
    for found in (
        normal.loc,
        normal.sample((2,)),
        distributions.LogNormal(0.0, 1.0).mean,
        distributions.Cauchy(0.0, 1.0).mean,
    ):
        assert type(found) is Tensor
    assert repr(normal) == "Normal(loc: 0.0, scale: 1.0)" and repr(normal.expand((3,)).batch_shape) == "torch.Size([3])"
    assert isinstance(lucid.distributions.Normal(0.0, 1.0), distributions.Normal) and issubclass(
        distributions.Normal, distributions.Distribution
    )
    assert type(pickle.loads(pickle.dumps(normal))) is distributions.Normal
    assert distributions.kl_divergence(normal, distributions.Normal(1.0, 1.0)) == 0.5

    class Own(distributions.Distribution):
        arg_constraints = MappingProxyType({"rate": distributions.constraints.positive})

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        def rsample(self, sample_shape=()):
            return torch.rand(self._extended_shape(sample_shape)) / self.rate

    @distributions.register_kl(Own, distributions.Normal)
    def _(p, q):
        return p.rate

    own = Own(torch.ones(3))
    assert own.rsample((2,)).shape == (2, 3) and distributions.kl_divergence(own, normal).shape == (3,)
    with pytest.raises(ValueError, match="rate"):
        Own(-torch.ones(1))


# --- tensors ---------------------------------------------------------------------------------------

MADE = {
    "tensor": lambda: torch.tensor([1.0]),
    "as_tensor": lambda: torch.as_tensor([1.0]),
    "from_numpy": lambda: torch.from_numpy(np.ones(2)),
    "zeros": lambda: torch.zeros(2, layout=torch.strided, pin_memory=False),
    "empty": lambda: torch.empty(2, memory_format=torch.contiguous_format),
    "full": lambda: torch.full((2,), 1.0),
    "arange": lambda: torch.arange(3),
    "linspace": lambda: torch.linspace(0, 1, 3),
    "eye": lambda: torch.eye(2),
    "rand": lambda: torch.rand(2),
    "randn": lambda: torch.randn(2, 3),
    "randint": lambda: torch.randint(0, 3, (2,)),
    "randperm": lambda: torch.randperm(3),
    "normal": lambda: torch.normal(0.0, 1.0, (2,)),
    "hann_window": lambda: torch.hann_window(4),
    "tril_indices": lambda: torch.tril_indices(2, 2),
    "empty_strided": lambda: torch.empty_strided((2, 2), (2, 1)),
    "fftfreq": lambda: torch.fft.fftfreq(4),
    "Tensor": lambda: torch.Tensor(2, 3),
    "FloatTensor": lambda: torch.FloatTensor([1, 2]),
    "bernoulli": lambda: torch.bernoulli(torch.full((2,), 0.5)),
    "new_zeros": lambda: torch.ones(1).new_zeros(2),
    "new_tensor": lambda: torch.ones(1).new_tensor([1]),
    "rand_like": lambda: torch.rand_like(torch.ones(2)),
    "zeros_like": lambda: torch.zeros_like(torch.ones(2), memory_format=torch.preserve_format),
    "Parameter": lambda: nn.Parameter(torch.ones(2)),
    "multinomial": lambda: torch.multinomial(torch.ones(3), 2),
    "complex": lambda: torch.complex(torch.ones(1), torch.ones(1)),
    "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_([leaf(1.0)], 1.0),
    "view as another type": lambda: torch.ones(2).view(torch.int32),
    "pad_sequence": lambda: nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)]),
    "one_hot": lambda: F.one_hot(torch.tensor([1])),
    "collated": lambda: torch.utils.data.default_collate([1, 2]),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_of_the_front_door(name):
    assert type(MADE[name]()) is Tensor


def test_functions_that_make_tensors_are_known():
    """Each function of the table that needs no tensor is adapted, and all that are listed exist."""
    adapted = {n for n in lucid.__all__ if making.makes(getattr(lucid, n))}
    assert {n for n in adapted if getattr(torch, n) is getattr(lucid, n)} == set()
    assert {"zeros", "rand", "hann_window", "from_dlpack"} <= adapted
    assert adapted.isdisjoint({"add", "cat", "matmul"})


def test_legacy_constructors():
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor([1, 2]).dtype is torch.float32
    assert torch.Tensor().shape == (0,) and torch.Tensor(torch.Size([4])).shape == (4,)
    assert torch.LongTensor([1.0, 2.0]).tolist() == [1, 2] and torch.DoubleTensor(3).dtype is torch.float64
    x = torch.ones(2)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert x.type() == "torch.FloatTensor" and x.type("torch.LongTensor").dtype is torch.int64
    assert x.type(torch.float64).dtype is x.type(torch.DoubleTensor).dtype is torch.float64


def test_size():
    size = torch.zeros(2, 3, 4).shape
    assert (
        type(size)
        is type(size[1:])
        is type(size.__add__((1,)))
        is type(size + size)
        is type(torch.zeros(2).size())
        is torch.Size
    )
    assert size == (2, 3, 4) and size.numel() == 24 and size[1:].numel() == 12 and size[-1] == 4
    assert repr(size) == "torch.Size([2, 3, 4])" and hash(size) == hash((2, 3, 4))
    assert pickle.loads(pickle.dumps(size)) == size and torch.zeros(size).shape == size
    a, b, c = size
    assert (a, b, c) == (2, 3, 4) and torch.zeros(*size).view(size[0], -1).shape == (2, 12)


def test_isinstance_holds_in_transforms_and_for_tensors_of_lucid():
    assert isinstance(lucid.ones(2), torch.Tensor) and issubclass(lucid.Tensor, torch.Tensor)
    assert not isinstance(np.ones(2), torch.Tensor)

    def f(x):
        assert isinstance(x, torch.Tensor)
        return (x * x).sum()

    assert type(torch.func.grad(f)(torch.ones(2))) is Tensor
    assert type(torch.vmap(f)(torch.ones(2, 2))) is Tensor


def test_data_is_not_counted():
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    x.data.mul_(3)
    assert x.tolist() == [3, 6] and not x.data.requires_grad
    loss.backward()
    assert x.grad.tolist() == [6, 12]
    x.grad.data.zero_()
    assert x.grad.tolist() == [0, 0]
    loss = (x * x).sum()
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()
    x.data = torch.zeros(2)
    assert x.tolist() == [0, 0] and type(x) is Tensor


def test_numpy_refuses_what_requires_grad():
    x = leaf(1.0)
    for call in (x.numpy, lambda: np.asarray(x), (x * 2).numpy):
        with pytest.raises(RuntimeError, match="detach"):
            call()
    assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1.0]
    y = torch.zeros(2)
    y.numpy()[0] = 5
    assert y.tolist() == [5, 0] and np.asarray(y).tolist() == [5, 0]
    assert type(np.exp(y)) is Tensor


def test_printing():
    assert repr(torch.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(torch.zeros(1, dtype=torch.float64)) == "tensor([0.], dtype=torch.float64)"
    assert repr(nn.Parameter(torch.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_memory_formats_are_hints():
    x = torch.randn(1, 2, 3, 3)
    assert x.to(memory_format=torch.channels_last) is x
    assert x.contiguous(memory_format=torch.channels_last).is_contiguous(memory_format=torch.contiguous_format)
    assert x.clone(memory_format=torch.preserve_format).equal(x)
    assert nn.Conv2d(2, 1, 3).to(memory_format=torch.channels_last)(x).shape == (1, 1, 1, 1)
    assert x.layout is torch.strided and x.is_cpu and not x.is_cuda and x.pin_memory() is x


def test_writes_by_masks_and_integer_powers():
    x = torch.arange(4)
    x[x > 1] = torch.tensor([10, 20])
    assert x.tolist() == [0, 1, 10, 20] and (x**2).tolist() == [0, 1, 100, 400]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        torch.tensor([2]) ** torch.tensor([-1])
    out = torch.empty(0)
    torch.add(torch.ones(2), 1, out=out)
    assert out.tolist() == [2, 2]


# --- differentiation -------------------------------------------------------------------------------


def test_grad_is_a_tuple():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    found = torch.autograd.grad((x * y).sum(), x, only_inputs=True)
    assert type(found) is tuple and type(found[0]) is Tensor and found[0].tolist() == [3, 4]
    a, b = torch.autograd.grad(x.sum(), [x, y], allow_unused=True)
    assert a.tolist() == [1, 1] and b is None
    a, b = torch.autograd.grad(x.sum(), (x, y), materialize_grads=True)
    assert type(b) is Tensor and b.tolist() == [0, 0]
    with pytest.raises(ValueError, match="only_inputs"):
        torch.autograd.grad(x.sum(), x, only_inputs=False)


def test_functional_keeps_the_graph_if_asked():
    x = leaf(1.0, 2.0)
    functional = torch.autograd.functional
    j = functional.jacobian(lambda t: t**3, x, create_graph=True)
    j.sum().backward()
    assert x.grad.tolist() == [6, 12] and not functional.jacobian(lambda t: t**3, x).requires_grad
    (a, b) = functional.jacobian(lambda s, t: (s * t, s + t), (x, x))
    assert a[0].tolist() == [[1, 0], [0, 2]] and b[1].tolist() == [[1, 0], [0, 1]]
    assert type(a[0]) is Tensor
    h = functional.hessian(lambda s, t: (s * t).sum(), (x, x))
    assert h[0][1].tolist() == [[1, 0], [0, 1]] and h[0][0].tolist() == [[0, 0], [0, 0]]
    out, v = functional.vjp(lambda t: (t**2).sum(), x)
    assert out.item() == 5 and v.tolist() == [2, 4]
    assert functional.jacobian(torch.sin, x, strategy="forward-mode", vectorize=True).allclose(
        torch.diag(x.detach().cos())
    )
    with pytest.raises(ValueError, match="strict"):
        functional.jacobian(torch.sin, x, strict=True)


def test_anomaly_mode_and_variables():
    x = torch.autograd.Variable(torch.zeros(1), requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="sqrt"):
        x.sqrt().sum().backward()
    x.sqrt().sum().backward()


# --- modules ---------------------------------------------------------------------------------------


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


# --- accelerators and hints ------------------------------------------------------------------------


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


# --- files -----------------------------------------------------------------------------------------


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_files_hold_what_was_saved(tmp_path):
    base = torch.arange(12.0).view(3, 4)
    nest = {
        "base": base,
        "t": base.t(),
        "part": base[1:, ::2],
        "flipped": torch.from_numpy(np.arange(3.0)[::-1]),
        "parameter": nn.Parameter(torch.ones(2)),
        "leaf": leaf(1.0),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "complex": torch.tensor([1 + 2j]),
        "bool": torch.tensor([True]),
        "number": torch.tensor(3),
        "empty": torch.zeros(0, 3),
        "plain": [1, 2.5, "x", None, True, (1, 2), b"ab", 1j, {1, 2}, np.float64(2.5)],
        "size": base.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "ordered": OrderedDict(b=1, a=2),
    }
    path = tmp_path / "state.pt"
    torch.save(nest, path)
    for found in (torch.load(path), torch.load(saved(nest), map_location=torch.device("cpu"), weights_only=False)):
        assert found.keys() == nest.keys()
        for name, value in nest.items():
            if isinstance(value, torch.Tensor):
                assert type(found[name]) is Tensor and found[name].dtype is value.dtype
                assert found[name].tolist() == value.tolist() and found[name].requires_grad == value.requires_grad
                assert isinstance(found[name], nn.Parameter) == isinstance(value, nn.Parameter)
            else:
                assert found[name] == value
        assert type(found["ordered"]) is OrderedDict and type(found["size"]) is torch.Size
        found["base"][0, 0] = 99
        assert found["t"][0, 0] == 99  # tensors that shared memory share it again


@pytest.mark.parametrize(
    "value", [len, np.array([object()]), nn.Linear(1, 1), object()], ids=lambda v: type(v).__name__
)
def test_other_objects_are_refused_by_name(value):
    with pytest.raises(TypeError, match=f"cannot hold a .*{type(value).__qualname__}"):
        torch.save({"x": value}, io.BytesIO())


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def archive(pickled, **others):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickled)
        for name, content in others.items():
            z.writestr(f"archive/{name}", content)
    file.seek(0)
    return file


def storage(size, stride, offset=0, count=4):
    """A pickle with one tensor, by hand."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK"
        + bytes([count]) + b"tQK" + bytes([offset]) + b"(" + b"".join(b"K" + bytes([n]) for n in size) + b"t("
        + b"".join(b"K" + bytes([n]) for n in stride) + b"t\x89}tR."
    )  # fmt: skip


class Settings:
    """A class of a program."""


def test_attributes_and_numbers_of_numpy_are_kept():
    tagged, parameter = torch.ones(2), nn.Parameter(torch.zeros(1))
    tagged.tag, parameter.no_decay = "x", torch.tensor(1.0)
    nest = {
        "tagged": tagged,
        "parameter": parameter,
        "arguments": argparse.Namespace(lr=0.1, more=SimpleNamespace(w=torch.ones(1))),
        "counts": Counter("aab"),
        "array": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "number": np.float32(2.5),
    }
    found = torch.load(saved(nest))
    assert found["tagged"].tag == "x" and found["parameter"].no_decay.item() == 1
    assert isinstance(found["parameter"], nn.Parameter) and not hasattr(torch.load(saved(torch.ones(1))), "tag")
    assert type(found["arguments"]) is argparse.Namespace and found["arguments"].lr == 0.1
    assert type(found["arguments"].more.w) is Tensor
    assert found["counts"] == nest["counts"] and type(found["counts"]) is Counter
    np.testing.assert_array_equal(found["array"], nest["array"])
    assert found["array"].dtype == ">i4" and found["number"] == 2.5


def test_classes_that_a_program_names_may_be_in_files():
    settings = Settings()
    settings.w, settings.name = torch.ones(2), "a"
    with pytest.raises(TypeError, match="Settings"):
        torch.save(settings, io.BytesIO())
    with torch.serialization.safe_globals([Settings]):
        file = saved([settings, settings])
        first, second = torch.load(file)
        assert first is second and type(first) is Settings and type(first.w) is Tensor
        assert torch.serialization.get_safe_globals() == [Settings]
    file.seek(0)
    with pytest.raises(CheckpointError, match=r"Settings.*add_safe_globals"):
        torch.load(file)
    torch.serialization.add_safe_globals([(Settings, f"{Settings.__module__}.Settings")])
    torch.serialization.clear_safe_globals()
    assert torch.serialization.get_safe_globals() == []


def test_a_file_cannot_change_a_class():
    # The class itself is given an attribute, by a state of slots.
    pickled = b"\x80\x02cargparse\nNamespace\nN}X\x04\x00\x00\x00evilK\x01s\x86b."
    with contextlib.suppress(CheckpointError):
        torch.load(archive(pickled))
    assert not hasattr(argparse.Namespace, "evil")


def test_nothing_in_a_file_is_run():
    for pickled in (pickle.dumps(Evil()), b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.", b"cos\nsystem\n."):
        with pytest.raises(CheckpointError, match="without running code"):
            torch.load(archive(pickled))
    for pickled, message in [
        (b"ctorch._utils\n_rebuild_tensor_v2\nN}X\x08\x00\x00\x00__call__K\x01s\x86b.", "damaged"),
        (b"ctorch\nFloatStorage\n.", "no data"),
        (b"ctorch\nFloatStorage\n)R.", "gives no data"),
        (b"garbage", "damaged"),
        (storage((2,), (1,)), "lacks the storage"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            torch.load(archive(pickled))


def test_tensors_outside_of_their_storage_are_refused():
    four = {"data/0": np.arange(4, dtype=np.float32).tobytes()}
    assert torch.load(archive(storage((2, 2), (1, 2)), **four)).tolist() == [[0, 2], [1, 3]]
    for size, stride, offset in [((5,), (1,), 0), ((4,), (1,), 1), ((2, 2), (1, 3), 0), ((3,), (2,), 0)]:
        with pytest.raises(CheckpointError, match="reaches element"):
            torch.load(archive(storage(size, stride, offset), **four))
    with pytest.raises(CheckpointError, match="whole number"):
        torch.load(archive(storage((1,), (1,)), **{"data/0": b"abc"}))
    with pytest.raises(CheckpointError, match="sizes"):
        torch.load(archive(storage((1, 2), (1,)), **four))


def test_other_files_say_what_they_are(tmp_path):
    with pytest.raises(CheckpointError, match="Convert it once"):
        torch.load(io.BytesIO(pickle.dumps({"a": 1}, protocol=2)))
    with pytest.raises(CheckpointError, match="neither"):
        torch.load(io.BytesIO(b"hello, world"))
    with pytest.raises(CheckpointError, match=r"torch\.jit\.save"):
        torch.load(archive(b"N.", **{"constants.pkl": b"N."}))
    with pytest.raises(ValueError, match="no backend"):
        torch.load(saved(1), map_location="cuda")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nowhere.pt")


def test_safetensors_are_read_too(tmp_path):
    pytest.importorskip("safetensors")
    path = tmp_path / "state.safetensors"
    lucid.save({"w": lucid.ones(2)}, path)
    found = torch.load(path)["w"]
    assert type(found) is Tensor and found.tolist() == [1, 1]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quantiz", "ignore:.*TypedStorage")
def test_files_are_those_of_pytorch():
    import torch as original

    net = original.nn.Sequential(original.nn.Linear(3, 2), original.nn.BatchNorm1d(2))
    optimizer = original.optim.Adam(net.parameters())
    net(original.ones(4, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    original.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "t": original.ones(2, 3).t()}, file)
    file.seek(0)
    state = torch.load(file)
    ours = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    ours.load_state_dict(state["net"])
    torch.optim.Adam(ours.parameters()).load_state_dict(state["optimizer"])
    assert np.array_equal(ours[0].weight.detach().numpy(), net[0].weight.detach().numpy())
    odd = original.full((2,), 1 + 2j)
    named = original.ones(2)
    named.tag = 3
    others = {
        "conj": odd.conj(),
        "neg": odd.clone().conj().imag,
        "coo": original.eye(2).to_sparse(),
        "csr": original.eye(2).to_sparse_csr(),
        "meta": original.ones(2, device="meta"),
        "many": defaultdict(int, a=1),
        "named": named,
        "number": np.float64(0.5),
    }
    file = io.BytesIO()
    original.save(others, file)
    file.seek(0)
    found = torch.load(file)
    assert found["conj"].tolist() == [1 - 2j] * 2 and found["neg"].tolist() == [-2, -2]
    assert found["coo"].to_dense().tolist() == found["csr"].to_dense().tolist() == [[1, 0], [0, 1]]
    assert found["meta"].device.type == "meta" and found["many"]["b"] == 0 and found["named"].tag == 3
    assert found["number"] == 0.5
    assert original.load(saved({"t": found["named"]}), weights_only=True)["t"].tag == 3
    for refused, why in (
        (original.quantize_per_tensor(original.ones(1), 0.1, 0, original.qint8), "quantized"),
        (original.ones(1).to(original.float8_e4m3fn), "8 for floats"),
    ):
        file = io.BytesIO()
        original.save(refused, file)
        file.seek(0)
        with pytest.raises(CheckpointError, match=why):
            torch.load(file)
    back = original.load(saved(ours.state_dict()), weights_only=True)
    net.load_state_dict(back)
    file = io.BytesIO()
    original.save(net, file)
    file.seek(0)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.container\.Sequential"):
        torch.load(file)


# --- programs that import torch --------------------------------------------------------------------

SCRIPT = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torch.optim.lr_scheduler import StepLR
from beside import twice
assert torch.__name__ == "lucid.torch" and __name__ == "__main__"
x = torch.ones(2, requires_grad=True)
twice(x).sum().backward()
print(sys.argv[1:], x.grad.tolist(), nn.Linear(2, 1)(x).shape)
"""


def run(*arguments, cwd=None):
    """A Python process; it finds this package and no real PyTorch."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=env)


def test_scripts_run_unmodified(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("import torch\ndef twice(x):\n    return torch.mul(x, 2)\n")
    done = run("-m", "lucid.torch", str(tmp_path / "script.py"), "--lr", "1")
    assert done.stdout == "['--lr', '1'] [2.0, 2.0] torch.Size([1])\n", done.stderr
    done = run("-m", "lucid.torch", "-m", "script", "a", cwd=tmp_path)
    assert done.stdout == "['a'] [2.0, 2.0] torch.Size([1])\n", done.stderr
    assert "usage" in run("-m", "lucid.torch").stderr


def test_install_is_refused_beside_the_real_one(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = "import sys; sys.path.insert(0, '.'); import torch; import lucid.torch; lucid.torch.install()"
    done = run("-c", code, cwd=tmp_path)
    assert "PyTorch itself is loaded already" in done.stderr
    code = "import lucid.torch as t; t.install(); t.install(); import torch, torch.nn.functional as F; print(torch is t, F.relu)"
    assert run("-c", code).stdout.startswith("True <")


def test_distributions_keep_the_class_and_have_the_paths_of_their_modules():
    from lucid.torch.distributions import Categorical, Normal, constraints, kl_divergence
    from lucid.torch.distributions.normal import Normal as ByPath

    assert ByPath is Normal and constraints.positive.check(torch.ones(1)).all()
    mean = torch.zeros(3, requires_grad=True)
    drawn = Normal(mean, torch.ones(3)).rsample()
    assert type(drawn) is torch.Tensor and drawn.shape.numel() == 3
    drawn.sum().backward()
    assert mean.grad.tolist() == [1.0, 1.0, 1.0]
    assert kl_divergence(Normal(mean, torch.ones(3)), Normal(torch.ones(3), torch.ones(3))).tolist() == [0.5, 0.5, 0.5]
    choice = Categorical(logits=torch.zeros(4, 5))
    assert choice.log_prob(choice.sample()).shape == (4,)


@pytest.mark.parametrize("path", ["nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "distributions"])
def test_all_names_of_a_module_are_imported_by_a_star(path):
    found: dict = {}
    exec(f"from lucid.torch.{path} import *", found)
    module = sys.modules[f"lucid.torch.{path}"]
    public = [name for name in dir(module) if not name.startswith("_")]
    assert len(public) > 10
    assert all(found[name] is getattr(module, name) for name in public)


def test_bytes_are_masks_where_they_index():
    x = torch.arange(6.0).reshape(3, 2)
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    assert x[mask].tolist() == [[0, 1], [4, 5]]
    assert x[mask, 0].tolist() == [0, 4]
    assert x[(x > 2).byte()].tolist() == [3, 4, 5]
    x[mask] = -1
    x[:, torch.tensor([0, 1], dtype=torch.uint8)] *= 2
    assert x.tolist() == [[-1, -2], [2, 6], [-1, -2]]
    y = torch.ones(3, requires_grad=True)
    (y[mask] * 3).sum().backward()
    assert y.grad.tolist() == [3, 0, 3]
    plain = lucid.arange(3.0)[lucid.tensor([1, 0, 1], dtype=lucid.uint8)]
    assert plain.tolist() == [1, 0, 1]  # as in NumPy


def test_hooks_of_the_older_form_are_pickled():
    net = torch.nn.Linear(2, 1)
    net._register_load_state_dict_pre_hook(_renames)
    twin = pickle.loads(pickle.dumps(net))
    twin.load_state_dict({"w": torch.ones(1, 2), "bias": torch.zeros(1)})
    assert twin.weight.tolist() == [[1, 1]]


def _renames(state, prefix, *rest):
    state["weight"] = state.pop("w")


def test_draws_of_one_probability_are_of_the_front_door():
    assert repr(torch.zeros(2).bernoulli(1.0)) == "tensor([1., 1.])"


def test_layouts_and_shapes_of_sparse_tensors():
    x = torch.eye(3)
    sparse = x.to_sparse()
    assert (repr(x.layout), repr(sparse.layout), repr(torch.sparse_csr)) == (
        "torch.strided",
        "torch.sparse_coo",
        "torch.sparse_csr",
    )
    assert (
        x.layout is torch.strided and sparse.layout is torch.sparse_coo and x.to_sparse_csr().layout == torch.sparse_csr
    )
    assert sparse.layout == lucid.sparse_coo and sparse.layout != torch.strided and lucid.eye(2).layout is lucid.strided
    assert pickle.loads(pickle.dumps(torch.strided)) is torch.strided
    assert sparse.shape.numel() == 9 and isinstance((sparse @ sparse).shape, torch.Size)
    assert x.to_sparse(layout=torch.sparse_csr).layout is torch.sparse_csr
    assert type(lucid.eye(2).to_sparse().shape) is tuple


def test_what_no_argument_took_part_in_is_of_the_front_door_too():
    d, x = torch.distributions, torch.ones(2)
    affine = d.transforms.AffineTransform(1.0, 2.0)
    made = [
        d.Categorical(torch.ones(2, 3)).enumerate_support(),
        d.OneHotCategorical(torch.ones(2)).enumerate_support(),
        d.Bernoulli(torch.tensor([0.5])).enumerate_support(),
        affine.log_abs_det_jacobian(x, affine(x)),
        d.constraints.square.check(torch.eye(2)),
        torch.func.jacrev(lambda b: b + torch.ones(2, 2))(x),
        torch.func.jacfwd(lambda b: (b, 2 * b))(x)[0],
        reversed(x),
    ]
    assert [type(t) for t in made] == [Tensor] * len(made)
    assert reversed(torch.arange(3)).tolist() == [2, 1, 0] and reversed(torch.tensor(3)).item() == 3


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


def test_a_distribution_may_say_how_draws_are_made_alone():
    class Shifted(torch.distributions.Distribution):
        arg_constraints, has_rsample = {}, True

        def __init__(self, loc):
            self.loc = loc
            super().__init__(loc.shape, validate_args=False)

        def rsample(self, sample_shape=()):
            return self.loc + torch.zeros(self._extended_shape(sample_shape))

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.loc = self.loc.expand(batch_shape)
            super(Shifted, new).__init__(torch.Size(batch_shape), validate_args=False)
            return new

    shifted = Shifted(torch.tensor([1.0], requires_grad=True)).expand((3,))
    assert shifted.rsample((2,)).requires_grad and not shifted.sample((2,)).requires_grad
    assert shifted.sample((2,)).tolist() == [[1, 1, 1]] * 2 and type(shifted) is Shifted

    class Named(torch.distributions.Normal):
        def __init__(self, loc, scale, name):
            super().__init__(loc, scale)
            self.name = name

    with pytest.raises(NotImplementedError, match=r"custom \.expand\(\)"):
        Named(0.0, 1.0, "a")._get_checked_instance(torch.distributions.Normal)


def test_fx_and_futures():
    from lucid.torch.futures import Future, collect_all, wait_all

    from lucid.torch import fx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fx.wrap(len) is len
    assert not isinstance(nn.ReLU(), fx.GraphModule | torch.jit.ScriptModule)
    with pytest.raises(NotImplementedError, match="make_graph"):
        fx.symbolic_trace(nn.ReLU())
    parts = [Future(), Future()]
    together = collect_all(parts)
    later = parts[0].then(lambda done: done.value() / 0)
    parts[0].set_result(1)
    assert not together.done() and later.done()
    with pytest.raises(RuntimeError, match="not there yet"):
        parts[1].value()
    parts[1].set_result(2)
    assert wait_all(together.wait()) == [1, 2] and collect_all([]).value() == []
    with pytest.raises(ZeroDivisionError):
        later.wait()


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_lower_triangles_are_vectors(diag):
    from lucid.torch.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    matrix = torch.arange(1.0, 17.0).reshape(4, 4).tril(diag)
    assert torch.equal(vec_to_tril_matrix(tril_matrix_to_vec(matrix, diag), diag), matrix)
    with pytest.raises(ValueError, match="do not fill"):
        vec_to_tril_matrix(torch.ones(4 if diag else 5))


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


def test_truth_values_are_not_subtracted():
    for refused in (lambda: -torch.tensor([True]), lambda: torch.tensor([True]) - torch.tensor([True])):
        with pytest.raises(RuntimeError, match="bool"):
            refused()
    with pytest.raises(RuntimeError, match="real"):
        torch.tensor([1j]) < torch.tensor([1j])  # noqa: B015
    assert torch.empty(0, 3).stride() == (3, 1) and torch.empty(2, 0, 3).stride() == (3, 3, 1)


def test_methods_take_their_older_form_too():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.equal(x.add(0.5, y), x.add(y, alpha=0.5)) and torch.equal(x.sub(2, y), x - 2 * y)
    assert torch.equal(x.addcmul(0.5, y, y), x + 0.5 * y * y) and torch.equal(x.addcdiv(2, y, x), x + 2 * y / x)
    for name, given, wanted in (
        ("add_", (0.5, y), x + 0.5 * y),
        ("sub_", (2, y), x - 2 * y),
        ("addcmul_", (0.5, y, y), x + 0.5 * y * y),
        ("addcdiv_", (2, y, x), x + 2 * y / x),
    ):
        changed = x.clone()
        assert getattr(changed, name)(*given) is changed and torch.equal(changed, wanted)
    with pytest.raises(TypeError):
        x.clone().add_(y, y)
    with pytest.raises(TypeError):
        lucid.ones(2).add_(0.5, lucid.ones(2))


def test_lists_of_tensors_at_once():
    xs, ys = [torch.ones(1), torch.zeros(2)], [torch.full((1,), 2.0), torch.full((2,), 3.0)]
    assert torch._foreach_add_(xs, ys, alpha=2) is xs and [x.tolist() for x in xs] == [[5], [6, 6]]
    for found, wanted in (
        (torch._foreach_mul(xs, [2, 3]), [x * k for x, k in zip(xs, (2, 3), strict=True)]),
        (torch._foreach_lerp(xs, ys, 0.5), [x.lerp(y, 0.5) for x, y in zip(xs, ys, strict=True)]),
        (torch._foreach_addcmul(xs, ys, ys, [1.0, 2.0]), [xs[0] + ys[0] ** 2, xs[1] + 2 * ys[1] ** 2]),
        (
            torch._foreach_addcdiv(xs, ys, xs, torch.tensor([1.0, 2.0])),
            [xs[0] + ys[0] / xs[0], xs[1] + 2 * ys[1] / xs[1]],
        ),
        (torch._foreach_norm(xs, 1), [x.abs().sum() for x in xs]),
        (torch._foreach_pow(2.0, ys), [2**y for y in ys]),
        (torch._foreach_sqrt(ys), [y.sqrt() for y in ys]),
    ):
        assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True)) and type(found) is tuple
    with pytest.raises(AttributeError):
        torch._foreach_nothing  # noqa: B018


def test_gradients_by_edges():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    edge, leaf = (torch.autograd.graph.get_gradient_edge(t) for t in (y, x))
    z = (y**2).sum()
    del y  # the edge holds the graph, not the tensor
    found = torch.autograd.grad(z, [edge, leaf])
    assert [g.tolist() for g in found] == [[4.0, 8.0], [8.0, 16.0]] and all(type(g) is torch.Tensor for g in found)
    w = (x * 5).sum()
    (g,) = torch.autograd.grad(torch.autograd.graph.get_gradient_edge(w), x, torch.tensor(2.0))
    assert g.tolist() == [10.0, 10.0]
    assert edge.output_nr == 0 and len(edge) == 2 and leaf.node.variable is x
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.graph.get_gradient_edge(torch.ones(2))


def test_shapes_of_the_front_door_are_taken_everywhere():
    """`torch.Size` is a tuple of another class, which compiled code must not refuse."""
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    size = x.shape
    assert torch.rand(size).shape == torch.empty(size).uniform_().shape == torch.Size([2, 3])
    assert torch.take_along_dim(x, torch.tensor([[0], [2]]), 1).tolist() == [[0.0], [5.0]]
    (found,) = torch.autograd.grad(x * 2, x, torch.ones(4, *size), is_grads_batched=True)
    assert found.shape == (4, 2, 3) and x.sum(size[:0]).item() == 15
    assert torch.zeros(size).scatter_(1, torch.zeros(size, dtype=torch.int64), 1.0).shape == size
    assert x.gather(1, torch.zeros(size, dtype=torch.int64)).expand(size).reshape(size).shape == size


def test_lazy_layers_as_pytorch_has_them():
    assert repr(torch.nn.LazyLinear(2)) == "LazyLinear(in_features=0, out_features=2, bias=True)"
    for affine, layer in (
        (True, torch.nn.LazyInstanceNorm1d()),
        (False, torch.nn.LazyInstanceNorm1d(1e-5, 0.1, False)),
    ):
        layer(torch.ones(2, 4, 8))
        assert layer.num_features == 4 and layer.affine is affine and layer.track_running_stats
    assert torch.nn.LazyBatchNorm2d(affine=False).weight is None
