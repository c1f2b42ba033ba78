"""Normalisation.

To be replaced by generated code.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu import batch_norm
from lucid.backends.cpu.arithmetic import add, within
from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.rows import row_kernel
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.launch.rows import GROUP
from lucid.backends.numpy.norms import is_moderate, moderate_sizes, normalized_rows, power_of_two, safe_sums
from lucid.core import dtypes, kernels
from lucid.core.kernels import WithBackward, fill
from lucid.core.primitive import P
from lucid.ops.nn.normalization import (
    affine_back,
    group_norm,
    normalized,
    normalized_and_affine_back,
    normalized_back,
    normalized_with_variance,
    row_norm,
)


def _as_rows(x: Any, ndim: int) -> Any:
    """The last dimensions as one."""
    x = contiguous(x)
    return x if ndim == 1 else x.reshape(*x.shape[: x.ndim - ndim], math.prod(x.shape[x.ndim - ndim :]))


def _shaped(new: Any, shape: tuple[int, ...]) -> Any:
    """A new array in another shape: not a view, which nobody could take for his own."""
    if new.shape != shape:
        new.resize(shape, refcheck=False)
    return new


def _rows_forward(x: Any, weight: Any, bias: Any, ndim: int, eps: float, centred: bool) -> tuple[Any, tuple[Any, ...]]:
    w = weight if weight is None or ndim == 1 else weight.reshape(-1)
    b = bias if bias is None or ndim == 1 else bias.reshape(-1)
    found = _normalized(_as_rows(x, ndim), w, b, eps, centred)
    if found is None:
        out: tuple[Any, tuple[Any, ...]] = kernels.reference(row_norm).forward(
            x, weight, bias, ndim=ndim, eps=eps, centred=centred
        )
        return out
    return found if ndim == 1 else (_shaped(found[0], x.shape), found[1])


def _normalized(x: Any, weight: Any, bias: Any, eps: float, centred: bool) -> tuple[Any, tuple[Any, ...]] | None:
    """Rows, the last dimension of an array, with weights and biases that broadcast against it; and numbers of rows."""
    params = {"eps": eps, "centred": centred, "weighted": weight is not None}
    found = _forward_kernel.run(_given(x, weight, bias), x.ndim - 1, params)
    if found is None:
        return None
    known = found[1:]
    least, largest = scales(x.dtype)
    if not within(known[-1], least, largest):
        _rescale(x, weight, bias, eps, centred, found[0], known)
    return found[0], known


def _given(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    """What a kernel gets: weights and biases only where there are some."""
    if weight is None:
        return (x,) if bias is None else (x, bias)
    return (x, weight) if bias is None else (x, weight, bias)


@cache
def scales(dtype: Any) -> tuple[float, float]:
    """The least factor of scale above 0, and that of the smallest numbers whose squares keep their digits."""
    working = dtypes.float32.numpy if dtype.itemsize == 2 else dtype
    return float(np.finfo(working).smallest_subnormal), float(safe_sums(working)[0] ** -0.5)


def _finite_sizes(x: Any, centred: bool) -> Any:
    """Which rows have finite elements that are not all 0, or, if `centred`, not all the same."""
    return np.isfinite(x).all(axis=-1) & ((x != x[..., :1]) if centred else x).any(axis=-1)


def _rescale(x: Any, weight: Any, bias: Any, eps: float, centred: bool, y: Any, known: Any) -> None:
    """Compute again the finite rows whose mean squares are too large or too small for their type."""
    scale = known[-1][..., 0]
    lost = ~((scale > 0) & (scale <= scales(x.dtype)[1])) & _finite_sizes(x, centred)
    normal, mean, scale[lost] = normalized_rows(x[lost].astype(scale.dtype), eps, centred)
    if centred:
        known[0][lost, 0] = mean
        known[1][lost, 0] = 0
    normal = normal if weight is None else normal * np.broadcast_to(weight, x.shape)[lost]
    y[lost] = normal if bias is None else normal + np.broadcast_to(bias, x.shape)[lost]


def _rows_backward(
    cts: Any, arrays: Any, residuals: Any, needs: Any, ndim: int, eps: float, centred: bool
) -> list[Any]:
    x, weight, _ = arrays
    base, g = _as_rows(x, ndim), _as_rows(cts[0], ndim)
    w = None if weight is None else weight.reshape(-1)
    dx: Any = None
    dw: Any = None
    db: Any = None
    if needs[1] or needs[2]:
        flat = tuple([v.reshape(-1, v.shape[-1]) for v in (g, base, *residuals)])
        if needs[0] and len(flat[0]) > GROUP and base.shape[-1] >= LEAST_BESIDE:
            dx, dw, db = _pulled_at_once(flat, w)
        else:
            dw, db = affine_kernel.run(flat, 0, {})
        dw, db = [d.astype(x.dtype, copy=False) for d in (dw, db)]
    if needs[0] and dx is None:
        dx = _pulled(g, base, residuals, w)
    return [_shaped(d, a.shape) if need else None for d, a, need in zip((dx, dw, db), arrays, needs)]


def _pulled(g: Any, x: Any, known: Any, weight: Any) -> Any:
    """The cotangents of rows."""
    given = (g, x, *known) if weight is None else (g, x, *known, weight)
    return backward_kernel.run(given, x.ndim - 1, {"weighted": weight is not None})


def _pulled_at_once(flat: tuple[Any, ...], weight: Any) -> tuple[Any, Any, Any]:
    """The cotangents of the rows of matrices and of their weights and biases, to the last bit as one after the other."""
    length, kind = flat[0].shape[1], flat[-1].dtype
    sums = [np.zeros((-(-len(flat[0]) // GROUP), length), kind) for _ in range(2)]
    given = (*flat, *sums) if weight is None else (*flat, weight, *sums)
    dx = _whole_backward_kernel.run(given, 1, {"weighted": weight is not None}, totals=2)
    return dx, *[np.add.reduce(s, axis=0) for s in sums]


def _are_moderate(scale: Any, dtype: Any) -> bool:
    """Whether products with these factors, and of them, are well within the range of a type."""
    return within(scale, *moderate_sizes(dtype))


def _as_groups(x: Any, groups: int) -> Any:
    return contiguous(x).reshape(len(x), groups, math.prod(x.shape[1:]) // groups)


def _of_groups(values: Any, x: Any, groups: int) -> Any:
    """One number for each channel as one for each element of an example's groups."""
    if values is None:
        return None
    return np.repeat(values, math.prod(x.shape[2:])).reshape(groups, -1)


def _groups_forward(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, tuple[Any, ...]]:
    w, b = (_of_groups(v, x, groups) for v in (weight, bias))
    found = _normalized(_as_groups(x, groups), w, b, eps, True) if x.size else None
    if found is None or not _are_moderate(found[1][-1], found[1][-1].dtype):
        out: tuple[Any, tuple[Any, ...]] = kernels.reference(group_norm).forward(
            x, weight, bias, groups=groups, eps=eps
        )
        return out
    return _shaped(found[0], x.shape), found[1]


def _groups_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, groups: int, eps: float) -> list[Any]:
    x, weight, _ = arrays
    base, g = _as_groups(x, groups), _as_groups(cts[0], groups)
    dx = _pulled(g, base, residuals, _of_groups(weight, x, groups)) if needs[0] else None
    dw: Any = None
    db: Any = None
    if needs[1] or needs[2]:
        # First each channel of each example, then all examples.
        channels = (len(x), x.shape[1], math.prod(x.shape[2:]))
        known = [np.repeat(v, x.shape[1] // groups, axis=1) for v in residuals]
        each = affine_kernel.run((g.reshape(channels), base.reshape(channels), *known), 2, {})
        dw, db = [P.sum.kernel(d[..., 0], dims=(0,), keepdim=False).astype(x.dtype, copy=False) for d in each]
    return [_shaped(d, a.shape) if need else None for d, a, need in zip((dx, dw, db), arrays, needs)]


LEAST_BESIDE = 64  # elements of rows from which on `affine_kernel` sums by columns, as groups of rows do
_forward_kernel, backward_kernel = row_kernel(normalized), row_kernel(normalized_back)
_whole_backward_kernel = row_kernel(normalized_and_affine_back)
affine_kernel, batch_kernel = row_kernel(affine_back), row_kernel(normalized_with_variance)


_FEW = 16  # positions up to which the examples of a channel are brought together first


def _as_planes(x: Any) -> Any:
    """Examples of channels, whose positions are one dimension."""
    x = contiguous(x)
    shape = x.shape
    return x if len(shape) == 3 else x.reshape(shape[0], shape[1], math.prod(shape[2:]))


def _as_channels(x: Any) -> Any:
    x = _as_planes(x)
    if x.shape[2] >= _FEW:
        return x
    return contiguous(x.swapaxes(0, 1)).reshape(1, x.shape[1], len(x) * x.shape[2])


def _from_channels(y: Any, shape: tuple[int, ...]) -> Any:
    """An array as it was before `_as_channels`."""
    if len(y) == shape[0]:
        return _shaped(y, shape)
    return contiguous(y.reshape(shape[1], shape[0], *shape[2:]).swapaxes(0, 1))


def _channels_forward(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    """The result, mean and variance, and what `_channels_backward` wants to know."""
    planes = _as_channels(x)
    w, b = (v if v is None else contiguous(v) for v in (weight, bias))
    low, high = safe_sums(x.dtype)
    y, mean, rstd, narrow_mean, variance, is_extreme = batch_norm.normalize(planes, w, b, eps, low, high)
    if is_extreme:
        wide = variance.astype(np.float64)
        lost = ~((wide + eps >= low) & (wide <= high))
        _rescale_channels(planes, w, b, eps, lost, y, mean, rstd)
    return (_from_channels(y, x.shape), narrow_mean, variance), (mean, rstd)


def _rescale_channels(planes: Any, weight: Any, bias: Any, eps: float, lost: Any, y: Any, mean: Any, rstd: Any) -> None:
    """Compute again the finite channels whose variances are too large or too small for their type."""
    flat = planes.swapaxes(0, 1).reshape(planes.shape[1], len(planes) * planes.shape[2])
    lost = lost & _finite_sizes(flat, True)
    normal, mean[lost], rstd[lost] = normalized_rows(flat[lost], eps, True)
    normal = normal if weight is None else normal * weight[lost, None]
    scaled = normal if bias is None else normal + bias[lost, None]
    y[:, lost] = scaled.reshape(-1, len(planes), planes.shape[2]).swapaxes(0, 1)


def _units(rstd: Any, dtype: Any) -> Any:
    """The powers of 2 in which channels have moderate sizes; None if all have as they are."""
    if _are_moderate(rstd, dtype):
        return None
    extreme = ~is_moderate(rstd, dtype) & (rstd > 0) & np.isfinite(rstd)
    return power_of_two(1 / np.where(extreme, rstd, 1)) if extreme.any() else None


def _channels_backward(arrays: Any, residuals: Any, needs: Any, cts: Any) -> list[Any]:
    (x, weight, _), (mean, rstd) = arrays, residuals
    planes = _as_channels(x)
    g = np.zeros_like(planes) if cts[0] is None else _as_channels(cts[0])
    w = weight if weight is None else contiguous(weight)
    by_mean, by_variance = [ct if ct is None else contiguous(ct.astype(mean.dtype)) for ct in cts[1:]]
    units = _units(rstd, planes.dtype)
    if units is None:
        dx, dw, db = batch_norm.normalize_back(g, planes, w, mean, rstd, by_mean, by_variance, needs[0])
    else:  # as for x / unit, of which the result is a function as it is of x
        each = units[:, None].astype(planes.dtype)
        by_mean = by_mean if by_mean is None else by_mean * units
        by_variance = by_variance if by_variance is None else by_variance * units * units
        dx, dw, db = batch_norm.normalize_back(
            g, planes / each, w, mean / units, rstd * units, by_mean, by_variance, needs[0]
        )
        dx = dx if dx is None else dx / each
    return [dx if dx is None else _from_channels(dx, x.shape), dw, db]


def _is_matrix(x: Any) -> bool:
    """Whether channels have one position and are the columns of a matrix."""
    return x.ndim == 2 or bool(x.size == x.shape[0] * x.shape[1])


def _as_matrix(x: Any) -> Any:
    return x if x.ndim == 2 else x.reshape(x.shape[:2])


def _columns_forward(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, tuple[Any, ...]] | None:
    """Channels that are the columns of a matrix; None where the sizes of numbers need care."""
    params, shape, kind = {"eps": eps, "weighted": weight is not None}, x.shape, x.dtype
    found = batch_kernel.run(_given(_as_matrix(x), weight, bias), 0, params)
    if found is None:
        return None
    y, mean, rest, scale, variance = found
    if not _are_moderate(scale, scale.dtype):
        return None
    flat = [_shaped(v, shape[1:2]).astype(kind, copy=False) for v in (add(mean, rest), variance)]
    return (_shaped(y, shape), *flat), (mean, rest, scale)


def _batch_forward(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    found = _columns_forward(x, weight, bias, eps) if support.in_use and x.size and _is_matrix(x) else None
    return _channels_forward(x, weight, bias, eps) if found is None else found


def _batch_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, eps: float) -> list[Any]:
    if len(residuals) == 2:
        return _channels_backward(arrays, residuals, needs, cts)
    mean, rest, scale = residuals
    if cts[0] is None or cts[1] is not None or cts[2] is not None:
        wide = (mean + rest).reshape(-1).astype(np.float64), scale.reshape(-1).astype(np.float64)
        return _channels_backward(arrays, wide, needs, cts)
    x, weight, _ = arrays
    g, base = _as_matrix(cts[0]), _as_matrix(x)
    dx: Any = None
    dw: Any = None
    db: Any = None
    if needs[0]:
        given = (g, base, *residuals) if weight is None else (g, base, *residuals, weight)
        dx = _shaped(backward_kernel.run(given, 0, {"weighted": weight is not None}), x.shape)
    if needs[1] or needs[2]:
        found = affine_kernel.run((g, base, *residuals), 0, {})
        dw, db = [_shaped(d.astype(x.dtype, copy=False), (x.shape[1],)) for d in found]
    return [d if need else None for d, need in zip((dx, dw, db), needs)]


def _affine_forward(x: Any, scale: Any, shift: Any) -> tuple[Any, tuple[Any, ...]]:
    return _scaled(x, scale, shift), (None,)


def _scaled(x: Any, scale: Any, shift: Any) -> Any:
    planes = _as_planes(x)
    return _shaped(batch_norm.affine(planes, contiguous(scale), shift if shift is None else contiguous(shift)), x.shape)


def _affine_backward(cts: Any, arrays: Any, residuals: Any, needs: Any) -> list[Any]:
    x, scale, _ = arrays
    # The gradients of weights are those of a normalisation of values that are normal already.
    normal = np.zeros(x.shape[1]), np.ones(x.shape[1])
    only = _channels_backward(arrays, normal, (False, True, True), (cts[0], None, None))
    return [_scaled(cts[0], scale, None) if needs[0] else None, *only[1:]]


# --- batch norm in compiled programs ---------------------------------------------------------------


def _planes_of(steps: Steps, place: Any) -> Any:
    """`_as_channels`."""
    x = steps.ordered(place)
    x = x.shown(x.array.reshape(*x.array.shape[:2], math.prod(x.array.shape[2:])))
    if x.array.shape[2] >= _FEW:
        return x
    examples, channels, length = x.array.shape
    beside = steps.new((1, channels, examples * length), x.array.dtype)
    steps.copy(x.shown(x.array.swapaxes(0, 1)), beside.shown(beside.array.reshape(channels, examples, length)))
    return beside


def _batch_steps(steps: Steps, outs: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    kind, channels = x.array.dtype, x.array.shape[1]
    if not steps.can_check or kind not in _WIDE or not x.array.size or _is_matrix(x.array):
        return None
    if any(v is not None and v.array.dtype != kind for v in (weight, bias)):
        return None
    planes = _planes_of(steps, x)
    y = outs[0] if len(planes.array) == len(x.array) else steps.new(planes.array.shape, kind)
    w, b = [v if v is None else steps.ordered(v) for v in (weight, bias)]
    mean, rstd = [steps.new((channels,), np.float64) for _ in range(2)]
    flag, (low, high) = steps.new((), np.bool_), safe_sums(kind)
    found = batch_norm.entry(planes.array, eps, float(low), float(high), False)
    steps.enter(Entry(*found), (planes, w, mean, rstd, flag, b, y, *outs[1:]))
    steps.check(flag)  # numbers that need care are the kernel's
    if y is not outs[0]:
        _copy_back(steps, y, outs[0])
    return mean, rstd


def _batch_back_steps(steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, eps: float) -> bool:
    (x, weight, _), (mean, rstd), (g, *others) = operands, residuals, cts
    kind = x.array.dtype
    if g is None or any(c is not None for c in others):
        return False
    planes, g = _planes_of(steps, x), _planes_of(steps, g)
    dx, dw, db = outs
    target = dx if dx is None or len(planes.array) == len(x.array) else steps.new(planes.array.shape, kind)
    w, flag = weight if weight is None else steps.ordered(weight), steps.new((), np.bool_)
    found = batch_norm.entry(planes.array, eps, *moderate_sizes(kind), True)
    steps.enter(Entry(*found), (planes, w, mean, rstd, flag, g, target, dw, db, None, None))
    steps.check(flag)
    if target is not dx:
        _copy_back(steps, target, dx)
    return True


def _copy_back(steps: Steps, planes: Any, out: Any) -> None:
    """`_from_channels`."""
    shape = (out.array.shape[1], out.array.shape[0], *out.array.shape[2:])
    steps.copy(planes.shown(planes.array.reshape(shape).swapaxes(0, 1)), out)


_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
lower({"batch_norm": Lowering(_batch_steps, _batch_back_steps)})
if support.in_use:
    fill(
        {
            "row_norm": WithBackward(_rows_forward, _rows_backward),
            "group_norm": WithBackward(_groups_forward, _groups_backward),
        },
        "cpu",
    )
fill(
    {
        "batch_norm": WithBackward(_batch_forward, _batch_backward),
        "channel_affine": WithBackward(_affine_forward, _affine_backward),
    },
    "cpu",
)
