"""NumPy functions on tensors, operators between arrays and tensors, and DLPack."""

import io

import numpy as np
import pytest

import lucid
from lucid.interop import numpy_protocol

A = np.linspace(0.1, 0.9, 6).reshape(2, 3)
B = np.array([[0.3, -1.2, 0.5], [2.0, 0.7, -0.4]])
CUBE = np.arange(24.0).reshape(2, 3, 4) / 7
WITH_NAN = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 6.0]])


def tensor(array, requires_grad=False):
    return lucid.tensor(np.asarray(array), requires_grad=requires_grad)


def same(got, expected):
    """Tensors (or lists, tuples and numbers) with NumPy's values, dtypes and shapes."""
    if isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            same(g, e)
        return
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12, atol=1e-12)


UNARY = [u for u in numpy_protocol.UFUNCS if u.nin == 1 and u.nout == 1 and "d->" in "".join(u.types)]
BINARY = [u for u in numpy_protocol.UFUNCS if u.nin == 2 and u.nout == 1 and u is not np.matmul]
INTEGRAL = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift, np.gcd, np.lcm, np.ldexp}


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda u: u.__name__)
def test_unary_ufuncs(ufunc):
    data = A + 1 if ufunc is np.arccosh else A
    result = ufunc(tensor(data))
    same(result, ufunc(data))
    assert result.np_dtype == ufunc(data).dtype


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_binary_ufuncs_with_a_tensor_on_either_side(ufunc):
    x, y = (np.array([[5, 3, 8], [1, 2, 6]]), np.array([1, 2, 1])) if ufunc in INTEGRAL else (A, B[0] ** 2 + 0.5)
    same(ufunc(tensor(x), tensor(y)), ufunc(x, y))
    same(ufunc(tensor(x), y), ufunc(x, y))
    same(ufunc(x, tensor(y)), ufunc(x, y))


def test_ufuncs_with_two_results():
    same(np.divmod(tensor(B), 0.3), np.divmod(B, 0.3))
    same(np.modf(tensor(B)), np.modf(B))


def test_foreign_ufuncs_of_known_names_are_not_replaced():
    mine = np.frompyfunc(lambda x: x + 100, 1, 1)
    assert isinstance(mine(tensor(A)), np.ndarray)


def test_matmul():
    same(np.matmul(tensor(A), B.T), A @ B.T)
    same(A @ tensor(B.T), A @ B.T)


def test_ufunc_dtype_argument():
    result = np.add(tensor([1, 2]), 1, dtype=np.float64)
    assert result.dtype is lucid.float64


@pytest.mark.parametrize("ufunc", numpy_protocol.REDUCTIONS, ids=lambda u: u.__name__)
def test_reduce(ufunc):
    same(ufunc.reduce(tensor(A)), ufunc.reduce(A))
    same(ufunc.reduce(tensor(A), axis=1, keepdims=True), ufunc.reduce(A, axis=1, keepdims=True))
    same(ufunc.reduce(tensor(A), axis=None), ufunc.reduce(A, axis=None))


@pytest.mark.parametrize("ufunc", numpy_protocol.SCANS, ids=lambda u: u.__name__)
def test_accumulate(ufunc):
    same(ufunc.accumulate(tensor(B)), ufunc.accumulate(B))
    same(ufunc.accumulate(tensor(B), axis=1), ufunc.accumulate(B, axis=1))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.less], ids=lambda u: u.__name__)
def test_outer(ufunc):
    same(ufunc.outer(tensor(A), B), ufunc.outer(A, B))
    same(ufunc.outer(A[0], tensor(B)), ufunc.outer(A[0], B))


# Each is called with NumPy arrays and with tensors of the same contents.
FUNCTIONS = {
    "sum": lambda x, y: np.sum(x, axis=1, keepdims=True),
    "sum-dtype": lambda x, y: np.sum(x, 0, np.float64),
    "sum-two-axes": lambda x, y: np.sum(deepened(x), axis=(0, 2)),
    "prod": lambda x, y: np.prod(x, axis=0),
    "mean": lambda x, y: np.mean(x, axis=-1),
    "average": lambda x, y: np.average(x, axis=0),
    "average-weights": lambda x, y: np.average(x, axis=1, weights=np.array([1.0, 2.0, 3.0])),
    "var": lambda x, y: np.var(x, axis=1, ddof=1),
    "var-population": lambda x, y: np.var(x),
    "std": lambda x, y: np.std(x, axis=0, keepdims=True),
    "max": lambda x, y: np.max(x, axis=1),
    "amax": lambda x, y: np.amax(x),
    "min": lambda x, y: np.min(x, axis=(0, 1)),
    "ptp": lambda x, y: np.ptp(x, axis=0),
    "argmax": lambda x, y: np.argmax(y, axis=1),
    "argmin": lambda x, y: np.argmin(y),
    "any": lambda x, y: np.any(x > 0.5, axis=1),
    "all": lambda x, y: np.all(x > 0.5),
    "count_nonzero": lambda x, y: np.count_nonzero(x > 0.3, axis=0),
    "cumsum": lambda x, y: np.cumsum(x),
    "cumsum-axis": lambda x, y: np.cumsum(x, axis=1),
    "cumprod": lambda x, y: np.cumprod(x, axis=0),
    "diff": lambda x, y: np.diff(y, n=2, axis=1),
    "sort": lambda x, y: np.sort(y, axis=0),
    "sort-flat": lambda x, y: np.sort(y, axis=None),
    "argsort": lambda x, y: np.argsort(y, axis=1, kind="stable"),
    "median": lambda x, y: np.median(y, axis=0),
    "median-all": lambda x, y: np.median(y),
    "quantile": lambda x, y: np.quantile(y, [0.1, 0.7], axis=1, keepdims=True),
    "quantile-lower": lambda x, y: np.quantile(y, 0.3, method="lower"),
    "percentile": lambda x, y: np.percentile(y, 30, axis=0),
    "searchsorted": lambda x, y: np.searchsorted(np.sort(y, axis=None), x, side="right"),
    "unique": lambda x, y: np.unique(np.round(y)),
    "unique-counts": lambda x, y: np.unique(np.round(y), return_inverse=True, return_counts=True),
    "nonzero": lambda x, y: np.nonzero(y > 0),
    "reshape": lambda x, y: np.reshape(x, (3, -1)),
    "reshape-order": lambda x, y: np.reshape(x, (3, -1), order="C"),
    "ravel": lambda x, y: np.ravel(x),
    "transpose": lambda x, y: np.transpose(x),
    "transpose-axes": lambda x, y: np.transpose(deepened(x), (2, 0, 1)),
    "matrix_transpose": lambda x, y: np.matrix_transpose(deepened(x)),
    "swapaxes": lambda x, y: np.swapaxes(deepened(x), 0, 2),
    "moveaxis": lambda x, y: np.moveaxis(deepened(x), 0, -1),
    "squeeze": lambda x, y: np.squeeze(x[None, :, None], axis=0),
    "expand_dims": lambda x, y: np.expand_dims(x, (0, -1)),
    "atleast_1d": lambda x, y: np.atleast_1d(x[0, 0], y),
    "atleast_2d": lambda x, y: np.atleast_2d(x[0]),
    "atleast_3d": lambda x, y: np.atleast_3d(x, x[0], x[0, 0]),
    "broadcast_to": lambda x, y: np.broadcast_to(x, (4, 2, 3)),
    "broadcast_arrays": lambda x, y: np.broadcast_arrays(x, y[0]),
    "concatenate": lambda x, y: np.concatenate([x, B], axis=1),
    "concatenate-flat": lambda x, y: np.concatenate((x, y[0]), axis=None),
    "stack": lambda x, y: np.stack([x, y], axis=-1),
    "hstack": lambda x, y: np.hstack((x, y)),
    "vstack": lambda x, y: np.vstack((x, y[0])),
    "dstack": lambda x, y: np.dstack((x, y)),
    "column_stack": lambda x, y: np.column_stack((x[0], y[1])),
    "append": lambda x, y: np.append(x, y, axis=0),
    "split": lambda x, y: np.split(x, 3, axis=1),
    "split-at": lambda x, y: np.split(x, [1, 2], axis=1),
    "array_split": lambda x, y: np.array_split(x, 2, axis=1),
    "hsplit": lambda x, y: np.hsplit(x, 3),
    "vsplit": lambda x, y: np.vsplit(x, 2),
    "flip": lambda x, y: np.flip(x),
    "flip-axis": lambda x, y: np.flip(x, 1),
    "fliplr": lambda x, y: np.fliplr(x),
    "flipud": lambda x, y: np.flipud(x),
    "roll": lambda x, y: np.roll(x, 2),
    "roll-axes": lambda x, y: np.roll(x, 1, axis=(0, 1)),
    "rot90": lambda x, y: np.rot90(x, 3),
    "tile": lambda x, y: np.tile(x, (2, 1)),
    "repeat": lambda x, y: np.repeat(x, [1, 2], axis=0),
    "repeat-flat": lambda x, y: np.repeat(x, 2),
    "take": lambda x, y: np.take(x, [0, -1], axis=1),
    "take-flat": lambda x, y: np.take(x, [[5, 0]]),
    "take_along_axis": lambda x, y: np.take_along_axis(x, np.array([[0], [2]]), axis=1),
    "diagonal": lambda x, y: np.diagonal(deepened(x), 1, 1, 2),
    "diag": lambda x, y: np.diag(x[0], k=1),
    "diagflat": lambda x, y: np.diagflat(x),
    "tril": lambda x, y: np.tril(x, -1),
    "triu": lambda x, y: np.triu(x, 1),
    "trace": lambda x, y: np.trace(deepened(x), axis1=1, axis2=2),
    "dot-vectors": lambda x, y: np.dot(x[0], y[0]),
    "dot-matrices": lambda x, y: np.dot(x, y.T),
    "dot-stacks": lambda x, y: np.dot(x, deepened(y)),
    "dot-number": lambda x, y: np.dot(x, 3.0),
    "dot-array-first": lambda x, y: np.dot(B, x.T),
    "vdot": lambda x, y: np.vdot(x, y),
    "inner": lambda x, y: np.inner(x, y),
    "outer": lambda x, y: np.outer(x, y),
    "kron": lambda x, y: np.kron(x, y),
    "cross": lambda x, y: np.cross(x, y),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=([0, 1], [0, 1])),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y, optimize=True),
    "norm": lambda x, y: np.linalg.norm(x),
    "norm-axis": lambda x, y: np.linalg.norm(x, axis=1, keepdims=True),
    "norm-3": lambda x, y: np.linalg.norm(x[0], 3),
    "norm-inf": lambda x, y: np.linalg.norm(y, np.inf, axis=0),
    "norm-fro": lambda x, y: np.linalg.norm(x, "fro"),
    "norm-matrix-1": lambda x, y: np.linalg.norm(y, 1),
    "norm-matrix-inf": lambda x, y: np.linalg.norm(deepened(y), -np.inf, axis=(1, 2)),
    "where": lambda x, y: np.where(y > 0, x, 0.0),
    "where-indices": lambda x, y: np.where(y > 0),
    "clip": lambda x, y: np.clip(x, 0.3, 0.6),
    "clip-one-side": lambda x, y: np.clip(x, None, 0.6),
    "clip-keywords": lambda x, y: np.clip(x, min=0.3),
    "round": lambda x, y: np.round(x, 1),
    "around": lambda x, y: np.around(x),
    "fix": lambda x, y: np.trunc(y),
    "sinc": lambda x, y: np.sinc(x),
    "nan_to_num": lambda x, y: np.nan_to_num(x / 0.0 * 0, nan=7.0),
    "real": lambda x, y: np.real(x + 1j * y),
    "imag": lambda x, y: np.imag(x + 1j * y),
    "imag-of-real": lambda x, y: np.imag(x),
    "conj": lambda x, y: np.conj(x + 1j * y),
    "angle": lambda x, y: np.angle(x + 1j * y, deg=True),
    "isclose": lambda x, y: np.isclose(x, y, atol=0.3),
    "zeros_like": lambda x, y: np.zeros_like(x),
    "ones_like": lambda x, y: np.ones_like(x, dtype=np.int64),
    "full_like": lambda x, y: np.full_like(x, 3.0, shape=(2,)),
    "copy": lambda x, y: np.copy(x),
    "astype": lambda x, y: np.astype(y, np.int64),
    "meshgrid": lambda x, y: np.meshgrid(x[0], y[1]),
    "meshgrid-ij": lambda x, y: np.meshgrid(x[0], y[1], indexing="ij"),
    "nansum": lambda x, y: np.nansum(np.where(y > 0, x, np.nan), axis=1),
    "nanmean": lambda x, y: np.nanmean(np.where(y > 0, x, np.nan), axis=1),
}


def deepened(x):
    """Three dimensions that depend on a 2×3 operand."""
    return x[:, :, None] * CUBE[:, :, :3] if x.ndim == 2 else x


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_give_tensors_with_the_values_of_numpy(name):
    function = FUNCTIONS[name]
    same(function(tensor(A), tensor(B)), function(A, B))


DIFFERENTIABLE = [
    "sum", "prod", "mean", "average-weights", "var", "std", "max", "ptp", "cumsum", "cumprod", "diff", "sort", "median",
    "quantile", "reshape", "transpose-axes", "expand_dims", "atleast_3d", "concatenate", "stack", "column_stack",
    "split-at", "roll-axes", "tile", "repeat", "take", "diagonal", "diag", "trace", "dot-stacks", "inner", "outer",
    "kron", "cross", "tensordot", "einsum", "norm-3", "norm-matrix-1", "where", "clip", "sinc", "real", "angle",
    "meshgrid", "nanmean",
]  # fmt: skip


def total(result):
    """One number out of any result, by weights that no symmetry survives."""
    if isinstance(result, list | tuple):
        return sum(total(r) for r in result)
    weights = np.cos(np.arange(max(1, int(np.prod(np.shape(result)))))).reshape(np.shape(result))
    return (result * weights).sum()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_differentiate(name):
    function = FUNCTIONS[name]
    x, y = tensor(A, requires_grad=True), tensor(B, requires_grad=True)
    total(function(x, y)).backward()
    for leaf, data, others in ((x, A, lambda a: (a, B)), (y, B, lambda b: (A, b))):
        if leaf.grad is None:
            continue
        numeric = np.empty_like(data)
        for i in np.ndindex(data.shape):
            step = np.zeros_like(data)
            step[i] = 1e-6
            numeric[i] = (total(function(*others(data + step))) - total(function(*others(data - step)))) / 2e-6
        np.testing.assert_allclose(leaf.grad, numeric, rtol=1e-5, atol=1e-7)
    assert x.grad is not None or y.grad is not None


def test_ufuncs_differentiate():
    x = tensor(A, requires_grad=True)
    np.sum(np.sin(x) * np.array([1.0, 2.0, 3.0])).backward()
    np.testing.assert_allclose(x.grad, np.cos(A) * [1.0, 2.0, 3.0])


def test_cube_root_has_a_finite_gradient_at_zero():
    x = tensor([0.0, 8.0, -8.0], requires_grad=True)
    np.cbrt(x).sum().backward()
    np.testing.assert_allclose(x.grad, [0, 1 / 12, 1 / 12])


def test_functions_work_inside_transforms():
    def f(x):
        return np.sum(np.sin(x) ** 2 * np.float64(2))

    np.testing.assert_allclose(lucid.func.grad(f)(tensor(A)), 2 * np.sin(2 * A))
    _, tangent = lucid.func.jvp(f, (tensor(A),), (tensor(np.ones_like(A)),))
    np.testing.assert_allclose(tangent, 2 * np.sin(2 * A).sum())
    rows = lucid.func.vmap(lambda r: np.concatenate([np.cumsum(r), np.array([1.0])]))(tensor(A))
    np.testing.assert_allclose(rows, np.hstack([np.cumsum(A, 1), np.ones((2, 1))]))


class TestPromotion:
    """NumPy scalars count as Python numbers, arrays as tensors."""

    def test_scalars_do_not_widen(self):
        x = lucid.tensor([1.0, 2.0])
        assert (np.float64(2) * x).dtype is lucid.float32
        assert (x * np.float64(2)).dtype is lucid.float32
        assert (np.int64(2) * x).dtype is lucid.float32
        assert (np.float32(2) * lucid.tensor([1, 2])).dtype is lucid.float32

    def test_arrays_are_tensors(self):
        x = lucid.tensor([1.0, 2.0])
        assert (np.ones(2) * x).dtype is lucid.float64
        assert (np.ones(2, np.int64) * x).dtype is lucid.float32
        assert (np.ones(2, np.float32) + lucid.tensor([1, 2])).dtype is lucid.float32
        assert (np.array(2.0) * x).dtype is lucid.float32

    @pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**", "<", "==", "@"])
    def test_operators_give_tensors_on_either_side(self, op):
        x, y = A[0], A[1]
        expected = eval(f"x {op} y")
        same(eval(f"x {op} t", {"x": x, "t": tensor(y)}), expected)
        same(eval(f"t {op} y", {"t": tensor(x), "y": y}), expected)


class TestOut:
    def test_in_place_on_an_array(self):
        array = A.copy()
        kept = array
        array += tensor(B)
        assert array is kept
        np.testing.assert_allclose(array, A + B)
        np.testing.assert_allclose(np.multiply(tensor(A), 2.0, out=array), 2 * A)
        np.sum(tensor(A), axis=0, out=array[0])
        np.testing.assert_allclose(array[0], A.sum(0))

    def test_a_tensor_that_requires_grad_is_refused(self):
        array, x = A.copy(), tensor(B, requires_grad=True)
        with pytest.raises(TypeError, match="detach"):
            array += x
        with pytest.raises(TypeError, match=r"numpy\.sum.*detach"):
            np.sum(x, axis=0, out=array[0])
        np.testing.assert_array_equal(array, A)
        with lucid.no_grad():
            array += x
        np.testing.assert_allclose(array, A + B)

    def test_types_must_fit(self):
        array = np.zeros(2, np.int64)
        with pytest.raises(TypeError):
            array += lucid.tensor([0.5, 0.5])

    def test_into_a_tensor(self):
        target, x = tensor(np.zeros((2, 3))), tensor(A, requires_grad=True)
        assert np.exp(x, out=target) is target
        target.sum().backward()
        np.testing.assert_allclose(x.grad, np.exp(A))

    def test_copyto(self):
        array, target = np.zeros((2, 3)), tensor(np.zeros((2, 3)))
        np.copyto(array, tensor(A))
        np.copyto(target, A)
        np.testing.assert_array_equal(array, A)
        np.testing.assert_array_equal(target, A)
        with pytest.raises(TypeError, match="detach"):
            np.copyto(array, tensor(A, requires_grad=True))

    def test_writing_functions_are_seen_by_the_tape(self):
        x, w = tensor(np.ones((2, 2))), tensor(np.ones((2, 2)), requires_grad=True)
        y = (x * w).sum()
        np.fill_diagonal(x, 5.0)
        assert x[0, 0].item() == 5.0
        with pytest.raises(RuntimeError):
            y.backward()


class TestWithoutCounterpart:
    def test_runs_on_arrays(self):
        result = np.spacing(tensor(A))
        assert type(result) is np.ndarray
        result = np.interp(tensor([0.5]), [0, 1], [0, 10], period=4)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, [5])
        np.testing.assert_allclose(
            np.add(tensor(A), 1.0, where=A > 0.5, out=np.zeros((2, 3))), np.where(A > 0.5, A + 1, 0)
        )

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda x: np.spacing(x), "numpy.spacing"),
            (lambda x: np.interp(x, [0, 1], [0, 10], period=4), "numpy.interp"),
            (lambda x: np.nanmean(x, where=[True]), "numpy.nanmean"),
            (lambda x: np.sum(x, axis=()), "numpy.sum"),
            (lambda x: np.add.reduceat(x[0], [0, 1]), "numpy.add.reduceat"),
        ],
    )
    def test_refuses_to_lose_a_gradient(self, call, name):
        call(tensor(A))
        call(A)
        with pytest.raises(TypeError, match=f"{name}.*detach"):
            call(tensor(A, requires_grad=True))

    def test_refuses_to_lose_a_tangent(self):
        with pytest.raises(TypeError, match="detach"):
            lucid.func.jvp(lambda x: np.interp(x, [0, 1], [0, 10], period=4), (tensor(A),), (tensor(A),))

    def test_allowed_when_nothing_is_recorded(self):
        with lucid.no_grad():
            assert type(np.spacing(tensor(A, requires_grad=True))) is np.ndarray

    def test_an_empty_axis_means_nothing_to_reduce(self):
        np.testing.assert_array_equal(np.sum(tensor(A), axis=()), A)

    def test_writing_at_positions(self):
        array = np.zeros(3)
        np.add.at(array, [0, 0], tensor([1.0, 2.0]))
        np.testing.assert_array_equal(array, [3, 0, 0])
        x = tensor([1.0, 5.0])
        np.add.at(x, [0, 0], tensor([1.0, 2.0]))
        np.maximum.at(x, 1, 7.0)
        assert x.tolist() == [4, 7]
        with pytest.raises(TypeError, match="x\\[index\\]"):
            np.hypot.at(x, [0], 1.0)

    def test_other_libraries_decide_for_themselves(self):
        class Other:
            def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
                return "theirs"

            def __array_function__(self, func, types, args, kwargs):
                return "theirs"

        assert np.add(tensor(A), Other()) == "theirs"
        assert np.concatenate([tensor(A), Other()]) == "theirs"


@pytest.mark.parametrize("requires_grad", [False, True])
class TestReading:
    def test_comparisons_of_values(self, requires_grad):
        x = tensor(A, requires_grad)
        np.testing.assert_allclose(x, A)
        np.testing.assert_allclose(A, x)
        np.testing.assert_array_equal(x, A)
        np.testing.assert_array_almost_equal(x, A)
        assert np.allclose(x, A) is True
        assert np.array_equal(x, A) is True
        assert np.array_equal(x, B) is False
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(x, B)

    def test_facts_about_the_tensor(self, requires_grad):
        x = tensor(A, requires_grad)
        assert np.shape(x) == (2, 3)
        assert np.ndim(x) == 2
        assert np.size(x) == 6
        assert np.size(x, 1) == 3
        assert np.iscomplexobj(x) is False
        assert np.isrealobj(x) is True
        assert np.result_type(x, np.float32) == np.float64

    def test_text_and_files(self, requires_grad):
        x = tensor([1.0, 2.0], requires_grad)
        assert np.array2string(x) == "[1. 2.]"
        assert np.array_str(x) == "[1. 2.]"
        file = io.BytesIO()
        np.savez(file, x=x)
        file.seek(0)
        np.testing.assert_array_equal(np.load(file)["x"], [1, 2])

    def test_asarray(self, requires_grad):
        x = tensor(A, requires_grad)
        np.testing.assert_array_equal(np.asarray(x), A)
        np.testing.assert_array_equal(np.array([x, x]), [A, A])
        assert np.asarray(x, dtype=np.float32).dtype == np.float32
        assert np.asarray(x).flags.writeable is not requires_grad

    def test_reading_leaves_no_trace(self, requires_grad):
        x = tensor(A, requires_grad)
        np.allclose(x, A)
        assert x._meta is None


class TestDlpack:
    def test_shares_memory(self):
        x = lucid.tensor([1.0, 2.0, 3.0])
        array = np.from_dlpack(x)
        x[0] = 9.0
        assert array[0] == 9.0
        y = lucid.from_dlpack(array)
        assert y.data_ptr() == x.data_ptr()

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"])
    def test_dtypes_round_trip(self, dtype):
        x = lucid.tensor([0, 1]).to(dtype)
        y = lucid.from_dlpack(x)
        assert y.dtype is x.dtype
        assert lucid.equal(x, y)

    def test_strided_and_empty(self):
        x = lucid.tensor(A)[:, ::2]
        np.testing.assert_array_equal(np.from_dlpack(x), A[:, ::2])
        assert lucid.from_dlpack(np.zeros((0, 3))).shape == (0, 3)

    def test_device(self):
        assert lucid.tensor([1.0]).__dlpack_device__() == (1, 0)

    def test_copy(self):
        array = np.zeros(2)
        x = lucid.from_dlpack(array, copy=True)
        array[0] = 1.0
        assert x[0].item() == 0.0

    def test_read_only_memory_cannot_be_written(self):
        array = np.zeros(2)
        array.flags.writeable = False
        x = lucid.from_dlpack(array)
        with pytest.raises(RuntimeError, match="read-only"):
            x.add_(1.0)

    def test_refusals(self):
        with pytest.raises(BufferError, match="detach"):
            np.from_dlpack(lucid.tensor([1.0], requires_grad=True))
        with pytest.raises(TypeError, match="__dlpack__"):
            lucid.from_dlpack([1.0])

    def test_memory_of_other_devices_is_refused(self):
        class OnGpu:
            def __dlpack__(self, **kwargs):
                raise AssertionError

            def __dlpack_device__(self):
                return (2, 0)

        with pytest.raises(BufferError, match="CPU"):
            lucid.from_dlpack(OnGpu())
