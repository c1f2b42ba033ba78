"""Tensors beside pandas and matplotlib, and NumPy's own functions on tensors: what users do without thinking."""

import numpy as np
import pytest

import lucid

pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402  (after the choice of a backend without windows)

# --- pandas ---------------------------------------------------------------------------------------

TYPES = ["bool", "int8", "int32", "int64", "uint8", "uint16", "uint64", "float32", "float64"]


@pytest.mark.parametrize("dtype", TYPES)
def test_series_keeps_type_and_values(dtype):
    x = lucid.tensor([1, 0, 3]).to(dtype)
    series = pd.Series(x, index=list("abc"), name="x")
    assert series.dtype == dtype and series.tolist() == x.tolist()
    back = lucid.tensor(series)
    assert back.dtype is x.dtype and back.tolist() == x.tolist()


def test_frames():
    x = lucid.arange(6.0).reshape(2, 3)
    frame = pd.DataFrame(x, columns=list("abc"))
    assert (frame.dtypes == "float32").all() and frame.to_numpy().tolist() == x.tolist()
    frame["d"] = lucid.tensor([7, 8])
    assert frame["d"].dtype == "int64"
    mixed = pd.DataFrame({"a": lucid.tensor([1.0, 2.0]), "b": lucid.tensor([True, False])})
    assert mixed.dtypes.astype(str).tolist() == ["float32", "bool"]
    assert lucid.tensor(frame[["a", "b"]]).shape == (2, 2)
    assert lucid.as_tensor(frame["a"]).dtype is lucid.float32


def test_columns_become_tensors_of_their_type():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [1, 2, 3]})
    assert lucid.tensor(frame["x"]).dtype is lucid.float64
    assert lucid.tensor(frame["y"]).dtype is lucid.int64
    assert lucid.tensor(frame["x"], dtype=lucid.float32, requires_grad=True).requires_grad
    assert lucid.tensor(pd.Series([1, 2], dtype="Int64")).tolist() == [1, 2]
    assert lucid.tensor(frame.index).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="tensor"):
        lucid.tensor(pd.Series(["a", "b"]))


def test_pandas_functions_take_tensors():
    x = lucid.tensor([3.0, 1.0, 2.0])
    assert pd.Series([10.0, 20.0, 30.0]).add(x).tolist() == [13, 21, 32]
    assert (pd.Series([10.0, 20.0, 30.0]) * x).tolist() == [30, 20, 60]
    assert pd.Series([5, 6, 7]).iloc[lucid.tensor([2, 0])].tolist() == [7, 5]
    assert pd.Series(x).sort_values().tolist() == [1, 2, 3]
    assert len(pd.cut(x, 2)) == 3
    assert pd.isna(np.asarray(lucid.tensor([1.0, lucid.nan]))).tolist() == [False, True]


def test_a_series_of_a_tensor_that_requires_grad_is_a_copy_of_its_values():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    series = pd.Series(x)
    assert series.tolist() == [1.0, 2.0]
    assert not lucid.tensor(series).requires_grad


# --- matplotlib -----------------------------------------------------------------------------------

LINE = lucid.linspace(0, 1, 5)
IMAGE = lucid.arange(16.0).reshape(4, 4)
DRAWINGS = {
    "plot": lambda ax: ax.plot(LINE, LINE**2),
    "plot of one": lambda ax: ax.plot(LINE),
    "plot of columns": lambda ax: ax.plot(IMAGE),
    "scatter": lambda ax: ax.scatter(LINE, LINE**2, c=LINE, s=10 * LINE + 1),
    "imshow": lambda ax: ax.imshow(IMAGE),
    "imshow of half precision": lambda ax: ax.imshow(IMAGE.half()),
    "hist": lambda ax: ax.hist(LINE, bins=3),
    "hist of several": lambda ax: ax.hist([LINE, LINE[:3]], bins=3),
    "bar": lambda ax: ax.bar(lucid.arange(5), LINE),
    "fill_between": lambda ax: ax.fill_between(LINE, LINE, LINE + 1),
    "errorbar": lambda ax: ax.errorbar(LINE, LINE, yerr=0.1 * LINE),
    "contour": lambda ax: ax.contour(IMAGE),
    "pcolormesh": lambda ax: ax.pcolormesh(IMAGE),
    "boxplot": lambda ax: ax.boxplot(LINE),
    "violinplot": lambda ax: ax.violinplot(LINE),
    "quiver": lambda ax: ax.quiver(LINE, LINE, LINE, LINE),
    "step": lambda ax: ax.step(LINE, LINE),
    "axvline": lambda ax: ax.axvline(lucid.tensor(0.5)),
    "text": lambda ax: ax.text(lucid.tensor(0.5), lucid.tensor(0.5), "here"),
    "bfloat16": lambda ax: ax.plot(LINE.bfloat16()),
    "detached": lambda ax: ax.plot((LINE.clone().requires_grad_() ** 2).detach()),
    "hist of a leaf": lambda ax: ax.hist(LINE.clone().requires_grad_()),
    "limits": lambda ax: ax.set_xlim(LINE[0], LINE[-1]),
}


@pytest.fixture
def ax():
    figure, axes = plt.subplots(figsize=(1, 1), dpi=30)
    yield axes
    plt.close(figure)


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing(name, ax):
    DRAWINGS[name](ax)
    ax.figure.canvas.draw()


def test_drawn_values_are_the_tensors(ax):
    (line,) = ax.plot(LINE, LINE**2)
    np.testing.assert_array_equal(line.get_xydata(), np.stack([LINE, LINE**2], axis=1))
    np.testing.assert_array_equal(ax.imshow(IMAGE).get_array(), IMAGE)
    counts, _, _ = ax.hist(LINE, bins=2)
    assert counts.tolist() == [2, 3]


def test_what_requires_grad_is_drawn_and_stays_as_it_is(ax):
    x = LINE.clone().requires_grad_()
    (line,) = ax.plot(x, x**2)
    np.testing.assert_array_equal(line.get_ydata(), (x**2).detach())
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 1.0
    (x**2).sum().backward()
    np.testing.assert_array_equal(x.grad, 2 * LINE)


# --- NumPy ----------------------------------------------------------------------------------------


def test_numpy_functions_give_tensors_with_gradients():
    x = lucid.tensor([1.0, 2.0, 3.0], dtype=lucid.float64, requires_grad=True)
    y = np.sum(np.exp(np.stack([x, 2 * x])) / np.linalg.norm(x))
    assert isinstance(y, lucid.Tensor)
    assert lucid.autograd.gradcheck(lambda t: np.mean(np.sqrt(np.cumsum(t) * np.array([1.0, 2.0, 3.0]))), (x,))


def test_numpy_broadcasts_beside_nothing():
    """matplotlib asks NumPy to broadcast None with data."""
    found = np.broadcast_arrays(lucid.tensor([1.0, 2.0]), None)
    assert found[1].tolist() == [None, None]
