"""Steps of every way of dividing a model among processes, against what `lucid.distributed.plan` predicts of them.

mpirun -n 2 --oversubscribe python -m benchmarks.scaling [--width 256] [--layers 8] [--batch 256] [--json FILE]
mpirun -n 4 --oversubscribe python -m benchmarks.scaling --slept 0.2 --latency 0.0002 --bandwidth 4e8

In the second form layers sleep in place of computing, so many seconds for a forward pass of the whole batch and twice that
for a backward pass, and exchanges sleep as long as a network of the stated latency and bandwidth takes: the number and the
load of processors do not matter, as if each process had a machine of its own.
Latency and bandwidth are measured first, then the step of one process while the others wait, then each way in turn; times are
the shortest of all rounds. The memory
of a process is that of its parameters, gradients and optimizer state.
"""

import argparse
import json
import os
import time

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.distributed.engines import throttled
from lucid.distributed.engines.mpi import MPIEngine
from lucid.nn import functional as F
from lucid.nn.parallel import DistributedDataParallel, Pipeline, fully_shard, parallelize_module
from lucid.optim import AdamW, ZeroOptimizer


class Network(dist.Throttled):
    """A network in which collectives take as long as by recursive halving."""

    def __init__(self, inner, latency, bandwidth, *, _links=None):
        super().__init__(inner, latency, bandwidth, _links=_links)

    def part(self, ranks, name):
        inner = self.inner.part(ranks, name)
        return None if inner is None else Network(inner, 0, 1, _links=self.links)

    def _delayed(self, inner, nbytes):
        machine = dist.Machine(self.link.latency, self.link.bandwidth)
        with self.link.lock:
            self.link.free = max(self.link.free, time.monotonic()) + machine.gather(nbytes, self.size)
            return throttled._Delayed(inner, self.link.free)

    def all_reduce(self, buffer, op):
        first = super().all_reduce(buffer, op)
        return self._delayed(first, buffer.nbytes)


class Slept(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(2 * ctx.seconds)
        return g, None


class Sleep(nn.Module):
    """Sleeps a time for the whole batch, less for parts of it, and a `share` of that where layers are divided."""

    whole, share, batch = 0.0, 1.0, 1

    def forward(self, x):
        return Slept.apply(x, self.whole * self.share * x.shape[0] / self.batch) if self.whole else x


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.sleep = Sleep()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.sleep(x))))


def made(options):
    lucid.manual_seed(0)
    return nn.Sequential(*[Block(options.width) for _ in range(options.layers)])


def loss_of(out, target):
    return F.mse_loss(out, target)


def ways(options, x, y):
    """For each way: its parameters, its optimizer, and what runs forward and backward."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, wanted = x[rank::size], y[rank::size]

    def simple(model, inputs=mine, targets=wanted):
        return model, lambda: loss_of(model(inputs), targets).backward()

    ddp, run = simple(DistributedDataParallel(made(options)))
    yield "data", ddp, AdamW(ddp.parameters(), lr=1e-3), run
    ddp, run = simple(DistributedDataParallel(made(options)))
    yield "zero", ddp, ZeroOptimizer(ddp.parameters(), AdamW, lr=1e-3), run
    model = made(options)
    for block in model:
        fully_shard(block)
    model, run = simple(model)
    yield "sharded", model, AdamW(model.parameters(), lr=1e-3), run
    model, run = simple(parallelize_module(made(options), None, {"*.up": "column", "*.down": "row"}), x, y)
    Sleep.share = 1 / size
    yield "tensor", model, AdamW(model.parameters(), lr=1e-3), run
    Sleep.share = 1.0
    pipeline = Pipeline(made(options), loss_of, microbatches=4 * size)
    yield "pipeline", pipeline, AdamW(pipeline.parameters(), lr=1e-3), lambda: pipeline.step(x, y)


def timed(optimizer, run, options):
    times = []
    for i in range(options.rounds + 1):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        run()
        optimizer.step()
        dist.barrier()
        if i:
            times.append(time.perf_counter() - start)
    return min(times)


def bytes_of(model, optimizer):
    tensors = [t for p in model.parameters() for t in (p, p.grad) if t is not None]
    state = (optimizer.optim or optimizer).state if isinstance(optimizer, ZeroOptimizer) else optimizer.state
    tensors += [t for entry in state.values() for t in entry.values() if isinstance(t, lucid.Tensor) and t.ndim]
    return sum(t.numel() * t.element_size() for t in tensors)


def main():
    reader = argparse.ArgumentParser()
    for name, value in (("width", 256), ("layers", 8), ("batch", 256), ("rounds", 7)):
        reader.add_argument(f"--{name}", type=int, default=value)
    reader.add_argument("--json", help="a file to which rows are appended")
    for name, value in (("slept", 0.0), ("latency", 0.0), ("bandwidth", 1e12)):
        reader.add_argument(f"--{name}", type=float, default=value)
    options = reader.parse_args()
    Sleep.whole, Sleep.batch = options.slept / options.layers, options.batch
    if options.slept:
        dist.init_process_group(Network(MPIEngine(), options.latency, options.bandwidth))
    else:
        dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    lucid.manual_seed(1)
    x, y = lucid.rand(options.batch, options.width), lucid.rand(options.batch, options.width)
    machine = dist.measure_machine(cores=None if options.slept else os.cpu_count())
    alone = made(options)
    optimizer = AdamW(alone.parameters(), lr=1e-3)
    times = []
    for _ in range(options.rounds if rank == 0 else 0):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(alone(x), y).backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    found = [min(times) if times else 0.0]
    dist.broadcast_object_list(found, src=0)
    measured = dist.measure_workload(alone, [x], rounds=1)
    work = dist.Workload(
        found[0], measured.parameters, measured.activations, measured.boundary, 2 * options.layers, measured.slots
    )
    plan = dist.plan(ranks=size, machine=machine, workload=work, microbatches=4 * size)
    if rank == 0:
        print(f"{size} processes: latency {machine.latency * 1e6:.0f} us, {machine.bandwidth / 1e9:.2f} GB/s, {work}")
    rows = []
    for kind, model, optimizer, run in ways(options, x, y):
        seconds = timed(optimizer, run, options)
        predicted = plan[kind]
        state = bytes_of(model, optimizer)
        rows.append(
            {"kind": kind, "ranks": size, "alone": found[0], "seconds": seconds, "predicted": predicted.seconds,
             "bytes": state, "predicted_bytes": predicted.memory - work.activations / (size if kind != "pipeline" else 1)}
        )  # fmt: skip
        if rank == 0:
            print(
                f"{kind:9} {seconds * 1e3:8.1f} ms, predicted {predicted.seconds * 1e3:8.1f} ms "
                f"({predicted.seconds / seconds:.2f}); {state / 1e6:6.2f} MB of state, predicted {predicted.memory / 1e6:6.2f} "
                "MB with activations"
            )
    if rank == 0 and options.json:
        with open(options.json, "a") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
