"""The tape's public face: gradients, custom functions, modes, hooks and tools."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "autograd")

from lucid.autograd import graph
from lucid.autograd import methods as _methods  # gives backward and the hooks to Tensor
from lucid.autograd.checkpoint import checkpoint  # at once: the module of that name would hide it
from lucid.autograd.differentiate import backward, grad
from lucid.autograd.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from lucid.core.hooks import RemovableHandle

if TYPE_CHECKING:
    from lucid.autograd import forward_ad
    from lucid.autograd.calls import FunctionCtx
    from lucid.autograd.checking import GradcheckError, gradcheck, gradgradcheck
    from lucid.autograd.explaining import explain
    from lucid.autograd.function import Function, once_differentiable

# What most programs never call loads on first use: it would add a third to the time of `import lucid`.
_ON_DEMAND = {
    "Function": "lucid.autograd.function",
    "FunctionCtx": "lucid.autograd.calls",
    "GradcheckError": "lucid.autograd.checking",
    "gradcheck": "lucid.autograd.checking",
    "gradgradcheck": "lucid.autograd.checking",
    "explain": "lucid.autograd.explaining",
    "forward_ad": "",
    "once_differentiable": "lucid.autograd.function",
}


def __getattr__(name: str) -> _Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'lucid.autograd' has no attribute {name!r}")
    home = _ON_DEMAND[name]
    globals()[name] = value = getattr(_import_module(home), name) if home else _import_module(f"lucid.autograd.{name}")
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})


__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "explain",
    "forward_ad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
