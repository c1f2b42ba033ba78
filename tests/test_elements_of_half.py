"""Numbers of half precision beside Python's, losses of classes and statistics of them, and what is written in place."""

import warnings

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import func

HALF = [lucid.float16, lucid.bfloat16]


def rounded(values, dtype):
    return lucid.tensor(np.asarray(values, np.float32)).to(dtype).float().numpy()


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("number", [1.5, 0.1, -3, 2, 1000, 0.0])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "gt", "eq"])
def test_a_number_beside_half_precision_is_rounded_first(name, number, dtype):
    x = lucid.tensor([0.5, -2.25, 3.0, 0.0, np.inf, np.nan]).to(dtype)
    want = getattr(lucid, name)(x.float(), float(rounded(number, dtype))).to(dtype).float().numpy()
    got = getattr(lucid, name)(x, number)
    np.testing.assert_array_equal(got.float().numpy(), want)
    assert got.dtype == (lucid.bool if name in ("gt", "eq") else dtype)
    written = x.clone()
    assert getattr(written, f"{name}_")(number) is written and written.dtype == dtype
    np.testing.assert_array_equal(written.float().numpy(), want)
    batched = func.vmap(lambda v: getattr(lucid, name)(v, number))(x)
    np.testing.assert_array_equal(batched.float().numpy(), want)


def test_numbers_that_half_precision_has_not():
    x = lucid.ones(2).to(lucid.float16)
    assert (x * -lucid.inf).tolist() == [-np.inf] * 2 and np.isnan((x * lucid.nan).tolist()).all()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (x + 1e6).tolist() == [np.inf] * 2
    assert (lucid.ones(2).to(lucid.bfloat16) * 1e6).float().tolist() == rounded([1e6] * 2, lucid.bfloat16).tolist()


def test_a_gradient_beside_a_number_of_half_precision():
    x = lucid.tensor([1.0, 2.0]).to(lucid.bfloat16).requires_grad_()
    (x * 3.0 + 1.5).sum().backward()
    assert x.grad.dtype == lucid.bfloat16 and x.grad.float().tolist() == [3.0, 3.0]


def test_complex_numbers_beside_numbers():
    x = lucid.tensor([1 + 2j, -1j])
    assert (x * 2).tolist() == [2 + 4j, -2j] and (x + 0.5).dtype == lucid.complex64
    assert x.clone().mul_(2.0).tolist() == [2 + 4j, -2j]
    with pytest.raises(TypeError):
        x.clone().remainder_(2.0)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("count", [3, 700])
def test_losses_of_classes_in_half_precision(count, reduction, dtype):
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.standard_normal((count, 5)).astype(np.float32)).to(dtype)
    target = lucid.tensor(rng.integers(0, 5, count))
    for ignored in (-100, 2):
        one, other = x.clone().requires_grad_(), x.float().requires_grad_()
        losses = [F.nll_loss(v, target, reduction=reduction, ignore_index=ignored) for v in (one, other)]
        assert losses[0].dtype == dtype
        np.testing.assert_allclose(losses[0].float().numpy(), losses[1].numpy(), rtol=1e-2)
        for loss in losses:
            loss.sum().backward()
        np.testing.assert_allclose(one.grad.float().numpy(), other.grad.numpy(), rtol=1e-2)
    nothing = F.nll_loss(x, lucid.full((count,), 4), ignore_index=4)
    assert np.isnan(nothing.item())


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", ["var", "median", "nanmedian", "mode", "std"])
def test_statistics_of_half_precision(name, dtype):
    x = lucid.tensor(np.random.default_rng(1).standard_normal((6, 9)).astype(np.float32)).to(dtype)
    got, want = (getattr(lucid, name)(v, dim=1) for v in (x, x.float()))
    if not isinstance(got, lucid.Tensor):
        assert got[1].tolist() == want[1].tolist()
        got, want = got[0], want[0]
    assert got.dtype == dtype
    np.testing.assert_allclose(got.float().numpy(), want.numpy(), rtol=2e-2)


@pytest.mark.parametrize("dtype", [lucid.float64, lucid.float32, *HALF, lucid.complex64], ids=str)
def test_sums_without_nan(dtype):
    x = lucid.tensor([[1.0, np.nan, 3.0], [np.nan, np.nan, np.inf]]).to(dtype).requires_grad_()
    total = lucid.nansum(x, 1)
    assert total.dtype == dtype and np.real(total.detach().tolist()[0]) == 4 and np.isinf(total.detach().tolist()[1])
    total[0].real.backward() if dtype == lucid.complex64 else total[0].backward()
    assert np.real(x.grad.tolist()).tolist() == [[1, 0, 1], [0, 0, 0]]
    assert lucid.nansum(x.detach()[:, :0]).item() == 0


def test_sums_without_nan_in_transforms():
    x = lucid.tensor([[1.0, np.nan], [2.0, 3.0]])
    assert func.vmap(lucid.nansum)(x).tolist() == [1.0, 5.0]
    assert func.jvp(lucid.nansum, (x,), (lucid.ones(2, 2),))[1].item() == 3.0
    assert lucid.nansum(lucid.tensor([True, True])).item() == 2 and lucid.nanmean(x, 0, True).tolist() == [[1.5, 3.0]]


def test_bounds_that_are_tensors():
    rng = np.random.default_rng(2)
    x, low, high = (rng.standard_normal((4, 5)) for _ in range(3))
    low[0, 0] = high[1, 1] = np.nan
    x[2, 2] = np.nan
    want = np.minimum(np.maximum(x, low), high)
    given = [lucid.tensor(v, requires_grad=True) for v in (x, low, high)]
    got = lucid.clamp(*given)
    ordered = ~np.isnan(x)
    np.testing.assert_array_equal(got.detach().numpy()[ordered], want[ordered])
    got.sum().backward()
    shares = sum(v.grad.numpy() for v in given)
    np.testing.assert_array_equal(shares, np.ones((4, 5)))  # each element comes from one of the three
    one_by_one = [lucid.tensor(v, requires_grad=True) for v in (x, low, high)]
    lucid.clamp(lucid.clamp(one_by_one[0], min=one_by_one[1]), max=one_by_one[2]).sum().backward()
    for a, b in zip(given, one_by_one, strict=True):
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    written = lucid.tensor(x)
    written.clamp_(lucid.tensor(low), lucid.tensor(high[0]))
    np.testing.assert_array_equal(written.numpy(), lucid.clamp(*map(lucid.tensor, (x, low, high[0]))).numpy())


FORMS = {
    "cumsum_": lambda x: x.cumsum_(0),
    "renorm_": lambda x: x.renorm_(2, 0, 1.0),
    "eq_": lambda x: x.eq_(2.0),
    "logical_not_": lambda x: x.logical_not_(),
    "fill_diagonal_": lambda x: x.fill_diagonal_(7.0),
    "tril_": lambda x: x.tril_(),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_written_in_place_is_seen_and_noted(name):
    form, values = FORMS[name], np.arange(12.0).reshape(3, 4)
    want = form(lucid.tensor(values)).numpy()
    base = lucid.zeros(5, 4, dtype=lucid.float64)
    view = base[1:4]
    view.copy_(lucid.tensor(values))
    assert form(view) is view
    np.testing.assert_array_equal(base.numpy()[1:4], want)
    across = lucid.tensor(np.ascontiguousarray(values.T)).t()
    np.testing.assert_array_equal(form(across).numpy(), want)

    leaf = lucid.tensor(values, requires_grad=True)
    with pytest.raises(RuntimeError):
        form(leaf)
    with lucid.no_grad():
        form(leaf)
    np.testing.assert_array_equal(leaf.detach().numpy(), want)

    saved = lucid.tensor(values)
    product = (saved * leaf).sum()
    form(saved)
    with pytest.raises(RuntimeError, match="overwritten"):
        product.backward()

    with pytest.raises(RuntimeError):
        form(lucid.ones(1, 4).expand(3, 4))


def test_truth_values_are_written_as_numbers():
    for dtype in (lucid.float32, lucid.float64, lucid.bfloat16, lucid.int64, lucid.int8, lucid.complex64, lucid.bool):
        x = lucid.tensor([0, 1, 2, 1]).to(dtype)
        want = x.eq(lucid.ones(4).to(dtype)).to(dtype).tolist()
        assert x.eq_(lucid.ones(4).to(dtype)).tolist() == want and x.dtype == dtype
    empty, one = lucid.zeros(0), lucid.tensor(3.0)
    assert empty.gt_(1.0).shape == (0,) and one.gt_(1.0).item() == 1.0
    assert one.item() == 1.0


def test_a_diagonal_filled_on_the_tape():
    x = lucid.ones(3, 2, requires_grad=True)
    y = x * 2
    y.fill_diagonal_(5.0)
    y.sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0], [2, 2]]
    assert lucid.zeros(5, 2).fill_diagonal_(1, wrap=True).sum().item() == 4
    assert lucid.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2


@pytest.mark.parametrize("n", [1, 5, 16, 63, 64, 65, 200])
def test_truth_values_of_any_count(n):
    x, y = (np.random.default_rng(k).random(n) < 0.5 for k in (3, 4))
    a, b = lucid.tensor(x), lucid.tensor(y)
    assert ((~a).numpy() == ~x).all() and ((a & b).numpy() == (x & y)).all() and ((a ^ b).numpy() == (x ^ y)).all()
    assert ((a[::2] | b[::2]).numpy() == (x | y)[::2]).all()
    a.logical_not_()
    assert (a.numpy() == ~x).all()


def test_squares_of_differences():
    x, y = lucid.tensor([1.0, 2.0], requires_grad=True), lucid.tensor([3.0, 5.0], requires_grad=True)
    losses = F.mse_loss(x, y, reduction="none")
    assert losses.tolist() == [4.0, 9.0]
    losses.sum().backward()
    assert x.grad.tolist() == [-4.0, -6.0] and y.grad.tolist() == [4.0, 6.0]


def test_warnings_name_the_line_of_the_user():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        F.softmax(lucid.ones(2, 2))
        F.mse_loss(lucid.ones(2, 2), lucid.ones(2))
    assert [w.filename for w in found] == [__file__] * 2
