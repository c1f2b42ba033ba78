"""Layers. Parameters are floats of 32 bits; weights lie as (in, out)."""

import math
from typing import Any

import numpy as np

import lucid
from sorix.cupy.cupy import _cupy_available as _cupy_available
from sorix.devices import get_xp as get_xp
from sorix.devices import present
from sorix.nn.net import Module
from sorix.tensor import Tensor, no_grad, operation

_relu, _leaky = operation("relu", lucid.nn.functional.relu), operation("leaky_relu", lucid.nn.functional.leaky_relu)
_root = operation("sqrt", lucid.sqrt)


def _parameter(values: Any) -> Tensor:
    return Tensor(np.asarray(values, np.float32), requires_grad=True)


class Linear(Module):
    """x @ W + b, with `W` of shape (features, neurons) and `b` of shape (1, neurons).

    Weights are normal, with the standard deviation √(2 / features) for `init="he"` and √(2 / (features + neurons)) for
    "xavier"; biases are 0. `coef_` and `intercept_` are what scikit-learn calls them.

    >>> import sorix
    >>> layer = sorix.nn.Linear(3, 1)
    >>> layer.W.shape, layer.b.shape, layer.coef_.shape, layer.intercept_
    (sorix.Size([3, 1]), sorix.Size([1, 1]), (3,), 0.0)
    """

    def __init__(self, features: int, neurons: int, bias: bool = True, init: str = "he", device: str = "cpu") -> None:
        super().__init__()
        present(device)
        if init not in ("he", "xavier"):
            raise ValueError(f"Invalid initialization method: {init!r}; use 'he' or 'xavier'")
        self.device, self.features, self.neurons, self.bias = device, features, neurons, bias
        self.std_dev = math.sqrt(2 / (features if init == "he" else features + neurons))
        self.W = _parameter(np.random.normal(0.0, self.std_dev, (features, neurons)))
        self.b = _parameter(np.zeros((1, neurons))) if bias else None

    @property
    def coef_(self) -> Any:
        """The weights in one dimension."""
        return self.W.data.flatten()

    @property
    def intercept_(self) -> Any:
        """The biases in one dimension, a number where there is one, None where there are none."""
        if self.b is None:
            return None
        return float(self.b.data.item()) if self.neurons == 1 else self.b.data.flatten()

    def forward(self, x: Any) -> Any:
        """The products with the weights, and the biases."""
        product = x @ self.W
        return product if self.b is None else product + self.b

    def extra_repr(self) -> str:
        return f"in_features={self.features}, out_features={self.neurons}, bias={self.b is not None}"


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Any) -> Any:
        """The positive part of each element."""
        return _relu(x)


class LeakyReLU(Module):
    """x where it is positive, otherwise x · negative_slope.

    >>> import sorix
    >>> sorix.nn.LeakyReLU()(sorix.tensor([-1.0, 2.0]))
    tensor([-0.01,  2.  ])
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        """Each element, with a slope below 0."""
        return _leaky(x, negative_slope=self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Any) -> Any:
        """The function of each element."""
        return x.sigmoid()


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Any) -> Any:
        """The function of each element."""
        return x.tanh()


class BatchNorm1d(Module):
    """Columns of mean 0 and variance 1, times `gamma` plus `beta`.

    In training by the statistics of the batch, which may have one row, otherwise by running ones.

    >>> import sorix
    >>> norm = sorix.nn.BatchNorm1d(2)
    >>> norm(sorix.tensor([[1.0, 5.0], [3.0, 5.0]])).data.round(3), norm.running_mean
    (array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32), tensor([[0.2, 0.5]]))
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: str = "cpu") -> None:
        super().__init__()
        present(device)
        self.device, self.num_features, self.eps, self.momentum = device, num_features, eps, momentum
        self.gamma, self.beta = _parameter(np.ones((1, num_features))), _parameter(np.zeros((1, num_features)))
        self.running_mean = Tensor(np.zeros((1, num_features), np.float32))
        self.running_var = Tensor(np.ones((1, num_features), np.float32))

    def forward(self, x: Any) -> Any:
        """The columns, normalised."""
        if x.ndim != 2:
            raise ValueError(f"BatchNorm1d takes (N, C), not a tensor of shape {x.shape}")
        if not self.training:
            return (x - self.running_mean) / _root(self.running_var + self.eps) * self.gamma + self.beta
        mean = x.mean(axis=0, keepdims=True)
        centred = x - mean
        var = (centred**2).mean(axis=0, keepdims=True)
        with no_grad():
            n = x.shape[0]
            self._follow(self.running_mean, mean.data)
            self._follow(self.running_var, var.data * (n / (n - 1) if n > 1 else 1.0))
        return centred / _root(var + self.eps) * self.gamma + self.beta

    def _follow(self, running: Tensor, batch: Any) -> None:
        running.data[...] = (1 - self.momentum) * running.data + self.momentum * batch

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class Dropout(Module):
    """Elements set to 0 with probability `p`, the others divided by 1 - p; in evaluation the tensor itself."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Any) -> Any:
        """The elements that stay."""
        if not self.training or self.p == 0:
            return x
        if self.p >= 1:
            return x * np.zeros(x.shape, x.data.dtype)
        kept = np.random.rand(*x.shape) >= self.p
        return x * (kept / (1 - self.p)).astype(x.data.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Embedding(Module):
    """The rows of `W` that indices name; negative ones name none.

    >>> import sorix
    >>> sorix.nn.Embedding(4, 3)([[0, 1]]).shape
    sorix.Size([1, 2, 3])
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, device: str = "cpu") -> None:
        super().__init__()
        present(device)
        for name, value in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if value < 1:
                raise ValueError(f"{name} must be >= 1, not {value}")
        self.device, self.num_embeddings, self.embedding_dim = device, num_embeddings, embedding_dim
        bound = 1 / math.sqrt(num_embeddings)
        self.W = _parameter(np.random.uniform(-bound, bound, (num_embeddings, embedding_dim)))

    def forward(self, indices: Any) -> Any:
        """The rows, in the shape of the indices."""
        places = np.asarray(indices.data if isinstance(indices, Tensor) else indices).astype(np.int64)
        if places.size and (places.min() < 0 or places.max() >= self.num_embeddings):
            raise IndexError(f"an index is outside of [0, {self.num_embeddings})")
        return self.W[places]

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


__all__ = ["BatchNorm1d", "Dropout", "Embedding", "LeakyReLU", "Linear", "ReLU", "Sigmoid", "Tanh"]
