"""Trading time for memory: run a function again in the backward pass instead of keeping what it saved."""

from collections.abc import Callable
from typing import Any

from lucid.api import rng
from lucid.autograd.graph import saved_tensors_hooks
from lucid.autograd.modes import enable_grad, no_grad
from lucid.core.tensor import Tensor


class _Segment:
    """One checkpointed call: how to run it again, and what the second run saved."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, preserve_rng_state: bool) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.state = rng.default_generator().get_state() if preserve_rng_state else None
        self.count = 0
        self.recomputed: list[tuple[Tensor, int]] | None = None  # with the versions of their memory

    def pack(self, tensor: Tensor) -> int:
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Tensor:
        if self.recomputed is None:
            self.recomputed = self._run_again()
        if number >= len(self.recomputed):
            raise RuntimeError(
                f"checkpoint: {getattr(self.function, '__name__', 'the function')} saved {self.count} values when it "
                f"first ran and {len(self.recomputed)} when it ran again; it must do the same both times"
            )
        tensor, version = self.recomputed[number]
        if tensor._version != version:
            raise RuntimeError(
                f"checkpoint: {getattr(self.function, '__name__', 'the function')} overwrites a value that its gradient "
                f"needs, of shape {tensor.shape} (version {version}, now {tensor._version}). "
                "Use the out-of-place form of the write, or clone() the tensor before it."
            )
        return tensor

    def _run_again(self) -> list[tuple[Tensor, int]]:
        found: list[tuple[Tensor, int]] = []

        def collect(tensor: Tensor) -> int:
            found.append((tensor, tensor._version))
            return len(found) - 1

        generator = rng.default_generator()
        now = generator.get_state()
        try:
            if self.state is not None:
                generator.set_state(self.state)
            with enable_grad(), saved_tensors_hooks(collect, lambda number: found[number][0]):
                self.function(*self.args, **self.kwargs)
        finally:
            generator.set_state(now)
        return found


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    preserve_rng_state: bool = True,
    use_reentrant: bool = False,
    **kwargs: Any,
) -> Any:
    """Call `function(*args, **kwargs)` without keeping what it saves; the backward pass runs it again.

    Any arguments and any number of results are allowed, gradients flow to tensors that the function closes over, and
    random numbers are the same both times unless `preserve_rng_state` is False. With `use_reentrant=True` nothing is recorded
    unless a positional argument requires grad, as in PyTorch; else it changes nothing.

    >>> import lucid
    >>> x = lucid.tensor([0.5], requires_grad=True)
    >>> y = lucid.autograd.checkpoint(lambda t: t.sin().exp(), x)
    >>> y.backward()
    >>> bool(lucid.allclose(x.grad, x.sin().exp() * x.cos()))
    True
    """
    if use_reentrant and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        with no_grad():
            return function(*args, **kwargs)
    segment = _Segment(function, args, kwargs, preserve_rng_state)
    with saved_tensors_hooks(segment.pack, segment.unpack):
        return function(*args, **kwargs)
