"""Names of PyTorch that Lucid itself has no use for: one device in place of many, and recomputation in segments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import lucid.nn
from lucid import autograd
from lucid.torch.layers import Module


class DataParallel(Module):
    """A module run on all devices: on the one that there is. Its state has the prefix `module.`, as PyTorch's has.

    >>> import lucid.torch as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)


class SDPBackend(Enum):
    """The ways in which attention may be computed."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose among ways to compute attention: a hint, since there is one.

    >>> from lucid.torch.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    yield


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what it saves; the backward pass runs it again.

    There is one way to do that, so `use_reentrant` changes nothing.

    >>> import lucid.torch as torch
    >>> from lucid.torch.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(torch.exp, x, use_reentrant=True).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    return autograd.checkpoint(function, *args, preserve_rng_state=preserve_rng_state, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after the other, in segments of which each keeps its input alone; the last keeps everything.

    >>> import lucid.torch as torch
    >>> from lucid.torch.utils.checkpoint import checkpoint_sequential
    >>> checkpoint_sequential([torch.exp, torch.log, torch.neg], 2, torch.ones(2, requires_grad=True))
    tensor([-1., -1.], grad_fn=<neg>)
    """
    steps = list(functions.children()) if isinstance(functions, lucid.nn.Sequential) else list(functions)
    size = len(steps) // segments
    if not size:
        raise ValueError(f"checkpoint_sequential: {len(steps)} functions cannot be cut into {segments} segments")

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def segment(x: Any) -> Any:
            for step in steps[start:stop]:
                x = step(x)
            return x

        return segment

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
    return run(size * (segments - 1), len(steps))(input)
