"""Whole training runs, and the state of every layer, compared with PyTorch."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lucid  # noqa: E402  # after the check for PyTorch
from benchmarks.libraries import Lucid, Torch  # noqa: E402
from benchmarks.training import (  # noqa: E402
    TARGETS_PER_INPUT,
    Recipe,
    cnn_recipe,
    gpt_recipe,
    lstm_recipe,
    mlp_recipe,
)

RUNS = {
    "mlp-small": mlp_recipe((64, 64, 64, 10), batch=32),
    "mlp": mlp_recipe((784, 256, 128, 10), batch=128),
    "gpt": gpt_recipe(layers=2, width=32, heads=4, length=16, batch=4, vocabulary=64),
    "lstm": lstm_recipe(inputs=16, hidden=32, outputs=10, length=24, batch=8),
    "cnn": cnn_recipe((8, 16, 32), size=16, batch=8, classes=10),
}


@pytest.mark.parametrize("name", RUNS)
def test_losses_agree_over_a_run(name: str) -> None:
    recipe: Recipe = RUNS[name]
    steppers = [recipe.stepper(library()) for library in (Lucid, Torch)]
    torch.set_num_threads(1)  # the models are small, and other tests may be running beside this one
    ours, theirs = ([step().item() for _ in range(20)] for step in steppers)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    # The same target comes round again, and by then training has changed the loss by much more than the tolerance.
    assert abs(ours[4 * TARGETS_PER_INPUT] / ours[0] - 1) > 0.02


rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def chance(*shape: int) -> np.ndarray:
    return rng.uniform(0.1, 0.9, shape).astype(np.float32)


def signs(*shape: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape).astype(np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    return rng.integers(high, size=shape)


class Layer(NamedTuple):
    """How a layer is made from `lucid` or `torch`, what it is given, and how it is called."""

    build: Callable[[Any], Any]
    inputs: tuple[Any, ...]
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs)
    random: bool = False  # in training: compared in evaluation only


def named(name: str, inputs: tuple[Any, ...], *args: Any, random: bool = False, **options: Any) -> tuple[str, Layer]:
    return name, Layer(lambda ns: getattr(ns.nn, name)(*args, **options), inputs, random=random)


def activations() -> Iterator[tuple[str, Layer]]:
    plain = """CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU ReLU
    ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"""
    for name in plain.split():
        yield named(name, (normal(4, 6) * 2,))
    for name in ("Softmax", "LogSoftmax", "Softmin"):
        yield named(name, (normal(4, 6),), 1)
    yield named("Softmax2d", (normal(2, 3, 4, 4),))
    yield named("Threshold", (normal(4, 6),), 0.1, 20.0)
    yield named("RReLU", (normal(4, 6),), random=True)
    for name in ("AlphaDropout", "Dropout", "FeatureAlphaDropout"):
        yield named(name, (normal(4, 6),), random=True)


def spatial(n: int) -> Iterator[tuple[str, Layer]]:
    """What comes in one, two and three dimensions."""
    image = (normal(2, 4, *(8, 6, 6)[:n]),)
    yield named(f"Conv{n}d", image, 4, 6, 3, stride=2, padding=1, groups=2)
    yield named(f"ConvTranspose{n}d", image, 4, 6, 3, stride=2, padding=1, output_padding=1)
    yield named(f"BatchNorm{n}d", image, 4)
    yield named(f"InstanceNorm{n}d", image, 4, affine=True, track_running_stats=True)
    for kind in ("Max", "Avg"):
        yield named(f"{kind}Pool{n}d", image, 3, stride=2, padding=1)
        yield named(f"Adaptive{kind}Pool{n}d", image, 3)
    yield named(f"LPPool{n}d", (np.abs(image[0]),), 2, 2)
    pooled = getattr(torch.nn.functional, f"max_pool{n}d")(torch.from_numpy(image[0]), 2, return_indices=True)
    yield named(f"MaxUnpool{n}d", tuple(p.numpy() for p in pooled), 2)
    yield named(f"ConstantPad{n}d", image, 1, 2.5)
    for kind in ("Zero", "Reflection", "Replication", "Circular"):
        yield named(f"{kind}Pad{n}d", image, 1)
    yield named(f"Dropout{n}d", image, random=True)
    if n > 1:
        places = chance(2, 4, n)
        pool = f"FractionalMaxPool{n}d"
        yield pool, Layer(lambda ns: getattr(ns.nn, pool)(2, output_size=3, _random_samples=ns.tensor(places)), image)


def norms_and_shapes() -> Iterator[tuple[str, Layer]]:
    image = (normal(2, 4, 6, 6),)
    yield named("GroupNorm", image, 2, 4)
    yield named("LayerNorm", image, (6, 6))
    yield named("RMSNorm", image, (6, 6))
    yield named("LocalResponseNorm", image, 3)
    yield named("Flatten", image)
    yield named("Unflatten", image, 1, (2, 2))
    yield named("ChannelShuffle", image, 2)
    yield named("PixelShuffle", image, 2)
    yield named("PixelUnshuffle", image, 2)
    yield named("Unfold", image, 3, padding=1)
    yield named("Fold", (normal(2, 4 * 9, 16),), 6, 3)
    yield named("Upsample", image, scale_factor=2, mode="bicubic", align_corners=False)
    yield named("UpsamplingBilinear2d", image, scale_factor=2)
    yield named("UpsamplingNearest2d", image, scale_factor=2)


def tables_and_products() -> Iterator[tuple[str, Layer]]:
    yield named("Linear", (normal(4, 3),), 3, 2)
    yield named("Bilinear", (normal(4, 3), normal(4, 2)), 3, 2, 5)
    yield named("Embedding", (whole(10, 4, 3),), 10, 3, padding_idx=2)
    yield named("EmbeddingBag", (whole(10, 4, 3),), 10, 3)
    yield named("CosineSimilarity", (normal(4, 3), normal(4, 3)))
    yield named("PairwiseDistance", (normal(4, 3), normal(4, 3)))
    yield named("AdaptiveLogSoftmaxWithLoss", (normal(12, 8), whole(20, 12)), 8, 20, cutoffs=[4, 9], div_value=2.0)


def sequences() -> Iterator[tuple[str, Layer]]:
    x, memory = normal(5, 2, 8), normal(7, 2, 8)
    for kind in ("RNN", "GRU", "LSTM"):
        yield named(kind, (x,), 8, 6, num_layers=2, bidirectional=True)
        yield named(f"{kind}Cell", (x[0],), 8, 6)
    yield named("MultiheadAttention", (x, memory, memory), 8, 2)
    sizes: dict[str, Any] = {"dim_feedforward": 16, "dropout": 0.0}
    yield named("TransformerEncoderLayer", (x,), 8, 2, **sizes)
    yield named("TransformerDecoderLayer", (x, memory), 8, 2, **sizes)
    counts = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    yield named("Transformer", (memory.swapaxes(0, 1), x.swapaxes(0, 1)), 8, 2, batch_first=True, **sizes, **counts)

    def encoder(ns: Any) -> Any:
        layer = ns.nn.TransformerEncoderLayer(8, 2, **sizes)
        return ns.nn.TransformerEncoder(layer, 2, ns.nn.LayerNorm(8), enable_nested_tensor=False)

    yield "TransformerEncoder", Layer(encoder, (x,))
    yield (
        "TransformerDecoder",
        Layer(lambda ns: ns.nn.TransformerDecoder(ns.nn.TransformerDecoderLayer(8, 2, **sizes), 2), (x, memory)),
    )


def losses() -> Iterator[tuple[str, Layer]]:
    a, b, c = normal(4, 5), normal(4, 5), normal(4, 5)
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        yield named(name, (a, b))
    for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        yield named(name, (a, whole(5, 4)))
    yield named("BCELoss", (chance(4, 5), chance(4, 5)))
    yield named("BCEWithLogitsLoss", (a, chance(4, 5)))
    yield named("KLDivLoss", (a, chance(4, 5)), reduction="batchmean")
    yield named("PoissonNLLLoss", (a, chance(4, 5) * 5), full=True)
    yield named("GaussianNLLLoss", (a, b, chance(4, 5)))
    yield named("HingeEmbeddingLoss", (a, signs(4, 5)))
    yield named("SoftMarginLoss", (a, signs(4, 5)))
    yield named("MarginRankingLoss", (a, b, signs(4, 5)))
    yield named("CosineEmbeddingLoss", (a, b, signs(4)))
    yield named("TripletMarginLoss", (a, b, c), swap=True)
    yield named("TripletMarginWithDistanceLoss", (a, b, c))
    yield named("MultiLabelMarginLoss", (a, np.array([[1, 0, -1, 2, 2], [3, -1, 0, 0, 0]] * 2)))
    yield named("MultiLabelSoftMarginLoss", (a, whole(2, 4, 5).astype(np.float32)))
    scores = np.log(np.full((6, 2, 4), 0.25, np.float32))
    yield named("CTCLoss", (scores, np.array([[1, 2], [3, 3]]), np.array([6, 6]), np.array([2, 2])))


def containers() -> Iterator[tuple[str, Layer]]:
    x = (normal(4, 3),)
    yield "Sequential", Layer(lambda ns: ns.nn.Sequential(ns.nn.Linear(3, 5), ns.nn.ReLU(), ns.nn.Linear(5, 2)), x)
    yield (
        "ModuleList",
        Layer(
            lambda ns: ns.nn.ModuleList([ns.nn.Linear(3, 5), ns.nn.Linear(5, 2)]),
            x,
            lambda layers, x: layers[1](layers[0](x)),
        ),
    )
    yield (
        "ModuleDict",
        Layer(lambda ns: ns.nn.ModuleDict({"a": ns.nn.Linear(3, 5)}), x, lambda layers, x: layers["a"](x)),
    )
    yield (
        "ParameterList",
        Layer(lambda ns: ns.nn.ParameterList([ns.nn.Parameter(ns.ones(3, 2))]), x, lambda values, x: x @ values[0]),
    )
    yield (
        "ParameterDict",
        Layer(
            lambda ns: ns.nn.ParameterDict({"w": ns.nn.Parameter(ns.ones(3, 2))}), x, lambda values, x: x @ values["w"]
        ),
    )


LAYERS: dict[str, Layer] = {
    name: layer
    for family in (
        activations(),
        *map(spatial, (1, 2, 3)),
        norms_and_shapes(),
        tables_and_products(),
        sequences(),
        losses(),
        containers(),
    )
    for name, layer in family
}


def test_every_layer_of_pytorch_has_a_row() -> None:
    """Lazy layers are those of their ordinary classes as soon as they have a state; PyTorch's SyncBatchNorm needs a GPU."""
    modules = {
        n
        for n in lucid.nn.__all__
        if isinstance(k := getattr(lucid.nn, n), type) and issubclass(k, lucid.nn.Module) and hasattr(torch.nn, n)
    }
    assert {n for n in modules if not n.startswith("Lazy")} - {"Module", "SyncBatchNorm"} == set(LAYERS)


def arrays(value: Any) -> list[np.ndarray]:
    """The tensors of a result, which may be a nest of tuples."""
    if isinstance(value, tuple):
        return [array for v in value for array in arrays(v)]
    return [value.detach().numpy()]


def scramble(layer: Any) -> None:
    """Give every number of a PyTorch layer's state a value that no initialisation gives it."""
    for name, value in layer.state_dict().items():
        if value.is_floating_point():
            low = 0.1 if name.endswith(("running_var", "_samples")) else -0.5
            value.copy_(torch.from_numpy(rng.uniform(low, 0.5, tuple(value.shape))))


MODES = [(name, training) for name, layer in LAYERS.items() for training in (False, True)[: 1 + (not layer.random)]]


@pytest.mark.parametrize(("name", "training"), MODES)
def test_state_of_a_layer_carries_over(name: str, training: bool) -> None:
    layer = LAYERS[name]
    ours, theirs = (layer.build(ns).train(training) for ns in (lucid, torch))
    scramble(theirs)
    state = {key: np.array(value.numpy()) for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({key: lucid.tensor(value) for key, value in state.items()})
    results, wanted = (
        arrays(layer.call(module, *[ns.tensor(a) for a in layer.inputs]))
        for ns, module in ((lucid, ours), (torch, theirs))
    )
    for mine, other in zip(results, wanted, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
    # A call in training may have changed the state: running statistics, counts of batches.
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
