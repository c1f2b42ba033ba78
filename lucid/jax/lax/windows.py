"""Convolutions and pooling: JAX's dimensions and paddings for those of `lucid.nn.functional`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.api import reductions, shaping, splitting
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.jax.lax.operators import pad, reduce
from lucid.nn import functional


class ConvDimensionNumbers(NamedTuple):
    """Where the dimensions of the operands and the result of a convolution are: batch, features, space in order."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """Dimensions as numbers, from letters such as `("NHWC", "HWIO", "NHWC")`."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if dimension_numbers is None:
        whole = tuple(range(rank))
        return ConvDimensionNumbers(whole, whole, whole)
    left, right, out = dimension_numbers
    space = [c for c in right if c not in "OI"]

    def places(letters: str, first: str) -> tuple[int, ...]:
        return tuple(letters.index(c) for c in (*first, *space))

    return ConvDimensionNumbers(places(left, "NC"), places(right, "OI"), places(out, "NC"))


def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: str) -> list[tuple[int, int]]:
    """How much is put before and behind each dimension for SAME, SAME_LOWER and VALID."""
    if padding.upper() == "VALID":
        return [(0, 0)] * len(in_shape)
    if padding.upper() not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"padding is SAME, SAME_LOWER, VALID or pairs of numbers, not {padding!r}")
    found = []
    for size, window, step in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-size // step) - 1) * step + window - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if padding.upper() == "SAME" else (large, small))
    return found


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    **hints: Any,
) -> Any:
    """A convolution in any number of dimensions from 1 to 3, with steps, paddings, and gaps in both operands.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> image, kernel = jnp.ones((1, 5, 5, 3)), jnp.ones((3, 3, 3, 8))
    >>> jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
    (1, 5, 5, 8)
    """
    if batch_group_count != 1:
        raise ValueError("conv_general_dilated: groups of a batch are not supported; use vmap")
    x, kernel = lift(DOOR.array(lhs)), lift(DOOR.array(rhs))
    spec = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    x, kernel = x.permute(tuple(spec.lhs_spec)), kernel.permute(tuple(spec.rhs_spec))
    rank = x.ndim - 2
    gaps = tuple(lhs_dilation or (1,) * rank)
    dilation = tuple(rhs_dilation or (1,) * rank)
    sizes = [(n - 1) * g + 1 if n else 0 for n, g in zip(x.shape[2:], gaps, strict=True)]
    windows = [(n - 1) * d + 1 for n, d in zip(kernel.shape[2:], dilation, strict=True)]
    pads = padtype_to_pads(sizes, windows, window_strides, padding) if isinstance(padding, str) else list(padding)
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *((low, high, g - 1) for (low, high), g in zip(pads, gaps, strict=True))])
    kind = np.result_type(x.np_dtype, kernel.np_dtype)
    convolve = getattr(functional, f"conv{rank}d", None)
    if convolve is None:
        raise ValueError(f"conv_general_dilated: convolutions have 1 to 3 dimensions of space, not {rank}")
    out = convolve(
        x.to(kind), kernel.to(kind), stride=tuple(window_strides), dilation=dilation, groups=feature_group_count
    )
    back = sorted(range(out.ndim), key=lambda d: spec.out_spec[d])
    return out.permute(tuple(back))


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, **hints: Any) -> Any:
    """A convolution with batch and features in front."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any, **hints: Any
) -> Any:
    """The same with gaps."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    **hints: Any,
) -> Any:
    """A convolution whose steps are gaps in the first operand: it makes images larger."""
    if transpose_kernel:
        raise ValueError("conv_transpose: transpose the kernel before, and reverse it along its dimensions of space")
    x, kernel = lift(DOOR.array(lhs)), lift(DOOR.array(rhs))
    rank = x.ndim - 2
    if dimension_numbers is None:
        letters = "HWD"[:rank]
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    spec = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    dilation = tuple(rhs_dilation or (1,) * rank)
    windows = [(kernel.shape[d] - 1) * g + 1 for d, g in zip(spec.rhs_spec[2:], dilation, strict=True)]
    pads = (
        [_grown(k, s, padding) for k, s in zip(windows, strides, strict=True)] if isinstance(padding, str) else padding
    )
    return conv_general_dilated(x, kernel, (1,) * rank, pads, strides, dilation, spec)


def _grown(window: int, step: int, padding: str) -> tuple[int, int]:
    if padding == "SAME":
        total = window + step - 2
        low = window - 1 if step > window - 1 else -(-total // 2)
    else:
        total = window + step - 2 + max(window - step, 0)
        low = window - 1
    return low, total - low


_FOLDS: dict[str, Callable[..., Any]] = {"add": reductions.sum, "max": reductions.amax, "min": reductions.amin}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> Any:
    """What a function that associates makes of each window, beginning with a value: pooling.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.lax.reduce_window(jnp.arange(6.0), -jnp.inf, jax.lax.max, (2,), (2,), "VALID")
    Array([1., 3., 5.], dtype=float32)
    """
    if base_dilation is not None or window_dilation is not None:
        raise ValueError("reduce_window: windows have no gaps; take strided slices first")
    x = lift(DOOR.array(operand))
    pads = padtype_to_pads(x.shape, window_dimensions, window_strides, padding) if isinstance(padding, str) else padding
    x = pad(x, lift(DOOR.array(init_value)).to(x.np_dtype), [(low, high, 0) for low, high in pads])
    rank = x.ndim
    for dim, (size, step) in enumerate(zip(window_dimensions, window_strides, strict=True)):
        x = splitting.unfold(x, dim, size, step)
    windows = shaping.reshape(x, (*x.shape[:rank], -1))
    fold = _FOLDS.get(getattr(computation, "__name__", ""))
    if fold is not None:
        start = lift(DOOR.array(init_value)).to(x.np_dtype)
        return computation(fold(windows, -1), start)
    return reduce(windows, init_value, computation, (-1,))
