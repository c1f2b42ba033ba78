"""Data parallel: each process has the whole model and a part of the batch, and gradients are averaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lucid import is_grad_enabled, no_grad
from lucid.core.levels import trace, tracing
from lucid.distributed import ProcessGroup
from lucid.distributed.groups import chosen
from lucid.nn.module import Module
from lucid.nn.parallel.agreement import broadcast_all, listed, raise_unless_equal, replaced
from lucid.nn.parallel.reducer import LARGE, CommHook, Reducer

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module that all processes of a group train, each on its part of the batch.

    All of them make it of the same module. They begin with the parameters and buffers of the first one, and each backward
    pass leaves the average of all gradients in `.grad`; it is computed bucket by bucket while the pass goes on. Before each
    call the buffers of the first process are given to all (`broadcast_buffers`). The state has the prefix `module.`.

    `find_unused_parameters=True` allows parameters that some process does not use in a step; those that nobody uses keep
    their gradient as it is. With `static_graph=True` the same ones must be used in each step. `bucket_cap_mb` limits buckets
    of small parameters, by default to 1 MB. With one process nothing is exchanged.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import DistributedDataParallel
    >>> dist.init_process_group("single")
    >>> model = DistributedDataParallel(lucid.nn.Linear(2, 1))
    >>> model(lucid.ones(4, 2)).sum().backward()
    >>> model.module.bias.grad, list(model.state_dict())
    (Tensor([4.]), ['module.weight', 'module.bias'])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: Any = None
        self.process_group = chosen(process_group)
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.static_graph, self.require_backward_grad_sync = static_graph, True
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not trained:
            raise RuntimeError(
                f"DistributedDataParallel: {type(module).__name__} has no parameter that requires grad, so there is "
                "nothing to exchange; call the module itself"
            )
        self._reducer: Reducer | None = None
        self._has_hook = False
        if self.process_group.size() == 1:
            return
        if init_sync:
            named = [*module.named_parameters(), *module.named_buffers()]
            raise_unless_equal("DistributedDataParallel: parameters", listed(named), self.process_group)
            with no_grad():
                broadcast_all([t for _, t in named], self.process_group)
        cap = LARGE if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        self._reducer = Reducer(trained, self.process_group, cap, find_unused_parameters, static_graph)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        reducer = self._reducer
        if reducer is None:
            return self.module(*inputs, **kwargs)
        syncs = self.require_backward_grad_sync
        if tracing() and trace.get() is not None:
            return self._traced(reducer, *inputs, **kwargs)
        if syncs and self.broadcast_buffers:
            self._sync_buffers()
        if is_grad_enabled():
            reducer.is_listening = syncs
        return self.module(*inputs, **kwargs)

    def _traced(self, reducer: Reducer, *inputs: Any, **kwargs: Any) -> Any:
        """The same in a program: parameters whose gradients are averaged, by instructions, where they become complete."""
        if not self.require_backward_grad_sync:
            raise NotImplementedError(
                "DistributedDataParallel: what was added to gradients under no_sync is known outside of programs only; "
                "call the step under no_sync without lucid.compile"
            )
        if self.broadcast_buffers:
            self._sync_buffers()
        if not is_grad_enabled():
            return self.module(*inputs, **kwargs)
        with replaced(self.module, reducer.averaging()):
            return self.module(*inputs, **kwargs)

    @no_grad()
    def _sync_buffers(self) -> None:
        buffers = list(self.module.buffers())
        if buffers:
            broadcast_all(buffers, self.process_group)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, calls and their backward passes add to local gradients; the next one outside averages the sums.

        >>> import lucid
        >>> import lucid.distributed as dist
        >>> dist.init_process_group("single")
        >>> model = lucid.nn.parallel.DistributedDataParallel(lucid.nn.Linear(2, 1))
        >>> with model.no_sync():
        ...     model(lucid.ones(4, 2)).sum().backward()
        >>> model(lucid.ones(4, 2)).sum().backward()
        >>> model.module.bias.grad
        Tensor([8.])
        >>> dist.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: CommHook) -> None:
        """Let `hook(state, bucket)` average gradients: it returns something whose `wait()` gives the average.

        `bf16_compress_hook` of this package is one.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: expected a function, not {type(hook).__name__}")
        if self._has_hook:
            raise RuntimeError("register_comm_hook: there is a hook already")
        self._has_hook = True
        if self._reducer is not None:
            self._reducer.hook = state, hook

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("DistributedDataParallel belongs to its processes and is not copied; copy or save its .module")
