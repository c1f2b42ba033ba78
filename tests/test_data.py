"""Datasets, samplers and collation: what they give, and what they refuse."""

import collections
import pickle
import types

import numpy as np
import pytest

import lucid
import lucid.data
import lucid.utils.data
from lucid.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)


def seeded(seed=0):
    return lucid.Generator().manual_seed(seed)


class Letters(IterableDataset):
    def __init__(self, text):
        self.text = text

    def __iter__(self):
        return iter(self.text)


class Countable(Letters):
    def __len__(self):
        return len(self.text)


def test_the_path_that_pytorch_users_know_leads_to_the_same_names():
    assert lucid.utils.data.__all__ == lucid.data.__all__
    for name in lucid.data.__all__:
        assert getattr(lucid.utils.data, name) is getattr(lucid.data, name)


# Datasets


def test_tensor_dataset_gives_rows():
    x, y = lucid.rand(5, 3), lucid.arange(5)
    data = TensorDataset(x, y)
    assert len(data) == 5
    row, label = data[3]
    assert lucid.equal(row, x[3])
    assert label.item() == 3
    assert lucid.equal(data[1:3][0], x[1:3])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((), ValueError, "at least one"),
        ((np.zeros(3),), TypeError, "argument 0 is ndarray"),
        ((lucid.zeros(3), lucid.zeros(4)), ValueError, r"\(3,\), \(4,\)"),
        ((lucid.zeros(()),), ValueError, "equally many rows"),
    ],
)
def test_tensor_dataset_refuses(arguments, error, words):
    with pytest.raises(error, match=words):
        TensorDataset(*arguments)


def test_a_dataset_must_say_how_to_find_samples():
    class Nothing(Dataset):
        pass

    with pytest.raises(TypeError, match="__getitem__"):
        Nothing()
    with pytest.raises(TypeError, match="cannot be indexed"):
        Letters("ab")[0]


def test_concat_dataset_finds_samples_across_borders():
    data = ConcatDataset([[0, 1], [], [2], [3, 4]])
    assert [data[i] for i in range(len(data))] == [0, 1, 2, 3, 4]
    assert [data[i] for i in range(-5, 0)] == [0, 1, 2, 3, 4]
    assert data.cumulative_sizes == [2, 2, 3, 5]
    for outside in (5, -6):
        with pytest.raises(IndexError, match=f"index {outside} is out of range for a dataset of 5"):
            data[outside]
    with pytest.raises(ValueError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(TypeError, match="ChainDataset"):
        ConcatDataset([Letters("a")])


def test_datasets_are_added():
    both = TensorDataset(lucid.zeros(2)) + TensorDataset(lucid.ones(3))
    assert type(both) is ConcatDataset
    assert both[2][0].item() == 1.0
    streams = Letters("ab") + Letters("c")
    assert type(streams) is ChainDataset
    assert list(streams) == ["a", "b", "c"]


def test_chain_dataset():
    assert list(ChainDataset([Letters("ab"), Letters("c")])) == ["a", "b", "c"]
    assert len(ChainDataset([Countable("ab"), Countable("c")])) == 3
    with pytest.raises(TypeError, match="not list"):
        list(ChainDataset([["a"]]))


def test_stack_dataset():
    assert StackDataset([1, 2], "ab")[1] == (2, "b")
    named = StackDataset(x=[1, 2], y="ab")
    assert named[0] == {"x": 1, "y": "a"}
    assert len(named) == 2
    with pytest.raises(ValueError, match=r"differ in length: \[2, 1\]"):
        StackDataset([1, 2], "a")
    for wrong in ({}, {"x": [1]}):
        with pytest.raises(ValueError, match="either by position or by name"):
            StackDataset(*([[1]] if wrong else []), **wrong)


def test_subset():
    subset = Subset([10, 11, 12, 13], [3, 1])
    assert list(subset) == [13, 11]
    assert len(subset) == 2
    assert subset.__getitems__([1, 0]) == [11, 13]
    nested = Subset(subset, [1])
    assert nested[0] == 11


def test_subset_passes_whole_batches_on():
    class Bulk(Dataset):
        def __init__(self):
            self.asked = []

        def __getitem__(self, index):
            raise AssertionError("should be asked for a whole batch")

        def __getitems__(self, indices):
            self.asked.append(indices)
            return [i * 10 for i in indices]

    bulk = Bulk()
    assert Subset(bulk, [7, 8, 9]).__getitems__([0, 2]) == [70, 90]
    assert bulk.asked == [[7, 9]]


# random_split


def test_random_split_deals_out_every_sample_once():
    parts = random_split(range(10), [3, 0, 7], generator=seeded())
    assert [len(p) for p in parts] == [3, 0, 7]
    assert sorted(i for p in parts for i in p) == list(range(10))
    assert [list(p) for p in parts] == [list(p) for p in random_split(range(10), [3, 0, 7], generator=seeded())]
    assert list(parts[2]) != sorted(parts[2])


@pytest.mark.parametrize(
    ("total", "fractions", "sizes"),
    [
        (10, [0.7, 0.3], [7, 3]),
        (11, [0.5, 0.5], [6, 5]),
        (10, [1 / 3, 1 / 3, 1 / 3], [4, 3, 3]),
        (103, [0.25] * 4, [26, 26, 26, 25]),
        (5, [1.0], [5]),
    ],
)
def test_random_split_by_fractions(total, fractions, sizes):
    assert [len(p) for p in random_split(range(total), fractions)] == sizes


def test_random_split_refuses_what_does_not_add_up():
    with pytest.raises(ValueError, match="add up to 9, but the dataset has 10"):
        random_split(range(10), [4, 5])
    with pytest.raises(ValueError, match="fractions must add up to 1"):
        random_split(range(10), [0.5, 0.2])
    with pytest.raises(ValueError, match="negative"):
        random_split(range(10), [-1, 11])
    with pytest.warns(UserWarning, match="subset 1 is empty"):
        random_split(range(3), [0.9, 0.1])


# Samplers


def test_sequential_sampler():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert len(SequentialSampler("abc")) == 3


def test_random_sampler_visits_every_sample_once():
    sampler = RandomSampler(range(100), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert first == list(RandomSampler(range(100), generator=seeded()))
    assert all(type(i) is int for i in first)


def test_random_sampler_follows_the_default_generator():
    lucid.manual_seed(5)
    first = list(RandomSampler(range(50)))
    lucid.manual_seed(5)
    assert list(RandomSampler(range(50))) == first


@pytest.mark.parametrize("wanted", [1, 3, 4, 5, 8, 11])
def test_random_sampler_of_another_length(wanted):
    sampler = RandomSampler(range(4), num_samples=wanted)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == wanted
    for start in range(0, wanted - 3, 4):
        assert sorted(drawn[start : start + 4]) == [0, 1, 2, 3]


def test_random_sampler_with_replacement():
    drawn = list(RandomSampler(range(10), replacement=True, num_samples=10_000, generator=seeded()))
    counts = collections.Counter(drawn)
    assert set(counts) == set(range(10))
    # Each count is binomial with mean 1000 and standard deviation 30.
    assert all(abs(n - 1000) < 150 for n in counts.values())


def test_random_sampler_of_nothing():
    assert list(RandomSampler([])) == []
    with pytest.raises(ValueError, match="none to choose from"):
        list(RandomSampler([], num_samples=3))


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5])
def test_samplers_refuse_wrong_counts(wrong):
    with pytest.raises(ValueError, match="positive whole number"):
        RandomSampler(range(3), num_samples=wrong)
    with pytest.raises(ValueError, match="positive whole number"):
        BatchSampler(range(3), wrong, False)
    with pytest.raises(ValueError, match="positive whole number"):
        WeightedRandomSampler([1.0], wrong)


def test_samplers_refuse_what_is_not_a_bool():
    with pytest.raises(TypeError, match="replacement"):
        RandomSampler(range(3), replacement=1)
    with pytest.raises(TypeError, match="replacement"):
        WeightedRandomSampler([1.0], 1, replacement="yes")
    with pytest.raises(TypeError, match="drop_last"):
        BatchSampler(range(3), 2, 1)


def test_all_is_drawn_when_the_iteration_starts():
    for make in (
        lambda g: RandomSampler(range(9), generator=g),
        lambda g: RandomSampler(range(9), replacement=True, num_samples=20, generator=g),
        lambda g: SubsetRandomSampler(range(9), generator=g),
        lambda g: WeightedRandomSampler([1.0] * 9, 20, generator=g),
    ):
        generator = seeded()
        order = iter(make(generator))
        position = generator.get_state()
        list(order)
        assert generator.get_state() == position


def test_subset_random_sampler():
    sampler = SubsetRandomSampler(["a", "b", "c", "d", "e", "f"], generator=seeded())
    drawn = list(sampler)
    assert sorted(drawn) == list("abcdef")
    assert drawn != list("abcdef")
    assert len(sampler) == 6


def test_weighted_random_sampler():
    drawn = list(WeightedRandomSampler([1.0, 0.0, 3.0], 10_000, generator=seeded()))
    counts = collections.Counter(drawn)
    assert set(counts) == {0, 2}
    assert abs(counts[2] - 7500) < 300
    once = list(WeightedRandomSampler(lucid.tensor([1.0, 2.0, 3.0]), 3, replacement=False))
    assert sorted(once) == [0, 1, 2]
    with pytest.raises(ValueError, match="one dimension"):
        WeightedRandomSampler([[1.0]], 1)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7])
def test_batch_sampler(size, drop_last):
    batches = list(BatchSampler(SequentialSampler(range(6)), size, drop_last))
    expected = [list(range(start, min(start + size, 6))) for start in range(0, 6, size)]
    assert batches == [b for b in expected if len(b) == size or not drop_last]
    assert len(BatchSampler(SequentialSampler(range(6)), size, drop_last)) == len(batches)


def test_a_sampler_must_say_its_order():
    class Nothing(Sampler):
        pass

    with pytest.raises(TypeError, match="__iter__"):
        Nothing()


# Collation

Point = collections.namedtuple("Point", "x y")


def same(found, expected):
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, lucid.Tensor):
        assert found.dtype is expected.dtype
        assert lucid.equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([1, 2], lucid.tensor([1, 2])),
        ([True, False], lucid.tensor([True, False])),
        ([0.5, 1.5], lucid.tensor([0.5, 1.5], dtype=lucid.float64)),
        ([1j, 2.0], lucid.tensor([1j, 2.0], dtype=lucid.complex128)),
        (["a", "b"], ["a", "b"]),
        ([b"a", b"b"], [b"a", b"b"]),
        ([np.float32(1), np.float32(2)], lucid.tensor([1.0, 2.0])),
        ([np.int8(1), np.int8(2)], lucid.tensor([1, 2], dtype=lucid.int8)),
        ([np.uint16(1), np.uint16(2)], lucid.tensor([1, 2], dtype=lucid.uint16)),
        ([np.array([1, 2]), np.array([3, 4])], lucid.tensor([[1, 2], [3, 4]])),
        ([np.array(1.0), np.array(2.0)], lucid.tensor([1.0, 2.0], dtype=lucid.float64)),
        ([lucid.tensor([1.0]), lucid.tensor([2.0])], lucid.tensor([[1.0], [2.0]])),
        ([lucid.tensor(1), lucid.tensor(2)], lucid.tensor([1, 2])),
        ([lucid.zeros(2, dtype=lucid.bfloat16)] * 2, lucid.zeros(2, 2, dtype=lucid.bfloat16)),
        ([{"a": 1, "b": "x"}, {"b": "y", "a": 2}], {"a": lucid.tensor([1, 2]), "b": ["x", "y"]}),
        ([(1, "x"), (2, "y")], [lucid.tensor([1, 2]), ("x", "y")]),
        ([[1, [2]], [3, [4]]], [lucid.tensor([1, 3]), [lucid.tensor([2, 4])]]),
        ([Point(1, 2), Point(3, 4)], Point(lucid.tensor([1, 3]), lucid.tensor([2, 4]))),
        (
            [collections.OrderedDict(a=(1, {"b": 2.0})), collections.OrderedDict(a=(3, {"b": 4.0}))],
            collections.OrderedDict(a=[lucid.tensor([1, 3]), {"b": lucid.tensor([2.0, 4.0], dtype=lucid.float64)}]),
        ),
        ([[], []], []),
        ([{}, {}], {}),
    ],
    ids=repr,
)
def test_default_collate(batch, expected):
    same(default_collate(batch), expected)


def test_default_collate_keeps_what_a_mapping_has_besides_items():
    sample = collections.defaultdict(list, a=1)
    found = default_collate([sample, sample])
    assert type(found) is collections.defaultdict
    assert found.default_factory is list
    frozen = types.MappingProxyType({"a": 1})
    assert default_collate([frozen, frozen])["a"].tolist() == [1, 1]


def test_default_collate_makes_new_memory():
    sample = lucid.zeros(3)
    batch = default_collate([sample, sample])
    batch[0, 0] = 5.0
    assert sample.tolist() == [0, 0, 0]


def test_gradients_flow_through_a_batch():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    batch = default_collate([x, x * 3, lucid.ones(2)])
    batch.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        ([], ValueError, "at least one sample"),
        ([None, None], TypeError, "NoneType"),
        ([object()], TypeError, "cannot make a batch of object"),
        ([lucid.zeros(2), lucid.zeros(3)], RuntimeError, r"shapes \(2,\) and \(3,\).*collate_fn"),
        ([np.zeros(2), np.zeros((2, 1))], RuntimeError, r"shapes \(2,\) and \(2, 1\)"),
        ([lucid.zeros(2), 3], TypeError, "tensors and int"),
        ([np.array(["a"]), np.array(["b"])], TypeError, "<U1"),
        ([[1], [1, 2]], RuntimeError, "lengths, 1 and 2"),
        ([{"a": 1}, {"b": 1}], RuntimeError, "different keys"),
    ],
)
def test_default_collate_refuses(batch, error, words):
    with pytest.raises(error, match=words):
        default_collate(batch)


def test_default_convert():
    array = np.arange(3)
    found = default_convert({"x": array, "y": [np.float32(1), "text", None], "z": Point(1, array)})
    assert found["x"].tolist() == [0, 1, 2]
    assert found["y"][0].dtype is lucid.float32
    assert found["y"][1:] == ["text", None]
    assert type(found["z"]) is Point
    array[0] = 7
    assert found["x"][0].item() == 7
    names = np.array(["a"])
    assert default_convert(names) is names
    tensor = lucid.zeros(2)
    assert default_convert(tensor) is tensor


def test_collation_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    from torch.utils.data import default_collate as theirs

    def plain(value):
        if isinstance(value, lucid.Tensor | torch.Tensor):
            return (str(value.dtype).split(".")[1], value.tolist())
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        return [type(value).__name__, *map(plain, value)] if isinstance(value, list | tuple) else value

    for batch in (
        [1, 2],
        [0.5, 2.0],
        [True, False],
        [np.float32(1), np.float32(2)],
        [(np.zeros(2), 1), (np.ones(2), 2)],
        [{"a": [1, 2.0], "b": "x"}, {"a": [3, 4.0], "b": "y"}],
        [Point(1, "u"), Point(2, "v")],
        [[np.int16(1)], [np.int16(2)]],
    ):
        assert plain(default_collate(batch)) == plain(theirs(batch))


def test_datasets_and_samplers_can_be_pickled():
    for thing in (
        TensorDataset(lucid.zeros(2)),
        Subset([1, 2], [0]),
        ConcatDataset([[1], [2]]),
        RandomSampler(range(3), generator=seeded()),
        BatchSampler(SequentialSampler(range(3)), 2, False),
    ):
        copy = pickle.loads(pickle.dumps(thing))
        assert len(copy) == len(thing)
