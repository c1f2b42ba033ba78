"""Names and forms of the original Lucid that have no counterpart in PyTorch, or another place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucid
from lucid import nn, optim
from lucid.nn import functional as F

T = lucid.tensor


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("gelu", F.gelu),
        ("silu", F.silu),
        ("mish", F.mish),
        ("selu", F.selu),
        ("relu6", F.relu6),
        ("hardswish", F.hardswish),
    ],
)
def test_activations_are_methods(name: str, function: Any) -> None:
    x = T([-4.0, -0.5, 0.0, 2.0, 7.0], dtype=lucid.float64, requires_grad=True)
    assert lucid.equal(getattr(x, name)(), function(x))
    (gradient,) = lucid.autograd.grad(getattr(x, name)().sum(), [x])
    assert lucid.equal(gradient, lucid.autograd.grad(function(x).sum(), [x])[0])


def test_methods() -> None:
    assert T([1.0, 2.0]).maximum_(1.5).tolist() == [1.5, 2.0] and T([1, 5]).minimum_(T([3, 3])).tolist() == [1, 3]
    assert lucid.pad(T([1.0]), (1, 2)).tolist() == [0.0, 1.0, 0.0, 0.0] and lucid.zeros(2).expand_dims(0).shape == (
        1,
        2,
    )
    x = lucid.zeros(2, 3, 4)
    assert x.transpose().shape == (4, 3, 2) and x.pin_memory() is x and x.share_memory_() is x
    assert len(x.untyped_storage()) == x.untyped_storage().nbytes() == 96
    with pytest.raises(TypeError, match="both dimensions"):
        x.transpose(1)


def test_functions() -> None:
    assert lucid.view(lucid.zeros(2, 3), 6).shape == (6,) and lucid.expand(lucid.zeros(1, 3), 4, -1).shape == (4, 3)
    assert lucid.bool_ is lucid.bool and lucid.eval(lucid.zeros(1)) is None and not lucid.is_storage(lucid.zeros(1))
    assert lucid.tril_indices(3).tolist() == lucid.tril_indices(3, 3).tolist()
    assert lucid.zeros(3).scatter_reduce(0, T([0, 0]), T([1.0, 2.0])).tolist() == [3.0, 0.0, 0.0]
    assert lucid.linalg.dot is not None and lucid.linalg.outer(T([1.0]), T([2.0])).tolist() == [[2.0]]
    assert lucid.linalg.solve_triangular(T([[2.0, 1.0], [5.0, 1.0]]), T([[3.0], [1.0]])).tolist() == [[1.0], [1.0]]
    windows = lucid.signal.windows
    assert lucid.equal(windows.gaussian(5, 2.0), windows.gaussian(5, std=2.0))
    lucid.set_num_interop_threads(2)
    assert lucid.get_num_interop_threads() == 2


@pytest.mark.parametrize("bins", [3, (2, 4)])
@pytest.mark.parametrize("limits", [None, ((0.0, 1.0), (-1.0, 2.0))])
@pytest.mark.parametrize("density", [False, True])
def test_histograms_of_pairs(bins: Any, limits: Any, density: bool) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    expected = np.histogram2d(x, y, bins, limits, density)
    found = lucid.histogram2d(T(x), T(y), bins, limits, density)
    assert all(np.allclose(f, e) for f, e in zip(found, expected, strict=True))


def test_derivatives_by_inputs() -> None:
    x, v = T([1.0, 2.0], dtype=lucid.float64), T([1.0, -1.0], dtype=lucid.float64)
    autograd = lucid.autograd

    def f(a: Any) -> Any:
        return a**3

    assert autograd.jacobian(f, x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert autograd.hessian(lambda a: f(a).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert autograd.vjp(f, x, v)[1].tolist() == autograd.jvp(f, x, v)[1].tolist() == [3.0, -12.0]
    blocks = autograd.hessian(lambda a, b: (a * b).sum(), (x, v))
    assert blocks[0][1].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    leaf = x.clone().requires_grad_()
    second = autograd.jacobian(f, leaf, create_graph=True).sum()
    assert autograd.grad(second, [leaf])[0].tolist() == [6.0, 12.0]
    for name in ("jacobian", "hessian"):
        with pytest.raises(TypeError, match="floating-point input"):
            getattr(autograd, name)(f, T([1, 2]))
    assert lucid.func.vjp(lambda a: a.sum(), x)[1]()[0].tolist() == [1.0, 1.0]


def test_anomalies() -> None:
    autograd = lucid.autograd
    autograd.set_detect_anomaly(True)
    try:
        assert autograd.is_anomaly_enabled()
        with pytest.raises(RuntimeError, match="sqrt"):
            T([0.0], requires_grad=True).sqrt().sum().backward()
    finally:
        autograd.set_detect_anomaly(False)
    assert not autograd.is_anomaly_enabled()
    handle = T([1.0], requires_grad=True).register_hook(print)
    assert isinstance(handle, autograd.RemovableHandle) and nn.RemovableHandle is autograd.RemovableHandle


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(use_reentrant: bool) -> None:
    from lucid.utils.checkpoint import checkpoint

    weight, x = T([2.0], requires_grad=True), T([3.0])
    out = checkpoint(lambda a: a * weight, x, use_reentrant=use_reentrant)
    assert out.requires_grad is not use_reentrant
    leaf = x.clone().requires_grad_()
    checkpoint(lambda a: (a * weight).sin(), leaf, use_reentrant=use_reentrant, preserve_rng_state=False).backward()
    assert leaf.grad.item() == pytest.approx(2 * np.cos(6.0)) and weight.grad is not None


def test_former_names_of_initial_values() -> None:
    for (
        name
    ) in "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal".split():
        assert getattr(nn.init, name) is getattr(nn.init, f"{name}_")
    assert nn.utils.clip_grad_norm is nn.utils.clip_grad_norm_


def test_schedules_and_optimizers() -> None:
    assert optim.StepLR is optim.lr_scheduler.StepLR and optim.NoamScheduler is optim.lr_scheduler.NoamLR
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)


def test_states_that_do_not_fit() -> None:
    layer = nn.Linear(2, 2)
    for state, text in [
        (nn.Linear(3, 2).state_dict(), "size mismatch"),
        ({}, r"Missing key\(s\)"),
        ({**layer.state_dict(), "z": lucid.zeros(1)}, r"Unexpected key\(s\)"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            layer.load_state_dict(state)


def test_data() -> None:
    from lucid.data import RandomSampler, WorkerInfo, collate, random_split

    assert collate([1, 2], collate_fn_map={int: lambda batch, *, collate_fn_map=None: sum(batch)}) == 3
    assert collate([1, 2]).tolist() == [1, 2] and WorkerInfo(0, 1, 5, None).seed == 5
    assert list(RandomSampler(range(9), generator=3)) == list(RandomSampler(range(9), generator=3))
    one, two = (random_split(range(9), [4, 5], generator=3) for _ in range(2))
    assert list(one[0]) == list(two[0])


def test_autocast_needs_no_device() -> None:
    with lucid.amp.autocast():
        assert lucid.amp.autocast.is_autocast_enabled() and lucid.amp.autocast.get_autocast_dtype() == lucid.bfloat16
    assert not lucid.amp.autocast.is_autocast_enabled()


def test_profiler(tmp_path: Path) -> None:
    x = lucid.ones(8, 8, requires_grad=True)
    profiler = lucid.profiler.Profiler()
    with profiler:
        with lucid.profiler.record_function("step"):
            (x @ x).relu().sum().backward()
        lucid.cat([x, x])
    x.sin()  # of no interest
    names = [e.name for e in profiler.events()]
    assert names[:3] == ["contract", "relu", "sum"] and "step" in names and names[-1] == "cat"
    assert "sin" not in names and all(e.time_ns >= 0 for e in profiler.events())
    first = profiler.events()[0]
    assert (first.shape, first.flops, first.memory_delta_bytes) == ([8, 8], 2 * 8**3, 256)
    assert first.time_us == first.time_ns / 1e3 and first.time_ms == first.time_ns / 1e6
    sums = profiler.key_averages()
    assert [s.total_time_us for s in sums] == sorted((s.total_time_us for s in sums), reverse=True)
    assert profiler.memory_stats().alloc_count > 3 and lucid.profiler.Profiler(with_memory=False).memory_stats() is None
    profiler.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"name", "ph", "ts", "dur", "pid", "tid", "args"} <= set(trace[0])
    profiler.clear()
    assert profiler.events() == [] and x.grad is not None


def test_profilers_nest_and_leave_nothing() -> None:
    from lucid.core.primitive import registry

    with lucid.profiler.profile() as outer:
        with lucid.profiler.profile() as inner:
            lucid.ones(2).exp()
        lucid.ones(2).log()
    assert [e.name for e in inner.events()] == ["exp"] and [e.name for e in outer.events()] == ["exp", "log"]
    assert not [p for p in registry.values() if isinstance(getattr(p, "kernel", None), lucid.profiler._Watched)]


def test_hooks_on_loading_of_all_modules():
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    state, seen = net.state_dict(), []
    net[0].register_load_state_dict_pre_hook(lambda module, *rest: seen.append("own"))
    before = nn.register_module_load_state_dict_pre_hook(lambda module, state, prefix, *rest: seen.append(prefix))
    after = nn.register_module_load_state_dict_post_hook(lambda module, keys: seen.append(type(module).__name__))
    with before, after:
        net.load_state_dict(state)
    assert seen == ["", "0.", "own", "1.", "ReLU", "Linear", "Sequential"]
    net.load_state_dict(state)
    assert seen[7:] == ["own"]
    assert nn.MultilabelMarginLoss is nn.MultiLabelMarginLoss
