"""Kernels of gathers and scatters: elements moved from and to positions, or put together there.

Numbers of half precision are put together in single precision and rounded once.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import gathers as launch_gathers
from lucid.backends.cpu.launch import positions as launch_positions
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.launch.gathers import Fold
from lucid.backends.numpy import indexing
from lucid.backends.numpy.precision import NARROW
from lucid.backends.numpy.scatter import START
from lucid.codegen import lock
from lucid.core import dtypes, kernels
from lucid.core.primitive import P

_SINGLE = np.dtype(np.float32)
_EXTREMES = frozenset(START)  # which need no more precision than their operands have


@cache
def fold_of(combine: str, dtype: np.dtype[Any]) -> Fold | None:
    """The loop that puts together values of a type, or None if there is no code."""
    is_pair = dtype.kind == "c" and combine == "add"  # real and imaginary parts, each by itself
    element = np.dtype(f"f{dtype.itemsize // 2}") if is_pair else dtype
    wide = _SINGLE if dtype in NARROW and combine not in _EXTREMES else element
    with lock:
        from lucid.codegen import bodies, compiled, gathers  # loaded when first needed, and LLVM with it

        try:
            plan = gathers.plan_of(getattr(P, combine).source, wide, element)
            addresses, code = compiled.addresses([m(plan, m.__name__) for m in gathers.LOOPS], "scatter", combine)
        except bodies.NotGeneratedError:
            return None
    return Fold(addresses, dtype if is_pair else wide, dtype, 2 if is_pair else 1, code)


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    return P.cast.kernel(x, dtype=dtype, source=x.dtype)


def _start(combine: str, dtype: np.dtype[Any], computed: np.dtype[Any]) -> Any:
    return np.asarray(START[combine](dtype), computed)


def of_positions(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of a gather or scatter of an array's first dimensions, if it is one."""
    if not primitive.is_variadic:
        return None

    def reference(*arrays: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(*arrays, **params)

    if primitive.category == "gather" and primitive.positions == 1:
        return launch_gathers.of_gather(reference)
    combine = getattr(primitive, "combine", None)
    if combine is None:
        return None
    if primitive.positions == 1:
        return launch_gathers.into_zeros(partial(fold_of, combine), _cast, reference)
    return launch_gathers.into_copy(partial(fold_of, combine), _cast, partial(_start, combine), reference)


def _into_memory(x: Any, values: Any, positions: tuple[Any, ...], combine: str | None) -> None:
    if combine == "add" and x.dtype in NARROW:
        x[...] = P.index_put.kernel(x, values, *positions, accumulate=True)
    else:
        indexing.index_into(x, values, positions, combine)


into = launch_gathers.into_memory(fold_of, _into_memory)
in_range = launch_positions.checking(indexing.in_range_array)


def nonzero(x: Any, as_rows: bool) -> Any:
    mask = x if x.dtype == dtypes.BOOL or not x.size else P.ne.kernel(x, np.zeros((), x.dtype))
    found = launch_positions.nonzero(contiguous(mask), as_rows)
    return indexing.nonzero(x, as_rows) if found is None else found


if support.in_use:
    kernels.fill({"index_into": into, "nonzero_positions": nonzero}, "cpu")
    kernels.fill({"in_range_or_same": in_range}, "cpu", has_frames=True)  # comparisons of integers never warn
