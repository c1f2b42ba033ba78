"""Indices that point nowhere, or are no indices, are refused with words, and nothing is changed by the attempt."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lucid
from lucid.core.tensor import Tensor
from lucid.nn import functional as F

REFUSALS = (IndexError, RuntimeError, ValueError, TypeError)
# Each takes a matrix of 3 rows and 4 columns and two indices of rows; some count them from the end too.
ROWS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "gather": lambda x, i: x.gather(0, i.reshape(2, 1)),
    "take_along_dim": lambda x, i: x.take_along_dim(i.reshape(2, 1), 0),
    "scatter": lambda x, i: x.scatter(0, i.reshape(2, 1), lucid.ones(2, 1)),
    "scatter_": lambda x, i: x.scatter_(0, i.reshape(2, 1), lucid.ones(2, 1)),
    "scatter_ of a value": lambda x, i: x.scatter_(0, i.reshape(2, 1), 7.0),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i.reshape(2, 1), lucid.ones(2, 1)),
    "scatter_reduce_": lambda x, i: x.scatter_reduce_(0, i.reshape(2, 1), lucid.ones(2, 1), "amax"),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add_": lambda x, i: x.index_add_(0, i, lucid.ones(2, 4)),
    "index_copy_": lambda x, i: x.index_copy_(0, i, lucid.ones(2, 4)),
    "index_fill_": lambda x, i: x.index_fill_(0, i, 7.0),
    "index_reduce_": lambda x, i: x.index_reduce_(0, i, lucid.ones(2, 4), "prod"),
    "index_put_": lambda x, i: x.index_put_((i,), lucid.ones(4)),
    "getitem": lambda x, i: x[i],
    "setitem": lambda x, i: x.__setitem__(i, 7.0),
    "take": lambda x, i: x[:, 0].take(i),
    "put_": lambda x, i: x[:, 0].put_(i, lucid.ones(2)),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding with max_norm": lambda x, i: F.embedding(i, x, max_norm=0.1),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, lucid.tensor([0])),
    "one_hot": lambda x, i: F.one_hot(i, 3),
    "nll_loss": lambda x, i: F.nll_loss(x[:, :2].t(), i, ignore_index=-200),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:, :2].t(), i, ignore_index=-200),
    "cross_entropy with weights": lambda x, i: F.cross_entropy(x[:, :2].t(), i, lucid.ones(3), ignore_index=-200),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:, :2].t(), i),
    "multi_margin_loss with weights": lambda x, i: F.multi_margin_loss(x[:, :2].t(), i, weight=lucid.ones(3)),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(x[:2, 0], i),
    "ctc_loss": lambda x, i: F.ctc_loss(x.t().unsqueeze(1), i.unsqueeze(0), [4], [2]),
    "max_unpool1d": lambda x, i: F.max_unpool1d(x[:1, :2], i.unsqueeze(0), 1, 1, output_size=(3,)),
    "unravel_index": lambda x, i: lucid.unravel_index(i, (3,)),
    "select": lambda x, i: x.select(0, int(i[1])),
    "bincount": lambda x, i: lucid.bincount(i) if int(i.min()) < 0 else refuse(),
}
FROM_THE_END = set("take_along_dim index_fill_ index_put_ getitem setitem take put_ select unravel_index".split())


def refuse() -> None:
    raise ValueError("any number from 0 on counts")


def raises_and_leaves(name: str, index: Tensor) -> None:
    x = lucid.tensor(np.arange(12.0).reshape(3, 4), dtype=lucid.float32)
    before = x.tolist()
    with pytest.raises(REFUSALS) as refusal:
        ROWS[name](x, index)
    assert str(refusal.value)
    assert x.tolist() == before and x._version == 0, f"{name} changed its operand"


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("bad", [3, 1000, 2**40, -4, -1000, -(2**40)])
def test_positions_out_of_range(name: str, bad: int) -> None:
    if name == "multilabel_margin_loss" or not (name == "unravel_index" and bad < 0):
        raises_and_leaves(name, lucid.tensor([0, bad]))


@pytest.mark.parametrize("name", sorted(set(ROWS) - FROM_THE_END - {"multilabel_margin_loss"}))
def test_positions_before_the_first(name: str) -> None:
    raises_and_leaves(name, lucid.tensor([0, -1]))


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"select", "multilabel_margin_loss", "cross_entropy"}))
@pytest.mark.parametrize("dtype", [lucid.float32, lucid.complex64])
def test_positions_that_are_no_integers(name: str, dtype: Any) -> None:
    if name != "cross_entropy with weights":
        raises_and_leaves(name, lucid.tensor([0, 1]).to(dtype))


@pytest.mark.parametrize("offsets", [[0, -1], [1, 2], [0, 5], [0, 2, 1]])
def test_offsets_of_bags(offsets: list[int]) -> None:
    weight = lucid.ones(3, 2)
    for mode in ("sum", "mean", "max"):
        with pytest.raises(ValueError, match="offsets must start at 0"):
            F.embedding_bag(lucid.tensor([0, 1, 2]), weight, lucid.tensor(offsets), mode=mode)
    with pytest.raises(TypeError, match="integers"):
        F.embedding_bag(lucid.tensor([0, 1, 2]), weight, lucid.tensor([0.0, 1.0]))


def test_labels_end_at_minus_one_only() -> None:
    x = lucid.tensor([[0.1, 0.2, 0.4]])
    with pytest.raises(IndexError, match="-2"):
        F.multilabel_margin_loss(x, lucid.tensor([[1, -2, 0]]))
    assert F.multilabel_margin_loss(x, lucid.tensor([[1, -1, 0]])).item() > 0
