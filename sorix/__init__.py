"""Sorix's names and conventions over Lucid's engine: a program for Sorix runs as it is.

Tensors are Lucid's tensors and all that `lucid` has is here too; what differs is adapted (see `sorix.autograd.grad`,
`sorix.tensor`, `sorix.save`).

>>> import os, tempfile
>>> import numpy as np
>>> import sorix
>>> from sorix import nn, optim
>>> _ = sorix.manual_seed(0)
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
>>> path = os.path.join(tempfile.mkdtemp(), "model.pkl")
>>> sorix.save(model.state_dict(), path)
>>> again = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
>>> again.load_state_dict(sorix.load(path))
<All keys matched successfully>
>>> np.array_equal(again(x), model(x))
True
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import lucid as _lucid
from sorix import autograd as autograd
from sorix import cuda as cuda
from sorix import functions as _functions
from sorix import nn as nn
from sorix import optim as optim
from sorix import utils as utils
from sorix.autograd import grad as grad
from sorix.files import load as load
from sorix.files import save as save
from sorix.functions import argmax as argmax
from sorix.functions import argmin as argmin
from sorix.functions import from_numpy as from_numpy
from sorix.functions import repeat as repeat
from sorix.functions import softmax as softmax
from sorix.functions import tensor as tensor

if _TYPE_CHECKING:
    # What Sorix adapts stands above, and wins.
    from lucid import *  # type: ignore[no-redef, assignment]  # noqa: F403

bool_, byte = _lucid.bool, _lucid.uint8

_OWN = {name for name in globals() if not name.startswith("_")}


def __getattr__(name: str) -> _Any:
    """What Sorix does not adapt is Lucid's, taken over when it is first asked for."""
    if name not in _lucid.__all__:
        raise AttributeError(f"module 'sorix' has no attribute {name!r}")
    value = getattr(_lucid, name)
    if name in _functions.ALSO_ON_ARRAYS:
        value = _functions.also_on_arrays(value)
    globals()[name] = value
    return value


__all__ = sorted(_OWN | {*_lucid.__all__})


def __dir__() -> list[str]:
    return __all__
