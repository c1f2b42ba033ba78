"""Data parallel: each process has the whole model and a part of the batch, and gradients are averaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lucid
from lucid import distributed, is_grad_enabled, no_grad
from lucid.core.levels import trace, tracing
from lucid.distributed import Join, Joinable, JoinHook, ProcessGroup
from lucid.distributed.groups import chosen
from lucid.nn.module import Module
from lucid.nn.parallel.agreement import broadcast_all, listed, raise_unless_equal, replaced
from lucid.nn.parallel.reducer import LARGE, CommHook, Reducer

__all__ = ["DistributedDataParallel"]


class _Answers(JoinHook):
    """What a process without inputs does for a model in a `Join`."""

    def __init__(self, model: "DistributedDataParallel", divides_by_all: bool) -> None:
        self.model, self.divides_by_all = model, divides_by_all
        model._divides_by_all = divides_by_all

    def main_hook(self) -> None:
        reducer = self.model._reducer
        if reducer is None:
            return
        syncs, source = self.model._agreed(-1, False)
        if syncs:
            self.model._sync_buffers(source)
            reducer.shadow()

    @no_grad()
    def post_hook(self, is_last_joiner: bool) -> None:
        model = self.model
        if model._reducer is None:
            return
        _, source = model._agreed(model.process_group.rank() if is_last_joiner else -1, False)
        broadcast_all([*model.module.parameters(), *model.module.buffers()], model.process_group, source)


class DistributedDataParallel(Module, Joinable):
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
        self._has_hook, self._divides_by_all = False, True
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
        syncs, joins = self.require_backward_grad_sync, self._join_config.enable
        if tracing() and trace.get() is not None:
            return self._traced(reducer, *inputs, **kwargs)
        if not is_grad_enabled():
            if syncs and not joins:  # those that have joined answer for training steps
                self._sync_buffers()
            return self.module(*inputs, **kwargs)
        source = 0
        if joins:
            Join.notify_join_context(self)
            _, source = self._agreed(self.process_group.rank(), syncs)
        else:
            reducer.members = reducer.divisor = self.process_group.size()
        if syncs:
            self._sync_buffers(source)
        reducer.is_listening = syncs
        return self.module(*inputs, **kwargs)

    def _agreed(self, rank: int, syncs: bool) -> tuple[bool, int]:
        """In a `Join`, whether this step exchanges gradients, and the last of those whose numbers are not negative."""
        reducer = self._reducer
        assert reducer is not None
        found = lucid.tensor([int(syncs), rank])
        distributed.all_reduce(found, "max", self.process_group)
        reducer.members = self._join_config.active or self.process_group.size()
        reducer.divisor = self.process_group.size() if self._divides_by_all else reducer.members
        any_syncs, last = found.tolist()
        return bool(any_syncs), last

    def join_hook(self, divide_by_initial_world_size: bool = True, **kwargs: Any) -> JoinHook:
        """What answers for the model in processes that have no more inputs; see `lucid.distributed.Join`."""
        return _Answers(self, divide_by_initial_world_size)

    @property
    def join_process_group(self) -> ProcessGroup:
        """The processes that train the model."""
        return self.process_group

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A `lucid.distributed.Join` of this model alone."""
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def _traced(self, reducer: Reducer, *inputs: Any, **kwargs: Any) -> Any:
        """The same in a program: parameters whose gradients are averaged, by instructions, where they become complete."""
        if self._join_config.enable:
            raise NotImplementedError(
                "DistributedDataParallel: which processes have inputs is known outside of programs only; call the step in a "
                "Join without lucid.compile"
            )
        if self.require_backward_grad_sync:
            self._sync_buffers()
        if not is_grad_enabled():
            return self.module(*inputs, **kwargs)
        reducer.averages_programs = self.require_backward_grad_sync
        with replaced(self.module, reducer.averaging()):
            return self.module(*inputs, **kwargs)

    @no_grad()
    def _sync_buffers(self, source: int = 0) -> None:
        buffers = list(self.module.buffers()) if self.broadcast_buffers else []
        if buffers:
            broadcast_all(buffers, self.process_group, source)

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
