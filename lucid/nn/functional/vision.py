"""Images in other sizes and at other places: interpolation, sampling on a grid, rearranged channels."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import lucid
from lucid import Tensor
from lucid.api.shaping import in_own_memory
from lucid.arguments.promotion import as_floats_alike
from lucid.core.primitive import apply, lift
from lucid.core.tensor import of_class, shape_of, wrapped
from lucid.nn.functional import pooling
from lucid.nn.functional.spatial import Sizes, each, require_fractions
from lucid.ops.fused import given_back, in_working_type
from lucid.ops.nn.grid_sampling import PADDINGS, SAMPLERS
from lucid.ops.nn.resampling import (
    AxisMap,
    Maps,
    Sampling,
    antialias_map,
    interpolation_map,
    nearest_map,
)
from lucid.ops.rules import P, is_array

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# Modes with the number of spatial dimensions that they are for, and what they do along each.
_SMOOTH = {"linear": (1, "linear"), "bilinear": (2, "linear"), "trilinear": (3, "linear"), "bicubic": (2, "cubic")}
_STEPS = ("nearest", "nearest-exact", "area")


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """A signal, image or volume in another size: (N, C, …) with other spatial sizes.

    Give `size` or `scale_factor`. The mode is "nearest", "nearest-exact", "area", "linear" (one spatial dimension),
    "bilinear" or "bicubic" (two) or "trilinear" (three). With `align_corners`, the centres of the corner elements stay
    where they are; without, the outer edges of the corner elements do. `antialias` widens the filter of "bilinear" and
    "bicubic" when an image shrinks.

    >>> import lucid
    >>> from lucid.nn.functional.vision import interpolate
    >>> x = lucid.tensor([[[1.0, 3.0]]])
    >>> interpolate(x, scale_factor=2)
    Tensor([[[1., 1., 3., 3.]]])
    >>> interpolate(x, size=4, mode="linear")
    Tensor([[[1. , 1.5, 2.5, 3. ]]])
    """
    x = lift(input)
    old = shape_of(x)[2:]
    if not 1 <= len(old) <= 3:
        raise RuntimeError(f"interpolate: expected shape (N, C, …) with one to three more sizes, not {x.shape}")
    # Numbers are keys: those of other types, and of arrays, are not always what they are equal to.
    plan = _known_plan if type(size) in _KEYS and type(scale_factor) in _KEYS else _plan
    sizes, maps = plan(old, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if mode == "area":
        return getattr(pooling, f"adaptive_avg_pool{len(old)}d")(x, sizes)
    if mode not in _STEPS:
        require_fractions(x, f"interpolate: mode {mode!r}")
    return P.resample(x, maps=maps)


def _plan(
    old: Sizes,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> tuple[Sizes, Maps]:
    """The new sizes, and what happens along each dimension; the pooling of areas needs no more than the sizes."""
    _raise_if_wrong_mode(mode, len(old), align_corners, antialias)
    sizes, scales = _sizes(old, size, scale_factor, recompute)
    maps: list[AxisMap | None] = []
    for n, new, scale in zip(old, sizes, scales, strict=True) if mode != "area" else ():
        is_same = n == new and scale == 1
        maps.append(None if is_same else _axis_map(mode, n, new, scale, bool(align_corners), antialias))
    return sizes, tuple(maps)


_known_plan = lru_cache(maxsize=1024, typed=True)(_plan)
_KEYS = (int, float, type(None))


def _axis_map(mode: str, old: int, new: int, scale: float, align_corners: bool, antialias: bool) -> AxisMap:
    if mode in _STEPS:
        return nearest_map(old, new, scale, mode == "nearest-exact")
    if align_corners:
        scale = (old - 1) / (new - 1) if new > 1 else 0.0
    make = antialias_map if antialias else interpolation_map
    return make(_SMOOTH[mode][1], Sampling(old, new, scale, align_corners))


def _raise_if_wrong_mode(mode: str, n: int, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _SMOOTH and mode not in _STEPS:
        raise ValueError(f"interpolate: mode must be one of {', '.join((*_STEPS, *_SMOOTH))}, not {mode!r}")
    if mode in _SMOOTH and _SMOOTH[mode][0] != n:
        raise ValueError(f"interpolate: mode {mode!r} is for {_SMOOTH[mode][0]} spatial dimensions, the input has {n}")
    if mode in _STEPS and align_corners is not None:
        raise ValueError(f"interpolate: align_corners has no meaning for mode {mode!r}; leave it out")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias is for modes 'bilinear' and 'bicubic', not {mode!r}")


def _sizes(old: Sizes, size: Any, scale_factor: Any, recompute: bool | None) -> tuple[Sizes, list[float]]:
    """The new sizes, and how many old elements there are to a new one."""
    n = len(old)
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor, and only one of them")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor goes with scale_factor, not with size")
        new = each(size, n, "interpolate: size", 1)
        return new, [o / m for o, m in zip(old, new, strict=True)]
    factors = [float(f) for f in (scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * n)]
    if len(factors) != n or min(factors) <= 0:
        raise ValueError(f"interpolate: expected one positive scale_factor or {n} of them, not {scale_factor!r}")
    new = tuple(math.floor(o * f) for o, f in zip(old, factors, strict=True))
    if min(new) < 1:
        raise ValueError(f"interpolate: scale_factor {scale_factor!r} leaves nothing of {old}")
    return new, [o / m if recompute else 1 / f for o, m, f in zip(old, new, factors, strict=True)]


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """An older name of `interpolate`.

    >>> import lucid
    >>> from lucid.nn.functional.vision import upsample
    >>> upsample(lucid.ones(1, 1, 2, 2), scale_factor=3).shape
    (1, 1, 6, 6)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate` in the mode "nearest".

    >>> import lucid
    >>> from lucid.nn.functional.vision import upsample_nearest
    >>> upsample_nearest(lucid.tensor([[[1.0, 3.0]]]), scale_factor=2)
    Tensor([[[1., 1., 3., 3.]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate` in the mode "bilinear" with corners that stay.

    >>> import lucid
    >>> from lucid.nn.functional.vision import upsample_bilinear
    >>> upsample_bilinear(lucid.tensor([[[[1.0, 3.0]]]]), size=(1, 3))
    Tensor([[[[1., 2., 3.]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


# --- sampling on a grid --------------------------------------------------------------------------


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Images or volumes read at the places that a grid says.

    `input` has shape (N, C, H, W) or (N, C, D, H, W), `grid` (N, …, 2) or (N, …, 3) with coordinates (x, y) or (x, y, z)
    from -1 to 1: x goes along the last dimension. These are the centres of the corner elements with `align_corners`, and
    their outer edges without. The mode is "bilinear", "nearest" or "bicubic" (images only). Places outside are 0
    ("zeros"), the nearest element ("border") or mirrored ("reflection"). Integers are taken as floats.

    >>> import lucid
    >>> from lucid.nn.functional.vision import grid_sample
    >>> image = lucid.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(image, lucid.tensor([[[[0.0, 0.0], [-0.5, -0.5]]]]))
    Tensor([[[[2.5, 1. ]]]])
    """
    x, g = lift(input), lift(grid)
    n = x.ndim - 2
    if n not in (2, 3) or g.ndim != x.ndim or g.shape[-1] != n or g.shape[0] != x.shape[0]:
        raise RuntimeError(
            f"grid_sample: expected an input (N, C, H, W) or (N, C, D, H, W) and a grid (N, …, 2) or (N, …, 3), "
            f"not shapes {x.shape} and {g.shape}"
        )
    if mode not in SAMPLERS or (mode == "bicubic" and n != 2):
        raise ValueError(f"grid_sample: mode must be 'bilinear', 'nearest' or, for images, 'bicubic', not {mode!r}")
    if padding_mode not in PADDINGS:
        raise ValueError(f"grid_sample: padding_mode must be one of {', '.join(PADDINGS)}, not {padding_mode!r}")
    if 0 in x.shape[2:]:
        raise RuntimeError(f"grid_sample: the input has no elements to read, shape {x.shape}")
    (x, g), kind = in_working_type("grid_sample", *as_floats_alike((x, g)))
    places = g.shape[1:-1]
    flat = P.reshape(g, shape=(g.shape[0], math.prod(places), n))
    out = P.grid_sample(x, flat, mode=mode, padding=padding_mode, align_corners=bool(align_corners))
    return given_back(P.reshape(out, shape=(*x.shape[:2], *places)), kind)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` that an affine map makes: for each place of a result, `theta` @ (x, y, 1).

    `theta` has shape (N, 2, 3) for a result of `size` (N, C, H, W), and (N, 3, 4) for (N, C, D, H, W).

    >>> import lucid
    >>> from lucid.nn.functional.vision import affine_grid
    >>> affine_grid(lucid.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    Tensor([[[[-0.5,  0. ],
              [ 0.5,  0. ]]]])
    """
    t = lift(theta)
    sizes = tuple(int(s) for s in size)
    n = len(sizes) - 2
    if n not in (2, 3) or t.shape != (sizes[0], n, n + 1):
        raise RuntimeError(
            f"affine_grid: for a size of {sizes} theta must have shape ({sizes[0]}, {n}, {n + 1}), not {t.shape}"
        )
    if not t.is_floating_point():
        raise RuntimeError(f"affine_grid: expected a floating-point theta, not {t.dtype}; convert it, as in x.float()")
    if min(sizes) < 1:
        raise ValueError(f"affine_grid: sizes must be positive, not {sizes}")
    axes = [_ticks(s, bool(align_corners)).to(t.dtype) for s in sizes[2:]]
    mesh = lucid.meshgrid(*axes, indexing="ij")
    points = lucid.stack([*mesh[::-1], lucid.ones_like(mesh[0])], -1)
    out = points.reshape(1, -1, n + 1) @ t.mT
    return out.reshape(sizes[0], *sizes[2:], n)


def _ticks(size: int, align_corners: bool) -> Tensor:
    """Where the elements of a dimension are between -1 and 1."""
    if size == 1:
        return lucid.zeros(1)
    ends = 1.0 if align_corners else (size - 1) / size
    return lucid.linspace(-ends, ends, size, dtype=lucid.float64)


# --- channels ------------------------------------------------------------------------------------


class _Order(NamedTuple):
    """The parameters of the views that bring elements into another order."""

    apart: dict[str, Sizes]
    moved: dict[str, Sizes]
    joined: dict[str, Sizes]


def _order(apart: Sizes, dims: Sizes, joined: Sizes) -> _Order:
    return _Order({"shape": apart}, {"dims": dims}, {"shape": joined})


def _rearranged(x: Tensor, order: _Order) -> Tensor:
    """Elements of a tensor that is taken apart, its dimensions moved, and joined again, in memory of its own."""
    if is_array(x):
        moved = P.permute.kernel(P.reshape.kernel(x._array, **order.apart), **order.moved)
        return of_class((x,), wrapped(P.reshape.kernel(P.clone.kernel(moved), **order.joined)))
    view = apply(P.permute, (apply(P.reshape, (x,), order.apart),), order.moved)
    return in_own_memory(apply(P.reshape, (view,), order.joined), x)


def _image(name: str, input: Any) -> Tensor:
    x = lift(input)
    if len(shape_of(x)) < 3:
        raise RuntimeError(f"{name}: expected at least 3 dimensions, (…, C, H, W), not shape {x.shape}")
    return x


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Channels spread out over space: (…, C·r², H, W) becomes (…, C, H·r, W·r), with r = `upscale_factor`.

    >>> import lucid
    >>> from lucid.nn.functional.vision import pixel_shuffle
    >>> pixel_shuffle(lucid.arange(4).reshape(4, 1, 1), 2)
    Tensor([[[0, 1],
             [2, 3]]])
    """
    x = _image("pixel_shuffle", input)
    (r,) = each(upscale_factor, 1, "pixel_shuffle: upscale_factor", 1)
    return _rearranged(x, _shuffled(shape_of(x), r))


@lru_cache(maxsize=512)
def _shuffled(shape: Sizes, r: int) -> _Order:
    *lead, channels, h, w = shape
    if channels % (r * r):
        raise RuntimeError(f"pixel_shuffle: {channels} channels of {shape} are no multiple of {r}²")
    n, left = len(lead), channels // (r * r)
    dims = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return _order((*lead, left, r, r, h, w), dims, (*lead, left, h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Space folded into channels, the reverse of `pixel_shuffle`: (…, C, H·r, W·r) becomes (…, C·r², H, W).

    >>> import lucid
    >>> from lucid.nn.functional.vision import pixel_unshuffle
    >>> pixel_unshuffle(lucid.ones(3, 4, 6), 2).shape
    (12, 2, 3)
    """
    x = _image("pixel_unshuffle", input)
    (r,) = each(downscale_factor, 1, "pixel_unshuffle: downscale_factor", 1)
    return _rearranged(x, _unshuffled(shape_of(x), r))


@lru_cache(maxsize=512)
def _unshuffled(shape: Sizes, r: int) -> _Order:
    *lead, channels, h, w = shape
    if h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle: {h} by {w} elements of {shape} cannot be divided by {r}")
    n, rows, columns = len(lead), h // r, w // r
    dims = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return _order((*lead, channels, rows, r, columns, r), dims, (*lead, channels * r * r, rows, columns))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """Channels dealt out anew: the first of each of `groups` groups, then the second of each, and so on.

    >>> import lucid
    >>> from lucid.nn.functional.vision import channel_shuffle
    >>> channel_shuffle(lucid.arange(4).reshape(1, 4, 1), 2).reshape(4)
    Tensor([0, 2, 1, 3])
    """
    x = lift(input)
    shape = shape_of(x)
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle: expected shape (N, C, …), not {x.shape}")
    (g,) = each(groups, 1, "channel_shuffle: groups", 1)
    n, channels, *rest = shape
    if channels % g:
        raise RuntimeError(f"channel_shuffle: {channels} channels of {x.shape} do not fall into {g} groups")
    return _rearranged(x, _order((n, g, channels // g, *rest), (0, 2, 1, *range(3, 3 + len(rest))), shape))
