# cython: annotation_typing=True
"""The doors to elementwise primitives: type promotion, and a short cut for plain tensors.

The short cut does what `lucid.core.primitive.apply` does, without its loops and calls; `make bench` shows what a
recorded and an unrecorded multiplication cost.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core import dtypes, levels, modes
from lucid.core.arithmetic import OWN
from lucid.core.collector import hide
from lucid.core.cuts import cut
from lucid.core.fields import TensorFields
from lucid.core.node import ABSENT, Node, next_seq, save_input, save_output
from lucid.core.place import DEPTH, climb, known_files
from lucid.core.primitive import attach, look_at, synced
from lucid.core.storage import View
from lucid.core.tensor import Tensor
from lucid.native import framed, in_use
from lucid.ops.out import into
from lucid.ops.promotion import BOOL, FLOAT, INTEGRAL, KEEP, general, shape_error
from lucid.ops.rules import Elementwise, Partial

ndarray = np.ndarray
_new = TensorFields.__new__
_getframe = sys._getframe
_is_ours = known_files.get
HOOKED = modes.HOOKED
_recording = modes.recording.get
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
_NO_PARAMS: dict[str, Any] = {}

# Python numbers as arrays, which NumPy multiplies by in half the time. 0 is left out for its sign, nan since it
# never compares equal; both tables stay small.
_constants: dict[Any, dict[float, Any]] = {_F32: {}, _F64: {}}
_MOST_CONSTANTS = 512


def constant(value: Any, kind: np.dtype[Any]) -> Any:
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
    impl = OWN.get(prim.impl) or framed(prim.impl, 1)
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
        a: TensorFields = input
        x = a._array
        if x.dtype is not _F32 and not accepts_integers and x.dtype not in _DIFFERENTIABLE:
            return general(prim, (input,), policy, _NO_PARAMS)
        if a._meta is not None and type(a._meta) is View:
            view: View = a._meta
            if view.version != view.storage.version:
                synced(a)
        y = impl(x)
        made: TensorFields = _new(Tensor)
        made._array = y if type(y) is ndarray else np.asarray(y)
        made._born = levels.newest
        made._requires_grad = False
        made._grad = made._node = made._meta = None
        if a._requires_grad and differentiable:
            if _recording():
                saved: Any = None
                if keep_x:
                    saved = input if a._meta is None else save_input(a)
                    if keep_out:
                        saved = (saved, save_output(made))
                elif keep_out:
                    saved = save_output(made)
                edge = input if a._node is None else a._node
                node = attach(made, prim, edge, ABSENT, None, saved, alone, None, _NO_PARAMS, x.shape)
                if in_use:
                    hide(node)
            else:
                cut("no_grad", input)
        return made

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
    impl = OWN.get(prim.impl) or framed(prim.impl, 2)
    integral = policy == INTEGRAL
    picky = integral or policy == FLOAT
    differentiable = prim.differentiable
    plan_x, plan_y, plan_both = (_plan(prim, needs) for needs in ((True, False), (False, True), (True, True)))

    def op(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, other), _NO_PARAMS)
        need_x = need_y = False
        if type(input) is Tensor:
            a: TensorFields = input
            x = a._array
            kind = x.dtype
            if a._meta is not None and type(a._meta) is View:
                view: View = a._meta
                if view.version != view.storage.version:
                    synced(a)
            need_x = a._requires_grad
            if type(other) is Tensor:
                b: TensorFields = other
                y = b._array
                if kind is not y.dtype or (picky and (integral or kind not in _DIFFERENTIABLE)):
                    return general(prim, (input, other), policy, _NO_PARAMS)
                if b._meta is not None and type(b._meta) is View:
                    view = b._meta
                    if view.version != view.storage.version:
                        synced(b)
                need_y = b._requires_grad
            elif (type(other) is float or type(other) is int) and (kind is _F32 or kind is _F64):
                y = constant(other, kind)
            else:
                return general(prim, (input, other), policy, _NO_PARAMS)
        elif type(other) is Tensor and (type(input) is float or type(input) is int):
            b = other
            y = b._array
            if y.dtype is not _F32 and y.dtype is not _F64:
                return general(prim, (input, other), policy, _NO_PARAMS)
            x = constant(input, y.dtype)
            if b._meta is not None and type(b._meta) is View:
                view = b._meta
                if view.version != view.storage.version:
                    synced(b)
            need_y = b._requires_grad
        else:
            return general(prim, (input, other), policy, _NO_PARAMS)
        try:
            z = impl(x, y)
        except ValueError as error:
            raise shape_error(prim.name, (x, y), error) from None
        made: TensorFields = _new(Tensor)
        made._array = z if type(z) is ndarray else np.asarray(z)
        made._born = levels.newest
        made._grad = made._meta = None
        if not differentiable or not (need_x or need_y):
            made._requires_grad = False
            made._node = None
            return made
        mode = _recording()
        if not mode:
            made._requires_grad = False
            made._node = None
            cut("no_grad", input if need_x else other)
            return made
        # What attach() does, written out: the call alone would cost a tenth of the operation.
        plan = (plan_both if need_y else plan_x) if need_x else plan_y
        alone = plan[3]
        node: Node = Node()
        node.prim = prim
        node.left = node.right = node.others = node.shapes = node.hooks = None
        # Operands whose shape is the result's need no sum in the backward pass; one tuple serves a whole chain.
        shape = made._array.shape
        if need_x:
            if a._node is None:
                node.left = input
                own = x.shape
            else:
                left: Node = a._node
                node.left = left
                own = left.shape
            if own == shape:
                shape = own
            else:
                node.shapes = (x.shape, y.shape)
        if need_y:
            if b._node is None:
                node.right = other
                own = y.shape
            else:
                right: Node = b._node
                node.right = right
                own = right.shape
            if own != shape:
                node.shapes = (x.shape, y.shape)
        node.shape = shape
        # One value is saved as it is, several as a tuple; a constant has no memory to free.
        saved: Any = None
        if alone == 1:
            saved = y if type(other) is not Tensor else other if b._meta is None else save_input(b)
        elif alone == 0:
            saved = x if type(input) is not Tensor else input if a._meta is None else save_input(a)
        elif alone == 2:
            saved = save_output(made)
        elif plan is not NOTHING:
            keep_x, keep_y, keep_out, _ = plan
            saved = (
                (x if type(input) is not Tensor else save_input(a)) if keep_x else None,
                (y if type(other) is not Tensor else save_input(b)) if keep_y else None,
                save_output(made) if keep_out else None,
            )
        node.saved = saved
        node.place_of_saved = alone
        node.params = _NO_PARAMS
        node._seq = next_seq()
        frame = _getframe(DEPTH)
        code = frame.f_code
        if _is_ours(code.co_filename, True):
            frame = climb(frame)
            code = frame.f_code
        node.code = code
        node.offset = frame.f_lasti
        made._node = node
        made._requires_grad = True
        if mode is HOOKED:
            look_at(node, made)
        if in_use:
            hide(node)
        return made

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
