"""Rows of the table for convolution, pooling, padding and resampling; see `samples`.

References are written place by place, with no windows laid out and no maps for single dimensions.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from samples import BOOLS, Array, Domain, Make, Row, Sample, s

import lucid
from lucid.nn.functional import convolution, padding, pooling, vision
from lucid.nn.functional import fractional as fractional_pooling
from lucid.ops.nn.pooling import window_map, windows
from lucid.ops.rules import P

ALL = slice(None)


def each(value: Any, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def one_example(reference: Any, ndim: int) -> Any:
    """A reference that also takes an input without a dimension for examples."""

    def call(x: Array, *args: Any, **kwargs: Any) -> Any:
        return reference(x, *args, **kwargs) if x.ndim == ndim else reference(x[None], *args, **kwargs)[0]

    return call


# --- convolution ---------------------------------------------------------------------------------


def with_bias(out: Array, bias: Any) -> Array:
    return out if bias is None else out + bias.reshape(-1, *(1,) * (out.ndim - 2))


def conv(
    x: Array,
    w: Array,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    n = w.ndim - 2
    stride, dilation, kernel = each(stride, n), each(dilation, n), w.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if padding == "same":
        pads = [(r // 2, r - r // 2) for r in reach]
    else:
        pads = [(p, p) for p in each(0 if padding == "valid" else padding, n)]
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    sizes = [(x.shape[i + 2] - reach[i] - 1) // stride[i] + 1 for i in range(n)]
    results, channels = w.shape[0] // groups, w.shape[1]
    out = np.zeros((len(x), w.shape[0], *sizes), np.result_type(x, w))
    for g, place in product(range(groups), np.ndindex(*sizes)):
        window = [slice(o * t, o * t + r + 1, d) for o, t, r, d in zip(place, stride, reach, dilation, strict=True)]
        seen = x[(ALL, slice(g * channels, (g + 1) * channels), *window)].reshape(len(x), w[0].size)
        mine = slice(g * results, (g + 1) * results)
        out[(ALL, mine, *place)] = seen @ w[mine].reshape(results, -1).T
    return with_bias(out, bias)


def conv_transpose(
    x: Array,
    w: Array,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    n = w.ndim - 2
    stride, dilation, kernel = each(stride, n), each(dilation, n), w.shape[2:]
    pads, more = each(padding, n), each(output_padding, n)
    sizes = [
        (o - 1) * t + d * (k - 1) + 1 + m
        for o, t, d, k, m in zip(x.shape[2:], stride, dilation, kernel, more, strict=True)
    ]
    channels, results = w.shape[0] // groups, w.shape[1]
    out = np.zeros((len(x), results * groups, *sizes), np.result_type(x, w))
    for g, place, tap in product(range(groups), np.ndindex(*x.shape[2:]), np.ndindex(*kernel)):
        at = [o * t + k * d for o, t, k, d in zip(place, stride, tap, dilation, strict=True)]
        mine = slice(g * channels, (g + 1) * channels)
        out[(ALL, slice(g * results, (g + 1) * results), *at)] += x[(ALL, mine, *place)] @ w[(mine, ALL, *tap)]
    inner = [slice(p, n - p) for p, n in zip(pads, sizes, strict=True)]
    return with_bias(out[(..., *inner)], bias)


def unfold(x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    """A convolution with all kernels that pick one element."""
    if x.ndim == 3:
        return unfold(x[None], kernel_size, dilation, padding, stride)[0]
    kernel = each(kernel_size, 2)
    taps = math.prod(kernel)
    picks = np.eye(taps).reshape(taps, 1, *kernel).astype(x.dtype)
    columns = [conv(x[:, c : c + 1], picks, None, stride, padding, dilation) for c in range(x.shape[1])]
    return np.stack(columns, 1).reshape(len(x), x.shape[1] * taps, -1)


def fold(x: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    """Each element of a column goes to where unfolding the numbers of all places says that it came from."""
    sizes, taps = each(output_size, 2), math.prod(each(kernel_size, 2))
    numbers = 1 + np.arange(math.prod(sizes), dtype=float).reshape(1, 1, *sizes)
    origin = unfold(numbers, kernel_size, dilation, padding, stride)[0].astype(int)
    out = np.zeros((len(x), x.shape[1] // taps, 1 + math.prod(sizes)), x.dtype)
    for (k, place), number in np.ndenumerate(origin):
        for c in range(out.shape[1]):
            out[:, c, number] += x[:, c * taps + k, place]
    return out[..., 1:].reshape(*out.shape[:2], *sizes)


def conv_samples(n: int, make: Make) -> Iterator[Sample]:
    def shape(*sizes: int) -> tuple[int, ...]:
        return sizes[:n]

    yield s(make(2, 3, *shape(5, 3, 2)), make(2, 3, *shape(3, 2, 1)), make(2))
    yield s(make(2, 2, *shape(5, 3, 2)), make(6, 1, *shape(2, 2, 2)), stride=2, padding=1, groups=2)
    yield s(make(2, *shape(6, 5, 3)), make(3, 2, *shape(2, 1, 2)), padding="same", dilation=2)
    if n == 3:
        return
    yield s(make(2, 2, *shape(7, 5)), make(1, 2, *shape(2, 3)), make(1), stride=shape(3, 2), padding=shape(2, 1))
    yield s(make(1, 6, *shape(6, 3)), make(1, 6, *shape(3, 1)), stride=2, dilation=2, padding=2)
    yield s(make(1, 1, *shape(5, 3)), make(7, 1, *shape(2, 2)), stride=3)
    yield s(make(2, 3, *shape(3, 2)), make(5, 3, *shape(1, 1)), make(5), padding="valid")
    yield s(make(0, 2, *shape(5, 3)), make(3, 2, *shape(2, 2)))


def transpose_samples(n: int, make: Make) -> Iterator[Sample]:
    def shape(*sizes: int) -> tuple[int, ...]:
        return sizes[:n]

    yield s(make(2, 3, *shape(3, 2, 2)), make(3, 2, *shape(3, 2, 2)), make(2))
    yield s(make(1, 2, *shape(3, 2, 2)), make(2, 1, *shape(2, 2, 1)), make(2), stride=2, output_padding=1, groups=2)
    if n == 3:
        return
    yield s(make(2, *shape(3, 3)), make(2, 3, *shape(3, 2)), stride=shape(2, 3), padding=1)
    yield s(make(1, 2, *shape(3, 2)), make(2, 1, *shape(2, 2)), dilation=3, stride=2, output_padding=2)


def columns(make: Make) -> Iterator[Sample]:
    yield s(make(2, 2, 3, 5), 2)
    yield s(make(1, 2, 5, 3), (3, 2), dilation=(1, 2), padding=1, stride=2)


def folded(make: Make) -> Iterator[Sample]:
    yield s(make(2, 6, 8), (3, 2), (2, 1), padding=(1, 0))
    yield s(make(1, 12, 2), (5, 3), (3, 2), stride=2)


SUMS = {"complex": True, "ints": ("int64",)}
CONVOLUTIONS = [
    *(
        Row(f"conv{n}d", getattr(convolution, f"conv{n}d"), one_example(conv, n + 2), partial(conv_samples, n), **SUMS)
        for n in (1, 2, 3)
    ),
    *(
        Row(
            f"conv_transpose{n}d",
            getattr(convolution, f"conv_transpose{n}d"),
            one_example(conv_transpose, n + 2),
            partial(transpose_samples, n),
            **SUMS,
        )
        for n in (1, 2, 3)
    ),
    Row("unfold2d", convolution.unfold, unfold, columns, **SUMS),
    Row("fold2d", convolution.fold, fold, folded, **SUMS),
]


# --- pooling -------------------------------------------------------------------------------------


def ranges(
    size: int, kernel: int, stride: int, pad: int, dilation: int = 1, ceil_mode: bool = False
) -> list[list[int]]:
    """The places that each window reads, those in the padding among them."""
    found: list[list[int]] = []
    for start in range(-pad, size + pad, stride):
        window = [start + k * dilation for k in range(kernel)]
        fits = window[-1] < size + pad
        # One more window may begin inside if the one before leaves something at the end.
        if not fits and not (ceil_mode and start < size and (not found or found[-1][-1] < size + pad - 1)):
            break
        found.append(window)
    return found


def shares(size: int, out: int) -> list[list[int]]:
    return [list(range(math.floor(i * size / out), math.ceil((i + 1) * size / out))) for i in range(out)]


def pooled(x: Array, windows: list[list[list[int]]], fold: Any) -> Array:
    """`fold(values, places)` for each window: its elements, one row for each plane, and all its places."""
    n = len(windows)
    lead, sizes = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    planes = x.reshape(math.prod(lead), *sizes)
    out = []
    for combination in product(*windows):
        places = list(product(*combination))
        inside = [p for p in places if all(0 <= i < m for i, m in zip(p, sizes, strict=True))]
        out.append(fold(np.stack([planes[(ALL, *p)] for p in inside], -1), places, inside))
    if not out:
        return np.zeros((*lead, *(len(w) for w in windows)), x.dtype)
    return np.stack(out, -1).reshape(*lead, *(len(w) for w in windows))


def all_ranges(
    n: int, x: Array, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1, ceil_mode: bool = False
) -> list[list[list[int]]]:
    kernel = each(kernel_size, n)
    strides = kernel if stride is None else each(stride, n)
    return [
        ranges(x.shape[x.ndim - n + i], kernel[i], strides[i], each(padding, n)[i], each(dilation, n)[i], ceil_mode)
        for i in range(n)
    ]


def highest(values: Array, places: Any, inside: Any) -> Array:
    return values.max(-1)


def max_pool(
    n: int, x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Array:
    return pooled(x, all_ranges(n, x, kernel_size, stride, padding, dilation, ceil_mode), highest)


def with_indices(windows: list[list[list[int]]], x: Array) -> tuple[Array, Array]:
    sizes = x.shape[x.ndim - len(windows) :]

    def where(values: Array, places: Any, inside: Any) -> Array:
        return np.asarray([np.ravel_multi_index(inside[k], sizes) for k in values.argmax(-1)])

    return pooled(x, windows, highest), pooled(x, windows, where)


def max_pool_indices(n: int, x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> tuple[Array, Array]:
    return with_indices(all_ranges(n, x, kernel_size, stride, padding), x)


def avg_pool(
    n: int,
    x: Array,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    ends = [x.shape[x.ndim - n + i] + each(padding, n)[i] for i in range(n)]

    def mean(values: Array, places: Any, inside: Any) -> Array:
        counted = [p for p in places if all(i < e for i, e in zip(p, ends, strict=True))]
        found = values.sum(-1) / (divisor_override or len(counted if count_include_pad else inside))
        return np.trunc(found).astype(x.dtype) if x.dtype.kind == "i" else found

    return pooled(x, all_ranges(n, x, kernel_size, stride, padding, 1, ceil_mode), mean)


def lp_pool(n: int, x: Array, p: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
    windows = all_ranges(n, x, kernel_size, stride, 0, 1, ceil_mode)

    def norm(values: Array, places: Any, inside: Any) -> Array:
        # Windows that end outside are scaled up to the full number of elements.
        return (np.sum(values**p, -1) * len(places) / len(inside)) ** (1 / p)

    return pooled(x, windows, norm)


def adaptive(n: int, x: Array, output_size: Any) -> list[list[list[int]]]:
    sizes = x.shape[x.ndim - n :]
    wanted = output_size if isinstance(output_size, tuple) else (output_size,) * n
    return [shares(m, m if o is None else o) for m, o in zip(sizes, wanted, strict=True)]


def adaptive_avg_pool(n: int, x: Array, output_size: Any) -> Array:
    return pooled(x, adaptive(n, x, output_size), lambda values, places, inside: values.mean(-1))


def adaptive_max_pool(n: int, x: Array, output_size: Any) -> Array:
    return pooled(x, adaptive(n, x, output_size), highest)


def unpooled(n: int, x: Array, indices: Array, kernel_size: int, output_size: Any = None) -> Array:
    lead = x.shape[: x.ndim - n]
    sizes = output_size or tuple(m * kernel_size for m in x.shape[x.ndim - n :])
    out = np.zeros((math.prod(lead), math.prod(sizes)), x.dtype)
    for row, values, places in zip(out, x.reshape(len(out), -1), indices.reshape(len(out), -1), strict=True):
        row[places] = values
    return out.reshape(*lead, *sizes)


def shape_for(n: int, *sizes: int) -> tuple[int, ...]:
    return sizes[:n]


def max_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 2, *shape_for(n, 5, 3, 2)), 2)
    yield s(make.spread(2, *shape_for(n, 6, 5, 3)), 3, 2, 1)
    if n < 3:
        yield s(make.spread(1, 2, *shape_for(n, 7, 5)), shape_for(n, 2, 3), 2, padding=1, ceil_mode=True)
        yield s(make.spread(1, 1, *shape_for(n, 7, 6)), 2, stride=1, dilation=3)
        yield s(make.spread(0, 2, *shape_for(n, 5, 3)), 2)


def index_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 2, *shape_for(n, 5, 3, 2)), 2)
    yield s(make.spread(2, *shape_for(n, 5, 3, 3)), 3, 2, 1)


def avg_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make(2, 2, *shape_for(n, 5, 3, 2)), 2)
    yield s(make(2, *shape_for(n, 6, 5, 3)), 3, 2, 1, count_include_pad=False)
    if n < 3:
        yield s(make(1, 2, *shape_for(n, 7, 5)), shape_for(n, 2, 3), 2, padding=1, ceil_mode=True)
        yield s(make(1, 2, *shape_for(n, 7, 5)), 3, 2, padding=1, ceil_mode=True, count_include_pad=False)
        yield s(make(1, 1, *shape_for(n, 7, 6)), 2, stride=1, divisor_override=3)


def lp_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make(2, 2, *shape_for(n, 5, 3, 2)), 2, 2)
    yield s(make(2, *shape_for(n, 5, 3, 3)), 3.0, 3, stride=2, ceil_mode=n < 3)


def adaptive_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 2, *shape_for(n, 5, 3, 2)), 2)
    yield s(make.spread(2, *shape_for(n, 7, 3, 2)), shape_for(n, 3, None, 1))
    yield s(make.spread(1, 2, *shape_for(n, 3, 2, 2)), shape_for(n, 5, 2, 3))


def unpool_samples(n: int, make: Make) -> Iterator[Sample]:
    shape = (2, 3, *shape_for(n, 3, 2, 2))
    count = math.prod(shape[2:])
    rows = [make.rng.choice(2**n * count, count, replace=False) for _ in range(6)]
    yield s(make(*shape), np.stack(rows).reshape(shape), 2)
    more = tuple(m * 2 + 1 for m in shape[2:])
    yield s(make(*shape), np.stack(rows).reshape(shape), 2, output_size=more)


def chances(x: Any, n: int) -> Array:
    """Numbers that look random, for each plane and dimension."""
    planes = (1, *x.shape)[-n - 2 : -n]
    return np.asarray((np.arange(math.prod(planes) * n) * 0.37 + 0.11) % 1).reshape(*planes, n)


def fractional(n: int, x: Any, kernel_size: int, output_size: Any) -> Any:
    pool = getattr(fractional_pooling, f"fractional_max_pool{n}d")
    samples = lucid.tensor(chances(x, n)).to(x.dtype if x.is_floating_point() else lucid.float32)
    return pool(x, kernel_size, output_size, return_indices=True, _random_samples=samples)


def fractional_reference(n: int, x: Array, kernel_size: int, output_size: Any) -> tuple[Array, Array]:
    """Plane by plane, over the windows that begin where the definition says; in two dimensions columns come first."""
    lead, sizes = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    values, places = [], []
    for plane, us in zip(x.reshape(-1, *sizes), chances(x, n).reshape(-1, n), strict=True):
        windows = []
        for size, out, u in zip(sizes, each(output_size, n), us[::-1] if n == 2 else us, strict=True):
            alpha = (size - kernel_size) / max(out - 1, 1)
            begins = [math.floor((i + u) * alpha) - math.floor(u * alpha) for i in range(out - 1)]
            windows.append([list(range(b, b + kernel_size)) for b in (*begins, size - kernel_size)])
        for found, part in zip(with_indices(windows, plane[None]), (values, places), strict=True):
            part.append(found[0])
    shape = (*lead, *each(output_size, n))
    return np.stack(values).reshape(shape), np.stack(places).reshape(shape)


def fractional_samples(n: int, make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 1, *shape_for(n, 5, 3, 2)), 2, shape_for(n, 3, 2, 1))
    yield s(make.spread(2, *shape_for(n, 3, 5, 2)), 2, shape_for(n, 1, 3, 1))


def indexed(n: int, name: str) -> Any:
    return partial(getattr(pooling, f"{name}{n}d"), return_indices=True)


REAL = {"ints": ("int64", "uint8")}
POOLINGS = [
    row
    for n in (1, 2, 3)
    for row in (
        Row(f"max_pool{n}d", getattr(pooling, f"max_pool{n}d"), partial(max_pool, n), partial(max_samples, n), **REAL),
        Row(f"max_pool{n}d_indices", indexed(n, "max_pool"), partial(max_pool_indices, n), partial(index_samples, n),
            result=("keep", "int64"), **REAL),
        Row(f"avg_pool{n}d", getattr(pooling, f"avg_pool{n}d"), partial(avg_pool, n), partial(avg_samples, n),
            **SUMS),
        Row(f"lp_pool{n}d", getattr(pooling, f"lp_pool{n}d"), partial(lp_pool, n), partial(lp_samples, n),
            Domain(0.5, 2)),
        Row(f"adaptive_max_pool{n}d", getattr(pooling, f"adaptive_max_pool{n}d"), partial(adaptive_max_pool, n),
            partial(adaptive_samples, n), **REAL),
        Row(f"adaptive_max_pool{n}d_indices", indexed(n, "adaptive_max_pool"),
            lambda x, size, n=n: with_indices(adaptive(n, x, size), x), partial(adaptive_samples, n),
            result=("keep", "int64"), **REAL),
        Row(f"adaptive_avg_pool{n}d", getattr(pooling, f"adaptive_avg_pool{n}d"), partial(adaptive_avg_pool, n),
            partial(adaptive_samples, n), complex=True),
        Row(f"max_unpool{n}d", getattr(pooling, f"max_unpool{n}d"), partial(unpooled, n), partial(unpool_samples, n),
            complex=True, ints=("int64",),
            without={"vmap": "rotated indices of other planes would meet at one place"} if n > 1 else {}),
    )
]  # fmt: skip


def maps_for(x: Any) -> Any:
    return tuple(window_map(windows(n, 2, 1, 0, 1, False)) for n in x.shape[2:])


def taken_at_maxima(t: Array, x: Array) -> Array:
    _, where = max_pool_indices(2, x, 2, 1)
    lead = t.shape[:2]
    return np.take_along_axis(t.reshape(*lead, -1), where.reshape(*lead, -1), -1).reshape(where.shape)


POOLINGS += [
    Row(f"fractional_max_pool{n}d", partial(fractional, n), partial(fractional_reference, n),
        partial(fractional_samples, n), result=("keep", "int64"), ints=("int64",))
    for n in (2, 3)
]  # fmt: skip

# Beneath max_pool, whose public form checks the types.
POOLINGS.append(
    Row("max_pool_take", lambda t, x: P.max_pool_take(t, x, maps=maps_for(x)), taken_at_maxima,
        lambda make: [s(make(2, 1, 3, 5), make.spread(2, 1, 3, 5))], without={"refused": "its callers check the types"})
)  # fmt: skip


# --- padding -------------------------------------------------------------------------------------


NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "circular": "wrap"}


def padded(x: Array, pad: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Array:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    if mode == "replicate":
        for axis, (n, (low, high)) in enumerate(zip(x.shape, pairs, strict=True)):
            x = x.take(np.arange(n + low + high) - low, axis, mode="clip")
        return x
    widths = [(max(low, 0), max(high, 0)) for low, high in pairs]
    if mode == "constant":
        x = np.pad(x, widths, constant_values=value)
    cut = (slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(x.shape, pairs, strict=True))
    x = x[tuple(cut)]
    return x if mode == "constant" else np.pad(x, widths, mode=NUMPY_MODES[mode])


def constants(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), (1, 2))
    yield s(make(2, 3), (0, 1, 2, 0), value=1.5 if make.floats else 3)
    yield s(make(3, 2).T, (1, -1), "constant", 2)
    yield s(make(5), (-1, -2))
    yield s(make(2, 0), (1, 1, 1, 1))
    yield s(make(3, 2), ())


def copies(make: Make) -> Iterator[Sample]:
    for mode in ("reflect", "replicate", "circular"):
        yield s(make(2, 3), (2, 1), mode)
        yield s(make(2, 3, 5), (1, 3), mode=mode)
        yield s(make(1, 3, 5), (2, 3, 1, 0), mode=mode)
        yield s(make(2, 1, 3, 2, 2), (1, 1, 0, 1, 2, 1), mode=mode)
        yield s(make(2, 6), (-1, 2), mode)
    yield s(make(2, 3), (-3, 5), "replicate")
    yield s(make(2, 3), (3, -5), "replicate")


ANYTHING = {"complex": True, "ints": ("int64", "uint8")}
PADDINGS = [
    Row("pad_constant", padding.pad, padded, constants, **ANYTHING),
    Row("pad_copies", padding.pad, padded, copies, **ANYTHING),
    Row("constant_pad_nd", padding.constant_pad_nd, lambda x, pad, value=0: padded(x, pad, value=value),
        lambda make: [s(make(2, 3), (1, 2)), s(make(3, 2).T, (1, -1), 2), s(make(5), (0, 1), value=3)], **ANYTHING),
]  # fmt: skip


# --- resampling ----------------------------------------------------------------------------------


def keys(t: float, a: float) -> float:
    """Keys' cubic convolution kernel."""
    t = abs(t)
    if t < 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0


def one_axis(mode: str, old: int, new: int, scale: float, align: bool, antialias: bool) -> Array:
    matrix = np.zeros((new, old))
    for o in range(new):
        if mode in ("nearest", "nearest-exact"):
            matrix[o, min(math.floor((o + 0.5 * (mode == "nearest-exact")) * scale), old - 1)] = 1
            continue
        cubic = mode == "bicubic"
        if antialias:
            wide, centre = max(scale, 1), (o + 0.5) * scale - 0.5
            for i in range(old):
                t = (i - centre) / wide
                matrix[o, i] = keys(t, -0.5) if cubic else max(0, 1 - abs(t))
            matrix[o] /= matrix[o].sum()
            continue
        at = o * scale if align else (o + 0.5) * scale - 0.5
        for i in range(-3, old + 3):
            weight = keys(at - i, -0.75) if cubic else max(0, 1 - abs(at - i))
            matrix[o, min(max(i, 0), old - 1)] += weight
    return matrix


def interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    antialias: bool = False,
) -> Array:
    n = x.ndim - 2
    for i, old in enumerate(x.shape[2:]):
        factor = scale_factor if not isinstance(scale_factor, tuple) else scale_factor[i]
        new = each(size, n)[i] if size else math.floor(old * factor)
        if mode == "area":
            matrix = np.zeros((new, old))
            for o, window in enumerate(shares(old, new)):
                matrix[o, window] = 1 / len(window)
        else:
            scale = (old - 1) / max(new - 1, 1) if align_corners else old / new if size else 1 / factor
            matrix = one_axis(mode, old, new, scale, bool(align_corners), antialias)
        x = np.moveaxis(np.tensordot(matrix, x, (1, i + 2)), 0, i + 2)
    return x


def steps(make: Make) -> Iterator[Sample]:
    for mode in ("nearest", "nearest-exact"):
        yield s(make(2, 2, 3), 5, mode=mode)
        yield s(make(1, 2, 3, 5), scale_factor=(2, 0.6), mode=mode)
        yield s(make(1, 1, 2, 3, 2), 3, mode=mode)


def smooth_samples(make: Make) -> Iterator[Sample]:
    for align in (None, False, True):
        yield s(make(2, 2, 3), 6, mode="linear", align_corners=align)
        yield s(make(2, 1, 3, 5), (6, 3), mode="bilinear", align_corners=align)
        yield s(make(1, 2, 5, 2), scale_factor=(1.7, 2.5), mode="bilinear", align_corners=align)
        yield s(make(1, 1, 3, 5), (5, 7), mode="bicubic", align_corners=align)
        yield s(make(1, 1, 6, 3), scale_factor=0.7, mode="bicubic", align_corners=align)
        yield s(make(1, 1, 2, 3, 1), (3, 2, 2), mode="trilinear", align_corners=align)
    yield s(make(1, 2, 7, 3), (3, 5), mode="bilinear", antialias=True)
    yield s(make(1, 2, 9, 3), (2, 5), mode="bicubic", antialias=True)
    yield s(make(1, 2, 5, 3), (2, 7), mode="area")
    yield s(make(1, 2, 5), scale_factor=0.5, mode="area")


def mirrored(at: float, low: float, high: float) -> float:
    while high > low and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def brought_inside(at: float, size: int, padding_mode: str, align: bool) -> float:
    if padding_mode == "reflection":
        at = mirrored(at, 0, size - 1) if align else mirrored(at, -0.5, size - 0.5)
    return at if padding_mode == "zeros" else min(max(at, 0), size - 1)


def grid_sample(
    x: Array, grid: Array, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None
) -> Array:
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(*grid.shape[:-1]):
        at = [
            (g + 1) / 2 * (m - 1) if align_corners else ((g + 1) * m - 1) / 2
            for g, m in zip(grid[place][::-1], sizes, strict=True)
        ]
        if mode != "bicubic":
            at = [brought_inside(a, m, padding_mode, bool(align_corners)) for a, m in zip(at, sizes, strict=True)]
        if mode == "nearest":
            reads = [[(round(a), 1.0)] for a in at]
        elif mode == "bilinear":
            reads = [[(math.floor(a) + k, 1 - abs(a - math.floor(a) - k)) for k in (0, 1)] for a in at]
        else:
            reads = [[(math.floor(a) + k, keys(a - math.floor(a) - k, -0.75)) for k in (-1, 0, 1, 2)] for a in at]
        for taps in product(*reads):
            position = [i for i, _ in taps]
            if mode == "bicubic":
                position = [
                    int(brought_inside(i, m, padding_mode, bool(align_corners)))
                    for i, m in zip(position, sizes, strict=True)
                ]
            if all(0 <= i < m for i, m in zip(position, sizes, strict=True)):
                value = x[(place[0], ALL, *position)] * math.prod(w for _, w in taps)
                out[(place[0], ALL, *place[1:])] += value
    return out


def grids(make: Make) -> Iterator[Sample]:
    for mode, padding_mode, align in product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        x, grid = make(2, 1, 3, 5), make(2, 1, 2, 2) * make.at(0.9)
        yield s(x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align))
    yield s(make(1, 2, 2, 3, 2), make(1, 1, 2, 1, 3), padding_mode="border")
    yield s(make(1, 1, 3, 2, 2), make(1, 1, 1, 2, 3), mode="nearest")


def affine_grid(theta: Array, size: Any, align_corners: Any = None) -> Array:
    sizes = size[2:]
    out = np.zeros((size[0], *sizes, len(sizes)))
    for place in np.ndindex(*sizes):
        if align_corners:
            point = [2 * i / (m - 1) - 1 if m > 1 else 0 for i, m in zip(place, sizes, strict=True)]
        else:
            point = [(2 * i + 1) / m - 1 for i, m in zip(place, sizes, strict=True)]
        out[(ALL, *place)] = theta @ np.asarray([*point[::-1], 1.0])
    return out


def thetas(make: Make) -> Iterator[Sample]:
    for align in (None, True):
        yield s(make(2, 2, 3), (2, 1, 3, 5), align_corners=align)
        yield s(make(1, 3, 4), (1, 2, 2, 1, 3), align_corners=align)


def pixel_shuffle(x: Array, r: int) -> Array:
    *lead, channels, h, w = x.shape
    out = np.zeros((*lead, channels // r**2, h * r, w * r), x.dtype)
    for i, j in product(range(r), repeat=2):
        out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def pixel_unshuffle(x: Array, r: int) -> Array:
    *lead, channels, h, w = x.shape
    out = np.zeros((*lead, channels * r**2, h // r, w // r), x.dtype)
    for i, j in product(range(r), repeat=2):
        out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


def channel_shuffle(x: Array, groups: int) -> Array:
    if not x.size:
        return x
    return np.concatenate([x[:, k :: x.shape[1] // groups] for k in range(x.shape[1] // groups)], 1)


RESAMPLINGS = [
    Row("interpolate_nearest", vision.interpolate, interpolate, steps, **ANYTHING),
    Row("upsample", vision.upsample, interpolate, steps, **ANYTHING),
    Row("upsample_nearest", vision.upsample_nearest, interpolate,
        lambda make: [s(make(2, 2, 3), 5), s(make(1, 2, 3, 5), scale_factor=(2, 0.6))], **ANYTHING),
    Row("upsample_bilinear", vision.upsample_bilinear,
        lambda x, size: interpolate(x, size, mode="bilinear", align_corners=True),
        lambda make: [s(make(2, 1, 2, 3), (3, 5)), s(make(1, 2, 3, 3), (2, 2))], complex=True),
    Row("interpolate_smooth", vision.interpolate, interpolate, smooth_samples, complex=True),
    Row("grid_sample", vision.grid_sample, grid_sample, grids, Domain(-2, 2, 0.05),
        result="float", ints=BOOLS),
    Row("affine_grid", vision.affine_grid, affine_grid, thetas),
    Row("pixel_shuffle", vision.pixel_shuffle, pixel_shuffle, lambda make: [s(make(2, 12, 3, 1), 2), s(make(9, 2, 1), 3)],
        **ANYTHING),
    Row("pixel_unshuffle", vision.pixel_unshuffle, pixel_unshuffle, lambda make: [s(make(2, 3, 6, 2), 2),
        s(make(1, 3, 6), 3)], **ANYTHING),
    Row("channel_shuffle", vision.channel_shuffle, channel_shuffle, lambda make: [s(make(2, 6, 3), 3),
        s(make(1, 6, 1, 2), 2)], **ANYTHING),
]  # fmt: skip

ROWS = CONVOLUTIONS + POOLINGS + PADDINGS + RESAMPLINGS
