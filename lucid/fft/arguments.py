"""The six kinds of Fourier transform in terms of the primitives, and what users may write for their arguments."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from lucid.arguments.dims import one_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import cast, float_type_of, in_single
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.fft import OTHER_NORM
from lucid.ops.rules import P

Dims = tuple[int, ...]
_HALF = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})

# From an operand of the right type and sizes, its dimensions, the size of the last of them in the result, and `norm`.
KINDS: dict[str, Callable[[Any, Dims, int, str], Any]] = {
    "fft": lambda x, dims, size, norm: P.fft_c2c(x, dims=dims, inverse=False, norm=norm, real=not x.is_complex()),
    "ifft": lambda x, dims, size, norm: P.fft_c2c(x, dims=dims, inverse=True, norm=norm, real=not x.is_complex()),
    "rfft": lambda x, dims, size, norm: P.fft_r2c(x, dims=dims, norm=norm),
    "irfft": lambda x, dims, size, norm: P.fft_c2r(x, dims=dims, size=size, norm=norm),
    # The sign of the exponent turns around by conjugation, and the names of the factors with it.
    "hfft": lambda x, dims, size, norm: P.fft_c2r(P.conj(x), dims=dims, size=size, norm=OTHER_NORM[norm]),
    "ihfft": lambda x, dims, size, norm: P.conj(P.fft_r2c(x, dims=dims, norm=OTHER_NORM[norm])),
}
TAKES_REAL = frozenset({"rfft", "ihfft"})
TAKES_HALF = frozenset({"irfft", "hfft"})


def _numbers(kind: str, name: str, input: Any) -> Tensor:
    """The operand in a type that can be transformed: integers become floats, and floats complex for half spectra."""
    x = in_single(lift(input))
    dtype = x.np_dtype
    if dtype not in dtypes.DIFFERENTIABLE:
        dtype = float_type_of((x,), name)
    if dtype in _HALF:
        raise RuntimeError(f"{name}: there is no transform in {dtypes.of_numpy(dtype).name}; convert to float32 first")
    if kind in TAKES_REAL and dtype in dtypes.COMPLEX:
        raise RuntimeError(
            f"{name} expects a real input tensor, not {x.dtype}; take its .real, or use the transform of complex "
            f"numbers, {name.replace('rfft', 'fft').replace('ihfft', 'ifft')}"
        )
    return cast(x, dtypes.complex_of(dtype) if kind in TAKES_HALF else dtype)


def whole(name: str, argument: str, value: Any) -> int:
    """An argument that must be an integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {argument} must be an integer, not {value!r}")
    return int(value.__index__())


def resized(x: Any, dims: Dims, sizes: Sequence[int]) -> Any:
    """The first `sizes` elements along `dims`, with zeros behind them where there are fewer."""
    have = x.shape
    shape = list(have)
    for d, n in zip(dims, sizes, strict=True):
        shape[d] = n
    wanted = tuple(shape)
    if wanted == have:
        return x
    kept = tuple([min(m, n) for m, n in zip(have, wanted, strict=True)])
    index = tuple([slice(0, n) for n in kept])
    if kept != have:
        x = P.slice(x, index=index)
    return x if kept == wanted else P.slice_back(x, index=index, shape=wanted)


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) else (value,)


def _dims_and_sizes(name: str, x: Tensor, s: Any, dim: Any) -> tuple[Dims, list[int] | None]:
    """Dimensions as numbers from 0, and the sizes asked for, -1 where none is."""
    sizes = None if s is None else [whole(name, "a size", n) for n in _several(s)]
    if dim is not None:
        if _several(dim) and not x.ndim:
            raise IndexError(f"{name}: a 0-d tensor has no dimension {dim}")
        dims = tuple(one_dim(d, x.ndim, name) for d in _several(dim))
    elif sizes is None:
        dims = tuple(range(x.ndim))
    elif len(sizes) > x.ndim:
        raise RuntimeError(f"{name}: s has {len(sizes)} sizes but the tensor only {x.ndim} dimensions")
    else:
        dims = tuple(range(x.ndim - len(sizes), x.ndim))
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, but {dim} names one twice")
    if sizes is not None and len(sizes) != len(dims):
        raise RuntimeError(f"{name}: s and dim must have the same length, not {len(sizes)} and {len(dims)}")
    return dims, sizes


def _norm(name: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in OTHER_NORM:
        raise RuntimeError(f'{name}: Invalid normalization mode: "{norm}"; use "backward", "ortho" or "forward"')
    return norm


def _transformed(kind: str, name: str, x: Tensor, dims: Dims, sizes: Sequence[int] | None, norm: str) -> Tensor:
    """Bring the operand to its sizes, and transform it."""
    own = [x.shape[d] for d in dims]
    if kind in TAKES_HALF:
        own[-1] = 2 * (own[-1] - 1)
    if sizes is not None:
        own = [n if s == -1 else s for n, s in zip(own, sizes, strict=True)]
    if min(own) < 1:
        raise RuntimeError(
            f"{name}: Invalid number of data points ({min(own)}) specified: shape {x.shape} gives signals of {own} "
            "points; there must be at least 1"
        )
    size = own[-1]
    if kind in TAKES_HALF:
        own[-1] = size // 2 + 1
    return KINDS[kind](resized(x, dims, own), dims, size, norm)


def along_one(kind: str, input: Any, n: Any, dim: Any, norm: str | None) -> Tensor:
    """The transform along one dimension."""
    x = _numbers(kind, kind, input)
    if not x.ndim:
        raise IndexError(f"{kind}: a 0-d tensor has no dimension {dim}")
    sizes = None if n is None else (whole(kind, "n", n),)
    if sizes == (-1,):
        raise RuntimeError(f"{kind}: Invalid number of data points (-1) specified; give at least 1")
    return _transformed(kind, kind, x, (one_dim(dim, x.ndim, kind),), sizes, _norm(kind, norm))


def along_many(kind: str, suffix: str, input: Any, s: Any, dim: Any, norm: str | None) -> Tensor:
    """The transform along several dimensions, under the name of the kind with `suffix`."""
    name = kind + suffix
    x = _numbers(kind, name, input)
    dims, sizes = _dims_and_sizes(name, x, s, dim)
    mode = _norm(name, norm)
    if dims:
        return _transformed(kind, name, x, dims, sizes, mode)
    if kind in ("fft", "ifft"):
        return P.clone(cast(x, dtypes.complex_of(x.np_dtype)))
    raise RuntimeError(f"{name} must transform at least one axis, but no dimension is given")


def numpy_axes(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Accept NumPy's `axis` and `axes` for `dim`."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        for theirs in ("axis", "axes"):
            if theirs in kwargs:
                if "dim" in kwargs:
                    raise TypeError(f"{function.__name__}: give dim or {theirs}, not both")
                kwargs["dim"] = kwargs.pop(theirs)
        return function(*args, **kwargs)

    call.plain = function  # type: ignore[attr-defined]  # for whoever wraps it again, if no arguments have names
    return call


def public(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with `out`, and with NumPy's names."""
    return takes_out(numpy_axes(function))
