"""The steps of recurrent layers, compiled, against the same in NumPy's calls."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid.backends.cpu import recurrent as kernels
from lucid.backends.cpu import thread_pool
from lucid.backends.cpu.nn.recurrent import _steps
from lucid.ops.nn import recurrent

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


def sources():
    """`lucid.backends.cpu.recurrent` as it runs where nothing is compiled."""
    path = Path(lucid.__file__).parent / "backends" / "cpu" / "recurrent.py"
    spec = importlib.util.spec_from_file_location("cells_in_numpy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IN_NUMPY = sources()


def operands(cell, sizes, size, out=None, dtype=np.float64):
    """What `forward` takes behind the cell and the steps, and the numbers of the way back."""
    rng = np.random.default_rng(3)
    rows, n, gates = sum(sizes), sizes[0], GATES[cell]
    out = out or size

    def numbers(*shape):
        return rng.standard_normal(shape).astype(dtype)

    memory = size if cell == "lstm" else 0
    return {
        "gates": numbers(rows, gates * size),
        "kept": np.zeros((rows, 2 * size if cell in ("lstm", "gru") else 0), dtype),
        "bias": numbers((4 if cell == "gru" else gates) * size),
        "w_hh": numbers(gates * size, out) / np.sqrt(out).astype(dtype),
        "w_hr": numbers(out, size) if out != size else None,
        "h": numbers(n, out),
        "c": numbers(n, memory),
        "y": np.zeros((rows, out), dtype),
    }


def forward_and_back(module, cell, sizes, reverse, given, dtype):
    """All arrays after running the steps and going back through them."""
    steps = _steps(sizes, reverse)
    a = {k: None if v is None else v.astype(dtype) for k, v in given.items()}
    module.forward(cell, steps, *a.values())
    rng = np.random.default_rng(4)
    back = [rng.standard_normal(a[k].shape).astype(dtype) for k in ("y", "h", "c")]
    size = a["gates"].shape[1] // GATES[cell]
    dz = np.zeros((len(a["y"]), len(a["bias"])), dtype)
    dr = np.zeros((len(a["y"]), 0 if a["w_hr"] is None else a["y"].shape[1]), dtype)
    gates = a["gates"] if size != dz.shape[1] else a["y"]
    module.backward(cell, steps, gates, a["kept"], a["w_hh"], a["w_hr"], *back, dz, dr)
    return [a["kept"], a["h"], a["c"], a["y"], *back, dz, dr]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("sizes", "size"),
    [((1,), 1), ((7, 7, 7), 17), ((5, 3, 3, 1), 7), ((4, 0), 3), ((0, 0), 3), ((9, 8, 2), 65), ((33, 17), 33)],
)
@pytest.mark.parametrize("cell", [*GATES, "projected"])
def test_loops_agree_with_numpy_in_double_precision(cell, sizes, size, dtype, reverse):
    out = max(size // 2, 1) + (size == 1) if cell == "projected" else None
    cell = "lstm" if cell == "projected" else cell
    given = operands(cell, sizes, size, out, dtype)
    found = forward_and_back(kernels, cell, sizes, reverse, given, dtype)
    wanted = forward_and_back(IN_NUMPY, cell, sizes, reverse, given, np.float64)
    close = 1e-10 if dtype == np.float64 else 1e-4
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, close, close)


@pytest.mark.parametrize("cell", GATES)
def test_threads_share_sequences_out(cell):
    sizes = (*[37] * 19, 30, 5, 4, 1)  # so many that threads pay
    given, before = operands(cell, sizes, 128, dtype=np.float32), thread_pool.size()
    try:
        found = []
        for threads in (1, 2, 3):
            thread_pool.set_size(threads)
            found.append(forward_and_back(kernels, cell, sizes, False, given, np.float32))
    finally:
        thread_pool.set_size(before)
    for alone, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_array_equal(other, alone)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cell", GATES)
def test_what_is_not_finite_stays_with_its_sequence(cell, value):
    sizes = (5, 5, 5)
    given = operands(cell, sizes, 9, dtype=np.float32)
    clean = forward_and_back(kernels, cell, sizes, False, given, np.float32)
    given["gates"][2] = value
    found = forward_and_back(kernels, cell, sizes, False, given, np.float32)
    with np.errstate(all="ignore"):
        wanted = forward_and_back(IN_NUMPY, cell, sizes, False, given, np.float64)
    for a, b, c in zip(found, wanted, clean, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)
        others = np.arange(len(a)) % 5 != 2
        np.testing.assert_array_equal(a[others], c[others])


def layer_operands(dtype=np.float64):
    rng = np.random.default_rng(5)
    shapes = {"x": (6, 3), "w_ih": (16, 3), "w_hh": (16, 4), "b_ih": (16,), "b_hh": (16,), "h0": (2, 4), "c0": (2, 4)}
    return {k: rng.standard_normal(s).astype(dtype) for k, s in shapes.items()}


def run_layer(arrays, sizes=(2, 2, 2)):
    return recurrent.lstm(*map(lucid.tensor, arrays.values()), None, sizes=sizes, reverse=False)[0]


def test_operands_need_not_lie_in_one_piece():
    arrays = layer_operands()
    views = {k: np.repeat(np.asfortranarray(v), 2, axis=-1)[..., ::2] for k, v in arrays.items()}
    tensors = {k: lucid.as_tensor(v).requires_grad_() for k, v in views.items()}
    out = recurrent.lstm(*tensors.values(), None, sizes=(2, 2, 2), reverse=False)[0]
    plain = {k: lucid.tensor(v).requires_grad_() for k, v in arrays.items()}
    want = recurrent.lstm(*plain.values(), None, sizes=(2, 2, 2), reverse=False)[0]
    np.testing.assert_array_equal(out.detach().numpy(), want.detach().numpy())
    weights = lucid.tensor(np.cos(np.arange(24.0)).reshape(4, 6)).mT
    for a, b in zip(
        lucid.autograd.grad(out, list(tensors.values()), weights),
        lucid.autograd.grad(want, list(plain.values()), weights),
        strict=True,
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("x", (5, 3)), ("w_ih", (12, 3)), ("w_hh", (16, 3)), ("b_hh", (4,)), ("h0", (1, 4)), ("c0", (2, 3))],
)
def test_shapes_are_checked_before_memory_is_read(name, shape):
    with pytest.raises(ValueError, match=f"{name} must have shape|w_hh must have shape"):
        run_layer({**layer_operands(), name: np.zeros(shape)})


def test_sequences_cannot_begin_late():
    with pytest.raises(ValueError, match="must not grow"):
        run_layer(layer_operands(), sizes=(2, 1, 2, 1))
