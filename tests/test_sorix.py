"""Sorix's front door: its document, its README, and where it differs from Lucid."""

import doctest
import importlib
import inspect
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucid
import sorix
from sorix import nn, optim

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = ["sorix", "sorix.autograd", "sorix.cuda", "sorix.files", "sorix.functions", "sorix.optim"]


def leaf(*values: float) -> sorix.Tensor:
    return sorix.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    if name in ("sorix", "sorix.files"):
        pytest.importorskip("safetensors")
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert result.failed == 0 and result.attempted > 0


def test_signature_of_grad_is_the_documents() -> None:
    found = {n: p.default for n, p in inspect.signature(sorix.autograd.grad).parameters.items()}
    empty = inspect.Parameter.empty
    assert list(found.items()) == [
        ("outputs", empty),
        ("inputs", empty),
        ("grad_outputs", None),
        ("retain_graph", True),
        ("create_graph", False),
        ("allow_unused", False),
    ]
    assert sorix.grad is sorix.autograd.grad


@pytest.mark.parametrize("form", [lambda x: x, lambda x: [x], lambda x: (x,)])
def test_grad_is_always_a_tuple(form: Any) -> None:
    x = leaf(2.0, 3.0)
    found = sorix.grad(form((x * x).sum()), form(x))
    assert type(found) is tuple and len(found) == 1
    assert isinstance(found[0], sorix.Tensor) and not found[0].requires_grad
    assert found[0].tolist() == [4.0, 6.0]


def test_grad_sums_over_outputs() -> None:
    a, b = leaf(2.0), leaf(5.0)
    da, db = sorix.grad([a * b, a + b], [a, b])
    assert (da.item(), db.item()) == (6.0, 3.0)


def test_grad_leaves_stored_gradients_alone() -> None:
    x = leaf(2.0)
    y = x * x
    sorix.grad(y, x)
    assert x.grad is None
    y.backward(retain_graph=True)
    before = x.grad
    assert sorix.grad(y, x)[0].item() == 4.0
    assert x.grad is before and before.item() == 4.0


def test_grad_keeps_the_graph_unless_told() -> None:
    x = leaf(2.0)
    y = x * x
    for _ in range(3):
        assert sorix.grad(y, x)[0].item() == 4.0
    sorix.grad(y, x, retain_graph=False)
    with pytest.raises(RuntimeError):
        sorix.grad(y, x)


@pytest.mark.parametrize("recording", [True, False])
def test_grad_of_higher_order(recording: bool) -> None:
    x = leaf(2.0)
    y = x**3
    with lucid.set_grad_enabled(recording):
        (first,) = sorix.grad(y, x, create_graph=True)
        (second,) = sorix.grad(first, x, create_graph=True)
        (third,) = sorix.grad(second, x)
    assert [t.item() for t in (first, second, third)] == [12.0, 12.0, 6.0]
    assert first.requires_grad and not third.requires_grad


def test_backward_of_a_gradient() -> None:
    x = leaf(3.0)
    sorix.grad(x * x, x, create_graph=True)[0].backward()
    assert x.grad.item() == 2.0


@pytest.mark.parametrize(
    "seed",
    [
        sorix.tensor([1.0, 10.0]),
        np.array([1.0, 10.0]),
        [sorix.tensor([1.0, 10.0])],
        (np.array([1.0, 10.0]),),
        [[1, 10]],
    ],
)
def test_grad_takes_seeds(seed: Any) -> None:
    x = leaf(1.0, 2.0)
    assert sorix.grad(x * x, x, grad_outputs=seed)[0].tolist() == [2.0, 40.0]


def test_grad_seeds_may_be_missing_for_one_element() -> None:
    x = leaf(1.0, 2.0)
    (found,) = sorix.grad([x * x, (3 * x).sum()], x, [sorix.tensor([1.0, 1.0]), None])
    assert found.tolist() == [5.0, 7.0]
    assert sorix.grad((x * x).sum().reshape(1, 1), x)[0].tolist() == [2.0, 4.0]


def test_grad_needs_a_seed_for_several_elements() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        sorix.grad(x * x, x)
    assert lucid.autograd.grad(x * x, x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("seeds", [[], [1.0, 2.0], [None, None]])
def test_grad_needs_as_many_seeds_as_outputs(seeds: list[Any]) -> None:
    x = leaf(1.0)
    with pytest.raises(ValueError, match="grad_outputs must be the same length as outputs"):
        sorix.grad(x * x, x, seeds)


def test_grad_refuses_a_seed_of_another_shape() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="shape"):
        sorix.grad(x * x, x, sorix.tensor([1.0, 2.0, 3.0]))


def test_grad_inputs_must_require_grad() -> None:
    x, constant = leaf(1.0), sorix.tensor([1.0])
    with pytest.raises(RuntimeError, match=r"inputs\[1\] does not require grad"):
        sorix.grad(x * constant, [x, constant])


@pytest.mark.parametrize(("outputs", "inputs"), [([1.0], leaf(1.0)), (leaf(1.0), [2.0])])
def test_grad_refuses_what_is_no_tensor(outputs: Any, inputs: Any) -> None:
    with pytest.raises(TypeError, match="must be a tensor, not float"):
        sorix.grad(outputs, inputs)


def test_grad_of_an_unused_input() -> None:
    x, other = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match=r"inputs\[1\] was not used .* allow_unused=True"):
        sorix.grad(x * x, [x, other])
    dx, nothing = sorix.grad(x * x, [x, other], allow_unused=True)
    assert dx.item() == 2.0 and nothing is None


def test_grad_of_an_output_that_depends_on_nothing() -> None:
    x, constant = leaf(1.0), sorix.tensor([4.0])
    assert sorix.grad([x * x, constant], x)[0].item() == 2.0
    with pytest.raises(RuntimeError, match="was not used"):
        sorix.grad(constant, x)
    assert sorix.grad(constant, x, allow_unused=True) == (None,)
    (slope,) = sorix.grad(3 * x, x, create_graph=True)
    assert sorix.grad(slope, x, allow_unused=True) == (None,)


def trained() -> tuple[nn.Module, sorix.Tensor]:
    sorix.manual_seed(0)
    points = np.linspace(-1, 1, 100).reshape(-1, 1)
    x, y = sorix.tensor(points), sorix.tensor(3 * points**2 + 2)
    model = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
    criterion, optimizer = nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(500):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 < losses[0]
    return model, x


def test_readme(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    model, x = trained()
    sorix.save(model.state_dict(), str(tmp_path / "state.pkl"))
    again = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
    again.load_state_dict(sorix.load(str(tmp_path / "state.pkl")))
    assert np.array_equal(again(x), model(x))


def test_whole_modules_are_refused(tmp_path: Path) -> None:
    """They could only be stored by pickling, and a pickle runs code when it is read."""
    with pytest.raises(TypeError, match="state_dict"):
        sorix.save(nn.Linear(2, 3), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_save_to_open_files() -> None:
    pytest.importorskip("safetensors")
    layer, file = nn.Linear(2, 3), io.BytesIO()
    sorix.save(layer.state_dict(), file)
    file.seek(0)
    state = sorix.load(file)
    assert {k: v.tolist() for k, v in state.items()} == {k: v.tolist() for k, v in layer.state_dict().items()}


def test_loading_what_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    with pytest.raises(FileNotFoundError):
        sorix.load(tmp_path / "nothing")


def test_tensor_is_lucids() -> None:
    x = sorix.tensor([1.0, 2.0], "cpu", True, sorix.float64)
    assert sorix.Tensor is lucid.Tensor and isinstance(x, sorix.Tensor)
    assert x.requires_grad and x.dtype is sorix.float64


def test_unknown_device_is_refused() -> None:
    with pytest.raises(ValueError, match="device"):
        sorix.tensor([1.0], device="toaster")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: sorix.zeros(2, 3), np.zeros((2, 3))),
        (lambda: sorix.ones((2, 3)), np.ones((2, 3))),
        (lambda: sorix.full((2, 2), 7.5), np.full((2, 2), 7.5)),
        (lambda: sorix.eye(3), np.eye(3)),
        (lambda: sorix.diag([1, 2]), np.diag([1, 2])),
        (lambda: sorix.arange(0, 10, 2), np.arange(0, 10, 2)),
        (lambda: sorix.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (lambda: sorix.logspace(0, 2, 3), np.logspace(0, 2, 3)),
        (lambda: sorix.zeros_like(np.ones(2)), np.zeros(2)),
        (lambda: sorix.ones_like(sorix.zeros(2)), np.ones(2)),
        (lambda: sorix.full_like(sorix.zeros(2), 5), np.full(2, 5)),
        (lambda: sorix.repeat(sorix.tensor([[1, 2]]), 2, 2), np.tile([[1, 2]], (2, 2))),
    ],
)
def test_factories(made: Any, expected: Any) -> None:
    assert isinstance(made(), sorix.Tensor)
    assert np.allclose(made(), expected) and made().shape == expected.shape


def test_random_numbers_follow_the_seed() -> None:
    def drawn() -> list[Any]:
        sorix.manual_seed(3)
        tensors = [sorix.rand(4), sorix.randn(2, 2), sorix.randint(0, 10, (5,)), sorix.randperm(6)]
        return [t.tolist() for t in tensors]

    first = drawn()
    assert first == drawn()
    assert all(0 <= v < 10 for v in first[2]) and sorted(first[3]) == list(range(6))


def test_from_numpy_takes_tensors_too() -> None:
    x = sorix.zeros(2)
    assert sorix.from_numpy(x) is x and sorix.as_tensor(x) is x


SAMPLE = np.array([[0.5, 1.5], [2.0, 0.25]])
ONE = "abs ceil cos exp floor log mean round sign sin sqrt sum tanh".split()
TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "matmul": np.matmul, "pow": np.power}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_operand(name: str) -> None:
    expected = getattr(np, name)(SAMPLE)
    found, array = getattr(sorix, name)(sorix.tensor(SAMPLE)), getattr(sorix, name)(SAMPLE)
    assert isinstance(found, sorix.Tensor) and np.allclose(found, expected)
    assert isinstance(array, np.ndarray | float) and np.allclose(array, expected)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands(name: str) -> None:
    function, expected = getattr(sorix, name), TWO[name](SAMPLE, SAMPLE)
    assert isinstance(function(SAMPLE, SAMPLE), np.ndarray)
    assert np.allclose(function(SAMPLE, SAMPLE), expected)
    for left, right in [(SAMPLE, sorix.tensor(SAMPLE)), (sorix.tensor(SAMPLE), SAMPLE)]:
        assert isinstance(function(left, right), sorix.Tensor)
        assert np.allclose(function(left, right), expected)


def test_every_function_on_arrays_is_tested() -> None:
    assert {*ONE, *TWO, "sigmoid"} == set(sorix._functions.ALSO_ON_ARRAYS)


def test_numbers_stay_numbers() -> None:
    assert sorix.sigmoid(0.0) == 0.5 and type(sorix.sigmoid(0.0)) is float
    assert sorix.exp(1.0) == pytest.approx(np.exp(1.0), rel=4e-16) and type(sorix.exp(1.0)) is float


def test_names_of_numpy_for_dimensions() -> None:
    x = sorix.tensor(SAMPLE)
    assert np.allclose(sorix.mean(x, axis=1, keepdims=True), SAMPLE.mean(1, keepdims=True))
    assert np.allclose(sorix.sum(x, axis=0), SAMPLE.sum(0))


def test_softmax() -> None:
    expected = np.exp(SAMPLE) / np.exp(SAMPLE).sum(-1, keepdims=True)
    x = sorix.tensor(SAMPLE, requires_grad=True)
    assert np.allclose(sorix.softmax(x), expected) and sorix.softmax(x).requires_grad
    assert np.allclose(sorix.softmax(x.T, axis=0).T, expected)
    assert np.allclose(sorix.softmax(x, dim=1), expected)
    assert isinstance(sorix.softmax(SAMPLE), np.ndarray)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name: str) -> None:
    function, expected = getattr(sorix, name), getattr(np, name)
    assert np.array_equal(function(sorix.tensor(SAMPLE)), expected(SAMPLE, 1, keepdims=True))
    assert np.array_equal(function(SAMPLE, axis=0, keepdims=False), expected(SAMPLE, 0))
    assert np.array_equal(function(sorix.tensor(SAMPLE), dim=0, keepdim=False), expected(SAMPLE, 0))
    with pytest.raises(TypeError, match="unexpected"):
        function(SAMPLE, along=1)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: optim.SGD(p, lr=0.1), [9.8, 9.6]),
        (lambda p: optim.SGDMomentum(p, lr=0.1, momentum=0.9), [9.8, 9.42]),
        (lambda p: optim.RMSprop(p, 0.1, 0.9), [10 - 0.2 / 0.4**0.5, 10 - 0.2 / 0.4**0.5 - 0.2 / 0.76**0.5]),
        (lambda p: optim.RMSprop(p, 0.1, alpha=0.9), [10 - 0.2 / 0.4**0.5, 10 - 0.2 / 0.4**0.5 - 0.2 / 0.76**0.5]),
        (lambda p: optim.Adam(p, lr=0.1, beta1=0.8, beta2=0.99), [9.9, 9.8]),
        (lambda p: optim.Adam(p, lr=0.1, betas=(0.8, 0.99)), [9.9, 9.8]),
    ],
)
def test_optimizers(make: Any, expected: list[float]) -> None:
    p = sorix.tensor([10.0], requires_grad=True, dtype=sorix.float64)
    optimizer = make([p])
    for value in expected:
        p.grad = sorix.tensor([2.0], dtype=sorix.float64)
        optimizer.step()
        assert np.allclose(p, value)


def test_optimizer_arguments_arrive() -> None:
    group = optim.Adam([leaf(1.0)], 0.1, 0.8, 0.99, 1e-4, weight_decay=0.5).param_groups[0]
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.99), 1e-4, 0.5)
    assert optim.RMSprop([leaf(1.0)]).param_groups[0]["alpha"] == 0.9


def test_data_loader() -> None:
    from sorix.utils.data import DataLoader, TensorDataset

    pairs = TensorDataset(sorix.arange(6), sorix.arange(6) * 10)
    batches = list(DataLoader(pairs, batch_size=4))
    assert [b[0].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5]]
    assert batches[1][1].tolist() == [40, 50]


def test_cuda_is_available_only_where_tensors_can_live(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        lucid.zeros(1, device="cuda")
        expected = True
    except (ImportError, RuntimeError, ValueError):
        expected = False
    assert sorix.cuda.is_available() is expected
    assert capsys.readouterr().out == ""
    sorix.cuda.is_available(verbose=True)
    assert ("not available" in capsys.readouterr().out) is not expected


def test_no_grad() -> None:
    x = leaf(1.0)
    with sorix.no_grad():
        assert not (x * x).requires_grad and not sorix.is_grad_enabled()
    assert (x * x).requires_grad


def test_all_of_lucid_is_there() -> None:
    adapted = {
        "argmax",
        "argmin",
        "autograd",
        "from_numpy",
        "load",
        "nn",
        "optim",
        "repeat",
        "save",
        "softmax",
        "tensor",
        "utils",
    }
    differing = {n for n in lucid.__all__ if getattr(sorix, n) is not getattr(lucid, n)}
    assert differing == adapted | set(sorix._functions.ALSO_ON_ARRAYS)
    assert set(sorix.__all__) == set(dir(sorix))
    for name in sorix.__all__:
        assert hasattr(sorix, name)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'sorix' has no attribute 'nonsense'"):
        _ = sorix.nonsense


def test_paths_lead_to_one_engine() -> None:
    code = (
        "import sorix.nn.functional as F, sorix.nn.init, sorix.optim.lr_scheduler as s, sorix.utils.data, lucid\n"
        "from sorix import *\n"
        "import lucid.nn.functional as G\n"
        "assert F.relu is G.relu and s.StepLR is lucid.optim.lr_scheduler.StepLR\n"
        "assert zeros(2).shape == (2,) and nn.ReLU is lucid.nn.ReLU and issubclass(nn.Linear, lucid.nn.Linear)\n"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
