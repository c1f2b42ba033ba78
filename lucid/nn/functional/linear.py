"""Linear maps."""

import lucid
from lucid import Tensor
from lucid.amp.autocasting import autocast, in_single_precision
from lucid.arguments.promotion import raise_if_of_pytorch, raise_unless_alike
from lucid.core import modes
from lucid.ops.nn import linear as ops

__all__ = ["bilinear", "fused_linear_gelu", "fused_linear_relu", "linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b for inputs of shape (..., in), weights (out, in) and a bias (out,).

    >>> import lucid
    >>> from lucid.nn.functional.linear import linear
    >>> linear(lucid.tensor([1.0, 2.0]), lucid.tensor([[1.0, 1.0], [0.0, 1.0]]), lucid.tensor([10.0, 0.0]))
    Tensor([13.,  2.])
    """
    if (casting := modes.autocast.get()) is not None:
        input, weight, bias = casting.low(input, weight, bias)
    if weight.ndim != 1:
        try:
            return ops.linear(input, weight, bias)
        except AttributeError:
            raise_if_of_pytorch("linear", input, weight, bias)
            raise
    raise_unless_alike("linear", input, weight, bias)
    # One output without a dimension of its own.
    out = lucid.matmul(input, weight)
    return out if bias is None else out + bias


@in_single_precision
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1ᵀ W_k x2 + b_k for each output k, with weights (out, in1, in2) and a bias (out,).

    >>> import lucid
    >>> from lucid.nn.functional.linear import bilinear
    >>> bilinear(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0]), lucid.tensor([[[1.0], [1.0]]]))
    Tensor([9.])
    """
    fits = weight.ndim == 3 and input1.ndim == input2.ndim > 0 and input1.shape[:-1] == input2.shape[:-1]
    if not fits or (input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise RuntimeError(
            f"bilinear: inputs {input1.shape} and {input2.shape} do not fit a weight of shape {weight.shape}; "
            "they need shapes (..., in1), (..., in2) and (out, in1, in2)"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(f"bilinear: the bias must have shape {weight.shape[:1]}, not {bias.shape}")
    raise_unless_alike("bilinear", input1, input2, weight, bias)
    with autocast(enabled=False):
        out = lucid.einsum("...i,kij,...j->...k", input1, weight, input2)
    return out if bias is None else out + bias


def fused_linear_relu(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """relu(x Wᵀ + b).

    >>> import lucid
    >>> from lucid.nn.functional.linear import fused_linear_relu
    >>> fused_linear_relu(lucid.tensor([1.0]), lucid.tensor([[2.0], [-2.0]]))
    Tensor([2., 0.])
    """
    return lucid.relu(linear(input, weight, bias))


def fused_linear_gelu(input: Tensor, weight: Tensor, bias: Tensor | None = None, approximate: str = "tanh") -> Tensor:
    """gelu(x Wᵀ + b), by default in the form with tanh.

    >>> import lucid
    >>> from lucid.nn.functional.linear import fused_linear_gelu
    >>> fused_linear_gelu(lucid.tensor([1.0]), lucid.tensor([[2.0], [-2.0]]))
    Tensor([ 1.9546, -0.0454])
    """
    return lucid.gelu(linear(input, weight, bias), approximate=approximate)
