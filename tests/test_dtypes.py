"""Element types: promotion against PyTorch's tables, defaults, limits and names."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import lucid

NAMES = [
    *["bool", "uint8", "int8", "int16", "int32", "int64"],
    *["float16", "bfloat16", "float32", "float64", "complex64", "complex128"],
]
SHORT = dict(zip(["b", "u1", "i1", "i2", "i4", "i8", "f2", "bf", "f4", "f8", "c8", "c16"], NAMES, strict=True))

# Tables made with torch.result_type; the columns are NAMES. PyTorch's complex32 is complex64 here.
TENSORS = {
    "bool": "b u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16",
    "uint8": "u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c8 c16",
    "int8": "i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c8 c16",
    "int16": "i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c8 c16",
    "int32": "i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c8 c16",
    "int64": "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16",
    "float16": "f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8 c16",
    "bfloat16": "bf bf bf bf bf bf f4 bf f4 f8 c8 c16",
    "float32": "f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 c16",
    "float64": "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16",
    "complex64": "c8 c8 c8 c8 c8 c8 c8 c8 c8 c16 c8 c16",
    "complex128": "c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16",
}
TENSOR_AND_0D = {
    "bool": "b u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16",
    "uint8": "u1 u1 u1 u1 u1 u1 f2 bf f4 f8 c8 c16",
    "int8": "i1 i1 i1 i1 i1 i1 f2 bf f4 f8 c8 c16",
    "int16": "i2 i2 i2 i2 i2 i2 f2 bf f4 f8 c8 c16",
    "int32": "i4 i4 i4 i4 i4 i4 f2 bf f4 f8 c8 c16",
    "int64": "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16",
    "float16": "f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 c8 c8",
    "bfloat16": "bf bf bf bf bf bf bf bf bf bf c8 c8",
    "float32": "f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 c8 c8",
    "float64": "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16",
    "complex64": "c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8",
    "complex128": "c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16",
}
# With True, 1, 1.0 and 1j; the same for 0-d tensors.
SCALARS = {
    "bool": "b i8 f4 c8",
    "uint8": "u1 u1 f4 c8",
    "int8": "i1 i1 f4 c8",
    "int16": "i2 i2 f4 c8",
    "int32": "i4 i4 f4 c8",
    "int64": "i8 i8 f4 c8",
    "float16": "f2 f2 f2 c8",
    "bfloat16": "bf bf bf c8",
    "float32": "f4 f4 f4 c8",
    "float64": "f8 f8 f8 c16",
    "complex64": "c8 c8 c8 c8",
    "complex128": "c16 c16 c16 c16",
}
NUMBERS = (True, 1, 1.0, 1j)
# PyTorch knows these beside floats only; beside integers they follow NumPy.
UNSIGNED = ["uint16", "uint32", "uint64"]
WITH_UNSIGNED = {
    "bool": "uint16 uint32 uint64",
    "uint8": "uint16 uint32 uint64",
    "int8": "int32 int64 -",
    "int16": "int32 int64 -",
    "int32": "int32 int64 -",
    "int64": "int64 int64 -",
    "uint16": "uint16 uint32 uint64",
    "uint32": "uint32 uint32 uint64",
    "uint64": "uint64 uint64 uint64",
    "float16": "float16 float16 float16",
    "bfloat16": "bfloat16 bfloat16 bfloat16",
    "float32": "float32 float32 float32",
    "complex64": "complex64 complex64 complex64",
}
pairs = pytest.mark.parametrize(("a", "b"), [(a, b) for a in NAMES for b in NAMES])


def full(name):
    return lucid.ones(2, dtype=name)


def zero_dim(name):
    return lucid.ones((), dtype=name)


def expected(table, a, b):
    return SHORT[table[a].split()[NAMES.index(b)]]


def dtype_name(t):
    return t.dtype.name


# --- promotion ------------------------------------------------------------------------------------


@pairs
def test_two_tensors(a, b):
    want = expected(TENSORS, a, b)
    assert dtype_name(full(a) * full(b)) == want
    assert dtype_name(full(a) + full(b)) == want
    assert lucid.promote_types(a, b).name == want
    assert lucid.promote_types(getattr(lucid, a), getattr(lucid, b)).name == want


@pairs
def test_two_tensors_without_dimensions(a, b):
    assert dtype_name(zero_dim(a) * zero_dim(b)) == expected(TENSORS, a, b)


@pairs
def test_tensor_and_one_without_dimensions(a, b):
    want = expected(TENSOR_AND_0D, a, b)
    assert dtype_name(full(a) * zero_dim(b)) == want
    assert dtype_name(zero_dim(b) + full(a)) == want


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("position", range(4), ids=["bool", "int", "float", "complex"])
def test_tensor_and_number(name, position):
    number = NUMBERS[position]
    want = SHORT[SCALARS[name].split()[position]]
    for t in (full(name), zero_dim(name)):
        assert dtype_name(t * number) == want
        assert dtype_name(number * t) == want
        assert dtype_name(t + number) == want


@pytest.mark.parametrize("a", WITH_UNSIGNED)
@pytest.mark.parametrize("b", UNSIGNED)
def test_wide_unsigned_types(a, b):
    want = WITH_UNSIGNED[a].split()[UNSIGNED.index(b)]
    if want == "-":
        for call in (lambda: full(a) * full(b), lambda: full(b) + full(a), lambda: lucid.promote_types(a, b)):
            with pytest.raises(RuntimeError, match="no integer type holds both"):
                call()
        return
    assert dtype_name(full(a) * full(b)) == dtype_name(full(b) + full(a)) == want
    assert lucid.promote_types(a, b) is lucid.promote_types(b, a) is getattr(lucid, want)


@pytest.mark.parametrize("name", UNSIGNED)
def test_wide_unsigned_types_compute(name):
    top = lucid.iinfo(name).max
    x = lucid.tensor([3, top], dtype=name)
    assert x.tolist() == [3, top]
    assert repr(x).endswith(f"dtype=lucid.{name})")
    assert (x - 3).tolist() == [0, top - 3] and dtype_name(x - 3) == name
    assert (x // 2).tolist() == [1, top // 2]
    assert (x > 3).tolist() == [False, True]
    assert x.sum().item() == (top + 3) % 2**64
    assert dtype_name(x.sum()) == ("uint64" if name == "uint64" else "int64")
    assert dtype_name(x / 2) == dtype_name(x * 0.5) == "float32"
    assert x.sort(descending=True).values.tolist() == [top, 3]
    assert lucid.arange(5)[lucid.tensor([4, 1], dtype=name)].tolist() == [4, 1]
    assert x.to(lucid.float64).to(name)[0].item() == 3
    assert np.asarray(x).dtype == name and lucid.from_numpy(np.asarray(x)).dtype is getattr(lucid, name)
    assert lucid.randint(0, 9, (4,), dtype=name).max().item() < 9
    with pytest.raises(ValueError, match="outside the range"):
        x + -1
    with pytest.raises(ValueError, match=r"negative|outside the range"):
        lucid.tensor([-1, 2], dtype=name)


def test_integers_beyond_int64():
    assert lucid.tensor([1, 2**63 + 5], dtype=lucid.uint64).tolist() == [1, 2**63 + 5]
    assert lucid.tensor([], dtype=lucid.uint64).shape == (0,)
    assert lucid.tensor([1.0, 2.0], dtype=lucid.uint64).tolist() == [1, 2]
    with pytest.raises(ValueError, match="uint64"):
        lucid.tensor([2**63])
    with pytest.raises(ValueError, match="negative"):
        lucid.tensor([-1, 2**63], dtype=lucid.uint64)
    with pytest.raises(ValueError, match="64 bits"):
        lucid.tensor([1, 2**64], dtype=lucid.uint64)


def test_number_and_0d_tensor_and_tensor_together():
    assert dtype_name(lucid.where(lucid.tensor([True, False]), full("float16"), 1.0)) == "float16"
    assert dtype_name(lucid.where(lucid.tensor([True, False]), full("int32"), zero_dim("float64"))) == "float64"


def test_numpy_scalars_count_as_numbers_and_arrays_as_tensors():
    assert dtype_name(full("float32") * np.float64(2)) == "float32"
    assert dtype_name(full("float32") * np.ones(2)) == "float64"
    assert dtype_name(full("float32") * np.int64(2)) == "float32"


def test_promotion_keeps_values():
    a = lucid.tensor([200], dtype=lucid.uint8)
    assert (a + lucid.tensor([100], dtype=lucid.int8)).tolist() == [300]
    assert (a + 100).tolist() == [44]  # the tensor's type decides, and wraps around


def test_gradients_come_back_in_the_type_of_each_operand():
    x = lucid.ones(2, dtype=lucid.float16, requires_grad=True)
    y = lucid.ones(2, dtype=lucid.float64, requires_grad=True)
    z = lucid.ones(2, dtype=lucid.bfloat16, requires_grad=True)
    (x * y * z).sum().backward()
    assert [dtype_name(t.grad) for t in (x, y, z)] == ["float16", "float64", "bfloat16"]


# --- results of operations, columns as NAMES, "--" where PyTorch refuses ---------------------------

RESULTS = {
    "div": (lambda t: t / t, "f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 c16"),
    "sum": (lambda t: t.sum(), "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16"),
    "prod": (lambda t: t.prod(), "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16"),
    "cumsum": (lambda t: t.cumsum(0), "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16"),
    "mean": (lambda t: t.mean(), "-- -- -- -- -- -- f2 bf f4 f8 c8 c16"),
    "exp": (lambda t: t.exp(), "f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 c16"),
    "sqrt": (lambda t: t.sqrt(), "f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 c16"),
    "abs": (lambda t: t.abs(), "-- u1 i1 i2 i4 i8 f2 bf f4 f8 f4 f8"),
    "neg": (lambda t: -t, "-- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16"),
    "floor": (lambda t: t.floor(), "-- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --"),
    "floordiv": (lambda t: t // t, "-- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --"),
    "pow": (lambda t: t**t, "-- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16"),
    "square": (lambda t: t**2, "i8 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16"),
    "pow float": (lambda t: t**2.0, "f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 c16"),
    "max": (lambda t: t.max(), "b u1 i1 i2 i4 i8 f2 bf f4 f8 -- --"),
    "eq": (lambda t: t == t, "b b b b b b b b b b b b"),
    "sub": (lambda t: t - t, "-- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16"),
    "reciprocal": (lambda t: 1 / t, "f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 c16"),
    "invert": (lambda t: ~t, "b u1 i1 i2 i4 i8 -- -- -- -- -- --"),
    "real": (lambda t: t.real, "b u1 i1 i2 i4 i8 f2 bf f4 f8 f4 f8"),
    "matmul": (lambda t: t @ t, "-- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operation", RESULTS)
def test_type_of_results(operation, name):
    run, row = RESULTS[operation]
    want = row.split()[NAMES.index(name)]
    if want != "--":
        assert dtype_name(run(full(name))) == SHORT[want]


@pytest.mark.parametrize(
    "refused",
    [
        lambda: full("complex64").max(),
        lambda: full("complex64").floor(),
        lambda: full("complex64") // full("complex64"),
        lambda: full("complex64") < full("complex64"),
        lambda: ~full("float32"),
        lambda: full("float32") & full("float32"),
        lambda: full("bool") - full("bool"),
        lambda: -full("bool"),
        lambda: full("int64").mean(),
    ],
)
def test_what_makes_no_sense_for_a_type_is_refused(refused):
    with pytest.raises((TypeError, RuntimeError)):
        refused()


# --- defaults -------------------------------------------------------------------------------------


@pytest.fixture
def restored_default():
    yield
    lucid.set_default_dtype(lucid.float32)


def test_default_types_of_data():
    assert dtype_name(lucid.tensor(1.0)) == "float32"
    assert dtype_name(lucid.tensor([1, 2])) == "int64"
    assert dtype_name(lucid.tensor([True])) == "bool"
    assert dtype_name(lucid.tensor(1j)) == "complex64"
    assert dtype_name(lucid.tensor([1, 2.5])) == "float32"
    assert dtype_name(lucid.tensor([True, 2])) == "int64"
    assert dtype_name(lucid.tensor([])) == "float32"
    assert dtype_name(lucid.tensor(np.ones(2))) == "float64"
    assert dtype_name(lucid.tensor(np.float64(1))) == "float64"


def test_default_types_of_makers():
    assert dtype_name(lucid.zeros(2)) == "float32"
    assert dtype_name(lucid.arange(3)) == "int64"
    assert dtype_name(lucid.arange(3.0)) == "float32"
    assert dtype_name(lucid.full((2,), 1)) == "int64"
    assert dtype_name(lucid.full((2,), 1.0)) == "float32"
    assert dtype_name(lucid.full((2,), True)) == "bool"
    assert dtype_name(lucid.linspace(0, 1, 3)) == "float32"


def test_default_can_be_changed(restored_default):
    lucid.set_default_dtype(lucid.float64)
    assert lucid.get_default_dtype() is lucid.float64
    assert dtype_name(lucid.tensor(1.0)) == "float64"
    assert dtype_name(lucid.zeros(2)) == "float64"
    assert dtype_name(lucid.tensor(1j)) == "complex128"
    assert dtype_name(lucid.tensor([1, 2]) / 2) == "float64"
    assert dtype_name(lucid.tensor([1, 2]) * 1.5) == "float64"
    assert dtype_name(lucid.ones(2, dtype=lucid.float32) * 1.5) == "float32"
    assert repr(lucid.tensor([1.0])) == "Tensor([1.])"


@pytest.mark.parametrize("wrong", [lucid.int64, lucid.complex64, lucid.bool, "text", None, 3])
def test_default_must_be_a_float_type(wrong, restored_default):
    with pytest.raises(TypeError):
        lucid.set_default_dtype(wrong)
    assert lucid.get_default_dtype() is lucid.float32


# --- names and limits -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, *UNSIGNED])
def test_dtype_objects(name):
    d = getattr(lucid, name)
    assert repr(d) == f"lucid.{name}"
    assert lucid.ones(1, dtype=name).dtype is d
    assert lucid.ones(1, dtype=d.numpy).dtype is d
    assert d.itemsize == d.numpy.itemsize
    assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d
    assert d.is_floating_point == (name.startswith(("float", "bfloat")))
    assert d.is_complex == name.startswith("complex")
    assert d.is_signed == (name != "bool" and not name.startswith("uint"))


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        ("half", "float16"),
        ("double", "float64"),
        ("long", "int64"),
        (np.float32, "float32"),
        (ml_dtypes.bfloat16, "bfloat16"),
    ],
)
def test_spellings_of_dtypes(spec, name):
    assert dtype_name(lucid.ones(1, dtype=spec)) == name


@pytest.mark.parametrize("wrong", ["float31", np.dtype("U3"), np.datetime64, object, 5, np.dtype("S3")])
def test_unknown_dtypes_are_refused(wrong):
    with pytest.raises(TypeError):
        lucid.ones(1, dtype=wrong)


def test_complex_and_real_counterparts():
    assert lucid.float32.to_complex() is lucid.complex64
    assert lucid.float64.to_complex() is lucid.complex128
    assert lucid.complex128.to_real() is lucid.float64


@pytest.mark.parametrize(
    ("name", "bits", "eps", "largest", "tiny"),
    [
        ("float16", 16, 0.0009765625, 65504.0, 6.103515625e-05),
        ("bfloat16", 16, 0.0078125, 3.3895313892515355e38, 1.1754943508222875e-38),
        ("float32", 32, 1.1920928955078125e-07, 3.4028234663852886e38, 1.1754943508222875e-38),
        ("float64", 64, 2.220446049250313e-16, 1.7976931348623157e308, 2.2250738585072014e-308),
        ("complex64", 32, 1.1920928955078125e-07, 3.4028234663852886e38, 1.1754943508222875e-38),
        ("complex128", 64, 2.220446049250313e-16, 1.7976931348623157e308, 2.2250738585072014e-308),
    ],
)
def test_finfo(name, bits, eps, largest, tiny):
    info = lucid.finfo(name)
    assert (info.bits, info.eps, info.max, info.min) == (bits, eps, largest, -largest)
    assert info.tiny == info.smallest_normal == tiny


@pytest.mark.parametrize(
    ("name", "bits", "low", "high"),
    [
        ("uint8", 8, 0, 255),
        ("uint16", 16, 0, 65535),
        ("uint32", 32, 0, 4294967295),
        ("uint64", 64, 0, 18446744073709551615),
        ("int8", 8, -128, 127),
        ("int16", 16, -32768, 32767),
        ("int32", 32, -2147483648, 2147483647),
        ("int64", 64, -9223372036854775808, 9223372036854775807),
    ],
)
def test_iinfo(name, bits, low, high):
    info = lucid.iinfo(name)
    assert (info.bits, info.min, info.max) == (bits, low, high)


def test_infos_refuse_the_other_kind():
    assert lucid.finfo().dtype is lucid.float32
    with pytest.raises(TypeError, match="iinfo"):
        lucid.finfo(lucid.int64)
    with pytest.raises(TypeError, match="finfo"):
        lucid.iinfo(lucid.float32)
    with pytest.raises(TypeError):
        lucid.iinfo(lucid.bool)


def test_can_cast_follows_the_kinds():
    assert lucid.can_cast(lucid.float64, lucid.float16)
    assert lucid.can_cast(lucid.int64, lucid.int8)
    assert lucid.can_cast(lucid.int64, lucid.float16)
    assert lucid.can_cast(lucid.float32, lucid.complex64)
    assert not lucid.can_cast(lucid.float32, lucid.int64)
    assert not lucid.can_cast(lucid.complex64, lucid.float64)
    assert not lucid.can_cast(lucid.int8, lucid.bool)


# --- conversion -----------------------------------------------------------------------------------


@pairs
def test_conversion_between_all_types(a, b):
    if a.startswith("complex") and not b.startswith("complex"):
        return
    out = lucid.tensor([0, 1], dtype=a).to(b)
    assert dtype_name(out) == b
    assert [complex(v) for v in out.tolist()] == [0, 1]


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("bool", "bool"),
        ("int", "int32"),
        ("long", "int64"),
        ("half", "float16"),
        ("bfloat16", "bfloat16"),
        ("float", "float32"),
        ("double", "float64"),
    ],
)
def test_conversion_methods(method, name):
    assert dtype_name(getattr(lucid.tensor([0, 1, 2]), method)()) == name


def test_conversion_to_the_same_type_is_the_tensor_itself():
    x = lucid.ones(2)
    assert x.to(lucid.float32) is x and x.float() is x
    assert x.to(lucid.float32, copy=True) is not x


def test_conversion_is_differentiable():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    (x.double() * x.half().double()).sum().backward()
    assert dtype_name(x.grad) == "float32" and x.grad.tolist() == [2.0, 4.0]


def test_conversion_to_integers_leaves_the_graph():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    assert not x.long().requires_grad


def test_only_floating_and_complex_tensors_can_require_grad():
    for name in NAMES:
        if name.startswith(("float", "bfloat", "complex")):
            assert lucid.ones(1, dtype=name, requires_grad=True).requires_grad
        else:
            with pytest.raises(RuntimeError, match="floating-point"):
                lucid.ones(1, dtype=name, requires_grad=True)
            with pytest.raises(RuntimeError, match="floating-point"):
                lucid.ones(1, dtype=name).requires_grad_()
