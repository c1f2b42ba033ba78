"""Which generated kernel a primitive gets: its declaration says so. Kernels are made when they are first needed."""

from collections.abc import Callable
from typing import Any

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.elementwise import call_into, of_elements, scalar_kernel
from lucid.backends.cpu.launch import elementwise as launch
from lucid.core import kernels
from lucid.core.primitive import P


def kernel_of(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of a primitive by generated loops, or None where there are none."""
    if primitive.name == "topk":
        from lucid.backends.cpu.generated.scans import topk_kernel

        return topk_kernel(primitive)
    if primitive.name == "argsort":
        from lucid.backends.cpu.generated.scans import argsort_kernel

        return argsort_kernel(primitive)
    if primitive.name in ("kth", "median", "nanmedian", "mode"):
        from lucid.backends.cpu.generated.scans import rank_kernel

        return rank_kernel(primitive)
    if primitive.name == "products_before":
        from lucid.backends.cpu.generated.scans import products_before

        return products_before(primitive)
    if primitive.fold is not None and primitive.category == "scan":
        from lucid.backends.cpu.generated.scans import of_scan

        return of_scan(primitive)
    if primitive.fold is not None:
        from lucid.backends.cpu.generated.reductions import of_reduction

        return of_reduction(primitive)
    if primitive.row_body is not None:
        from lucid.backends.cpu.generated.rows import of_rows

        return of_rows(primitive)
    if primitive.category in ("gather", "scatter"):
        from lucid.backends.cpu.generated.gathers import of_positions

        return of_positions(primitive)
    return of_elements(primitive)


def general_kernel(name: str) -> Callable[..., Any]:
    """The kernel of an elementwise primitive for arrays of any size, shape and type."""
    primitive = getattr(P, name)
    return (kernel_of(primitive) if support.in_use else None) or kernels.reference(primitive)


if support.in_use:
    kernels.scalar = scalar_kernel
    kernels.fill({"call_into": call_into}, "cpu")
    kernels.generate("cpu", kernel_of)
    kernels.switched.append(lambda: launch.enable("cpu" in kernels.in_use))
