"""Kernels of functions of rows, generated from their bodies."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.launch import rows as launch_rows
from lucid.codegen import lock
from lucid.core import kernels
from lucid.kinds.kind import NeedsValueError
from lucid.ops.expressions import NotScalarError


def row_kernel(function: Callable[..., Any], name: str = "") -> Any:
    """What runs a function of rows on arrays: `run(arrays, dim, params)`, which gives None where there are no loops."""
    name = name or function.__name__.strip("_")

    def make(types: tuple[Any, ...], params: dict[str, Any]) -> Any:
        with lock:
            from lucid.codegen import bodies, compiled  # loaded when first needed, and LLVM with it
            from lucid.codegen.rows import RowPlan

            try:
                plan = RowPlan.of(function, types, params)
            except (bodies.NotGeneratedError, NotScalarError, NeedsValueError):
                return None

        def loop(side_by_side: bool, alike: tuple[int, ...]) -> tuple[int, Any]:
            write = compiled.function_of_columns if side_by_side else compiled.function_of_rows
            with lock:
                try:
                    (address,), code = write(plan, alike, name)
                except bodies.NotGeneratedError:
                    return 0, None
            return address, code

        of_rows = tuple([plan.is_of_row(r) for r in plan.body.results])
        return launch_rows.Rows(
            loop, len(types), plan.dtypes, of_rows, tuple(plan.numbers), plan.row_room, plan.lanes, plan.column_room,
            plan.column_lanes, plan.cost,
        )  # fmt: skip

    return launch_rows.Kernel(make)


@cache
def kernel_of(primitive: Any) -> Any:
    """What runs a primitive whose elements depend on their row."""
    return row_kernel(primitive.row_body, primitive.name)


def of_rows(primitive: Any) -> Callable[..., Any]:
    """The kernel of a primitive whose elements depend on their row along `dim`."""
    kernel = kernel_of(primitive)

    def call(*arrays: Any, dim: int, **params: Any) -> Any:
        out = kernel.run(arrays, dim, params)
        if out is None and not all(isinstance(a, np.ndarray) for a in arrays):  # numbers beside arrays
            dtype = next(a.dtype for a in arrays if isinstance(a, np.ndarray))
            return call(*[np.asarray(a, dtype) for a in arrays], dim=dim, **params)
        return kernels.reference(primitive)(*arrays, dim=dim, **params) if out is None else out

    return call
