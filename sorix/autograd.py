"""Automatic differentiation with the conventions of Sorix, by Lucid's tape."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import lucid

_ONE_SEED = (lucid.Tensor, np.ndarray, np.generic, bool, int, float, complex)


def grad(
    outputs: lucid.Tensor | Sequence[lucid.Tensor],
    inputs: lucid.Tensor | Sequence[lucid.Tensor],
    grad_outputs: Any = None,
    retain_graph: bool = True,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of `outputs` by each of `inputs`, always as a tuple; every `.grad` is left alone.

    `grad_outputs` are the seeds, one for each output: tensors, arrays, numbers, or None, which stands for 1 and
    suffices for outputs of one element. The graph can be used again unless `retain_graph=False`. With
    `create_graph=True` the gradients can be differentiated. An input on which no output depends is an error, or
    None with `allow_unused=True`.

    >>> import sorix
    >>> x = sorix.tensor([2.0, 3.0], requires_grad=True)
    >>> (slope,) = sorix.autograd.grad((x**3).sum(), x, create_graph=True)
    >>> sorix.autograd.grad(slope.sum(), x)
    (tensor([12., 18.]),)
    """
    roots = [outputs] if isinstance(outputs, lucid.Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, lucid.Tensor) else list(inputs)
    for name, tensors in (("outputs", roots), ("inputs", wanted)):
        for i, t in enumerate(tensors):
            if not isinstance(t, lucid.Tensor):
                raise TypeError(f"grad: {name}[{i}] must be a tensor, not {type(t).__name__}")
    for i, t in enumerate(wanted):
        if not t.requires_grad:
            raise RuntimeError(f"grad: inputs[{i}] does not require grad. Set requires_grad=True for all inputs.")
    seeds = _seeds(grad_outputs, roots)
    # Outputs that depend on nothing add nothing: with allow_unused, Lucid leaves them out.
    found = lucid.autograd.grad(roots, wanted, seeds, retain_graph, create_graph, allow_unused=True)
    for i, gradient in enumerate(found):
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"grad: inputs[{i}] was not used in the graph of the outputs. Set allow_unused=True to get None for it."
            )
    return tuple(found)


def _seeds(given: Any, roots: list[lucid.Tensor]) -> list[Any]:
    if given is None:
        seeds: list[Any] = [None] * len(roots)
    else:
        seeds = [given] if isinstance(given, _ONE_SEED) else list(given)
    if len(seeds) != len(roots):
        raise ValueError(f"grad_outputs must be the same length as outputs: got {len(seeds)} for {len(roots)}")
    for i, (root, seed) in enumerate(zip(roots, seeds, strict=True)):
        if seed is None and root.numel() != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs. "
                f"outputs[{i}] has shape {root.shape}: reduce it, as with .sum(), or pass grad_outputs."
            )
    return seeds


__all__ = ["grad"]
