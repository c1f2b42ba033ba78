"""Batch normalisation folded into the layer before it, for evaluation; and layers made without their first values."""

import copy
from typing import Any, TypeVar

import lucid
from lucid import Tensor
from lucid.nn.layers.convolution import _WithKernel
from lucid.nn.layers.linear import Linear
from lucid.nn.layers.normalization import _BatchNorm
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = [
    "copy_parameters_and_buffers", "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
    "fuse_linear_bn_weights", "skip_init",
]  # fmt: skip

M = TypeVar("M", bound=Module)


def _folded(
    w: Tensor, b: Tensor | None, mean: Tensor, var: Tensor, eps: float, gamma: Any, beta: Any, dim: int
) -> tuple[Parameter, Parameter]:
    """w · s and (b - mean) · s + β with s = γ / √(var + eps) along a dimension of w."""
    with lucid.no_grad():
        scale = (var + eps).rsqrt() if gamma is None else gamma * (var + eps).rsqrt()
        shape = [1] * w.ndim
        shape[dim] = -1
        bias = ((0 if b is None else b) - mean) * scale
        bias = bias if beta is None else bias + beta
        return (
            Parameter((w * scale.reshape(shape)).to(w.dtype), w.requires_grad),
            Parameter(bias.to(w.dtype if b is None else b.dtype), w.requires_grad if b is None else b.requires_grad),
        )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that does what a convolution and a normalisation behind it do.

    >>> import lucid
    >>> from lucid.nn.utils import fuse_conv_bn_weights
    >>> one = lucid.ones(1)
    >>> weight, bias = fuse_conv_bn_weights(lucid.ones(1, 1, 1), None, one, one * 4, 0.0, None, None)
    >>> weight.item(), bias.item()
    (0.5, -0.5)
    """
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The same for a linear layer.

    >>> import lucid
    >>> from lucid.nn.utils import fuse_linear_bn_weights
    >>> one = lucid.ones(1)
    >>> fuse_linear_bn_weights(lucid.ones(1, 1), one, one, one * 4, 0.0, one, one)[1].item()
    1.0
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused(layer: M, bn: Module, kind: type, transpose: bool) -> M:
    name = type(layer).__name__
    if not isinstance(layer, kind) or not isinstance(bn, _BatchNorm):
        raise TypeError(f"a layer and its batch normalisation are needed, not {name} and {type(bn).__name__}")
    if layer.training or bn.training:
        raise ValueError("layers are fused for evaluation: call eval() on both first")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError("the batch normalisation keeps no running statistics, so it depends on the batch")
    out = copy.deepcopy(layer)
    weight, bias = _folded(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, int(transpose)
    )
    out.weight, out.bias = weight, bias
    return out


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A copy of a convolution with the normalisation behind it folded in, which is exact in evaluation.

    >>> import lucid
    >>> from lucid.nn.utils import fuse_conv_bn_eval
    >>> conv, bn = lucid.nn.Conv1d(2, 3, 1).eval(), lucid.nn.BatchNorm1d(3).eval()
    >>> x = lucid.rand(4, 2, 5)
    >>> lucid.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    return _fused(conv, bn, _WithKernel, transpose)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A copy of a linear layer with the normalisation behind it folded in, which is exact in evaluation.

    >>> import lucid
    >>> from lucid.nn.utils import fuse_linear_bn_eval
    >>> linear, bn = lucid.nn.Linear(2, 3).eval(), lucid.nn.BatchNorm1d(3).eval()
    >>> x = lucid.rand(4, 2)
    >>> lucid.allclose(fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6)
    True
    """
    return _fused(linear, bn, Linear, False)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose parameters have whatever is in memory; for those that are loaded next.

    Nothing is drawn: the random numbers that follow are as if the module had not been made.

    >>> import lucid
    >>> from lucid.nn.utils import skip_init
    >>> skip_init(lucid.nn.Linear, 2, 3).weight.shape
    (3, 2)
    """
    device = kwargs.pop("device", None) or "cpu"
    with lucid.fork_rng():
        return module_cls(*args, **kwargs).to_empty(device=device)


def copy_parameters_and_buffers(source: Module, dest: Module) -> None:
    """Copy the values of all parameters and buffers to those of the same names in another module.

    >>> import lucid
    >>> from lucid.nn.utils import copy_parameters_and_buffers
    >>> a, b = lucid.nn.Linear(2, 1), lucid.nn.Linear(2, 1)
    >>> copy_parameters_and_buffers(a, b)
    >>> lucid.equal(a.weight, b.weight)
    True
    """
    targets = {**dict(dest.named_parameters()), **dict(dest.named_buffers())}
    pairs = []
    for name, value in (*source.named_parameters(), *source.named_buffers()):
        if name not in targets:
            raise KeyError(f"{type(dest).__name__} has no parameter or buffer {name!r}")
        if targets[name].shape != value.shape:
            raise ValueError(f"{name!r} has shape {value.shape} here and {targets[name].shape} there")
        pairs.append((targets[name], value))
    with lucid.no_grad():
        for target, value in pairs:
            target.copy_(value)
