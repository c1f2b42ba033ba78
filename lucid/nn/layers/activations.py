"""Activation functions as layers."""

from typing import Any

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional import activations as functions
from lucid.nn.layers.functions import OfOneTensor
from lucid.nn.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(OfOneTensor):
    """An activation function; `inplace` is printed if it is set."""

    inplace: bool = False

    def extra_repr(self) -> str:
        shown = super().extra_repr()
        if not self.inplace:
            return shown
        return f"{shown}, inplace=True" if shown else "inplace=True"


class _InPlace(_Activation):
    """An activation that may write its result into its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """max(x, 0).

    >>> import lucid
    >>> from lucid.nn.layers.activations import ReLU
    >>> ReLU()(lucid.tensor([-1.0, 2.0]))
    Tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.relu(input, True) if self.inplace else lucid.relu(input)


class ReLU6(_InPlace, function=functions.relu6):
    """min(max(x, 0), 6).

    >>> import lucid
    >>> from lucid.nn.layers.activations import ReLU6
    >>> ReLU6()(lucid.tensor([-1.0, 8.0]))
    Tensor([0., 6.])
    """


class SELU(_InPlace, function=functions.selu):
    """A scaled elu that keeps mean 0 and variance 1 from layer to layer.

    >>> import lucid
    >>> from lucid.nn.layers.activations import SELU
    >>> SELU()(lucid.tensor([-1.0, 2.0]))
    Tensor([-1.1113,  2.1014])
    """


class SiLU(_InPlace):
    """x · sigmoid(x), also known as swish.

    >>> import lucid
    >>> from lucid.nn.layers.activations import SiLU
    >>> SiLU()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functions.silu(input, self.inplace)


class Mish(_InPlace, function=functions.mish):
    """x · tanh(softplus(x)).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Mish
    >>> Mish()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.3034,  1.944 ])
    """


class Hardsigmoid(_InPlace, function=functions.hardsigmoid):
    """x / 6 + 1/2 limited to [0, 1].

    >>> import lucid
    >>> from lucid.nn.layers.activations import Hardsigmoid
    >>> Hardsigmoid()(lucid.tensor([-4.0, 1.5]))
    Tensor([0.  , 0.75])
    """


class Hardswish(_InPlace, function=functions.hardswish):
    """x · hardsigmoid(x).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Hardswish
    >>> Hardswish()(lucid.tensor([1.5, 4.0]))
    Tensor([1.125, 4.   ])
    """


class LeakyReLU(_Activation, function=functions.leaky_relu):
    """x above 0, and `negative_slope` · x below.

    >>> import lucid
    >>> from lucid.nn.layers.activations import LeakyReLU
    >>> LeakyReLU(0.1)(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.1,  2. ])
    """

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace


class PReLU(_Activation):
    """x above 0, and weight · x below, with one weight to train or one for each channel (dimension 1).

    >>> import lucid
    >>> from lucid.nn.layers.activations import PReLU
    >>> PReLU()(lucid.tensor([-1.0, 2.0])).detach()
    Tensor([-0.25,  2.  ])
    """

    _shown = ("num_parameters",)
    weight: Tensor

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(lucid.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all weights to the slope that the layer was made with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return functions.prelu(input, self.weight)


class RReLU(_Activation):
    """x above 0, and a · x below; in training a is drawn from [lower, upper) for each element, else it is their mean.

    >>> import lucid
    >>> from lucid.nn.layers.activations import RReLU
    >>> RReLU(0.1, 0.3).eval()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.2,  2. ])
    """

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper = lower, upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functions.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class _Exponential(_Activation):
    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace


class ELU(_Exponential, function=functions.elu):
    """x above 0, and alpha · (exp(x) - 1) below.

    >>> import lucid
    >>> from lucid.nn.layers.activations import ELU
    >>> ELU()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.6321,  2.    ])
    """


class CELU(_Exponential, function=functions.celu):
    """x above 0, and alpha · (exp(x / alpha) - 1) below.

    >>> import lucid
    >>> from lucid.nn.layers.activations import CELU
    >>> CELU(2.0)(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.7869,  2.    ])
    """


class GELU(_Activation):
    """x · Φ(x) with the normal distribution function Φ, or its approximation by tanh.

    >>> import lucid
    >>> from lucid.nn.layers.activations import GELU
    >>> GELU()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.1587,  1.9545])
    """

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return functions.gelu(input, self.approximate)


class Hardtanh(_Activation):
    """x limited to [min_val, max_val], which were once called `min_value` and `max_value`.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Hardtanh
    >>> Hardtanh()(lucid.tensor([-2.0, 0.5]))
    Tensor([-1. ,  0.5])
    """

    _shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        if min_val >= max_val:
            raise ValueError(f"Hardtanh: max_val {max_val} must be above min_val {min_val}")
        self.min_val, self.max_val = min_val, max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functions.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Threshold(_Activation, function=functions.threshold):
    """x where it exceeds `threshold`, and `value` elsewhere.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Threshold
    >>> Threshold(1.0, -5.0)(lucid.tensor([0.0, 2.0]))
    Tensor([-5.,  2.])
    """

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value = threshold, value
        self.inplace = inplace


class Softplus(_Activation, function=functions.softplus):
    """log(1 + exp(βx)) / β, a smooth relu; equal to x where βx exceeds `threshold`.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softplus
    >>> Softplus()(lucid.tensor([-1.0, 30.0]))
    Tensor([ 0.3133, 30.    ])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold


class _Shrink(_Activation):
    _shown = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


class Softshrink(_Shrink, function=functions.softshrink):
    """x moved towards 0 by `lambd`, and 0 where it would get past it.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softshrink
    >>> Softshrink()(lucid.tensor([-1.0, 0.3]))
    Tensor([-0.5,  0. ])
    """


class Hardshrink(_Shrink, function=functions.hardshrink):
    """x where |x| exceeds `lambd`, and 0 elsewhere.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Hardshrink
    >>> Hardshrink()(lucid.tensor([-1.0, 0.3]))
    Tensor([-1.,  0.])
    """


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Sigmoid
    >>> Sigmoid()(lucid.tensor([0.0, 2.0]))
    Tensor([0.5   , 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return lucid.sigmoid(input)


class LogSigmoid(_Activation, function=lucid.log_sigmoid):
    """log(sigmoid(x)), without overflow.

    >>> import lucid
    >>> from lucid.nn.layers.activations import LogSigmoid
    >>> LogSigmoid()(lucid.tensor([0.0, 2.0]))
    Tensor([-0.6931, -0.1269])
    """


class Tanh(_Activation):
    """The hyperbolic tangent.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Tanh
    >>> Tanh()(lucid.tensor([0.0, 1.0]))
    Tensor([0.    , 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return lucid.tanh(input)


class Tanhshrink(_Activation, function=functions.tanhshrink):
    """x - tanh(x).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Tanhshrink
    >>> Tanhshrink()(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.2384,  1.036 ])
    """


class Softsign(_Activation, function=functions.softsign):
    """x / (1 + |x|).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softsign
    >>> Softsign()(lucid.tensor([-1.0, 3.0]))
    Tensor([-0.5 ,  0.75])
    """


class GLU(_Activation, function=functions.glu):
    """a · sigmoid(b), where a and b are the halves of the input along `dim`.

    >>> import lucid
    >>> from lucid.nn.layers.activations import GLU
    >>> GLU()(lucid.tensor([2.0, 4.0, 0.0, 0.0]))
    Tensor([1., 2.])
    """

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class _Along(_Activation):
    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_Along, function=functions.softmax):
    """exp(x) / Σ exp(x) along `dim`.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softmax
    >>> Softmax(dim=0)(lucid.tensor([0.0, 0.0, 1000.0]))
    Tensor([0., 0., 1.])
    """


class Softmin(_Along, function=functions.softmin):
    """softmax(-x) along `dim`.

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softmin
    >>> Softmin(dim=0)(lucid.tensor([0.0, 0.0, 1000.0]))
    Tensor([0.5, 0.5, 0. ])
    """


class LogSoftmax(_Along, function=functions.log_softmax):
    """log(softmax(x)) along `dim`, without overflow.

    >>> import lucid
    >>> from lucid.nn.layers.activations import LogSoftmax
    >>> LogSoftmax(dim=0)(lucid.tensor([0.0, 1000.0]))
    Tensor([-1000.,     0.])
    """


class Softmax2d(_Activation):
    """Softmax over the channels of images (N, C, H, W) or (C, H, W).

    >>> import lucid
    >>> from lucid.nn.layers.activations import Softmax2d
    >>> Softmax2d()(lucid.zeros(2, 1, 1))
    Tensor([[[0.5]],
            [[0.5]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d takes inputs (N, C, H, W) or (C, H, W), not shape {input.shape}")
        return functions.softmax(input, -3)
