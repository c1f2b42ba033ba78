"""Results that are computed in memory which exists: forms in place and `out=`, where nothing is recorded."""

import threading

import numpy as np
import pytest

import lucid
from lucid import func
from lucid.api.names import having
from lucid.arguments.out import the_one
from lucid.nn.functional import activations

ARGUMENTS = {
    "addcdiv": [("y", "z"), ("y", "z", {"value": 0.3})],
    "addcmul": [("y", "z"), ("y", "z", {"value": 0.3})],
    "add": [("y",), (2,), ("y", {"alpha": 3}), ("row",)],
    "sub": [("y",), (0.5,), ("y", {"alpha": -2}), ("column",)],
    "clamp": [(0.3, 0.6), ("y", "z"), ({"min": 0.4},), ({"min": 0.4, "max": "x"},)],
    "clamp_min": [(0.5,), ("y",)],
    "clamp_max": [(0.5,), ("y",)],
    "div": [("y",), (3,), ("y", {"rounding_mode": "floor"}), ("y", {"rounding_mode": "trunc"})],
    "lerp": [("y", 0.25), ("y", "z"), ("x", "y")],
    "pow": [(2,), (3,), (0.5,), (1.7,), ("y",)],
    "round": [(), ({"decimals": 1},)],
    "nan_to_num": [()],
    "logit": [(), (0.4,)],
    "softplus": [()],
    "tril": [(), (1,), (-2,)],
    "triu": [(), (1,), (-2,)],
}  # fmt: skip
FUNCTIONS = {
    row.function().__name__: row.function() for row in having("inplace") if the_one(row.function()) is not None
}


def arguments(name, function):
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    return [()] if len(function.primitive.operands) == 1 else [("y",), ("x",), ("row",), (2,)]


CASES = [(name, args) for name, function in FUNCTIONS.items() for args in arguments(name, function)]


def tensors(dtype, name):
    rng = np.random.default_rng(3)

    def made(*shape):
        values = 0.2 + 0.6 * rng.random(shape)
        return lucid.tensor(values if dtype.is_floating_point else 5 * values).to(dtype)

    return {"x": made(4, 5), "y": made(4, 5), "z": made(4, 5), "row": made(5), "column": made(4, 1)}


def given(args, known):
    kwargs = args[-1] if args and isinstance(args[-1], dict) else {}
    values = [known.get(a, a) if isinstance(a, str) else a for a in args if not isinstance(a, dict)]
    return values, {k: known.get(v, v) if isinstance(v, str) else v for k, v in kwargs.items()}


def outcome(run):
    try:
        return run()
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("dtype", [lucid.float64, lucid.float32, lucid.bfloat16, lucid.int64, lucid.bool], ids=str)
@pytest.mark.parametrize(("name", "args"), CASES, ids=[f"{n}{a}" for n, a in CASES])
def test_forms_in_place_give_what_functions_give(name, args, dtype):
    function = FUNCTIONS[name]

    def want():
        known = tensors(dtype, name)
        values, kwargs = given(args, known)
        result = function(known["x"], *values, **kwargs)
        if not lucid.can_cast(result.dtype, dtype):
            raise RuntimeError
        return result.to(dtype)

    def got(transposed=False):
        known = tensors(dtype, name)
        if transposed:
            known["x"] = known["x"].t().contiguous().t()
        before, memory = known["x"].clone(), known["x"].data_ptr()
        values, kwargs = given(args, known)
        try:
            result = getattr(known["x"], f"{name}_")(*values, **kwargs)
        except Exception:
            assert known["x"].tolist() == before.tolist()
            raise
        assert result is known["x"] and result.data_ptr() == memory
        return result

    expected = outcome(want)
    for found in (outcome(got), outcome(lambda: got(True))):
        if isinstance(expected, type):
            assert isinstance(found, type)
        else:
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize(("name", "args"), CASES, ids=[f"{n}{a}" for n, a in CASES])
def test_functions_that_say_so_apply_one_primitive_to_all_tensors(name, args):
    if not all(isinstance(a, str) for a in args) or name == "clamp":  # numbers choose other primitives
        return
    known = tensors(lucid.float64, name)
    values, kwargs = given(args, known)
    try:
        graph = func.make_graph(lambda x: FUNCTIONS[name](x, *values, **kwargs))(known["x"])
    except (TypeError, RuntimeError):
        return  # no function of these numbers
    assert len(graph.instructions) == 1


@pytest.mark.parametrize("n", [1, 3, 7, 8, 15, 16, 17, 31, 33, 100, 259])
@pytest.mark.parametrize("dtype", [lucid.float64, lucid.float32, lucid.float16, lucid.int32, lucid.int8], ids=str)
def test_elements_are_read_before_they_are_written(n, dtype):
    for shape in ((n,), (3, n), (n, 3)):
        x = (lucid.arange(int(np.prod(shape))) % 7 + 1).reshape(shape).to(dtype)
        for target in (x.clone(), x.t().clone().t(), lucid.cat([x, x], -1)[..., : shape[-1]]):
            target.mul_(2).add_(target).sub_(1)
            assert target.tolist() == (x * 4 - 1).tolist()


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_operands_that_show_a_part_of_the_target_are_read_before_they_are_written(offset):
    x = lucid.arange(12.0)
    want = x.numpy().copy()
    want[offset : offset + 6] += want[3:9].copy()
    x[offset : offset + 6].add_(x[3:9])
    assert x.tolist() == want.tolist()
    square = lucid.arange(9.0).reshape(3, 3)
    want = square.numpy() + square.numpy().T
    square.add_(square.t())
    assert square.tolist() == want.tolist()
    column = lucid.arange(9.0).reshape(3, 3)
    want = column.numpy() * column.numpy()[:, :1].copy()
    column.mul_(column[:, :1])
    assert column.tolist() == want.tolist()
    first = lucid.arange(1.0, 5.0)
    first.mul_(first[1])
    assert first.tolist() == [2.0, 4.0, 6.0, 8.0]


def test_results_of_another_shape_or_type_are_refused_and_nothing_is_written():
    x = lucid.ones(3)
    for bad in (lucid.ones(2, 3), lucid.ones(4), lucid.ones(3, dtype=lucid.complex64)):
        with pytest.raises((RuntimeError, ValueError)):
            x.add_(bad)
        assert x.tolist() == [1, 1, 1]
    counts = lucid.ones(3, dtype=lucid.int64)
    with pytest.raises(RuntimeError):
        counts.div_(2)
    with pytest.raises(RuntimeError):
        counts.add_(0.5)
    assert counts.tolist() == [1, 1, 1]


def test_missing_operands_are_refused_and_nothing_is_read_behind_those_that_are_given():
    x, y = lucid.ones(3), lucid.ones(3)
    x.add_(y).add_(y, alpha=2).addcmul_(y, y, value=2.0).lerp_(y, y)  # which makes the loops
    before = x.tolist()
    for call in (
        lambda: x.add_(),
        lambda: x.add_(alpha=2),
        lambda: x.mul_(y, y),
        lambda: x.exp_(y),
        lambda: x.lerp_(y),
        lambda: x.addcmul_(y, value=2.0),
        lambda: lucid.add(y, out=x),
        lambda: lucid.add(out=x),
    ):
        with pytest.raises(TypeError, match="argument"):
            call()
        assert x.tolist() == before


def test_what_takes_two_steps_writes_nothing_if_the_second_is_refused():
    for x, high in ((lucid.tensor([-3, 0, 5]), 2.5), (lucid.tensor([-3.0, 0.0, 5.0]), "a")):
        low, version, before = lucid.zeros_like(x), x._version, x.tolist()
        out = lucid.full_like(x, 7)
        with pytest.raises((RuntimeError, TypeError)):
            x.clamp_(low, high)
        with pytest.raises((RuntimeError, TypeError)):
            lucid.clamp(x, low, high, out=out)
        assert (x.tolist(), x._version, out.tolist()) == (before, version, [7, 7, 7])


def test_versions_and_what_was_saved():
    x = lucid.ones(3, requires_grad=True)
    y = x * 2
    saved = y.exp()
    version = saved._version
    with lucid.no_grad():
        saved.mul_(2)
    assert saved._version == version + 1
    with pytest.raises(RuntimeError, match="overwritten"):
        saved.sum().backward()


def test_recorded_writes_are_recorded():
    x = lucid.tensor([0.5, 1.0], requires_grad=True)
    y = x * 1
    y.mul_(x).add_(x, alpha=2).lerp_(x, 0.5)
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), 0.5 * (2 * x.detach().numpy() + 2) + 0.5)


def test_read_only_memory():
    fixed = lucid.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="cannot be written"):
        fixed.exp_()


def test_transforms_write_what_they_follow():
    assert func.vmap(lambda x: x.clone().mul_(x).add_(1))(lucid.arange(3.0)).tolist() == [1, 2, 5]
    primal, tangent = func.jvp(lambda x: x.clone().mul_(x), (lucid.tensor(3.0),), (lucid.tensor(1.0),))
    assert (primal.item(), tangent.item()) == (9, 6)


@pytest.mark.parametrize("n", [5, 1000])
def test_out(n):
    x, y = lucid.rand(n, n), lucid.rand(n, n)
    for function, args in ((lucid.add, (x, y)), (lucid.exp, (x,)), (lucid.clamp, (x, 0.2, 0.4)), (lucid.pow, (x, 2))):
        out = lucid.zeros(n, n)
        memory = out.data_ptr()
        assert function(*args, out=out) is out and out.data_ptr() == memory
        np.testing.assert_array_equal(out.numpy(), function(*args).numpy())
    want = (x + y).numpy()
    assert np.array_equal(lucid.add(x, y, out=y).numpy(), want)
    wide = lucid.zeros(n, n, dtype=lucid.float64)
    assert np.array_equal(lucid.add(x, 1, out=wide).numpy(), (x + 1).numpy())


def test_threads_write_into_their_own():
    found = {}

    def run(k):
        x = lucid.full((64,), float(k))
        for _ in range(300):
            x.add_(1).mul_(1).sub_(1)
        found[k] = x.tolist() == [k] * 64

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)


def test_activations_in_place():
    for name in ("relu", "leaky_relu", "elu", "silu", "hardtanh", "mish", "hardswish", "selu", "celu", "relu6"):
        function = getattr(activations, name)
        x = lucid.linspace(-3, 3, 50)
        want = function(x)
        assert function(x, inplace=True) is x
        np.testing.assert_array_equal(x.numpy(), want.numpy())
