"""Linear maps whose weights carry noise of factored form, for exploration."""

import lucid
from lucid import Tensor
from lucid.nn.functional.linear import linear

__all__ = ["noisy_linear", "scaled_noise"]


def scaled_noise(x: Tensor) -> Tensor:
    """sign(x) · √|x|, which makes factored noise of normal numbers.

    >>> import lucid
    >>> from lucid.nn.functional import scaled_noise
    >>> scaled_noise(lucid.tensor([-4.0, 9.0]))
    Tensor([-2.,  3.])
    """
    return x.sign() * x.abs().sqrt()


def noisy_linear(
    input: Tensor,
    weight_mu: Tensor,
    weight_sigma: Tensor,
    bias_mu: Tensor | None = None,
    bias_sigma: Tensor | None = None,
    epsilon_in: Tensor | None = None,
    epsilon_out: Tensor | None = None,
) -> Tensor:
    """x Wᵀ + b with W = μ + σ · f(ε_out) f(ε_in)ᵀ and b = μ_b + σ_b · f(ε_out), where f is `scaled_noise`.

    ε that are not given are drawn from the normal distribution.

    >>> import lucid
    >>> from lucid.nn.functional import noisy_linear
    >>> one = lucid.ones(1, 1)
    >>> noisy_linear(one, one, one, epsilon_in=lucid.tensor([4.0]), epsilon_out=lucid.tensor([1.0]))
    Tensor([[3.]])
    """
    if (bias_mu is None) != (bias_sigma is None):
        raise ValueError("noisy_linear: bias_mu and bias_sigma come together")
    rows, columns = weight_mu.shape
    kind = weight_mu.dtype
    inner = scaled_noise(lucid.randn(columns, dtype=kind) if epsilon_in is None else epsilon_in)
    outer = scaled_noise(lucid.randn(rows, dtype=kind) if epsilon_out is None else epsilon_out)
    weight = weight_mu + weight_sigma * (outer.unsqueeze(1) * inner)
    bias = None if bias_mu is None or bias_sigma is None else bias_mu + bias_sigma * outer
    return linear(input, weight, bias)
