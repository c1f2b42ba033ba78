"""Max pooling over windows at random steps, which shrinks an input by any ratio."""

import math
from typing import Any

import lucid
from lucid import Tensor
from lucid.core.primitive import lift
from lucid.nn.functional.spatial import Sizes, each, with_batch, without_batch

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d"]


def _sizes(name: str, x: Tensor, n: int, output_size: Any, output_ratio: Any) -> Sizes:
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}: give output_size or output_ratio, one of them")
    if output_size is not None:
        return each(output_size, n, f"{name}: output_size", 1)
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
    if len(ratios) != n or not all(0 < r < 1 for r in ratios):
        raise ValueError(f"{name}: output_ratio must be one number between 0 and 1, or {n} of them, not {output_ratio}")
    return each(tuple(int(m * r) for m, r in zip(x.shape[2:], ratios, strict=True)), n, f"{name}: output sizes", 1)


def _starts(u: Tensor, size: int, kernel: int, out: int) -> Tensor:
    """Where the windows of each plane begin: floor(α(i + u)) - floor(αu), the last one at the end of the input."""
    if out == 1:
        return lucid.full_like(u, size - kernel).long().unsqueeze(-1)
    alpha = (size - kernel) / (out - 1)
    steps = lucid.arange(out - 1).to(u.dtype)
    first = ((u.unsqueeze(-1) + steps) * alpha).floor() - (u.unsqueeze(-1) * alpha).floor()
    last = lucid.full_like(u, size - kernel).unsqueeze(-1)
    return lucid.cat([first, last], -1).long()


def _places(starts: list[Tensor], kernel: Sizes, sizes: Sizes) -> Tensor:
    """For each window of each plane, the places of its elements in the flattened plane: (N, C, windows, taps)."""
    n = len(kernel)
    found = lucid.zeros((1,) * (2 * n + 2), dtype=lucid.int64)
    for d, (start, k, size) in enumerate(zip(starts, kernel, sizes, strict=True)):
        inside = start.unsqueeze(-1) + lucid.arange(k)  # (N, C, out, k)
        shape = [1] * (2 * n)
        shape[d], shape[n + d] = inside.shape[2:]
        found = found * size + inside.reshape(*start.shape[:2], *shape)
    return found.reshape(*found.shape[:2], math.prod(found.shape[2 : 2 + n]), math.prod(kernel))


def _pooled(
    n: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, indices: bool, samples: Tensor | None
) -> Any:
    name = f"fractional_max_pool{n}d"
    x, is_batched = with_batch(lift(input), n, name)
    kernel, sizes = each(kernel_size, n, f"{name}: kernel_size", 1), x.shape[2:]
    outs = _sizes(name, x, n, output_size, output_ratio)
    if any(o + k - 1 > m for o, k, m in zip(outs, kernel, sizes, strict=True)):
        raise RuntimeError(f"{name}: {outs} windows of {kernel} do not fit into an input of shape {x.shape}")
    kind = x.dtype if x.is_floating_point() else None
    u = lucid.rand(*x.shape[:2], n, dtype=kind) if samples is None else samples.reshape(*x.shape[:2], n)
    # In two dimensions the first number is that of the columns.
    drawn = [u[..., n - 1 - d if n == 2 else d] for d in range(n)]
    starts = [_starts(*each_one) for each_one in zip(drawn, sizes, kernel, outs, strict=True)]
    places = _places(starts, kernel, sizes)
    flat = x.reshape(*x.shape[:2], math.prod(sizes))
    index = places.reshape(*x.shape[:2], math.prod(places.shape[2:]))
    windows = lucid.gather(flat, 2, index).reshape(places.shape)
    values, which = lucid.max(windows, -1)
    out = without_batch(values.reshape(*x.shape[:2], *outs), is_batched)
    if not indices:
        return out
    where = lucid.take_along_dim(places, which.unsqueeze(-1), -1).reshape(*x.shape[:2], *outs)
    return out, without_batch(where, is_batched)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows at pseudo-random steps over 2 dimensions, as many as `output_size` asks for.

    `output_ratio` asks for a share of the size of the input instead. With `return_indices`, where the elements stand in
    their flattened plane comes along.

    >>> import lucid
    >>> from lucid.nn.functional.fractional import fractional_max_pool2d
    >>> fractional_max_pool2d(lucid.ones(2, 3, 10, 10), 2, output_ratio=0.7).shape
    (2, 3, 7, 7)
    """
    return _pooled(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows at pseudo-random steps over 3 dimensions; see `fractional_max_pool2d`.

    >>> import lucid
    >>> from lucid.nn.functional.fractional import fractional_max_pool3d
    >>> fractional_max_pool3d(lucid.ones(2, 3, 6, 6, 6), 2, output_size=4).shape
    (2, 3, 4, 4, 4)
    """
    return _pooled(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
