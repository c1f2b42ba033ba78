"""The device "meta": shapes, types and history without elements."""

import copy
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from lucid.torch.nn import functional as F

import lucid
import lucid.torch as torch
from lucid.ir.meta import Meta
from lucid.kinds.kind import NeedsValueError
from lucid.torch import nn

ROOM = 200 << 20  # bytes that a process may grow by, for models of many times as many


def resident() -> int:
    """Bytes of memory that the process has touched."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype), value.requires_grad
    return [described(v) for v in value] if isinstance(value, tuple | list) else value


def mlp(**k: Any) -> Any:
    return nn.Sequential(nn.Linear(6, 8, **k), nn.LayerNorm(8, **k), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3, **k))


def convolutional(**k: Any) -> Any:
    layers = [nn.Conv2d(3, 4, 3, stride=2, **k), nn.BatchNorm2d(4, **k), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(36, 2, **k))


class Embedded(nn.Module):
    def __init__(self, **k: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8, **k)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **k)

    def forward(self, words: Any) -> Any:
        return self.layer(self.table(words)) @ self.table.weight.T


class Recurrent(nn.Module):
    def __init__(self, **k: Any) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(5, 7, 2, **k), nn.Linear(7, 2, **k)

    def forward(self, x: Any) -> Any:
        return self.out(self.rnn(x)[0][-1])


MODELS = {
    "mlp": (mlp, lambda **k: torch.randn(4, 6, **k)),
    "convolutional": (convolutional, lambda **k: torch.rand(2, 3, 16, 16, **k)),
    "embedded": (Embedded, lambda **k: torch.zeros(2, 5, dtype=torch.long, **k)),
    "recurrent": (Recurrent, lambda **k: torch.ones(6, 3, 5, **k)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_and_their_gradients(name: str) -> None:
    make, data = MODELS[name]
    found = []
    for place in ("cpu", "meta"):
        model, x = make(device=place), data(device=place)
        out = model(x)
        out.square().mean().backward()
        assert all(p.device.type == p.grad.device.type == place for p in model.parameters())
        optimizer = torch.optim.AdamW(model.parameters())
        optimizer.step()
        gradients = {n: described(p.grad) for n, p in model.named_parameters()}
        found.append((described(out), gradients, {n: described(b) for n, b in model.named_buffers()}))
    assert found[0] == found[1]


OPERATIONS: dict[str, Any] = {
    "arithmetic": lambda x, y: x * 2 + y / x - 1,
    "promotion": lambda x, y: x.double() + y.to(torch.int64),
    "comparison": lambda x, y: (x > y) & (x == y),
    "product": lambda x, y: x @ y.T,
    "sums": lambda x, y: (x.sum(0, keepdim=True), x.mean(), x.argmax(1), x.std(1), x.logsumexp(0)),
    "views": lambda x, y: (x.view(2, 6), x.t(), x[1:, ::2], x.unsqueeze(0).expand(5, 3, 4), x.unfold(0, 2, 1)),
    "joins": lambda x, y: (torch.cat([x, y]), torch.stack([x, y], 1), x.chunk(2, 1)),
    "sorting": lambda x, y: (*x.sort(1), *x.topk(2)),
    "gather": lambda x, y: x.gather(1, torch.zeros(3, 2, dtype=torch.long, device=x.device)),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "softmax": lambda x, y: F.softmax(x, -1),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "like": lambda x, y: (torch.zeros_like(x), torch.randn_like(y), x.new_ones(2), torch.full_like(x, 3)),
    "writes": lambda x, y: x.clone().add_(y).mul_(2).fill_(1).normal_(),
    "items": lambda x, y: x.clone().index_fill_(0, torch.zeros(1, dtype=torch.long, device=x.device), 1.0),
    "padding": lambda x, y: F.pad(x, (1, 2)),
    "linalg": lambda x, y: (torch.linalg.svd(x, full_matrices=False)[1], torch.linalg.norm(x)),
    "fft": lambda x, y: torch.fft.rfft(x),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    found = [OPERATIONS[name](torch.rand(3, 4, device=d), torch.rand(3, 4, device=d) + 1) for d in ("cpu", "meta")]
    assert described(found[0]) == described(found[1])
    flat = found[1] if isinstance(found[1], tuple | list) else [found[1]]
    assert all(isinstance(t, Meta) for t in flat if isinstance(t, lucid.Tensor))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.ones(2, 3, device=d) + torch.ones(2, 4, device=d),
        lambda d: torch.ones(2, 3, device=d).view(4),
        lambda d: nn.Linear(3, 4, device=d)(torch.ones(2, 5, device=d)),
        lambda d: nn.Conv2d(3, 4, 3, device=d)(torch.ones(2, 5, 8, 8, device=d)),
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
        lambda d: torch.ones(2, 3, device=d).sum(5),
        lambda d: F.cross_entropy(torch.ones(2, 3, device=d), torch.zeros(3, dtype=torch.long, device=d)),
    ],
)
def test_errors_of_shapes_are_those_of_values(wrong: Any) -> None:
    messages = []
    for place in ("cpu", "meta"):
        with pytest.raises((RuntimeError, ValueError, IndexError)) as error:
            wrong(place)
        messages.append((type(error.value), re.sub(r"torch.Size\(\[(.*?)\]\)", r"(\1)", str(error.value))))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "asked",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.detach().numpy(),
        lambda x: bool(x.sum() > 0),
        lambda x: float(x[0, 0]),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: torch.ones(2, 3).copy_(x),
        lambda x: copy.copy(torch.ones(2, 3)).add_(x),
    ],
)
def test_values_are_refused(asked: Any) -> None:
    with pytest.raises(NeedsValueError, match="'meta' and has no elements"):
        asked(torch.ones(2, 3, device="meta"))


def test_a_gradient_with_elements_cannot_depend_on_one_without() -> None:
    torch.func.grad(lambda t: t.sum())(torch.ones(2))  # after a transform, tensors are younger than the device
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(NeedsValueError, match="gradient"):
        (x * torch.ones(3, device="meta")).sum().backward()
    assert x.grad is None


def test_contexts() -> None:
    with torch.device("meta"):
        inside, layer = torch.arange(3), nn.Linear(2, 3)
        with torch.device("cpu"):
            assert not torch.ones(2).is_meta
        assert torch.ones(2).is_meta and torch.tensor([1.0]).is_meta and torch.get_default_device().type == "meta"
    assert inside.is_meta and layer.weight.is_meta and not torch.ones(2).is_meta
    torch.set_default_device("meta")
    try:
        assert torch.rand(2).is_meta
    finally:
        torch.set_default_device(None)
    assert not torch.rand(2).is_meta


def test_attributes() -> None:
    x = torch.empty(2, 3, dtype=torch.bfloat16, device="meta")
    assert (x.shape, x.numel(), x.ndim, x.element_size(), x.stride(), x.t().is_contiguous()) == (
        (2, 3), 6, 2, 2, (3, 1), False
    )  # fmt: skip
    assert isinstance(x.shape, torch.Size) and x.dtype is torch.bfloat16 and isinstance(x, torch.Tensor)
    assert repr(x) == "tensor(..., device='meta', size=(2, 3), dtype=torch.bfloat16)"
    assert repr(lucid.empty(2, device="meta")) == "Tensor(..., device='meta', size=(2,), dtype=lucid.float32)"
    assert str(torch.device("meta")) == "meta" and x.is_meta and not x.is_cuda and not x.is_cpu


def test_memory_comes_later() -> None:
    layer = nn.Linear(3, 2, device="meta")
    weight = layer.weight
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    assert layer.to_empty(device="cpu") is layer and layer.weight is weight
    assert isinstance(weight, nn.Parameter) and type(weight) is torch.Tensor and not weight.is_meta
    nn.init.ones_(weight)
    nn.init.zeros_(layer.bias)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert weight.tolist() == [[0.5] * 3] * 2
    again = nn.Linear(3, 2, device="meta")
    with pytest.raises(RuntimeError, match="assign=True"):
        again.load_state_dict(layer.state_dict())
    again.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(again(torch.ones(1, 3)), layer(torch.ones(1, 3))) and again.weight.requires_grad
    assert layer.to("meta").weight is weight and weight.is_meta
    with pytest.raises(NeedsValueError):
        layer.to("cpu")


def test_copies_and_state() -> None:
    layer = nn.Linear(3, 2, device="meta")
    twin = copy.deepcopy(layer)
    assert twin.weight.is_meta and twin.weight is not layer.weight and twin.weight.requires_grad
    assert all(t.is_meta and not t.requires_grad for t in layer.state_dict().values())
    other = nn.Linear(3, 2, device="meta")
    other.load_state_dict(layer.state_dict())


def test_transforms() -> None:
    x = torch.ones(4, 3, device="meta")
    assert torch.func.vmap(lambda row: row.sin().sum())(x).shape == (4,)
    assert torch.func.grad(lambda v: (v**2).sum())(x).is_meta
    primal, tangent = torch.func.jvp(torch.sin, (x,), (x,))
    assert primal.is_meta and tangent.shape == (4, 3)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


def test_functions_of_users() -> None:
    x = torch.ones(3, device="meta", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.is_meta and x.grad.shape == (3,)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory was touched")
def test_large_models_take_no_memory() -> None:
    before = resident()
    width, depth, words = 12288, 4, 50257  # four of the layers of a model of 175 billion parameters
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(width, 96, 4 * width, batch_first=True)
        model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        table = nn.Embedding(words, width)
    count = sum(p.numel() for m in (model, table) for p in m.parameters())
    per_layer = 12 * width * width + 13 * width
    assert count == depth * per_layer + words * width  # 7.9 billion, of 32 GB
    out = model(table(torch.zeros(8, 2048, dtype=torch.long, device="meta")))
    out.mean().backward()
    assert out.shape == (8, 2048, width) and table.weight.grad.shape == (words, width)
    assert torch.randn(10**6, 10**6, device="meta").numel() == 10**12
    assert resident() - before < ROOM
