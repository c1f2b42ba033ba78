"""The doors to elementwise primitives: type promotion, and a short cut for plain tensors.

The short cut does what `lucid.core.primitive.apply` does, without its loops: a recorded multiplication of
two small tensors costs about three times NumPy's own multiplication (`make bench` shows it), where the
general way would cost eight times.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.core import dtypes, modes
from lucid.core.cuts import cut
from lucid.core.node import ABSENT, save_input, save_output
from lucid.core.primitive import apply, attach, lift, synced
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.rules import Elementwise, P, Partial

ndarray = np.ndarray
_new = object.__new__
_recording = modes.recording.get
_on_arrays = modes.on_arrays.get
_F32, _F64, _BF16 = np.dtype(np.float32), np.dtype(np.float64), dtypes.bfloat16.numpy
_FLOATING = dtypes.FLOATING
_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
_NO_PARAMS: dict[str, Any] = {}
_NUMBERS = (bool, int, float, complex)

# What becomes of the operands' promoted type. KEEP: the result has it. FLOAT: integers turn into
# the default float first. BOOL: the result is a truth value. INTEGRAL: floats are refused.
KEEP, FLOAT, BOOL, INTEGRAL = "keep", "float", "bool", "integral"


def cast(x: Tensor, target: np.dtype[Any]) -> Tensor:
    return x if x.np_dtype == target else P.cast(x, dtype=target, source=x.np_dtype)


def promote(name: str, args: Sequence[Any], policy: str) -> list[Any]:
    """Operands as tensors of one type and Python numbers that do not change it."""
    operands = [_operand(name, a) for a in args]
    if all(isinstance(a, _NUMBERS) for a in operands):
        operands = [lift(a) for a in operands]
    tensors = [a for a in operands if isinstance(a, Tensor)]
    target = dtypes.result_type_of(
        [t.np_dtype for t in tensors if t.ndim],
        [t.np_dtype for t in tensors if not t.ndim],
        [a for a in operands if not isinstance(a, Tensor)],
    )
    if policy == FLOAT and target not in _DIFFERENTIABLE:
        target = dtypes.default_float()
    if policy == INTEGRAL and target in _DIFFERENTIABLE:
        raise TypeError(f"{name} takes integer or boolean tensors, not {dtypes.of_numpy(target)}")
    if target is _BF16:
        # NumPy does not know that a Python number leaves this type as it is.
        operands = [a if isinstance(a, Tensor) else Tensor._wrap(np.asarray(a, target)) for a in operands]
    return [cast(a, target) if isinstance(a, Tensor) else a for a in operands]


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Tensor) or type(value) in _NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, ndarray | list | tuple):
        return lift(value)
    if isinstance(value, _NUMBERS):
        return value
    raise TypeError(f"{name}: expected a tensor, an array or a number, not {type(value).__name__}")


def general(prim: Elementwise, args: Sequence[Any], policy: str, params: dict[str, Any]) -> Any:
    """Any mixture of operands."""
    if _on_arrays():
        for a in args:
            if isinstance(a, Tensor):
                break
        else:
            return prim.impl(*args, **params)
    operands = promote(prim.name, args, policy)
    try:
        return apply(prim, operands, params)
    except ValueError as error:
        raise shape_error(prim.name, operands, error) from None


def shape_error(name: str, operands: Sequence[Any], error: ValueError) -> Exception:
    """The error for operands that do not broadcast, or the original one if they do."""
    shapes = [shape_of(a) for a in operands]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " and ".join(str(s) for s in shapes)
        return RuntimeError(
            f"{name}: shapes {shown} do not broadcast: aligned from the right, "
            "each pair of sizes must be equal or contain a 1"
        )
    return error


# Python numbers as arrays, which NumPy multiplies by in half the time. 0 is left out for its sign, nan since it
# never compares equal; both tables stay small.
_constants: dict[Any, dict[float, Any]] = {_F32: {}, _F64: {}}
_MOST_CONSTANTS = 512


def constant(value: float, kind: np.dtype[Any]) -> Any:
    """A Python number as a 0-d array of this type."""
    table = _constants[kind]
    found = table.get(value)
    if found is None:
        found = np.asarray(value, kind)
        if value and value == value and len(table) < _MOST_CONSTANTS:
            table[value] = found
    return found


def unary(name: str, impl: Callable[..., Any], d: Partial | None, doc: str, policy: str = FLOAT) -> Callable[..., Any]:
    """Declare an elementwise primitive of one operand and give its function."""
    return unary_door(Elementwise(name, impl, (d,), ("x",)), policy, doc)


def unary_door(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    impl = prim.impl
    reads = prim.wanted((True,))
    keep_x, keep_out = reads[0], reads[1]
    alone = -1 if keep_x == keep_out else int(keep_out)  # the place of a value that is saved alone
    differentiable = prim.differentiable
    accepts_integers = policy in (KEEP, BOOL)

    def op(input: Any) -> Any:
        if type(input) is not Tensor:
            return general(prim, (input,), policy, _NO_PARAMS)
        x = input._array
        if x.dtype is not _F32 and not accepts_integers and x.dtype not in _DIFFERENTIABLE:
            return general(prim, (input,), policy, _NO_PARAMS)
        y = impl(x)
        out = _new(Tensor)
        out._array = y if type(y) is ndarray else np.asarray(y)
        out._requires_grad = False
        out._grad = out._node = out._meta = None
        if input._meta is not None:
            synced(input)
        if input._requires_grad and differentiable:
            if _recording():
                saved: Any = None
                if keep_x:
                    saved = input if input._meta is None else save_input(input)
                    if keep_out:
                        saved = (saved, save_output(out))
                elif keep_out:
                    saved = save_output(out)
                edge = input if input._node is None else input._node
                attach(out, prim, edge, ABSENT, None, saved, alone, None, _NO_PARAMS, x.shape)
            else:
                cut("no_grad", input)
        return out

    return _named(op, prim, doc)


def binary(
    name: str,
    impl: Callable[..., Any],
    d: tuple[Partial, Partial] | tuple[None, None],
    doc: str,
    policy: str = KEEP,
) -> Callable[..., Any]:
    """Declare an elementwise primitive of two operands and give its function."""
    return binary_door(Elementwise(name, impl, d, ("x", "y")), policy, doc)


def binary_door(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    impl = prim.impl
    floats = policy == FLOAT
    integral = policy == INTEGRAL
    differentiable = prim.differentiable
    wanted_x, wanted_y, wanted_both = (prim.wanted(needs) for needs in ((True, False), (False, True), (True, True)))

    def op(input: Any, other: Any) -> Any:
        need_x = need_y = False
        if type(input) is Tensor:
            x = input._array
            kind = x.dtype
            if input._meta is not None:
                synced(input)
            need_x = input._requires_grad
            if type(other) is Tensor:
                y = other._array
                if kind is not y.dtype or integral or (floats and kind not in _DIFFERENTIABLE):
                    return general(prim, (input, other), policy, _NO_PARAMS)
                if other._meta is not None:
                    synced(other)
                need_y = other._requires_grad
            elif (type(other) is float or type(other) is int) and (kind is _F32 or kind is _F64):
                y = constant(other, kind)
            else:
                return general(prim, (input, other), policy, _NO_PARAMS)
        elif type(other) is Tensor and (type(input) is float or type(input) is int):
            y = other._array
            if y.dtype is not _F32 and y.dtype is not _F64:
                return general(prim, (input, other), policy, _NO_PARAMS)
            x = constant(input, y.dtype)
            if other._meta is not None:
                synced(other)
            need_y = other._requires_grad
        else:
            return general(prim, (input, other), policy, _NO_PARAMS)
        try:
            z = impl(x, y)
        except ValueError as error:
            raise shape_error(prim.name, (x, y), error) from None
        out = _new(Tensor)
        out._array = z if type(z) is ndarray else np.asarray(z)
        out._requires_grad = False
        out._grad = out._node = out._meta = None
        if (need_x or need_y) and differentiable:
            if not _recording():
                cut("no_grad", input if need_x else other)
                return out
            if need_x:
                keep_x, keep_y, keep_out = wanted_both if need_y else wanted_x
            else:
                keep_x, keep_y, keep_out = wanted_y
            # One value is saved as it is, several as a tuple; a constant has no memory to free.
            if keep_x:
                saved = x if type(input) is not Tensor else input if input._meta is None else save_input(input)
                alone = 0
            elif keep_y:
                saved = y if type(other) is not Tensor else other if other._meta is None else save_input(other)
                alone = 1
            else:
                saved = save_output(out) if keep_out else None
                alone = 2 if keep_out else -1
            if keep_x + keep_y + keep_out > 1:
                alone = -1
                saved = (
                    saved if keep_x else None,
                    (y if type(other) is not Tensor else save_input(other)) if keep_y else None,
                    save_output(out) if keep_out else None,
                )
            shape = out._array.shape
            shapes = None
            if type(input) is Tensor and type(other) is Tensor and x.shape != y.shape:
                shapes = (x.shape, y.shape)
            edge_x = edge_y = None
            if need_x:
                edge_x = input if input._node is None else input._node
            if need_y:
                edge_y = other if other._node is None else other._node
            attach(out, prim, edge_x, edge_y, None, saved, alone, shapes, _NO_PARAMS, shape)
        return out

    return _named(op, prim, doc)


def _named(op: Callable[..., Any], prim: Elementwise, doc: str) -> Callable[..., Any]:
    """Name the function and write its docstring: `doc` is a sentence, " | " and an example `operands -> result`."""
    text, _, example = doc.partition(" | ")
    op.__name__ = op.__qualname__ = prim.name
    if example:
        operands, _, result = example.partition(" -> ")
        call = ", ".join(f"lucid.tensor({o})" for o in operands.split("; "))
        text += f"\n\n    >>> import lucid\n    >>> lucid.{prim.name}({call})\n    {result}\n    "
    op.__doc__ = text
    op.primitive = prim  # type: ignore[attr-defined]  # where checks and NumPy's protocol find it
    return op
