"""`out=`: results written into tensors that the caller has."""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from threading import get_ident
from typing import Any

from lucid.arguments.promotion import INTEGRAL, KEEP
from lucid.core import dtypes, modes
from lucid.core.arrays import empty
from lucid.core.destinations import compute_into, waiting
from lucid.core.fields import TensorFields
from lucid.core.kernels import table
from lucid.core.levels import tracing
from lucid.core.primitive import constant, element_type, synced
from lucid.core.storage import FROZEN
from lucid.core.tensor import Tensor, is_plain, shape_of
from lucid.core.tree import flatten
from lucid.native import PyObject_Call
from lucid.tape.inplace import is_unrecorded_view, tied_again

_ONE = "one_primitive"


class One:
    """What a function applies that applies one primitive: to tensors alone, and with a number by the name of `keyword`.

    None stands for a primitive that the arguments decide. With parameters, arguments with names are the primitive's.
    By the policy, tensors of one type may first be converted to another: None if that is not said. `defaults` are the
    primitive's parameters where it is the one of a tensor alone, and others decide the arguments. `settings` gives the
    parameters from the arrays of all tensors, or None where more than the primitive may be to do.
    """

    def __init__(
        self,
        primitive: Any,
        has_parameters: bool,
        policy: str | None,
        defaults: dict[str, Any] | None,
        settings: Callable[[list[Any]], dict[str, Any] | None] | None,
        keyword: str,
        with_keyword: Any,
    ) -> None:
        self.primitive, self.has_parameters, self.policy = primitive, has_parameters, policy
        self.defaults, self.settings = defaults, settings
        self.keyword, self.with_keyword = keyword, with_keyword

    def takes(self, primitive: Any, kind: Any) -> bool:
        """Whether the primitive runs on tensors of a type, none of the common ones, as they are."""
        if kind.kind == "c":
            return self.policy is not None and not getattr(primitive, "real", False)
        if kind in _DIFFERENTIABLE:
            return self.policy is not None and self.policy != INTEGRAL
        return self.policy == KEEP or self.policy == INTEGRAL


def one_primitive(
    primitive: Any = None,
    has_parameters: bool = False,
    policy: str | None = None,
    defaults: Any = None,
    settings: Any = None,
    **with_keyword: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say of a function that it applies one primitive, to all tensors that it is given.

    So the result may be computed in the memory of `out` or, for the in-place form, of an operand. Where a function
    applies none or several, as some do for few arguments, the others must not be tensors.
    """
    ((keyword, other),) = with_keyword.items() or (("", None),)

    def said(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _ONE, One(primitive, has_parameters, policy, defaults, settings, keyword, other))
        return function

    return said


def the_one(function: Callable[..., Any]) -> One | None:
    """What was said of a function, if anything was."""
    return getattr(function, _ONE, None)


_recording = modes.recording.get
_NOTHING: dict[str, Any] = {}
_STRUCTURES = (list, tuple, dict)
_SIMPLE = frozenset([bool, int, float, str])
_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
_LARGEST_HALF = 65504
_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy


def _is_free(target: Tensor) -> bool:
    """Whether a write to a tensor changes its memory, and nothing else if it is not recorded."""
    if target._level or tracing() or target._marked or target._meta is FROZEN:
        return False
    synced(target)
    if target._meta is None:
        return True
    storage = target._meta.storage
    return storage.followers is None and not is_unrecorded_view(target)


def computed_into(
    target: Tensor, name: str, one: One, function: Callable[..., Any], args: tuple[Any, ...], params: dict[str, Any]
) -> bool:
    """Compute what a function gives that applies `one` primitive in the memory of `target`; whether that was done.

    It is not where something is to be recorded, or the result has another shape, or a type that is not converted.
    """
    if not _is_free(target):
        return False
    requires_grad, tensors, arrays = target._requires_grad, [], []
    kind, given = target._array.dtype, args
    primitive, settings = one.primitive, params
    if one.defaults is not None:
        if params or len(args) > 1:
            primitive = None
        settings = one.defaults
    if params:
        given = (*args, *params.values())
        if not one.has_parameters and one.defaults is None:
            primitive = one.with_keyword if len(params) == 1 and one.keyword in params else None
            settings = _NOTHING
    common = kind is _F32 or kind is _F64
    direct = primitive is not None and (common or one.takes(primitive, kind))
    for value in given:
        if isinstance(value, TensorFields):
            fields = value
            if fields._level:
                return False
            synced(fields)
            requires_grad = requires_grad or fields._requires_grad
            tensors.append(fields)
            if direct:
                arrays.append(fields._array)
                direct = fields._array.dtype is kind and not (one.has_parameters and len(arrays) > len(args))
        elif type(value) is float or type(value) is int:
            direct = direct and (common or (kind in _DIFFERENTIABLE and -_LARGEST_HALF <= value <= _LARGEST_HALF))
            if direct:
                arrays.append(constant(value, kind))
        elif value is None or type(value) is bool or type(value) is str:
            direct = False
        else:
            return False
    if requires_grad and _recording():
        return False
    if direct and one.settings is not None:
        found = one.settings(arrays)
        direct, settings = found is not None, found or settings
    if direct:
        operands = tuple(arrays[: len(args)] if one.has_parameters else arrays)
        if table["call_into"](primitive, target._array, operands, settings):
            note_write(target, name)
            return True
    if 0 in target._array.shape:
        return False  # the result may be large, and `out` be given its shape
    if direct:
        found = PyObject_Call(function, args, params)
    else:
        found = compute_into(target, tensors, function, args, params)
        if found is target:
            note_write(target, name)
            return True
    return _put_converted(target, found, name)


def computed_apart(
    target: Tensor, name: str, function: Callable[..., Any], args: tuple[Any, ...], params: dict[str, Any]
) -> bool:
    """Write what a function gives into `target`, if nothing is to be recorded; whether that was done."""
    if not _is_free(target):
        return False
    requires_grad = target._requires_grad
    for value in (*args, *params.values()) if params else args:
        if isinstance(value, TensorFields):
            fields = value
            if fields._level:
                return False
            synced(fields)
            requires_grad = requires_grad or fields._requires_grad
        elif not (value is None or type(value) in _SIMPLE):
            return False
    if requires_grad and _recording():
        return False
    return _put_converted(target, PyObject_Call(function, args, params), name)


def _put_converted(target: Tensor, found: Any, name: str) -> bool:
    """Write a result of the shape of `target` and of a type that may become its type; whether that was done."""
    if not isinstance(found, Tensor) or not is_plain(found) or shape_of(found) != shape_of(target):
        return False
    kind = element_type(target)
    if element_type(found) is not kind:
        if not dtypes.can_cast(found.dtype, target.dtype):
            return False
        found = found.to(kind)
    return put(target, found, name)


def compute_apart() -> None:
    """What is computed next is not the result yet: it gets memory of its own."""
    waiting.pop(get_ident(), None)


def memory_of(target: Tensor, source: Tensor) -> Any:
    """The array of a tensor, if elements of `source` may be written there and nothing is to be recorded, or None.

    `note_write` comes after that.
    """
    if source._level:
        return None
    array = memory_for_numbers(target)
    synced(source)
    return None if source._requires_grad and _recording() else array


def memory_for_numbers(target: Tensor) -> Any:
    """The same for elements that belong to no tensor."""
    if not _is_free(target) or not table["is_writable"](target._array):
        return None
    return None if target._requires_grad and _recording() else target._array


def note_write(target: Tensor, name: str) -> None:
    """Say that the memory of a tensor was written."""
    storage = tied_again(target)
    storage.bump(name)


def put(target: Tensor, source: Tensor, name: str) -> bool:
    """Write elements of the type of `target`, which broadcast to its shape, where nothing is to be recorded; whether it was."""
    array = memory_of(target, source)
    if array is None:
        return False
    table["assign"](array, source._array)
    note_write(target, name)
    return True


def into(out: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the function and write its result into `out`, a tensor or one tensor for each result."""
    name, one = function.__name__, the_one(function)
    if one is not None and isinstance(out, Tensor) and computed_into(out, name, one, function, tuple(args), kwargs):
        return out
    return _put_apart(out, name, function, args, kwargs)


def _put_apart(out: Any, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    targets = [out] if isinstance(out, Tensor) else list(out) if isinstance(out, (tuple, list)) else []
    if not targets or not all(isinstance(t, Tensor) for t in targets):
        raise TypeError(f"{name}: out must be a tensor, or one tensor for each result, not {out!r}")
    if _recording() and (
        _one_requires_grad(args) or _one_requires_grad(targets) or _one_requires_grad(kwargs.values())
    ):
        raise RuntimeError(
            f"{name}: functions with out= don't support automatic differentiation, but one of the arguments "
            "requires grad; call it without out=, or under lucid.no_grad()"
        )
    result = function(*args, **kwargs)
    is_alike = isinstance(out, Tensor) and isinstance(result, Tensor) and shape_of(out) == shape_of(result)
    if is_alike and element_type(out) is element_type(result) and put(out, result, name):
        return out
    results = [result] if isinstance(result, Tensor) else list(result)
    if len(results) != len(targets):
        raise TypeError(f"{name}: out has {len(targets)} tensors for {len(results)} results")
    for target, value in zip(targets, results, strict=True):
        _raise_if_unfit(name, target, value)
    for target, value in zip(targets, results, strict=True):
        if target.shape != value.shape:
            target.data = Tensor._wrap(empty(value.shape, target.np_dtype))
        target.copy_(value)
    if isinstance(result, Tensor):
        return targets[0]
    return type(result)(*targets) if hasattr(result, "_fields") else tuple(targets)


def _one_requires_grad(values: Iterable[Any]) -> bool:
    """Whether one of the values, or of those in structures among them, is a tensor that requires grad."""
    for value in values:
        if isinstance(value, TensorFields):
            fields = value
            synced(fields)
            if fields._requires_grad:
                return True
        elif isinstance(value, _STRUCTURES) and _one_requires_grad(flatten(value)[0]):
            return True
    return False


def _raise_if_unfit(name: str, target: Tensor, value: Tensor) -> None:
    if not dtypes.can_cast(value.dtype, target.dtype):
        raise RuntimeError(f"{name}: a result of type {value.dtype} cannot be written into out of type {target.dtype}")
    if target.shape == value.shape:
        target._raise_if_read_only(name)
    elif target.numel() or not is_plain(target):
        raise RuntimeError(
            f"{name}: out has shape {target.shape} but the result has shape {value.shape}; "
            "give out that shape, or no elements to have it resized"
        )


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with one more keyword, `out`."""
    plain, most = getattr(function, "plain", function), getattr(function, "most", sys.maxsize)
    name, one = function.__name__, the_one(function)

    @wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            if not kwargs and len(args) <= most:
                return plain(*args)
            return function(*args, **kwargs)
        if one is not None and isinstance(out, Tensor) and computed_into(out, name, one, function, args, kwargs):
            return out
        return _put_apart(out, name, function, args, kwargs)

    return call


def fills_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that makes a tensor: it makes one of the type of `out`."""

    @wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs) if kwargs else function(*args)
        if isinstance(out, Tensor):
            dtype = kwargs.setdefault("dtype", out.dtype)
            if dtype is not None and dtypes.as_dtype(dtype) != out.dtype:
                raise RuntimeError(f"{function.__name__}: dtype {dtype} is not that of out, {out.dtype}")
            kwargs["dtype"] = out.dtype
        return into(out, function, args, kwargs)

    return call
