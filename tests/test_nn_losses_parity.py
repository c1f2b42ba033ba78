"""Where PyTorch is installed: activations, losses, linear maps, embeddings and distances agree with it.

Each case is called in both libraries with the same arrays; values and the gradients of all float operands are compared.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import lucid
from lucid.nn import functional
from lucid.nn.functional import activations, classification
from lucid.nn.layers import activations as activation_layers
from lucid.nn.layers import adaptive
from lucid.nn.layers import dropout as dropout_layers
from lucid.nn.layers import embedding as embedding_layers
from lucid.nn.layers import linear as linear_layers
from lucid.nn.layers import losses as loss_layers
from lucid.nn.layers import similarity as similarity_layers

torch = pytest.importorskip("torch")

FAMILIES = ("activations", "classification", "dropout", "embedding", "linear", "losses", "similarity")
FUNCTIONS = {
    name: getattr(functional, name)
    for family in FAMILIES
    for name in import_module(f"lucid.nn.functional.{family}").__all__
}
LAYERS = {
    name: getattr(module, name)
    for module in (
        activation_layers, dropout_layers, embedding_layers, linear_layers, loss_layers, similarity_layers,
    )
    for name in module.__all__
    if name == getattr(module, name).__name__  # another name of a layer is the original's
}  # fmt: skip
TOLERANCE = {"float64": 1e-9, "float32": 2e-5}
Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def to_library(value: Any, library: Any, leaves: list[Any] | None = None) -> Any:
    """Arrays as tensors; those of floats are leaves to differentiate by, unless they are constants."""
    if isinstance(value, Constant):
        return to_library(value.array, library)
    if not isinstance(value, np.ndarray):
        return value
    tensor = lucid.tensor(value) if library is lucid else torch.from_numpy(value.copy())
    if leaves is not None and value.dtype.kind == "f":
        leaves.append(tensor.requires_grad_())
    return tensor


class Constant:
    """An array that is no operand to differentiate by."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


def in_type(value: Any, dtype: str) -> Any:
    if isinstance(value, Constant):
        return Constant(value.array.astype(dtype))
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def run(function: Callable[..., Any], library: Any, args: Any, kwargs: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """The value, and the gradients of its product with fixed weights."""
    leaves: list[Any] = []
    tensors = [to_library(a, library, leaves) for a in args]
    named = {k: to_library(v, library, leaves) for k, v in kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = function(*tensors, **named)
    weights = np.random.default_rng(7).normal(size=tuple(out.shape)).astype(str(out.dtype).split(".")[1])
    seed = lucid.tensor(weights) if library is lucid else torch.from_numpy(weights)
    found = library.autograd.grad(out, leaves, seed, allow_unused=True) if leaves and out.requires_grad else []
    return np.asarray(out.detach()), [np.asarray(g.detach()) if g is not None else np.zeros(()) for g in found]


def compare(ours: Any, theirs: Any, args: Any, kwargs: Any, dtype: str, gradients: bool = True) -> None:
    args, kwargs = [in_type(a, dtype) for a in args], {k: in_type(v, dtype) for k, v in kwargs.items()}
    value, grads = run(ours, lucid, args, kwargs)
    expected, expected_grads = run(theirs, torch, args, kwargs)
    assert value.dtype == expected.dtype
    assert value.shape == expected.shape
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(value, expected, tolerance, tolerance)
    if not gradients:
        return
    assert len(grads) == len(expected_grads)
    for g, e in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(g, e, tolerance * 10, tolerance * 10)


rng = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return rng.normal(size=shape) * scale


def chance(*shape: int) -> np.ndarray:
    return rng.uniform(0.05, 0.95, shape)


def signs(*shape: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def whole(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape)


def simplex(*shape: int) -> np.ndarray:
    e = np.exp(rng.normal(size=shape))
    return e / e.sum(1, keepdims=True)


# Where conventions at kinks show: bounds of pieces, zeros, and numbers that overflow an exponential.
EDGES = np.array([-1000.0, -6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 21.0, 1000.0])


def activation_cases() -> Iterator[Case]:
    for name, settings in {
        "relu": [{}], "relu6": [{}], "selu": [{}], "silu": [{}], "mish": [{}], "tanh": [{}], "sigmoid": [{}],
        "hardswish": [{}], "hardsigmoid": [{}], "softsign": [{}], "tanhshrink": [{}], "logsigmoid": [{}],
        "hardtanh": [{}, {"min_val": -0.5, "max_val": 3.0}],
        "threshold": [{"threshold": 0.5, "value": 20.0}],
        "leaky_relu": [{}, {"negative_slope": 0.3}],
        "rrelu": [{}, {"lower": 0.1, "upper": 0.5}],
        "elu": [{}, {"alpha": 0.5}],
        "celu": [{}, {"alpha": 2.0}],
        "gelu": [{}, {"approximate": "tanh"}],
        "softplus": [{}, {"beta": 2.0, "threshold": 5.0}],
        "softshrink": [{}, {"lambd": 1.0}],
        "hardshrink": [{}, {"lambd": 1.0}],
    }.items():  # fmt: skip
        for kwargs in settings:
            yield name, (normal(4, 5, scale=3.0),), kwargs
            yield name, (EDGES,), kwargs
    for name in ("softmax", "log_softmax", "softmin"):
        for dim in (0, 1, -1):
            yield name, (normal(3, 4, 5, scale=3.0),), {"dim": dim}
        yield name, (normal(4, 5) * 300,), {"dim": 1}
    yield "glu", (normal(4, 6),), {}
    yield "glu", (normal(4, 6),), {"dim": 0}
    yield "prelu", (normal(2, 3, 4), np.array([0.1, 0.2, -0.3])), {}
    yield "prelu", (normal(4), np.array([0.1])), {}


def with_reductions(*cases: Case) -> Iterator[Case]:
    for name, args, kwargs in cases:
        for reduction in ("mean", "sum", "none"):
            yield name, args, {**kwargs, "reduction": reduction}


def number_losses() -> Iterator[Case]:
    x, y = normal(4, 5), normal(4, 5)
    close = x + np.array([0.0, 1.0, -1.0, 0.5, 2.0])
    yield from with_reductions(
        ("mse_loss", (x, y), {}),
        ("mse_loss", (x, y), {"weight": chance(4, 5)}),
        ("l1_loss", (x, y), {}),
        ("l1_loss", (x, y), {"weight": chance(4, 5)}),
        ("smooth_l1_loss", (x, y), {}),
        ("smooth_l1_loss", (x, close), {"beta": 0.5}),
        ("smooth_l1_loss", (x, y), {"beta": 0.0}),
        ("huber_loss", (x, y), {}),
        ("huber_loss", (x, close), {"delta": 0.5}),
        ("huber_loss", (x, y), {"weight": chance(4, 5)}),
        ("binary_cross_entropy", (chance(4, 5), Constant(chance(4, 5))), {}),
        ("binary_cross_entropy", (chance(4, 5), Constant(chance(4, 5)), Constant(chance(5))), {}),
        ("binary_cross_entropy", (np.array([0.0, 1.0, 0.0, 1.0]), Constant(np.array([0.0, 1.0, 1.0, 0.0]))), {}),
        ("binary_cross_entropy_with_logits", (x * 30, chance(4, 5)), {}),
        (
            "binary_cross_entropy_with_logits",
            (x, chance(4, 5), Constant(chance(5))),
            {"pos_weight": Constant(chance(5) * 3)},
        ),
        ("kl_div", (np.log(simplex(4, 5)), simplex(4, 5)), {}),
        ("kl_div", (np.log(simplex(4, 5)), np.log(simplex(4, 5))), {"log_target": True}),
        ("kl_div", (np.log(simplex(4, 2)), Constant(np.array([[0.0, 1.0]] * 4))), {}),
        ("poisson_nll_loss", (x, whole(5, 4, 5).astype(float)), {}),
        ("poisson_nll_loss", (x, Constant(whole(5, 4, 5).astype(float))), {"full": True}),
        ("poisson_nll_loss", (chance(4, 5), chance(4, 5)), {"log_input": False, "eps": 1e-3}),
        ("gaussian_nll_loss", (x, y, chance(4, 5)), {}),
        ("gaussian_nll_loss", (x, y, chance(4)), {"full": True}),
        ("gaussian_nll_loss", (x, y, chance(4, 1) * 1e-2), {"eps": 5e-3}),
    )
    yield "kl_div", (np.log(simplex(4, 5)), simplex(4, 5)), {"reduction": "batchmean"}


def ranking_losses() -> Iterator[Case]:
    x, y, z = normal(4, 5), normal(4, 5), normal(4, 5)
    yield from with_reductions(
        ("hinge_embedding_loss", (x, Constant(signs(4, 5))), {}),
        ("hinge_embedding_loss", (np.array([1.0, 0.5, 2.0]), Constant(np.array([-1.0, -1.0, -1.0]))), {}),
        ("hinge_embedding_loss", (x, Constant(signs(4, 5))), {"margin": 0.3}),
        ("soft_margin_loss", (x, Constant(signs(4, 5))), {}),
        ("margin_ranking_loss", (x, y, Constant(signs(4, 5))), {}),
        ("margin_ranking_loss", (x, x.copy(), Constant(signs(4, 5))), {}),
        ("margin_ranking_loss", (x, y, Constant(signs(4, 5))), {"margin": 0.5}),
        ("cosine_embedding_loss", (x, y, Constant(signs(4))), {}),
        ("cosine_embedding_loss", (x, y, Constant(signs(4))), {"margin": 0.2}),
        ("cosine_embedding_loss", (x[0], y[0], Constant(np.array(1.0))), {}),
        ("triplet_margin_loss", (x, y, z), {}),
        ("triplet_margin_loss", (x, y, z), {"margin": 2.0, "p": 1.0, "swap": True}),
        ("triplet_margin_loss", (x, y, z), {"p": 3.0, "eps": 1e-3}),
        ("triplet_margin_with_distance_loss", (x, y, z), {"margin": 2.0, "swap": True}),
        ("multi_margin_loss", (x, whole(5, 4)), {}),
        ("multi_margin_loss", (x, whole(5, 4), 2, 0.5, Constant(chance(5))), {}),
        ("multi_margin_loss", (x[0], np.array(2)), {}),
        ("multilabel_margin_loss", (x, np.array([[3, 0, -1, 1, 2], [-1, 0, 0, 0, 0], [1, 2, 3, 4, 0], [4, -1, 0, 0, 0]])), {}),
        ("multilabel_margin_loss", (x[0], np.array([3, 0, -1, 1, 2])), {}),
        ("multilabel_soft_margin_loss", (x, Constant(chance(4, 5))), {}),
        ("multilabel_soft_margin_loss", (x, Constant(chance(4, 5)), Constant(chance(5))), {}),
    )  # fmt: skip


def class_losses() -> Iterator[Case]:
    x, images = normal(4, 5), normal(2, 3, 4, 2)
    y, pixels = np.array([0, -100, 4, 2]), whole(3, 2, 4, 2)
    weight = chance(5)
    for smoothing in (0.0, 0.3):
        settings = {"label_smoothing": smoothing}
        yield from with_reductions(
            ("cross_entropy", (x, y), settings),
            ("cross_entropy", (x * 300, y), settings),
            ("cross_entropy", (x, y, Constant(weight)), settings),
            ("cross_entropy", (x, np.abs(y) % 5), {"ignore_index": 2, **settings}),
            ("cross_entropy", (images, pixels), settings),
            ("cross_entropy", (images, pixels, Constant(chance(3))), {"ignore_index": 1, **settings}),
            ("cross_entropy", (x, simplex(4, 5)), settings),
            ("cross_entropy", (x, simplex(4, 5), Constant(weight)), settings),
            ("cross_entropy", (images, Constant(simplex(2, 3, 4, 2))), settings),
            ("cross_entropy", (x[0], np.array(3)), settings),
            ("cross_entropy", (x[0], Constant(simplex(1, 5)[0])), settings),
        )
    logs, image_logs = (np.log(simplex(*v.shape)) for v in (x, images))
    yield from with_reductions(
        ("nll_loss", (logs, y), {}),
        ("nll_loss", (logs, y, Constant(weight)), {}),
        ("nll_loss", (logs, np.abs(y) % 5, Constant(weight)), {"ignore_index": 2}),
        ("nll_loss", (image_logs, pixels), {}),
        ("nll_loss", (image_logs, pixels, Constant(chance(3))), {"ignore_index": 1}),
        ("nll_loss", (logs[0], np.array(3)), {}),
    )


BAGS = np.array([0, 2, 2, 5])
WORDS = np.array([1, 2, 4, 5, 4, 3, 2, 9])


def map_cases() -> Iterator[Case]:
    yield "linear", (normal(4, 3), normal(2, 3), normal(2)), {}
    yield "linear", (normal(3), normal(2, 3)), {}
    yield "linear", (normal(2, 4, 3), normal(2, 3), normal(2)), {}
    yield "linear", (normal(4, 3), normal(3)), {}
    yield "bilinear", (normal(4, 3), normal(4, 2), normal(5, 3, 2), normal(5)), {}
    yield "bilinear", (normal(2, 4, 3), normal(2, 4, 2), normal(5, 3, 2)), {}
    for settings in ({}, {"padding_idx": 4}, {"padding_idx": -6}, {"scale_grad_by_freq": True}):
        yield "embedding", (WORDS.reshape(2, 4), normal(10, 3)), settings
    for mode in ("sum", "mean", "max"):
        for settings in ({}, {"padding_idx": 4}):
            yield "embedding_bag", (WORDS, normal(10, 3), BAGS), {"mode": mode, **settings}
            yield "embedding_bag", (WORDS.reshape(2, 4), normal(10, 3)), {"mode": mode, **settings}
        yield "embedding_bag", (WORDS, normal(10, 3), np.array([0, 3, 8])), {"mode": mode, "include_last_offset": True}
    yield "embedding_bag", (WORDS, normal(10, 3), BAGS), {"mode": "sum", "per_sample_weights": normal(8)}
    yield "one_hot", (WORDS,), {}
    yield "one_hot", (WORDS.reshape(2, 4), 12), {}
    yield "cosine_similarity", (normal(4, 3), normal(4, 3)), {}
    yield "cosine_similarity", (normal(2, 4, 3), normal(4, 3)), {"dim": -1, "eps": 1e-3}
    for settings in ({}, {"p": 1.0}, {"p": 3.0, "keepdim": True}, {"p": math.inf}, {"eps": 0.1}):
        yield "pairwise_distance", (normal(4, 3), normal(4, 3)), settings
    for settings in ({}, {"p": 1.0, "dim": 0}, {"p": 3.0, "dim": -1}):
        yield "normalize", (normal(4, 3),), settings
    for p in (1.0, 2.0, 3.0):
        yield "pdist", (normal(4, 3), p), {}


def labelled(cases: Iterator[Case]) -> list[Any]:
    return [pytest.param(*case, id=f"{case[0]}-{k}") for k, case in enumerate(cases)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    labelled(
        case for cases in (activation_cases, number_losses, ranking_losses, class_losses, map_cases) for case in cases()
    ),
)
def test_function(name: str, args: Any, kwargs: Any, dtype: str) -> None:
    compare(FUNCTIONS[name], getattr(torch.nn.functional, name), args, kwargs, dtype)


def ctc_cases() -> Iterator[tuple[Any, ...]]:
    logits = normal(12, 3, 5, scale=2.0)
    padded = np.array([[1, 2, 2, 3], [4, 1, 0, 0], [2, 2, 2, 0]])
    for reduction in ("mean", "sum", "none"):
        yield logits, padded, (12, 9, 12), (4, 2, 3), {"reduction": reduction}
    yield logits, np.array([1, 2, 2, 3, 4, 1, 2]), (12, 9, 10), (4, 2, 1), {}
    yield logits, padded - 1, (12, 9, 12), (3, 1, 3), {"blank": 4}
    yield logits, padded, (12, 9, 4), (4, 2, 3), {"zero_infinity": True, "reduction": "none"}
    yield logits[:, 0], padded[0], (12,), (4,), {}
    yield logits, padded, (12, 12, 12), (4, 0, 3), {"reduction": "sum"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("logits", "targets", "inputs", "lengths", "settings"), list(ctc_cases()))
def test_ctc(logits: Any, targets: Any, inputs: Any, lengths: Any, settings: Any, dtype: str) -> None:
    """Through log_softmax: PyTorch's gradient of ctc_loss alone is that of logits, whatever it is given."""
    spells = {lucid: classification.ctc_loss, torch: torch.nn.functional.ctc_loss}
    logs = {lucid: activations.log_softmax, torch: torch.log_softmax}

    def loss(library: Any) -> Any:
        return lambda x, y: spells[library](logs[library](x, -1), y, inputs, lengths, **settings)

    compare(loss(lucid), loss(torch), (logits, targets), {}, dtype)


@pytest.mark.parametrize("name", sorted(n for n in LAYERS if n in vars(activation_layers)))
def test_activation_layer(name: str) -> None:
    """Same defaults, same printing, same results."""
    arguments = {"Threshold": (0.5, 3.0), "Softmax": (1,), "Softmin": (1,), "LogSoftmax": (1,)}.get(name, ())
    ours, theirs = LAYERS[name](*arguments).eval(), getattr(torch.nn, name)(*arguments).eval()
    x = normal(2, 4, 3) if name == "Softmax2d" else normal(4, 6)
    if name == "PReLU":
        theirs.double(), ours.double()
    compare(ours, theirs, (x,), {}, "float64")
    assert list(ours.state_dict()) == list(theirs.state_dict())


LOSS_LAYERS = {
    "MSELoss": ({}, lambda: (normal(4, 5), normal(4, 5))),
    "L1Loss": ({}, lambda: (normal(4, 5), normal(4, 5))),
    "SmoothL1Loss": ({"beta": 0.5}, lambda: (normal(4, 5), normal(4, 5))),
    "HuberLoss": ({"delta": 0.5}, lambda: (normal(4, 5), normal(4, 5))),
    "CrossEntropyLoss": ({"weight": Constant(chance(5)), "label_smoothing": 0.1, "ignore_index": 1},
                         lambda: (normal(4, 5), whole(5, 4))),
    "NLLLoss": ({"weight": Constant(chance(5)), "ignore_index": 1}, lambda: (normal(4, 5), whole(5, 4))),
    "BCELoss": ({"weight": Constant(chance(5))}, lambda: (chance(4, 5), Constant(chance(4, 5)))),
    "BCEWithLogitsLoss": ({"weight": Constant(chance(5)), "pos_weight": Constant(chance(5))},
                          lambda: (normal(4, 5), chance(4, 5))),
    "KLDivLoss": ({"reduction": "batchmean", "log_target": True}, lambda: (normal(4, 5), normal(4, 5))),
    "PoissonNLLLoss": ({"log_input": False, "full": True, "eps": 0.1}, lambda: (chance(4, 5), Constant(chance(4, 5) * 5))),
    "GaussianNLLLoss": ({"full": True, "eps": 0.1}, lambda: (normal(4, 5), normal(4, 5), chance(4, 5))),
    "HingeEmbeddingLoss": ({"margin": 0.4}, lambda: (normal(4, 5), Constant(signs(4, 5)))),
    "SoftMarginLoss": ({}, lambda: (normal(4, 5), Constant(signs(4, 5)))),
    "MarginRankingLoss": ({"margin": 0.4}, lambda: (normal(4, 5), normal(4, 5), Constant(signs(4, 5)))),
    "CosineEmbeddingLoss": ({"margin": 0.4}, lambda: (normal(4, 5), normal(4, 5), Constant(signs(4)))),
    "TripletMarginLoss": ({"margin": 0.4, "p": 1.0, "eps": 0.1, "swap": True},
                          lambda: (normal(4, 5), normal(4, 5), normal(4, 5))),
    "TripletMarginWithDistanceLoss": ({"margin": 0.4, "swap": True, "distance_function": lambda x, y: (x - y).abs().sum(1)},
                                      lambda: (normal(4, 5), normal(4, 5), normal(4, 5))),
    "MultiMarginLoss": ({"p": 2, "margin": 0.4, "weight": Constant(chance(5))}, lambda: (normal(4, 5), whole(5, 4))),
    "MultiLabelMarginLoss": ({}, lambda: (normal(2, 3), np.array([[1, -1, 0], [0, 2, -1]]))),
    "MultiLabelSoftMarginLoss": ({"weight": Constant(chance(5))}, lambda: (normal(4, 5), Constant(chance(4, 5)))),
    "CTCLoss": ({"blank": 2, "zero_infinity": True, "reduction": "sum"}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(n for n in LAYERS if n in vars(loss_layers)))
def test_loss_layer(name: str) -> None:
    """Every setting reaches the function, and weights are part of the state."""
    settings, operands = LOSS_LAYERS[name]
    ours, theirs = (
        kind(**{k: to_library(in_type(v, "float64"), library) for k, v in settings.items()})
        for kind, library in ((LAYERS[name], lucid), (getattr(torch.nn, name), torch))
    )
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if operands is None:
        x, y = normal(6, 2, 4), np.array([[1, 0], [3, 3]])
        compare(
            lambda a, b: ours(activations.log_softmax(a, -1), b, [6, 6], [2, 2]),
            lambda a, b: theirs(torch.log_softmax(a, -1), b, [6, 6], [2, 2]),
            (x, y),
            {},
            "float64",
        )
    else:
        compare(ours, theirs, operands(), {}, "float64")


PARAMETER_LAYERS = [
    ("Linear", (3, 2), {}, lambda: (normal(4, 3),)),
    ("Linear", (3, 2), {"bias": False}, lambda: (normal(4, 3),)),
    ("Bilinear", (3, 2, 5), {}, lambda: (normal(4, 3), normal(4, 2))),
    ("Embedding", (10, 3), {"padding_idx": 4, "scale_grad_by_freq": True}, lambda: (WORDS,)),
    ("Embedding", (10, 3), {"max_norm": 0.5, "norm_type": 1.0}, lambda: (WORDS,)),
    ("EmbeddingBag", (10, 3), {"mode": "sum", "padding_idx": 2, "include_last_offset": True}, lambda: (WORDS, BAGS)),
    ("PReLU", (3,), {"init": 0.1}, lambda: (normal(4, 3),)),
]


@pytest.mark.parametrize(("name", "args", "settings", "operands"), PARAMETER_LAYERS)
def test_layer_with_parameters(name: str, args: Any, settings: Any, operands: Any) -> None:
    """The same state gives the same results and the same gradients of the parameters."""
    ours, theirs = LAYERS[name](*args, **settings).double(), getattr(torch.nn, name)(*args, **settings).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    state = {k: rng.normal(size=tuple(v.shape)) for k, v in theirs.state_dict().items()}
    ours.load_state_dict({k: lucid.tensor(v) for k, v in state.items()})
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    compare(ours, theirs, operands(), {}, "float64")
    arrays = operands()
    for layer, library in ((ours, lucid), (theirs, torch)):
        out = layer(*[to_library(a, library) for a in arrays])
        (out * out).sum().backward()
    for (key, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), 1e-9, 1e-12, err_msg=key)
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), 1e-9, 1e-12, err_msg=key)


def test_adaptive_softmax() -> None:
    settings = {"cutoffs": [4, 9], "div_value": 2.0, "head_bias": True}
    ours, theirs = (
        kind(8, 20, **settings).double()
        for kind in (adaptive.AdaptiveLogSoftmaxWithLoss, torch.nn.AdaptiveLogSoftmaxWithLoss)
    )
    state = {k: rng.normal(size=tuple(v.shape)) for k, v in theirs.state_dict().items()}
    ours.load_state_dict({k: lucid.tensor(v) for k, v in state.items()})
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    x, y = normal(12, 8), np.array([0, 3, 4, 8, 9, 19, 2, 11, 5, 1, 19, 0])
    for k in (0, 1):
        compare(lambda a, b, k=k: ours(a, b)[k], lambda a, b, k=k: theirs(a, b)[k], (x, y), {}, "float64")
    compare(ours.log_prob, theirs.log_prob, (x,), {}, "float64")
    np.testing.assert_array_equal(ours.predict(lucid.tensor(x)).numpy(), theirs.predict(torch.from_numpy(x)).numpy())
    compare(lambda a, b: ours(a, b).output, lambda a, b: theirs(a, b).output, (x[0], np.array(15)), {}, "float64")
    ours(lucid.tensor(x), lucid.tensor(y)).loss.backward()
    theirs(torch.from_numpy(x), torch.from_numpy(y)).loss.backward()
    for (key, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), 1e-9, 1e-12, err_msg=key)


REPRS = [
    ("Linear", (3, 2)), ("Bilinear", (3, 2, 5)), ("Identity", ()), ("Flatten", ()), ("Unflatten", (1, (2, 3))),
    ("ReLU", ()), ("ReLU", (True,)), ("LeakyReLU", (0.2,)), ("LeakyReLU", (0.2, True)), ("ELU", ()), ("GELU", ()),
    ("PReLU", (3,)), ("Softmax", (1,)), ("Hardtanh", ()), ("Threshold", (0.1, 20)), ("Softplus", ()), ("GLU", ()),
    ("Embedding", (10, 3)), ("Embedding", (10, 3, 2)), ("EmbeddingBag", (10, 3)), ("Dropout", (0.3,)),
    ("Dropout2d", (0.3,)), ("Tanh", ()), ("MSELoss", ()), ("CrossEntropyLoss", ()), ("CosineSimilarity", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), REPRS)
def test_printing(name: str, args: Any) -> None:
    theirs = repr(getattr(torch.nn, name)(*args))
    assert repr(LAYERS[name](*args)) == theirs.replace("torch.Size([2, 3])", "(2, 3)")


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout", "dropout"])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_leaves_the_same_two_values(name: str, p: float) -> None:
    """Random numbers differ between the libraries, but what a dropped and a kept element become does not."""
    x = np.ones((40, 50))
    ours = FUNCTIONS[name](lucid.tensor(x), p, training=True)
    theirs = getattr(torch.nn.functional, name)(torch.from_numpy(x), p, training=True)
    np.testing.assert_allclose(np.unique(ours.numpy().round(12)), np.unique(theirs.numpy().round(12)))


def test_every_name_of_the_family_exists() -> None:
    for name in FUNCTIONS.keys() - {"fused_linear_relu", "fused_linear_gelu"}:  # Lucid's own
        assert hasattr(torch.nn.functional, name), name
    for name in LAYERS:
        assert hasattr(torch.nn, name), name
