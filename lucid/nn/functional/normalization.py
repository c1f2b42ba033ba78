"""Normalisation as functions: over a batch, an instance, a layer, groups of channels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import lucid
from lucid import Tensor
from lucid.arguments.promotion import as_floats, as_floats_alike
from lucid.core import modes
from lucid.core.dtypes import float32
from lucid.core.errors import ArgumentError
from lucid.core.primitive import apply, element_type
from lucid.core.tensor import is_plain, shape_of
from lucid.kinds.batched import Batched
from lucid.nn.functional.spatial import Sizes
from lucid.ops.fused import given_back, in_working_type
from lucid.ops.nn import normalization as ops
from lucid.ops.one_loop import one_loop, one_loop_into

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, which have the sizes `normalized_shape`.

    y = (x - mean) / sqrt(variance + eps) · weight + bias, with the variance divided by n.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import layer_norm
    >>> layer_norm(lucid.tensor([[1.0, 3.0], [2.0, 6.0]]), [2])
    Tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    (x, w, b), kind = in_working_type("layer_norm", input, weight, bias)
    ndim = _trailing("layer_norm", x, normalized_shape, weight=w, bias=b)
    return given_back(apply(ops.row_norm, (x, w, b), {"ndim": ndim, "eps": eps, "centred": True}), kind)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Root mean square 1 over the last dimensions: y = x / sqrt(mean(x²) + eps) · weight.

    Without `eps`, it is the distance from 1 to the next number of the type that is computed in.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import rms_norm
    >>> rms_norm(lucid.tensor([3.0, 4.0, 5.0]), [3], eps=0.0)
    Tensor([0.7348, 0.9798, 1.2247])
    """
    if input.is_complex():
        return _complex_rms_norm(input, normalized_shape, weight, eps)
    (x, w), kind = in_working_type("rms_norm", input, weight)
    ndim = _trailing("rms_norm", x, normalized_shape, weight=w)
    eps = float(np.finfo(x.np_dtype).eps) if eps is None else eps
    return given_back(apply(ops.row_norm, (x, w, None), {"ndim": ndim, "eps": eps, "centred": False}), kind)


def _complex_rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None, eps: float | None) -> Tensor:
    """The same formula, which is analytic: squares of complex numbers, not of their sizes."""
    dims = tuple(range(-_trailing("rms_norm", x, normalized_shape, weight=weight), 0))
    eps = float(np.finfo(x.np_dtype).eps) if eps is None else eps
    y = x * lucid.rsqrt((x * x).mean(dims, keepdim=True) + eps)
    return y if weight is None else y * weight


def _trailing(name: str, x: Tensor, normalized_shape: Any, **affine: Tensor | None) -> int:
    """How many dimensions to normalise over, checked against all operands."""
    sizes = tuple([normalized_shape] if isinstance(normalized_shape, int) else normalized_shape)
    if not sizes:
        raise ArgumentError(f"{name}: normalized_shape must not be empty; give the sizes of the last dimensions")
    if x.shape[-len(sizes) :] != sizes:
        raise ArgumentError(
            f"{name}: normalized_shape {list(sizes)} does not match the trailing sizes of the input, which has shape {x.shape}"
        )
    for what, value in affine.items():
        if value is not None and value.shape != sizes:
            raise RuntimeError(f"{name}: {what} must have the normalized_shape {sizes}, not {value.shape}")
    return len(sizes)


_OF_CHANNELS = "weight", "bias", "running_mean", "running_var"


def _check_channels(name: str, shape: Sizes, *values: Tensor | None) -> None:
    """Refuse a shape without channels, and `_OF_CHANNELS` that are not theirs."""
    if len(shape) < 2:
        raise ArgumentError(
            f"{name}: expected 2–5D input, (batch, channels, ...) with at least 2 dimensions, not shape {shape}"
        )
    each = shape[1:2]
    for k, value in enumerate(values):
        if value is not None and shape_of(value) != each:
            raise RuntimeError(
                f"{name}: {_OF_CHANNELS[k]} must have one number for each of the {shape[1]} channels, "
                f"not shape {value.shape}"
            )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for each channel (dimension 1), over the batch and all positions.

    In training the statistics are those of the batch, and the running ones move towards them by the share `momentum`
    (the variance as divided by n - 1); otherwise the running ones are used. Integers are taken as floats, and running
    statistics keep their type.

    Under vmap each example has the statistics of the batch that it is given. Running statistics that all examples
    share cannot follow them: that is an error in training, and running statistics that vmap batches too are updated
    for each example.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import batch_norm
    >>> mean, variance = lucid.zeros(1), lucid.ones(1)
    >>> batch_norm(lucid.tensor([[1.0], [3.0]]), mean, variance, training=True)
    Tensor([[-1.],
            [ 1.]])
    >>> mean, variance
    (Tensor([0.2]), Tensor([1.1]))
    """
    (x, w, b), kind = in_working_type("batch_norm", *as_floats_alike((input, weight, bias), float32.numpy))
    shape = shape_of(x)
    if shape == (0,):  # no elements, so no channels whose number could be wrong, and nothing to learn
        return given_back(x.clone(), kind)
    _check_channels("batch_norm", shape, w, b, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm needs running_mean and running_var when it is not training")
        return given_back(_by_running(x, running_mean, running_var, w, b, eps), kind)
    count = _values_per_channel("batch_norm", shape, "channel", math.prod(shape[2:]) * shape[0])
    _raise_if_shared("batch_norm", x, running_mean, running_var)
    y, mean, variance = apply(ops.batch_norm, (x, w, b), {"eps": eps})
    if running_mean is not None or running_var is not None:
        _follow((running_mean, mean, 1.0), (running_var, variance, count / (count - 1)), momentum=momentum)
    return given_back(y, kind)


def _values_per_channel(name: str, shape: Sizes, of: str, count: int) -> int:
    if count <= 1:
        raise ValueError(
            f"{name}: training needs more than one value for each {of}, but the input has shape {shape}; "
            "use a larger batch or eval()"
        )
    return count


def _by_running(x: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, eps: float) -> Tensor:
    kind = element_type(x)
    mean, variance = [s if element_type(s) is kind else s.to(kind) for s in (mean, variance)]
    scale = _inverse_deviation(variance, eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return apply(ops.channel_affine, (x, scale, shift), {})


@one_loop(2)
def _inverse_deviation(variance: Any, eps: Any) -> Any:
    """What brings elements to the variance 1."""
    return lucid.rsqrt(variance + eps)


def _follow(*pairs: tuple[Tensor | None, Tensor, float], momentum: float) -> None:
    """Move running statistics towards new values times factors."""
    recording = modes.recording.set(modes.SILENT)
    try:
        for running, new, factor in pairs:
            if running is not None:
                found = new if is_plain(new) else new.detach()  # what is plain has nothing but a history
                _move(running, found, 1 - momentum, momentum * factor)
    finally:
        modes.recording.reset(recording)


@one_loop_into(4)
def _move(running: Any, new: Any, kept: Any, share: Any) -> Any:
    return running * kept + new * share


def _levels(x: Tensor | None) -> set[int]:
    """The applications of vmap in which a tensor differs between examples."""
    found = set()
    while isinstance(x, Tensor):
        if isinstance(x, Batched) and x._aux is None:
            found.add(x._level)
        x = x._array
    return found


def _raise_if_shared(name: str, x: Tensor, *running: Tensor | None) -> None:
    if not is_plain(x) and any(r is not None and _levels(x) - _levels(r) for r in running):
        raise RuntimeError(
            f"{name}: inside vmap every example has batch statistics of its own, which running statistics shared by all "
            "examples cannot follow. Use eval(), track_running_stats=False, or give vmap the buffers as arguments"
        )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for each channel of each example, over all positions.

    Running statistics, if given, move towards the averages over the batch, or, without `use_input_stats`, are used.
    Under vmap they are treated as `batch_norm` does.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import instance_norm
    >>> instance_norm(lucid.tensor([[[1.0, 3.0], [2.0, 6.0]]]))
    Tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    (x, w, b), kind = in_working_type("instance_norm", input, weight, bias)
    shape = shape_of(x)
    _check_channels("instance_norm", shape, w, b, running_mean, running_var)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError("instance_norm needs running_mean and running_var when use_input_stats is False")
        return given_back(_by_running(x, running_mean, running_var, w, b, eps), kind)
    if len(shape) < 3:
        raise ArgumentError(
            f"instance_norm: expected an input of at least 3-D, (batch, channels, ...), not shape {shape}"
        )
    count = _values_per_channel("instance_norm", shape, "channel of an example", math.prod(shape[2:]))
    _raise_if_shared("instance_norm", x, running_mean, running_var)
    if running_mean is not None or running_var is not None:
        flat = x.detach().reshape(*shape[:2], count)
        _follow((running_mean, flat.mean((0, 2)), 1.0), (running_var, flat.var(2).mean(0), 1.0), momentum=momentum)
    return given_back(apply(ops.group_norm, (x, w, b), {"groups": shape[1], "eps": eps}), kind)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 for each group of channels of each example; weight and bias are for each channel.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import group_norm
    >>> group_norm(lucid.tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    Tensor([[-1.,  1., -1.,  1.]])
    """
    (x, w, b), kind = in_working_type("group_norm", input, weight, bias)
    shape = shape_of(x)
    _check_channels("group_norm", shape, w, b)
    if num_groups < 1 or shape[1] % num_groups:
        raise RuntimeError(f"group_norm: {shape[1]} channels do not divide into {num_groups} groups of equal size")
    return given_back(apply(ops.group_norm, (x, w, b), {"groups": num_groups, "eps": eps}), kind)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Each value divided by (k + alpha · mean of the squares of `size` neighbouring channels) ** beta.

    Channels, dimension 1, beyond the first and the last count as 0. What has no channels stays as it is.

    >>> import lucid
    >>> from lucid.nn.functional.normalization import local_response_norm
    >>> local_response_norm(lucid.ones(1, 3, 1), size=3, alpha=3.0, beta=1.0)[0, :, 0]
    Tensor([0.3333, 0.25  , 0.3333])
    """
    if size < 1:
        raise ValueError(f"local_response_norm: size must be at least 1, not {size}")
    if input.ndim < 2:  # there are no channels
        return input
    (x,), kind = in_working_type("local_response_norm", as_floats(input))
    squares = x * x
    none = lucid.zeros_like(squares[:, :1])
    padded = lucid.cat([none] * (size // 2) + [squares] + [none] * ((size - 1) // 2), 1)
    total = padded[:, : x.shape[1]]
    for i in range(1, size):
        total = total + padded[:, i : i + x.shape[1]]
    return given_back(x / (total * (alpha / size) + k) ** beta, kind)
