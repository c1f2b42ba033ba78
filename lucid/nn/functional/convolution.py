"""Convolutions, transposed convolutions, and windows as columns."""

import math
from functools import lru_cache
from typing import Any

from lucid import Tensor
from lucid.amp.autocasting import in_low_precision
from lucid.core.primitive import lift
from lucid.nn.functional.spatial import Sizes, each, for_dimensions, hashable, with_batch, without_batch
from lucid.ops.nn.convolution import Geometry, geometry
from lucid.ops.rules import P

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]


def _operands(name: str, input: Any, weight: Any, n: int, groups: int) -> tuple[Tensor, Tensor, bool]:
    """Input and weight as tensors of one type, and whether the input has a dimension for examples."""
    x, is_batched = with_batch(input, n, name)
    w = lift(weight)
    if w.ndim != n + 2:
        raise RuntimeError(f"{name}: expected a weight with {n + 2} dimensions, not shape {w.shape}")
    if w.np_dtype != x.np_dtype:
        raise RuntimeError(f"{name}: the input is {x.dtype} and the weight {w.dtype}; convert one of them with .to()")
    if x.np_dtype.kind in "bu":
        raise RuntimeError(f"{name}: expected numbers with a sign, not {x.dtype}; convert with .float()")
    if type(groups) is not int or groups < 1 or w.shape[0] % groups:
        raise ValueError(f"{name}: a weight of shape {w.shape} does not fall into {groups!r} groups")
    return x, w, is_batched


def _raise_if_other_channels(name: str, x: Tensor, w: Tensor, channels: int, groups: int) -> None:
    if x.shape[1] != channels:
        raise RuntimeError(
            f"{name}: a weight of shape {w.shape} with {groups} groups is for {channels} input channels, "
            f"but the input has {x.shape[1]} of them in shape {x.shape}"
        )


def _bias(name: str, bias: Any, x: Tensor, channels: int) -> Tensor:
    b = lift(bias)
    if b.shape != (channels,) or b.np_dtype != x.np_dtype:
        raise RuntimeError(
            f"{name}: expected a bias of shape ({channels},) and type {x.dtype}, not {b.shape}, {b.dtype}"
        )
    return b


def _pairs(name: str, padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[tuple[int, int], ...]:
    """The zeros in front of and behind each dimension."""
    n = len(kernel)
    if not isinstance(padding, str):
        return tuple((p, p) for p in each(padding, n, f"{name}: padding"))
    if padding == "valid":
        return ((0, 0),) * n
    if padding != "same":
        raise ValueError(f"{name}: padding must be numbers, 'same' or 'valid', not {padding!r}")
    if any(s != 1 for s in stride):
        raise ValueError(f"{name}: padding='same' needs a stride of 1, not {stride}")
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _raise_if_no_place(name: str, g: Geometry) -> None:
    if min(g.out) < 1 or not g.taps:
        reach = tuple(d * (k - 1) + 1 for d, k in zip(g.dilation, g.kernel, strict=True))
        raise RuntimeError(
            f"{name}: a kernel of {g.kernel}, which reaches over {reach} elements, does not fit into an input of "
            f"{g.size} with padding {g.padding}"
        )


@lru_cache(maxsize=1024)
def _geometry(name: str, size: Sizes, kernel: Sizes, stride: Any, padding: Any, dilation: Any, groups: int) -> Geometry:
    n = len(size)
    strides, dilations = each(stride, n, f"{name}: stride", 1), each(dilation, n, f"{name}: dilation", 1)
    g = geometry(size, kernel, strides, _pairs(name, padding, kernel, strides, dilations), dilations, groups)
    _raise_if_no_place(name, g)
    return g


def _conv(n: int) -> Any:
    name = f"conv{n}d"

    @in_low_precision
    def conv(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x, w, is_batched = _operands(name, input, weight, n, groups)
        _raise_if_other_channels(name, x, w, w.shape[1] * groups, groups)
        how = hashable(stride), hashable(padding), hashable(dilation)
        g = _geometry(name, x.shape[2:], w.shape[2:], *how, groups)
        if bias is None:
            out = P.convolution(x, w, geometry=g)
        else:
            out = P.biased_convolution(x, w, _bias(name, bias, x, w.shape[0]), geometry=g)
        return without_batch(out, is_batched)

    return conv


conv1d, conv2d, conv3d = for_dimensions(
    _conv,
    "conv",
    """Products of a kernel with an input at all its places (cross-correlation) over {n} dimensions, plus a bias.

    out[q, o] = bias[q] + Σ weight[q, c, k] · input[c, stride·o + dilation·k - padding], over the channels c of the
    group of q and the taps k; outside itself the input counts as 0. The input has shape (N, C, …) or (C, …), the weight
    (Q, C / groups, …). `padding` is numbers, "valid" (none) or "same" (as much as keeps the size of the input).

    >>> import lucid
    >>> from lucid.nn.functional.convolution import {name}
    >>> {name}(lucid.ones(2, 3, {s8}), lucid.ones(4, 3, {s3}), stride=2, padding=1).shape
    (2, 4, {s4})
    """,
)


@lru_cache(maxsize=1024)
def _transposed_geometry(
    name: str, out: Sizes, kernel: Sizes, stride: Any, padding: Any, more: Any, dilation: Any, groups: int
) -> Geometry:
    n = len(out)
    strides, dilations = each(stride, n, f"{name}: stride", 1), each(dilation, n, f"{name}: dilation", 1)
    pads, extra = each(padding, n, f"{name}: padding"), each(more, n, f"{name}: output_padding")
    if any(m >= max(s, d) for m, s, d in zip(extra, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: output_padding {extra} must be smaller than the stride {strides} or dilation {dilations}"
        )
    size = tuple(
        (o - 1) * s - 2 * p + d * (k - 1) + m + 1
        for o, s, p, d, k, m in zip(out, strides, pads, dilations, kernel, extra, strict=True)
    )
    if min(size) < 1:
        raise RuntimeError(f"{name}: an input of {out} with padding {pads} gives an empty result, {size}")
    # The places are those of the input, also where output_padding makes room for another one.
    return geometry(size, kernel, strides, tuple((p, p) for p in pads), dilations, groups, out)


def _conv_transpose(n: int) -> Any:
    name = f"conv_transpose{n}d"

    @in_low_precision
    def conv_transpose(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        x, w, is_batched = _operands(name, input, weight, n, groups)
        _raise_if_other_channels(name, x, w, w.shape[0], groups)
        how = hashable(stride), hashable(padding), hashable(output_padding), hashable(dilation)
        g = _transposed_geometry(name, x.shape[2:], w.shape[2:], *how, groups)
        out = P.convolution_input(x, w, geometry=g)
        if bias is not None:
            out = out + _bias(name, bias, x, out.shape[1]).reshape(-1, *(1,) * n)
        return without_batch(out, is_batched)

    return conv_transpose


conv_transpose1d, conv_transpose2d, conv_transpose3d = for_dimensions(
    _conv_transpose,
    "conv_transpose",
    """The transpose of `conv{n}d`: each element of the input adds a multiple of the kernel to the result.

    It is what `conv{n}d` with the same arguments does to a gradient on its way back. The weight has shape
    (C, Q / groups, …) for an input of C channels and a result of Q. Where a stride leaves several sizes of the result
    possible, `output_padding` makes it larger by so much at its end.

    >>> import lucid
    >>> from lucid.nn.functional.convolution import {name}
    >>> {name}(lucid.ones(2, 3, {s4}), lucid.ones(3, 5, {s3}), stride=2, padding=1, output_padding=1).shape
    (2, 5, {s8})
    """,
)


def _columns_geometry(name: str, size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Geometry:
    names = {"kernel_size": (kernel_size, 1), "stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    kernel, strides, pads, dilations = (each(v, 2, f"{name}: {k}", least) for k, (v, least) in names.items())
    g = geometry(size, kernel, strides, tuple((p, p) for p in pads), dilations)
    _raise_if_no_place(name, g)
    return g


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images as columns: (N, C, H, W) becomes (N, C · taps, places).

    >>> import lucid
    >>> from lucid.nn.functional.convolution import unfold
    >>> unfold(lucid.arange(9.0).reshape(1, 1, 3, 3), 2)[0, :, 0]
    Tensor([0., 1., 3., 4.])
    """
    x, is_batched = with_batch(input, 2, "unfold")
    if not x.shape[1]:
        raise RuntimeError(f"unfold: only the number of examples may be 0, not any other size of {tuple(input.shape)}")
    g = _columns_geometry("unfold", x.shape[2:], kernel_size, dilation, padding, stride)
    out = P.patches(x, geometry=g)
    return without_batch(out.reshape(x.shape[0], x.shape[1] * g.taps, math.prod(g.out)), is_batched)


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns added up to images where they came from: the transpose of `unfold`.

    >>> import lucid
    >>> from lucid.nn.functional.convolution import fold
    >>> fold(lucid.ones(1, 4, 4), (3, 3), 2)
    Tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    x, is_batched = with_batch(input, 1, "fold")
    size = each(output_size, 2, "fold: output_size", 1)
    g = _columns_geometry("fold", size, kernel_size, dilation, padding, stride)
    if x.shape[1] % g.taps or x.shape[2] != math.prod(g.out):
        raise RuntimeError(
            f"fold: a kernel of {g.kernel} has {g.taps} taps and, over {size}, {math.prod(g.out)} places, "
            f"so the input must have shape (N, C·{g.taps}, {math.prod(g.out)}), not {x.shape}"
        )
    windows = x.reshape(x.shape[0], x.shape[1] // g.taps, *g.kernel, *g.out)
    return without_batch(P.patches_back(windows, geometry=g), is_batched)
