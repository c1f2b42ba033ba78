"""Names of PyTorch that are built on others: what they compute, and that what needs a device says so."""

import pickle

import lucid.torch.nn as nn
import lucid.torch.nn.functional as F
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.torch import accelerators


def test_types_print_and_equal_those_of_lucid():
    assert str(torch.float32) == repr(torch.float32) == "torch.float32"
    for dtype in (torch.float16, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        original = getattr(lucid, dtype.name)
        assert dtype == original and original == dtype and hash(dtype) == hash(original) and dtype != torch.float64
        assert {original: 1}[dtype] == 1 and isinstance(dtype, torch.dtype)
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        x = torch.zeros(2, dtype=dtype)
        assert x.dtype is dtype and lucid.zeros(2, dtype=dtype).dtype is original
        assert (x + x).dtype is dtype and np.zeros(2, dtype=torch.int32).dtype == np.int32
    assert (
        torch.get_default_dtype() is torch.float32 and torch.promote_types(torch.int8, torch.float32) is torch.float32
    )
    assert torch.result_type(torch.ones(1), 1) is torch.float32 and torch.float64.to_complex() is torch.complex128
    assert nn.Linear(2, 1).double().weight.dtype is torch.float64
    assert (
        torch.finfo(torch.bfloat16).bits == 16
        and torch.ones(1, dtype=torch.float64).to(torch.float32).dtype is torch.float32
    )


def test_sync_batch_norm_is_batch_norm_in_one_process():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3)))
    x = torch.rand(4, 2, 3, 3)
    want = model(x)
    parameters = list(model.parameters())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[1]) is nn.SyncBatchNorm and type(converted[2][0]) is nn.SyncBatchNorm
    assert all(p is q for p, q in zip(parameters, converted.parameters(), strict=True))
    np.testing.assert_allclose(converted(x).detach().numpy(), want.detach().numpy(), rtol=1e-5)
    assert int(converted[1].num_batches_tracked) == 2


def test_distributed_modules_run_in_one_process():
    with pytest.raises(ValueError, match="no process group yet"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    torch.distributed.init_process_group()
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        with model.no_sync():
            assert list(model.state_dict()) == ["module.weight", "module.bias"]
            assert model(torch.ones(3, 2)).shape == (3, 1)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("library", [lucid, torch], ids=["lucid", "torch"])
def test_custom_functions_inside_autocast(library):
    seen = []

    def function(**options):
        class Product(library.autograd.Function):
            @staticmethod
            @library.amp.custom_fwd(device_type="cpu", **options)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                seen.append((a @ b).dtype)
                return a @ b

            @staticmethod
            @library.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                seen.append((g.float() @ b.float().T).dtype)
                return g.float() @ b.float().T, a.float().T @ g.float()

        return Product.apply

    for options, inside, backward in (
        ({}, torch.bfloat16, torch.bfloat16),
        ({"cast_inputs": torch.float32}, torch.float32, torch.float32),
    ):
        a, b = (library.ones(2, 2).requires_grad_() for _ in range(2))
        seen.clear()
        with library.autocast("cpu"):
            out = function(**options)(a, b)
        out.sum().backward()
        assert seen == [inside, backward]
        np.testing.assert_array_equal(a.grad.float().numpy(), np.full((2, 2), 2))
    seen.clear()
    function(cast_inputs=torch.float64)(library.ones(1, 1), library.ones(1, 1))
    assert seen == [torch.float32]  # outside of autocast nothing is cast


def test_graph_tools():
    graph = torch.autograd.graph
    seen = []
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    handle = graph.register_multi_grad_hook([a, b], lambda grads: seen.append([g.item() for g in grads]))
    for _ in range(2):
        (2 * a + 3 * b).sum().backward()
    handle.remove()
    (2 * a + 3 * b).sum().backward()
    assert seen == [[2.0, 3.0], [2.0, 3.0]]
    with graph.register_multi_grad_hook([a, b], lambda g: seen.append(g.item()), mode="any"):
        (2 * a + 3 * b).sum().backward()
    assert len(seen) == 3 and seen[-1] in (2.0, 3.0)
    c = torch.ones(1, requires_grad=True)
    for mode, expected in (("all", [[2.0, None], [None, 3.0], [2.0, 3.0]]), ("any", [2.0, 3.0])):
        seen.clear()
        read = (lambda g: [None if x is None else x.item() for x in g]) if mode == "all" else (lambda g: g.item())
        with graph.register_multi_grad_hook([a, b], lambda g, read=read: seen.append(read(g)), mode=mode):
            (2 * a + c).sum().backward()
            (c * 5).sum().backward()  # reaches none of them
            torch.autograd.grad((3 * b).sum(), b)
            if mode == "all":
                (2 * a + 3 * b).sum().backward()
        assert seen == expected

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ArithmeticError

    seen.clear()
    y = a * 1
    with graph.register_multi_grad_hook([y, b], lambda g: seen.append(len(g))):
        with pytest.raises(ArithmeticError):
            (Fails.apply(c).sum() + y.sum()).backward()
        assert not seen
        (a * 1 + b).sum().backward()
    assert seen == [2]
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="overwritten"):
        z.sum().backward()
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_functions_of_the_first_namespace():
    rng = np.random.RandomState(0)
    m = rng.randn(4, 4)
    a, b = torch.tensor(m @ m.T), torch.tensor(np.eye(4) + 0.1 * (m @ m.T))
    values, vectors = torch.lobpcg(a, 2, b)
    np.testing.assert_allclose((a @ vectors).numpy(), (b @ vectors * values).numpy(), atol=1e-10)
    want = np.sort(np.linalg.eigvals(np.linalg.solve(b.numpy(), a.numpy())).real)[::-1][:2]
    np.testing.assert_allclose(values.numpy(), want, rtol=1e-9)
    assert torch.lobpcg(a, 1, largest=False)[0].item() == pytest.approx(np.linalg.eigvalsh(a.numpy())[0])
    assert torch.range(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75, 1.0]
    assert torch.typename(torch.zeros(1, dtype=torch.int64)) == "torch.LongTensor"
    x = torch.arange(6.0)
    assert x[3:].storage().size() == 6 and x[3:].untyped_storage().nbytes() == 24 and x.storage()[2] == 2.0
    assert torch.is_storage(x.storage()) and not torch.is_storage(x)
    out, indices = F.max_pool1d_with_indices(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    assert out.tolist() == [[3.0, 2.0]] and indices.tolist() == [[1, 2]]
    weight, signal = rng.randn(3, 2, 5), rng.randn(7, 4, 2)
    found = torch.conv_tbc(torch.tensor(signal), torch.tensor(weight), torch.zeros(5).double(), 1)
    padded = np.pad(signal, ((1, 1), (0, 0), (0, 0)))
    np.testing.assert_allclose(found.numpy(), sum(padded[k : k + 7] @ weight[k] for k in range(3)), atol=1e-12)
    assert torch.default_generator.initial_seed() == torch.initial_seed()
    g = torch.Generator().manual_seed(5)
    torch.rand(3, generator=g)
    other = g.clone_state()
    assert g.get_offset() == other.counter > 0 and torch.equal(
        torch.rand(3, generator=g), torch.rand(3, generator=other)
    )
    g.set_offset(0)
    assert torch.equal(torch.rand(3, generator=g), torch.rand(3, generator=lucid.Generator(seed=5)))


def test_settings_are_kept():
    torch.set_deterministic_debug_mode("warn")
    assert torch.get_deterministic_debug_mode() == 1
    torch.set_deterministic_debug_mode(0)
    assert not torch.is_autocast_enabled() and not torch.is_anomaly_enabled() and not torch.is_warn_always_enabled()
    with torch.cpu.amp.autocast(), torch.autograd.detect_anomaly():
        assert torch.is_autocast_enabled("cpu") and torch.is_anomaly_enabled()
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16


@pytest.mark.parametrize("name", sorted(n for n, v in vars(accelerators).items() if v is accelerators.needed))
def test_what_needs_a_device_says_so(name):
    if name != "needed":
        with pytest.raises(RuntimeError, match="no backend for GPUs"):
            getattr(torch.cuda, name)()


def test_made_for_tests():
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint8):
        x = torch.testing.make_tensor((3, 4), dtype=dtype, device="cpu")
        assert x.shape == (3, 4) and x.dtype is dtype and type(x) is torch.Tensor
    x = torch.testing.make_tensor(2, 4, dtype=torch.float64, low=1, high=2, noncontiguous=True, requires_grad=True)
    assert x.requires_grad and not x.is_contiguous() and bool((x >= 1).all() and (x < 2).all())
    with pytest.raises(AssertionError):
        torch.testing.assert_allclose(torch.ones(2), 1.1)
    model = torch.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(2)))
    assert torch.func.vmap(model)(torch.rand(3, 4, 2)).shape == (3, 4, 2)


# --- what packages for PyTorch do ------------------------------------------------------------------


def test_modules_may_be_abstract():
    from abc import ABC, abstractmethod

    class Metric(nn.Module, ABC):
        @abstractmethod
        def update(self): ...

    class Count(Metric):
        def update(self):
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Metric()
    assert Count().update() == 1 and isinstance(Count(), nn.Module) and isinstance(nn.Linear(1, 1), nn.Linear)


def test_optimizers_around_others_need_no_init():
    class Around(torch.optim.Optimizer):
        def __init__(self, inner):
            self.optimizer, self.param_groups, self.state = inner, inner.param_groups, inner.state

        def step(self, closure=None):
            return self.optimizer.step(closure)

    p = torch.ones(1, requires_grad=True)
    p.grad = torch.ones(1)
    around, seen = Around(torch.optim.SGD([p], lr=0.5)), []
    around.step()
    around.register_step_post_hook(lambda *_: seen.append(1))
    around.step()
    assert p.item() == 0.0 and seen == [1]


def test_functions_get_gradients_of_their_class():
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x + 1

        @staticmethod
        def backward(ctx, g, h):
            seen.extend([type(g), type(h), type(ctx.saved_tensors[0]), g.shape.numel()])
            return 2 * g + h

    x = torch.ones(3, requires_grad=True)
    Twice.apply(x)[0].sum().backward()
    assert seen == [torch.Tensor] * 3 + [3] and x.grad.tolist() == [2.0] * 3


def test_marks_for_compilers():
    compiler = torch.compiler
    assert (
        compiler.allow_in_graph(len)
        is compiler.assume_constant_result(len)
        is compiler.nested_compile_region(len)
        is len
    )
    assert (
        compiler.list_backends() == ["inductor"]
        and compiler.reset() is None
        and compiler.cudagraph_mark_step_begin() is None
    )
    with compiler.set_stance("force_eager"):
        assert not compiler.is_compiling()
    assert torch.autograd.functional.jacobian(func=torch.exp, inputs=torch.zeros(1)).tolist() == [[1.0]]
    assert int(torch.randint_like(torch.zeros(9), high=2).max()) < 2
    with pytest.raises(TypeError, match="needs a bound"):
        torch.randint_like(torch.zeros(2))
