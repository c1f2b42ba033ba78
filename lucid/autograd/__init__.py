"""The tape's public face: gradients, custom functions, modes, hooks and tools."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "autograd")

from lucid.autograd import graph
from lucid.autograd import methods as _methods  # gives backward and the hooks to Tensor
from lucid.autograd.calls import FunctionCtx
from lucid.autograd.checkpoint import checkpoint
from lucid.autograd.differentiate import backward, grad
from lucid.autograd.function import Function, once_differentiable
from lucid.autograd.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

if TYPE_CHECKING:
    from lucid.autograd import forward_ad
    from lucid.autograd.checking import GradcheckError, gradcheck, gradgradcheck
    from lucid.autograd.explaining import explain

# Tools that most programs never call load on first use: they would add a third to the time of `import lucid`.
_TOOLS = {
    "GradcheckError": "lucid.autograd.checking",
    "gradcheck": "lucid.autograd.checking",
    "gradgradcheck": "lucid.autograd.checking",
    "explain": "lucid.autograd.explaining",
    "forward_ad": "",
}


def __getattr__(name: str) -> _Any:
    if name not in _TOOLS:
        raise AttributeError(f"module 'lucid.autograd' has no attribute {name!r}")
    home = _TOOLS[name]
    globals()[name] = value = getattr(_import_module(home), name) if home else _import_module(f"lucid.autograd.{name}")
    return value


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
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]
