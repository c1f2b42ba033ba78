"""The array API standard: `lucid.array_api` beside array-api-strict, function by function.

Signatures are compared with the strict implementation's, results (types, shapes, values, names of fields) on generated
input. A case is a function of a namespace and a maker of arrays, so that both sides compute the same thing.
"""

import inspect
import itertools

import array_api_strict as strict
import numpy as np
import pytest

import lucid
from lucid import array_api

VERSION = "2024.12"
LATER = {"broadcast_shapes", "isin", "eig", "eigvals"}  # of the version after
PLAIN = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
TYPES = [*PLAIN, "complex64", "complex128"]
UNSIGNED, SIGNED = [t for t in TYPES if t[0] == "u"], [t for t in TYPES if t[:3] == "int"]
INTS, FLOATS, COMPLEX = [*UNSIGNED, *SIGNED], ["float32", "float64"], ["complex64", "complex128"]
REAL, NUMERIC = [*INTS, *FLOATS], [*INTS, *FLOATS, *COMPLEX]


@pytest.fixture(autouse=True, scope="module")
def version():
    strict.set_array_api_strict_flags(api_version=VERSION)
    yield
    strict.reset_array_api_strict_flags()


# --- signatures -----------------------------------------------------------------------------------

SPACES = {"": (strict, array_api), "linalg.": (strict.linalg, array_api.linalg), "fft.": (strict.fft, array_api.fft)}


def functions():
    for prefix, (theirs, ours) in SPACES.items():
        for name in theirs.__all__:
            value = getattr(theirs, name)
            if inspect.isfunction(value) and "flags" not in name and name not in LATER:
                yield prefix + name, value, getattr(ours, name, None)


FUNCTIONS = {name: (theirs, ours) for name, theirs, ours in functions()}


def test_the_table_is_complete():
    assert len(FUNCTIONS) == 171


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_signature(name):
    theirs, ours = FUNCTIONS[name]
    assert ours is not None, f"{name} is missing"
    want, found = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    assert [(p.name, p.kind) for p in found.values()] == [(p.name, p.kind) for p in want.values()]
    for parameter in want.values():
        # The strict implementation has a mark of its own for "not given".
        default = None if "UNDEF" in str(parameter.default) else parameter.default
        assert found[parameter.name].default == default


def test_names_are_there():
    for name in [*TYPES, "e", "inf", "nan", "newaxis", "pi", "__array_api_version__"]:
        assert hasattr(array_api, name)
    assert array_api.__array_api_version__ == lucid.__array_api_version__ == VERSION
    assert [getattr(array_api, c) for c in ("e", "inf", "newaxis", "pi")] == [np.e, np.inf, None, np.pi]
    assert np.isnan(array_api.nan)
    assert set(array_api.__all__) >= {n for n in strict.__all__ if n.islower() and "flags" not in n} - LATER - {
        "__version__"
    }


# --- results --------------------------------------------------------------------------------------


class Maker:
    """Arrays for one namespace, the same for each that is asked in the same order."""

    def __init__(self, xp):
        self.xp = xp
        self.random = np.random.default_rng(0)

    def __call__(self, dtype="float64", shape=(2, 3), low=None, high=None):
        random, kind = self.random, np.dtype(dtype).kind
        if kind == "b":
            values = random.random(shape) < 0.5
        elif kind in "iu":
            values = random.integers(*(1 if low is None else low, 6 if high is None else high), shape)
        else:
            values = random.uniform(*(-2 if low is None else low, 2 if high is None else high), shape)
            if kind == "c":
                values = values + 1j * random.uniform(-2, 2, shape)
        return self.of(values, dtype)

    def of(self, values, dtype="float64"):
        values = np.asarray(values, dtype)
        if not values.size:
            return self.xp.zeros(values.shape, dtype=self.type(dtype))
        return self.xp.asarray(values.tolist(), dtype=self.type(dtype))

    def type(self, name):
        return getattr(self.xp, name)

    def definite(self, dtype="float64", n=3):
        x = self.random.uniform(-1, 1, (2, n, n))
        x = x @ x.swapaxes(-1, -2) + n * np.eye(n)
        return self.of(x, dtype)


CASES: dict[str, list] = {}


def case(name, call):
    CASES.setdefault(name, []).append(call)


def describe(value):
    """What a result is, in terms that both sides have."""
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        return (fields, [describe(v) for v in value])
    if hasattr(value, "shape"):
        array = np.from_dlpack(value) if isinstance(value, strict._array_object.Array) else np.asarray(value)
        return (str(value.dtype).rpartition(".")[2], tuple(value.shape), array)
    return value


def same(found, wanted):
    if isinstance(wanted, np.ndarray):
        tolerance = 1e-5 if wanted.dtype in (np.float32, np.complex64) else 1e-11
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    elif isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w)
    else:
        assert found == wanted


def run(name, call):
    with np.errstate(all="ignore"):
        wanted = describe(call(strict, Maker(strict)))
    same(describe(call(array_api, Maker(array_api))), wanted)


UNARY = {
    **dict.fromkeys(["abs", "negative", "sign", "square", "positive"], NUMERIC),
    **dict.fromkeys(["ceil", "floor", "trunc"], REAL),
    **dict.fromkeys(["isfinite", "isinf", "isnan", "conj", "round"], NUMERIC),
    **dict.fromkeys(
        ["cos", "cosh", "exp", "expm1", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"], FLOATS + COMPLEX
    ),
    **dict.fromkeys(["atan", "asinh", "log", "log1p", "log2", "log10"], FLOATS + COMPLEX),
    **dict.fromkeys(["acos", "asin", "atanh", "acosh"], FLOATS + COMPLEX),
    **dict.fromkeys(["real", "imag"], COMPLEX),
    "signbit": FLOATS,
    "bitwise_invert": ["bool", *INTS],
    "logical_not": ["bool"],
}
BETWEEN = {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.9, 0.9), "acosh": (1, 3), "sqrt": (0, 3)}
BETWEEN |= dict.fromkeys(["log", "log2", "log10"], (0.1, 3)) | {"log1p": (-0.9, 3)}

BINARY = {
    **dict.fromkeys(["add", "subtract", "multiply", "equal", "not_equal"], NUMERIC),
    **dict.fromkeys(["divide"], FLOATS + COMPLEX),
    **dict.fromkeys(["floor_divide", "remainder", "maximum", "minimum"], REAL),
    **dict.fromkeys(["greater", "greater_equal", "less", "less_equal"], REAL),
    **dict.fromkeys(["atan2", "copysign", "hypot", "logaddexp", "nextafter"], FLOATS),
    **{key: ["bool", *INTS] for key in ["bitwise_and", "bitwise_or", "bitwise_xor"]},
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], INTS),
    **{key: ["bool"] for key in ["logical_and", "logical_or", "logical_xor"]},
    "pow": NUMERIC,
}
# uint64 beside signed integers is left open by the standard, and floats beside integers too.
GROUPS = [UNSIGNED, SIGNED, [*UNSIGNED[:-1], *SIGNED], FLOATS, FLOATS + COMPLEX, ["bool"]]


def mixes(types):
    """Pairs of types that promote together."""
    pairs = {(a, b) for group in GROUPS for a, b in itertools.product(group, group) if a in types and b in types}
    return sorted(pairs)


for unary_name, types in UNARY.items():
    for t in types:
        low, high = BETWEEN.get(unary_name, (None, None)) if t in FLOATS else (None, None)
        for s in ((2, 3), (), (0,)):
            case(
                unary_name,
                lambda xp, a, f=unary_name, t=t, s=s, low=low, high=high: getattr(xp, f)(a(t, s, low, high)),
            )
for binary_name, types in BINARY.items():
    for t, u in mixes(types):
        case(binary_name, lambda xp, a, f=binary_name, t=t, u=u: getattr(xp, f)(a(t), a(u)))
        # Arrays without dimensions count in full.
        case(binary_name, lambda xp, a, f=binary_name, t=t, u=u: getattr(xp, f)(a(t), a(u, ())))
        case(binary_name, lambda xp, a, f=binary_name, t=t, u=u: getattr(xp, f)(a(t, ()), a(u, (3, 1))))
    for t in types:
        number = True if t == "bool" else 2 if t in INTS else 1.5 if t in FLOATS else 1.5 + 0.5j
        case(binary_name, lambda xp, a, f=binary_name, t=t, n=number: getattr(xp, f)(a(t), n))
        case(binary_name, lambda xp, a, f=binary_name, t=t, n=number: getattr(xp, f)(n, a(t)))
        if t in FLOATS + COMPLEX:
            case(binary_name, lambda xp, a, f=binary_name, t=t: getattr(xp, f)(a(t, ()), 2))

for t in REAL:
    case("clip", lambda xp, a, t=t: xp.clip(a(t), 2, 4))
    case("clip", lambda xp, a, t=t: xp.clip(a(t), a(t, (3,), 1, 2), None))
    case("clip", lambda xp, a, t=t: xp.clip(a(t), max=a(t, (2, 1), 2, 3)))
case("clip", lambda xp, a: xp.clip(a()))
case("clip", lambda xp, a: xp.clip(a("float32"), a.of(-1.0), a.of(1.0)))

# creation
case("arange", lambda xp, a: [xp.arange(5), xp.arange(2, 9, 3), xp.arange(5, 1), xp.arange(5, 1, -2)])
case("arange", lambda xp, a: xp.arange(0.0, 1.0, 0.25, dtype=xp.float64))
case("arange", lambda xp, a: [xp.arange(3, dtype=a.type(t)) for t in REAL])
case("asarray", lambda xp, a: [xp.asarray([[1, 2], [3, 4]]), xp.asarray(True), xp.asarray([1, 2], dtype=xp.float32)])
case("asarray", lambda xp, a: [xp.asarray(a(t), copy=c) for t in TYPES for c in (None, True, False)])
case("asarray", lambda xp, a: xp.asarray(a("int32"), dtype=xp.float64))
case("asarray", lambda xp, a: [xp.asarray(np.ones(2, np.uint16)), xp.asarray(memoryview(b"abc"))])
case("empty", lambda xp, a: [xp.empty((2, 0), dtype=a.type(t)) for t in TYPES])
case("empty_like", lambda xp, a: [xp.empty_like(a("int8", (0, 2))), xp.empty_like(a(shape=(0,)), dtype=xp.float32)])
case(
    "eye", lambda xp, a: [xp.eye(3, dtype=xp.float32), xp.eye(2, 4, k=1, dtype=xp.int8), xp.eye(3, k=-1, dtype=xp.bool)]
)
case("from_dlpack", lambda xp, a: [xp.from_dlpack(a(t)) for t in TYPES])
case("from_dlpack", lambda xp, a: xp.from_dlpack(np.arange(6.0).reshape(2, 3).T))
case("full", lambda xp, a: [xp.full((2,), 7), xp.full(3, True), xp.full((), 2.5, dtype=xp.float64)])
case("full", lambda xp, a: [xp.full((2,), 1, dtype=a.type(t)) for t in TYPES])
case("full_like", lambda xp, a: [xp.full_like(a(t), 1) for t in NUMERIC] + [xp.full_like(a(), 3, dtype=xp.int16)])
case(
    "linspace",
    lambda xp, a: [xp.linspace(0, 1, n, dtype=xp.float64, endpoint=e) for n in (0, 1, 5) for e in (True, False)],
)
case("linspace", lambda xp, a: xp.linspace(0, 1 + 2j, 5, dtype=xp.complex128))
case("meshgrid", lambda xp, a: xp.meshgrid(a(shape=(2,)), a(shape=(3,)), a(shape=(4,))))
case("meshgrid", lambda xp, a: xp.meshgrid(a("int32", (2,)), a("int32", (3,)), indexing="ij"))
for filled in ("ones", "zeros"):
    case(filled, lambda xp, a, f=filled: [getattr(xp, f)((2, 3), dtype=a.type(t)) for t in TYPES])
    case(filled, lambda xp, a, f=filled: getattr(xp, f)(3, dtype=xp.float64))
    like = filled + "_like"
    case(like, lambda xp, a, f=like: [getattr(xp, f)(a(t)) for t in TYPES] + [getattr(xp, f)(a(), dtype=xp.int8)])
for triangle in ("tril", "triu"):
    case(triangle, lambda xp, a, f=triangle: [getattr(xp, f)(a(t, (2, 3, 4)), k=k) for t in TYPES for k in (-1, 0, 2)])

# data types
case(
    "astype", lambda xp, a: [xp.astype(a(t), a.type(u)) for t in PLAIN for u in TYPES if (t, u[0]) != ("float64", "u")]
)
case("astype", lambda xp, a: xp.astype(a("float32"), xp.float32, copy=False))
case("can_cast", lambda xp, a: [xp.can_cast(a.type(t), a.type(u)) for t in TYPES for u in TYPES])
case("can_cast", lambda xp, a: xp.can_cast(a("float32"), xp.float64))
case(
    "finfo",
    lambda xp, a: [
        (i.bits, i.eps, i.max, i.min, i.smallest_normal, i.dtype == a.type(u))
        for t, u in zip(FLOATS + COMPLEX, FLOATS * 2, strict=True)
        for i in (xp.finfo(a.type(t)), xp.finfo(a(t)))
    ],
)
case("iinfo", lambda xp, a: [(i.bits, i.max, i.min) for t in INTS for i in (xp.iinfo(a.type(t)), xp.iinfo(a(t)))])
case(
    "isdtype",
    lambda xp, a: [
        xp.isdtype(a.type(t), kind)
        for t in TYPES
        for kind in (
            *["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"],
            xp.float32,
            ("bool", xp.int8),
            (),
        )
    ],
)
case(
    "result_type", lambda xp, a: [str(xp.result_type(a.type(t), a(u, ()))).rpartition(".")[2] for t, u in mixes(TYPES)]
)
case("result_type", lambda xp, a: str(xp.result_type(xp.float32, 1.0, a("float32"))).rpartition(".")[2])

# indexing, linear algebra, manipulation
case("take", lambda xp, a: [xp.take(a(), xp.asarray([1, 0, 1]), axis=k) for k in (0, 1, -1)])
case("take", lambda xp, a: xp.take(a(shape=(4,)), xp.asarray([3, 0])))
case("take_along_axis", lambda xp, a: xp.take_along_axis(a(), xp.asarray([[0, 2], [1, 1]])))
case("take_along_axis", lambda xp, a: xp.take_along_axis(a(), xp.asarray([[0, 1, 0]]), axis=0))
for prefix in ("", "linalg."):

    def space(xp, prefix=prefix):
        return xp.linalg if prefix else xp

    case(
        prefix + "matmul", lambda xp, a, g=space: [g(xp).matmul(a(t, (2, 3)), a(u, (3, 2))) for t, u in mixes(NUMERIC)]
    )
    case(prefix + "matmul", lambda xp, a, g=space: g(xp).matmul(a(shape=(4, 1, 2, 3)), a(shape=(5, 3, 2))))
    case(prefix + "matmul", lambda xp, a, g=space: [g(xp).matmul(a(shape=(3,)), a(shape=(2, 3, 4)))])
    case(prefix + "matrix_transpose", lambda xp, a, g=space: g(xp).matrix_transpose(a(shape=(2, 3, 4))))
    case(prefix + "tensordot", lambda xp, a, g=space: g(xp).tensordot(a(shape=(2, 3)), a(shape=(3, 2)), axes=1))
    case(prefix + "tensordot", lambda xp, a, g=space: g(xp).tensordot(a("int8", (2, 3)), a("int16", (2, 3))))
    case(
        prefix + "tensordot",
        lambda xp, a, g=space: g(xp).tensordot(a(shape=(2, 3, 4)), a(shape=(4, 2)), axes=((0, 2), (1, 0))),
    )
    case(prefix + "tensordot", lambda xp, a, g=space: g(xp).tensordot(a(), a(), axes=0))
    case(prefix + "vecdot", lambda xp, a, g=space: [g(xp).vecdot(a(t), a(u)) for t, u in mixes(NUMERIC)])
    case(prefix + "vecdot", lambda xp, a, g=space: g(xp).vecdot(a(shape=(3, 2, 4)), a(shape=(2, 1)), axis=-2))
case("broadcast_arrays", lambda xp, a: list(xp.broadcast_arrays(a("int8", (2, 1)), a(shape=(3,)))))
case("broadcast_to", lambda xp, a: xp.broadcast_to(a(shape=(3, 1)), (2, 3, 4)))
case("concat", lambda xp, a: [xp.concat([a(t), a(u, (2, 1))], axis=1) for t, u in mixes(TYPES)])
case("concat", lambda xp, a: [xp.concat((a(), a(shape=(4,))), axis=None), xp.concat([a(), a()])])
case("expand_dims", lambda xp, a: [xp.expand_dims(a(), axis=k) for k in (-3, -1, 0, 1, 2)])
case("flip", lambda xp, a: [xp.flip(a(), axis=k) for k in (None, 0, -1, (0, 1))])
case("moveaxis", lambda xp, a: [xp.moveaxis(a(shape=(2, 3, 4)), *k) for k in ((0, 2), ((0, 1), (2, 0)), (-1, 0))])
case("permute_dims", lambda xp, a: xp.permute_dims(a(shape=(2, 3, 4)), (2, 0, 1)))
case(
    "repeat",
    lambda xp, a: [xp.repeat(a(), 2), xp.repeat(a(), 2, axis=0), xp.repeat(a(), xp.asarray([1, 0, 2]), axis=1)],
)
case("reshape", lambda xp, a: [xp.reshape(a(), (3, 2), copy=c) for c in (None, True, False)] + [xp.reshape(a(), (-1,))])
case("roll", lambda xp, a: [xp.roll(a(), 2), xp.roll(a(), -1, axis=1), xp.roll(a(), (1, 2), axis=(0, 1))])
case("roll", lambda xp, a: xp.roll(a(), 1, axis=(0, 1)))
case("squeeze", lambda xp, a: [xp.squeeze(a(shape=(1, 2, 1)), k) for k in (0, -1, (0, 2))])
case("stack", lambda xp, a: [xp.stack([a(t), a(u)], axis=1) for t, u in mixes(TYPES)])
case("stack", lambda xp, a: xp.stack((a(), a()), axis=-1))
case("tile", lambda xp, a: [xp.tile(a(), k) for k in ((2, 1), (2,), (2, 1, 3), (1, 0))])
case("unstack", lambda xp, a: [list(xp.unstack(a(), axis=k)) for k in (0, 1, -1)])

# searching, sets, sorting, statistics, utility
for arg in ("argmax", "argmin"):
    case(
        arg,
        lambda xp, a, f=arg: [
            getattr(xp, f)(a(t), axis=k, keepdims=d) for t in REAL for k in (None, 0, -1) for d in (0, 1)
        ],
    )
AXES = (None, 0, -1, (0, 1), ())
case("count_nonzero", lambda xp, a: [xp.count_nonzero(a(t, low=0), axis=k, keepdims=True) for t in TYPES for k in AXES])
case("nonzero", lambda xp, a: [list(xp.nonzero(a(t, (3, 4)))) for t in ("bool", "int8", "float64")])
SORTED = [1.0, 2.0, 2.0, 5.0]
case(
    "searchsorted",
    lambda xp, a: [xp.searchsorted(a.of(SORTED), a(shape=(2, 2), low=0, high=6), side=s) for s in ("left", "right")],
)
case(
    "searchsorted", lambda xp, a: xp.searchsorted(a.of([5.0, 1.0, 2.0]), a.of([2.0, 3.0]), sorter=xp.asarray([1, 2, 0]))
)
case("where", lambda xp, a: [xp.where(a("bool"), a(t), a(u, ())) for t, u in mixes(TYPES)])
case("where", lambda xp, a: [xp.where(a("bool"), a("float32"), 2.0), xp.where(a("bool"), 1, a("int8"))])
REPEATED = [[3, 1, 3], [2, 1, 2]]
for unique in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
    case(unique, lambda xp, a, f=unique: [getattr(xp, f)(a.of(REPEATED, t)) for t in TYPES[1:]])
    case(unique, lambda xp, a, f=unique: getattr(xp, f)(a.of([np.nan, 1.0, np.nan, -0.0, 0.0])))
    case(unique, lambda xp, a, f=unique: getattr(xp, f)(a.of(4.0)))
for order in ("argsort", "sort"):
    case(
        order,
        lambda xp, a, f=order: [
            getattr(xp, f)(a(t), axis=k, descending=d) for t in REAL for k in (0, -1) for d in (False, True)
        ],
    )
    case(
        order,
        lambda xp, a, f=order: [
            getattr(xp, f)(a.of([2, 1, 2, 1, 2], "int8"), descending=d, stable=True) for d in (False, True)
        ],
    )
for scan in ("cumulative_sum", "cumulative_prod"):
    case(
        scan,
        lambda xp, a, f=scan: [getattr(xp, f)(a(t), axis=1, include_initial=i) for t in NUMERIC for i in (False, True)],
    )
    case(
        scan, lambda xp, a, f=scan: [getattr(xp, f)(a(shape=(4,))), getattr(xp, f)(a("int8"), axis=0, dtype=xp.float32)]
    )
    case(scan, lambda xp, a, f=scan: [getattr(xp, f)(a(shape=(0, 3)), axis=k, include_initial=True) for k in (0, 1)])
for fold in ("max", "min"):
    case(
        fold,
        lambda xp, a, f=fold: [
            getattr(xp, f)(a(t), axis=k, keepdims=d) for t in REAL for k in AXES for d in (False, True)
        ],
    )
case(
    "mean",
    lambda xp, a: [xp.mean(a(t), axis=k, keepdims=d) for t in FLOATS + COMPLEX for k in AXES for d in (False, True)],
)
for fold in ("std", "var"):
    case(
        fold,
        lambda xp, a, f=fold: [
            getattr(xp, f)(a(t), axis=k, correction=c) for t in FLOATS for k in AXES[:-1] for c in (0, 1, 0.5)
        ],
    )
    case(fold, lambda xp, a, f=fold: [getattr(xp, f)(a(), keepdims=True), getattr(xp, f)(a(), axis=())])
for fold in ("sum", "prod"):
    case(
        fold,
        lambda xp, a, f=fold: [
            getattr(xp, f)(a(t), axis=k, keepdims=d) for t in NUMERIC for k in AXES for d in (False, True)
        ],
    )
    case(
        fold,
        lambda xp, a, f=fold: [getattr(xp, f)(a("int8"), dtype=xp.float32), getattr(xp, f)(a(shape=(0, 2)), axis=0)],
    )
for fold in ("all", "any"):
    case(
        fold,
        lambda xp, a, f=fold: [
            getattr(xp, f)(a(t, low=0), axis=k, keepdims=d) for t in TYPES for k in AXES for d in (False, True)
        ],
    )
case("diff", lambda xp, a: [xp.diff(a(t), axis=k, n=n) for t in NUMERIC for k in (0, -1) for n in (0, 1, 2)])
case("diff", lambda xp, a: xp.diff(a(), axis=0, prepend=a(shape=(1, 3)), append=a(shape=(2, 3))))

# linalg
for t in FLOATS:
    for f in ("det", "eigvalsh", "inv", "svdvals", "slogdet"):
        case("linalg." + f, lambda xp, a, f=f, t=t: getattr(xp.linalg, f)(a.definite(t)))
    case("linalg.cholesky", lambda xp, a, t=t: [xp.linalg.cholesky(a.definite(t), upper=u) for u in (False, True)])
    case("linalg.pinv", lambda xp, a, t=t: [xp.linalg.pinv(a(t, (2, 3, 4))), xp.linalg.pinv(a(t), rtol=0.1)])
    case(
        "linalg.matrix_rank",
        lambda xp, a, t=t: [xp.linalg.matrix_rank(a(t)), xp.linalg.matrix_rank(xp.ones((3, 4, 4)))],
    )
    case(
        "linalg.solve", lambda xp, a, t=t: [xp.linalg.solve(a.definite(t), a(t, s)) for s in ((3,), (3, 4), (2, 3, 1))]
    )
    case("linalg.solve", lambda xp, a, t=t: xp.linalg.solve(a.definite(t)[0, ...], a(t, (5, 3, 2))))
ORDERS = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
case(
    "linalg.matrix_norm",
    lambda xp, a: [xp.linalg.matrix_norm(a(shape=(2, 3, 4)), ord=o, keepdims=k) for o in ORDERS for k in (False, True)],
)
case("linalg.matrix_power", lambda xp, a: [xp.linalg.matrix_power(a.definite(), n) for n in (-2, -1, 0, 1, 3)])
P_NORMS = (0, 1, 2, 3, 0.5, np.inf, -np.inf)
case(
    "linalg.vector_norm",
    lambda xp, a: [
        xp.linalg.vector_norm(a(t), axis=k, ord=o) for t in FLOATS for k in (None, 0, (0, 1)) for o in P_NORMS
    ],
)
case("linalg.vector_norm", lambda xp, a: [xp.linalg.vector_norm(a(t), axis=1, keepdims=True) for t in COMPLEX])
case("linalg.cross", lambda xp, a: [xp.linalg.cross(a(t), a(u)) for t, u in mixes(NUMERIC) if t not in UNSIGNED])
case("linalg.cross", lambda xp, a: xp.linalg.cross(a(shape=(3, 2)), a(shape=(3, 1)), axis=-2))
case("linalg.diagonal", lambda xp, a: [xp.linalg.diagonal(a("int8", (2, 3, 4)), offset=k) for k in (-1, 0, 2)])
case("linalg.outer", lambda xp, a: [xp.linalg.outer(a(t, (2,)), a(u, (3,))) for t, u in mixes(NUMERIC)])
case("linalg.trace", lambda xp, a: [xp.linalg.trace(a(t, (2, 3, 4)), offset=k) for t in NUMERIC for k in (0, 1)])
case("linalg.trace", lambda xp, a: xp.linalg.trace(a("int8"), dtype=xp.float64))


def rebuilt(result, product):
    """Factors are unique up to signs: their names, types, shapes and product are compared."""
    return [result._fields, [(str(r.dtype).rpartition(".")[2], tuple(r.shape)) for r in result], product]


def eigh_case(xp, a):
    r = xp.linalg.eigh(a.definite())
    return rebuilt(r, r.eigenvectors @ (r.eigenvalues[..., None] * xp.matrix_transpose(r.eigenvectors)))


def qr_case(mode):
    def call(xp, a):
        r = xp.linalg.qr(a(shape=(2, 4, 3)), mode=mode)
        return rebuilt(r, r.Q @ r.R)

    return call


def svd_case(full):
    def call(xp, a):
        r = xp.linalg.svd(a(shape=(2, 4, 3)), full_matrices=full)
        return rebuilt(r, (r.U[..., :3] * r.S[..., None, :]) @ r.Vh)

    return call


case("linalg.eigh", eigh_case)
for choice in ("reduced", "complete"):
    case("linalg.qr", qr_case(choice))
for choice in (True, False):
    case("linalg.svd", svd_case(choice))

# fft
NORMS = ("backward", "ortho", "forward")
for f in ("fft", "ifft", "hfft", "irfft"):
    for t in COMPLEX:
        case(
            "fft." + f,
            lambda xp, a, f=f, t=t: [
                getattr(xp.fft, f)(a(t, (3, 5)), n=n, axis=k, norm=m) for n in (None, 4) for k in (0, -1) for m in NORMS
            ],
        )
for f in ("rfft", "ihfft"):
    for t in FLOATS:
        case(
            "fft." + f,
            lambda xp, a, f=f, t=t: [
                getattr(xp.fft, f)(a(t, (3, 5)), n=n, axis=k, norm=m) for n in (None, 4) for k in (0, -1) for m in NORMS
            ],
        )
for f, t in (("fftn", "complex128"), ("ifftn", "complex64"), ("irfftn", "complex128"), ("rfftn", "float32")):
    case("fft." + f, lambda xp, a, f=f, t=t: [getattr(xp.fft, f)(a(t, (3, 4, 5)), norm=m) for m in NORMS])
    case("fft." + f, lambda xp, a, f=f, t=t: getattr(xp.fft, f)(a(t, (3, 4, 5)), s=(2, 6), axes=(2, 0)))
for f in ("fftshift", "ifftshift"):
    case("fft." + f, lambda xp, a, f=f: [getattr(xp.fft, f)(a(shape=(3, 4)), axes=k) for k in (None, 0, (0, 1))])
for f in ("fftfreq", "rfftfreq"):
    case("fft." + f, lambda xp, a, f=f: [getattr(xp.fft, f)(n, d=0.5, dtype=xp.float64) for n in (4, 5)])


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"__array_namespace_info__"}))
def test_results(name):
    assert CASES.get(name), f"no case for {name}"
    for call in CASES[name]:
        run(name, call)


def test_a_wrong_result_is_noticed():
    for wrong in (lambda xp, a: xp.sum(a(), axis=0), lambda xp, a: xp.astype(xp.sum(a()), xp.float32)):
        with pytest.raises(AssertionError):
            same(describe(wrong(array_api, Maker(array_api))), describe(strict.sum(Maker(strict)())))


# --- the array object and inspection --------------------------------------------------------------


def test_namespace_of_a_tensor():
    x = lucid.tensor([1.0, 2.0])
    assert x.__array_namespace__() is array_api
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is array_api
    with pytest.raises(ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="1999.12")
    with pytest.raises(TypeError):
        x.__array_namespace__("2024.12")


def test_namespace_is_found_by_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = lucid.ones(2, 3)
    assert compat.array_namespace(x, lucid.zeros(2), 1.0, None) is array_api
    assert compat.is_array_api_obj(x)
    assert compat.size(x) == 6
    assert compat.device(x) == lucid.device("cpu")
    assert compat.to_device(x, "cpu") is x


def test_attributes():
    x = lucid.ones(2, 3, 4)
    assert (x.ndim, x.shape, x.dtype, x.device) == (3, (2, 3, 4), lucid.float32, lucid.device("cpu"))
    assert x.mT.shape == (2, 4, 3)
    assert x[0].T.shape == (4, 3)
    assert x.to_device(x.device) is x
    assert x.astype(lucid.int8).dtype is lucid.int8 and x.astype(x.dtype, copy=False) is x
    assert len({x.device, lucid.device("cpu")}) == 1
    with pytest.raises(ValueError, match="device"):
        x.to_device("moon")
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)
    assert int(lucid.tensor(3)) == 3 and float(lucid.tensor(0.5)) == 0.5 and complex(lucid.tensor(1j)) == 1j
    assert bool(lucid.tensor(True)) and [0, 1, 2][lucid.tensor(1)] == 1


def test_inspection():
    theirs, ours = strict.__array_namespace_info__(), array_api.__array_namespace_info__()
    assert ours.devices() == [lucid.device("cpu")] and ours.default_device() == lucid.device("cpu")
    assert ours.capabilities().keys() == theirs.capabilities().keys()
    assert ours.default_dtypes() == {
        "real floating": lucid.float32,
        "complex floating": lucid.complex64,
        "integral": lucid.int64,
        "indexing": lucid.int64,
    }
    kinds = (
        None,
        "bool",
        "integral",
        "signed integer",
        "unsigned integer",
        "real floating",
        "complex floating",
        "numeric",
    )
    for kind in (*kinds, ("bool", "integral")):
        found = ours.dtypes(kind=kind, device=ours.default_device())
        assert found.keys() == theirs.dtypes(kind=kind).keys()
        assert all(found[name] is getattr(lucid, name) for name in found)


OPERATORS = "+ - * / // % ** @ & | ^ << >> < <= > >= == !=".split()


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators(sign):
    """Operators beside the strict ones: two arrays of one type, and a number on either side."""
    types = {"/": FLOATS, "@": REAL, "<<": INTS, ">>": INTS, "&": ["bool", *INTS], "|": INTS, "^": INTS}.get(sign, REAL)
    for t in types:
        shapes = ((3, 3), (3, 3)) if sign == "@" else ((2, 3), (3,))

        def both(xp, a, t=t, shapes=shapes):
            return eval(f"x {sign} y", {"x": a(t, shapes[0]), "y": a(t, shapes[1])})

        run(sign, both)
        if sign != "@":
            number = True if t == "bool" else 2
            run(sign, lambda xp, a, t=t, n=number: eval(f"x {sign} n", {"x": a(t), "n": n}))
            run(sign, lambda xp, a, t=t, n=number: eval(f"n {sign} x", {"x": a(t), "n": n}))


@pytest.mark.parametrize("sign", ["+", "-", "*", "//", "%", "**", "&", "|", "^", "<<", ">>"])
def test_inplace_operators(sign):
    def call(xp, a):
        names = {"x": a("int32"), "y": a("int32", (3,))}
        exec(f"z = x; x {sign}= y; w = x is z", names)
        assert names["w"]
        return names["x"]

    run(sign, call)


INDICES = [
    *[0, -1, slice(None), slice(1, None), slice(None, None, -1), Ellipsis, None, (0, 1), (slice(None), -1)],
    *[(Ellipsis, 0), (None, Ellipsis), (slice(0, 2), None, 1), (Ellipsis, None, slice(2, 0, -1)), ()],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    full = index if isinstance(index, tuple) and (len(index) > 1 or not index) else (index, Ellipsis)
    if isinstance(index, int | slice):
        full = (index, slice(None))
    full = full if index is not Ellipsis else (Ellipsis,)
    run("getitem", lambda xp, a: a()[full] if index != () else a(shape=())[()])


def test_indexing_with_masks_and_integers():
    run("mask", lambda xp, a: a()[a("bool")])
    run("integers", lambda xp, a: a()[xp.asarray([1, 0]), xp.asarray([2, 0])])

    def written(xp, a):
        x = a()
        x[a("bool")] = 7.0
        x[0, 1:] = a(shape=(2,))
        return x

    run("setitem", written)


def test_operators_keep_pytorchs_rule_for_0d_tensors():
    """Where the two rules differ, operators follow PyTorch and the namespace the standard."""
    x, y = lucid.ones(2), lucid.ones((), dtype=lucid.float64)
    assert (x + y).dtype is lucid.float32
    assert array_api.add(x, y).dtype is lucid.float64


def test_where_lucid_follows_pytorch():
    """The table of differences in docs/interop.md."""
    x = lucid.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert lucid.max(x, axis=0).indices.tolist() == [0, 1] and array_api.max(x, axis=0).tolist() == [3.0, 4.0]
    assert lucid.sort(x).indices.shape == (2, 2) and array_api.sort(x).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert lucid.var(x).item() == pytest.approx(5 / 3) and array_api.var(x).item() == pytest.approx(5 / 4)
    assert lucid.nonzero(x).shape == (4, 2) and len(array_api.nonzero(x)) == 2
    assert lucid.equal(x, x) is True and array_api.equal(x, x).shape == (2, 2)
    assert lucid.meshgrid(x[0], lucid.zeros(3))[0].shape == (2, 3)
    assert array_api.meshgrid(x[0], lucid.zeros(3))[0].shape == (3, 2)
    assert lucid.take(x, lucid.tensor([3])).tolist() == [4.0]
    assert array_api.take(x, lucid.tensor([1]), axis=0).tolist() == [[2.0, 4.0]]
    assert lucid.squeeze(lucid.zeros(1, 2, 1)).shape == (2,)
    small = lucid.ones(3, dtype=lucid.uint8)
    assert lucid.sum(small).dtype is lucid.int64 and array_api.sum(small).dtype is lucid.uint64
    zero = lucid.ones((), dtype=lucid.float64)
    assert lucid.result_type(x, zero) is lucid.float32 and array_api.result_type(x, zero) is lucid.float64
    assert lucid.can_cast(lucid.int64, lucid.int8) and not array_api.can_cast(lucid.int64, lucid.int8)
    assert lucid.sum(x, ()).shape == () and array_api.sum(x, axis=()).shape == (2, 2)
    assert lucid.zeros(2, 3).size() == (2, 3)


# --- what the standard leaves open, and errors ----------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: array_api.sin([1.0]), TypeError, "asarray"),
        (lambda: array_api.add(1.0, 2.0), TypeError, "must be an array"),
        (lambda: array_api.astype(lucid.tensor([1j]), lucid.float32), TypeError, "imaginary"),
        (lambda: array_api.asarray([1.0], copy=False), ValueError, "copy"),
        (lambda: array_api.asarray(lucid.zeros(2), dtype=lucid.int8, copy=False), ValueError, "copy"),
        (lambda: array_api.isdtype(lucid.int8, "whole"), ValueError, "integral"),
        (lambda: array_api.squeeze(lucid.zeros(2, 1), 0), ValueError, "size 1"),
        (lambda: array_api.reshape(lucid.zeros(2, 3).T, (6,), copy=False), ValueError, "reshape"),
        (lambda: array_api.take(lucid.zeros(2, 3), lucid.tensor([0])), ValueError, "axis"),
        (lambda: array_api.cumulative_sum(lucid.zeros(2, 3)), ValueError, "axis"),
        (lambda: array_api.nonzero(lucid.tensor(1.0)), ValueError, "0-d"),
        (lambda: array_api.vecdot(lucid.zeros(2), lucid.zeros(3)), ValueError, "equal sizes"),
        (lambda: array_api.linalg.cross(lucid.zeros(2), lucid.zeros(2)), ValueError, "size 3"),
        (lambda: array_api.linalg.qr(lucid.eye(2), mode="r"), ValueError, "complete"),
        (lambda: array_api.result_type(1.0), ValueError, "at least one"),
        (lambda: array_api.zeros(2, device="moon"), ValueError, "device"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_asarray_shares_and_copies():
    array = np.zeros(2)
    shared, copied = array_api.asarray(array, copy=False), array_api.asarray(array, copy=True)
    array[0] = 5.0
    assert shared[0] == 5.0 and copied[0] == 0.0
    x = lucid.zeros(2)
    assert array_api.asarray(x) is x and array_api.asarray(x, copy=True) is not x
    y = array_api.reshape(x, (2, 1), copy=True)
    y[0] = 1.0
    assert x[0] == 0.0


def test_asarray_of_a_list_of_arrays_keeps_gradients():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    found = array_api.asarray([[x[0], 5.0], [x[1] * 2, lucid.ones((), dtype=lucid.float64)]])
    assert found.dtype is lucid.float64 and found.tolist() == [[1.0, 5.0], [4.0, 1.0]]
    found.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    assert array_api.asarray([x, x], dtype=lucid.float64).requires_grad


def test_everything_can_be_differentiated():
    """The layer adds nothing of its own to the tape."""
    xp = array_api
    x = lucid.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=lucid.float64, requires_grad=True)

    def f(x):
        y = xp.clip(xp.astype(xp.sort(xp.square(x), axis=0), xp.float64), 0.0, 100.0)
        z = xp.std(xp.concat([y, xp.take(y, xp.asarray([0]), axis=1)], axis=1), axis=1)
        return xp.sum(z) + xp.linalg.det(x) + xp.sum(xp.abs(xp.fft.fft(x)) ** 2)

    assert lucid.autograd.gradcheck(f, (x,))
    batched = lucid.func.vmap(f)(lucid.stack([x.detach(), 2 * x.detach()]))
    assert lucid.allclose(batched, lucid.stack([f(x.detach()), f(2 * x.detach())]))


PART = {"inf": (np.inf,), "-inf": (-np.inf,), "±inf": (np.inf, -np.inf), "nan": (), "0": (0.0,), "-1": (-1.0,)}
LIMITS_OF_EXPM1 = [
    (np.inf, 0.0, "inf", "0"), (-np.inf, np.inf, "-1", "0"), (-np.inf, np.nan, "-1", "0"), (np.inf, np.inf, "±inf", "nan"),
    (np.inf, np.nan, "±inf", "nan"), (np.nan, 0.0, "nan", "0"), (np.nan, 1.0, "nan", "nan"), (1.0, np.inf, "nan", "nan"),
    (np.inf, 1.0, "inf", "inf"), (np.inf, 2.0, "-inf", "inf"),
]  # fmt: skip


@pytest.mark.parametrize(("re", "im", "real", "imag"), LIMITS_OF_EXPM1)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_limits_of_complex_expm1(re, im, real, imag, dtype):
    x = np.zeros(2, dtype)
    x.real, x.imag = [re, 0.5], [im, 0.25]
    found = np.asarray(lucid.expm1(lucid.tensor(x)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found[1], np.expm1(x[1]), 1e-6)
    for part, want in ((found[0].real, PART[real]), (found[0].imag, PART[imag])):
        assert part in want if want else np.isnan(part)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floor_divide_at_infinity(dtype):
    inf, nan = np.inf, np.nan
    x = np.array([inf, inf, -inf, -inf, inf, inf, 1, 1, -1, 0.0, -0.0, 7], dtype)
    y = np.array([2, -2, 2, -2, inf, 0.0, inf, -inf, inf, -1, 1, 2], dtype)
    want = np.array([inf, -inf, -inf, inf, nan, inf, 0.0, -1, -1, -0.0, -0.0, 3], dtype)
    found = np.asarray(lucid.floor_divide(lucid.tensor(x), lucid.tensor(y)))
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found[want == want]), np.signbit(want[want == want]))
    assert lucid.floor_divide(lucid.tensor(x[0]), 2).item() == inf
