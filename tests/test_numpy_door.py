"""`lucid.numpy`: NumPy's names and semantics on tensors, with the derivatives that NumPy has not."""

import inspect
import pickle
import warnings

import numpy as onp
import pytest

import lucid
import lucid.numpy as np
from lucid.numpy.arrays import DOOR
from lucid.numpy.reasons import REASONS

RANDOM = onp.random.RandomState(0)
A = RANDOM.uniform(0.2, 2.0, (3, 4))
B = RANDOM.uniform(0.2, 2.0, (3, 4))
V = onp.array([0.3, 1.7, 0.9, 1.1, 0.6])
W = onp.array([1.3, 0.4, 0.8])
S = RANDOM.uniform(-1, 1, (4, 4)) + 4 * onp.eye(4)
C = RANDOM.uniform(-1, 1, (2, 3, 4))
NANS = onp.where(A > 1.4, onp.nan, A)

# Calls as a program writes them, each a function of the namespace and arrays; all are differentiated by all arrays.
SMOOTH = {
    "arithmetic": (lambda np, x, y: x * y - x / y + x**2 - 2 * y + (-x) % 3, A, B),
    "ufuncs": (lambda np, x: np.sin(x) + np.exp(x) * np.log(x) - np.sqrt(x) + np.arctan(x) + np.cbrt(x), A),
    "binary": (lambda np, x, y: np.hypot(x, y) + np.logaddexp(x, y) + np.maximum(x, y) + np.power(x, y), A, B),
    "methods": (lambda np, x: x.sum() + x.mean(axis=0).sum() + x.T.reshape(-1)[::2].std(ddof=1) + x.max() * x.size, A),
    "dot": (lambda np, x, y: x.dot(y.T) + np.inner(x, y) + x @ y.transpose(), A, B),
    "reshape in Fortran's order": (lambda np, x: np.reshape(x, (4, 3), order="F") + x.ravel("F").reshape(4, 3), A),
    "einsum": (lambda np, x, y: np.einsum("ij,kj->ik", x, y) + np.einsum(x, [0, 1], y, [2, 1], [0, 2]), A, B),
    "einsum without a result": (
        lambda np, x: np.einsum("ij,ij", x, x) + np.einsum("ii", x[:, :3]) + np.einsum("...j->...", x),
        A,
    ),
    "chosen elements": (
        lambda np, x, y: np.sum(x, axis=0, where=y > 1.5) + np.prod(x, 0, where=[[True], [False], [True]], initial=2.0),
        A,
        B,
    ),
    "moments of chosen elements": (
        lambda np, x: (
            np.mean(x, axis=1, where=[True, True, True, False])
            + np.std(x, axis=1, ddof=1, where=[True, True, True, False])
            + x.var(axis=1, where=[False, True, True, True])
        ),
        A,
    ),
    "a first value": (
        lambda np, x, y: (
            np.max(x, axis=0, initial=1.5, where=y > 1.0) + np.min(y, 0, initial=1.2) + x.sum(0, initial=3.0)
        ),
        A,
        B,
    ),
    "rot90": (lambda np, x: np.rot90(x, 1) + np.rot90(x, -1) + np.rot90(x.T, 2), A),
    "einsum in steps": (lambda np, x, y: np.einsum("ij,kj,kl->il", x, y, y, optimize="greedy"), A, B),
    "gradient": (lambda np, x: np.gradient(x, 0.5, axis=1, edge_order=2) + np.gradient(x)[0], A),
    "gradient by coordinates": (lambda np, x: np.gradient(x, onp.array([0.0, 1.0, 3.0, 3.5]), axis=-1), A),
    "gradient by steps": (lambda np, x: np.stack(np.gradient(x, 0.5, 2.0)), A),
    "linspace": (lambda np, x, y: np.linspace(x, y, 5), V[0], V[1]),
    "linspace of arrays": (lambda np, x, y: np.linspace(x, y, 4, endpoint=False, axis=-1), A, B),
    "linspace to a tensor": (
        lambda np, x: np.linspace(0.0, x, 3) + np.geomspace(1.0, x, 3) + np.logspace(0, x, 3),
        V[1],
    ),
    "partition": (lambda np, x: np.sort(np.partition(x, 2)), V),
    "rollaxis": (lambda np, x: np.rollaxis(x, 2) + np.rollaxis(x, 2, 1).swapaxes(0, 1), C),
    "cross": (lambda np, x: np.cross(x.reshape(4, 3)[0], x.reshape(4, 3)[1:]), A),
    "cross of two and three": (lambda np, x, y: np.cross(x[:2], y), W, W[::-1].copy()),
    "cross along axes": (lambda np, x: np.cross(x, x[:, :1] * 2 + 1, axis=0), A),
    "dsplit": (lambda np, x: np.dsplit(x, 2)[1] + np.dsplit(x, [2])[0], C),
    "splits": (lambda np, x: np.hsplit(x, 2)[0].sum() + np.vsplit(x, 3)[1].sum() + np.array_split(x, 3, 1)[2].sum(), A),
    "select": (lambda np, x, y: np.select([x > 1.5, x > 1.0], [x * y, y**2], default=3.0), A, B),
    "choose": (lambda np, x, y: np.choose(onp.arange(4) % 2, [x, y]), A, B),
    "compress": (lambda np, x: np.compress([True, False, True], x, axis=0) + np.extract(onp.arange(12) < 4, x), A),
    "delete": (lambda np, x: np.delete(x, 1, axis=0).sum(0) + np.delete(x, slice(0, 8)), A),
    "insert": (lambda np, x, y: np.insert(x, [1, 3], y[:2]), V, W),
    "insert along an axis": (lambda np, x: np.insert(x, 1, 5.0, axis=1), A),
    "resize": (lambda np, x: np.resize(x, (3, 4)), V),
    "trim_zeros": (lambda np, x: np.trim_zeros(np.concatenate([onp.zeros(2), x, onp.zeros(1)])), V),
    "block": (lambda np, x, y: np.block([[x, y], [onp.ones((1, 4)), onp.zeros((1, 4))]]), A, B),
    "tile": (lambda np, x: np.tile(x, (2, 1)) + np.repeat(x, 2, axis=0), A),
    "stacks": (lambda np, x, y: np.hstack([x, y]).sum() + np.dstack([x, y]).sum(2) + np.vstack([x, y])[:3], A, B),
    "column_stack": (lambda np, x: np.column_stack([x, x**2, onp.ones(5)]), V),
    "append": (lambda np, x, y: np.append(x, y) * np.append(x, 2.0).mean(), V, W),
    "r_": (lambda np, x, y: np.r_[x, 2.0, y] * 2, V, W),
    "c_": (lambda np, x: np.c_[x, x**2], V),
    "array of numbers": (lambda np, x: np.array([[x[0], x[1] ** 2], [3.0, x[2]]]), V),
    "array of rows": (lambda np, x: np.array([x, 2 * x]), V),
    "interp": (lambda np, x, y: np.interp(x, [0.0, 1.0, 2.0], y), V, W),
    "interp outside": (lambda np, x, y: np.interp(x, onp.array([0.5, 1.0, 1.5]), y, left=-1.0, right=2.0), V, W),
    "trapezoid": (
        lambda np, x: np.trapezoid(x, dx=0.5) + np.trapezoid(x.T, onp.array([0.0, 1.0, 1.5]), axis=-1).sum(),
        A,
    ),
    "convolve": (lambda np, x, y: np.convolve(x, y), V, W),
    "convolve same": (lambda np, x, y: np.convolve(x, y, "same") + np.convolve(x, y[:2], "same"), V, W),
    "convolve valid": (lambda np, x, y: np.convolve(y, x, "valid") + np.correlate(x, y), V, W),
    "correlate": (lambda np, x, y: np.correlate(x, y, "full") + np.correlate(y, x, "full"), V, W),
    "correlate same": (lambda np, x, y: np.correlate(x, y, "same") + np.correlate(y, x, "same"), V, W),
    "cov": (lambda np, x: np.cov(x) + np.cov(x.T, rowvar=False, bias=True) + np.corrcoef(x), A),
    "cov of two": (lambda np, x, y: np.cov(x[0], y[0], ddof=0), A, B),
    "ediff1d": (lambda np, x: np.ediff1d(x, to_end=2.0), A),
    "diff": (lambda np, x: np.diff(x, axis=0).sum() + np.diff(x, 2) + np.diff(x, prepend=0)[:, 2:], A),
    "unwrap": (lambda np, x: np.unwrap(x * 5.0), V),
    "unwrap by columns": (lambda np, x: np.unwrap(x * 50.0, 4.0, 0, period=5), A),
    "heaviside": (lambda np, x: np.heaviside(x - 0.7, 0.5) * x, V),
    "nan": (lambda np, x: np.nansum(np.where(onp.isnan(NANS), onp.nan, x), axis=0), A),
    "nan folds": (
        lambda np, x: [
            f(np.where(onp.isnan(NANS), onp.nan, x), axis=0)
            for f in (np.nanmax, np.nanmin, np.nanmean, np.nanprod, np.nanvar, np.nanstd, np.nanmedian)
        ][2],
        A,
    ),
    "nan variance": (lambda np, x: np.nanvar(np.where(onp.isnan(NANS), onp.nan, x), axis=1, ddof=1), A),
    "nan extremes": (lambda np, x: np.nanmax(np.where(onp.isnan(NANS), onp.nan, x)) + np.nanmin(x), A),
    "nan scans": (lambda np, x: np.nancumsum(x, axis=0) + np.nancumprod(x, axis=1), A),
    "polyval": (lambda np, x, y: np.polyval(y, x), V, W),
    "polynomials": (lambda np, x, y: np.polyadd(x, y) - np.polysub(y, x), V, W),
    "polymul": (lambda np, x, y: np.polymul(x, y), V, W),
    "polyder": (lambda np, x: np.polyint(np.polyder(x, 2), 2), V),
    "polyfit": (lambda np, x, y: np.polyfit(x, y, 2), V, A.reshape(-1)[:5]),
    "vander": (lambda np, x: np.vander(x, 3) + np.vander(x, 3, increasing=True), V),
    "cumulative_sum": (lambda np, x: np.cumulative_sum(x, axis=0, include_initial=True), A),
    "unstack": (lambda np, x: np.unstack(x, axis=1)[2], A),
    "piecewise": (lambda np, x: np.piecewise(x, [x < 0.5, x > 1], [lambda v: v**2, lambda v: np.log(v), 7.0]), V),
    "apply_along_axis": (lambda np, x: np.apply_along_axis(lambda row: np.cumsum(row) * row[0], 0, x), A),
    "apply_along_axis to numbers": (lambda np, x: np.apply_along_axis(lambda row: np.sum(row**2), 1, x), A),
    "apply_over_axes": (lambda np, x: np.apply_over_axes(np.sum, x, [0, 2]), C),
    "full": (lambda np, x: np.full((2, 3), x[0]) * x[1], V),
    "i0": (lambda np, x: np.i0(x), V),
    "sinc": (lambda np, x: np.sinc(x), V),
    "quantiles": (lambda np, x: np.quantile(x, 0.3, axis=0) + np.percentile(x, 40) + np.median(x, axis=0), A),
    "average": (lambda np, x: np.average(x, axis=0, weights=[1.0, 2.0, 3.0]), A),
    "take": (lambda np, x: np.take(x, [2, 0], axis=1) + np.take_along_axis(x, onp.array([[1, 0]] * 3), 1), A),
    "norms": (lambda np, x: np.linalg.norm(x) + np.linalg.norm(x, axis=0) + np.linalg.norm(x, 1), A),
    "solve": (lambda np, x, y: np.linalg.solve(x, y) + np.linalg.inv(x)[0], S, V[:4]),
    "determinant": (lambda np, x: np.linalg.slogdet(x)[1] + np.linalg.det(x), S),
    "eigh": (lambda np, x: np.linalg.eigh(x + x.T)[0] + np.linalg.cholesky(x @ x.T)[3], S),
    "svd": (lambda np, x: np.linalg.svd(x, compute_uv=False), A),
    "fft": (lambda np, x: np.abs(np.fft.fft(x)) ** 2 + np.fft.irfft(np.fft.rfft(x), 5), V),
    "outer": (lambda np, x, y: np.multiply.outer(x, y) + np.add.outer(x, y) + np.outer(x, y), V, W),
    "reduce": (lambda np, x: np.add.reduce(x) + np.multiply.reduce(x, axis=0) + np.maximum.reduce(x), A),
    "accumulate": (lambda np, x: np.add.accumulate(x, axis=1) + np.multiply.accumulate(x, axis=1), A),
    "broadcasting": (lambda np, x, y: np.broadcast_to(x, (4, 3)) * y + np.expand_dims(y, 0).squeeze(), W, W),
    "vectorize": (lambda np, x, y: np.vectorize(lambda a, b: a * b + 1)(x, y), V, V[:1]),
    "roots": (lambda np, x: np.sort(np.real(np.roots(x))), onp.array([1.0, -6.0, 11.0, -6.0])),
    "real_if_close": (lambda np, x: np.real_if_close(x + 0j), V),
}
PADS = {
    "constant": {},
    "constant 2": {"constant_values": ((1.0, 2.0), (3.0, 4.0))},
    "constant 3": {"constant_values": 5},
    "edge": {},
    "linear_ramp": {"end_values": 0},
    "linear_ramp 2": {"end_values": ((3.0, 1.0), (0.0, 2.0))},
    "maximum": {},
    "maximum 2": {"stat_length": 2},
    "mean": {},
    "mean 2": {"stat_length": ((1, 2), (3, 1))},
    "median": {"stat_length": 3},
    "minimum": {},
    "reflect": {},
    "reflect 2": {"reflect_type": "odd"},
    "symmetric": {},
    "symmetric 2": {"reflect_type": "odd"},
    "wrap": {},
}


def padded(mode, settings):
    return lambda np, x: np.pad(x, ((1, 2), (4, 3)), mode, **settings)


SMOOTH |= {f"pad {mode}": (padded(mode.split()[0], settings), A) for mode, settings in PADS.items()}


def same(found, wanted, **tolerance):
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w, **tolerance)
        return
    onp.testing.assert_allclose(onp.asarray(found), wanted, **{"rtol": 1e-10, "atol": 1e-12, **tolerance})
    assert onp.shape(found) == onp.shape(wanted)
    assert onp.asarray(found).dtype == onp.asarray(wanted).dtype


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_values(name):
    call, *arrays = SMOOTH[name]
    found = call(np, *(np.array(a) for a in arrays))
    assert type(found) is np.ndarray
    same(found, call(onp, *arrays))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients(name):
    call, *arrays = SMOOTH[name]
    tensors = [np.array(a).requires_grad_() for a in arrays]
    for k in range(len(tensors)):

        def of_one(x, k=k):
            return call(np, *tensors[:k], np.asarray(x), *tensors[k + 1 :])

        with DOOR.inside():  # since the checker's own tensors are of no class
            lucid.autograd.gradcheck(of_one, (tensors[k],), check_forward_ad=True)


NOT_BATCHED = {
    "trim_zeros": "asks for values", "piecewise": "asks for values", "roots": "asks for values",
    "real_if_close": "asks for values",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SMOOTH.keys() - NOT_BATCHED))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_vmap(name):
    call, *arrays = SMOOTH[name]
    batches = [np.array(onp.stack([a, a + 0.11])) for a in arrays]
    found = lucid.func.vmap(lambda *xs: call(np, *xs))(*batches)
    for i in range(2):
        same(found[i], call(onp, *[onp.asarray(b[i]) for b in batches]))


TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", [*TYPES, 2, 2.5, 1j, onp.float64(2), onp.float32(1)])
def test_promotion(first, second):
    x = onp.ones(2, first)
    y = onp.ones((), second) if isinstance(second, str) else second
    other = np.array(y) if isinstance(second, str) else y
    for operation in ("add", "multiply", "true_divide"):
        wanted = getattr(onp, operation)(x, y).dtype
        assert getattr(np, operation)(np.array(x), other).dtype == wanted, operation
        assert getattr(onp, operation)(np.array(x), other).dtype == wanted
    assert (np.array(x) * other).dtype == (x * y).dtype
    assert (other * np.array(x)).dtype == (y * x).dtype


@pytest.mark.parametrize("kind", TYPES)
def test_types_of_functions(kind):
    x = onp.ones(3, kind)
    for function in ("sin", "exp", "sqrt", "mean", "sum", "prod", "cumsum", "max", "argmax", "abs", "square", "std"):
        if kind.startswith("complex") and function in ("max", "argmax"):
            continue
        if (kind, function) in {("uint8", "sum"), ("uint8", "prod"), ("uint8", "cumsum")}:
            continue  # int64 here, uint64 in NumPy
        if kind == "bool" and function == "square":
            continue
        found, wanted = getattr(np, function)(np.array(x)), getattr(onp, function)(x)
        assert found.dtype == wanted.dtype, function


def test_without_tensors_numpy_computes():
    assert type(np.sqrt(2.0)) is onp.float64
    assert type(np.sqrt([1.0, 4.0])) is np.ndarray
    for found, wanted in (
        (np.zeros(3), onp.zeros(3)),
        (np.arange(4), onp.arange(4)),
        (np.eye(2), onp.eye(2)),
        (np.mgrid[0:2, 0:3], onp.mgrid[0:2, 0:3]),
        (np.tri(3), onp.tri(3)),
        (np.linspace(0, 1, 4), onp.linspace(0, 1, 4)),
        (np.fromfunction(lambda i, j: i * j, (2, 3)), onp.fromfunction(lambda i, j: i * j, (2, 3))),
    ):
        assert type(found) is np.ndarray
        same(found, wanted)
    assert np.array(["a"]).dtype.kind == "U"


def test_every_name_of_numpy_is_there_or_has_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = {name for name in onp.__all__ if not hasattr(np, name)}
    assert missing == {name for name in REASONS if name in onp.__all__}
    assert len(missing) < 0.08 * len(onp.__all__)
    assert all(hasattr(np.linalg, n) for n in onp.linalg.__all__)
    assert all(hasattr(np.fft, n) for n in onp.fft.__all__)
    assert all(hasattr(np.random, n) for n in onp.random.__all__)
    with pytest.raises(AttributeError, match="strings"):
        np.char  # noqa: B018  (it raises)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        np.nonsense  # noqa: B018  (it raises)


def test_every_name_can_be_used():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in np.__all__:
            getattr(np, name)
    assert set(np.__all__) <= set(dir(np))


def test_arrays():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert x.size == 4 and x.shape == (2, 2) and x.ndim == 2 and x.nbytes == 32 and x.strides == (16, 8)
    assert x.dtype == onp.float64 and x.dtype == "float64" and x.dtype == float
    assert (
        isinstance(x, np.ndarray) and isinstance(lucid.ones(2), np.ndarray) and not isinstance(onp.ones(2), np.ndarray)
    )
    assert repr(x) == repr(onp.asarray(x)) and str(x) == str(onp.asarray(x))
    assert x.item(1, 0) == 3 and x.item(1) == 2 and x[0, 0].item() == 1 and list(x.flat)[3] == 4
    assert x.astype(int).dtype == int and x.astype("float32").dtype == onp.float32
    y = x.copy()
    y[0] = 9
    y += 1
    assert y.tolist() == [[10, 10], [4, 5]] and x[0, 0] == 1
    x.T[0, 1] = 7
    assert x[1, 0] == 7 and x.T.base is not None
    x.fill(2)
    assert x.flatten().tolist() == [2, 2, 2, 2] and x.tobytes() == onp.full((2, 2), 2.0).tobytes()
    z = np.array([3, 1, 2])
    z.sort()
    assert z.tolist() == [1, 2, 3] and z.transpose().tolist() == [1, 2, 3]
    assert C.transpose(2, 0, 1).shape == np.array(C).transpose(2, 0, 1).shape == np.array(C).transpose((2, 0, 1)).shape
    assert np.array(C).mT.shape == (2, 4, 3)
    assert np.ndarray((2, 3)).shape == (2, 3)
    copied = pickle.loads(pickle.dumps(x))
    assert type(copied) is np.ndarray and copied.tolist() == x.tolist()
    with pytest.raises(ValueError, match="resize"):
        x.resize(3)


def test_methods_have_numpys_signatures():
    x = np.array(C)
    for name in ("sum", "mean", "std", "var", "max", "min", "prod", "argmax", "cumsum", "all", "any"):
        same(getattr(x, name)(axis=1), getattr(C, name)(axis=1))
        if name not in ("cumsum",):
            same(getattr(x, name)(axis=1, keepdims=True), getattr(C, name)(axis=1, keepdims=True))
    same(x.take([0, 2], axis=1), C.take([0, 2], axis=1))
    same(x.repeat(2), C.repeat(2))
    same(x.clip(0, 0.5), C.clip(0, 0.5))
    same(x.round(1), C.round(1))
    same(x.squeeze(), C.squeeze())
    same(x.swapaxes(0, 2), C.swapaxes(0, 2))
    same(x.trace(axis1=1, axis2=2), C.trace(axis1=1, axis2=2))
    same(x.argsort(axis=0), C.argsort(axis=0))
    same(x.nonzero(), C.nonzero())
    same(x.reshape((3, -1), order="F"), C.reshape((3, -1), order="F"))


def test_ufuncs():
    x = np.array([1.0, 2.0, 3.0])
    assert np.add.nin == 2 and np.sin.__name__ == "sin" and isinstance(np.sin, np.ufunc)
    np.add.at(x, [0, 0, 1], 1.0)
    np.multiply.at(x, [2, 2], 2.0)
    np.subtract.at(x, slice(0, 2), 0.5)
    assert x.tolist() == [2.5, 2.5, 12]
    table = np.zeros((2, 3))
    np.add.at(table, ([0, 0, 1], [1, 1, 2]), [1.0, 2.0, 3.0])
    np.add.at(table, (np.array([0, 0]), np.array([0, 0])), 1.0)
    np.maximum.at(table, (slice(None), [2]), 2.5)
    assert table.tolist() == [[2, 3, 2.5], [0, 0, 3]]
    with pytest.raises(TypeError, match=r"negative\.at"):
        np.negative.at(table, ([0], [0]))
    table.flat[[0, 5]] = 7
    table.T.flat[1] = -1
    assert (table.tolist(), len(table.flat), table.flat[1:3].tolist()) == ([[7, 3, 2.5], [-1, 0, 7]], 6, [3, 2.5])
    table.flat = [1, 2]
    assert table.tolist() == [[1, 2, 1], [2, 1, 2]] and [*table.flat][:2] == [1, 2]
    out = np.zeros(3)
    assert np.add(x, 1, out=out) is out and out.tolist() == [3.5, 3.5, 13]
    whole = np.array([1, 2], dtype=np.int8)
    with pytest.raises(TypeError, match="cannot be cast"):
        np.add(whole, 0.5, out=whole)
    assert np.add(whole, 1.5, out=whole, casting="unsafe").tolist() == [2, 3]
    square = shown = np.eye(2)
    square @= np.ones((2, 2))
    assert square is shown and shown.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="shape"):
        square @= np.ones((2, 3))
    assert square.tolist() == [[1, 1], [1, 1]]
    same(np.add.reduceat(np.arange(8.0), [0, 4, 1]), onp.add.reduceat(onp.arange(8.0), [0, 4, 1]))
    same(np.divmod(np.array([7.0, -7.0]), 3), onp.divmod(onp.array([7.0, -7.0]), 3))
    same(np.frexp(np.array([3.0])), onp.frexp(onp.array([3.0])))


def test_the_gradient_of_at():
    def f(x, v):
        y = x * 1.0
        np.add.at(y, [0, 0, 2], v)
        np.maximum.at(y, [1, 1], v[:2])
        return y

    lucid.autograd.gradcheck(f, (np.array(W).requires_grad_(), np.array(V[:3]).requires_grad_()))


class TestDerivatives:
    def test_of_numbers(self):
        assert float(np.grad(lambda x: x**3)(2.0)) == 12
        assert float(np.grad(np.grad(np.sin))(0.5)) == pytest.approx(-onp.sin(0.5))
        value, slope = np.value_and_grad(lambda x, y: x * y, 1)(3.0, 5.0)
        assert (float(value), float(slope)) == (15, 3)
        both = np.grad(lambda x, y: x * y, (0, 1))(3.0, 5.0)
        assert [float(g) for g in both] == [5, 3]

    def test_of_nests(self):
        point = {"a": (1.0, onp.array([1.0, 2.0])), "b": [[3.0], 4.0]}

        def f(p):
            return p["a"][0] * np.sum(p["a"][1] ** 2) + p["b"][0][0] * p["b"][1]

        found = np.grad(f)(point)
        assert float(found["a"][0]) == 5 and found["a"][1].tolist() == [2, 4]
        assert float(found["b"][0][0]) == 4 and float(found["b"][1]) == 3
        assert all(type(leaf) is np.ndarray for leaf in lucid.tree.leaves(found))

    def test_of_arrays_of_numpys(self):
        x = onp.arange(3.0)
        found = np.grad(lambda x, m: np.sum(m.dot(x) ** 2))(x, onp.eye(3))
        assert type(found) is np.ndarray
        same(found, 2 * x)

    def test_wholes(self):
        x = onp.array([0.5, 1.5])
        same(np.jacobian(lambda x: x**2)(x), onp.diag(2 * x))
        same(np.hessian(lambda x: np.sum(x**3))(x), onp.diag(6 * x))
        same(np.elementwise_grad(lambda x: x**3)(x), 3 * x**2)
        same(np.hessian_vector_product(lambda x: np.sum(x**3))(x, x), 6 * x * x)
        same(np.make_hvp(lambda x: np.sum(x**3))(x)[0](x), 6 * x * x)
        same(np.make_vjp(np.sin)(x)[0](x), np.cos(x).numpy() * x)
        same(np.make_jvp(np.sin)(x)(x)[1], onp.cos(x) * x)
        same(np.vjp(np.sin, x)[1](x)[0], onp.cos(x) * x)
        same(np.jvp(np.sin, (x,), (x,))[1], onp.cos(x) * x)
        same(np.grad_and_aux(lambda x: (np.sum(x), x))(x)[0], onp.ones(2))

    def test_products_and_names(self):
        x, matrix = onp.array([0.5, 1.5]), onp.array([[1.0, 2.0], [3.0, 5.0]])
        full = matrix.T @ matrix * onp.outer(2 * x, 2 * x)  # of |matrix x²|² / 2, without the bend of x²
        same(np.make_ggnvp(lambda x: np.dot(matrix, x**2))(x)(x), full @ x)
        same(np.deriv(lambda t, s: np.array([s * t, t**3]))(2.0, 5.0), [5.0, 12.0])
        same(np.grad_named(lambda a, b: np.sum(a * b**2), "b")(x, x), 2 * x * x)
        found = np.multigrad_dict(lambda a, b=3.0: np.sum(a) * b)(x)
        same(found["a"], [3.0, 3.0])
        same(found["b"], 2.0)
        same(np.tensor_jacobian_product(lambda x: np.outer(x, x))(x, matrix), matrix @ x + matrix.T @ x)
        same(np.vector_jacobian_product(lambda x: np.dot(matrix, x))(x, x), x @ matrix)
        same(np.hessian_tensor_product(lambda x: np.sum(x**3))(x, x), 6 * x * x)

    def test_tape_and_transforms(self):
        x = np.array([1.0, 2.0], dtype=float).requires_grad_()
        np.sum(np.exp(x)).backward()
        assert type(x.grad) is np.ndarray
        same(x.grad, onp.exp([1.0, 2.0]))
        found = lucid.func.vmap(np.grad(lambda v: np.sum(v**3)))(np.array([[1.0], [2.0]]))
        same(found, [[3.0], [12.0]])

    def test_attributes_inside_of_transforms(self):
        seen = []

        def f(x):
            seen.append((x.size, x.dtype, x.is_floating_point(), isinstance(x, np.ndarray)))
            return (x.mean(axis=0) * x.T.reshape(-1)[0]).sum()

        lucid.func.vmap(f)(np.array(C))
        lucid.func.jvp(f, (np.array(A),), (np.array(A),))
        np.grad(f)(A)
        assert seen == [(12, onp.dtype(float), True, True)] * 3

    def test_a_gradient_is_not_lost_silently(self):
        x = np.array(V).requires_grad_()
        for call in (lambda: np.spacing(x), lambda: np.random.normal(x)):
            with pytest.raises(TypeError, match="detach"):
                call()


def test_random_numbers_are_numpys_own():
    onp.random.seed(3)
    wanted = onp.random.randn(3), onp.random.RandomState(1).rand(2), onp.random.default_rng(2).normal(size=2)
    np.random.seed(3)
    found = np.random.randn(3), np.random.RandomState(1).rand(2), np.random.default_rng(2).normal(size=2)
    assert all(type(f) is np.ndarray for f in found)
    same(found, wanted)


def test_functions_say_what_they_are():
    assert np.mean.__name__ == "mean" and "mean" in np.mean.__doc__
    assert inspect.signature(np.mean).parameters["keepdims"]


def test_other_classes_keep_their_promotion():
    assert (lucid.tensor([1]) / lucid.tensor([2])).dtype is lucid.float32
    assert onp.sin(lucid.tensor([1])).dtype is lucid.float32
    assert lucid.func.vmap(lambda x: x.sum(dim=0))(lucid.ones(2, 3)).tolist() == [3, 3]
    assert lucid.func.vmap(lambda x: (x.size(), x.max(0).values)[1])(lucid.ones(2, 3)).tolist() == [1, 1]


def test_windows_and_strides():
    from lucid.numpy.lib.stride_tricks import as_strided, sliding_window_view

    own = onp.lib.stride_tricks
    for given, axis in ((3, 1), ((2, 3), None), ((2, 2), (1, 0)), ((2, 2), (1, 1)), (2, -1)):
        same(sliding_window_view(np.array(A), given, axis), own.sliding_window_view(A, given, axis))
    with pytest.raises(ValueError, match="axes"):
        sliding_window_view(np.array(A), 2)
    assert [*np.ndenumerate(np.array(A))] == [*onp.ndenumerate(A)]
    x = np.arange(6.0)
    same(as_strided(x, (3, 2), (8, 16)), own.as_strided(onp.arange(6.0), (3, 2), (8, 16)))
    same(np.grad(lambda x: (np.lib.stride_tricks.sliding_window_view(x, 3) ** 2).sum())(x), 2 * x * [1, 2, 3, 3, 2, 1])
    with pytest.raises(ValueError, match="multiples of 8"):
        as_strided(x, (2,), (4,))


def test_gradients_by_complex_numbers_are_those_of_autograd():
    """They are ∂f/∂x - i ∂f/∂y, the conjugates of Lucid's; a vjp transposes and conjugates nothing."""
    z, w = onp.array([1.0 + 2.0j, -0.5 + 0.3j]), onp.array([0.2 - 1.0j, 3.0 + 0.5j])

    def size(z):
        return np.sum(np.real(z * np.conj(z)) + np.imag(z**3))

    expected = 2 * z.conj() - 3j * z**2
    for found in (
        np.grad(size)(z),
        np.value_and_grad(size)(z)[1],
        np.grad_and_aux(lambda z: (size(z), 0))(z)[0],
        np.elementwise_grad(lambda z: np.real(z * np.conj(z)) + np.imag(z**3))(z),
        np.jacobian(size)(z),
        np.jacobian(lambda z: np.stack([np.sum(z.real), size(z)]))(z)[1],
        np.vjp(size, z)[1](1.0)[0],
        np.grad(lambda p: size(p["z"]))({"z": z})["z"],
    ):
        onp.testing.assert_allclose(onp.asarray(found), expected)
    onp.testing.assert_allclose(onp.asarray(np.make_vjp(lambda z: z**3)(z)[0](w)), 3 * z**2 * w)
    onp.testing.assert_allclose(onp.asarray(np.jacobian(lambda z: z**3)(z)), onp.diag(3 * z**2))
    onp.testing.assert_allclose(onp.asarray(np.holomorphic_grad(lambda z: np.sum(z**3))(z)), 3 * z**2)
    onp.testing.assert_allclose(onp.asarray(np.grad(lambda x: np.real(np.exp(1j * x)))(0.5)), -onp.sin(0.5))


def alike(found, want):
    """Both have the same elements in the same type."""
    found = onp.asarray(found)
    assert found.dtype == want.dtype and found.shape == want.shape
    onp.testing.assert_allclose(found, want, 1e-14 if want.dtype.itemsize >= 8 else 1e-6)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32", "float32", "float64"])
@pytest.mark.parametrize("number", [3, 0.1, [100, 100, 100], [0.1, 0.2, 0.3]])
def test_numbers_and_lists_are_arrays_of_their_own_types(kind, number):
    """Functions that make arrays of their arguments do not let numbers follow them, as operators do."""
    own = onp.array([100, 3, 7], kind)
    x = np.array(own)
    for name in ("outer", "inner", "dot", "kron", "convolve", "append", "polyadd", "polymul"):
        alike(getattr(np, name)(x, number), getattr(onp, name)(own, number))
    alike(np.hstack([x, number]), onp.hstack([own, number]))
    for name in ("atleast_1d", "broadcast_arrays", "meshgrid"):
        for found, want in zip(getattr(np, name)(x, number), getattr(onp, name)(own, number), strict=True):
            alike(found, want)
    alike(np.diff(x, prepend=number), onp.diff(own, prepend=number))


@pytest.mark.parametrize("number", [2.5, onp.float64(2.5), 2, 3])
@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "float32"])
def test_integers_become_floats_of_the_types_of_numpy(kind, number):
    own = onp.array([3, 1, 2], kind)
    x = np.array(own)
    alike(x**number, own**number)
    alike(np.clip(x, 0.5, number), onp.clip(own, 0.5, number))
    alike(np.linspace(x, number, 4), onp.linspace(own, number, 4))
    alike(np.select([x > 1], [x], 2.5), onp.select([own > 1], [own], 2.5))


def test_types_of_arrays_meet_as_in_numpy():
    whole, single = onp.array([3, 2**30 + 1, 2]), onp.array([0.5, 3, 7], onp.float32)
    for a, b in ((whole, single), (single, whole), (single, whole / 3)):
        for name in ("tensordot", "inner", "kron", "linspace"):
            rest = (1,) if name == "tensordot" else ()
            alike(getattr(np, name)(np.array(a), np.array(b), *rest), getattr(onp, name)(a, b, *rest))
    alike(np.vander(np.array([100, 3], dtype=np.int8), 3), onp.vander(onp.array([100, 3], onp.int8), 3))
    alike(np.arange(np.array(2.5)), onp.arange(2.5))


def test_integers_without_nan_keep_all_their_digits():
    own = onp.array([[2**62 + 1, 2**62], [3, -5]])
    for name in ("nanmax", "nanmin", "nanprod", "nanargmax", "nanargmin"):
        for axis in (None, 0, 1):
            alike(getattr(np, name)(np.array(own), axis=axis), onp.asarray(getattr(onp, name)(own, axis=axis)))
    for name in ("fabs", "rint", "modf"):
        alike(np.asarray(getattr(np, name)(np.array(own[1]))), onp.asarray(getattr(onp, name)(own[1])))


def test_results_go_where_the_caller_says():
    own = onp.array([[3, -1], [1, 7], [2, 2]])
    for name in ("mean", "var", "std"):  # computed by NumPy: only the place for the result is a tensor
        place = np.zeros(2)
        getattr(np, name)(own, axis=0, out=place)
        alike(place, getattr(onp, name)(own, axis=0))
    x, place = np.array([0.5, 1.5]), np.zeros(2)
    assert np.exp(x, place) is place and np.add(x, 1, place) is place
    alike(place, onp.array([1.5, 2.5]))
    fraction, exponent = np.frexp(x, place)
    assert fraction is place and exponent.tolist() == [0, 1]
    with pytest.raises(TypeError):
        np.exp(x, place, place)


def test_nan_is_one_value_vectors_fill_triangles_and_nothing_has_no_median():
    own = onp.array([1.0, onp.nan, onp.nan, 0.5])
    alike(np.unique(np.array(own)), onp.unique(own))
    alike(np.tril(np.array(own[:1] + onp.arange(3))), onp.tril(1 + onp.arange(3.0)))
    alike(np.triu(np.arange(3.0), 1), onp.triu(onp.arange(3.0), 1))
    alike(np.full_like(np.zeros((2, 3)), np.arange(3)), onp.full_like(onp.zeros((2, 3)), onp.arange(3)))
    with pytest.warns(RuntimeWarning):
        assert onp.isnan(np.median(np.zeros((0, 3))))
