"""The elementary functions of the code generator: errors against mpmath, special values, the same bits in all lanes."""

import ctypes
import importlib.util
import inspect
import re
import shlex
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import scipy.special

import lucid

mp = pytest.importorskip("mpmath")
pytest.importorskip("llvmlite")

from lucid.codegen.functions import (  # noqa: E402  needs llvmlite
    FUNCTIONS,
    bessels,
    exponentials,
    gammas,
    logarithms,
    normal,
    powers,
    trigonometry,
)
from lucid.codegen.machine import Compiler, Loaded  # noqa: E402
from lucid.codegen.vectors import Function, Type, Value  # noqa: E402
from lucid.ops.nn import activations  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"float": np.float32, "double": np.float64}
BOUNDS = {"float": 2.0, "double": 4.0}  # units in the last place
MORE = {"gelu": 1.0, "erfinv": 0.5}  # for products of such a function and of its argument
SPECIAL = {"erfcx": 7.0, "erfcinv": 5.0, "ndtri": 5.0, "log_ndtr": 5.0, "i0e": 5.0, "i1e": 5.0}  # bounds in double
WIDTHS = {"float": 16, "double": 8}
OF_TWO = ("atan2", "hypot", "pow")
INF, NAN = np.inf, np.nan


# --- how a function is compiled and called --------------------------------------------------------


def loop(name, of, lanes):
    """A loop over arrays, whose length is a multiple of the lanes."""
    operands = ["x", "y"][: 1 + (name in OF_TWO)]
    f = Function(f"{name}_{of}_{lanes}", [(p, "ptr") for p in [*operands, "out"]] + [("n", "i64")])

    def body(i):
        def at(pointer):
            return f.write(f"getelementptr {of}, ptr %{pointer}, i64 {i.text}", Type("ptr")).text

        f.store(FUNCTIONS[name](f, *[f.load(at(p), Type(of, lanes)) for p in operands]), at("out"))
        return []

    f.loop(Value(f, "%n", Type("i64")), lanes, body)
    f.effect("ret void")
    return f


def module(functions):
    declarations = {}
    for f in functions:
        declarations.update(f.declarations)
    return "\n".join([*declarations.values(), *map(str, functions)])


class Kernels:
    """Loops in memory."""

    def __init__(self, keys):
        compiler = Compiler()
        self.loaded = Loaded(compiler, compiler.object_code(module([loop(*key) for key in keys])))

    def __call__(self, name, of, lanes, *arrays):
        padded = [np.concatenate([a, np.ones(-len(a) % 16, a.dtype)]) for a in arrays]
        out = np.empty_like(padded[0])
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(arrays) + 1), ctypes.c_int64)
        address = self.loaded.address(f"{name}_{of}_{lanes}")
        call(address)(*[a.ctypes.data for a in [*padded, out]], len(out))
        return out[: len(arrays[0])]


@pytest.fixture(scope="module")
def kernels():
    return Kernels([(name, of, WIDTHS[of]) for name in FUNCTIONS for of in KINDS])


# --- the reference --------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return max(x, 0) + mp.log1p(mp.exp(-abs(x)))


def inverse_of_erfc(x):
    """The number of which 0 < x <= 1 is the erfc."""
    if x > 0.5:
        return mp.erfinv(1 - x)
    near = mp.sqrt(-mp.log(x * mp.sqrt(-mp.pi * mp.log(x))))
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(x), near)


def scaled_erfc(x):
    return mp.exp(x * x) * mp.erfc(x) if x < 1e20 else 1 / (x * mp.sqrt(mp.pi))


def log_ndtr(x):
    if x < -10:
        return mp.log(scaled_erfc(-x / mp.sqrt(2)) / 2) - x * x / 2
    return mp.log1p(-mp.ncdf(-min(x, 100)))


def scaled_bessel(order, x):
    return mp.exp(-x) * mp.besseli(order, x) if x < 1e20 else 1 / mp.sqrt(2 * mp.pi * x)


REFERENCES = {
    **{name: getattr(mp, name) for name in "exp expm1 log log10 log1p sin cos tan tanh sinh cosh".split()},
    **{name: getattr(mp, name) for name in "asin acos atan asinh acosh atanh atan2 hypot".split()},
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x),
    "erf": lambda x: mp.erf(max(-100, min(x, 100))),
    "erfc": lambda x: mp.erfc(max(-100, min(x, 100))),
    "ndtr": lambda x: mp.ncdf(max(-100, min(x, 100))),
    "gelu": lambda x: max(x, -100) * mp.ncdf(max(-100, min(x, 100))),
    "pow": lambda x, y: mp.power(x, y),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "log_odds": lambda x: mp.log(x) - mp.log1p(-x),
    "erfinv": lambda x: mp.erfinv(x) if abs(x) < 0.5 else mp.sign(x) * inverse_of_erfc(1 - abs(x)),
    "erfcinv": lambda x: inverse_of_erfc(x) if x <= 1 else -inverse_of_erfc(2 - x),
    "ndtri": lambda x: mp.sqrt(2) * (-inverse_of_erfc(2 * x) if x <= 0.5 else inverse_of_erfc(2 - 2 * x)),
    "erfcx": lambda x: scaled_erfc(max(x, -30)),
    "log_ndtr": log_ndtr,
    "lgamma": lambda x: mp.loggamma(x) if x > 0 else -mp.log(abs(mp.sinpi(x)) / mp.pi) - mp.loggamma(1 - x),
    "digamma": lambda x: mp.digamma(x) if x > 0 else mp.digamma(1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x),
    "i0": lambda x: mp.besseli(0, min(abs(x), 2000)),
    "i1": lambda x: mp.besseli(1, max(-2000, min(x, 2000))),
    "i0e": lambda x: scaled_bessel(0, abs(x)),
    "i1e": lambda x: mp.sign(x) * scaled_bessel(1, abs(x)),
}
# Where functions of real numbers are not real, or have poles.
UNDEFINED = {
    **dict.fromkeys(["log", "log2", "log10", "rsqrt"], lambda x: x <= 0),
    "log1p": lambda x: x <= -1,
    "acosh": lambda x: x < 1,
    **dict.fromkeys(["asin", "acos"], lambda x: abs(x) > 1),
    **dict.fromkeys(["atanh", "erfinv"], lambda x: abs(x) >= 1),
    **dict.fromkeys(["log_odds", "ndtri"], lambda x: not 0 < x < 1),
    "erfcinv": lambda x: not 0 < x < 2,
    **dict.fromkeys(["lgamma", "digamma"], lambda x: x <= 0 and x == np.floor(x)),
}
# Between their poles, where both have a zero that is the difference of two such numbers.
REFLECTED = {"lgamma": mp.loggamma, "digamma": mp.digamma}


def reference(name, *numbers):
    """The exact value, None where there is no real one, and a number whose last place errors are counted in."""
    with mp.workprec(180):
        x, *others = numbers
        if name in UNDEFINED and UNDEFINED[name](x):
            return None, None
        if name == "atan2" and x == 0:  # mpmath knows no sign of 0
            return None, None
        if name == "pow" and (x == 0 or (x < 0 and others[0] != np.floor(others[0]))):
            return None, None
        if name == "gelu" and x < -exponentials.GELU_END["float" if x.dtype == np.float32 else "double"]:
            return mp.mpf(0), mp.mpf(0)  # which says so itself
        if name in ("exp", "exp2", "expm1", "sinh", "cosh"):
            numbers = [np.clip(x, -2000, 2000)]  # beyond, they are too long to compute and as good as infinite or 0
        exact = REFERENCES[name](*[mp.mpf(float(v)) for v in numbers])
        if name in REFLECTED and x < 0:
            return exact, abs(exact) + abs(REFLECTED[name](1 - mp.mpf(float(x)))) + 1
        return exact, exact


def error_in_ulps(got, exact, scale, kind):
    """|got - exact| in units of the last place, where what is too large counts as the power of two after all others."""
    info = np.finfo(kind)
    end = mp.mpf(2) ** info.maxexp
    with mp.workprec(180):
        got = mp.sign(got) * min(abs(mp.mpf(float(got))), end)
        exact, scale = mp.sign(exact) * min(abs(exact), end), min(abs(scale), end)
        exponent = mp.frexp(scale)[1] - 1 if scale else info.minexp
        exponent = min(max(exponent, info.minexp), info.maxexp - 1)
        return float(abs(got - exact) / mp.mpf(2) ** (exponent - info.nmant))


def worst(name, of, got, *arrays):
    """The largest error, and where it is."""
    found = (0.0, ())
    for y, *numbers in zip(got, *arrays, strict=True):
        exact, scale = reference(name, *numbers)
        if exact is None:
            continue
        error = INF if np.isnan(y) else error_in_ulps(y, exact, scale, KINDS[of])
        if error > found[0]:
            found = (error, (*numbers, y))
    return found


# --- points ---------------------------------------------------------------------------------------


def points(of, count, rng):
    """Numbers of all magnitudes, of common ones, near multiples of π/2, powers of two, and ends of ranges."""
    kind, info = KINDS[of], np.finfo(KINDS[of])
    bits = rng.integers(0, 256, (count, info.bits // 8), np.uint8).view(kind).ravel()
    common = rng.standard_normal(count) * rng.choice([0.01, 0.3, 1, 3, 30, 300, 1e4], count)
    turns = np.round(rng.uniform(-1, 1, count) * rng.choice([3, 100, 6e4], count)) * (np.pi / 2)
    near = rng.choice([1, 0.5, 2, np.sqrt(0.5), np.sqrt(2)], count) * (1 + 10 ** rng.uniform(-17, -1, count))
    ends = np.array([np.log(float(info.max)), np.log(float(info.smallest_normal)), np.log(2.0), 1.0, 1e5, 9.0, 26.5])
    ends = rng.choice(ends, count) * (1 + rng.uniform(-0.04, 0.04, count)) * rng.choice([-1, 1], count)
    tiny = rng.integers(-1000, 1000, count) * float(info.smallest_subnormal)
    with np.errstate(all="ignore"):
        every = np.concatenate([bits[np.isfinite(bits)], common, turns, near, -near, ends, tiny]).astype(kind)
    return rng.permutation(every)


def operands(name, of, count):
    rng = np.random.default_rng(crc32(f"{name} {of} {count}".encode()))
    x = points(of, count // 7, rng)
    if name not in OF_TWO:
        return [x]
    y = rng.permutation(x)
    if name == "pow":  # most of the results are neither 0 nor infinite
        with np.errstate(all="ignore"):
            limit = np.finfo(x.dtype).maxexp / np.abs(np.log2(np.abs(x.astype(float))))
            y = np.where(rng.random(len(x)) < 0.7, rng.uniform(-1.1, 1.1, len(x)) * limit, y)
        y = np.where(x < 0, np.round(np.clip(y, -1e6, 1e6)), y).astype(x.dtype)
        y = np.where(np.isfinite(y), y, 1).astype(x.dtype)
    return [x, y]


def bound(name, of):
    return SPECIAL[name] if of == "double" and name in SPECIAL else BOUNDS[of] + MORE.get(name, 0.0)


EACH = pytest.mark.parametrize(("name", "of"), [(name, of) for name in FUNCTIONS for of in KINDS])


@EACH
def test_errors_are_small(name, of, kernels):
    arrays = operands(name, of, 1000)
    error, where = worst(name, of, kernels(name, of, WIDTHS[of], *arrays), *arrays)
    assert error <= bound(name, of), where


@pytest.mark.sampled(every=20)
@EACH
def test_errors_are_small_at_many_points(name, of, kernels):
    arrays = operands(name, of, 8000)
    error, where = worst(name, of, kernels(name, of, WIDTHS[of], *arrays), *arrays)
    assert error <= bound(name, of), where


# What double precision gives, to far less than a unit of float.
IN_DOUBLE = {
    **{name: getattr(np, name) for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh".split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in "asin acos atan asinh acosh atanh".split()},
    **{name: getattr(scipy.special, name) for name in "cbrt erf erfc ndtr".split()},
    **{name: getattr(scipy.special, name) for name in "erfinv erfcinv ndtri erfcx log_ndtr i0 i1 i0e i1e".split()},
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.psi,
    "log_odds": scipy.special.logit,
    "gelu": lambda x: np.where(x < -exponentials.GELU_END["float"], 0, x * scipy.special.ndtr(x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": scipy.special.expit,
    "log_sigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
}


def errors_of_float(got, exact):
    """The same as `error_in_ulps` for many numbers of float."""
    info = np.finfo(np.float32)
    end = 2.0**info.maxexp
    got, exact = np.clip(got.astype(float), -end, end), np.clip(exact, -end, end)
    exponent = np.clip(np.frexp(exact)[1] - 1, info.minexp, info.maxexp - 1)
    exponent = np.where(exact == 0, info.minexp, exponent)
    found = np.abs(got - exact) / np.ldexp(1.0, exponent - info.nmant)
    return np.where(np.isnan(exact) & np.isnan(got), 0, np.where(np.isnan(found), INF, found))


def many_floats(name, step):
    """Numbers of the whole range of float at equal distances, and where errors of functions are large."""
    seed = crc32(f"{name} {step}".encode())
    bits = np.arange(seed % step, 2**32, step, np.uint64).astype(np.uint32)
    bits = bits[bits & 0x7FFFFFFF < 0x7F800000].view(np.float32)
    dense = np.random.default_rng(seed).uniform(-8, 8, len(bits)).astype(np.float32)
    return [
        x[np.abs(x) <= trigonometry.REDUCED] if name in ("sin", "cos", "tan") else x for x in (bits, dense, dense / 8)
    ]


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_errors_of_float_are_small_everywhere(name, kernels):
    for x in many_floats(name, 20011):
        with np.errstate(all="ignore"):
            errors = errors_of_float(kernels(name, "float", WIDTHS["float"], x), IN_DOUBLE[name](x.astype(float)))
        assert errors.max() <= BOUNDS["float"] + MORE.get(name, 0.0), x[errors.argmax()]


@pytest.mark.parametrize("of", KINDS)
def test_every_function_has_code_that_gives_its_own_type(of):
    # On which the look whether an operation can be written relies: it does not write them.
    type = Type(of, WIDTHS[of])
    for name in FUNCTIONS:
        write, f = FUNCTIONS[name], Function("f")
        count = len(inspect.signature(write).parameters) - 1
        assert write(f, *[f.constant(0.5, type)] * count).type == type, name


def test_gelu_ends_where_its_definition_does():
    for of, kind in KINDS.items():
        assert activations._end_of(lucid.zeros((), dtype=kind)) == exponentials.GELU_END[of]


def test_every_function_of_one_number_is_compared_with_double():
    assert {*IN_DOUBLE, *OF_TWO} == set(FUNCTIONS)


@pytest.mark.parametrize(("table", "name"), [(exponentials.EXP, "exp"), (trigonometry.SIN, "sin")])
def test_a_wrong_coefficient_is_found(table, name, monkeypatch):
    for of in KINDS:
        first, second, *others = table[of]
        monkeypatch.setitem(table, of, (first, second * (1 + 5000 * np.finfo(KINDS[of]).eps), *others))
        arrays = operands(name, of, 1000)
        got = Kernels([(name, of, 4)])(name, of, 4, *arrays)
        assert worst(name, of, got, *arrays)[0] > BOUNDS[of]


# --- special values -------------------------------------------------------------------------------

# What C's functions give, as NumPy hands it on.
LIBRARY = {
    **{name: getattr(np, name) for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh".split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in "asin acos atan asinh acosh atanh atan2".split()},
    **{name: getattr(np, name) for name in "cbrt hypot".split()},
    "pow": np.power,
}
HERE = {
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (-INF, NAN), (NAN, NAN), (4.0, 0.5)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN), (1e4, 1.0), (-1e4, 0.0)],
    "log_sigmoid": [(INF, 0.0), (-INF, -INF), (NAN, NAN), (-1e4, -1e4), (1e4, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (10.0, 1.0), (-10.0, -1.0)],
    "ndtr": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN), (40.0, 1.0), (-40.0, 0.0)],
    "gelu": [
        (-37.7, -0.0),
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, INF),
        (-INF, -0.0),
        (NAN, NAN),
        (40.0, 40.0),
        (-40.0, -0.0),
    ],
    "log_odds": [(0.0, -INF), (-0.0, -INF), (1.0, INF), (0.5, 0.0), (2.0, NAN), (-1.0, NAN), (INF, NAN), (NAN, NAN)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (INF, NAN), (NAN, NAN)],
    "erfcinv": [(0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, -INF), (2.5, NAN), (-1.0, NAN), (INF, NAN), (NAN, NAN)],
    "ndtri": [(0.0, -INF), (-0.0, -INF), (0.5, 0.0), (1.0, INF), (1.5, NAN), (-1.0, NAN), (INF, NAN), (NAN, NAN)],
    "erfcx": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, INF), (NAN, NAN), (-30.0, INF)],
    "log_ndtr": [(INF, -0.0), (-INF, -INF), (NAN, NAN), (1e4, -0.0)],
    "lgamma": [
        (0.0, INF),
        (-0.0, INF),
        (1.0, 0.0),
        (2.0, 0.0),
        (-1.0, INF),
        (-1e30, INF),
        (INF, INF),
        (-INF, -INF),
        (NAN, NAN),
    ],
    "digamma": [(0.0, -INF), (-0.0, INF), (-1.0, NAN), (-1e30, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "i0": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e4, INF)],
    "i1": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (-1e4, -INF)],
    "i0e": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 0.0), (NAN, NAN)],
    "i1e": [(0.0, 0.0), (-0.0, -0.0), (INF, 0.0), (-INF, -0.0), (NAN, NAN)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (NAN, NAN), (30.0, 0.0), (-30.0, 2.0)],
}


def same(x, y):
    """Whether numbers have the same values and signs; any nan is as good as another."""
    return np.isnan(x) & np.isnan(y) | (x == y) & (np.signbit(x) == np.signbit(y))


@EACH
def test_special_values(name, of, kernels):
    kind, info = KINDS[of], np.finfo(KINDS[of])
    if name in HERE:
        x, expected = (np.array(column, kind) for column in zip(*HERE[name], strict=True))
        got = kernels(name, of, WIDTHS[of], x)
        assert same(got, expected).all(), list(zip(x, got, expected, strict=True))
        return
    numbers = [
        0,
        INF,
        NAN,
        1,
        2,
        3,
        0.5,
        1.5,
        8,
        27,
        1000,
        1e30,
        info.smallest_subnormal,
        info.smallest_normal,
        info.max,
    ]
    x = np.array([*numbers, *(-v for v in numbers)], kind)
    arrays = [x] if name not in OF_TWO else [a.ravel().copy() for a in np.meshgrid(x, x)]
    with np.errstate(all="ignore"):
        expected = LIBRARY[name](*arrays)
    got = kernels(name, of, WIDTHS[of], *arrays)
    is_special = ~(np.isfinite(got) & np.isfinite(expected)) | (got == 0) | (expected == 0)
    is_special |= (np.abs(expected) <= 2) & (np.round(expected) == expected)
    wrong = is_special & ~same(got, expected)
    assert not wrong.any(), [[*(a[i] for a in arrays), got[i], expected[i]] for i in np.flatnonzero(wrong)]


@pytest.mark.parametrize("of", KINDS)
def test_square_roots_are_rounded_once(of):
    """Also of squares, of numbers beside those, and of numbers whose roots lie nearly between two others."""
    kind, info, rng = KINDS[of], np.finfo(KINDS[of]), np.random.default_rng(3)
    whole = rng.integers(1 << info.nmant, 2 << info.nmant, 30_000).astype(np.longdouble)
    squares = np.concatenate([whole**2, (whole + np.longdouble(0.5)) ** 2]).astype(kind)
    spread = np.exp2(rng.uniform(info.minexp - 5, info.maxexp, 30_000)).astype(kind)
    special = np.array(
        [0, -0.0, 1, 4, INF, NAN, -1, -INF, info.smallest_subnormal, info.smallest_normal, info.max], kind
    )
    x = np.concatenate([squares, np.nextafter(squares, kind(0)), np.nextafter(squares, kind(INF)), spread, special])
    with np.errstate(all="ignore"):
        assert same(lucid.sqrt(lucid.tensor(x)).numpy(), np.sqrt(x)).all()


# --- lanes and processors -------------------------------------------------------------------------


@pytest.mark.parametrize("of", KINDS)
def test_lanes_do_not_change_bits(of, kernels):
    lanes = [n for n in (1, 4, 8, 16) if n != WIDTHS[of]]
    others = Kernels([(name, of, n) for name in FUNCTIONS for n in lanes])
    for name in FUNCTIONS:
        arrays = operands(name, of, 4000)
        expected = kernels(name, of, WIDTHS[of], *arrays)
        for n in lanes:
            assert same(others(name, of, n, *arrays), expected).all(), (name, n)


@pytest.mark.parametrize(
    ("triple", "cpu"),
    [
        ("aarch64-unknown-linux-gnu", "generic"),
        ("x86_64-unknown-linux-gnu", "x86-64-v3"),
        ("x86_64-unknown-linux-gnu", "x86-64-v4"),
    ],
)
def test_code_for_other_processors(triple, cpu):
    text = module([loop(name, of, 4) for name in FUNCTIONS for of in KINDS])
    code = Compiler(triple, cpu, "").object_code(text)
    assert code.startswith(b"\x7fELF")


# --- coefficients ---------------------------------------------------------------------------------

MODULES = (bessels, exponentials, gammas, logarithms, normal, powers, trigonometry)


def tables(source):
    """Every tuple of coefficients in a module."""
    values = [v for value in vars(source).values() for v in (value.values() if isinstance(value, dict) else [value])]
    return [v for v in values if isinstance(v, tuple) and all(isinstance(c, float) for c in v)]


def commands():
    for source in MODULES:
        text = re.sub(r"\n#   ", " ", Path(source.__file__).read_text())
        for command in re.findall(r"^# minimax (.*)$", text, re.MULTILINE):
            yield pytest.param(source, command, id=command)


@pytest.mark.sampled(every=10)
@pytest.mark.parametrize(("source", "command"), list(commands()))
def test_coefficients_are_those_of_their_command(source, command):
    specification = importlib.util.spec_from_file_location("minimax", ROOT / "tools" / "minimax.py")
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    computed = tool.table(shlex.split(command))[0]
    single = "--precision 24" in command
    known = [tuple(float(np.float32(c)) for c in t) if single else t for t in tables(source)]
    assert computed in known
