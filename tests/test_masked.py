"""What the table does not say about `lucid.masked`."""

import math

import pytest

import lucid
from lucid import masked

X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
NONE = [[False, False, False], [True, True, False]]


def test_over_no_elements_there_is_the_neutral_element_or_nan():
    x, mask = lucid.tensor(X), lucid.tensor(NONE)
    for name, empty in (
        ("sum", 0.0),
        ("prod", 1.0),
        ("amax", -math.inf),
        ("amin", math.inf),
        ("logsumexp", -math.inf),
        ("argmax", 0),
        ("norm", 0.0),
    ):
        args = (2.0, 1) if name == "norm" else (1,)
        assert getattr(masked, name)(x, *args, mask=mask)[0].item() == empty, name
    for name in ("mean", "var", "std", "median", "softmax"):
        assert math.isnan(getattr(masked, name)(x, 1, mask=mask)[0].reshape(-1)[0].item()), name


def test_what_is_masked_out_gets_no_gradient_even_where_it_is_nan():
    mask = lucid.tensor([True, False, True])
    for name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "norm", "softmax", "log_softmax"):
        x = lucid.tensor([1.0, math.nan, 2.0], requires_grad=True)
        args = (2.0,) if name == "norm" else (0,) if "softmax" in name else ()
        out = getattr(masked, name)(x, *args, mask=mask)
        (out if not out.ndim else out[0]).backward()
        assert x.grad[1].item() == 0 and math.isfinite(x.grad[0].item()), name


def test_masked_out_elements_are_never_the_extreme():
    mask = lucid.tensor([False, True, True])
    assert masked.argmax(lucid.tensor([0, 0, 0], dtype=lucid.uint8), 0, mask=mask).item() == 1
    assert masked.argmin(lucid.tensor([math.inf] * 3), 0, mask=mask).item() == 1
    assert masked.argmax(lucid.tensor([9.0, 1.0, math.nan]), mask=mask).item() == 2
    assert (
        masked.argmax(lucid.tensor([[9.0, 1.0], [2.0, 3.0]]), mask=lucid.tensor([[False, True], [True, True]])).item()
        == 3
    )


def test_masks_may_be_numbers_and_broadcast():
    x = lucid.tensor(X)
    assert masked.sum(x, mask=lucid.tensor([1, 0, 2])).item() == 14
    assert masked.sum(x, axis=0, keepdims=True, mask=lucid.tensor([[True], [False]])).tolist() == [[1, 2, 3]]
    with pytest.raises(IndexError, match=r"mask of shape \(2,\)"):
        masked.sum(x, mask=lucid.tensor([True, False]))
    with pytest.raises(IndexError, match="does not fit"):
        masked.sum(x[0], mask=lucid.tensor(NONE))


def test_types_are_converted_first():
    x = lucid.tensor([1, 2, 3])
    assert masked.mean(x, dtype=lucid.float64, mask=lucid.tensor([True, True, False])).item() == 1.5
    assert masked.sum(lucid.tensor([200, 100], dtype=lucid.uint8)).dtype == lucid.int64
    for name in ("mean", "var", "median"):
        with pytest.raises(TypeError, match="floating-point"):
            getattr(masked, name)(x, 0, mask=lucid.tensor([True, True, False]))
    for name in ("amax", "argmin"):
        with pytest.raises(TypeError, match="complex"):
            getattr(masked, name)(lucid.tensor([1j]), mask=lucid.tensor([True]))
    with pytest.raises(RuntimeError, match="not both"):
        masked.var(lucid.ones(2), unbiased=True, correction=1)
