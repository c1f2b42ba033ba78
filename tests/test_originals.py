"""Names and forms of the original Lucid that have no counterpart in PyTorch, or another place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucid
from lucid import nn, optim
from lucid.nn import functional as F
from lucid.utils.cache import DynamicCache, EncoderDecoderCache, StaticCache

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


INTEGERS = {
    "softmax": lambda x: lucid.softmax(x, 1),
    "log_softmax": lambda x: x.log_softmax(1),
    "softmin": lambda x: F.softmin(x, 1),
    "var": lambda x: lucid.var(x, 0),
    "std": lambda x: x.std(correction=0),
    "var_mean": lambda x: lucid.stack(lucid.var_mean(x, 1)),
    "std_mean": lambda x: lucid.stack(lucid.std_mean(x)),
    "normalize": F.normalize,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "silu": F.silu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "local_response_norm": lambda x: F.local_response_norm(x.unsqueeze(-1), 2, alpha=1.0),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "embedding_bag": lambda x: F.embedding_bag(T([[0, 1], [2, 2]]), x, mode="sum"),
    "grid_sample": lambda x: F.grid_sample(x[None, None], (x[None, None, :, :2] > 1).to(x.dtype)),
}


@pytest.mark.parametrize("kind", [lucid.int64, lucid.uint8, lucid.bool], ids=str)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_taken_as_floats(name: str, kind: Any) -> None:
    function, x = INTEGERS[name], T([[1, 7, 4], [3, 1, 0], [2, 2, 5]]).to(kind)
    found = function(x)
    assert found.dtype == lucid.float32 and lucid.equal(found, function(x.float()))


def test_integers_take_the_default_type_or_that_of_their_layer() -> None:
    x = T([[1, 7, 4], [3, 1, 0]])
    lucid.set_default_dtype(lucid.float64)
    try:
        assert lucid.var(x).dtype == lucid.softmax(x, 1).dtype == F.normalize(x).dtype == lucid.float64
        assert F.batch_norm(x, None, None, training=True).dtype == F.embedding_bag(T([[0]]), x).dtype == lucid.float32
    finally:
        lucid.set_default_dtype(lucid.float32)
    grid = lucid.zeros(1, 1, 1, 2, dtype=lucid.float64)
    assert F.grid_sample(x[None, None], grid).dtype == lucid.float64
    assert F.batch_norm(x.double(), None, None, T([1, 2, 3]), T([0, 1, 0]), training=True).dtype == lucid.float64
    mean, variance = T([0, 10, 0]), T([1, 1, 20])
    out = F.batch_norm(x, mean, variance, T([1, 2, 3]), T([0, 1, 0]), training=True, momentum=0.5)
    expected = F.batch_norm(x.float(), None, None, T([1.0, 2.0, 3.0]), T([0.0, 1.0, 0.0]), training=True)
    assert lucid.equal(out, expected) and mean.dtype == variance.dtype == lucid.int64
    assert mean.tolist() == [1, 7, 1] and variance.tolist() == [1, 9, 14]
    assert F.batch_norm(x, T([0, 0, 0]), T([1, 1, 1]), eps=0.0).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="mean needs a floating-point"):
        lucid.mean(x)


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


def test_other_names_of_arguments() -> None:
    x = lucid.zeros(2, 3, 4)
    assert x.flatten(start=1).shape == lucid.flatten(x, 1).shape == (2, 12) and x.flatten(end=1).shape == (6, 4)
    assert lucid.pad(x, padding=(1, 0)).shape == F.pad(x, pad=(1, 0)).shape == x.pad(padding=(1, 0)).shape == (2, 3, 5)
    for wrong in ({}, {"pad": (1, 0), "padding": (1, 0)}):
        with pytest.raises(TypeError, match="padding, once"):
            F.pad(x, **wrong)


def test_local_response_norm_without_positions_or_channels() -> None:
    x = lucid.rand(2, 4)
    assert lucid.equal(F.local_response_norm(x, 3), F.local_response_norm(x[..., None], 3)[..., 0])
    assert F.local_response_norm(x[0], 3) is not None and lucid.equal(F.local_response_norm(x[0], 3), x[0])


@pytest.mark.parametrize("sizes", [(4, 4), (4, 6)])
@pytest.mark.parametrize("separate", [False, True])
def test_attention_draws_the_weights_that_are_missing(sizes: tuple[int, int], separate: bool) -> None:
    q, kv = lucid.rand(3, 2, sizes[0]), lucid.rand(5, 2, sizes[1])
    out, weights = F.multi_head_attention_forward(q, kv, kv, 4, 2, use_separate_proj_weight=separate)
    assert out.shape == (3, 2, 4) and weights is not None and weights.shape == (2, 3, 5)
    lucid.manual_seed(1)
    found = [F.multi_head_attention_forward(q, kv, kv, 4, 2)[0] for _ in range(2)]
    assert not lucid.equal(*found)
    lucid.manual_seed(1)
    assert lucid.equal(found[0], F.multi_head_attention_forward(q, kv, kv, 4, 2)[0])
    lucid.manual_seed(2)
    alone = F.multi_head_attention_forward(q, q, q, 4, 2, in_proj_weight=lucid.eye(4).repeat(3, 1))[0]
    lucid.manual_seed(2)
    layer = nn.MultiheadAttention(4, 2)  # draws the last projection first
    with lucid.no_grad():
        layer.in_proj_weight.copy_(lucid.eye(4).repeat(3, 1))
    assert lucid.equal(alone, layer(q, q, q)[0].detach())


def test_the_first_parametrization() -> None:
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))
    assert layer.parametrizations.weight.parametrization is layer.parametrizations.weight[0]


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


def test_types_and_devices_by_their_names() -> None:
    assert lucid.zeros(1, dtype="FLOAT64").dtype == lucid.float64 and lucid.zeros(1, dtype="bool_").dtype == lucid.bool
    assert lucid.zeros(1, dtype="F").dtype == lucid.complex64  # NumPy's letters keep their case
    for error in (ValueError, TypeError):
        with pytest.raises(error, match="Unknown dtype string"):
            lucid.zeros(1, dtype="floof")
    with pytest.raises(TypeError, match="not a dtype"):
        lucid.zeros(1, dtype=3.5)
    assert lucid.dtypes.float is lucid.float32 and lucid.dtypes.bool_ is lucid.bool and lucid.dtypes.long is lucid.int64
    cpu = lucid.device("cpu")
    assert cpu == "cpu" and cpu != "meta" and {cpu: 1}["cpu"] == 1 and cpu == lucid.device("cpu", index=0)
    assert cpu != lucid.device("cpu:1") and lucid.device("cpu:1") == "cpu"


def test_zero_threads_are_those_of_the_beginning() -> None:
    first = lucid.get_num_threads()
    try:
        lucid.set_num_threads(first + 1)
        lucid.set_num_threads(0)
        assert lucid.get_num_threads() == first
        with pytest.raises(ValueError):
            lucid.set_num_threads(-1)
    finally:
        lucid.set_num_threads(first)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_complex_numbers_of_any_floats(kind: str) -> None:
    x, y = T([1.0, 2.0], dtype=kind), T([3.0, -1.0])
    found = lucid.complex(x, y)
    assert found.dtype == (lucid.complex128 if kind == "float64" else lucid.complex64)
    np.testing.assert_array_equal(found.numpy(), [1 + 3j, 2 - 1j])
    assert lucid.complex(x, x).dtype == found.dtype and lucid.polar(x, y).dtype == found.dtype
    x.requires_grad_()
    lucid.complex(x, y).real.sum().backward()
    assert x.grad is not None and x.grad.dtype == x.dtype and x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="floating-point"):
        lucid.complex(T([1]), y)


def test_cubes_and_what_is_not_pending() -> None:
    big = 2**20
    x = T([big, -3])
    assert x.cube_() is x and x.tolist() == [big**3, -27] and x.eval() is x
    y = T([2.0, -3.0], dtype=lucid.float64, requires_grad=True)
    (y * 1).cube_().sum().backward()
    assert y.grad is not None and y.grad.tolist() == [12.0, 27.0]


def test_transforms_of_the_original() -> None:
    x = T([[1.0, 2.0], [3.0, 4.0]])
    for strategy in ("auto", "isolated", "vectorized"):
        assert lucid.func.vmap(lambda v: v - v.mean(), strategy=strategy)(x).tolist() == [[-0.5, 0.5]] * 2
    wrong = [
        (lambda: lucid.func.vmap(lambda v: v, strategy="x"), "strategy"),
        (lambda: lucid.func.vmap(lambda a, b: a + b)(lucid.ones(2), lucid.ones(3)), "inconsistent batch sizes"),
        (lambda: lucid.func.vmap(lambda v: v, in_dims=5)(x), "out of range"),
        (lambda: lucid.func.grad(lambda v: v.sum(), has_aux=True)(x), "has_aux"),
        (lambda: lucid.func.jvp(lambda v: v.sum(), (x,), (x,), has_aux=True), "has_aux"),
        (lambda: lucid.func.jvp(lambda v: lucid.ones(2), (x,), (x,), strict=True), "does not depend"),
        (lambda: lucid.func.jvp(lambda v: (v, v.detach()), (x,), (x,), strict=True), "result 1 does not depend"),
    ]
    for call, text in wrong:
        with pytest.raises(ValueError, match=text):
            call()
    assert lucid.func.jvp(lambda v: lucid.ones(2), (x,), (x,))[1].tolist() == [0.0, 0.0]
    value, change, aux = lucid.func.jvp(lambda v: (v.sum(), 3), (x,), (x,), has_aux=True, strict=True)
    assert (value.item(), change.item(), aux) == (10.0, 10.0, 3)


def test_attention_has_a_dropout_of_its_own() -> None:
    for layer in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        made = layer(8, 2, 16, dropout=0.1, attention_dropout=0.25)
        attentions = [m for m in made.modules() if isinstance(m, nn.MultiheadAttention)]
        assert {m.dropout for m in attentions} == {0.25} and made.dropout.p == 0.1
        assert (made.d_model, made.nhead, made.dim_feedforward) == (8, 2, 16)
        assert made.extra_repr() == "d_model=8, nhead=2, dim_feedforward=16, dropout=0.1"
        assert layer(8, 2, dropout=0.3).self_attn.dropout == 0.3
        assert nn.TransformerEncoder(made, 2).extra_repr() == "num_layers=2"
    whole = nn.Transformer(8, 2, 1, 1, 16, attention_dropout=0.5)
    assert {m.dropout for m in whole.modules() if isinstance(m, nn.MultiheadAttention)} == {0.5}
    assert whole.extra_repr() == "d_model=8, nhead=2"


def test_versions_of_batch_norms() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    state = layer.state_dict()
    versions = {path: entry["version"] for path, entry in state._metadata.items()}
    assert versions == {"": 1, "0": 2, "1": 1}
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(state)
    state._metadata["0"]["version"] = 1
    layer[0].num_batches_tracked += 3
    layer.load_state_dict(state)
    assert layer[0].num_batches_tracked.item() == 0 and "0.num_batches_tracked" not in state


ERRORS = [
    (lambda: F.batch_norm(lucid.zeros(2), None, None, training=True), "expected 2–5D input"),
    (lambda: F.rms_norm(lucid.zeros(2, 3), ()), "must not be empty"),
    (lambda: F.rms_norm(lucid.zeros(2, 3), (4,)), "does not match the trailing"),
    (lambda: F.instance_norm(lucid.zeros(2, 3)), "at least 3-D"),
    (lambda: F.max_unpool1d(lucid.zeros(1, 1, 2), T([[[0, 1]]]), 2, output_size=(0,)), "positive"),
    (lambda: F.embedding_bag(T([[0]]), lucid.ones(2, 2), mode="x"), "mode must be one of"),
    (lambda: lucid.linalg.norm(lucid.zeros(2, 2, 2), ord=2), "1-D or 2-D"),
    (lambda: lucid.linalg.norm(lucid.zeros(2), ord="fro"), "matrix order"),
    (lambda: lucid.linalg.norm(lucid.zeros(2, 2), ord="fro", dim=0), "pair of axes"),
    (lambda: lucid.linalg.norm(lucid.zeros(2, 2, 2), dim=(0, 1, 2)), "one or two axes"),
    (lambda: lucid.linalg.matrix_norm(lucid.zeros(2, 2), 7), "unsupported ord"),
    (lambda: lucid.linalg.matrix_norm(lucid.zeros(2)), "at least 2 dimensions"),
    (lambda: lucid.linalg.matrix_norm(lucid.zeros(2, 2), dim=(0, 1, 1)), "pair of axes"),
    (lambda: lucid.linalg.matrix_norm(lucid.zeros(2, 2), dim=(0, 0)), "distinct axes"),
    (lambda: lucid.quantile(lucid.zeros(3), 0.5, interpolation="x"), "interpolation"),
    (lambda: lucid.special.polygamma(-1, T([1.0])), "n must be"),
    (lambda: lucid.signal.windows.hann(-1), ">= 0"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_callers_rely_on(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_schedules_take_verbose() -> None:
    for make in (
        lambda o, **options: optim.lr_scheduler.StepLR(o, 1, **options),
        lambda o, **options: optim.lr_scheduler.ReduceLROnPlateau(o, **options),
        lambda o, **options: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=4, **options),
    ):
        make(optim.SGD([lucid.zeros(1)], lr=1.0), verbose=False)
        with pytest.warns(UserWarning, match="get_last_lr"):
            make(optim.SGD([lucid.zeros(1)], lr=1.0), verbose=True)


def test_files_by_the_names_of_the_original(tmp_path: Path) -> None:
    state = {"a": T([1.0, 2.0]), "b": T([[3]], dtype=lucid.bfloat16)}
    path = tmp_path / "x.safetensors"
    lucid.save_safetensors(state, path, metadata={"by": "me"})
    for found in (lucid.load_safetensors(path), lucid.load(path), lucid.load_safetensors(path, device="cpu")):
        assert list(found) == ["a", "b"] and lucid.equal(found["a"], state["a"]) and lucid.equal(found["b"], state["b"])
    with pytest.raises(TypeError, match="'c' must be a tensor"):
        lucid.save_safetensors({"c": 1}, path)
    lucid.save(state, path, pickle_protocol=4)
    for location in ("cpu", lucid.device("cpu"), {"cpu": "cpu"}, lambda tensor, place: tensor):
        assert lucid.load(path, map_location=location, weights_only=True)["a"].tolist() == [1.0, 2.0]
    assert lucid.load(path, map_location={"cpu": "meta"})["a"].is_meta
    assert lucid.load(path, map_location=lambda tensor, place: tensor.double())["a"].dtype == lucid.float64
    with pytest.raises(TypeError, match="not both"):
        lucid.load(path, map_location="cpu", device="cpu")
    lucid.save_sharded(state, tmp_path / "folder", pickle_protocol=4)
    assert lucid.load_sharded(tmp_path / "folder", map_location="cpu", weights_only=True)["a"].tolist() == [1.0, 2.0]
    assert lucid.serialization.save is lucid.save and lucid.serialization.load_sharded is lucid.load_sharded


def test_paths_and_protocols() -> None:
    from lucid.nn.modules.conv import Conv2d

    from lucid.nn.modules import transformer
    from lucid.nn.utils import clip_grad, convert_parameters

    assert Conv2d is nn.Conv2d and transformer.Transformer is nn.Transformer and nn.modules.Linear is nn.Linear
    assert clip_grad.clip_grad_norm_ is nn.utils.clip_grad_norm_
    assert convert_parameters.parameters_to_vector is nn.utils.parameters_to_vector
    assert lucid.autograd.profiler.profile is lucid.profiler.profile
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = nn.modules.nothing_such
    x = lucid.zeros(2)
    kinds = (lucid.HasShape, lucid.SupportsNumpyConversion, lucid.SupportsGrad, lucid.TensorLikeProtocol)
    assert all(isinstance(x, kind) for kind in kinds) and not any(isinstance(2, kind) for kind in kinds)
    assert isinstance(np.zeros(2), lucid.HasShape) and not isinstance(np.zeros(2), lucid.SupportsGrad)
    assert isinstance(x, lucid.TensorOrScalar) and isinstance(2.0, lucid.Scalar)
    assert lucid.from_dlpack(_Capsule(lucid.to_dlpack(T([1.0, 2.0])))).tolist() == [1.0, 2.0]
    assert nn.Sequential(nn.LazyLinear(2)).has_uninitialized_parameters()
    assert not nn.Sequential(nn.LazyLinear(2)).has_uninitialized_parameters(recurse=False)
    assert not nn.Linear(2, 2).has_uninitialized_parameters()


class _Capsule:
    """What hands a capsule on, as libraries do that take no tensor."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("kind", [optim.LambdaLR, optim.MultiplicativeLR])
def test_states_of_schedules_without_their_functions(kind: Any) -> None:
    def made() -> Any:
        return kind(optim.SGD([nn.Parameter(lucid.zeros(1))], lr=1.0), lambda epoch: 0.5)

    one, two = made(), made()
    one.step()
    state = one.state_dict()
    del state["lr_lambdas"]
    two.load_state_dict(state)
    assert two.last_epoch == 1 and two.get_last_lr() == one.get_last_lr()
    with pytest.raises(ValueError):  # of another number of groups
        two.load_state_dict({**state, "lr_lambdas": [None, None]})


def test_errors_are_of_both_classes() -> None:
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        lucid.histogramdd(T([1.0]), 3)
    with pytest.raises(TypeError, match="integer"):
        lucid.linalg.lu_solve(lucid.eye(2), T([1.0, 2.0]), lucid.eye(2))


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("new", [DynamicCache, lambda: StaticCache(10)])
def test_attention_goes_on_from_cached_keys_and_values(new, batch_first, heads):
    attention = nn.MultiheadAttention(16, 4, batch_first=batch_first, num_kv_heads=heads)
    x = lucid.randn(2, 6, 16)
    hidden = lucid.ones(6, 6, dtype=lucid.bool_).triu(1)

    def part(start, stop):
        return x[:, start:stop] if batch_first else x[:, start:stop].transpose(0, 1)

    whole, _ = attention(part(0, 6), part(0, 6), part(0, 6), attn_mask=hidden)
    cache, found = new(), []
    with lucid.no_grad():
        for start, stop in ((0, 1), (1, 4), (4, 6)):
            given = part(start, stop)
            out, _ = attention(given, given, given, is_causal=start > 0, past_key_value=cache, use_cache=True)
            found.append(out)
    assert cache.get_seq_length() == 6 and cache[0][0].shape[1] == heads
    np.testing.assert_allclose(lucid.cat(found, int(batch_first)).numpy(), whole.detach().numpy(), atol=1e-6)


def test_attention_to_an_encoder_is_computed_once():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    memory, step = lucid.randn(2, 5, 8), lucid.randn(2, 1, 8)
    options = {"past_key_value": cache, "use_cache": True, "is_cross_attention": True}
    first, _ = attention(step, memory, memory, **options)
    again, _ = attention(step, memory * 2, memory * 2, **options)  # what is kept is used
    assert (first == again).all() and cache.cross_attention_cache.get_seq_length() == 5
    assert cache.get_seq_length() == 0
    alone, _ = attention(step[0], memory[0], memory[0], past_key_value=DynamicCache(), use_cache=True)
    np.testing.assert_allclose(alone.detach().numpy(), first[0].detach().numpy(), atol=1e-6)


def test_stacks_of_layers_take_states_that_number_them():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    other = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    state = {name.removeprefix("layers."): value for name, value in encoder.state_dict().items()}
    other.load_state_dict(state)
    assert all((a == b).all() for a, b in zip(encoder.parameters(), other.parameters(), strict=True))
    assert all(not name.startswith("layers.") for name in state)  # it is as it was


def test_polynomial_schedules_end_at_their_least_rate():
    schedule = optim.lr_scheduler.PolynomialLR(optim.SGD([lucid.zeros(1)], lr=1.0), 4, 2.0, eta_min=0.1)
    rates = []
    for _ in range(5):
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    np.testing.assert_allclose(rates, [0.9 * (1 - min(t, 4) / 4) ** 2 + 0.1 for t in range(1, 6)])


def test_forward_jacobians_of_random_functions():
    x = lucid.ones(3)
    with pytest.raises(RuntimeError, match="random"):
        lucid.func.jacfwd(lambda v: v * lucid.rand(3))(x)
    found = lucid.func.jacfwd(lambda v: v * lucid.rand(3), randomness="same")(x)
    assert (found == lucid.diag(found.diagonal())).all()
