"""All parameters as one vector, and back."""

from collections.abc import Iterable

import lucid
from lucid import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other.

    >>> import lucid
    >>> from lucid.nn.utils import parameters_to_vector
    >>> parameters_to_vector([lucid.zeros(2, 2), lucid.ones(1)])
    Tensor([0., 0., 0., 0., 1.])
    """
    pieces = [p.reshape(-1) for p in parameters]
    if not pieces:
        raise ValueError("parameters_to_vector: there are no parameters")
    return lucid.cat(pieces)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set all parameters, in place, to consecutive pieces of a vector.

    >>> import lucid
    >>> from lucid.nn.utils import vector_to_parameters
    >>> a, b = lucid.zeros(2), lucid.zeros(1)
    >>> vector_to_parameters(lucid.tensor([1.0, 2.0, 3.0]), [a, b])
    >>> a, b
    (Tensor([1., 2.]), Tensor([3.]))
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: the vector must be a Tensor, not {type(vec).__name__}")
    listed = list(parameters)
    wanted = sum(p.numel() for p in listed)
    if vec.shape != (wanted,):
        raise ValueError(f"vector_to_parameters: the parameters need a vector of {wanted}, not shape {vec.shape}")
    start = 0
    for parameter in listed:
        end = start + parameter.numel()
        parameter.data = vec[start:end].detach().clone().reshape(parameter.shape).to(parameter.dtype)
        start = end
