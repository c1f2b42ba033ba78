"""NumPy speaks Tensor: what `np.sin(tensor)`, `array * tensor` or `np.concatenate([tensor, array])` do.

NumPy hands a call with a tensor among its arguments to `array_ufunc` or `array_function`. A table finds lucid's
counterpart, and the result is a tensor that can be differentiated. Without a counterpart NumPy's own function runs on
the arrays and gives arrays, unless that would lose a gradient silently.
"""

import importlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lucid.api import conversion, reductions
from lucid.api.names import ROWS, Row, having
from lucid.arguments.promotion import as_floats, exact, lift_all
from lucid.core import modes
from lucid.core.primitive import lift
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.interop import numpy_arrangement, numpy_calculus
from lucid.interop.numpy_functions import FUNCTIONS, Function, NoCounterpartError
from lucid.interop.numpy_linalg import LINALG
from lucid.interop.numpy_updates import write_at
from lucid.kinds.dual import Dual
from lucid.ops import binary, unary

_NO_VALUE = np._NoValue
_TYPES = (Tensor, np.ndarray)
_ARRAYS_OWN = np.ndarray.__array_ufunc__


# --- running on arrays -------------------------------------------------------------------------


def _differentiated(tensor: Tensor) -> bool:
    """Whether somebody is going to ask for a derivative by this tensor."""
    found: Any = tensor
    while isinstance(found, Tensor):
        if isinstance(found, Dual) or (found.requires_grad and modes.recording.get()):
            return True
        found = found._array
    return False


def _raise_if_differentiated(name: str, value: Any, why: str) -> None:
    if isinstance(value, Tensor):
        if _differentiated(value):
            raise TypeError(f"{name}: {why}. detach() the tensor first if the gradient is not wanted.")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _raise_if_differentiated(name, item, why)
    elif isinstance(value, dict):
        _raise_if_differentiated(name, list(value.values()), why)


def _arrays(value: Any, read: Function) -> Any:
    """The same arguments with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return read(value)
    if isinstance(value, list):
        return [_arrays(v, read) for v in value]
    if isinstance(value, tuple):
        items = [_arrays(v, read) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return {k: _arrays(v, read) for k, v in value.items()} if isinstance(value, dict) else value


def holds_tensors(values: Any) -> bool:
    """Whether there is a tensor among values, or in lists and tuples of them."""
    for value in values:
        if isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and holds_tensors(value)):
            return True
    return False


def on_arrays(name: str, function: Function, args: Any, kwargs: Any) -> Any:
    """NumPy's own function, where it takes no gradient with it."""
    why = "no counterpart in lucid for this NumPy function with these arguments, so a gradient would be lost"
    _raise_if_differentiated(name, (args, kwargs), why)
    result = function(*_arrays(args, conversion.numpy), **_arrays(kwargs, conversion.numpy))
    out = kwargs.get("out")
    for target in out if isinstance(out, tuple) else (out,):
        if isinstance(target, Tensor):
            storage_of(target).bump(name)
    if not isinstance(out, tuple):
        return result if out is None else out
    results = result if isinstance(result, tuple) else (result,)
    stored = tuple(r if o is None else o for r, o in zip(results, out, strict=True))
    return stored if len(stored) > 1 else stored[0]


def _stored(name: str, result: Any, out: Any, casting: Any = "same_kind") -> Any:
    """The result written into what the caller gave as `out`, an array or a tensor, or one for each result."""
    if isinstance(out, tuple):
        results = result if isinstance(result, tuple) else (result,)
        stored = tuple(r if o is None else _stored(name, r, o, casting) for r, o in zip(results, out, strict=True))
        return stored if len(stored) > 1 else stored[0]
    if isinstance(out, Tensor):
        kind = result.np_dtype if isinstance(result, Tensor) else np.asarray(result).dtype
        if not np.can_cast(kind, out.np_dtype, casting):
            raise TypeError(
                f"{name}: a result of type {kind} cannot be cast to out of type {out.np_dtype} by {casting!r}"
            )
        return out.copy_(result)
    why = "a result that requires grad cannot be written into a NumPy array"
    _raise_if_differentiated(name, result, why)
    np.copyto(out, _arrays(result, conversion.numpy), casting=casting)
    return out


# --- ufuncs ------------------------------------------------------------------------------------


def _cube_root(x: Any) -> Tensor:
    size = unary.abs(as_floats(x))
    zero = size == 0
    return unary.sign(lift(x)) * binary.where(zero, 0, binary.pow(binary.where(zero, 1, size), 1 / 3))


def _step(x: Any, at_zero: Any) -> Tensor:
    """NumPy's `heaviside`, which promotes types, and gives nan for nan."""
    floats = as_floats(x)
    return binary.where(floats == 0, as_floats(at_zero), (unary.sign(floats) + 1) / 2)


def ufuncs(rows: Iterable[Row] = ROWS) -> dict[np.ufunc, Function]:
    """What the table of names has for NumPy's ufuncs."""
    known = ((row, getattr(np, n, None)) for row in having("numpy", rows) for n in row.named("numpy") or row.names)
    return {ufunc: row.function() for row, ufunc in known if isinstance(ufunc, np.ufunc)}


UFUNCS: dict[np.ufunc, Function] = {
    **ufuncs(),
    np.positive: lambda x: lift(x).clone(),
    np.cbrt: _cube_root,
    np.heaviside: _step,
    np.modf: lambda x: (unary.frac(as_floats(x)), unary.trunc(as_floats(x))),
    np.fabs: lambda x: unary.abs(as_floats(x)),
    np.rint: lambda x: unary.round(as_floats(x)),
    np.divmod: lambda x, y: (binary.floor_divide(x, y), binary.remainder(x, y)),
}
REDUCTIONS: dict[np.ufunc, Function] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.amax,
    np.minimum: reductions.amin,
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
    np.logaddexp: reductions.logsumexp,
}
SCANS: dict[np.ufunc, Function] = {
    np.add: reductions.cumsum,
    np.multiply: reductions.cumprod,
    np.maximum: lambda x, dim: reductions.cummax(x, dim).values,
    np.minimum: lambda x, dim: reductions.cummin(x, dim).values,
    np.logaddexp: reductions.logcumsumexp,
}


def array_ufunc(self: Tensor | None, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`Tensor.__array_ufunc__`: NumPy's elementwise functions on tensors.

    >>> import lucid, numpy as np
    >>> np.array([1.0, 2.0], dtype=np.float32) * lucid.tensor([3.0, 4.0])
    Tensor([3., 8.])
    """
    out = kwargs.get("out")
    for x in inputs if out is None else (*inputs, *out):
        if type(x) is not Tensor and type(x) is not np.ndarray and _speaks_for_itself(x):
            return NotImplemented
    if not kwargs and method == "__call__" and (known := UFUNCS.get(ufunc)) is not None:
        return known(*inputs)
    name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if method == "at" and isinstance(inputs[0], Tensor):
        write_at(ufunc, *inputs)
        return None
    try:
        result = _ufunc_result(ufunc, method, inputs, kwargs)
    except NoCounterpartError:
        return on_arrays(name, getattr(ufunc, method), inputs, kwargs)
    return result if out is None else _stored(name, result, out, kwargs.get("casting", "same_kind"))


def _speaks_for_itself(x: Any) -> bool:
    """Whether an operand's own type is to decide, as those of other libraries are."""
    return getattr(type(x), "__array_ufunc__", _ARRAYS_OWN) is not _ARRAYS_OWN and not isinstance(x, Tensor)


def _counterpart(ufunc: np.ufunc) -> Function:
    found = UFUNCS.get(ufunc) or _of_scipy(ufunc)
    if found is None:
        raise NoCounterpartError
    return found


def _of_scipy(ufunc: np.ufunc) -> Function | None:
    """The counterpart of a ufunc of SciPy's; their table loads SciPy, which must not happen before the user does it."""
    if "scipy.special" not in sys.modules:  # so it is not one of SciPy's
        return None
    known: dict[np.ufunc, Function] = importlib.import_module("lucid.interop.scipy_ufuncs").UFUNCS
    return known.get(ufunc)


def _ufunc_result(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    settings = {
        k: v
        for k, v in kwargs.items()
        if k != "out" and v is not None and v is not _NO_VALUE and not (k == "where" and v is True)
    }
    if method == "__call__":
        return _called(_counterpart(ufunc), inputs, **settings)
    if method == "outer":
        x, y = lift_all(*inputs)
        return _called(_counterpart(ufunc), (x.reshape(x.shape + (1,) * y.ndim), y), **settings)
    if method == "reduce" and ufunc in REDUCTIONS:
        settings = {"axis": None, **settings} if kwargs.get("axis", 0) is None else {"axis": 0, **settings}
        return _reduced(REDUCTIONS[ufunc], inputs[0], **settings)
    if method == "accumulate" and ufunc in SCANS:
        return _accumulated(SCANS[ufunc], inputs[0], **settings)
    raise NoCounterpartError


def _called(function: Function, inputs: Sequence[Any], dtype: Any = None, **rest: Any) -> Any:
    if rest:
        raise NoCounterpartError
    if dtype is not None:
        inputs = [exact(x).to(dtype) for x in inputs]
    return function(*inputs)


def _reduced(function: Function, x: Any, axis: Any, keepdims: bool = False, dtype: Any = None, **rest: Any) -> Any:
    if rest or axis == ():
        raise NoCounterpartError
    return function(lift(x) if dtype is None else lift(x).to(dtype), axis, keepdims)


def _accumulated(function: Function, x: Any, axis: int = 0, dtype: Any = None, **rest: Any) -> Any:
    if rest:
        raise NoCounterpartError
    return function(lift(x) if dtype is None else lift(x).to(dtype), axis)


def _copyto(dst: Any, src: Any) -> None:
    if not isinstance(dst, Tensor):
        _stored("numpy.copyto", src, dst)
        return
    dst.copy_(src)


FUNCTIONS[np.copyto] = _copyto
FUNCTIONS.update(numpy_arrangement.FUNCTIONS | numpy_calculus.FUNCTIONS | LINALG)

# Functions whose result has no derivative to lose: they always run on the arrays.
READERS = frozenset(
    {
        np.allclose, np.array_equal, np.array_equiv, np.array2string, np.array_repr, np.array_str, np.save, np.savez,
        np.savez_compressed, np.savetxt, np.result_type, np.can_cast, np.min_scalar_type, np.common_type,
        np.shares_memory, np.may_share_memory, np.isin, np.isreal, np.iscomplex, np.isposinf, np.isneginf,
        np.argwhere, np.flatnonzero, np.lexsort, np.digitize, np.histogram_bin_edges, np.einsum_path,
    }
)  # fmt: skip
# Functions that write into their first argument.
WRITERS = frozenset({np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis})
# Settings that change how NumPy computes, and not what.
_IGNORED = frozenset({"subok", "casting", "overwrite_input", "kind"})


def array_function(self: Tensor | None, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.__array_function__`: NumPy's other functions on tensors.

    >>> import lucid, numpy as np
    >>> np.concatenate([lucid.tensor([1.0]), lucid.tensor([2.0])])
    Tensor([1., 2.])
    """
    for t in types:
        if not issubclass(t, _TYPES):
            return NotImplemented
    translation = FUNCTIONS.get(func)
    if not holds_tensors(args) and not holds_tensors(v for k, v in kwargs.items() if k != "out"):
        translation = None  # only the place for the result is a tensor
    if translation is not None and _fits(translation, args, settings := _settings(translation, kwargs)):
        try:
            result = translation(*args, **settings)
        except NoCounterpartError:
            pass
        else:
            out = kwargs.get("out")
            return result if out is None else _stored(_name(func), result, out)
    if func in READERS:
        read = _reader(func)
        return func(*_arrays(args, read), **_arrays(kwargs, read))
    result = on_arrays(_name(func), func, args, kwargs)
    if func in WRITERS and isinstance(args[0], Tensor):
        storage_of(args[0]).bump(_name(func))
    return result


def _name(func: Any) -> str:
    return f"{func.__module__}.{func.__name__}"


def _reader(func: Any) -> Function:
    """Reads tensors as arrays and leaves no trace on them."""
    name = _name(func)
    return lambda tensor: tensor._concrete(name)


def _settings(function: Function, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords without those that say nothing to a translation."""
    if not kwargs:
        return kwargs
    names = _names(function)
    return {k: v for k, v in kwargs.items() if k != "out" and (k in names or not _is_default(k, v))}


def _is_default(key: str, value: Any) -> bool:
    if key in _IGNORED or value is None or value is _NO_VALUE:
        return True
    return (key == "order" and value in ("C", "K", "A")) or (key == "sparse" and value is False)


def _names(function: Function) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _fits(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a translation knows all arguments, and `axis` means the same to lucid: () is all dimensions to it."""
    code = function.__code__
    if not code.co_flags & inspect.CO_VARARGS and len(args) > code.co_argcount:
        return False
    if not kwargs:
        return True
    names = _names(function)
    return all(k in names for k in kwargs) and not (isinstance(kwargs.get("axis"), tuple) and not kwargs["axis"])
