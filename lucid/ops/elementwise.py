"""The doors to elementwise primitives: type promotion, and a short cut for plain tensors.

The short cut does what `lucid.core.primitive.apply` does, without its loops and calls; `make bench` shows what a
recorded and an unrecorded multiplication cost.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.core import dtypes, levels, modes
from lucid.core.cuts import cut
from lucid.core.node import ABSENT, Node, next_seq, save_input, save_output
from lucid.core.place import climb, known_files
from lucid.core.primitive import apply, attach, lift, look_at, synced
from lucid.core.storage import View
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.out import into
from lucid.ops.rules import Elementwise, P, Partial

ndarray = np.ndarray
_new = object.__new__
_getframe = sys._getframe
_is_ours = known_files.get
HOOKED = modes.HOOKED
_recording = modes.recording.get
_on_arrays = modes.on_arrays.get
_F32, _F64, _BF16 = np.dtype(np.float32), np.dtype(np.float64), dtypes.bfloat16.numpy
_FLOATING = dtypes.FLOATING
_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
_NO_PARAMS: dict[str, Any] = {}
_NUMBERS = (bool, int, float, complex)
_SMALL = 1 << 24  # whole numbers below this are exact in every type from float32 up

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
    operands = args
    if not _agree(args) or policy is INTEGRAL:
        operands = promote(prim.name, args, policy)
        for a in operands:
            if type(a) is int and policy != BOOL:
                dtypes.raise_if_outside(a, _type_beside(operands), prim.name)
    try:
        return apply(prim, operands, params)
    except ValueError as error:
        raise shape_error(prim.name, operands, error) from None


def _agree(args: Sequence[Any]) -> bool:
    """Whether all tensors have one floating-point type, beside numbers that leave it as it is: the common case."""
    kind = None
    for a in args:
        if isinstance(a, Tensor):
            own = a._array
            while type(own) is not ndarray:  # down through the kinds, without a property call for each
                own = own._array
            own = own.dtype
            if kind is None:
                kind = own
            elif own is not kind:
                return False
        elif type(a) is not float and (type(a) is not int or not -_SMALL < a < _SMALL):
            return False
    return kind is _F32 or kind is _F64


def _type_beside(operands: Sequence[Any]) -> np.dtype[Any]:
    """The type that promotion gave to the tensors among the operands."""
    return next(a.np_dtype for a in operands if isinstance(a, Tensor))


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

    def op(input: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input,), _NO_PARAMS)
        if type(input) is not Tensor:
            return general(prim, (input,), policy, _NO_PARAMS)
        x = input._array
        if x.dtype is not _F32 and not accepts_integers and x.dtype not in _DIFFERENTIABLE:
            return general(prim, (input,), policy, _NO_PARAMS)
        meta = input._meta
        if meta is not None and type(meta) is View and meta.version != meta.storage.version:
            synced(input)
        y = impl(x)
        out = _new(Tensor)
        out._array = y if type(y) is ndarray else np.asarray(y)
        out._born = levels.newest
        out._requires_grad = False
        out._grad = out._node = out._meta = None
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


NOTHING = (False, False, False, -1)


def _plan(prim: Elementwise, needs: tuple[bool, bool]) -> tuple[bool, bool, bool, int]:
    """Which of x, y and out to save, and the place of the one that is saved alone, or -1."""
    keep_x, keep_y, keep_out = kept = prim.wanted(needs)
    if not any(kept):
        return NOTHING
    return keep_x, keep_y, keep_out, kept.index(True) if sum(kept) == 1 else -1


def binary_door(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    impl = prim.impl
    integral = policy == INTEGRAL
    picky = integral or policy == FLOAT
    differentiable = prim.differentiable
    plan_x, plan_y, plan_both = (_plan(prim, needs) for needs in ((True, False), (False, True), (True, True)))

    def op(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, other), _NO_PARAMS)
        need_x = need_y = False
        if type(input) is Tensor:
            x = input._array
            kind = x.dtype
            meta = input._meta
            if meta is not None and type(meta) is View and meta.version != meta.storage.version:
                synced(input)
            need_x = input._requires_grad
            if type(other) is Tensor:
                y = other._array
                if kind is not y.dtype or (picky and (integral or kind not in _DIFFERENTIABLE)):
                    return general(prim, (input, other), policy, _NO_PARAMS)
                meta = other._meta
                if meta is not None and type(meta) is View and meta.version != meta.storage.version:
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
            meta = other._meta
            if meta is not None and type(meta) is View and meta.version != meta.storage.version:
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
        out._born = levels.newest
        out._grad = out._meta = None
        if not differentiable or not (need_x or need_y):
            out._requires_grad = False
            out._node = None
            return out
        mode = _recording()
        if not mode:
            out._requires_grad = False
            out._node = None
            cut("no_grad", input if need_x else other)
            return out
        # What attach() does, written out: the call alone would cost a tenth of the operation.
        plan = (plan_both if need_y else plan_x) if need_x else plan_y
        alone = plan[3]
        node = Node()
        node.prim = prim
        node.left = node.right = node.others = node.shapes = node.hooks = None
        # Operands whose shape is the result's need no sum in the backward pass; one tuple serves a whole chain.
        shape = out._array.shape
        if need_x:
            if input._node is None:
                node.left = input
                own = x.shape
            else:
                node.left = left = input._node
                own = left.shape
            if own == shape:
                shape = own
            else:
                node.shapes = (x.shape, y.shape)
        if need_y:
            if other._node is None:
                node.right = other
                own = y.shape
            else:
                node.right = right = other._node
                own = right.shape
            if own != shape:
                node.shapes = (x.shape, y.shape)
        node.shape = shape
        # One value is saved as it is, several as a tuple; a constant has no memory to free.
        saved: Any = None
        if alone == 1:
            saved = y if type(other) is not Tensor else other if other._meta is None else save_input(other)
        elif alone == 0:
            saved = x if type(input) is not Tensor else input if input._meta is None else save_input(input)
        elif alone == 2:
            saved = save_output(out)
        elif plan is not NOTHING:
            keep_x, keep_y, keep_out, _ = plan
            saved = (
                (x if type(input) is not Tensor else save_input(input)) if keep_x else None,
                (y if type(other) is not Tensor else save_input(other)) if keep_y else None,
                save_output(out) if keep_out else None,
            )
        node.saved = saved
        node.place_of_saved = alone
        node.params = _NO_PARAMS
        node._seq = next_seq()
        frame = _getframe(1)
        code = frame.f_code
        if _is_ours(code.co_filename, True):
            frame = climb(frame)
            code = frame.f_code
        node.code = code
        node.offset = frame.f_lasti
        out._node = node
        out._requires_grad = True
        if mode is HOOKED:
            look_at(node, out)
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
