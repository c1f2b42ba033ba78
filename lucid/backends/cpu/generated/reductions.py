"""Kernels of reductions, generated from the folds of their declarations."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lucid.backends.cpu.generated import launch_folds
from lucid.codegen import lock
from lucid.core import kernels
from lucid.ops.abstract import Abstract

_WITH_KEEPDIM = ("sum", "prod", "amax", "amin", "logsumexp", "all", "any")
_WITHOUT = ("count_nonzero",)
_OF_ONE_DIM = ("argmax", "argmin")


def _make(primitive: Any, dtype: Any) -> Any:
    """The loops for elements of a type, or None where there is no code."""
    kept = {"keepdim": False} if primitive.name in _WITH_KEEPDIM else {}
    dims: dict[str, Any] = {"dim": 0} if primitive.name in _OF_ONE_DIM else {"dims": (0,)}
    result = primitive.abstract(Abstract((1,), dtype), **dims, **kept).dtype
    with lock:
        from lucid.codegen import bodies, compiled, folds  # loaded when first needed, and LLVM with it

        try:
            plan = folds.FoldPlan(primitive.fold, dtype, result)
            addresses, code = compiled.fold(plan, primitive.name)
        except bodies.NotGeneratedError:
            return None
    return launch_folds.Reduction(addresses, tuple([t.bytes for t in plan.states]), result, plan.cost, code)


def of_reduction(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of a reduction by generated loops, and by the reference where there are none."""
    name = primitive.name
    if name not in _WITH_KEEPDIM + _WITHOUT + _OF_ONE_DIM:
        return None

    def reference(x: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(x, **params)

    kernel = launch_folds.Kernel(partial(_make, primitive), reference)
    if name in _OF_ONE_DIM:
        return launch_folds.of_one_dim(kernel)
    return launch_folds.with_keepdim(kernel) if name in _WITH_KEEPDIM else launch_folds.without_keepdim(kernel)
