"""`lucid.compile(dynamic=)`: programs for any number of rows, and functions that have none."""

import copy
import itertools
import math
import sys

import numpy as np
import pytest
from checks import array, cases
from checks import taken as types_of
from table import ROWS as TABLE

import lucid
import lucid.torch as torch
from lucid import func, nn, optim
from lucid.compiler import sizes
from lucid.nn import functional as F

ROWS = [
    32,
    32,
    7,
    64,
    2,
    9,
    1,
    101,
    33,
    64,
]  # the first two are traced: the second time with the state of the optimizer
weight = lucid.linspace(-1, 1, 24).reshape(6, 4)
taken = lucid.linspace(-1, 1, 24).reshape(6, 4).requires_grad_()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.place = nn.Parameter(lucid.randn(8, 16) * 0.1)
        self.norm = nn.LayerNorm(16)
        self.all = nn.Linear(16, 48)
        self.out = nn.Linear(16, 30)

    def forward(self, x):
        rows, length = x.shape
        h = self.embedding(x) + self.place
        q, k, v = self.all(self.norm(h)).view(rows, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(h + mixed.transpose(1, 2).reshape(rows, length, 16)).view(-1, 30)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(128, 10)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        return self.out(h.view(x.size(0), -1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(5, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


def classes(*shape, count):
    return lambda rows: (lucid.randn(rows, *shape), lucid.randint(0, count, (rows,)))


MODELS = {
    "dropout": (
        lambda: nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 10)),
        classes(20, count=10),
    ),
    "images": (Images, classes(3, 8, 8, count=10)),
    "recurrent": (Recurrent, classes(7, 5, count=3)),
    "attention": (
        Attention,
        lambda rows: (lucid.randint(0, 30, (rows, 8)), lucid.randint(0, 30, (rows * 8,)).view(rows, 8)),
    ),
}


def steps(build, counter, compiled):
    lucid.manual_seed(0)
    model = build()
    optimizer = optim.AdamW(model.parameters(), 0.01)

    def step(x, y):
        next(counter)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return lucid.compile(step, dynamic=("x", "y")) if compiled else step


@pytest.mark.parametrize("name", MODELS)
def test_training_with_other_numbers_of_rows_is_not_traced_again(name):
    build, data = MODELS[name]
    counter = itertools.count()
    losses = {}
    for compiled in (False, True):
        step = steps(build, counter, compiled)
        losses[compiled] = []
        for number, rows in enumerate(ROWS):
            lucid.manual_seed(number)
            given = data(rows)
            before = next(counter)
            losses[compiled].append(step(*given).item())
            traced = next(counter) - before - 1
            # The first trace ends at the step of the optimizer, whose state is then made.
            assert not compiled or traced == [5, 0, 0, 0, 0, 0, 1, 0, 0, 0][number]
    np.testing.assert_allclose(losses[True], losses[False], rtol=2e-4)
    assert "without a trace of their own: 2, 7, 9, 33, 64, 101 rows" in step.explain()


# Each takes two matrices of six columns.
GENERAL = {
    "a sum by rows": lambda x, y: ((x - y) ** 2).sum() / x.shape[0],
    "a mean": lambda x, y: ((x - y) ** 2).mean(),
    "its gradient": lambda x, y: func.grad(lambda v: (v @ weight).tanh().mean())(x) + y,
    "a part of a batch": lambda x, y: (x - y).mean() * (x.shape[0] / 32),
    "a share": lambda x, y: (x * y).sum(0) * (1 / x.shape[0]),
    "degrees of freedom": lambda x, y: (x.T @ y) / (x.shape[0] - 1),
    "sizes of new tensors": lambda x, y: lucid.cat([x, lucid.zeros(x.shape[0], 2), lucid.full((x.size(0), 1), 0.5)], 1),
    "positions": lambda x, y: x[lucid.arange(x.shape[0]), 0] * lucid.arange(x.shape[0]) + y[:, [1, 0]].sum(1),
    "views": lambda x, y: x.view(-1).view(x.shape[0], 2, 3).flatten(0, 1).sum(0) + x.repeat(2, 1).view(2, -1, 6).sum(),
    "expanded": lambda x, y: weight[:, 0].expand(x.shape[0], 6) * x.flip(0) + F.pad(y, (0, 0, 1, 2))[1:-2],
    "pairs": lambda x, y: F.cross_entropy(x @ y.T, lucid.arange(x.shape[0])) + (x @ y.T).tril().sum(),
    "draws": lambda x, y: x + lucid.randn(x.shape[0], 6) * F.dropout(y, 0.3) + x[lucid.randperm(x.shape[0])],
    "along the rows": lambda x, y: x.cumsum(0) + y.softmax(0) + x.sort(0).values + y.norm(dim=0) + x.logsumexp(0),
    "per row": lambda x, y: func.vmap(func.grad(lambda w, a, b: ((a @ w) * (b @ w)).sum()), (None, 0, 0))(weight, x, y),
    "a scan": lambda x, y: func.scan(lambda c, t: (c * 0.5 + t, c), x[:, 0] * 0, y.T)[0],
    "numbers": lambda x, y: (x.sum() / x.numel(), x.shape[0], x.shape, y.shape[0] * 3 + 1),
    "equal sizes": lambda x, y: x + y if x.shape[0] == y.shape[0] else x,
}
SPECIAL = {
    "a comparison": (lambda x, y: x * 2 if x.shape[0] > 10 else y, "compares the number of rows"),
    "a certain number": (lambda x, y: x * 2 if x.size(0) == 7 else y, "compares the number of rows"),
    "what is left": (lambda x, y: x * 2 if x.shape[0] % 2 == 0 else y, "compares the number of rows"),
    "one of some": (lambda x, y: x * 2 if x.shape[0] in (9, 11) else y, "compares the number of rows"),
    "looked up": (lambda x, y: x * {7: 5.0}.get(x.shape[0], 2.0) + y, "looks something up"),
    "a length": (lambda x, y: x * 2 if len(x) > 8 else y, "asks for len"),
    "a loop": (lambda x, y: sum(x[i] * y[i] for i in range(x.shape[0])), "for each row"),
    "half": (lambda x, y: x[: x.shape[0] // 2] * 2, "no linear function"),
    "the larger one": (lambda x, y: x * max(x.shape[0], 8), "no linear function"),
    "a root": (lambda x, y: x / x.shape[0] ** 0.5, "depends on the number of rows"),
    "by NumPy": (lambda x, y: x * float(np.prod(x.shape) > 60), "no linear function"),
    "parts": (lambda x, y: lucid.cat(x.split(4), 0) * 2, "for each row"),
    "divisible in silence": (lambda x, y: x * 2 if math.prod(x.shape) % 8 == 0 else y, "programs"),
}


def run(function, compiled):
    """What calls with several numbers of rows give, and how often the function ran for each."""
    counter = itertools.count()

    def counted(x, y):
        next(counter)
        return function(x, y)

    called = lucid.compile(counted, dynamic=("x", "y")) if compiled else counted
    results, counts = [], []
    for number, rows in enumerate(ROWS):
        lucid.manual_seed(number)
        given = lucid.randn(rows, 6), lucid.randn(rows, 6)
        before = next(counter)
        found = called(*given)
        counts.append(next(counter) - before - 1)
        results.append([*found] if isinstance(found, tuple) else [found])
    return called, results, counts


def compare(results, expected):
    for found, wanted in zip(results, expected, strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", GENERAL)
def test_a_program_serves_for_all_numbers_of_rows(name):
    called, results, counts = run(GENERAL[name], True)
    assert counts == [4, 0, 0, 0, 0, 0, 1, 0, 0, 0], called.explain()
    compare(results, run(GENERAL[name], False)[1])


@pytest.mark.parametrize("name", SPECIAL)
def test_functions_that_look_at_the_number_of_rows_are_traced_for_each(name):
    function, reason = SPECIAL[name]
    called, results, counts = run(function, True)
    assert counts[1:] == [0, 1, 1, 1, 1, 1, 1, 1, 0]
    compare(results, run(function, False)[1])
    assert "each number of rows is traced" in called.explain() and reason in called.explain()


def outcome(function, arrays):
    """The arrays that a function gives, or the fact that it raises."""
    try:
        return [array(t) for t in function(*[lucid.tensor(a) for a in arrays]) if isinstance(t, lucid.Tensor)]
    except Exception:
        return "raises"


# Positions of the entries of a sparse matrix are no longer such if they are repeated, and nobody checks them again.
REPEATABLE = [row for row in TABLE if not row.name.startswith("csr_")]


@pytest.mark.sampled(every=40)
@pytest.mark.parametrize("row", REPEATABLE, ids=lambda row: row.name)
def test_operations_with_more_rows_give_what_they_give_eagerly(row):
    dtype = types_of(row)[0]
    for case in itertools.islice(cases(row, dtype), 3):
        rows = next((a.shape[0] for a in case.arrays if a.ndim), 0)
        varying = [k for k, a in enumerate(case.arrays) if a.ndim and a.shape[0] == rows]
        compiled = lucid.compile(lambda *given, case=case: case.op(*given), dynamic=varying)
        with np.errstate(all="ignore"):
            for times in (1, 2, 3):
                given = [np.concatenate([a] * times) if k in varying else a for k, a in enumerate(case.arrays)]
                want = outcome(case.op, given)
                got = outcome(compiled, given)
                if times == 1 and got == "raises":  # what cannot be compiled
                    break
                assert (got == "raises") == (want == "raises"), f"{case} with {times * rows} rows"
                if want != "raises":
                    for a, b in zip(got, want, strict=True):
                        assert a.dtype == b.dtype
                        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=f"{case}")


def test_gradients_flow_through_programs_for_other_numbers_of_rows():
    def loss(x):
        return ((x @ taken).sin() * x[:, :4]).mean()

    compiled = lucid.compile(loss, dynamic="x")
    for rows in (8, 5, 12):
        found = []
        for function in (compiled, loss):
            lucid.manual_seed(rows)
            x = lucid.randn(rows, 6, requires_grad=True)
            taken.grad = None
            function(x).backward()
            found.append((taken.grad.clone(), x.grad.clone()))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert len(compiled._history) == 1


def test_guards_hold_for_all_numbers_of_rows():
    factor = {"value": 2.0}
    compiled = lucid.compile(lambda x: x * factor["value"], dynamic="x")
    assert [compiled(lucid.ones(n)).sum().item() for n in (4, 5)] == [8, 10]
    factor["value"] = 3.0
    assert [compiled(lucid.ones(n)).sum().item() for n in (6, 4, 7)] == [18, 12, 21]
    assert "factor['value'] was 2.0, now 3.0" in compiled.explain()


def test_arguments_with_different_numbers_of_rows_are_traced():
    compiled = lucid.compile(lambda x, y: x.sum() + y.sum(), dynamic=("x", "y"))
    for n, m in ((4, 4), (5, 5), (4, 6), (7, 3)):
        assert compiled(lucid.ones(n), lucid.ones(m)).item() == n + m
    assert "without a trace of their own: 5 rows" in compiled.explain()


def test_batches_in_containers_and_arguments_by_name():
    counter = itertools.count()

    def total(batch, scale=None):
        next(counter)
        return (batch["x"] * batch["y"].unsqueeze(1)).sum() * scale

    compiled = lucid.compile(total, dynamic="batch")
    for rows in (4, 6, 9):
        batch = {"x": lucid.ones(rows, 3), "y": lucid.ones(rows)}
        assert compiled(batch, scale=lucid.tensor(2.0)).item() == 6 * rows
    assert next(counter) == 4


def test_all_arguments_can_be_dynamic():
    def total(x, *others, scale):
        return (x + sum(others)).sum() * scale

    compiled = copy.deepcopy(lucid.compile(total, dynamic=True))
    for rows in (4, 6, 9):
        assert compiled(lucid.ones(rows, 3), lucid.ones(rows, 1), scale=lucid.tensor(2.0)).item() == 12 * rows
    assert len(compiled._history) == 1
    assert lucid.compile(total, dynamic=False)(lucid.ones(2), scale=1).item() == 2


def test_front_doors_take_other_numbers_of_rows():
    def total(x):
        assert isinstance(x.shape, torch.Size)
        return (x.view(x.size(0), -1) * 2).sum() / x.size(0)

    compiled = torch.compile(total, dynamic=True)
    for rows in (4, 6, 9):
        found = compiled(torch.ones(rows, 3, 2))
        assert type(found) is torch.Tensor and found.item() == 12
    assert len(compiled._history) == 1


def test_what_the_function_raises_for_other_rows_is_no_error():
    compiled = lucid.compile(lambda x: x + lucid.ones(4), dynamic="x")
    assert compiled(lucid.ones(4)).tolist() == [2.0] * 4
    assert "with other rows it raises" in compiled.explain()
    with pytest.raises((RuntimeError, ValueError), match="shape"):
        compiled(lucid.ones(5))


def test_the_numbers_of_rows_show_what_they_are_meant_to():
    assert all(sizes.PRIME % d for d in range(2, math.isqrt(sizes.PRIME) + 1))
    assert all(sizes.COMPOSITE % d == 0 for d in (*range(2, 11), 12, 14, 15, 16, 32))


def test_sizes_are_numbers_for_everybody_else():
    size = sizes.Size(sizes.PRIME)
    assert sum([size]) == sizes.PRIME and list(range(3))[: size - size] == []
    assert type(size + 1) is sizes.Size and type(-(size * 2)) is sizes.Size
    with pytest.raises(sizes.NotGeneralError):
        assert size == 3
    with pytest.raises(sizes.NotGeneralError):
        assert {3: 1}[size]


def test_globals_that_only_share_their_name_with_an_attribute_are_not_looked_at():
    module = sys.modules[__name__]

    class Holder:
        unrelated = 2.0

        def times(self, x):
            return x * self.unrelated

    holder = Holder()
    compiled = lucid.compile(lambda x: holder.times(x))
    try:
        for value in (1, 2, 3):
            module.unrelated = value
            assert compiled(lucid.ones(1)).item() == 2
    finally:
        del module.unrelated
    assert len(compiled._history) == 1
