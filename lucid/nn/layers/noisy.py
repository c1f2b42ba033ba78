"""Linear layers with noise on their weights, and with an activation behind them."""

import math
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import functional as functions
from lucid.nn import init
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["FusedLinear", "NoisyLinear"]

_ACTIVATIONS = {"relu": functions.fused_linear_relu, "gelu": functions.fused_linear_gelu}


class FusedLinear(Linear):
    """act(x Wᵀ + b) with `activation` "relu" or "gelu" (in the form with tanh).

    >>> import lucid
    >>> layer = lucid.nn.FusedLinear(3, 2, "gelu")
    >>> layer(lucid.ones(5, 3)).shape, layer
    ((5, 2), FusedLinear(in_features=3, out_features=2, activation=gelu, bias=True))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        activation: str = "relu",
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"FusedLinear: unsupported activation {activation!r}; it is one of {', '.join(_ACTIVATIONS)}"
            )
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        return _ACTIVATIONS[self.activation](input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, activation={self.activation}, "
            f"bias={self.bias is not None}"
        )


class NoisyLinear(Module):
    """x Wᵀ + b whose weights are μ + σ · noise in training and μ in evaluation; see `lucid.nn.functional.noisy_linear`.

    The noise is kept between calls; `resample()` draws another. μ starts evenly in ±1/√in, σ as sigma_zero/√in.

    >>> import lucid
    >>> layer = lucid.nn.NoisyLinear(3, 2)
    >>> x = lucid.ones(5, 3)
    >>> bool((layer(x) == layer(x)).all()), bool((layer(x) == layer.eval()(x)).all())
    (True, False)
    """

    weight_mu: Tensor
    weight_sigma: Tensor
    bias_mu: Tensor | None
    bias_sigma: Tensor | None
    epsilon_in: Tensor
    epsilon_out: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        sigma_zero: float = 0.5,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if sigma_zero <= 0:
            raise ValueError(f"NoisyLinear: sigma_zero must be positive, not {sigma_zero}")
        self.in_features, self.out_features, self.sigma_zero = in_features, out_features, sigma_zero
        options = {"device": device, "dtype": dtype}
        for name in ("weight_mu", "weight_sigma"):
            self.register_parameter(name, Parameter(lucid.empty(out_features, in_features, **options)))
        for name in ("bias_mu", "bias_sigma"):
            self.register_parameter(name, Parameter(lucid.empty(out_features, **options)) if bias else None)
        self.register_buffer("epsilon_in", lucid.zeros(in_features, **options))
        self.register_buffer("epsilon_out", lucid.zeros(out_features, **options))
        self.reset_parameters()

    @property
    def noise_in(self) -> Tensor:
        """The noise of the inputs."""
        return self.epsilon_in

    @property
    def noise_out(self) -> Tensor:
        """The noise of the outputs."""
        return self.epsilon_out

    def reset_parameters(self) -> None:
        """Draw μ and the noise anew, and set σ to where it starts."""
        bound = 1 / math.sqrt(self.in_features)
        init.uniform_(self.weight_mu, -bound, bound)
        init.constant_(self.weight_sigma, self.sigma_zero * bound)
        if self.bias_mu is not None and self.bias_sigma is not None:
            init.uniform_(self.bias_mu, -bound, bound)
            init.constant_(self.bias_sigma, self.sigma_zero * bound)
        self.resample()

    def resample(self) -> None:
        """Draw new noise."""
        init.normal_(self.epsilon_in)
        init.normal_(self.epsilon_out)

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return functions.linear(input, self.weight_mu, self.bias_mu)
        return functions.noisy_linear(
            input, self.weight_mu, self.weight_sigma, self.bias_mu, self.bias_sigma, self.epsilon_in, self.epsilon_out
        )

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias_mu is not None}"
