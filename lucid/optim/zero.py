"""An optimizer whose state is divided among processes: ZeRO, stage 1."""

from collections.abc import Callable
from typing import Any

import lucid
from lucid import distributed
from lucid.autograd.modes import no_grad
from lucid.core.tensor import Tensor
from lucid.distributed import Join, Joinable, JoinHook, ProcessGroup
from lucid.distributed.groups import chosen
from lucid.optim.optimizer import Closure, Optimizer, Params

__all__ = ["ZeroOptimizer", "ZeroRedundancyOptimizer"]


class _Answers(JoinHook):
    """A process without inputs takes the steps of its part of the parameters."""

    def __init__(self, optimizer: "ZeroOptimizer") -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer.step()


class ZeroOptimizer(Optimizer, Joinable):
    """Another optimizer, of which each process keeps the state of some parameters, and takes their steps for all.

    All processes have the whole model and its averaged gradients, as `DistributedDataParallel` gives them. Parameters are
    dealt out by size, so that each process has about an equal share of the elements; after each step all get the new ones.

    `consolidate_state_dict` brings the whole state to one process, whose `state_dict` then gives it: it has the form of the
    other optimizer's. All of them load it.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> optimizer = lucid.optim.ZeroOptimizer([x], lucid.optim.SGD, lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([0.], requires_grad=True)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Params,
        optimizer_class: Callable[..., Optimizer],
        process_group: ProcessGroup | None = None,
        **defaults: Any,
    ) -> None:
        self.process_group = chosen(process_group)
        self.optim: Optimizer | None = None
        self._whole: dict[str, Any] | None = None
        self._loads = [0] * self.process_group.size()
        self._owners: dict[int, int] = {}
        self._make = optimizer_class
        self._is_made = False
        super().__init__(params, defaults)
        self._is_made = True
        self._take(self.param_groups)

    def _deal(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Deal parameters out, the largest first, each to who has the least; the groups of the own ones."""
        for p in sorted((p for g in groups for p in g["params"]), key=lambda p: -p.numel()):
            owner = self._loads.index(min(self._loads))
            self._loads[owner] += p.numel()
            self._owners[id(p)] = owner
        mine = [{**g, "params": [p for p in g["params"] if self._is_mine(p)]} for g in groups]
        return [g for g in mine if g["params"]]

    def _take(self, groups: list[dict[str, Any]]) -> None:
        """Give the own part of some groups to the local optimizer, and the groups the settings that it has by default."""
        for own in self._deal(groups):
            if self.optim is None:
                self.optim = self._make([own], **self.defaults)
                self.state = self.optim.state
            else:
                self.optim.add_param_group(own)
        for group, local in self._pairs():
            group.update({k: v for k, v in local.items() if k != "params"})

    def _is_mine(self, p: Tensor) -> bool:
        return self._owners[id(p)] == self.process_group.rank()

    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The groups that users see, and those of the local optimizer that have parameters of them."""
        if self.optim is None:
            return []
        mine = [g for g in self.param_groups if any(map(self._is_mine, g["params"]))]
        return list(zip(mine, self.optim.param_groups, strict=True))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, as when layers are unfrozen; those of before stay with who has them. All processes call it."""
        super().add_param_group(param_group)
        if self._is_made:
            self._take(self.param_groups[-1:])

    def step(self, closure: Closure | None = None) -> Any:
        """Update the own parameters, and give all processes the new values of all."""
        Join.notify_join_context(self)
        loss = self._loss(closure)
        for group, local in self._pairs():
            local.update({k: v for k, v in group.items() if k != "params"})
        if self.optim is not None:
            self.optim.step()
        if self.process_group.size() > 1:
            self._exchange()
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What answers for the optimizer in processes that have no more inputs; see `lucid.distributed.Join`."""
        return _Answers(self)

    @property
    def join_process_group(self) -> ProcessGroup:
        """The processes that share the state."""
        return self.process_group

    @no_grad()
    def _exchange(self) -> None:
        group, rank = self.process_group, self.process_group.rank()
        kinds: dict[Any, list[list[Tensor]]] = {}
        for p in (p for g in self.param_groups for p in g["params"]):
            kinds.setdefault(p.dtype, [[] for _ in range(group.size())])[self._owners[id(p)]].append(p)
        for kind, owned in kinds.items():
            parts = [lucid.empty(sum(p.numel() for p in ps), dtype=kind) for ps in owned]
            if owned[rank]:
                parts[rank] = lucid.cat([p.detach().reshape(-1) for p in owned[rank]])
            distributed.all_gather(parts, parts[rank], group)
            for owner, ps in enumerate(owned):
                if owner == rank:
                    continue
                start = 0
                for p in ps:
                    p.detach().copy_(parts[owner][start : start + p.numel()].reshape(p.shape))
                    start += p.numel()

    # Saving and loading.

    def _numbers(self) -> dict[int, int]:
        return {id(p): i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all processes to one of them, given by its rank. All of them call it."""
        group, numbers = self.process_group, self._numbers()
        is_here = group.rank() == group.member(to)
        own = {numbers[id(p)]: dict(entry) for p, entry in self.state.items()}
        parts: list[Any] = [None] * group.size()
        distributed.gather_object(own, parts if is_here else None, dst=to, group=group)
        if not is_here:
            return
        state = {number: entry for part in parts for number, entry in part.items()}
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        self._whole = {"state": dict(sorted(state.items())), "param_groups": groups}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, in the process to which `consolidate_state_dict` has brought it."""
        if self.process_group.size() == 1:
            self.consolidate_state_dict(self.process_group.ranks[0])
        if self._whole is None:
            raise RuntimeError(
                "ZeroOptimizer: each process has a part of the state; have all of them call consolidate_state_dict(to=rank) "
                "first, and then state_dict() on that rank"
            )
        whole, self._whole = self._whole, None
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a whole state: each process keeps its part, whatever number of them saved it."""
        numbers = self._numbers()
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})
        if self.optim is None:
            return
        mine = [p for g in self.optim.param_groups for p in g["params"]]
        state = {
            i: state_dict["state"][numbers[id(p)]] for i, p in enumerate(mine) if numbers[id(p)] in state_dict["state"]
        }
        local, start = [], 0
        for group, own in self._pairs():
            count = len(own["params"])
            local.append(
                {**{k: v for k, v in group.items() if k != "params"}, "params": list(range(start, start + count))}
            )
            start += count
        self.optim.load_state_dict({"state": state, "param_groups": local})
        self.state = self.optim.state


ZeroRedundancyOptimizer = ZeroOptimizer
