"""Sorix's names and conventions over Lucid's engine: a program for Sorix runs as it is.

Its tensors are a class of Lucid's, and each operation is one of Lucid's; what differs is adapted.

>>> import numpy as np
>>> import sorix
>>> from sorix import nn, optim
>>> sorix.manual_seed(0)
>>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
>>> x, y = sorix.tensor(X), sorix.tensor(3 * X**2 + 2)
>>> model = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
>>> criterion = nn.MSELoss()
>>> optimizer = optim.SGD(model.parameters(), lr=0.1)
>>> for epoch in range(500):
...     loss = criterion(model(x), y)
...     optimizer.zero_grad()
...     loss.backward()
...     optimizer.step()
>>> loss.item() < 0.02
True
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from lucid import __version__ as __version__
from sorix import autograd as autograd
from sorix import cuda as cuda
from sorix import devices as _devices
from sorix import element_types as _types
from sorix import nn as nn
from sorix import optim as optim
from sorix import utils as utils
from sorix.autograd import grad as grad
from sorix.tensor import DType as DType
from sorix.tensor import Size as Size
from sorix.tensor import Tensor as Tensor
from sorix.tensor import get_xp as get_xp
from sorix.tensor import is_grad_enabled as is_grad_enabled
from sorix.tensor import no_grad as no_grad
from sorix.tensor import tensor as tensor  # the function; `from sorix.tensor import …` reaches the module
from sorix.utils import math as _math
from sorix.utils import utils as _functions

if _TYPE_CHECKING:
    from sorix.utils.math import *  # noqa: F403
    from sorix.utils.utils import *  # noqa: F403

globals().update({name: getattr(_math, name) for name in _math.__all__})
globals().update({name: getattr(_functions, name) for name in _functions.__all__})
globals().update(_types.NAMES)
absolute, device = _math.abs, _devices.Device

__all__ = [name for name in globals() if not name.startswith("_") and name != "annotations"]
