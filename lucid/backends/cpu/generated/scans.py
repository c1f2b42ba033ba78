"""Kernels of scans, generated from the folds of their declarations, and of selections."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from lucid.backends.cpu.launch import scans as launch_scans
from lucid.backends.cpu.launch import sorting as launch_sorting
from lucid.backends.numpy.precision import NARROW
from lucid.codegen import lock
from lucid.core import dtypes, kernels
from lucid.core.primitive import P
from lucid.ops.abstract import Abstract
from lucid.ops.categories import Fold

_F32 = dtypes.float32.numpy
_SELECTION_COST = 1.0  # nanoseconds for an element


def _make(primitive: Any, dtype: Any, params: dict[str, Any]) -> Any:
    """The loops for elements of a type, or None where there is no code."""
    count = len(primitive.operands)
    fold = primitive.fold if isinstance(primitive.fold, Fold) else primitive.fold(**params)
    result = primitive.abstract(*[Abstract((1,), dtype)] * count, dim=0, **params).dtype
    with lock:
        from lucid.codegen import bodies, compiled, scans  # loaded when first needed, and LLVM with it

        try:
            plan = scans.ScanPlan(fold, count, dtype, result)
            addresses, code = compiled.scan(plan, primitive.name)
        except bodies.NotGeneratedError:
            return None
    return launch_scans.Scan(addresses, plan.lanes, len(plan.carried_types), plan.in_turns, result, plan.cost, code)


def of_scan(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of a scan by generated loops, and by the reference where there are none."""

    def reference(*arrays: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(*arrays, **params)

    return launch_scans.Kernel(partial(_make, primitive), reference)


def products_before(primitive: Any) -> Callable[..., Any]:
    """The kernel of running products of which each place has the one before it."""
    scan = launch_scans.Kernel(partial(_make, P.cumprod), lambda *arrays, **params: None)

    def call(x: Any, dim: int, reverse: bool) -> Any:
        found = scan.before(x, dim, 1, {"reverse": reverse})
        return kernels.reference(primitive)(x, dim=dim, reverse=reverse) if found is None else found

    return call


@cache
def selection_of(dtype: Any) -> Any:
    """The loop that finds the first elements of a type in order, or None where there is no code."""
    with lock:
        from lucid.codegen import bodies, compiled, selections

        try:
            plan = selections.SelectionPlan(dtype)
            (address,), code = compiled.selection(plan, "topk")
        except bodies.NotGeneratedError:
            return None
    return launch_scans.Selection(address, plan.lanes, dtypes.INT64, _SELECTION_COST, code)


def topk_kernel(primitive: Any) -> Callable[..., Any]:
    """The kernel that finds a few elements without sorting all, and more of them by the reference."""
    with lock:
        from lucid.codegen.selections import MOST

    def reference(x: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(x, **params)

    return launch_scans.selecting(selection_of, reference, MOST)


def argsort_kernel(primitive: Any) -> Callable[..., Any]:
    """The kernel that orders elements by their bits, and those of other types by the reference."""

    def call(x: Any, dim: int, descending: bool) -> Any:
        found = launch_sorting.argsort(x, dim, descending)
        return kernels.reference(primitive)(x, dim=dim, descending=descending) if found is None else found

    return call


def _in_single(x: Any) -> Any:
    """Numbers of half precision in single, which have the same order."""
    return P.cast.kernel(x, dtype=_F32, source=x.dtype)


def rank_kernel(primitive: Any) -> Callable[..., Any]:
    """The kernel that finds the place of one element in the order of its row, and of other types by the reference."""
    name = primitive.name

    def call(x: Any, dim: int, k: int = 0) -> Any:
        x = _in_single(x) if x.dtype in NARROW else x
        found = launch_sorting.chosen(x, dim, name, k)
        if found is not None:
            return found
        reference = kernels.reference(primitive)
        return reference(x, dim=dim, k=k) if name == "kth" else reference(x, dim=dim)

    return call
