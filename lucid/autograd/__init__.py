"""The tape's public face: gradients, custom functions, modes, hooks and tools."""

from lucid.autograd import graph as graph
from lucid.autograd.checkpoint import checkpoint as checkpoint
from lucid.autograd.differentiate import backward as backward
from lucid.autograd.differentiate import backward_method as _backward_method
from lucid.autograd.differentiate import grad as grad
from lucid.autograd.function import Function as Function
from lucid.autograd.function import FunctionCtx as FunctionCtx
from lucid.autograd.function import once_differentiable as once_differentiable
from lucid.autograd.hooks import register_hook, register_post_accumulate_grad_hook, retain_grad, retains_grad
from lucid.autograd.modes import detect_anomaly as detect_anomaly
from lucid.autograd.modes import enable_grad as enable_grad
from lucid.autograd.modes import inference_mode as inference_mode
from lucid.autograd.modes import is_grad_enabled as is_grad_enabled
from lucid.autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
from lucid.autograd.modes import no_grad as no_grad
from lucid.autograd.modes import set_grad_enabled as set_grad_enabled
from lucid.core.tensor import Tensor as _Tensor

for _name, _method in {
    "backward": _backward_method,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "retain_grad": retain_grad,
    "retains_grad": property(retains_grad, doc=retains_grad.__doc__),
}.items():
    setattr(_Tensor, _name, _method)
