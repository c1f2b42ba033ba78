"""The DataLoader: what it gives with and without workers, and how workers begin, fail and end."""

import collections
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
    random_split,
)

ROOT = Path(__file__).resolve().parent.parent
METHODS = multiprocessing.get_all_start_methods()
posix = pytest.mark.skipif(os.name != "posix", reason="signals and process tables of POSIX")
# Later versions of Python warn about a fork in a process with threads, such as those of the test runner.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def seeded(seed=0):
    return lucid.Generator().manual_seed(seed)


class Numbers(Dataset):
    """Sample i is an array of i's, and i."""

    def __init__(self, count, shape=(3,)):
        self.count = count
        self.shape = shape

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return np.full(self.shape, index, np.float32), index


class Stream(IterableDataset):
    """The numbers below `count`, divided among the workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.count) if info is None else range(info.id, self.count, info.num_workers))


class SizedStream(Stream):
    def __len__(self):
        return self.count


class Same(IterableDataset):
    def __iter__(self):
        return iter(range(3))


class Faulty(Dataset):
    def __init__(self, error, at=5):
        self.error = error
        self.at = at

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == self.at:
            raise self.error
        return index


class Sleepy(Dataset):
    """Samples from the second batch on take very long."""

    def __init__(self, seconds=60.0):
        self.seconds = seconds

    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index >= 4:
            time.sleep(self.seconds)
        return index


class Suicidal(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            if self.how == "exit":
                sys.exit(3)
            os.kill(os.getpid(), self.how)
        return index


class Seeds(Dataset):
    """What the generators of a worker give first."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        import random

        info = get_worker_info()
        return info.id, info.seed, lucid.initial_seed(), random.random(), np.random.random(), os.getpid()


class TwoArgumentsError(Exception):
    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code = code


class StubbornError(Exception):
    """Cannot be unpickled: pickle calls it with one argument."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")


def flat(loader):
    return [batch.tolist() for batch in loader]


def as_lists(value):
    if isinstance(value, lucid.Tensor):
        return value.dtype.name, value.tolist()
    if isinstance(value, dict):
        return {k: as_lists(v) for k, v in value.items()}
    return [as_lists(v) for v in value] if isinstance(value, list | tuple) else value


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_gone(pid):
    """Whether a process has ended and has been waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = set(multiprocessing.active_children())
    yield
    if not set(multiprocessing.active_children()) <= before:
        gc.collect()
        wait_until(lambda: set(multiprocessing.active_children()) <= before)


def pids_of(iterator):
    return [process.pid for process in iterator._pool._processes]


# Without workers


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4, 10, 11])
def test_batches_in_order(size, drop_last):
    loader = DataLoader(range(10), batch_size=size, drop_last=drop_last)
    expected = [list(range(start, min(start + size, 10))) for start in range(0, 10, size)]
    expected = [b for b in expected if len(b) == size or not drop_last]
    assert flat(loader) == expected
    assert len(loader) == len(expected)
    assert flat(loader) == expected


def test_shuffle_follows_its_generator():
    first = flat(DataLoader(range(20), batch_size=6, shuffle=True, generator=seeded(1)))
    assert first == flat(DataLoader(range(20), batch_size=6, shuffle=True, generator=seeded(1)))
    assert first != flat(DataLoader(range(20), batch_size=6, shuffle=True, generator=seeded(2)))
    assert sorted(itertools.chain(*first)) == list(range(20))
    loader = DataLoader(range(20), batch_size=6, shuffle=True, generator=seeded(1))
    assert flat(loader) != flat(loader)


def test_the_default_generator_shuffles_too():
    lucid.manual_seed(3)
    first = flat(DataLoader(range(20), shuffle=True))
    lucid.manual_seed(3)
    assert flat(DataLoader(range(20), shuffle=True)) == first


def test_samplers():
    assert flat(DataLoader(range(10), batch_size=2, sampler=[5, 3, 1])) == [[5, 3], [1]]
    assert flat(DataLoader(range(10), batch_sampler=[[1, 2], [9]])) == [[1, 2], [9]]
    loader = DataLoader(range(10), batch_sampler=BatchSampler(SequentialSampler(range(4)), 3, True))
    assert flat(loader) == [[0, 1, 2]]
    assert len(loader) == 1
    assert loader.batch_size is None


def test_samples_one_by_one():
    loader = DataLoader(Numbers(3), batch_size=None)
    assert [(x.tolist(), i) for x, i in loader] == [([i, i, i], i) for i in range(3)]
    assert len(loader) == 3
    assert list(DataLoader({"a": 1, "b": 2}, batch_size=None, sampler=["b", "a"])) == [2, 1]


def test_collate_fn():
    assert list(DataLoader(range(5), batch_size=2, collate_fn=sum)) == [1, 5, 4]
    assert list(DataLoader(range(3), batch_size=None, collate_fn=str)) == ["0", "1", "2"]


def test_whole_batches_are_asked_for_where_a_dataset_has_them():
    class Bulk(Dataset):
        def __getitem__(self, index):
            raise AssertionError("should be asked for a whole batch")

        def __getitems__(self, indices):
            return [i * 10 for i in indices]

        def __len__(self):
            return 3

    assert flat(DataLoader(Bulk(), batch_size=2)) == [[0, 10], [20]]


@pytest.mark.parametrize("drop_last", [False, True])
def test_streams(drop_last):
    loader = DataLoader(Stream(7), batch_size=3, drop_last=drop_last)
    assert flat(loader) == [[0, 1, 2], [3, 4, 5], [6]][: 2 if drop_last else 3]
    with pytest.raises(TypeError, match="Stream has no __len__"):
        len(loader)
    assert len(DataLoader(SizedStream(7), batch_size=3, drop_last=drop_last)) == (2 if drop_last else 3)
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert len(DataLoader(SizedStream(3), batch_size=None)) == 3


def test_stop_iteration_in_a_dataset_does_not_end_the_loop_in_silence():
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Faulty(StopIteration())))

    def collate(batch):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Stream(3), batch_size=None, collate_fn=collate))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 0}, "batch_size must be a positive whole number"),
        ({"batch_size": 2.0}, "batch_size must be a positive whole number"),
        ({"batch_size": None, "drop_last": True}, "drop_last needs a batch_size"),
        ({"sampler": [0], "shuffle": True}, "either a sampler or shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler excludes"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler excludes"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler excludes"),
        ({"num_workers": -1}, "num_workers"),
        ({"num_workers": True}, "num_workers"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"prefetch_factor": 2}, "prefetch_factor needs workers"),
        ({"persistent_workers": True}, "persistent_workers needs workers"),
        ({"multiprocessing_context": "fork"}, "multiprocessing_context needs workers"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor must be"),
        ({"num_workers": 1, "multiprocessing_context": "magic"}, "no start method 'magic'"),
    ],
    ids=repr,
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        DataLoader(range(4), **settings)


@pytest.mark.parametrize("setting", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_a_stream_has_its_own_order(setting):
    with pytest.raises(ValueError, match="cannot be given for a stream"):
        DataLoader(Stream(3), **setting)


def test_settings_cannot_be_changed_afterwards():
    loader = DataLoader(range(4), batch_size=2)
    with pytest.raises(ValueError, match="batch_size of a DataLoader cannot be changed"):
        loader.batch_size = 4
    assert flat(loader) == [[0, 1], [2, 3]]


# Whole batches with one index operation


class Overridden(TensorDataset):
    def __getitem__(self, index):
        return tuple(t * 2 for t in super().__getitem__(index))


class BulkOverridden(TensorDataset):
    def __getitems__(self, indices):
        return [(lucid.tensor(-i),) for i in indices]


def slowly(batch):
    """The same as default_collate, but not recognised as it."""
    return default_collate(batch)


@pytest.mark.parametrize(
    "make",
    [
        lambda x, y: TensorDataset(x, y),
        lambda x, y: TensorDataset(x.t().contiguous().t(), y),
        lambda x, y: TensorDataset(x.to(lucid.bfloat16), y > 4),
        lambda x, y: x,
        lambda x, y: Subset(TensorDataset(x, y), [3, 3, 8, -1]),
        lambda x, y: Subset(Subset(TensorDataset(x, y), range(9, 0, -1)), [0, 2, 4, 6]),
        lambda x, y: random_split(TensorDataset(x, y), [0.5, 0.5], generator=seeded())[0],
        lambda x, y: StackDataset(TensorDataset(x), y),
        lambda x, y: StackDataset(x=x, pair=TensorDataset(x, y)),
        lambda x, y: StackDataset(x, range(10)),
        lambda x, y: Overridden(x, y),
        lambda x, y: BulkOverridden(y),
        lambda x, y: Subset(Overridden(x, y), [1, 2]),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"shuffle": True}, {"sampler": [1, -1, 1]}], ids=repr)
def test_gathering_gives_what_collating_sample_by_sample_gives(make, settings):
    data = make(lucid.rand(10, 3, generator=seeded()), lucid.arange(10))
    if settings.get("sampler") and len(data) < 3:
        settings = {"sampler": [1, -1]}
    fast = DataLoader(data, batch_size=3, generator=seeded(), **settings)
    slow = DataLoader(data, batch_size=3, generator=seeded(), collate_fn=slowly, **settings)
    assert as_lists(list(fast)) == as_lists(list(slow))


def test_gathering_really_happens(monkeypatch):
    def fail(*_):
        raise AssertionError("asked for a single sample")

    monkeypatch.setattr(TensorDataset, "__getitem__", fail)
    data = TensorDataset(lucid.arange(4))
    assert [batch.tolist() for (batch,) in DataLoader(data, batch_size=3)] == [[0, 1, 2], [3]]
    assert [batch.tolist() for (batch,) in DataLoader(Subset(data, [3, 1]), batch_size=2)] == [[3, 1]]
    with pytest.raises(AssertionError, match="single sample"):
        list(DataLoader(data, collate_fn=slowly))


def test_gathered_batches_are_new_memory():
    x = lucid.zeros(4)
    for (batch,) in DataLoader(TensorDataset(x), batch_size=4):
        batch += 1
    assert x.tolist() == [0, 0, 0, 0]


def test_gradients_flow_through_gathered_batches():
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for (batch,) in DataLoader(TensorDataset(x), batch_size=2, sampler=[0, 2, 2]):
        (batch * batch).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 12.0]


def test_indices_out_of_range_are_errors():
    with pytest.raises(IndexError):
        list(DataLoader(TensorDataset(lucid.zeros(3)), batch_size=2, sampler=[0, 3]))


# With workers


@pytest.mark.parametrize("method", METHODS)
def test_workers_give_the_same_batches_in_the_same_order(method):
    def batches(workers):
        context = {"multiprocessing_context": method} if workers else {}
        loader = DataLoader(Numbers(23), batch_size=4, shuffle=True, num_workers=workers, generator=seeded(), **context)
        return as_lists(list(loader)), as_lists(list(loader))

    alone = batches(0)
    assert alone[0] != alone[1]
    assert batches(2) == alone


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_the_number_of_workers_does_not_matter(workers, prefetch):
    loader = DataLoader(Numbers(17), batch_size=2, num_workers=workers, prefetch_factor=prefetch)
    assert as_lists(list(loader)) == as_lists(list(DataLoader(Numbers(17), batch_size=2)))
    assert len(loader) == 9


def test_random_numbers_drawn_meanwhile_do_not_depend_on_workers():
    def run(workers):
        lucid.manual_seed(7)
        loader = DataLoader(range(12), batch_size=3, shuffle=True, num_workers=workers)
        return [(batch.tolist(), lucid.rand(1).item()) for batch in loader for _ in range(2)]

    assert run(0) == run(2)


def test_large_arrays_travel_through_shared_memory():
    data = Numbers(6, shape=(3, 200, 200))
    batches = list(DataLoader(data, batch_size=2, num_workers=2))
    for number, (x, i) in enumerate(batches):
        assert x.shape == (2, 3, 200, 200)
        assert i.tolist() == [2 * number, 2 * number + 1]
        assert np.array_equal(x.numpy()[1], np.full((3, 200, 200), 2 * number + 1, np.float32))
    x = batches[0][0]
    x += 1.0  # writable, and nobody else's
    assert x.numpy()[0].max() == 1.0
    assert batches[1][0].numpy()[0].min() == 2.0


def nested_batch(batch):
    big = np.arange(100_000.0).reshape(2, -1)
    return {
        "big": lucid.tensor(big),
        "bf": lucid.zeros(300, 300, dtype=lucid.bfloat16) + len(batch),
        "transposed": big.T,
        "leaf": lucid.ones(50_000, requires_grad=True),
        "point": collections.OrderedDict(x=1),
        "text": "a" * 200_000,
        "same": [big, big],
        "none": None,
    }


def test_whatever_can_be_pickled_can_be_a_batch():
    (batch,) = DataLoader(range(3), batch_size=3, num_workers=1, collate_fn=nested_batch)
    expected = nested_batch(range(3))
    assert list(batch) == list(expected)
    for name in ("big", "bf", "leaf"):
        assert lucid.equal(batch[name].detach(), expected[name].detach())
        assert batch[name].dtype is expected[name].dtype
    assert batch["leaf"].requires_grad
    assert np.array_equal(batch["transposed"], expected["transposed"])
    assert batch["same"][0] is batch["same"][1]
    assert (batch["text"], batch["none"], batch["point"]) == (expected["text"], None, {"x": 1})


@pytest.mark.skipif("fork" not in METHODS, reason="only forked workers see the change")
def test_without_shared_memory_arrays_travel_in_the_pipe(monkeypatch):
    from lucid.data import transport

    monkeypatch.setattr(transport, "_CAN_SHARE", False)
    loader = DataLoader(Numbers(4, shape=(100_000,)), num_workers=2, multiprocessing_context="fork")
    for i, (x, _) in enumerate(loader):
        assert np.array_equal(x.numpy(), np.full((1, 100_000), i, np.float32))
        x += 1.0


def test_many_batches_can_be_kept():
    resource = pytest.importorskip("resource")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(used + 400, limit[1]), limit[1]))
    try:
        kept = list(DataLoader(Numbers(600, shape=(40_000,)), num_workers=2))
        assert len(kept) == 600
        assert all(x[0, 0].item() == i == x[0, -1].item() for i, (x, _) in enumerate(kept))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_large_tasks_and_large_answers_do_not_block_each_other():
    def everything(batch):
        return "x" * 100_000, len(batch)

    size = 60_000
    loader = DataLoader(range(size * 6), batch_size=size, num_workers=1, prefetch_factor=4, collate_fn=everything)
    assert [count for _, count in loader] == [size] * 6


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_streams_are_shared_out(workers):
    found = flat(DataLoader(Stream(11), batch_size=2, num_workers=workers))
    assert sorted(itertools.chain(*found)) == list(range(11))
    assert found == flat(DataLoader(Stream(11), batch_size=2, num_workers=workers))
    if workers == 2:
        assert found == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]


def test_a_stream_that_does_not_divide_itself_comes_once_per_worker():
    assert flat(DataLoader(Same(), batch_size=2, num_workers=2)) == [[0, 1], [0, 1], [2], [2]]
    assert flat(DataLoader(Same(), batch_size=2, num_workers=2, drop_last=True)) == [[0, 1], [0, 1]]
    assert list(DataLoader(Same(), batch_size=None, num_workers=1)) == [0, 1, 2]


def test_empty_datasets():
    assert list(DataLoader([], num_workers=2)) == []
    assert list(DataLoader(Stream(0), num_workers=2)) == []


# Seeds and worker_init_fn


def test_every_worker_has_its_own_seed():
    assert get_worker_info() is None

    def epoch(seed):
        return [s[0] for s in DataLoader(Seeds(), num_workers=2, collate_fn=list, generator=seeded(seed))]

    first, again, other = epoch(0), epoch(0), epoch(1)
    assert [s[0] for s in first] == [0, 1, 0, 1]
    base = first[0][1]
    for sample in first:
        assert sample[1] == sample[2] == base + sample[0]
    assert [s[:5] for s in first] == [s[:5] for s in again]
    numbers = {value for s in first + other for value in s[3:5]}
    assert len(numbers) == 16


def raise_in_worker_1(number):
    if number == 1:
        raise LookupError("no such file")


def note_the_number(number):
    get_worker_info().dataset.count = 100 + number


class Noted(Numbers):
    def __getitem__(self, index):
        return self.count


def test_worker_init_fn():
    loader = DataLoader(Noted(4), num_workers=2, worker_init_fn=note_the_number)
    assert flat(loader) == [[100], [101], [100], [101]]
    with pytest.raises(LookupError, match="no such file"):
        list(DataLoader(Noted(4), num_workers=2, worker_init_fn=raise_in_worker_1))


# Persistent workers


class Pids(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return os.getpid()


def test_workers_live_on_if_they_are_to():
    loader = DataLoader(Pids(), num_workers=2, persistent_workers=True, collate_fn=list)
    first, second = list(loader), list(loader)
    assert first == second
    pids = {pid for (pid,) in first}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert list(pickle.loads(pickle.dumps(loader))) != first
    del loader
    wait_until(lambda: all(map(is_gone, pids)))
    short = DataLoader(Pids(), num_workers=2, collate_fn=list)
    assert list(short) != list(short)


def test_an_abandoned_epoch_leaves_nothing_to_the_next():
    loader = DataLoader(Numbers(40), batch_size=2, num_workers=2, persistent_workers=True, prefetch_factor=4)
    for number, (_, i) in enumerate(loader):
        assert i.tolist() == [2 * number, 2 * number + 1]
        if number == 3:
            pool = loader._idle
            break
    assert pool is None
    for _ in range(2):
        assert [i.tolist() for _, i in loader] == [[i, i + 1] for i in range(0, 40, 2)]
    streamed = DataLoader(Stream(40), batch_size=2, num_workers=2, persistent_workers=True)
    assert next(iter(streamed)).tolist() == [0, 2]
    assert len(flat(streamed)) == 20


def test_loops_inside_each_other():
    loader = DataLoader(range(4), num_workers=1, persistent_workers=True)
    assert [(a.item(), b.item()) for a in loader for b in loader] == [(a, b) for a in range(4) for b in range(4)]


# Errors


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "error",
    [KeyError("missing"), ValueError("odd"), FileNotFoundError(2, "gone", "data.bin"), TwoArgumentsError(3, "x")],
)
def test_errors_keep_their_type(workers, error):
    iterator = iter(DataLoader(Faulty(error), num_workers=workers, batch_size=2))
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(type(error)) as caught:
        next(iterator)
    if workers:
        told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "in worker process 0 of the DataLoader" in told
        assert "in __getitem__" in told
        assert "raise self.error" in told
    if isinstance(error, FileNotFoundError):
        assert (caught.value.errno, caught.value.filename) == (2, "data.bin")
    if isinstance(error, TwoArgumentsError):
        assert caught.value.code == 3
    assert list(iterator) == []


def local_error():
    class LocalError(Exception):
        pass

    return LocalError("inside")


class FaultyLocally(Faulty):
    def __init__(self, make):
        super().__init__(None)
        self.make = make

    def __getitem__(self, index):
        if index == self.at:
            raise self.make()
        return index


@pytest.mark.parametrize("make", [local_error, lambda: StubbornError(1, "no"), StopIteration])
def test_errors_that_do_not_travel_become_runtime_errors(make):
    with pytest.raises(RuntimeError, match=r"in worker process 1 of the DataLoader(.|\n)*in __getitem__"):
        list(DataLoader(FaultyLocally(make), num_workers=2))


def test_what_cannot_be_pickled_is_an_error():
    with pytest.raises((pickle.PicklingError, AttributeError), match="in worker process 0"):
        list(DataLoader(range(3), num_workers=1, collate_fn=lambda batch: lambda: batch))
    x = lucid.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only leaf tensors"):
        list(DataLoader([x * 2], num_workers=1))


def test_an_error_in_a_stream_comes_in_its_turn():
    class Broken(IterableDataset):
        def __iter__(self):
            yield from range(3)
            raise ZeroDivisionError("the end")

    iterator = iter(DataLoader(Broken(), num_workers=1))
    assert [next(iterator).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError, match="the end"):
        next(iterator)


def test_an_error_in_a_sampler_comes_in_its_turn():
    def order():
        yield from range(5)
        raise ZeroDivisionError("no more")

    iterator = iter(DataLoader(range(9), sampler=order(), num_workers=2))
    assert [next(iterator).item() for _ in range(5)] == list(range(5))
    with pytest.raises(ZeroDivisionError, match="no more"):
        next(iterator)


def test_a_dataset_that_cannot_be_sent_to_a_spawned_worker():
    loader = DataLoader([lambda: None], num_workers=2, multiprocessing_context="spawn")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        list(loader)


def test_timeout():
    iterator = iter(DataLoader(Sleepy(), batch_size=4, num_workers=1, timeout=0.5))
    assert next(iterator).tolist() == [0, 1, 2, 3]
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"worker 0 gave no batch within timeout=0\.5 seconds"):
        next(iterator)
    assert time.monotonic() - start < 10


@posix
@pytest.mark.parametrize(
    ("how", "words"),
    [("exit", "ended with exit code 3"), (signal.SIGKILL, "SIGKILL.*memory"), (signal.SIGTERM, "SIGTERM")],
)
def test_a_worker_that_dies_is_noticed(how, words):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"worker 1 \(pid \d+\).*{words}"):
        list(DataLoader(Suicidal(how), num_workers=2))
    assert time.monotonic() - start < 10


@posix
def test_a_worker_killed_from_outside_is_noticed():
    iterator = iter(DataLoader(Numbers(1000), num_workers=2))
    next(iterator)
    os.kill(pids_of(iterator)[1], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(iterator)


# Endings


@posix
@pytest.mark.parametrize("workers", [1, 3])
def test_leaving_the_loop_ends_the_workers(workers):
    iterator = iter(DataLoader(Numbers(1000), num_workers=workers))
    pids = pids_of(iterator)
    for _ in iterator:
        break
    assert not any(map(is_gone, pids))
    start = time.monotonic()
    del iterator, _
    assert all(map(is_gone, pids))  # at once, and waited for: no zombies
    assert time.monotonic() - start < 5


@posix
def test_workers_that_are_busy_are_ended_too():
    iterator = iter(DataLoader(Sleepy(), batch_size=4, num_workers=2))
    pids = pids_of(iterator)
    next(iterator)
    start = time.monotonic()
    del iterator
    assert all(map(is_gone, pids))
    assert time.monotonic() - start < 10


@posix
def test_an_exception_in_the_loop_ends_the_workers():
    pids = []

    def loop():
        iterator = iter(DataLoader(Numbers(1000), num_workers=2))
        pids.extend(pids_of(iterator))
        for _ in iterator:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    wait_until(lambda: all(map(is_gone, pids)))


def run_script(body, **settings):
    code = "import lucid, os, signal, sys, time\nfrom lucid.data import *\n" + textwrap.dedent(body)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **settings,
    )


SLOW_LOOP = """
    class Slow(Dataset):
        def __len__(self):
            return 10**6
        def __getitem__(self, index):
            time.sleep(0.01)
            return index
    iterator = iter(DataLoader(Slow(), num_workers=2, persistent_workers={persistent}))
    next(iterator)
    print(*[p.pid for p in iterator._pool._processes], flush=True)
"""


def pids_from(process):
    return [int(pid) for pid in process.stdout.readline().split()]


@posix
@pytest.mark.parametrize(
    ("ending", "persistent"),
    [
        ("", False),
        ("", True),
        ("sys.exit(4)", False),
        ("raise KeyError('x')", True),
        ("keep = [iterator]; keep.append(keep)", False),
    ],
)
def test_the_end_of_the_program_ends_the_workers(ending, persistent):
    process = run_script(SLOW_LOOP.format(persistent=persistent) + "    " + ending)
    pids = pids_from(process)
    _, errors = process.communicate(timeout=30)
    assert len(pids) == 2
    wait_until(lambda: all(map(is_gone, pids)))
    assert process.returncode == {"sys.exit(4)": 4, "raise KeyError('x')": 1}.get(ending, 0)
    assert ("Traceback" in errors) == ending.startswith("raise")


@posix
@pytest.mark.parametrize("to_group", [True, False])
def test_ctrl_c_ends_everything_at_once(to_group):
    process = run_script(SLOW_LOOP.format(persistent=True) + "    for _ in iterator: pass", start_new_session=True)
    pids = pids_from(process)
    start = time.monotonic()
    if to_group:  # as a terminal does it
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    wait_until(lambda: all(map(is_gone, pids)))
    assert errors.count("KeyboardInterrupt") == 1  # none from the workers


@posix
def test_workers_notice_that_the_main_process_was_killed():
    process = run_script(SLOW_LOOP.format(persistent=False) + "    time.sleep(60)")
    pids = pids_from(process)
    process.kill()
    process.communicate()
    wait_until(lambda: all(map(is_gone, pids)))


@posix
def test_a_forked_copy_of_the_program_leaves_the_workers_alone():
    iterator = iter(DataLoader(Numbers(50), num_workers=2))
    next(iterator)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            del iterator
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(iterator)) == 49


def test_many_epochs_leave_nothing_open():
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    loader = DataLoader(Numbers(6, shape=(50_000,)), num_workers=2)
    list(loader)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        list(loader)
        next(iter(loader))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_random_sampler_with_workers_and_replacement():
    sampler = RandomSampler(range(10), replacement=True, num_samples=30, generator=seeded())
    assert flat(DataLoader(range(10), sampler=sampler, batch_size=7, num_workers=2)) == flat(
        DataLoader(
            range(10),
            sampler=RandomSampler(range(10), replacement=True, num_samples=30, generator=seeded()),
            batch_size=7,
        )
    )
