"""Where PyTorch is installed: its own samples of its own operations, in both libraries.

Values, types, shapes, reverse and forward derivatives and second order must agree, in double precision real and
complex; values and types also in single precision, for integers and for booleans.
"""

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
opinfo = pytest.importorskip("opinfo", reason="PyTorch's test tables need the package expecttest", exc_type=ImportError)

# Entries whose values are drawn at random, or are those of memory that nobody has written: only shapes and types can be
# compared.
RANDOM = """
bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial new_empty
new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
nn.functional.feature_alpha_dropout.with_train nn.functional.multi_head_attention_forward
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.rrelu normal normal.in_place
normal.number_mean rand_like randint randint_like randn randn_like uniform
""".split()

# Entries with results that are unique only up to signs or phases: samples come with what makes them comparable.
GAUGE = "linalg.eig linalg.eigh linalg.qr linalg.svd pca_lowrank qr svd svd_lowrank".split()

TIES = "of equal elements, PyTorch leaves open which comes first; here it is the one that stands first"
LAST_WRITE = "where several elements go to one place, only the one that stays there gets a gradient"
ARTEFACTS = "avg_pool2d avg_pool3d gelu hardshrink linear logsigmoid softplus softshrink".split()
CHUNKS = "options for chunks, which change memory and no value, are not there"
FACTORS = "PyTorch cuts factors between 0 and 1 down to 0; here integers times such a factor are floats"
POSITIONS = "positions are integers, also in a tensor of no dimensions"
SPARSE = "the samples are sparse, and the copies made of them are not"
NOTHING_SEEN = "PyTorch's derivative is nan where everything is masked; here it is 0"
# Deliberate differences: a type, or what of the derivatives, and the reason.
DIFFERENT: dict[str, dict[str, str]] = {
    "__rpow__": {"int64": "integers to negative powers are refused; PyTorch gives 0, or 1 and -1"},
    "addbmm": {"int64": FACTORS},
    "addmv": {"int64": FACTORS},
    "addr": {"bool": "PyTorch gives truth values; here truth values times a number are numbers"},
    "argsort": {"bool": TIES},
    "as_strided.partial_views": {"all": "the samples show part of a larger memory, and the copies made of them do not"},
    "as_strided_scatter": {
        "derivatives": "PyTorch gives a gradient to elements that are overwritten: to a single one, and of complex tensors "
        "to those instead of the others"
    },
    "baddbmm": {"int64": FACTORS},
    "cholesky_inverse": {"forward": "PyTorch's tangent is not that of its values where the factor is not read"},
    "istft": {"derivatives": "PyTorch gives complex windows no gradient"},
    "kthvalue": {"int64": TIES},
    "linalg.norm.subgradients_at_zero": {"second order": "PyTorch's is nan at 0; here the gradient is 0 around it too"},
    "logcumsumexp": {
        "forward": "PyTorch's tangent has six digits only",
        "complex128": "PyTorch does not bring imaginary parts back to those of the principal logarithm",
    },
    **dict.fromkeys(("masked.argmax", "masked.argmin"), dict.fromkeys(("float64", "float32"), POSITIONS)),
    "masked.logaddexp": {"forward": NOTHING_SEEN, "second order": NOTHING_SEEN},
    "masked.logsumexp": {"derivatives": NOTHING_SEEN, "int64": "PyTorch cuts logarithms down to integers"},
    "masked.mean": {"forward": NOTHING_SEEN},
    **{
        f"masked.{name}": {"complex128": "the variance of complex numbers is real", "int64": "integers are refused"}
        for name in ("std", "var")
    },
    "mode": {"int64": TIES, "bool": TIES},
    "nn.functional.ctc_loss": {"derivatives": "PyTorch's gradient takes for granted that log_softmax comes before"},
    "nn.functional.local_response_norm": {"int64": "PyTorch gives integers back where there are no elements"},
    "nn.functional.max_unpool1d": {"derivatives": LAST_WRITE},
    "nn.functional.max_unpool2d": {"derivatives": LAST_WRITE},
    "nn.functional.max_unpool3d": {"derivatives": LAST_WRITE},
    **{f"nn.functional.{name}": {"out": "PyTorch does not document this argument"} for name in ARTEFACTS},
    "nn.functional.linear_cross_entropy.chunked": {"all": CHUNKS},
    "nn.functional.linear_cross_entropy.chunked_none": {"all": CHUNKS},
    "sort": {"bool": TIES},
    "sparse.mm.reduce": {"all": SPARSE},
    "sparse.sampled_addmm": {"all": SPARSE},
    "topk": {"int64": TIES},
}


# Functions of which PyTorch has six digits.
LOOSE = dict.fromkeys("special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1".split(), 2e-5)


NAMES = sorted(name for name, op in opinfo.OPS.items() if opinfo.counterpart(op))


def drawn(name: str, sample: Any) -> bool:
    return name in RANDOM or bool(sample.kwargs.get("dropout_p"))


def check(name: str, dtype: str) -> int:
    """Compare all samples of an entry; how many PyTorch takes."""
    op, different = opinfo.OPS[name], DIFFERENT.get(name, {})
    ours = opinfo.counterpart(op)
    if dtype in different or "all" in different or not op.supports_dtype(opinfo.DTYPES[dtype], "cpu"):
        return 0
    compared = 0
    for k, sample in enumerate(opinfo.samples_of(op, dtype)):
        theirs, mine = opinfo.twins(op, sample, ours)
        what = f"{name} sample {k}: {sample.summary()}"
        smooth = dtype in opinfo.SMOOTH and op.supports_autograd and not drawn(name, sample)
        tolerance = None if drawn(name, sample) else LOOSE.get(name, opinfo.TOLERANCE[dtype])
        if not opinfo.compare_values(theirs, mine, tolerance, what, by_gauge=name in GAUGE):
            continue
        compared += 1
        if smooth and "derivatives" not in different:
            wrapped = not name.startswith("masked.")  # those wrappers only hide what masked results leave open
            opinfo.compare_derivatives(op, *opinfo.twins(op, sample, ours, wrapped), what, different)
    return compared


def check_variants(name: str) -> None:
    """The method, the form in place, the aliases and out=, on a few samples in double precision."""
    op = opinfo.OPS[name]
    ours = opinfo.counterpart(op)
    for alias in op.aliases:
        known = alias.name.removeprefix("torch.")
        assert opinfo.at(opinfo.lucid, known) or hasattr(opinfo.lucid.Tensor, known), f"{name} is also called {known}"
    dtype = next((d for d in opinfo.DTYPES if op.supports_dtype(opinfo.DTYPES[d], "cpu")), None)
    if dtype is None or name in RANDOM or {dtype, "all"} & set(DIFFERENT.get(name, {})):
        return
    for sample in opinfo.samples_of(op, dtype)[::4]:
        theirs, mine = opinfo.twins(op, sample, ours)
        what = f"{name}: {sample.summary()}"
        if drawn(name, sample):
            continue
        for method in opinfo.method_names(op):
            opinfo.compare_method(theirs, mine, method, LOOSE.get(name, 1e-7), what)
        if op.supports_out and "out" not in DIFFERENT.get(name, {}):
            opinfo.compare_out(op, theirs, mine, LOOSE.get(name, 1e-7), what)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("dtype", opinfo.DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_agrees(name: str, dtype: str) -> None:
    if not check(name, dtype):
        pytest.skip("PyTorch has no samples of this type, or the table says how the libraries differ")


@pytest.mark.parametrize("name", NAMES)
def test_variants_agree(name: str) -> None:
    check_variants(name)
