"""What a step of training takes on several processes, by a model of its costs, and which way of dividing it is the best.

A message of V bytes takes α + V/β seconds, of which `measure_machine` measures latency α and bandwidth β. With n processes an
all-reduce takes 2(α log₂ n + (n-1)/n V/β) (recursive halving), a gather or a reduce-scatter half of that. With a step of T seconds on one process
for the whole batch, P bytes of parameters, s values of optimizer state for each, A bytes of values kept for the backward pass
and a boundary of b bytes between layers:

| way | time | memory |
|---|---|---|
| data | T/n + what of the all-reduce of P the backward pass (2/3) does not hide, at least the last bucket | P(2+s) + A/n |
| zero | the same + gather of P | P(2+s/n) + A/n |
| sharded | T/n + 2 gathers of P + reduce-scatter of P | P(2+s)/n + 2 P/L + A/n |
| tensor | T/n + 2 all-reduces of b for each pair of layers | P(2+s)/n + A/n + b |
| pipeline | T/n (1 + (n-1)/m) + 2(m+n-1)(α + b/(mβ)) | P(2+s)/n + A min(n,m)/(nm) |

with L layers and m microbatches.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import Any

from lucid.api import creation
from lucid.autograd.differentiate import backward
from lucid.autograd.graph import saved_tensors_hooks
from lucid.core.tensor import Tensor
from lucid.core.tree import flatten
from lucid.distributed.collectives import all_reduce, barrier
from lucid.distributed.groups import ProcessGroup, chosen

__all__ = ["Choice", "Machine", "Plan", "Workload", "measure_machine", "measure_workload", "plan"]

BUCKET = 1 << 20  # bytes, of DistributedDataParallel
_BACKWARD = 2 / 3  # of the time of a step


@dataclass(frozen=True)
class Machine:
    """What connects processes: `latency` in seconds, `bandwidth` in bytes a second, and how many can compute at once.

    >>> from lucid.distributed import Machine
    >>> Machine(latency=1e-5, bandwidth=1e9).all_reduce(1e9, 2)
    1.00002
    """

    latency: float
    bandwidth: float
    cores: int | None = None  # processes that compute at the same time; all if None
    memory: float = inf  # bytes for each process

    def gather(self, size: float, ranks: int) -> float:
        """Seconds to gather parts that have so many bytes together, or to reduce and scatter them."""
        return ceil(log2(ranks)) * self.latency + (ranks - 1) / ranks * size / self.bandwidth

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds to reduce so many bytes for all."""
        return 2 * self.gather(size, ranks)

    def compute(self, seconds: float, ranks: int) -> float:
        """Seconds that work of one process takes if it is divided evenly."""
        return seconds / min(ranks, self.cores or ranks)


@dataclass(frozen=True)
class Workload:
    """A step of training on one process with the whole batch; sizes are in bytes.

    >>> from lucid.distributed import Workload
    >>> Workload(seconds=1.0, parameters=4e6, activations=1e6, boundary=1e4, layers=8).slots
    2
    """

    seconds: float
    parameters: float
    activations: float  # kept for the backward pass
    boundary: float  # passed on from layer to layer
    layers: int
    slots: int = 2  # values of optimizer state for each parameter: 2 for Adam


@dataclass(frozen=True)
class Choice:
    """One way of dividing a step: its predicted time in seconds, memory of each process in bytes, and efficiency."""

    kind: str
    ranks: int
    seconds: float
    memory: float
    efficiency: float  # of the processes, against one that takes T seconds
    fits: bool

    def __str__(self) -> str:
        note = "" if self.fits else "  does not fit"
        return f"{self.kind:9}{self.seconds * 1e3:10.1f} ms{self.memory / 1e6:11.1f} MB{self.efficiency:8.0%}{note}"


@dataclass(frozen=True)
class Plan:
    """Predictions for all ways of dividing a step, and `best`: the fastest that fits into memory."""

    machine: Machine
    workload: Workload
    choices: tuple[Choice, ...]

    @property
    def best(self) -> Choice:
        """The fastest choice that fits; if none does, the one that needs the least memory."""
        fitting = [c for c in self.choices if c.fits]
        return min(fitting, key=lambda c: c.seconds) if fitting else min(self.choices, key=lambda c: c.memory)

    def __getitem__(self, kind: str) -> Choice:
        return next(c for c in self.choices if c.kind == kind)

    def __str__(self) -> str:
        rows = [f"{'* ' if c is self.best else '  '}{c}" for c in self.choices]
        return "\n".join([f"  {'way':9}{'step':>13}{'memory':>14}{'eff.':>8}", *rows])


def plan(
    model: Any = None,
    ranks: int = 1,
    *,
    sample: Sequence[Any] | None = None,
    machine: Machine | None = None,
    workload: Workload | None = None,
    microbatches: int | None = None,
    kinds: Sequence[str] = ("data", "zero", "sharded", "tensor", "pipeline"),
) -> Plan:
    """Predict the step time, memory and efficiency of ways to divide a training step among processes, and pick one.

    Give a `workload`, or a model and a `sample`: the arguments of a call with the whole batch, which is run here. The
    `machine` is measured between the present processes if it is not given. `microbatches` are those of the pipeline, by
    default four for each process. Tensor parallel is taken to divide pairs of layers.

    >>> from lucid.distributed import Machine, Workload, plan
    >>> step = Workload(seconds=1.0, parameters=4e8, activations=4e8, boundary=4e6, layers=24)
    >>> print(plan(ranks=8, workload=step, machine=Machine(latency=2e-6, bandwidth=1e10, memory=1.2e9)))
      way               step        memory    eff.
      data          125.2 ms     1650.0 MB    100%  does not fit
      zero          160.2 ms      950.0 MB     78%
      sharded       230.4 ms      283.3 MB     54%
    * tensor        142.1 ms      254.0 MB     88%
      pipeline      153.5 ms      212.5 MB     81%
    """
    machine = machine if machine is not None else measure_machine()
    if workload is None:
        if model is None or sample is None:
            raise ValueError("plan: give a workload, or a model and a sample of its arguments to measure one")
        workload = measure_workload(model, sample)
    if ranks < 1:
        raise ValueError(f"plan: ranks must be at least 1, not {ranks}")
    unknown = [k for k in kinds if k not in _WAYS]
    if unknown:
        raise ValueError(f"plan: there is no way {unknown[0]!r}; use some of {', '.join(_WAYS)}")
    parts = microbatches or 4 * ranks
    choices = []
    for kind in kinds:
        seconds, memory = _WAYS[kind](workload, machine, ranks, parts)
        efficiency = workload.seconds / (ranks * seconds) if seconds else 1.0
        choices.append(Choice(kind, ranks, seconds, memory, efficiency, memory <= machine.memory))
    return Plan(machine, workload, tuple(choices))


def _data(w: Workload, machine: Machine, n: int, m: int) -> tuple[float, float]:
    seconds = machine.compute(w.seconds, n)
    buckets = max(1, ceil(w.parameters / BUCKET))
    each = machine.all_reduce(w.parameters / buckets, n)
    shown = max(buckets * each - _BACKWARD * seconds, each) if n > 1 else 0.0
    return seconds + shown, w.parameters * (2 + w.slots) + w.activations / n


def _zero(w: Workload, machine: Machine, n: int, m: int) -> tuple[float, float]:
    seconds, _ = _data(w, machine, n, m)
    return seconds + machine.gather(w.parameters, n), w.parameters * (2 + w.slots / n) + w.activations / n


def _sharded(w: Workload, machine: Machine, n: int, m: int) -> tuple[float, float]:
    unit = w.parameters / w.layers
    exchange = 3 * w.layers * machine.gather(unit, n)
    memory = w.parameters * (2 + w.slots) / n + w.activations / n + (2 * unit if n > 1 else 0.0)
    return machine.compute(w.seconds, n) + exchange, memory


def _tensor(w: Workload, machine: Machine, n: int, m: int) -> tuple[float, float]:
    exchange = 2 * max(1, w.layers // 2) * machine.all_reduce(w.boundary, n)
    memory = w.parameters * (2 + w.slots) / n + w.activations / n + (w.boundary if n > 1 else 0.0)
    return machine.compute(w.seconds, n) + exchange, memory


def _pipeline(w: Workload, machine: Machine, n: int, m: int) -> tuple[float, float]:
    # Each core runs the processes that share it in turn, so that only the wait of those that compute at once is lost.
    stages = min(n, machine.cores or n)
    seconds = machine.compute(w.seconds, n) * (1 + (stages - 1) / m)
    passing = 2 * (m + n - 1) * (machine.latency + w.boundary / m / machine.bandwidth) if n > 1 else 0.0
    return seconds + passing, w.parameters * (2 + w.slots) / n + w.activations * min(n, m) / (n * m)


_WAYS = {"data": _data, "zero": _zero, "sharded": _sharded, "tensor": _tensor, "pipeline": _pipeline}


def measure_machine(
    group: ProcessGroup | None = None, size: int = 1 << 22, rounds: int = 7, cores: int | None = None
) -> Machine:
    """Measure latency and bandwidth between the processes of a group, by all-reduces. All of them call it.

    With one process there is nothing to measure, and messages take no time.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> dist.measure_machine()
    Machine(latency=0.0, bandwidth=inf, cores=None, memory=inf)
    >>> dist.destroy_process_group()
    """
    own = chosen(group)
    n = own.size()
    if n == 1:
        return Machine(0.0, inf, cores)
    small, large = (_timed(own, count, rounds) for count in (8, size // 4))
    latency = small / (2 * ceil(log2(n)))
    slope = max(large - small, 1e-9)
    found = creation.tensor([latency, 2 * (n - 1) / n * size / slope], dtype="float64")
    all_reduce(found, "mean", own)  # all predict the same
    return Machine(float(found[0].item()), float(found[1].item()), cores)


def _timed(group: ProcessGroup, count: int, rounds: int) -> float:
    buffer, times = creation.zeros(count), []
    for _ in range(rounds + 1):
        barrier(group)
        start = time.perf_counter()
        all_reduce(buffer, group=group)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def measure_workload(model: Any, sample: Sequence[Any], slots: int = 2, rounds: int = 3) -> Workload:
    """Measure a step of a model on this process, for the arguments of a call with the whole batch.

    >>> import lucid
    >>> from lucid.distributed import measure_workload
    >>> model = lucid.nn.Sequential(lucid.nn.Linear(4, 8), lucid.nn.ReLU(), lucid.nn.Linear(8, 4))
    >>> work = measure_workload(model, [lucid.ones(2, 4)])
    >>> work.parameters, work.layers, work.boundary
    (304, 2, 32)
    """
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters]
    kept: dict[int, int] = {}
    outputs: list[int] = []
    owned = {p.data_ptr() for p in parameters}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in owned:
            kept[tensor.data_ptr()] = max(kept.get(tensor.data_ptr(), 0), _size(tensor))
        return tensor

    def note(module: Any, args: Any, out: Any) -> None:
        outputs.append(sum(_size(t) for t in flatten(out)[0] if isinstance(t, Tensor)))

    layers = [m for m in model.modules() if any(p.ndim > 1 for p in m.parameters(recurse=False))]
    handles = [layer.register_forward_hook(note) for layer in layers]
    with saved_tensors_hooks(keep, lambda t: t):
        out = model(*sample)
    for handle in handles:
        handle.remove()
    del out
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = [t for t in flatten(model(*sample))[0] if isinstance(t, Tensor) and t.requires_grad]
        backward(found, [creation.ones_like(t) for t in found])
        times.append(time.perf_counter() - start)
    for p, gradient in zip(parameters, gradients, strict=True):
        p.grad = gradient
    return Workload(
        min(times), sum(map(_size, parameters)), sum(kept.values()), min(outputs, default=0),
        max(1, len(layers)), slots,
    )  # fmt: skip


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
