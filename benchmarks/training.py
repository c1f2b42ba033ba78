"""Whole training steps against PyTorch: the same models, from the same weights, on the same batches.

Models are functions of a namespace, `lucid` or `torch`, in which layers, losses and optimizers have the same names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from benchmarks.libraries import Library, Thunk
from benchmarks.transforms import PEERS
from benchmarks.workloads import Workload

TARGETS_PER_INPUT = 4
STEPS_BEFORE = 3  # taken before results are compared, so that gradients and updates are compared too


def mlp(ns: Any, widths: tuple[int, ...]) -> Any:
    """ReLU between linear layers, nothing after the last."""
    layers: list[Any] = []
    for n, m in pairwise(widths):
        layers += [ns.nn.Linear(n, m), ns.nn.ReLU()]
    return ns.nn.Sequential(*layers[:-1])


def _block(ns: Any, width: int, heads: int) -> Any:
    nn, attend = ns.nn, ns.nn.functional.scaled_dot_product_attention

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        """x + attention(norm(x)), then x + mlp(norm(x))."""

        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.before_attention(x)).split(width, dim=2)
            q, k, v = (p.view(batch, length, heads, width // heads).transpose(1, 2) for p in parts)
            attended = attend(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(attended)
            return x + self.mlp(self.before_mlp(x))

    return Block()


def gpt(ns: Any, vocabulary: int, length: int, layers: int, width: int, heads: int) -> Any:
    """A decoder-only transformer with learned positions; one row of logits for each token."""
    nn = ns.nn

    class GPT(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(_block(ns, width, heads) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.positions(ns.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    return GPT()


def lstm(ns: Any, inputs: int, hidden: int, outputs: int) -> Any:
    """An LSTM over (length, batch, inputs) and a linear head on its last output."""
    nn = ns.nn

    class Recurrent(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(inputs, hidden), nn.Linear(hidden, outputs)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][-1])

    return Recurrent()


def cnn(ns: Any, widths: tuple[int, ...], strides: tuple[int, ...], classes: int) -> Any:
    """Stages of 3x3 convolution, batch norm and ReLU; the mean over all places; a linear head."""
    nn = ns.nn
    stages: list[Any] = []
    for (n, m), stride in zip(pairwise((3, *widths)), strides, strict=True):
        stages += [nn.Conv2d(n, m, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(m), nn.ReLU()]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


@dataclass(frozen=True)
class Recipe:
    """Everything that one training run is made of."""

    model: Callable[[Any], Any]
    optimizer: str
    options: dict[str, Any]
    x: np.ndarray
    targets: np.ndarray  # several for the same x, in turn: then no fit is perfect and gradients never vanish
    loss: str = "cross_entropy"

    def initial(self) -> dict[str, np.ndarray]:
        """The state of Lucid's model as it is first made, by name: where everybody starts."""
        import lucid

        lucid.manual_seed(0)
        return {name: np.array(value.numpy()) for name, value in self.model(lucid).state_dict().items()}

    def stepper(self, lib: Library) -> Thunk:
        """A call that trains for one step and returns the loss before it."""
        ns = lib.namespace
        model = self.model(ns)
        model.load_state_dict({name: lib.constant(a) for name, a in self.initial().items()})
        optimizer = getattr(ns.optim, self.optimizer)(model.parameters(), **self.options)
        criterion = getattr(ns.nn.functional, self.loss)
        x, targets = lib.constant(self.x), cycle([lib.constant(t) for t in self.targets])

        def step(x: Any, target: Any) -> Any:
            optimizer.zero_grad()
            loss = criterion(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        prepared = lib.prepared(step)
        return lambda: prepared(x, next(targets))

    def bind(self, lib: Library) -> Thunk:
        """The same, with a few steps already taken."""
        step = self.stepper(lib)
        for _ in range(STEPS_BEFORE):
            step()
        return step


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _whole(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(high, size=shape)


def mlp_recipe(widths: tuple[int, ...], batch: int) -> Recipe:
    labels = _whole(widths[-1], TARGETS_PER_INPUT, batch)
    return Recipe(partial(mlp, widths=widths), "Adam", {"lr": 1e-3}, _normal(batch, widths[0]), labels)


def gpt_recipe(layers: int, width: int, heads: int, length: int, batch: int, vocabulary: int) -> Recipe:
    model = partial(gpt, vocabulary=vocabulary, length=length, layers=layers, width=width, heads=heads)
    labels = _whole(vocabulary, TARGETS_PER_INPUT, batch * length)
    return Recipe(model, "AdamW", {"lr": 3e-4}, _whole(vocabulary, batch, length), labels)


def lstm_recipe(inputs: int, hidden: int, outputs: int, length: int, batch: int) -> Recipe:
    model = partial(lstm, inputs=inputs, hidden=hidden, outputs=outputs)
    targets = _normal(TARGETS_PER_INPUT, batch, outputs)
    return Recipe(model, "Adam", {"lr": 1e-3}, _normal(length, batch, inputs), targets, "mse_loss")


def cnn_recipe(widths: tuple[int, ...], size: int, batch: int, classes: int) -> Recipe:
    model = partial(cnn, widths=widths, strides=(1, 2, 2), classes=classes)
    labels = _whole(classes, TARGETS_PER_INPUT, batch)
    return Recipe(model, "SGD", {"lr": 0.01, "momentum": 0.9}, _normal(batch, 3, size, size), labels)


STEPS = (
    (
        "train-mlp-small",
        "training step, MLP 64-64-64-10, batch 32, Adam",
        mlp_recipe((64, 64, 64, 10), batch=32),
        3.0,
    ),
    (
        "train-mlp",
        "training step, MLP 784-256-128-10, batch 128, Adam",
        mlp_recipe((784, 256, 128, 10), batch=128),
        1.2,
    ),
    (
        "train-gpt",
        "training step, GPT of 4 layers, width 128, 8 x 64 tokens, AdamW",
        gpt_recipe(layers=4, width=128, heads=4, length=64, batch=8, vocabulary=256),
        1.0,
    ),
    (
        "train-gpt-wide",
        "training step, GPT of 2 layers, width 384, vocabulary 2048, 4 x 128 tokens, AdamW",
        gpt_recipe(layers=2, width=384, heads=6, length=128, batch=4, vocabulary=2048),
        1.0,
    ),
    (
        "train-lstm",
        "training step, LSTM 64-128, 64 steps, batch 16, Adam",
        lstm_recipe(inputs=64, hidden=128, outputs=10, length=64, batch=16),
        1.0,
    ),
    (
        "train-cnn",
        "training step, CNN 32-64-128 with batch norm, 32x3x32x32, SGD",
        cnn_recipe((32, 64, 128), size=32, batch=32, classes=10),
        0.6,
    ),
)

TRAINING = tuple(Workload(name, title, recipe.bind, {"torch": factor}, PEERS) for name, title, recipe, factor in STEPS)
