"""Sorix's front door: its document, and all that the list of its interface says."""

import doctest
import importlib
import inspect
import io
import pickle
import pkgutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucid
import sorix
from sorix import nn, optim
from sorix.model_selection import train_test_split
from sorix.optim import lr_scheduler
from sorix.utils.data import DataLoader, Dataset, WalkForwardSplit

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = ["sorix", *(m.name for m in pkgutil.walk_packages(sorix.__path__, "sorix."))]


def leaf(*values: float) -> sorix.Tensor:
    return sorix.tensor(list(values), requires_grad=True)


def numeric(f: Any, array: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient of a function of an array by central differences, in double precision."""
    out = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        up, down = array.copy(), array.copy()
        up[place] += step
        down[place] -= step
        out[place] = (f(up) - f(down)) / (2 * step)
    return out


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    importlib.import_module(name)
    assert doctest.testmod(sys.modules[name], optionflags=OPTIONS).failed == 0


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
    assert found[0].data.tolist() == [4.0, 6.0]


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
    assert sorix.grad(x * x, x, grad_outputs=seed)[0].data.tolist() == [2.0, 40.0]


def test_grad_seeds_may_be_missing_for_one_element() -> None:
    x = leaf(1.0, 2.0)
    (found,) = sorix.grad([x * x, (3 * x).sum()], x, [sorix.tensor([1.0, 1.0]), None])
    assert found.data.tolist() == [5.0, 7.0]
    assert sorix.grad((x * x).sum().reshape(1, 1), x)[0].data.tolist() == [2.0, 4.0]


def test_grad_needs_a_seed_for_several_elements() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        sorix.grad(x * x, x)
    assert lucid.autograd.grad(x * x, x).data.tolist() == [2.0, 4.0]


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


# --- names, types, devices -----------------------------------------------------------------------

TOP = """Tensor tensor no_grad is_grad_enabled get_xp device grad absolute abs add arange argmax argmin as_tensor cat ceil
chunk clamp cos diag div empty empty_like exp eye flatten floor from_numpy full full_like gather linspace load log logspace
manual_seed matmul mean mul ones ones_like permute pow rand randint randn randperm repeat reshape round save sigmoid sign
sin softmax split sqrt squeeze stack sub sum t tanh transpose unbind unsqueeze where zeros zeros_like nn optim autograd
cuda float16 float32 float64 int16 int32 int64 uint8 bool_ half float double short int long byte bool __version__""".split()
PATHS = {
    "sorix.tensor": "Tensor tensor Device Size DType float32 int64 bool_ no_grad set_grad_enabled is_grad_enabled get_xp",
    "sorix.backend": "get_xp",
    "sorix.autograd": "grad",
    "sorix.utils.math": "add sub mul div matmul pow sin cos tanh exp log sqrt abs sign round floor ceil mean sum",
    "sorix.utils.utils": "zeros cat sigmoid softmax argmax argmin save load manual_seed get_xp _cupy_available",
    "sorix.utils.data": "Dataset DataLoader WalkForwardSplit",
    "sorix.nn": "Linear ReLU LeakyReLU Sigmoid Tanh BatchNorm1d Dropout Embedding Module Sequential ModuleList MSELoss "
    "BCEWithLogitsLoss CrossEntropyLoss init layers net loss",
    "sorix.nn.layers": "_cupy_available get_xp",
    "sorix.nn.net": "_add_indent",
    "sorix.nn.init": "_calculate_fan_in_and_fan_out _calculate_correct_fan _calculate_gain _cupy_available get_xp",
    "sorix.optim": "Optimizer SGD SGDMomentum RMSprop Adam ScipyBridge lr_scheduler optim",
    "sorix.cuda": "cuda is_available",
    "sorix.cupy.cupy": "_cupy_available",
    "sorix.model_selection": "train_test_split",
}


def test_names_are_there() -> None:
    assert [name for name in TOP if not hasattr(sorix, name)] == []
    for path, names in PATHS.items():
        module = importlib.import_module(path)
        assert [n for n in names.split() if not hasattr(module, n)] == [], path


def test_the_module_and_the_function_tensor() -> None:
    from sorix.tensor import Tensor, set_grad_enabled

    assert callable(sorix.tensor) and Tensor is sorix.Tensor
    set_grad_enabled(False)
    try:
        assert not sorix.is_grad_enabled()
    finally:
        set_grad_enabled(True)


def test_types() -> None:
    assert (sorix.float is sorix.float32, sorix.int is sorix.int32, sorix.long is sorix.int64) == (True,) * 3
    assert repr(sorix.bool_) == str(sorix.bool) == "sorix.bool"
    assert sorix.float32 == "float64" and sorix.float32 == "sorix.float32" and sorix.float32 != sorix.float64
    assert all(kind == stands for kind, stands in ((sorix.float32, float), (sorix.int32, int), (sorix.bool_, bool)))
    assert sorix.float64 == np.dtype("float64") and sorix.float32 != "int32"
    assert len({sorix.float32, sorix.tensor(1.0).dtype}) == 1
    for kind in (sorix.float64, "float64", "sorix.float64", np.dtype("float64"), float):
        assert sorix.tensor([1], dtype=kind).data.dtype == np.float64


def test_devices() -> None:
    x = sorix.zeros(1)
    assert x.device == "cpu" and x.device == sorix.device("cpu") and x.device != "cuda"
    assert (str(sorix.device("cuda")), repr(sorix.device("cpu"))) == ("cuda:0", "device(type='cpu')")
    assert sorix.device("cuda:1").index == 1 and sorix.device("cuda:1") != "cuda:0"
    for wrong in ("tpu", 3):
        with pytest.raises(ValueError, match="Invalid device"):
            sorix.device(wrong)
    with pytest.raises(Exception, match="Cupy is not available"):
        sorix.zeros(1, device="cuda")
    with pytest.raises(RuntimeError, match="CuPy is not installed"):
        x.gpu()
    with pytest.raises(ValueError, match="Invalid device type"):
        x.to("tpu")
    assert x.to("cpu") is x and x.cpu() is x


def test_cuda_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    from sorix.cuda import cuda, is_available

    assert not sorix.cuda.is_available(verbose=False) and capsys.readouterr().out == ""
    assert not cuda.is_available() and not is_available() and capsys.readouterr().out.count("not available") == 2


# --- tensors -------------------------------------------------------------------------------------


def test_what_tensors_are_made_of() -> None:
    array = np.array([1.0, 2.0])
    shared = sorix.tensor(array)
    array[0] = 9.0
    assert shared.data is array and shared.dtype == sorix.float64
    assert [sorix.tensor(v).dtype.name for v in (1.0, [1], True, np.float64(2), [[1.5]])] == [
        "float32", "int64", "bool", "float32", "float32"
    ]  # fmt: skip
    source = leaf(1.0)
    assert not sorix.tensor(source).requires_grad and sorix.tensor(source).data is not source.data
    assert isinstance(shared, lucid.Tensor)


def test_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert sorix.tensor(frame).shape == (2, 2) and sorix.tensor(frame["a"]).data.tolist() == [1.0, 2.0]
    parts = train_test_split(frame, frame["a"], test_size=0.5)
    assert len(parts) == 4 and list(parts[0]["a"]) == list(parts[2])


def test_attributes() -> None:
    x = sorix.zeros(2, 3)
    assert (x.numel, x.size_prop, x.ndim, x.size(1), x.dim()) == (6, 6, 2, 3, 2) and x.xp is np
    assert repr(x.shape) == "sorix.Size([2, 3])" and x.T.shape == (3, 2)
    x.data.fill(3.0)
    np.clip(x.data, 0, 1, out=x.data)
    assert x.data.sum() == 6
    x.data = np.ones(4)
    assert x.shape == (4,)
    x.requires_grad = True
    (x * 2).sum().backward()
    x.grad = np.full(4, 5.0)
    assert isinstance(x.grad, sorix.Tensor) and x.grad.data.tolist() == [5.0] * 4
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_every_tensor_on_the_way_keeps_its_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    z = y.sum()
    z.backward()
    assert (x.grad.data.tolist(), y.grad.data.tolist(), z.grad.item()) == ([2.0, 4.0], [1.0, 1.0], 1.0)


def test_operands_of_a_result() -> None:
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    z = y + x
    assert (z._op, z._prev, y._prev, x._prev) == ("add", {y, x}, {x, w}, set())
    z._backward()
    assert x.grad is None
    z.grad = np.array([1.0])
    z._backward()
    assert (x.grad.item(), y.grad.item(), w.grad) == (1.0, 1.0, None)
    y._backward()
    assert (x.grad.item(), w.grad.item()) == (4.0, 2.0)
    with sorix.no_grad():
        assert (x * w)._prev == set()
    u = x * w
    u.backward()
    assert u._prev == set()


@pytest.mark.parametrize(
    ("f", "value", "slope"),
    [
        (lambda x: (x * x).sum(), np.int64(14), [2, 4, 6]),
        (lambda x: (x**2).sum(), np.int64(14), [2, 4, 6]),
        (lambda x: x.reshape(1, 3) @ x.reshape(3, 1), np.int64(14), [2, 4, 6]),
        (lambda x: x[1:].sum(), np.int64(5), [0, 1, 1]),
        (lambda x: sorix.stack([x, x]).sum(), np.int64(12), [2, 2, 2]),
        (lambda x: (x / 2).sum(), np.float64(3), [0.5, 0.5, 0.5]),
        (lambda x: (x * np.array([0.5, 1.0, 2.0])).sum(), np.float64(8.5), [0.5, 1.0, 2.0]),
        (lambda x: x.mean(), np.float64(2), [1 / 3] * 3),
    ],
)
def test_integers_may_require_grad(f: Any, value: Any, slope: list[Any]) -> None:
    x = sorix.tensor([1, 2, 3], requires_grad=True)
    out = f(x)
    out.backward()
    assert (out.item(), out.data.dtype) == (value, value.dtype)
    assert np.allclose(x.grad.data, slope) and x.grad.data.dtype == value.dtype


def test_integers_of_lucid_are_not_recorded() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    assert not x.int().sum().requires_grad and not x.argmax().requires_grad


def test_reductions_and_shapes() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    x = sorix.tensor(array)
    assert np.array_equal(x.sum(1), array.sum(1)) and np.array_equal(
        x.mean((0, 2), keepdims=True), array.mean((0, 2), keepdims=True)
    )
    assert np.array_equal(x.sum(axis=0, dim=2), array.sum(2))
    assert np.array_equal(x.transpose(), array.T) and np.array_equal(x.transpose(1, 0, 2), array.transpose(1, 0, 2))
    assert np.array_equal(sorix.transpose(x, 0, 2), array.swapaxes(0, 2))
    two = sorix.tensor(array[0])
    assert np.array_equal(two.transpose(0, 1), array[0]) and np.array_equal(two.t(), array[0].T)
    with pytest.raises(RuntimeError, match="at most 2 dimensions"):
        x.t()
    assert x.flatten().shape == (24,) and sorix.flatten(x, 1).shape == (2, 12)
    assert x.expand_dims(-1).shape == (2, 3, 4, 1) and x.unsqueeze(0).squeeze(0).shape == (2, 3, 4)
    with pytest.raises(ValueError, match="squeeze"):
        x.squeeze(0)
    assert x.view(6, 4).shape == x.reshape([6, -1]).shape == (6, 4)
    assert np.array_equal(two.repeat(2, 1), np.tile(array[0], (2, 1)))
    assert isinstance(x.unbind(), tuple) and isinstance(x.split(2, 1), list) and isinstance(x.chunk(2), list)
    assert [p.shape for p in x.split([1, 2], 1)] == [(2, 1, 4), (2, 2, 4)]


def test_softmax_takes_axis_or_dim() -> None:
    array = np.random.default_rng(0).normal(size=(3, 4))
    expected = np.exp(array) / np.exp(array).sum(0)
    x = sorix.tensor(array)
    assert np.allclose(x.softmax(axis=1, dim=0), expected) and np.allclose(sorix.softmax(array, 0), expected)
    assert isinstance(sorix.softmax(array), np.ndarray)


def test_pow_takes_numbers_only() -> None:
    with pytest.raises(AssertionError, match="only supporting int/float powers"):
        leaf(1.0) ** leaf(2.0)
    assert (2 ** sorix.tensor([3.0])).item() == 8.0


def test_results_without_a_graph() -> None:
    x = leaf(-1.5, 2.5)
    assert not x.abs().requires_grad and sorix.abs(x).requires_grad and abs(x).requires_grad
    for name in ("sign", "round", "floor", "ceil"):
        assert not getattr(sorix, name)(x).requires_grad
    cast = (x * 2).double()
    assert cast.requires_grad and cast._prev == set() and cast.dtype == sorix.float64
    assert not x.detach().requires_grad and x.detach().data is not x.data
    assert not (x > 0).requires_grad and (x == [-1.5, 0.0]).data.tolist() == [True, False]


def test_clamp_at_the_bounds() -> None:
    x = leaf(-1.0, 0.0, 0.5, 1.0, 2.0)
    x.clamp(0.0, 1.0).sum().backward()
    assert x.grad.data.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_writes() -> None:
    x = leaf(1.0, 2.0)
    for write in (lambda: x.add_(1), lambda: x.zero_(), lambda: x.fill_(1), lambda: x.mul_(2), lambda: x.sub_(1)):
        with pytest.raises(RuntimeError, match=r"In-place operations are not allowed.*sorix.no_grad"):
            write()
    assert x.div_(2) is x and x.data.tolist() == [0.5, 1.0]
    with sorix.no_grad():
        x.add_(np.array([1.0, 1.0])).mul_(2)
        for write in (lambda: x.clamp_(0, 1), lambda: x.__setitem__(0, 1.0)):
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                write()
    assert x.data.tolist() == [3.0, 4.0]
    y = sorix.zeros(3)
    y[sorix.tensor([True, False, True])] = [1.0, 2.0]
    assert y.data.tolist() == [1.0, 0.0, 2.0] and y.clamp_(max=1).data.max() == 1


def test_protocol() -> None:
    x = leaf(1.0, 2.0, 3.0)
    assert [type(v) for v in x] == [np.float32] * 3 and len(x) == 3
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(sorix.tensor(1.0))
    assert bool(sorix.zeros(2)) and not bool(sorix.zeros(0)) and not bool(sorix.zeros(1))
    assert np.asarray(x, np.float64).dtype == np.float64
    x[x > 1].sum().backward()
    assert x.grad.data.tolist() == [0.0, 1.0, 1.0]
    assert np.allclose(np.asarray(np.ones((2, 3)) @ x), [6.0, 6.0])
    with pytest.raises(ValueError, match="item"):
        x.item()
    again = pickle.loads(pickle.dumps(x * 2))
    assert again.requires_grad and again.grad is None and again._prev == set() and again.data.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: sorix.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (lambda: sorix.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: sorix.zeros(1, dtype="int32"), "tensor([0], dtype=sorix.int32)"),
        (lambda: sorix.tensor([True]), "tensor([ True], dtype=sorix.bool)"),
        (lambda: sorix.ones(1, requires_grad=True), "tensor([1.], dtype=sorix.float64, requires_grad=True)"),
    ],
)
def test_text(made: Any, text: str) -> None:
    assert repr(made()) == str(made()) == text


# --- derivatives ---------------------------------------------------------------------------------


def test_backward() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * x).backward()
    with pytest.raises(ValueError, match=r"shape.*\(3,\).*\(2,\)"):
        (x * x).backward(np.ones(3))
    y = x * x
    y.backward(np.array([1.0, 10.0]), retain_graph=True)
    y.backward(sorix.tensor([1.0, 0.0]))
    assert x.grad.data.tolist() == [4.0, 40.0]
    sorix.zeros(3).backward()
    (x * x).sum().reshape(1, 1).backward()


def test_gradients_with_a_graph() -> None:
    x = leaf(2.0)
    (x**3).backward(create_graph=True)
    assert x.grad.requires_grad and x.grad.item() == 12.0
    slope, x.grad = x.grad, None
    slope.backward()
    assert x.grad.item() == 12.0


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_second_derivatives(name: str) -> None:
    x = sorix.tensor([0.3, -0.7], requires_grad=True, dtype="float64")
    (first,) = sorix.grad(getattr(x, name)().sum(), x, create_graph=True)
    (second,) = sorix.grad(first.sum(), x)
    step = 1e-5
    up = sorix.tensor(x.data + step, requires_grad=True)
    down = sorix.tensor(x.data - step, requires_grad=True)
    slopes = [sorix.grad(getattr(t, name)().sum(), t)[0].data for t in (up, down)]
    assert np.allclose(second.data, (slopes[0] - slopes[1]) / (2 * step), atol=1e-8)


SMOOTH = {
    "sin": lambda x: sorix.sin(x),
    "cos": lambda x: sorix.cos(x),
    "tanh": lambda x: sorix.tanh(x),
    "exp": lambda x: sorix.exp(x),
    "log": lambda x: sorix.log(x),
    "sqrt": lambda x: sorix.sqrt(x),
    "abs": lambda x: sorix.abs(x),
    "pow": lambda x: sorix.pow(x, 3),
    "softmax": lambda x: sorix.softmax(x) * np.arange(4.0),
    "sigmoid": lambda x: sorix.sigmoid(x),
    "mean": lambda x: x.mean(0) * x,
    "gather": lambda x: sorix.gather(x, 1, np.array([[0, 0], [1, 2], [3, 3]])),
    "where": lambda x: sorix.where(x > 1.0, x * x, 0.0),
    "cat": lambda x: sorix.cat([x, 2 * x, np.ones((3, 4))], 1),
    "stack": lambda x: sorix.stack([x, x * x]),
    "index": lambda x: x[[0, 0, 2]],
    "split": lambda x: sorix.split(x, 2, 1)[1] * 3,
    "repeat": lambda x: x.repeat(2, 2),
    "matmul": lambda x: x @ x.T,
    "transpose": lambda x: x.transpose(1, 0) @ x,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_against_differences(name: str) -> None:
    array = np.random.default_rng(1).uniform(0.5, 2.0, (3, 4))
    weights: list[Any] = []

    def loss(values: Any) -> Any:
        out = SMOOTH[name](values)
        if not weights:
            weights.append(np.random.default_rng(2).normal(size=out.shape))
        return (out * weights[0]).sum()

    x = sorix.tensor(array, requires_grad=True)
    loss(x).backward()
    assert np.allclose(x.grad.data, numeric(lambda a: loss(sorix.tensor(a)).item(), array), atol=1e-6)


# --- functions and factories ---------------------------------------------------------------------

SAMPLE = np.array([[0.5, 1.5], [2.0, 0.25]])
ONE = "abs ceil cos exp floor log mean round sign sin sqrt sum tanh".split()
TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "matmul": np.matmul, "pow": np.power}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_operand(name: str) -> None:
    expected = getattr(np, name)(SAMPLE)
    found, array = getattr(sorix, name)(sorix.tensor(SAMPLE)), getattr(sorix, name)(SAMPLE)
    assert isinstance(found, sorix.Tensor) and np.allclose(found, expected)
    assert isinstance(array, np.ndarray | float) and np.allclose(array, expected)


@pytest.mark.parametrize("name", [n for n in TWO if n != "pow"])
def test_functions_of_two_operands(name: str) -> None:
    function, expected = getattr(sorix, name), TWO[name](SAMPLE, SAMPLE)
    assert isinstance(function(SAMPLE, SAMPLE), np.ndarray)
    for left, right in [
        (SAMPLE, sorix.tensor(SAMPLE)),
        (sorix.tensor(SAMPLE), SAMPLE),
        (sorix.tensor(SAMPLE), SAMPLE.tolist()),
    ]:
        assert isinstance(function(left, right), sorix.Tensor)
        assert np.allclose(function(left, right), expected)


def test_numbers_stay_numbers() -> None:
    assert sorix.sigmoid(0.0) == 0.5 and sorix.add(1, 2) == 3 and sorix.sqrt(4.0) == 2.0
    assert isinstance(sorix.reshape(SAMPLE, (4,)), np.ndarray)


def test_promotion_is_numpys() -> None:
    one, two = sorix.tensor([1]), sorix.tensor([2])
    assert (one / two).dtype.name == "float64" and (sorix.tensor([1.0]) * 2).dtype.name == "float32"
    assert (sorix.tensor([1.0]) + np.ones(1)).dtype.name == "float64"


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name: str) -> None:
    function, expected = getattr(sorix, name), getattr(np, name)
    assert np.array_equal(function(sorix.tensor(SAMPLE)), expected(SAMPLE, 1, keepdims=True))
    assert np.array_equal(function(SAMPLE, axis=0, keepdims=False), expected(SAMPLE, 0))


def test_joining() -> None:
    with pytest.raises(TypeError, match="must be tuple or list"):
        sorix.cat(sorix.zeros(2))
    with pytest.raises(ValueError, match="non-empty"):
        sorix.stack([])
    with pytest.raises(NotImplementedError):
        sorix.cat([sorix.zeros(1)], out=sorix.zeros(1))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: sorix.zeros(2, 3), np.zeros((2, 3))),
        (lambda: sorix.ones((2, 3)), np.ones((2, 3))),
        (lambda: sorix.full(2, 7), np.full(2, 7)),
        (lambda: sorix.eye(3, 2), np.eye(3, 2)),
        (lambda: sorix.diag([1, 2]), np.diag([1, 2])),
        (lambda: sorix.diag(sorix.eye(2), 1), np.zeros(1)),
        (lambda: sorix.arange(0, 10, 2), np.arange(0, 10, 2)),
        (lambda: sorix.arange(3.0), np.arange(3.0)),
        (lambda: sorix.linspace(0, 1), np.linspace(0, 1, 100)),
        (lambda: sorix.logspace(0, 2, 3), np.logspace(0, 2, 3)),
        (lambda: sorix.zeros_like(np.ones(2, np.float32)), np.zeros(2, np.float32)),
        (lambda: sorix.ones_like(sorix.zeros(2)), np.ones(2)),
        (lambda: sorix.full_like(sorix.zeros(2), 5), np.full(2, 5.0)),
    ],
)
def test_factories(made: Any, expected: Any) -> None:
    assert isinstance(made(), sorix.Tensor) and made().data.dtype == expected.dtype
    assert np.array_equal(made(), expected)


def test_random_numbers_are_numpys() -> None:
    np.random.seed(3)
    expected = [np.random.rand(4), np.random.randn(2, 2), np.random.randint(0, 10, (5,)), np.random.permutation(6)]
    assert sorix.manual_seed(3) is None
    found = [sorix.rand(4), sorix.randn(2, 2), sorix.randint(0, 10, (5,)), sorix.randperm(6)]
    assert all(np.array_equal(f, e) for f, e in zip(found, expected, strict=True))


def test_as_tensor_shares() -> None:
    x, array = sorix.zeros(2), np.zeros(2)
    assert sorix.from_numpy(x) is x and sorix.as_tensor(array).data is array


# --- nn ------------------------------------------------------------------------------------------


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = [nn.Linear(3, 3), {"last": nn.Linear(3, 1)}]
        self.scale = sorix.tensor([1.0], requires_grad=True)
        self.buffer = sorix.zeros(2)
        self._hidden = nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        return self.rest[1]["last"](self.rest[0](self.first(x))) * self.scale


def test_module_walks() -> None:
    model = Own()
    parameters = model.parameters()
    assert isinstance(parameters, list) and len(parameters) == 7 and parameters[-1] is model.scale
    assert list(model.state_dict()) == ["first.W", "first.b", "scale", "buffer"]
    assert model.state_dict()["scale"] is model.scale
    assert model.eval() is None and not model.rest[1]["last"].training and model._hidden.training
    assert model.train() is None and model.rest[0].training
    assert model.to("cpu") is model and model.device == "cpu" and isinstance(model.device, str)
    assert model(sorix.ones(4, 2)).shape == (4, 1)
    with pytest.raises(NotImplementedError, match="You must implement forward"):
        nn.Module()(1)


def test_state_is_loaded_by_name_and_never_fails() -> None:
    model, other = Own(), Own()
    state = {**model.state_dict(), "unknown": sorix.zeros(1), "scale": 3}
    assert other.load_state_dict(state) is None
    assert np.array_equal(other.first.W, model.first.W) and other.scale.data.tolist() == [1.0]
    model.first.W.data[0] = 7.0
    assert not np.array_equal(other.first.W, model.first.W)


def test_containers() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    assert len(model) == 3 and model["0"] is model[0] and model[-1].neurons == 1
    assert list(model[1:].state_dict()) == ["2.W", "2.b"]
    named = nn.Sequential({"hidden": nn.Linear(2, 4), "out": nn.Linear(4, 1)})
    assert list(named.state_dict()) == ["hidden.W", "hidden.b", "out.W", "out.b"]
    layers = nn.ModuleList([nn.Linear(2, 2)]).append(nn.Dropout()).extend([nn.Linear(2, 1)])
    assert list(layers.state_dict()) == ["0.W", "0.b", "2.W", "2.b"] and len(layers.parameters()) == 4
    layers.eval()
    assert not layers[1].training and len(layers[:2]) == 2 and layers.training is False
    assert repr(layers).startswith("ModuleList(\n  (0): Linear(in_features=2")
    again = nn.ModuleList([nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 1)])
    again.load_state_dict(layers.state_dict())
    assert np.array_equal(again[2].W, layers[2].W)
    with pytest.raises(NotImplementedError):
        layers(1)


def test_linear() -> None:
    sorix.manual_seed(0)
    layer = nn.Linear(1000, 50, init="xavier")
    assert layer.std_dev == pytest.approx((2 / 1050) ** 0.5) and np.std(layer.W.data) == pytest.approx(
        layer.std_dev, rel=0.02
    )
    x = np.random.rand(3, 2, 1000).astype(np.float32)
    assert np.allclose(layer(sorix.tensor(x)), x @ layer.W.data + layer.b.data, atol=1e-4)
    assert nn.Linear(2, 3, bias=False).b is None and nn.Linear(2, 3, bias=False).intercept_ is None
    assert nn.Linear(2, 3).intercept_.shape == (3,) and isinstance(nn.Linear(2, 1).intercept_, float)
    with pytest.raises(ValueError, match="Invalid initialization method"):
        nn.Linear(2, 3, init="zeros")
    with pytest.raises(Exception, match="Cupy is not available"):
        nn.Linear(2, 3, device="cuda")


def test_activations_at_zero() -> None:
    for layer, slope in ((nn.ReLU(), 0.0), (nn.LeakyReLU(0.1), 0.1)):
        x = leaf(0.0)
        layer(x).backward()
        assert x.grad.item() == pytest.approx(slope)


def test_batch_norm() -> None:
    array = np.random.default_rng(0).normal(2.0, 3.0, (8, 3))
    norm = nn.BatchNorm1d(3)
    assert list(norm.state_dict()) == ["gamma", "beta", "running_mean", "running_var"]
    out = norm(sorix.tensor(array))
    assert np.allclose(out, (array - array.mean(0)) / np.sqrt(array.var(0) + 1e-5), atol=1e-6)
    assert np.allclose(norm.running_var, 0.9 + 0.1 * array.var(0, ddof=1), atol=1e-5)
    one = nn.BatchNorm1d(3)
    assert np.allclose(one(sorix.tensor(array[:1])), 0.0) and np.allclose(one.running_var, 0.9)
    norm.eval()
    expected = (array - norm.running_mean.data) / np.sqrt(norm.running_var.data + 1e-5)
    assert np.allclose(norm(sorix.tensor(array)), expected, atol=1e-6)
    norm.train()
    weights = np.random.default_rng(1).normal(size=(8, 3))
    x = sorix.tensor(array, requires_grad=True)
    (norm(x) * weights).sum().backward()
    slope = numeric(lambda a: (norm(sorix.tensor(a)) * weights).sum().item(), array, 1e-5)
    assert np.allclose(x.grad.data, slope, atol=1e-6)


def test_dropout() -> None:
    layer, x = nn.Dropout(0.25), sorix.ones(10000)
    out = layer(x).data
    assert set(np.round(out, 6)) == {0.0, round(1 / 0.75, 6)} and out.mean() == pytest.approx(1.0, abs=0.05)
    assert nn.Dropout(1.0)(x).data.sum() == 0 and nn.Dropout(0)(x) is x
    layer.eval()
    assert layer(x) is x


def test_embedding() -> None:
    table = nn.Embedding(4, 2)
    for indices in (sorix.tensor([1, 1]), np.array([1, 1]), [1, 1]):
        table.W.grad = None
        out = table(indices)
        assert out.shape == (2, 2)
        out.sum().backward()
        assert table.W.grad.data[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0]
    assert table(2).shape == (2,)
    for wrong in (4, -1):
        with pytest.raises(IndexError, match=r"\[0, 4\)"):
            table([wrong])
    with pytest.raises(ValueError, match="num_embeddings must be >= 1"):
        nn.Embedding(0, 2)
    with pytest.raises(ValueError, match="embedding_dim must be >= 1"):
        nn.Embedding(2, 0)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(one_hot: bool, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    logits, classes = rng.normal(size=(5, 3)), np.array([0, 2, 1, 1, 0])
    target = np.eye(3)[classes]
    weights = np.array([1.0, 2.0, 0.5]) if weighted else np.ones(3)
    w = weights[classes]
    x = sorix.tensor(logits, requires_grad=True)
    criterion = nn.CrossEntropyLoss(sorix.tensor(weights) if weighted else None, one_hot)
    loss = criterion(x, sorix.tensor(target if one_hot else classes.reshape(-1, 1)))
    loss.backward()
    p = softmax(logits)
    value = (w * -np.log(p[np.arange(5), classes] + 1e-9)).sum() / w.sum()
    assert loss.item() == pytest.approx(value, rel=1e-12)
    assert np.allclose(x.grad.data, (p - target) * (w / w.sum())[:, None])


def test_cross_entropy_has_a_ceiling() -> None:
    x = sorix.tensor([[100.0, 0.0]], requires_grad=True)
    loss = nn.CrossEntropyLoss()(x, sorix.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(-np.log(1e-9), rel=1e-5) and x.grad.data.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("columns", [1, 3])
def test_binary_cross_entropy(columns: int) -> None:
    rng = np.random.default_rng(0)
    logits, target = rng.normal(size=(4, columns)), rng.integers(0, 2, (4, columns)).astype(float)
    x = sorix.tensor(logits, requires_grad=True)
    loss = nn.BCEWithLogitsLoss()(x, sorix.tensor(target))
    loss.backward()
    value = (np.maximum(logits, 0) - logits * target + np.log1p(np.exp(-np.abs(logits)))).mean()
    assert loss.item() == pytest.approx(value) and np.allclose(x.grad.data, (1 / (1 + np.exp(-logits)) - target) / 4)


def test_init() -> None:
    w = sorix.zeros(100, 50, 2, requires_grad=True)
    assert nn.init._calculate_fan_in_and_fan_out(w) == (200, 100)
    assert nn.init.kaiming_normal_(w, nonlinearity="relu") is w
    assert np.std(w.data) == pytest.approx((2 / 200) ** 0.5, rel=0.05)
    nn.init.xavier_uniform_(w, 2.0)
    assert abs(w.data).max() <= 2 * (6 / 300) ** 0.5
    nn.init.kaiming_uniform_(w, mode="FAN_OUT")
    assert abs(w.data).max() <= (3 * 2 / 100) ** 0.5
    assert nn.init._calculate_gain("unknown") == 1 and nn.init._calculate_gain("tanh") == 5 / 3
    assert nn.init._calculate_gain("leaky_relu") == pytest.approx((2 / 1.0001) ** 0.5)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_normal_(sorix.zeros(3))
    with pytest.raises(ValueError, match="Mode sideways not supported"):
        nn.init.kaiming_normal_(w, mode="sideways")
    assert nn.init.ones_(sorix.zeros(2)).data.sum() == 2


# --- optim ---------------------------------------------------------------------------------------


def sorix_adam(p: float, g: float, steps: int, lr: float, eps: float) -> float:
    m = v = 0.0
    for t in range(1, steps + 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= lr * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (v**0.5 + eps)
    return p


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: optim.SGD(p, lr=0.1), [9.8, 9.6]),
        (lambda p: optim.SGDMomentum(p, lr=0.1), [9.8, 9.42]),
        (lambda p: optim.SGD(p, 0.1, 0.0, 0.5), [10 - 0.1 * 7, 9.3 - 0.1 * (2 + 4.65)]),
        (lambda p: optim.RMSprop(p, 0.1, decay=0.9), [10 - 0.2 / 0.4**0.5, 10 - 0.2 / 0.4**0.5 - 0.2 / 0.76**0.5]),
        (lambda p: optim.Adam(p, lr=0.1, eps=0.1), [sorix_adam(10, 2, n, 0.1, 0.1) for n in (1, 2)]),
    ],
)
def test_optimizers(make: Any, expected: list[float]) -> None:
    p = sorix.tensor([10.0], requires_grad=True, dtype=sorix.float64)
    optimizer = make([p])
    assert p.grad.data.tolist() == [0.0]
    for value in expected:
        p.grad = np.array([2.0])
        assert optimizer.step() is None
        assert np.allclose(p, value, rtol=1e-7)
    optimizer.zero_grad()
    assert p.grad.data.tolist() == [0.0]


def test_groups_and_statistics() -> None:
    a, b, c = (sorix.tensor(np.ones(n), requires_grad=True) for n in (2, 3, 1))
    optimizer = optim.Adam([{"params": [a, b], "lr": 0.5}, {"params": c}], lr=0.1)
    optimizer.add_param_group({"params": [leaf(1.0)], "weight_decay": 0.1})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1, 0.1]
    assert dict(optimizer.param_groups[0]["state"]) == {}
    a.grad, b.grad = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    optimizer.step()
    state = optimizer.param_groups[0]["state"]
    assert sorted(state) == ["exp_avg", "exp_avg_sq", "t"] and state["t"] == 1 and type(state["t"]) is int
    assert np.allclose(state["exp_avg"], 0.1 * np.arange(1, 6))
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(NotImplementedError):
        optim.Optimizer([a]).step()
    assert optim.SGD([a]).step(lambda: 5) == 5


@pytest.mark.parametrize("make", [optim.Adam, optim.SGDMomentum, optim.RMSprop])
def test_state_of_optimizers(make: Any) -> None:
    def run(p: Any, optimizer: Any, steps: int) -> None:
        for step in range(steps):
            optimizer.zero_grad()
            (((p - 3.0) ** 2).sum() * (1 + step % 2)).backward()
            optimizer.step()

    p, q = leaf(1.0, 2.0), leaf(1.0, 2.0)
    first = make([p], lr=0.1)
    run(p, first, 4)
    middle = pickle.loads(pickle.dumps(first.state_dict()))
    q.data = p.data.copy()
    second = make([q], lr=0.7)
    second.load_state_dict(middle)
    assert second.param_groups[0]["lr"] == 0.1
    run(p, first, 4)
    run(q, second, 4)
    assert np.array_equal(p.data, q.data)


def test_scipy_bridge() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    w, b = sorix.zeros(2), sorix.zeros(1)
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = x @ [1.0, -2.0] + 0.5
    bridge = optim.ScipyBridge([w, b], lambda: ((sorix.tensor(x) @ w + b - y) ** 2).mean())
    found = optimize.minimize(bridge.objective, bridge.get_x(), jac=True)
    assert np.allclose(found.x, [1.0, -2.0, 0.5], atol=1e-4)


@pytest.mark.parametrize(
    ("make", "rate"),
    [
        (lambda o, **k: lr_scheduler.StepLR(o, 2, 0.5, **k), lambda t: 0.5 ** (t // 2)),
        (lambda o, **k: lr_scheduler.ExponentialLR(o, 0.9, **k), lambda t: 0.9**t),
        (
            lambda o, **k: lr_scheduler.CosineAnnealingLR(o, 3, 0.1, **k),
            lambda t: 0.1 + 0.9 * (1 + np.cos(np.pi * t / 3)) / 2,
        ),
    ],
)
def test_schedules(make: Any, rate: Any) -> None:
    optimizer = optim.SGD([leaf(1.0)], lr=1.0)
    schedule = make(optimizer)
    assert schedule.last_epoch == 0
    for epoch in range(8):
        assert schedule.get_last_lr() == pytest.approx([rate(epoch)])
        optimizer.step()
        schedule.step()
    state = schedule.state_dict()
    assert state["base_lrs"] == [1.0] and state["base_lrs"] is not schedule.base_lrs and "optimizer" not in state
    other = optim.SGD([leaf(1.0)], lr=1.0)
    again = make(other)
    again.load_state_dict(state)
    assert other.param_groups[0]["lr"] == pytest.approx(rate(8))
    later = make(optim.SGD([leaf(1.0)], lr=1.0), last_epoch=3)
    assert later.last_epoch == 4 and later.get_last_lr() == pytest.approx([rate(4)])


def test_plateau() -> None:
    optimizer = optim.SGD([leaf(1.0)], lr=1.0)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, min_lr=0.3, threshold=0.1)
    rates = []
    for metric in (1.0, 0.95, 0.91, 0.85, 0.8, 0.79, 0.78):
        schedule.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.3, 0.3]
    optimizer.param_groups[0]["lr"] = 9.0
    schedule.load_state_dict(schedule.state_dict())
    assert schedule.get_last_lr() == [9.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.StepLR(o, 0), "step_size must be >= 1"),
        (lambda o: lr_scheduler.StepLR(o, 1, 0), "gamma must be > 0"),
        (lambda o: lr_scheduler.ExponentialLR(o, -1), "gamma must be > 0"),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 0), "T_max must be >= 1"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, "best"), "mode must be 'min' or 'max'"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), "factor must be < 1.0"),
    ],
)
def test_schedules_refuse(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(optim.SGD([leaf(1.0)]))


# --- data, files ---------------------------------------------------------------------------------


def test_datasets() -> None:
    data = Dataset(np.arange(4.0), [0, 1, 2, 3], lambda x: x + 1, lambda y: -y)
    assert data[1] == (2.0, -1) and len(data) == 4 and data.target_transform(3) == -3
    assert repr(data) == str(data) == "Dataset(len=4, has_labels=True, has_transform=True)"
    data[0] = (9.0, 7)
    assert data.X[0] == 9.0 and data.y[0] == 7
    with pytest.raises(ValueError, match=r"must be a tuple \(x, y\)"):
        data[0] = 1.0
    with pytest.raises(ValueError, match="same length"):
        Dataset([1], [1, 2])
    plain = Dataset([1, 2, 3])
    assert plain[1:] == [2, 3]


def test_data_loader() -> None:
    loader = DataLoader(Dataset(np.arange(20.0), np.arange(20)))
    first, last = list(loader)
    assert len(loader) == 2 and type(first) is tuple and first[0].dtype == "float64" and last[1].shape == (4,)
    sorix.manual_seed(1)
    one = [b[1].data.tolist() for b in DataLoader(Dataset(np.arange(6), np.arange(6)), 3, shuffle=True)]
    sorix.manual_seed(1)
    two = [b[1].data.tolist() for b in DataLoader(Dataset(np.arange(6), np.arange(6)), 3, shuffle=True)]
    assert one == two and sorted(one[0] + one[1]) == list(range(6)) and one != [[0, 1, 2], [3, 4, 5]]
    assert list(DataLoader([1, 2, 3], 2, collate_fn=sum)) == [3, 3]
    (batch,) = DataLoader(Dataset(np.ones((3, 2), np.float32)))
    assert isinstance(batch, sorix.Tensor) and batch.shape == (3, 2)


def test_walk_forward() -> None:
    series = list(range(12))
    folds = list(WalkForwardSplit(n_splits=3).split(series, series))
    assert [(f[0][-1], f[2]) for f in folds] == [(2, [3, 4, 5]), (5, [6, 7, 8]), (8, [9, 10, 11])]
    rolling = list(WalkForwardSplit(3, train_size=2, val_size=2, gap=1).split(series))
    assert rolling == [([3, 4], [6, 7]), ([5, 6], [8, 9]), ([7, 8], [10, 11])]
    with pytest.raises(ValueError, match="too few"):
        list(WalkForwardSplit(5).split([1, 2, 3]))


def test_train_test_split() -> None:
    rows = np.arange(10)
    train, test, train_y, test_y = train_test_split(rows, rows * 2, test_size=0.3)
    assert len(train) == 7 and np.array_equal(train * 2, train_y) and np.array_equal(test * 2, test_y)
    assert train_test_split(rows, shuffle=False)[0].tolist() == list(range(8))
    with pytest.raises(ValueError, match="between 0 and 1"):
        train_test_split(rows, test_size=1.5)


def test_files(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = sorix.ones(4, 2)
    sorix.save(model, str(tmp_path / "model.pkl"))
    again = sorix.load(str(tmp_path / "model.pkl"))
    assert np.array_equal(again(x), model(x)) and again[0].W.requires_grad
    file = io.BytesIO()
    sorix.save({"state": model.state_dict(), "epoch": 3}, file)
    file.seek(0)
    assert sorix.load(file)["epoch"] == 3


# --- programs ------------------------------------------------------------------------------------


def test_regression() -> None:
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


@pytest.mark.parametrize("one_hot", [True, False])
def test_classifier(one_hot: bool, tmp_path: Path) -> None:
    np.random.seed(0)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    classes = np.random.randint(0, 3, 150)
    points = (centres[classes] + 0.4 * np.random.randn(150, 2)).astype(np.float32)
    targets = np.eye(3)[classes] if one_hot else classes
    loader = DataLoader(Dataset(points, targets), batch_size=32, shuffle=True)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
            self.head = nn.Linear(16, 3, init="xavier")

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x))

    net, criterion = Net(), nn.CrossEntropyLoss(one_hot=one_hot)
    optimizer = optim.Adam(net.parameters(), lr=0.02)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
    for _ in range(15):
        net.train()
        for inputs, wanted in loader:
            optimizer.zero_grad()
            criterion(net(inputs), wanted).backward()
            optimizer.step()
        schedule.step()
    net.eval()
    with sorix.no_grad():
        found = sorix.argmax(net(sorix.tensor(points)))
    assert found.shape == (150, 1) and (found.data.ravel() == classes).mean() > 0.95
    assert schedule.get_last_lr()[0] == pytest.approx(0.0, abs=1e-9)
    sorix.save(net.state_dict(), tmp_path / "net.pkl")
    other = Net()
    other.load_state_dict(sorix.load(tmp_path / "net.pkl"))
    other.eval()
    assert np.array_equal(other(sorix.tensor(points)), net(sorix.tensor(points)))


def test_own_layer_and_hand_written_descent() -> None:
    sorix.manual_seed(1)

    class Polynomial(nn.Module):
        def __init__(self, degree: int) -> None:
            super().__init__()
            self.coefficients = [sorix.tensor([0.0], requires_grad=True) for _ in range(degree + 1)]

        def forward(self, x: Any) -> Any:
            out = self.coefficients[0]
            for n, c in enumerate(self.coefficients[1:], 1):
                out = out + c * x**n
            return out

    model, x = Polynomial(2), sorix.linspace(-1, 1, 50)
    y = 1.0 - 2.0 * x + 0.5 * x**2
    for _ in range(300):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        with sorix.no_grad():
            for p in model.parameters():
                p.sub_(0.5 * p.grad)
                p.grad.zero_()
    assert np.allclose([c.item() for c in model.coefficients], [1.0, -2.0, 0.5], atol=1e-2)


def test_word_vectors() -> None:
    sorix.manual_seed(0)
    table, out = nn.Embedding(6, 4), nn.Linear(4, 6)
    optimizer = optim.RMSprop(table.parameters() + out.parameters(), lr=0.02)
    words = np.arange(6)
    for _ in range(200):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(out(table(words)), sorix.tensor((words + 1) % 6)).backward()
        optimizer.step()
    assert (sorix.argmax(out(table(words))).data.ravel() == (words + 1) % 6).all()


def test_plateau_in_training_stops_oscillation() -> None:
    x = sorix.tensor([5.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=1.0)  # which jumps between 5 and -5
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    for _ in range(40):
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        optimizer.step()
        schedule.step(loss.item())
    assert abs(x.item()) < 1e-3
