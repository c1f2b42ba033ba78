"""Pipeline parallel: each process has some consecutive layers, and parts of the batch follow each other through them.

With S processes and M parts a step takes M + S - 1 turns in place of M, so that a fraction (S - 1) / (M + S - 1) is lost.
"1f1b" keeps at most S parts alive at a time, "gpipe" all M.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lucid
from lucid import Tensor, distributed
from lucid.core import dtypes
from lucid.distributed import ProcessGroup, Work
from lucid.distributed.groups import chosen
from lucid.nn.containers import Sequential
from lucid.nn.module import Module

__all__ = ["Pipeline"]

_ACTIVATION, _GRADIENT = 1, 2  # tags
_MOST = 8  # dimensions of what is passed on


def _turns(schedule: str, stage: int, stages: int, parts: int) -> Iterator[str]:
    """Forward passes "f" and backward passes "b" of one process, in order."""
    ahead = parts if schedule == "gpipe" else min(stages - stage - 1, parts)
    yield from "f" * ahead
    yield from "fb" * (parts - ahead)
    yield from "b" * ahead


class Pipeline(Module):
    """A sequence of layers, divided among the processes of a group.

    All processes make it of the same `Sequential`, and each keeps its layers, in `module`, under their numbers in the whole.
    `step(input, target)` runs a training step and leaves gradients of the mean loss; all processes give the whole batch,
    and get the loss. `balance` says how many layers each has, by default about as many parameters each.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import Pipeline
    >>> dist.init_process_group("single")
    >>> layers = lucid.nn.Sequential(lucid.nn.Linear(2, 3), lucid.nn.Linear(3, 1))
    >>> pipeline = Pipeline(layers, lucid.nn.functional.mse_loss, microbatches=2)
    >>> pipeline.step(lucid.zeros(4, 2), lucid.zeros(4, 1)).shape, layers[0].weight.grad.shape
    ((), (3, 2))
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        layers: Sequential,
        loss: Callable[[Any, Any], Tensor],
        microbatches: int = 4,
        schedule: str = "1f1b",
        balance: Sequence[int] | None = None,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if schedule not in ("1f1b", "gpipe"):
            raise ValueError(f"Pipeline: there is no schedule {schedule!r}; use '1f1b' or 'gpipe'")
        if microbatches < 1:
            raise ValueError(f"Pipeline: microbatches must be at least 1, not {microbatches}")
        self.process_group = group = chosen(process_group)
        self.loss, self.microbatches, self.schedule = loss, microbatches, schedule
        counts = list(balance) if balance is not None else _balanced(layers, group.size())
        if len(counts) != group.size() or sum(counts) != len(layers) or min(counts) < 1:
            raise ValueError(
                f"Pipeline: {len(layers)} layers need {group.size()} positive counts with that sum, not {counts}"
            )
        start = sum(counts[: group.rank()])
        self.module = Sequential()
        for number in range(start, start + counts[group.rank()]):
            self.module.add_module(str(number), layers[number])
        self.most_alive = 0  # parts whose values were kept at once in the last step
        self._forms: dict[tuple[int, int], Tensor] = {}  # what is passed on in a step, by neighbour and tag

    @property
    def is_first(self) -> bool:
        """Whether this process has the first layers."""
        return self.process_group.rank() == 0

    @property
    def is_last(self) -> bool:
        """Whether this process has the last layers."""
        return self.process_group.rank() == self.process_group.size() - 1

    def step(self, input: Tensor, target: Tensor) -> Tensor:
        """Forward and backward of a batch, in parts; returns the mean loss of the parts, in float64, in all processes."""
        if input.shape[0] % self.microbatches:
            raise ValueError(f"Pipeline: a batch of {input.shape[0]} does not divide into {self.microbatches} parts")
        group = self.process_group
        inputs, targets = iter(input.chunk(self.microbatches)), iter(target.chunk(self.microbatches))
        alive: deque[tuple[Tensor, Tensor]] = deque()
        sent: list[tuple[Work, Tensor]] = []
        total = lucid.zeros((), dtype=lucid.float64)
        self.most_alive = 0
        self._forms.clear()
        for turn in _turns(self.schedule, group.rank(), group.size(), self.microbatches):
            if turn == "f":
                x = next(inputs) if self.is_first else self._received(-1, _ACTIVATION).requires_grad_()
                out = self.module(x)
                if self.is_last:
                    out = self.loss(out, next(targets)) / self.microbatches
                    total = total + out.detach()
                else:
                    self._send(out.detach(), 1, _ACTIVATION, sent)
                alive.append((x, out))
                self.most_alive = max(self.most_alive, len(alive))
            else:
                x, out = alive.popleft()
                out.backward(None if self.is_last else self._received(1, _GRADIENT))
                if not self.is_first:
                    assert x.grad is not None
                    self._send(x.grad, -1, _GRADIENT, sent)
        for work, _ in sent:
            work.wait()
        if group.size() > 1:
            distributed.broadcast(total, group=group, group_src=group.size() - 1)
        return total

    @lucid.no_grad()
    def forward(self, input: Tensor) -> Tensor:
        """What the whole sequence computes, in all processes, without recording."""
        group = self.process_group
        sent: list[tuple[Work, Tensor]] = []
        self._forms.clear()
        out = self.module(input if self.is_first else self._received(-1, _ACTIVATION))
        if not self.is_last:
            self._send(out, 1, _ACTIVATION, sent)
        for work, _ in sent:
            work.wait()
        if group.size() == 1:
            return out
        header = _header(out)
        distributed.broadcast(header, group=group, group_src=group.size() - 1)
        out = out.contiguous() if self.is_last else _empty(header)
        distributed.broadcast(out, group=group, group_src=group.size() - 1)
        return out

    def _send(self, tensor: Tensor, step: int, tag: int, sent: list[tuple[Work, Tensor]]) -> None:
        """Pass a tensor on; the first one of a step is announced by its type and shape, which all others have, too."""
        group, to = self.process_group, self.process_group.rank() + step
        header = _header(tensor)
        known = self._forms.setdefault((to, tag), header)
        if known is header:
            sent.append((distributed.isend(header, group=group, group_dst=to, tag=tag), header))
        elif known.tolist() != header.tolist():
            raise ValueError(
                f"Pipeline: a layer gives {tensor.dtype} of shape {tuple(tensor.shape)} for one part of a batch, and not the "
                "same for another"
            )
        value = tensor.detach().contiguous()
        sent.append((distributed.isend(value, group=group, group_dst=to, tag=tag), value))

    def _received(self, step: int, tag: int) -> Tensor:
        group, sender = self.process_group, self.process_group.rank() + step
        known = self._forms.get((sender, tag))
        if known is None:
            known = self._forms[sender, tag] = lucid.zeros(_MOST + 2, dtype=lucid.int64)
            distributed.recv(known, group=group, group_src=sender, tag=tag)
        tensor = _empty(known)
        distributed.recv(tensor, group=group, group_src=sender, tag=tag)
        return tensor


def _header(tensor: Tensor) -> Tensor:
    """The type and shape of a tensor, as numbers."""
    if tensor.ndim > _MOST:
        raise ValueError(f"Pipeline: layers may pass on tensors of at most {_MOST} dimensions, not {tensor.ndim}")
    kind = [k.name for k in dtypes.ALL].index(tensor.dtype.name)
    return lucid.tensor([kind, tensor.ndim, *tensor.shape, *[0] * (_MOST - tensor.ndim)], dtype=lucid.int64)


def _empty(header: Tensor) -> Tensor:
    kind, ndim, *shape = header.tolist()
    return lucid.empty(*shape[:ndim], dtype=dtypes.ALL[kind])


def _balanced(layers: Sequential, parts: int) -> list[int]:
    """How many consecutive layers each process has, for about as many parameters each."""
    if len(layers) < parts:
        raise ValueError(f"Pipeline: {len(layers)} layers do not suffice for {parts} processes")
    sizes = [1 + sum(p.numel() for p in layer.parameters()) for layer in layers]
    # The smallest limit for which consecutive layers fit into so many parts, by bisection.
    low, high = max(sizes), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(sizes, middle)) <= parts else (middle + 1, high)
    counts = _filled(sizes, low)
    while len(counts) < parts:
        widest = counts.index(max(counts))
        counts[widest : widest + 1] = [counts[widest] - 1, 1]
    return counts


def _filled(sizes: Sequence[int], limit: int) -> list[int]:
    counts, room = [0], limit
    for size in sizes:
        if size > room:
            counts.append(0)
            room = limit
        counts[-1] += 1
        room -= size
    return counts
