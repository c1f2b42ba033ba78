"""Operations that choose an element: the gradient goes where the value came from, to the nan where nan wins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lucid
from lucid import autograd, func
from lucid.core.tensor import Tensor
from lucid.nn import functional as F

NAN = float("nan")


def gradients(function: Callable[..., Any], *values: Any) -> list[list[float]]:
    inputs = [lucid.tensor(v, dtype=lucid.float64, requires_grad=True) for v in values]
    found = autograd.grad(function(*inputs).sum(), inputs)
    tangents = tuple(lucid.ones(x.shape, dtype=lucid.float64) for x in inputs)
    _, pushed = func.jvp(lambda *xs: function(*xs).sum(), tuple(x.detach() for x in inputs), tangents)
    assert pushed.item() == sum(g.sum().item() for g in found)
    return [g.tolist() for g in found]


PAIRS = {  # of nan and 2, of 2 and nan, of two nan
    "maximum": ([1, 0, 0.5], [0, 1, 0.5]),
    "minimum": ([1, 0, 0.5], [0, 1, 0.5]),
    "fmax": ([0, 1, 0.5], [1, 0, 0.5]),
    "fmin": ([0, 1, 0.5], [1, 0, 0.5]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_of_two(name: str) -> None:
    assert gradients(getattr(lucid, name), [NAN, 2.0, NAN], [2.0, NAN, NAN]) == list(PAIRS[name])
    if name in ("maximum", "minimum"):
        short = {"maximum": lucid.max, "minimum": lucid.min}[name]
        assert gradients(short, [NAN, 2.0, NAN], [2.0, NAN, NAN]) == list(PAIRS[name])


def values(found: Any) -> Tensor:
    return found if isinstance(found, Tensor) else found[0]


OF_ROWS: dict[str, Callable[[Tensor], Any]] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: lucid.amax(x, 0),
    "amin": lambda x: lucid.amin(x, 0),
    "max over a dim": lambda x: x.max(0),
    "min over a dim": lambda x: x.min(0),
    "median": lambda x: x.median(0),
    "cummax": lambda x: x.cummax(0)[0][-1],
    "cummin": lambda x: x.cummin(0)[0][-1],
    "sort": lambda x: x.sort(0)[0][-1],
    "topk": lambda x: x.topk(1)[0],
    "scatter_reduce": lambda x: x.new_zeros(1).scatter_reduce(
        0, lucid.zeros(3, dtype=lucid.int64), x, "amax", include_self=False
    ),
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, 3), 3),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(1, 1, 3, 1), (3, 1)),
    "max_pool3d": lambda x: F.max_pool3d(x.reshape(1, 1, 1, 1, 3), (1, 1, 3)),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.reshape(1, 1, 3), 1),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.reshape(1, 1, 3, 1), 1),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x.reshape(1, 1, 1, 3, 1), 1),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.reshape(1, 1, 3, 1), (3, 1), (1, 1)),
    "max_pool1d with indices": lambda x: F.max_pool1d(x.reshape(1, 1, 3), 3, return_indices=True),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_of_many(name: str) -> None:
    assert gradients(lambda x: values(OF_ROWS[name](x)), [2.0, NAN, 1.0]) == [[0, 1, 0]]


def test_bounds() -> None:
    assert gradients(lambda x: x.clamp(0, 1), [NAN, 0.5, 3.0]) == [[1, 1, 0]]
    assert gradients(lambda x: x.clamp(max=1), [NAN, 0.5, 3.0]) == [[1, 1, 0]]
    assert gradients(lambda x: x.clamp(min=NAN), [0.5, 3.0]) == [[0, 0]]
    assert gradients(lambda x, low: x.clamp(min=low), [NAN, 0.5, 3.0], [0.0, NAN, 4.0]) == [[1, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize("seed", range(3))
def test_pooled_gradients_stand_at_the_indices(seed: int) -> None:
    """Also where windows overlap and hold several nan."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 1, 5, 6))
    x[rng.random(x.shape) < 0.4] = NAN
    leaf = lucid.tensor(x, requires_grad=True)
    out, where = F.max_pool2d(leaf, (3, 2), (2, 1), (1, 1), return_indices=True)
    weights = lucid.tensor(rng.normal(size=out.shape))
    (got,) = autograd.grad(F.max_pool2d(leaf, (3, 2), (2, 1), (1, 1)), [leaf], weights)
    flat = lucid.zeros(2, 1, 30, dtype=lucid.float64)
    want = flat.scatter_add(2, where.reshape(2, 1, -1), weights.reshape(2, 1, -1)).reshape(x.shape)
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-12)
    torch = pytest.importorskip("torch")
    theirs = torch.nn.functional.max_pool2d(torch.tensor(x), (3, 2), (2, 1), (1, 1), return_indices=True)[1]
    assert where.tolist() == theirs.tolist()


INF = float("inf")
PIECEWISE: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {  # slopes at -inf and inf
    "relu": (F.relu, [0, 1]),
    "relu6": (F.relu6, [0, 0]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.5), [0.5, 1]),
    "prelu": (lambda x: F.prelu(x, lucid.tensor([0.5], dtype=lucid.float64)), [0.5, 1]),
    "threshold": (lambda x: F.threshold(x, 0.25, 7.0), [0, 1]),
    "hardtanh": (F.hardtanh, [0, 0]),
    "hardsigmoid": (F.hardsigmoid, [0, 0]),
    "hardswish": (F.hardswish, [0, 1]),
    "hardshrink": (F.hardshrink, [1, 1]),
    "softshrink": (F.softshrink, [1, 1]),
    "elu": (F.elu, [0, 1]),
    "celu": (F.celu, [0, 1]),
    "clamp": (lambda x: x.clamp(-1, 1), [0, 0]),
    "clamp_min": (lambda x: x.clamp(min=0), [0, 1]),
    "abs": (lambda x: x.abs(), [-1, 1]),
    "maximum": (lambda x: lucid.maximum(x, lucid.zeros(2, dtype=lucid.float64)), [0, 1]),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_pieces_reach_to_infinity(name: str) -> None:
    function, slopes = PIECEWISE[name]
    assert gradients(function, [-INF, INF]) == [slopes]


def test_a_piece_that_is_not_chosen_may_be_infinite() -> None:
    assert F.prelu(lucid.tensor([2.0, -1.0]), lucid.tensor([INF])).tolist() == [2.0, -INF]
