"""Hands the tape's operations to `Tensor` as methods."""

from typing import Any

from lucid.autograd.differentiate import backward_method
from lucid.autograd.hooks import register_hook, register_post_accumulate_grad_hook, retain_grad, retains_grad
from lucid.core.tensor import Tensor

METHODS: dict[str, Any] = {
    "backward": backward_method,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "retain_grad": retain_grad,
    "retains_grad": property(retains_grad, doc=retains_grad.__doc__),
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
