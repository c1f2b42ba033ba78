"""Kernels of fused primitives: their composites, which say what they compute."""

from typing import Any

import numpy as np

from lucid.core import kernels, levels, modes
from lucid.core.kernels import WithBackward
from lucid.core.tensor import wrapped


def _in_order(tensor: Any) -> Any:
    return np.asarray(tensor._array, order="C")


def _of_composite(primitive: Any) -> Any:
    composite = primitive.composite
    if composite is None:
        return None

    def forward(*arrays: Any, **params: Any) -> tuple[Any, tuple[()]]:
        """The composite on plain tensors: nothing is recorded, traced or cast."""
        switches = [(modes.recording, modes.SILENT), (modes.autocast, None), (levels.trace, None)]
        tokens = [(variable, variable.set(value)) for variable, value in switches]
        try:
            found = composite(*[None if a is None else wrapped(a) for a in arrays], **params)
        finally:
            for variable, token in tokens:
                variable.reset(token)
        return tuple([_in_order(f) for f in found]) if primitive.multi else _in_order(found), ()

    def backward(*given: Any, **params: Any) -> Any:
        raise AssertionError("without residuals, the derivative is the composite's")

    return WithBackward(forward, backward)


kernels.last_resort.append(_of_composite)
