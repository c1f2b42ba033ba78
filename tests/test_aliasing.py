"""Views and copies: what shares memory is followed by the tape, and which operations do is as in PyTorch."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import lucid
from lucid.core.tensor import Tensor
from lucid.nn import functional as F

# Copies that could easily become views, since nothing is moved.
COPIES: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Any]]] = {
    "flip": ((1, 2), lambda x: x.flip(0)),
    "flip of nothing": ((2,), lambda x: x.flip(())),
    "fliplr": ((2, 1), lucid.fliplr),
    "flipud": ((1, 2), lucid.flipud),
    "rot90": ((2, 1), lucid.rot90),
    "rot90 by a full turn": ((2, 1), lambda x: lucid.rot90(x, 4)),
    "roll": ((2,), lambda x: x.roll(0)),
    "repeat": ((2,), lambda x: x.repeat(1)),
    "repeat with a new dimension": ((2,), lambda x: x.repeat(1, 1)),
    "repeat of one row": ((1, 2), lambda x: x.repeat(2, 1)),
    "tile": ((2,), lambda x: x.tile(1)),
    "pixel_shuffle": ((1, 1, 2), lambda x: F.pixel_shuffle(x, 1)),
    "pixel_unshuffle": ((1, 1, 2), lambda x: F.pixel_unshuffle(x, 1)),
    "channel_shuffle": ((1, 2, 1), lambda x: F.channel_shuffle(x, 1)),
    "max of a number": ((), lambda x: x.max(0).values),
    "min of a number": ((), lambda x: x.min(0).values),
    "cumsum": ((1,), lambda x: x.cumsum(0)),
    "sort": ((1,), lambda x: x.sort().values),
    "cat": ((2,), lambda x: lucid.cat([x])),
    "sum": ((1,), lambda x: x.sum(())),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not_lead_back(name: str) -> None:
    shape, copy = COPIES[name]
    leaf = lucid.full(shape, 3.0, requires_grad=True)
    w = leaf * 1
    y = w * w
    copy(w).mul_(10)  # neither changes w nor what the product saved
    y.sum().backward()
    assert (w == 3).all() and (leaf.grad == 6).all()
    copy(leaf).mul_(5)
    assert (leaf == 3).all()


CASES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    **{name: (shape, function) for name, (shape, function) in COPIES.items()},
    "t": ((2, 3), lambda x: x.t()),
    "transpose": ((2, 3), lambda x: x.transpose(0, 1)),
    "permute": ((2, 3), lambda x: x.permute(1, 0)),
    "einsum that permutes": ((2, 3), lambda x: lucid.einsum("ij->ji", x)),
    "einsum of a diagonal": ((2, 2), lambda x: lucid.einsum("ii->i", x)),
    "reshape": ((2, 3), lambda x: x.reshape(6)),
    "reshape of a transpose": ((2, 3), lambda x: x.t().reshape(6)),
    "view": ((2, 3), lambda x: x.view(3, 2)),
    "view_as": ((2, 3), lambda x: x.view_as(x)),
    "flatten": ((2, 3), lambda x: x.flatten()),
    "unflatten": ((4,), lambda x: x.unflatten(0, (2, 2))),
    "squeeze": ((1, 2), lambda x: x.squeeze(0)),
    "unsqueeze": ((2,), lambda x: x.unsqueeze(0)),
    "expand": ((1, 2), lambda x: x.expand(3, 2)),
    "expand_as": ((1, 2), lambda x: x.expand_as(x)),
    "select": ((2, 3), lambda x: x.select(0, 1)),
    "narrow": ((2, 3), lambda x: x.narrow(1, 0, 2)),
    "slice": ((2, 3), lambda x: x[:, ::2]),
    "mask": ((2, 3), lambda x: x[x > 0]),
    "index_select": ((2, 3), lambda x: x[[0, 1]]),
    "diagonal": ((2, 2), lambda x: x.diagonal()),
    "diag": ((2, 2), lambda x: x.diag()),
    "unfold": ((4,), lambda x: x.unfold(0, 2, 2)),
    "split": ((4,), lambda x: x.split(2)[0]),
    "chunk": ((4,), lambda x: x.chunk(2)[0]),
    "unbind": ((2, 3), lambda x: x.unbind()[0]),
    "movedim": ((2, 3), lambda x: x.movedim(0, 1)),
    "swapaxes": ((2, 3), lambda x: x.swapaxes(0, 1)),
    "contiguous": ((2, 3), lambda x: x.t().contiguous()),
    "clone": ((2,), lambda x: x.clone()),
    "neg": ((2,), lambda x: -x),
    "abs": ((2,), lambda x: x.abs()),
    "clamp": ((2,), lambda x: x.clamp(0)),
    "tril": ((2, 2), lambda x: x.tril()),
    "squeeze of nothing": ((2,), lambda x: x.squeeze()),
    "ravel": ((2, 3), lambda x: x.ravel()),
    "ravel of a column": ((2, 3), lambda x: x[:, :1].ravel()),
    "flatten of a column": ((2, 3), lambda x: x[:, :1].flatten()),
    "mT": ((2, 3), lambda x: x.mT),
    "gather": ((2,), lambda x: x.take_along_dim(x.argsort(), 0)),
    "index_fill": ((2,), lambda x: x.index_fill(0, x.argsort()[:0], 1.0)),
    "masked_fill": ((2,), lambda x: x.masked_fill(x < 0, 1.0)),
    "sum_to_size": ((2,), lambda x: x.sum_to_size(2)),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_views_and_copies_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    shape, function = CASES[name]
    values = np.arange(1.0, 1 + int(np.prod(shape))).reshape(shape)
    ours, theirs = lucid.tensor(values), torch.tensor(values)
    found = function(ours)
    in_torch = rebound(function, torch)(theirs)
    shares = np.shares_memory(found.numpy(), ours.numpy())
    assert shares == np.shares_memory(in_torch.numpy(), theirs.numpy())
    assert shares == (found is ours or found._base is ours)


def rebound(function: Any, torch: Any) -> Any:
    """The function with PyTorch in the place of Lucid."""
    if not hasattr(function, "__code__") or function.__name__ != "<lambda>":
        return getattr(torch, function.__name__)
    names = {**function.__globals__, "lucid": torch, "F": torch.nn.functional}
    return type(function)(function.__code__, names)


OF_THREE: dict[str, Callable[[Tensor], Tensor]] = {  # views of (2, 3, 4)
    "unfold": lambda x: x.unfold(1, 2, 2),
    "unfold the last": lambda x: x.unfold(-1, 1, 1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "slice": lambda x: x[:, ::2, 1:],
    "select": lambda x: x.select(1, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "flatten": lambda x: x.flatten(1),
    "expand": lambda x: x.expand(2, 2, 3, 4),
    "as_strided": lambda x: lucid.as_strided(x, (2, 2), x.stride()[:2]),
    "split": lambda x: x.split(2, 2)[1],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "reshape": lambda x: x.reshape(2, 3, 2, 2),
}


@pytest.mark.parametrize("name", OF_THREE)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_shares_memory_is_followed_however_it_lies(name: str, order: tuple[int, ...]) -> None:
    """A view that the tape does not know would let writes pass it by. Results of arithmetic keep the order of memory."""
    sizes = np.array((2, 3, 4))[list(order)]
    leaf = lucid.from_numpy(np.ones(sizes).transpose(np.argsort(order))).requires_grad_()
    base = leaf * 1
    found = OF_THREE[name](base)
    if np.shares_memory(found.numpy(), base.numpy()):
        assert found.is_view()
