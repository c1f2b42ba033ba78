"""PyTorch's names and conventions over Lucid's engine: `import lucid.torch as torch`.

Every name of `lucid` is here, read from the one table of names. What differs is adapted: tensors are a subclass of
Lucid's, and what is computed of them is of it.

>>> import lucid.torch as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> torch.autograd.grad((x**2).sum(), x)
(tensor([2., 4.]),)
>>> x.shape.numel(), isinstance(torch.nn.Linear(2, 3).weight, torch.Tensor), torch.cuda.is_available()
(2, True, False)

`python -m lucid.torch script.py` runs a program that says `import torch`; `install()` does so in this process.
"""

import sys as _sys
from typing import Any as _Any

import lucid as _lucid
from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "torch")

from lucid.torch import hints as _hints
from lucid.torch import namespaces as _namespaces
from lucid.torch import results as _results  # noqa: F401  # how they print
from lucid.torch import root as _root
from lucid.torch import tensors as _tensors
from lucid.torch.accelerators import GradScaler as GradScaler
from lucid.torch.accelerators import autocast as autocast
from lucid.torch.accelerators import get_default_device as get_default_device
from lucid.torch.accelerators import set_default_device as set_default_device
from lucid.torch.differentiation import inference_mode as inference_mode
from lucid.torch.files import load as load
from lucid.torch.files import save as save
from lucid.torch.installing import install as install
from lucid.torch.internals import foreach as _foreach
from lucid.torch.internals import ops as ops
from lucid.torch.sizes import Size as Size
from lucid.torch.tensors import Tensor as Tensor

__version__ = "2.13.0+lucid"  # the PyTorch whose interface this is

_namespaces.make_modules()
globals().update(_tensors.typed())
globals().update({name: getattr(_hints, name) for name in _hints.ROOT})
globals().update({name: getattr(_root, name) for name in _root.NAMES})

torch = _sys.modules[__name__]  # as in PyTorch, whose first module imports itself
_OWN = sorted(name for name in globals() if not name.startswith("_") and name not in ("lucid", "torch"))
_PACKAGES = [path for path in _namespaces.PATHS if "." not in path]
__all__ = sorted(
    {*_OWN, *_lucid.__all__} - {"array_api", "data", "dtypes", "einops", "kernels", "profiler", "torch", "__version__"}
    | {*_PACKAGES}
)


def __getattr__(name: str) -> _Any:
    value: _Any
    if name in _PACKAGES:
        value = _sys.modules[f"{__name__}.{name}"]
    elif name in __all__:
        value = _namespaces.converted(getattr(_lucid, name))
    elif (value := _foreach(name)) is None:
        raise _namespaces.no_attribute("torch", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
