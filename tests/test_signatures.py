"""Arguments in all the ways that PyTorch takes them: by name, as numbers or as sequences, as tensors."""

import numpy as np
import pytest

import lucid
from lucid import nn

F = nn.functional


@pytest.mark.parametrize("make", [lucid.zeros, lucid.ones, lucid.empty])
def test_sizes_by_name(make):
    assert make(size=(2, 3)).shape == make(2, 3).shape == make((2, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match="unexpected arguments sizes; expected size"):
        make(sizes=(2, 3))
    with pytest.raises(TypeError, match="expected size, once"):
        make(2, size=(2,))


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_new_tensors_take_a_device_and_sizes_by_name(name):
    x = lucid.tensor([1, 2])
    made = getattr(x, name)(size=(2, 3), device="cpu", requires_grad=False)
    assert made.shape == (2, 3) and made.dtype == lucid.int64
    assert x.new_full((2,), 7, device="cpu").tolist() == [7, 7]
    assert x.new_tensor([3], device="cpu").tolist() == [3]


X = lucid.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: lucid.flip(X, dims=(0, 1)), lucid.flip(X, (0, 1))),
        (lambda: X.flip(dims=(1,)), X.flip(1)),
        (lambda: lucid.permute(X, dims=(1, 0)), X.permute(1, 0)),
        (lambda: lucid.reshape(X, shape=(3, 2)), X.reshape(3, 2)),
        (lambda: lucid.tile(X, dims=(2,)), X.tile(2)),
        (lambda: X.repeat(repeats=(2, 1)), X.repeat(2, 1)),
        (lambda: X[:, :1].expand(size=(2, 3)), X[:, :1].expand(2, 3)),
        (lambda: lucid.tensor_split(X, lucid.tensor([1, 2]), 1)[1], X[:, 1:2]),
        (lambda: lucid.tensor_split(X, lucid.tensor(2), 1)[1], X[:, 2:]),
        (lambda: lucid.repeat_interleave(lucid.tensor([2, 0, 1])), lucid.tensor([0, 0, 2])),
    ],
)
def test_sequences_by_name_and_as_tensors(call, wanted):
    assert call().tolist() == wanted.tolist()


def test_a_wrong_name_is_refused():
    with pytest.raises(TypeError, match="flip: unexpected arguments dim; expected dims"):
        lucid.flip(X, dim=0)
    with pytest.raises(RuntimeError, match="output_size is 4, but the repeats give 6"):
        lucid.repeat_interleave(lucid.tensor([1, 2, 3]), 2, output_size=4)


def test_bounds_of_integer_ranges_are_integers_themselves():
    kind = {"dtype": lucid.int64}
    assert lucid.arange(2.1, -2.9, -1.0, **kind).tolist() == [2, 1, 0, -1]
    assert lucid.arange(2.9, 7.2, 1.5, **kind).tolist() == [2, 3, 4, 5, 6]
    assert lucid.linspace(4.3, 0, 5, **kind).tolist() == [4, 3, 2, 1, 0]
    assert lucid.logspace(4.3, 0, 2, **kind).tolist() == [10000, 1]


def test_unbiased_stands_first_or_second():
    x = lucid.tensor([1.0, 2.0, 4.0])
    assert lucid.var(x, False).item() == pytest.approx(np.var([1, 2, 4]))
    assert lucid.std(x, True).item() == pytest.approx(np.std([1, 2, 4], ddof=1))


def test_nuclear_norm():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert lucid.norm(lucid.tensor(x[0]), "nuc").item() == pytest.approx(np.linalg.norm(x[0], "nuc"))
    found = lucid.norm(lucid.tensor(x), "nuc", dim=(0, 2))
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(x, "nuc", (0, 2)))
    with pytest.raises(ValueError, match="p must be a number, 'fro' or 'nuc', not 'l2'"):
        lucid.norm(lucid.tensor(x), "l2")


def test_activations_of_integers_keep_integers():
    x = lucid.tensor([-3, 0, 3, 9])
    assert F.hardtanh(x).tolist() == [-1, 0, 1, 1]
    assert F.relu6(x).tolist() == [0, 0, 3, 6]
    assert F.threshold(x, 2, 7).tolist() == [7, 7, 3, 9]
    with pytest.raises(RuntimeError, match=r"-1 is negative, but the input is lucid\.uint8"):
        F.hardtanh(x.abs().to(lucid.uint8))


@pytest.mark.parametrize("kind", [lucid.bool, lucid.uint8])
def test_sums_over_windows_want_a_sign(kind):
    x = lucid.ones(1, 1, 4, dtype=kind)
    for call in (lambda: F.conv1d(x, x), lambda: F.avg_pool1d(x, 2)):
        with pytest.raises(RuntimeError, match="expected numbers with a sign"):
            call()


def test_sizes_of_one_stand_for_any_in_a_tensordot():
    x, y = lucid.ones(1, 2), lucid.ones(3, 4)
    assert lucid.tensordot(x, y, ([0], [0])).tolist() == [[3.0] * 4] * 2
    with pytest.raises(RuntimeError, match="do not match"):
        lucid.tensordot(lucid.ones(2, 2), y, ([0], [0]))


def test_padding_by_copies_reaches_over_what_is_cut_off():
    x = lucid.arange(4.0).reshape(1, 1, 4)
    assert F.pad(x, (-4, 5), mode="replicate").tolist() == [[[3.0] * 5]]
    assert F.pad(x, (5, -7), mode="replicate").tolist() == [[[0.0] * 2]]
    with pytest.raises(RuntimeError, match="leaves nothing"):
        F.pad(x, (-4, 0), mode="replicate")
