"""`lucid.torch`: PyTorch's names and paths over the same engine, and scripts that import torch."""

import doctest
import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import lucid.torch.nn as nn
import lucid.torch.nn.functional as F
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.torch import namespaces
from lucid.torch.tensors import Tensor

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FILES = sorted(p.stem for p in (ROOT / "lucid" / "torch").glob("*.py") if p.stem not in ("__main__", "__init__"))


@pytest.mark.parametrize("name", ["lucid.torch", *(f"lucid.torch.{stem}" for stem in FILES)])
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=OPTIONS).failed == 0


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_every_name_of_lucid_is_there():
    missing = [
        n
        for n in lucid.__all__
        if n not in ("array_api", "data", "dtypes", "einops", "kernels", "profiler") and not hasattr(torch, n)
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


def test_the_version_is_found_by_those_who_ask_for_it():
    code = "import lucid.torch as t; t.install(); from importlib.metadata import version; print(version('torch'), version('numpy'))"
    assert run("-c", code).stdout.split() == [torch.__version__, np.__version__]


def test_opt_einsum_is_told_of_tensors(tmp_path):
    """Of which it knows the name of their package, under which it looks for NumPy's functions."""
    for name, text in {
        "": "",
        "backends/": "",
        "backends/dispatch": "_aliases = {'torch': 'opt_einsum.backends.torch'}",
    }.items():
        path = tmp_path / "opt_einsum" / (f"{name}__init__.py" if not name or name.endswith("/") else f"{name}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    code = "import sys; sys.path.insert(0, '.'); import lucid; from opt_einsum.backends.dispatch import _aliases; print(_aliases['lucid'])"
    assert run("-c", code, cwd=tmp_path).stdout == "numpy\n"
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    found = np.tensordot(np.transpose(x, (1, 0)), x, axes=((1,), (0,)))
    assert type(found) is Tensor and found.requires_grad and torch.equal(found, x.T @ x)


@pytest.mark.parametrize("path", ["nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "distributions"])
def test_all_names_of_a_module_are_imported_by_a_star(path):
    found: dict = {}
    exec(f"from lucid.torch.{path} import *", found)
    module = sys.modules[f"lucid.torch.{path}"]
    public = [name for name in dir(module) if not name.startswith("_")]
    assert len(public) > 10
    assert all(found[name] is getattr(module, name) for name in public)


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
