"""Lucid: a differentiable tensor library. A tape you can poke at, transforms you can compose."""

import math as _math
import warnings as _warnings
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from lucid import autograd as autograd
from lucid import func as func
from lucid.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from lucid.core.device import (
    device,
)
from lucid.core.dtypes import (
    bfloat16,
    can_cast,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from lucid.core.dtypes import bool_ as bool
from lucid.core.printing import (
    set_printoptions,
)
from lucid.core.rng import (
    Generator,
)
from lucid.core.tensor import (
    Tensor,
)
from lucid.ops import methods as _methods  # gives the operations to Tensor
from lucid.ops.binary import (
    add,
    addcdiv,
    addcmul,
    allclose,
    atan2,
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    copysign,
    div,
    eq,
    equal,
    float_power,
    floor_divide,
    fmax,
    fmin,
    fmod,
    ge,
    gt,
    hypot,
    isclose,
    le,
    lerp,
    logaddexp,
    logical_and,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    pow,
    remainder,
    sub,
    true_divide,
    where,
    xlogy,
)
from lucid.ops.contractions import (
    addmm,
    baddbmm,
    bmm,
    cross,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    mm,
    mv,
    outer,
    tensordot,
    trace,
)
from lucid.ops.conversion import (
    is_complex,
    is_floating_point,
    is_tensor,
    result_type,
)
from lucid.ops.creation import (
    arange,
    as_tensor,
    asarray,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from lucid.ops.dlpack import (
    from_dlpack,
)
from lucid.ops.indexing import (
    take_along_dim,
)
from lucid.ops.joining import (
    cat,
    concat,
    concatenate,
    dstack,
    hstack,
    stack,
    vstack,
)
from lucid.ops.out import takes_out as _takes_out
from lucid.ops.pieces import (
    chunk,
    diag,
    diag_embed,
    diagonal,
    narrow,
    select,
    split,
    tensor_split,
    tril,
    triu,
    unbind,
)
from lucid.ops.random import (
    bernoulli,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from lucid.ops.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    cummax,
    cummin,
    cumprod,
    cumsum,
    logcumsumexp,
    logsumexp,
    max,
    mean,
    min,
    nanmean,
    nansum,
    norm,
    prod,
    std,
    sum,
    var,
)
from lucid.ops.scatter import (
    argwhere,
    gather,
    index_add,
    index_copy,
    index_fill,
    index_put,
    index_select,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero,
    scatter,
    scatter_add,
    scatter_reduce,
    take,
)
from lucid.ops.shaping import (
    broadcast_tensors,
    broadcast_to,
    clone,
    contiguous,
    detach,
    expand_dims,
    flatten,
    flip,
    fliplr,
    flipud,
    meshgrid,
    moveaxis,
    movedim,
    permute,
    ravel,
    repeat_interleave,
    reshape,
    roll,
    rot90,
    squeeze,
    swapaxes,
    swapdims,
    t,
    tile,
    transpose,
    unflatten,
    unsqueeze,
)
from lucid.ops.softmax import (
    log_softmax,
    softmax,
)
from lucid.ops.sorting import (
    argsort,
    bucketize,
    kthvalue,
    median,
    msort,
    nanmedian,
    nanquantile,
    quantile,
    searchsorted,
    sort,
    topk,
    unique,
    unique_consecutive,
)
from lucid.ops.unary import (
    abs,
    acos,
    acosh,
    angle,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_not,
    ceil,
    clamp,
    clip,
    conj,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    erfinv,
    exp,
    exp2,
    expm1,
    floor,
    frac,
    imag,
    isfinite,
    isinf,
    isnan,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    log_sigmoid,
    logical_not,
    logit,
    nan_to_num,
    neg,
    polygamma,
    real,
    reciprocal,
    relu,
    round,
    rsqrt,
    sgn,
    sigmoid,
    sign,
    sin,
    sinc,
    sinh,
    softplus,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)

# The functions that PyTorch gives an `out=`, beside the elementwise ones, which have it themselves.
_WITH_OUT = """
add sub div clamp round
"""
globals().update({_name: _takes_out(globals()[_name]) for _name in _WITH_OUT.split()})

# Other names that users know these by.
half = float16
float = float32
double = float64
short = int16
int = int32
long = int64
cfloat = complex64
cdouble = complex128
absolute = abs
negative = neg
subtract = sub
multiply = mul
divide = div
not_equal = ne
less = lt
less_equal = le
greater = gt
greater_equal = ge
arcsin = asin
arccos = acos
arctan = atan
arctan2 = atan2
arcsinh = asinh
arccosh = acosh
arctanh = atanh

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None

__version__ = "0.1.0"

# Division by zero and overflow give inf and nan, as in every tensor library. NumPy would also warn; the filter
# holds for calls made by this package only, and costs nothing until a warning is raised.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lucid\.")


if _TYPE_CHECKING:
    from lucid import amp, data, fft, linalg, nn, optim, signal, special, utils
    from lucid.checkpoints import load, save
    from lucid.func.control import cond, scan, while_loop

# Names that load on first use, by the module that has them; a module stands for itself.
_HOMES = {
    "lucid.checkpoints": "load save",
    "lucid.func.control": "cond scan while_loop",
}
_MODULES = "amp data fft linalg nn optim signal special utils"
_ON_DEMAND = {name: home for home, names in _HOMES.items() for name in names.split()}
_ON_DEMAND |= {name: f"lucid.{name}" for name in _MODULES.split()}


def __getattr__(name: str) -> _Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'lucid' has no attribute {name!r}")
    home = _ON_DEMAND[name]
    module = _import_module(home)
    globals()[name] = value = module if home == f"lucid.{name}" else getattr(module, name)
    return value


__all__ = [
    "__version__", "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "addmm", "all", "allclose",
    "amax", "amin", "amp", "angle", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argsort", "argwhere", "as_tensor", "asarray", "asin", "asinh", "atan", "atan2",
    "atanh", "autograd", "baddbmm", "bernoulli", "bfloat16", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bmm", "bool", "broadcast_tensors", "broadcast_to",
    "bucketize", "can_cast", "cat", "cdouble", "ceil", "cfloat", "chunk", "clamp", "clip", "clone", "complex128",
    "complex64", "concat", "concatenate", "cond", "conj", "contiguous", "copysign", "cos", "cosh", "count_nonzero",
    "cross", "cummax", "cummin", "cumprod", "cumsum", "data", "detach", "device", "diag", "diag_embed", "diagonal",
    "digamma", "div", "divide", "dot", "double", "dstack", "dtype", "e", "einsum", "empty", "empty_like",
    "enable_grad", "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand_dims", "expm1", "eye", "fft",
    "finfo", "flatten", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "fork_rng", "frac", "from_dlpack", "from_numpy", "full",
    "full_like", "func", "gather", "ge", "Generator", "get_default_dtype", "get_rng_state", "greater",
    "greater_equal", "gt", "half", "hstack", "hypot", "iinfo", "imag", "index_add", "index_copy", "index_fill",
    "index_put", "index_select", "inf", "inference_mode", "initial_seed", "inner", "int", "int16", "int32", "int64",
    "int8", "is_complex", "is_floating_point", "is_grad_enabled", "is_inference_mode_enabled", "is_tensor",
    "isclose", "isfinite", "isinf", "isnan", "kron", "kthvalue", "le", "lerp", "less", "less_equal", "lgamma",
    "linalg", "linspace", "load", "log", "log10", "log1p", "log2", "log_sigmoid", "log_softmax", "logaddexp",
    "logcumsumexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logspace", "logsumexp",
    "long", "lt", "manual_seed", "masked_fill", "masked_scatter", "masked_select", "matmul", "max", "maximum",
    "mean", "median", "meshgrid", "min", "minimum", "mm", "moveaxis", "movedim", "msort", "mul", "multinomial",
    "multiply", "mv", "nan", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "ne", "neg",
    "negative", "newaxis", "nn", "no_grad", "nonzero", "norm", "normal", "not_equal", "ones", "ones_like", "optim",
    "outer", "permute", "pi", "poisson", "polygamma", "pow", "prod", "promote_types", "quantile", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "ravel", "real", "reciprocal",
    "relu", "remainder", "repeat_interleave", "reshape", "result_type", "roll", "rot90", "round", "rsqrt", "save",
    "scan", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "seed", "select", "set_default_dtype",
    "set_grad_enabled", "set_printoptions", "set_rng_state", "sgn", "short", "sigmoid", "sign", "signal", "sin",
    "sinc", "sinh", "softmax", "softplus", "sort", "special", "split", "sqrt", "square", "squeeze", "stack", "std",
    "sub", "subtract", "sum", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh", "Tensor",
    "tensor", "tensor_split", "tensordot", "tile", "topk", "trace", "transpose", "tril", "triu", "true_divide",
    "trunc", "uint8", "unbind", "unflatten", "unique", "unique_consecutive", "unsqueeze", "utils", "var", "vstack",
    "where", "while_loop", "xlogy", "zeros", "zeros_like",
]  # fmt: skip
