"""Kernels of elementwise operations and of their derivatives, generated from the bodies of their declarations."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.generated.movement import INTO
from lucid.backends.cpu.launch import elementwise as launch
from lucid.backends.cpu.parallel import of_elements as in_threads
from lucid.codegen import lock
from lucid.core import kernels
from lucid.core.dtypes import BOOL
from lucid.core.primitive import P
from lucid.kinds.kind import NeedsValueError
from lucid.ops.expressions import NotScalarError, Source
from lucid.ops.rules import np_dtype

_of_reference = kernels.scalar
_with_loops: dict[str, launch.Kernel | None] = {}  # by the names of primitives
_MOST = 64  # loops of one kernel that differ only in parameters


def _maker(source: Source, kind: str = "Plan") -> Callable[..., Any]:
    """What makes the loops of plans of a kind (`codegen.bodies`)."""
    made: list[Any] = []

    def make(types: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if params and len(made) >= _MOST:
            return None
        with lock:
            from lucid.codegen import bodies, compiled  # loaded when first needed, and LLVM with it

            try:
                plan = getattr(bodies, kind)(source, types, params)
                (address,), code = compiled.elementwise(plan)
            except (bodies.NotGeneratedError, NotScalarError, NeedsValueError):
                return None
        made.append(
            launch.Loop(address, types, plan.dtype, tuple(plan.numbers), plan.cost, plan.lanes, plan.is_short, code)
        )
        return made[-1]

    return make


def _function(kernel: launch.Kernel, count: int, has_params: bool) -> Callable[..., Any]:
    """The kernel as it is called in the least time."""
    if has_params or count > 2:
        return kernel
    return launch.of_one(kernel) if count == 1 else launch.of_two(kernel)


def scalar_kernel(source: Source, count: int, has_params: bool) -> Callable[..., Any]:
    """A kernel of a function of so many operands: generated loops, and the reference where there are none."""
    made = launch.Kernel(_maker(source), source.key, _of_reference(source, count, has_params))
    return _function(made, count, has_params)


def of_elements(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of an elementwise primitive, by generated loops where its steps have code."""
    with lock:
        from lucid.codegen.bodies import WITH_PARAMETERS, WRITTEN
        from lucid.codegen.functions.remainders import REMAINDERS
    name, body = primitive.name, getattr(primitive, "body", None)
    if not getattr(primitive, "is_scalar", False) or primitive.is_view:
        return None
    if name not in WRITTEN and getattr(primitive, "calls", None):
        return in_threads(kernels.reference(primitive))
    if body is None and name not in WRITTEN:
        return None
    # A kernel of its own may ask for more than a body says; one that checks values may be loaded after this.
    checks = primitive.checks is not None and name not in WRITTEN
    if body is not None and (checks or kernels.has_own(primitive, (kernels.REFERENCE,))):
        return None

    def reference(*arrays: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(*arrays, **params)

    # Its own code computes what is written; a body would take other steps.
    source = Source(primitive) if name in WRITTEN else primitive.source
    count = len(primitive.operands)
    has_params = name in WITH_PARAMETERS if body is None else body.__code__.co_argcount > count
    made = launch.Kernel(_maker(source), source.key, reference)
    if name == "cast":
        return _unless_to_integers(made, source, reference)
    _with_loops[name] = made
    made.checks_integers, made.count = primitive.checks is not None, count
    made.in_numbers = cache(lambda kind: _in_numbers(primitive, kind))
    function = _function(made, count, has_params)
    return _unless_zero(function, reference) if name in REMAINDERS else function


def _in_numbers(primitive: Any, kind: Any) -> launch.Kernel:
    """A kernel of a function that gives truth values, which gives them as numbers of a type."""

    def numbers(*operands: Any) -> Any:
        found = primitive(*operands)
        if np_dtype(found) != BOOL:
            raise NotScalarError
        return P.cast(found, dtype=kind, source=BOOL)

    source = Source(numbers, primitive.name)
    return launch.Kernel(_maker(source), source.key, kernels.reference(primitive))  # which is never called


def _find(primitive: Any) -> launch.Kernel | None:
    _with_loops[primitive.name] = None
    of_elements(primitive)
    return _with_loops[primitive.name]


call_into = launch.into_by(_with_loops, _find, INTO)


def _unless_to_integers(kernel: launch.Kernel, source: Source, reference: Callable[..., Any]) -> Callable[..., Any]:
    """Casts, those from floating-point numbers to integers by loops that may refuse."""
    convert = launch.Kernel(_maker(source, "Conversion"), source.key, reference)

    def call(x: Any, dtype: Any, source: Any) -> Any:
        run = convert if dtype.kind in "iu" and source.kind in "fV" else kernel
        return run(x, dtype=dtype, source=source)

    return call


def _unless_zero(kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A quotient or remainder by generated loops where no integer is divided by 0; the reference says where one is."""

    def call(x: Any, y: Any) -> Any:
        if type(y) is not np.ndarray:
            return kernel(x, y) if y else reference(x, y)
        if y.dtype.kind not in "iu" or np.all(y):
            return kernel(x, y)
        return reference(x, y)

    return call
