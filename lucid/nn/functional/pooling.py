"""Pooling: the largest element, the mean or the norm of each window."""

import math
from functools import lru_cache
from typing import Any

from lucid import Tensor, div, scatter, zeros
from lucid.core.primitive import apply, element_type, lift
from lucid.core.tensor import shape_of
from lucid.nn.functional.spatial import Sizes, each, for_dimensions, hashable, require_fractions
from lucid.ops.fused import given_back, in_working_type
from lucid.ops.nn.pooling import AnyWindows, EqualShares, Windows, window_counts, window_map, windows
from lucid.ops.nn.resampling import Maps
from lucid.ops.norms import power_of_size
from lucid.ops.rules import P

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _spatial(name: str, input: Any, n: int) -> Tensor:
    """The input, with examples and channels or channels only in front of its `n` spatial dimensions."""
    x = lift(input)
    shape = shape_of(x)
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}: expected {n + 1} or {n + 2} dimensions, not shape {shape}")
    if 0 in shape and 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(f"{name}: only the number of examples may be 0, not any other size of {shape}")
    return x


def _windows(
    name: str, shape: Sizes, n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Windows, ...]:
    kernel = each(kernel_size, n, f"{name}: kernel_size", 1)
    strides = kernel if stride is None or stride == () else each(stride, n, f"{name}: stride", 1)
    pads, dilations = each(padding, n, f"{name}: padding"), each(dilation, n, f"{name}: dilation", 1)
    found = []
    for size, k, s, p, d in zip(shape[-n:], kernel, strides, pads, dilations, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise RuntimeError(f"{name}: padding {pads} must be at most half of the kernel, {kernel}")
        found.append(windows(size, k, s, p, d, ceil_mode))
    if min(w.out for w in found) < 1:
        raise RuntimeError(f"{name}: a kernel of {kernel} does not fit into an input of shape {shape}")
    return tuple(found)


@lru_cache(maxsize=1024)
def _maps(found: tuple[AnyWindows, ...]) -> Maps:
    return tuple([window_map(w) for w in found])


@lru_cache(maxsize=1024)
def _maps_of(*how: Any) -> Maps:
    return _maps(_windows(*how))


def _max_pooled(name: str, x: Tensor, maps: Maps, return_indices: bool) -> Any:
    if element_type(x).kind in "cb":
        raise TypeError(f"{name}: expected real numbers, not {x.dtype}")
    out = apply(P.max_pool, (x,), {"maps": maps})
    return (out, P.max_pool_indices(x.detach(), maps=maps)) if return_indices else out


def _max_pool(n: int) -> Any:
    name = f"max_pool{n}d"

    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        x = _spatial(name, input, n)
        how = hashable(kernel_size), hashable(stride), hashable(padding), hashable(dilation)
        return _max_pooled(name, x, _maps_of(name, shape_of(x), n, *how, ceil_mode), return_indices)

    return max_pool


max_pool1d, max_pool2d, max_pool3d = for_dimensions(
    _max_pool,
    "max_pool",
    """The largest element of each window over {n} dimensions; of equal ones the first gets the gradient.

    Without a `stride`, windows lie side by side. Padding never wins. `ceil_mode` admits a last window that begins inside
    the input and ends outside. `return_indices` gives, beside the elements, where they stand in their flattened plane.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import {name}
    >>> {name}(lucid.ones(2, 3, {s8}), 2).shape
    (2, 3, {s4})
    """,
)


@lru_cache(maxsize=1024)
def _counted_maps(found: tuple[AnyWindows, ...], count_include_pad: bool) -> tuple[Maps, Any]:
    return _maps(found), window_counts(found, count_include_pad)


@lru_cache(maxsize=1024)
def _counted_maps_of(count_include_pad: bool, *how: Any) -> tuple[Maps, Any]:
    return _counted_maps(_windows(*how), count_include_pad)


def _means(x: Tensor, maps: Maps, count: Any, given: int | None) -> Tensor:
    total, kind = apply(P.resample, (x,), {"maps": maps}), element_type(x)
    count = count if given is None else given
    divisor = count if isinstance(count, int) else Tensor._wrap(count.astype(kind))
    return total / divisor if kind.kind != "i" else div(total, divisor, rounding_mode="trunc")


def _avg_pool(n: int) -> Any:
    name = f"avg_pool{n}d"

    def avg_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        x = _spatial(name, input, n)
        if element_type(x).kind in "bu":
            raise RuntimeError(f"{name}: expected numbers with a sign, not {x.dtype}; convert it, as in x.float()")
        if divisor_override == 0:
            raise ValueError(f"{name}: divisor_override must not be 0")
        how = hashable(kernel_size), hashable(stride), hashable(padding)
        found = _counted_maps_of(count_include_pad, name, shape_of(x), n, *how, 1, ceil_mode)
        return _means(x, *found, divisor_override)

    return avg_pool


avg_pool1d, avg_pool2d, avg_pool3d = for_dimensions(
    _avg_pool,
    "avg_pool",
    """The mean of each window over {n} dimensions.

    Zeros of the padding are counted unless `count_include_pad` is False; `divisor_override` divides by another number
    than the count.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import {name}
    >>> {name}(lucid.ones(2, 3, {s8}), 3, stride=2, padding=1).shape
    (2, 3, {s4})
    """,
)


def _lp_pool(n: int) -> Any:
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]

    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
        name = f"lp_pool{n}d"
        kernel = each(kernel_size, n, f"{name}: kernel_size", 1)
        (x,), kind = in_working_type(name, input)
        mean = average(power_of_size(x, norm_type), kernel, stride, ceil_mode=ceil_mode)
        out = power_of_size(mean * math.prod(kernel), 1.0 / norm_type)
        return given_back(out, kind)

    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = for_dimensions(
    _lp_pool,
    "lp_pool",
    """The power mean (Σ xᵖ)^(1/p) of each window over {n} dimensions, with p = `norm_type`; its gradient at 0 is 0.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import {name}
    >>> {name}(lucid.ones(2, 3, {s8}), 2, 2).shape
    (2, 3, {s4})
    """,
)


def _equal_shares(name: str, shape: Sizes, output_size: Any, n: int) -> tuple[EqualShares, ...]:
    """Windows for the sizes asked for; None keeps the input's."""
    given = [output_size] * n if output_size is None or hasattr(output_size, "__index__") else list(output_size)
    if len(given) != n:
        raise ValueError(f"{name}: output_size must be one number or {n} of them, not {output_size!r}")
    kept = [size if o is None else o for size, o in zip(shape[-n:], given, strict=True)]
    sizes = each(kept, n, f"{name}: output_size")
    return tuple([EqualShares(size, out) for size, out in zip(shape[-n:], sizes, strict=True)])


@lru_cache(maxsize=1024)
def _shares_of(*how: Any) -> tuple[Maps, Any]:
    return _counted_maps(_equal_shares(*how), True)


def _adaptive_max_pool(n: int) -> Any:
    name = f"adaptive_max_pool{n}d"

    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        x = _spatial(name, input, n)
        return _max_pooled(name, x, _shares_of(name, shape_of(x), hashable(output_size), n)[0], return_indices)

    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = for_dimensions(
    _adaptive_max_pool,
    "adaptive_max_pool",
    """The largest elements of so many windows that the result has `output_size` over {n} dimensions.

    Window i of m over a dimension of n elements goes from ⌊i·n/m⌋ to ⌈(i + 1)·n/m⌉. A size of None stays as it is.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import {name}
    >>> {name}(lucid.ones(2, 3, {s7}), 4).shape
    (2, 3, {s4})
    """,
)


def _adaptive_avg_pool(n: int) -> Any:
    name = f"adaptive_avg_pool{n}d"

    def adaptive_avg_pool(input: Any, output_size: Any) -> Tensor:
        x = _spatial(name, input, n)
        require_fractions(x, name)
        return _means(x, *_shares_of(name, shape_of(x), hashable(output_size), n), None)

    return adaptive_avg_pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = for_dimensions(
    _adaptive_avg_pool,
    "adaptive_avg_pool",
    """The means of so many windows that the result has `output_size` over {n} dimensions.

    Windows are those of `adaptive_max_pool{n}d`. A size of None stays as it is.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import {name}
    >>> {name}(lucid.ones(2, 3, {s7}), 1).shape
    (2, 3, {s1})
    """,
)


def _unpooled_sizes(name: str, x: Tensor, kernel: Sizes, strides: Sizes, pads: Sizes, output_size: Any) -> Sizes:
    n = len(kernel)
    smallest = tuple((o - 1) * s - 2 * p + k for o, s, p, k in zip(x.shape[-n:], strides, pads, kernel, strict=True))
    if output_size is None:
        return smallest
    wanted = tuple(int(o) for o in output_size)[-n:]
    if min(wanted, default=1) < 1:
        raise ValueError(f"{name}: output_size must be positive, not {wanted}")
    fits = len(wanted) == n and all(m - s < o < m + s for o, m, s in zip(wanted, smallest, strides, strict=True))
    if not fits:
        raise ValueError(
            f"{name}: output_size {tuple(output_size)} is too far from {smallest}: pooling it with a stride of {strides} "
            f"does not give shape {x.shape}"
        )
    return wanted


def _max_unpool(n: int) -> Any:
    name = f"max_unpool{n}d"

    def max_unpool(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        x, index = _spatial(name, input, n), lift(indices)
        if index.shape != x.shape or index.np_dtype.kind not in "iu":
            raise RuntimeError(f"{name}: expected integer indices of shape {x.shape}, not {index.dtype} {index.shape}")
        kernel = each(kernel_size, n, f"{name}: kernel_size", 1)
        strides = kernel if stride is None else each(stride, n, f"{name}: stride", 1)
        sizes = _unpooled_sizes(name, x, kernel, strides, each(padding, n, f"{name}: padding"), output_size)
        lead = x.shape[: x.ndim - n]
        blank = zeros((*lead, math.prod(sizes)), dtype=x.dtype)
        return scatter(blank, -1, index.reshape(*lead, -1), x.reshape(*lead, -1)).reshape(*lead, *sizes)

    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = for_dimensions(
    _max_unpool,
    "max_unpool",
    """Elements put back to where `max_pool{n}d` found them, by its indices; 0 elsewhere.

    `output_size` chooses among the sizes that pooling takes to the input's. Of several elements for one place one is
    kept.

    >>> import lucid
    >>> from lucid.nn.functional.pooling import max_pool{n}d, {name}
    >>> values, indices = max_pool{n}d(lucid.ones(2, 3, {s8}), 2, return_indices=True)
    >>> {name}(values, indices, 2).shape
    (2, 3, {s8})
    """,
)
