"""Steps of every way of dividing a model among processes, against what `lucid.distributed.plan` predicts of them.

mpirun -n 2 --oversubscribe python -m benchmarks.scaling [--width 256] [--layers 8] [--batch 256] [--json FILE]

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
from lucid.nn import functional as F
from lucid.nn.parallel import DistributedDataParallel, Pipeline, fully_shard, parallelize_module
from lucid.optim import AdamW, ZeroOptimizer


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


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
    yield "tensor", model, AdamW(model.parameters(), lr=1e-3), run
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
    options = reader.parse_args()
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    lucid.manual_seed(1)
    x, y = lucid.rand(options.batch, options.width), lucid.rand(options.batch, options.width)
    machine = dist.measure_machine(cores=os.cpu_count())
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
