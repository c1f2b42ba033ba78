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
from lucid.core.batched import Batched
from lucid.core.collector import settle
from lucid.core.cuts import cut
from lucid.core.dual import Dual, of_duals
from lucid.core.fields import TensorFields, next_seq
from lucid.core.node import ABSENT, Node, save_input, save_output
from lucid.core.place import DEPTH, climb, known_files
from lucid.core.primitive import attach, edge_of, look_at, synced
from lucid.core.storage import View
from lucid.core.tensor import Tensor
from lucid.native import framed, in_use
from lucid.ops.bare import constant, example_shape, of_one, of_two
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
_of_duals = framed(of_duals, 2)
_NO_PARAMS: dict[str, Any] = {}


def unary(name: str, impl: Callable[..., Any], d: Partial | None, doc: str, policy: str = FLOAT) -> Callable[..., Any]:
    """Declare an elementwise primitive of one operand and give its function."""
    return unary_door(Elementwise(name, impl, (d,), ("x",)), policy, doc)


def unary_door(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    impl = OWN.get(prim.impl) or framed(prim.impl, 1)
    reads = prim.wanted((True,))
    keep_x, keep_out = reads[0], reads[1]
    alone = -1 if keep_x == keep_out else int(keep_out)  # the place of a value that is saved alone
    plan = (keep_x, keep_out, alone)
    differentiable = prim.differentiable
    accepts_integers = policy in (KEEP, BOOL)

    def op(input: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input,), _NO_PARAMS)
        if type(input) is not Tensor:
            if type(input) is Batched:
                found = of_one(impl, input)
                if found is not None:
                    return _recorded_one(prim, plan, input, found) if input._requires_grad else found
            elif type(input) is Dual:
                found = _of_duals(prim, (input,))
                if found is not None:
                    return found
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
                _attach_one(prim, plan, a, made, x.shape)
            else:
                cut("no_grad", input)
        return made

    return _named(op, prim, doc)


def _attach_one(prim: Any, plan: Any, a: TensorFields, made: TensorFields, shape: Any) -> Node:
    """Give the result of one operand a node."""
    keep_x, keep_out, alone = plan
    saved: Any = None
    if keep_x:
        saved = save_input(a)
        if keep_out:
            saved = (saved, save_output(made))
    elif keep_out:
        saved = save_output(made)
    edge = a if a._node is None else a._node
    return attach(made, prim, edge, ABSENT, None, saved, alone, None, _NO_PARAMS, shape)


def _recorded_one(prim: Any, plan: Any, input: TensorFields, made: TensorFields) -> Any:
    """Put an operation on a batched tensor on the tape."""
    if prim.differentiable:
        if _recording():
            _attach_one(prim, plan, input, made, example_shape(made))
        else:
            cut("no_grad", input)
    return made


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
    plans = tuple([_plan(prim, needs) for needs in ((True, False), (False, True), (True, True))])
    plan_x, plan_y, plan_both = plans

    def otherwise(input: Any, other: Any) -> Any:
        if not integral and (type(input) is Batched or type(other) is Batched):
            try:
                made = of_two(impl, input, other)
            except ValueError as error:
                raise shape_error(prim.name, (input, other), error) from None
            if made is not None:
                return _recorded_two(prim, plans, input, other, made) if differentiable else made
        elif not integral and (type(input) is Dual or type(other) is Dual):
            try:
                made = _of_duals(prim, (input, other))
            except ValueError as error:
                raise shape_error(prim.name, (input, other), error) from None
            if made is not None:
                return made
        return general(prim, (input, other), policy, _NO_PARAMS)

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
                    return otherwise(input, other)
                if b._meta is not None and type(b._meta) is View:
                    view = b._meta
                    if view.version != view.storage.version:
                        synced(b)
                need_y = b._requires_grad
            elif (type(other) is float or type(other) is int) and (kind is _F32 or kind is _F64):
                y = constant(other, kind)
            else:
                return otherwise(input, other)
        elif type(other) is Tensor and (type(input) is float or type(input) is int):
            b = other
            y = b._array
            if y.dtype is not _F32 and y.dtype is not _F64:
                return otherwise(input, other)
            x = constant(input, y.dtype)
            if b._meta is not None and type(b._meta) is View:
                view = b._meta
                if view.version != view.storage.version:
                    synced(b)
            need_y = b._requires_grad
        else:
            return otherwise(input, other)
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
            saved = y if type(other) is not Tensor else save_input(b)
        elif alone == 0:
            saved = x if type(input) is not Tensor else save_input(a)
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
            settle(node)
        return made

    return _named(op, prim, doc)


def _recorded_two(prim: Any, plans: Any, input: Any, other: Any, made: TensorFields) -> Any:
    """Put an operation on batched tensors on the tape."""
    need_x = type(input) is Batched and input._requires_grad
    need_y = type(other) is Batched and other._requires_grad
    if not need_x and not need_y:
        return made
    if not _recording():
        cut("no_grad", input if need_x else other)
        return made
    keep_x, keep_y, keep_out, alone = plans[need_x + 2 * need_y - 1]
    kept = (
        _kept(input, made) if keep_x else None,
        _kept(other, made) if keep_y else None,
        save_output(made) if keep_out else None,
    )
    shape, shape_x, shape_y = example_shape(made), example_shape(input), example_shape(other)
    attach(
        made,
        prim,
        edge_of(input) if need_x else None,
        edge_of(other) if need_y else None,
        None,
        None if plans[need_x + 2 * need_y - 1] is NOTHING else kept if alone < 0 else kept[alone],
        alone,
        None if shape_x == shape == shape_y else (shape_x, shape_y),
        _NO_PARAMS,
        shape,
    )
    return made


def _kept(operand: Any, made: TensorFields) -> Any:
    """What to save of an operand beside a batched one: a number as an array, which has no memory to free."""
    if isinstance(operand, Tensor):
        return save_input(operand)
    inner: TensorFields = made._array
    return constant(operand, inner._array.dtype)


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
    prim.public = op
    return op
