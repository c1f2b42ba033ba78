"""What is done to parameters and gradients around training: clipping, vectors, parametrizations."""

from lucid.nn.utils import parametrizations, parametrize
from lucid.nn.utils.clipping import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from lucid.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from lucid.nn.utils.weight_hooks import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
