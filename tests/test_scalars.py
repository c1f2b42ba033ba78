"""Python numbers beside tensors: they take the tensor's type with all their digits, in every operation."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checks import REFUSALS, array, flat, put_together, take_apart
from samples import Make, Row, Sample
from table import ROWS

import lucid
from lucid import func, nn
from lucid.api.creation import from_numpy
from lucid.core.tensor import Tensor

THIRD = 1 / 3  # in single precision 0.33333334
NUMBERS = {"float64": THIRD, "complex128": THIRD + 0.1j}

# Places where a number is no operand beside a tensor.
ALONE: dict[str, str] = {
    "its type is that of the result, whatever stands beside it": "expand_as index_fill masked_fill reshape_as view_as",
    "a power or an order of a norm, which tensors reach by another way of rounding": """
        cdist lp_pool1d lp_pool2d lp_pool3d masked_norm masked_normalize norm normalize pairwise_distance pdist_rows
        triplet_margin_loss
    """,
    "a primitive, which takes tensors": "sigmoid_slope tanh_slope",
}
WHY_ALONE = {name: why for why, names in ALONE.items() for name in names.split()}


def places(sample: Sample, dtype: str) -> Iterator[Any]:
    """Where a sample has a number or an array, beside another array of the type."""
    named = [*enumerate(sample.args), *sample.kwargs.items()]
    for key, value in named:
        is_array = isinstance(value, np.ndarray) and value.dtype == dtype
        others: list[np.ndarray] = []
        take_apart([v for k, v in named if k != key], others)
        if (is_array or isinstance(value, float)) and any(a.dtype == dtype for a in others):
            yield key


def called(row: Row, sample: Sample, key: Any, value: Any) -> Any:
    """The results with `value` at one place, None where it is refused."""
    arrays: list[np.ndarray] = []
    nest = take_apart([list(sample.args), list(sample.kwargs.values())], arrays)
    args, values = put_together(nest, [from_numpy(a.copy()) for a in arrays])
    kwargs = dict(zip(sample.kwargs, values, strict=True))
    (args if isinstance(key, int) else kwargs)[key] = value
    lucid.manual_seed(0)
    try:
        return flat(row.op(*args, **kwargs))
    except (*REFUSALS, AttributeError):  # functions of tensors only may ask numbers for what these have
        return None


@pytest.mark.filterwarnings("ignore:.*broadcast")
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in WHY_ALONE], ids=repr)
def test_numbers_are_as_exact_as_tensors(row: Row, dtype: str) -> None:
    if dtype not in (("float64",) if row.floats else ()) + (("complex128",) if row.complex else ()):
        pytest.skip("the operation does not take the type")
    number = NUMBERS[dtype]
    with np.errstate(all="ignore"):
        for sample in row.samples(Make(dtype, row.domain)):
            for key in places(sample, dtype):
                want = called(row, sample, key, from_numpy(np.asarray(number, dtype)))
                got = None if want is None else called(row, sample, key, number)
                for g, w in zip(got or (), want or ()):
                    if isinstance(w, Tensor):
                        assert g.dtype is w.dtype, f"{row.name}, argument {key}"
                        np.testing.assert_array_equal(array(g), array(w), err_msg=f"{row.name}, argument {key}")


def double(*values: float) -> Tensor:
    return lucid.tensor(values, dtype=lucid.float64)


WRITES: dict[str, Any] = {
    "setitem": lambda x, v: x.__setitem__(0, v),
    "setitem by slice": lambda x, v: x.__setitem__(slice(0, 1), v),
    "setitem by list": lambda x, v: x.__setitem__(slice(0, 1), [v]),
    "setitem by mask": lambda x, v: x.__setitem__(lucid.tensor([True, False]), v),
    "setitem by index": lambda x, v: x.__setitem__(lucid.tensor([0]), v),
    "fill_": lambda x, v: x.fill_(v),
    "copy_": lambda x, v: x.copy_(v),
    "masked_fill_": lambda x, v: x.masked_fill_(lucid.tensor([True, False]), v),
    "index_fill_": lambda x, v: x.index_fill_(0, lucid.tensor([0]), v),
    "index_put_": lambda x, v: x.index_put_((lucid.tensor([0]),), v),
    "scatter_": lambda x, v: x.scatter_(0, lucid.tensor([0]), value=v),
    "fill_diagonal_": lambda x, v: x.reshape(1, 2).fill_diagonal_(v),
    "init.constant_": lambda x, v: nn.init.constant_(x, v),
    "add_": lambda x, v: x.zero_().add_(v),
    "scatter_add_": lambda x, v: x.zero_().scatter_add_(0, lucid.tensor([0]), [v]),
    "put_": lambda x, v: x.put_(lucid.tensor([0]), [v]),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float64", 0.1), ("float64", 1e300), ("float64", 2**53 - 1), ("complex128", 0.1 + 0.7j), ("int64", 2**53 + 1)],
    ids=str,
)
def test_numbers_are_written_as_they_are(name: str, dtype: str, value: Any) -> None:
    x = lucid.ones(2).to(dtype)
    WRITES[name](x, value)
    assert x[0].item() == value


def test_floats_are_rounded_once_on_their_way_into_integers() -> None:
    x = lucid.zeros(2, dtype=lucid.int64)
    x[0] = 2.0**24 + 1
    x[1:].fill_(2.0**24 + 3)
    assert x.tolist() == [2**24 + 1, 2**24 + 3]


def test_searches_compare_all_digits() -> None:
    edges = double(0.1, 0.3)
    assert lucid.bucketize(0.1, edges).item() == 0
    assert lucid.searchsorted(edges, 0.3).item() == 1
    assert np.searchsorted(edges, 0.3) == 1
    assert lucid.isin(edges, 0.1).tolist() == [True, False]
    assert lucid.equal(lucid.tensor(0.1, dtype=lucid.float64), 0.1)


def test_ends_keep_all_digits() -> None:
    def spaced(x: Any) -> Any:
        return lucid.linspace(x, 1.1, 3, dtype=lucid.float64), lucid.logspace(x, 0.1, 3, dtype=lucid.float64)

    x = lucid.tensor(-1.1, dtype=lucid.float64)
    for got in (
        spaced(x.clone().requires_grad_()),
        lucid.func.jvp(spaced, (x,), (x,))[0],
        lucid.func.make_graph(spaced)(x)(x),
    ):
        for g, want in zip(got, spaced(x), strict=True):
            np.testing.assert_allclose(g.detach(), want, rtol=1e-15, atol=1e-15)


def test_lists_beside_tensors() -> None:
    x = double(1.0, 2.0)
    for got, want in (
        (lucid.add(x, [0.1, 0.2]), [1.1, 2.2]),
        (lucid.cat([x, [0.1]]), [1.0, 2.0, 0.1]),
        (lucid.where(x > 1, x, [0.1, 0.2]), [0.1, 2.0]),
        (lucid.outer(x, [0.1]).reshape(2), [0.1, 0.2]),
        (lucid.scatter(x, 0, lucid.tensor([0]), [0.1]), [0.1, 2.0]),
    ):
        assert (got.dtype, got.tolist()) == (lucid.float64, want)


def test_numbers_still_promote_by_category() -> None:
    assert (lucid.tensor([1]) + 1.5).dtype is lucid.float32
    assert (double(1.0) + 1j).dtype is lucid.complex128
    assert (lucid.tensor([1.0]) + 1j).dtype is lucid.complex64
    assert (lucid.tensor([1.0]) + 0.1).dtype is lucid.float32


def test_cotangents_and_tangents_keep_their_digits() -> None:
    x = lucid.tensor(1.0, dtype=lucid.float64)
    _, pull = func.vjp(lambda t: t * 1, x)
    assert pull(0.1)[0].item() == 0.1
    assert func.jvp(lambda t: t * 1, (x,), (0.1,))[1].item() == 0.1
