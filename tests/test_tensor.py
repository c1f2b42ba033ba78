"""The tensor itself: printing, Python's protocols, data in and out, copies."""

import copy
import io
import pickle

import numpy as np
import pytest

import lucid

# --- repr -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: lucid.tensor([2.0, 4.0, 6.0]), "Tensor([2., 4., 6.])"),
        (lambda: lucid.tensor([1, 2]), "Tensor([1, 2])"),
        (lambda: lucid.tensor([True, False]), "Tensor([ True, False])"),
        (lambda: lucid.tensor(3.0), "Tensor(3.)"),
        (lambda: lucid.tensor(3), "Tensor(3)"),
        (lambda: lucid.tensor([1.0], dtype=lucid.float64), "Tensor([1.], dtype=lucid.float64)"),
        (lambda: lucid.tensor([1.5], dtype=lucid.bfloat16), "Tensor([1.5], dtype=lucid.bfloat16)"),
        (lambda: lucid.tensor([1], dtype=lucid.uint8), "Tensor([1], dtype=lucid.uint8)"),
        (lambda: lucid.tensor([1.0], requires_grad=True), "Tensor([1.], requires_grad=True)"),
        (lambda: lucid.tensor([[1, 2], [3, 4]]), "Tensor([[1, 2],\n        [3, 4]])"),
        (lambda: lucid.zeros(0), "Tensor([])"),
        (lambda: lucid.zeros(2, 0), "Tensor([], shape=(2, 0))"),
        (lambda: lucid.tensor([0.123456]), "Tensor([0.1235])"),
        (lambda: lucid.tensor([np.nan, np.inf, -np.inf]), "Tensor([ nan,  inf, -inf])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text
    assert str(make()) == text


def test_repr_with_history_names_the_operation():
    x = lucid.tensor([1.0], requires_grad=True)
    assert repr(x * 2) == "Tensor([2.], grad_fn=<mul>)"
    y = lucid.tensor([1.0], dtype=lucid.float64, requires_grad=True)
    assert repr(y) == "Tensor([1.], dtype=lucid.float64, requires_grad=True)"


def test_repr_of_large_tensors_is_cut():
    text = repr(lucid.zeros(10_000))
    assert "..." in text and len(text) < 100
    text = repr(lucid.zeros(1000, 1000))
    assert "..." in text and len(text) < 1000


def test_repr_of_a_gradient():
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert repr(x.grad) == "Tensor([2., 4., 6.])"


def test_format():
    assert f"{lucid.tensor(3.14159):.2f}" == "3.14"
    assert f"{lucid.tensor([1.0])}" == "Tensor([1.])"


# --- Python's protocols ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, 2.5, True, 1 + 2j])
def test_item_gives_a_python_number(value):
    for data in (value, [value], [[value]]):
        found = lucid.tensor(data).item()
        assert found == value and type(found) is type(value)


def test_item_of_bfloat16_is_a_float():
    assert type(lucid.tensor([1.5], dtype=lucid.bfloat16).item()) is float


@pytest.mark.parametrize("shape", [(0,), (2,), (1, 2)])
def test_item_needs_one_element(shape):
    with pytest.raises((RuntimeError, ValueError), match="element"):
        lucid.zeros(shape).item()


def test_tolist():
    assert lucid.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert lucid.tensor(2.5).tolist() == 2.5
    assert lucid.zeros(2, 0).tolist() == [[], []]
    found = lucid.tensor([1.5, 2.5], dtype=lucid.bfloat16).tolist()
    assert found == [1.5, 2.5] and type(found[0]) is float


def test_len():
    assert len(lucid.zeros(3, 2)) == 3
    with pytest.raises(TypeError, match="0-d"):
        len(lucid.tensor(1.0))


def test_iteration_gives_rows():
    rows = list(lucid.tensor([[1, 2], [3, 4]]))
    assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(lucid.tensor(1.0))


def test_unpacking_is_differentiable():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    a, b = x
    (a * b).backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_truth():
    assert lucid.tensor([1.0]) and lucid.tensor(True) and not lucid.tensor(0) and not lucid.tensor([[0.0]])
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(lucid.tensor([True, True]))
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(lucid.zeros(0))


def test_conversion_to_python_numbers():
    t = lucid.tensor([2.75])
    assert float(t) == 2.75 and int(t) == 2 and complex(t) == 2.75
    assert list(range(5))[lucid.tensor(3)] == 3
    with pytest.raises(TypeError):
        list(range(5))[lucid.tensor(3.0)]
    for f in (float, int, complex):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            f(lucid.ones(2))


def test_nan_and_infinity_do_not_become_integers():
    for value in (np.nan, np.inf):
        with pytest.raises((ValueError, OverflowError)):
            int(lucid.tensor(value))
        with pytest.raises(ValueError, match="nan or inf"):
            lucid.tensor([1.0, value], dtype=lucid.int64)
        with pytest.raises(ValueError, match="nan or inf"):
            lucid.full((2,), value, dtype=lucid.int32)


def test_hash_is_by_identity():
    a, b = lucid.ones(2), lucid.ones(2)
    assert len({a, b, a}) == 2
    assert {a: 1}[a] == 1


def test_comparison_with_strangers():
    t = lucid.ones(2)
    assert (t == None) is False  # noqa: E711  # what users write
    assert (t != "text") is True
    assert t not in [None, "text"]


def test_contains():
    t = lucid.tensor([1, 2, 3])
    assert 2 in t and 5 not in t


def test_sizes():
    t = lucid.zeros(2, 3, 4, dtype=lucid.float64)
    assert t.shape == (2, 3, 4) == t.size() and t.size(1) == 3 and t.size(-1) == 4
    assert t.ndim == t.dim() == 3
    assert t.numel() == t.nelement() == 24
    assert t.itemsize == t.element_size() == 8 and t.nbytes == 192
    assert t.stride() == (12, 4, 1) and t.stride(0) == 12
    assert t.is_contiguous() and not t.transpose(0, 1).is_contiguous()
    assert t[1].storage_offset() == 12
    with pytest.raises(IndexError):
        t.size(3)


# --- data in --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2], [3]],
        [[1, 2], 3],
        [[[1], [2, 3]], [[1], [2]]],
        [[], [1]],
    ],
)
def test_ragged_lists_are_refused(data):
    with pytest.raises(ValueError, match=r"ragged|length"):
        lucid.tensor(data)


@pytest.mark.parametrize("data", ["text", [None], ["a", "b"], object(), [object()], {"a": 1}, [1, "a"], None])
def test_what_is_no_number_is_refused(data):
    with pytest.raises((TypeError, ValueError)):
        lucid.tensor(data)


def test_integers_that_do_not_fit_into_64_bits_are_refused():
    with pytest.raises((ValueError, RuntimeError, OverflowError), match="64 bits"):
        lucid.tensor([2**70])


def test_integers_that_do_not_fit_into_the_type_are_refused():
    with pytest.raises((ValueError, RuntimeError, OverflowError)):
        lucid.tensor([300], dtype=lucid.uint8)


def test_complex_data_does_not_become_real():
    with pytest.raises((TypeError, RuntimeError)):
        lucid.tensor([1j], dtype=lucid.float32)


@pytest.mark.parametrize("wrong", ["gpu", "quantum:0", "cpu:x", "", 3])
def test_unknown_device(wrong):
    with pytest.raises((ValueError, TypeError, RuntimeError), match="device"):
        lucid.tensor([1.0], device=wrong)
    with pytest.raises((ValueError, TypeError, RuntimeError), match="device"):
        lucid.zeros(2, device=wrong)


def test_device():
    t = lucid.tensor([1.0], device="cpu")
    assert t.device == lucid.device("cpu") and str(t.device) == "cpu"
    assert repr(lucid.device("cpu")) == "device(type='cpu')"
    assert lucid.device("cpu:0") == lucid.device("cpu")


def test_tensor_copies_its_data():
    array = np.ones(2, np.float32)
    t = lucid.tensor(array)
    array[0] = 5
    assert t.tolist() == [1.0, 1.0]
    other = lucid.tensor(t)
    t.zero_()
    assert other.tolist() == [1.0, 1.0]


def test_tensor_of_tensors():
    found = lucid.tensor([lucid.tensor(1.0), lucid.tensor(2.0)])
    assert found.tolist() == [1.0, 2.0] and found.dtype is lucid.float32
    assert lucid.tensor([[lucid.tensor(1), 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


def test_tensor_from_a_tensor_is_a_leaf():
    x = lucid.tensor([1.0], requires_grad=True)
    y = lucid.tensor(x * 2)
    assert y.is_leaf and not y.requires_grad
    z = lucid.tensor(x * 2, requires_grad=True)
    assert z.is_leaf and z.requires_grad


def test_as_tensor_shares_where_it_can():
    x = lucid.ones(2)
    assert lucid.as_tensor(x) is x
    array = np.ones(2, np.float32)
    t = lucid.as_tensor(array)
    array[0] = 5
    assert t.tolist() == [5.0, 1.0]


def test_data_from_ranges_iterators_of_numbers_and_arrays():
    assert lucid.tensor(range(3)).tolist() == [0, 1, 2]
    assert lucid.tensor((1, 2)).tolist() == [1, 2]
    assert lucid.tensor([np.ones(2), np.zeros(2)]).shape == (2, 2)
    assert lucid.tensor(np.array([1, 2], np.uint16)).tolist() == [1, 2]
    assert lucid.tensor(np.array([1.0, 2.0], ">f4")).tolist() == [1.0, 2.0]


# --- data out: NumPy ------------------------------------------------------------------------------


def test_numpy_shares_memory():
    t = lucid.zeros(3)
    array = t.numpy()
    array[0] = 1
    t[1] = 2
    assert t.tolist() == [1.0, 2.0, 0.0] == array.tolist()
    assert np.shares_memory(np.asarray(t), array)


def test_numpy_of_a_tensor_that_requires_grad_is_read_only():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    for t in (x, x * 2):
        for array in (t.numpy(), np.asarray(t)):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 5
    assert np.shares_memory(x.numpy(), x.detach().numpy())


def test_numpy_of_a_view_shares_memory():
    t = lucid.zeros(2, 3)
    t.t()[0].numpy()[:] = 7
    assert t.tolist() == [[7.0, 0.0, 0.0], [7.0, 0.0, 0.0]]


def test_from_numpy_shares_memory_both_ways():
    array = np.zeros(3, np.float32)
    t = lucid.from_numpy(array)
    array[0] = 1
    t[1] = 2
    assert t.tolist() == [1.0, 2.0, 0.0] == array.tolist()


@pytest.mark.parametrize("wrong", [[1.0], 3.0, "x", None])
def test_from_numpy_needs_an_array(wrong):
    with pytest.raises(TypeError):
        lucid.from_numpy(wrong)


def test_from_numpy_refuses_types_without_counterpart():
    with pytest.raises(TypeError):
        lucid.from_numpy(np.array(["a"]))


def test_numpy_functions_take_tensors():
    t = lucid.tensor([1.0, 4.0])
    assert np.allclose(t, [1.0, 4.0])
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.array(t).tolist() == [1.0, 4.0]
    assert np.allclose(np.sqrt(t), [1.0, 2.0])


def test_array_protocol_copy_argument():
    t = lucid.tensor([1.0, 2.0])
    assert not np.shares_memory(np.array(t, copy=True), t.numpy())
    assert np.shares_memory(np.array(t, copy=False), t.numpy())
    with pytest.raises(ValueError):
        np.array(t, dtype=np.float64, copy=False)


def test_numpy_array_on_the_left_gives_a_tensor():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    for y in (np.ones(2, np.float32) * x, np.ones(2, np.float32) + x, np.ones(2, np.float32) - x, np.float32(2) * x):
        assert isinstance(y, lucid.Tensor) and y.requires_grad
    m = np.ones((2, 2), np.float32) @ x
    assert isinstance(m, lucid.Tensor) and m.requires_grad


# --- requires_grad, leaves, data ------------------------------------------------------------------


def test_requires_grad_can_be_set_on_leaves():
    x = lucid.ones(2)
    assert not x.requires_grad and x.is_leaf
    x.requires_grad = True
    assert x.requires_grad
    assert x.requires_grad_(False) is x and not x.requires_grad


def test_requires_grad_cannot_be_switched_off_on_results():
    y = lucid.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = False
    y.requires_grad = True


def test_requires_grad_set_after_use_does_not_change_the_past():
    x = lucid.ones(2)
    y = x * 2
    x.requires_grad_()
    assert not y.requires_grad


def test_data_is_the_memory_without_history():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    x.data.mul_(3)
    assert x.tolist() == [3.0, 6.0] and x.is_leaf and not x.data.requires_grad
    x.data = lucid.zeros(3)
    assert x.shape == (3,) and x.requires_grad
    with pytest.raises(TypeError):
        x.data = np.ones(3)


def test_detach_and_clone():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    assert np.shares_memory(x.detach().numpy(), x.numpy()) and not x.detach().requires_grad
    assert not np.shares_memory(x.clone().numpy(), x.numpy()) and x.clone().requires_grad


# --- copies ---------------------------------------------------------------------------------------

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "pickle 2": lambda t: pickle.loads(pickle.dumps(t, protocol=2)),
}
every_copy = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


@every_copy
@pytest.mark.parametrize("requires_grad", [False, True])
def test_copies_of_leaves(duplicate, requires_grad):
    x = lucid.tensor([1.0, 2.0], dtype=lucid.float64, requires_grad=requires_grad)
    y = duplicate(x)
    assert y is not x and y.tolist() == [1.0, 2.0]
    assert y.dtype is lucid.float64 and y.requires_grad is requires_grad and y.is_leaf
    assert not np.shares_memory(y.numpy(), x.numpy())
    with lucid.no_grad():
        y.add_(1)
    assert x.tolist() == [1.0, 2.0]


@every_copy
@pytest.mark.parametrize("name", ["bool", "int64", "bfloat16", "float16", "complex64"])
def test_copies_keep_the_type(duplicate, name):
    y = duplicate(lucid.ones(2, dtype=name))
    assert y.dtype.name == name and y.tolist() == lucid.ones(2, dtype=name).tolist()


@every_copy
def test_copies_of_results_are_refused(duplicate):
    x = lucid.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        duplicate(x * 2)
    assert duplicate((x * 2).detach()).tolist() == [2.0]


@every_copy
def test_copies_of_views_hold_only_the_view(duplicate):
    base = lucid.zeros(1000)
    y = duplicate(base[:2])
    assert y.shape == (2,) and not y.is_view()


@every_copy
def test_same_tensor_twice_stays_one(duplicate):
    x = lucid.ones(2)
    a, b = duplicate([x, x])
    assert a is b


def test_deepcopy_takes_the_gradient_along():
    x = lucid.tensor([1.0], requires_grad=True)
    (x * 3).backward()
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [3.0] and y.grad is not x.grad


def test_pickled_leaf_does_not_carry_hooks():
    x = lucid.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g * 10)
    y = pickle.loads(pickle.dumps(x))
    (y * 2).backward()
    assert y.grad.tolist() == [2.0]


def test_pickle_of_a_read_only_or_strided_tensor():
    y = pickle.loads(pickle.dumps(lucid.arange(6).view(2, 3).t()))
    assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
    z = pickle.loads(pickle.dumps(lucid.ones(1).expand(3)))
    z.add_(1)
    assert z.tolist() == [2.0, 2.0, 2.0]


def test_pickle_in_a_file():
    buffer = io.BytesIO()
    pickle.dump({"w": lucid.ones(2, requires_grad=True)}, buffer)
    buffer.seek(0)
    assert pickle.load(buffer)["w"].requires_grad
