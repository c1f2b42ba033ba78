"""lucid.compile: what functions assign outside, and what they read there that can change."""

import collections
import dataclasses

import numpy as np
import pytest

import lucid
from lucid import nn, optim

TOTAL = lucid.zeros(2)
COUNT = 0


@dataclasses.dataclass(slots=True)
class Slotted:
    value: object


def closure():
    total, count = lucid.zeros(2), 0

    def f(x):
        nonlocal total, count
        count += 1
        total = total * 0.5 + x
        return total * count

    return f, lambda: (total, count)


def closure_of_an_inner_function():
    total = lucid.zeros(2)

    def add(x):
        nonlocal total
        total = total + x

    def f(x):
        add(x)
        return total * 2

    return f, lambda: total


def global_variables():
    global TOTAL, COUNT
    TOTAL, COUNT = lucid.zeros(2), 0

    def f(x):
        global TOTAL, COUNT
        TOTAL = TOTAL + x
        COUNT += 1
        return TOTAL * COUNT

    return f, lambda: (TOTAL, COUNT)


def class_attributes():
    class Counter:
        total = lucid.zeros(2)
        count = 0

        @classmethod
        def add(cls, x):
            cls.total = cls.total + x
            cls.count += 1

    def f(x):
        Counter.add(x)
        Counter.last = x * 2
        return Counter.total * Counter.count

    return f, lambda: (Counter.total, Counter.count, Counter.last)


def slots():
    held = Slotted(lucid.zeros(2))

    def f(x):
        held.value = held.value + x
        return held.value * 2

    return f, lambda: held.value


def function_attributes():
    def f(x):
        f.count = getattr(f, "count", 0) + 1
        f.last = x * f.count
        return f.last + 1

    return f, lambda: (f.count, f.last)


def new_attributes():
    held = nn.Module()

    def f(x):
        held.count = getattr(held, "count", 0) + 1
        return x * held.count

    return f, lambda: held.count


def deques():
    last, few = collections.deque(maxlen=2), collections.deque([lucid.zeros(2)], maxlen=3)

    def f(x):
        last.append(x * 2)
        few.append(few[-1] + x)
        return few[0] * 1

    return f, lambda: (list(last), list(few))


def sets():
    seen = {0}

    def f(x):
        seen.add(len(seen))
        return x * len(seen)

    return f, lambda: sorted(seen)


def arrays():
    counts = np.zeros(2)

    def f(x):
        counts[0] += 1
        return x * float(counts[0])

    return f, lambda: counts.copy()


def removed():
    held = {}

    def f(x):
        global EXTRA
        EXTRA = x
        y = EXTRA * 2
        del EXTRA
        held["y"] = y
        return y

    return f, lambda: (held, "EXTRA" in globals())


CASES = [
    closure, closure_of_an_inner_function, global_variables, class_attributes, slots, function_attributes, new_attributes,
    deques, sets, arrays, removed,
]  # fmt: skip


def plain(value):
    """Values without tensors, to be compared."""
    if isinstance(value, lucid.Tensor | np.ndarray):
        assert type(value) in (lucid.Tensor, np.ndarray)
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_assignments_are_those_of_the_function_itself(make):
    found = []
    for wrap in (lambda f: f, lucid.compile):
        function, state = make()
        call = wrap(function)
        found.append([(plain(call(lucid.tensor([1.0, 2.0]) * k)), plain(state())) for k in range(1, 5)])
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [m for m in CASES if m is not arrays], ids=lambda make: make.__name__)
def test_nothing_is_assigned_if_a_run_raises(make):
    function, state = make()
    table = lucid.tensor([1.0, 2.0])
    call = lucid.compile(lambda x, i: function(x) + table[i])
    call(lucid.tensor([1.0, 2.0]), lucid.tensor([0]))
    before = plain(state())
    for _ in range(2):
        with pytest.raises(IndexError):
            call(lucid.tensor([1.0, 2.0]), lucid.tensor([7]))
        assert plain(state()) == before


def test_a_closure_is_as_it_was_if_the_trace_raises():
    total = lucid.zeros(2)

    @lucid.compile
    def f(x):
        nonlocal total
        total = total + x
        return 1 if total.sum() > 0 else 2

    with pytest.raises(Exception, match="concrete value"):
        f(lucid.ones(2))
    assert type(total) is lucid.Tensor
    assert total.tolist() == [0.0, 0.0]


def test_elements_of_arrays_and_entries_of_sets_and_long_lists_are_noticed():
    array, chosen, long = np.ones(2, np.float32), {"a"}, list(range(200))
    module = nn.Module()
    module.table, module.names = np.ones(2, np.float32), {"a"}

    @lucid.compile
    def f(x):
        y = x * array + module.table
        y = y * 2 if "b" in chosen else y
        y = y * 3 if "b" in module.names else y
        return y + long[150]

    def expected():
        y = array + module.table
        y = y * 2 if "b" in chosen else y
        y = y * 3 if "b" in module.names else y
        return (y + long[150]).tolist()

    x = lucid.ones(2)
    for _ in range(3):  # so that attributes of modules are known to be what they were
        assert f(x).tolist() == expected()
    changes = [
        lambda: array.fill(5), lambda: module.table.fill(7), lambda: chosen.add("b"), lambda: module.names.add("b"),
        lambda: long.__setitem__(150, 9),
    ]  # fmt: skip
    for change in changes:
        change()
        assert f(x).tolist() == expected()
        assert f(x).tolist() == expected()
    assert "has other elements" in f.explain()
    assert "has other entries" in f.explain()


def trained(wrap, make, steps=4):
    lucid.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    optimizer = make(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    call = wrap(step)
    x = lucid.randn(5, 3)
    losses = [call(x).item() for _ in range(steps)]
    state = [{k: v.tolist() for k, v in optimizer.state[p].items()} for p in model.parameters()]
    return losses, [p.tolist() for p in model.parameters()], state, call


FIRST_STEPS = {
    "Adam": (lambda p: optim.Adam(p, lr=0.1, amsgrad=True), 1),
    "AdamW": (lambda p: optim.AdamW(p, lr=0.1), 1),
    "momentum": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), 1),
    "dampening": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), 2),  # not in the first step
    "Adagrad": (lambda p: optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1), 1),
    "RMSprop": (lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True), 1),
}


@pytest.mark.parametrize("name", FIRST_STEPS)
def test_one_program_serves_all_steps_of_training(name):
    make, programs = FIRST_STEPS[name]
    plain_run, compiled = trained(lambda f: f, make), trained(lucid.compile, make)
    for a, b in zip(plain_run[:3], compiled[:3], strict=True):
        np.testing.assert_allclose(_numbers(a), _numbers(b), rtol=1e-5, atol=1e-6)
    assert len(compiled[3]._history) == programs


def _numbers(nest):
    if isinstance(nest, dict):
        nest = list(nest.values())
    return np.concatenate([_numbers(n) for n in nest]) if isinstance(nest, list) else np.array([nest])


def test_the_state_of_an_optimizer_is_not_left_behind_by_a_first_step_that_raises():
    weight = nn.Parameter(lucid.ones(3))
    unused = nn.Parameter(lucid.ones(3))
    optimizer = optim.Adam([weight, unused], lr=0.1)

    @lucid.compile
    def step(x, i):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        return weight[i]

    with pytest.raises(IndexError):
        step(lucid.ones(3), lucid.tensor([5]))
    assert not optimizer.state
    assert weight.tolist() == [1.0, 1.0, 1.0]
    step(lucid.ones(3), lucid.tensor([2]))
    assert list(optimizer.state) == [weight]
    assert optimizer.state[weight]["step"].item() == 1.0


def test_looking_at_a_program_makes_no_state():
    weight = nn.Parameter(lucid.ones(3))
    optimizer = optim.Adam([weight], lr=0.1)

    @lucid.compile
    def step(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    step.program(lucid.ones(3))
    assert not optimizer.state


def test_a_formula_is_traced_once_for_parameters_of_one_type():
    counted = []

    class Counting(optim.Adam):
        def _update(self, *args):
            counted.append(args)
            super()._update(*args)

    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
    optimizer = Counting([*model.parameters(), nn.Parameter(lucid.ones(2, dtype=lucid.float64))], lr=0.1)

    @lucid.compile
    def step(x):
        optimizer.zero_grad()
        (model(x).sum() + (optimizer.param_groups[0]["params"][-1] ** 2).sum()).backward()
        optimizer.step()

    step(lucid.ones(2, 3))
    assert len(counted) == 2  # one for each type
